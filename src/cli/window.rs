//! Which part of a report of a case or of evidence is wanted: a time, hosts. What is told of it is what the whole report
//! tells.

use std::collections::BTreeSet;

use super::args;
use crate::names::short;
use crate::report::model::Report;
use crate::time::Timestamp;

/// The flags.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Selection")]
pub(super) struct WindowArgs {
    /// Only what happened at this time or later
    #[arg(long, value_name = "TIME", value_parser = args::instant)]
    since: Option<Timestamp>,
    /// Only what happened at this time or earlier
    #[arg(long, value_name = "TIME", value_parser = args::instant)]
    until: Option<Timestamp>,
    /// Only this host's kills, and what was sent to it (may repeat)
    #[arg(long, value_name = "ADDRESS|NAME")]
    host: Vec<String>,
}

/// A part of a report.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Nothing before it.
    pub(super) since: Option<Timestamp>,
    /// Nothing after it.
    pub(super) until: Option<Timestamp>,
    /// Of these hosts only, by name or address; of all if empty.
    pub(super) host: Vec<String>,
}

impl WindowArgs {
    /// Whether a part is wanted only.
    pub(super) fn is_any(&self) -> bool {
        self.since.is_some() || self.until.is_some() || !self.host.is_empty()
    }

    /// Leaves out the rest, and says so.
    pub(super) fn keep(&self, report: &mut Report) {
        if !self.is_any() {
            return;
        }
        Window { since: self.since, until: self.until, host: self.host.clone() }.keep(report);
        if let Some(since) = self.since {
            report.notes.push(format!("what happened before {since} is left out (--since)"));
        }
        if let Some(until) = self.until {
            report.notes.push(format!("what happened after {until} is left out (--until)"));
        }
        if !self.host.is_empty() {
            report.notes.push("what concerns other hosts alone is left out (--host)".to_string());
        }
    }
}

impl Window {
    fn holds(&self, from: Option<Timestamp>, to: Option<Timestamp>) -> bool {
        self.since.is_none_or(|s| to.or(from).is_none_or(|t| t >= s))
            && self.until.is_none_or(|u| from.or(to).is_none_or(|t| t <= u))
    }

    fn means(&self, host: Option<&str>, address: Option<&str>) -> bool {
        let is =
            |wanted: &String| host.is_some_and(|h| short(h) == short(wanted)) || address.is_some_and(|a| a == wanted);
        self.host.is_empty() || self.host.iter().any(is)
    }

    /// Leaves out the rest, but for what an incident that is told rests on: an incident is told whole or not at all.
    pub(super) fn keep(&self, report: &mut Report) {
        report.incidents.retain(|i| {
            let hosts = || i.hosts.iter().any(|h| self.means(Some(&h.host), h.address.as_deref()));
            self.holds(i.start, i.end) && (self.host.is_empty() || hosts())
        });
        let hosts = || report.incidents.iter().flat_map(|i| &i.hosts);
        let triggers: BTreeSet<String> = hosts().filter_map(|h| h.trigger.clone()).collect();
        let kills: BTreeSet<String> = hosts().filter_map(|h| h.oom_event.clone()).collect();
        report.findings.retain(|f| {
            let target = f.target.as_ref();
            let meant = self.means(target.and_then(|t| t.host.as_deref()), target.map(|t| t.address.as_str()));
            triggers.contains(&f.id) || self.holds(f.time, f.time) && meant
        });
        report
            .oom_events
            .retain(|e| kills.contains(&e.id) || self.holds(e.time, e.time) && self.means(e.host.as_deref(), None));
        let findings: BTreeSet<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
        for s in &mut report.scans {
            s.findings.retain(|f| findings.contains(f.as_str()));
        }
        report.scans.retain(|s| self.holds(s.first, s.last) && (self.host.is_empty() || !s.findings.is_empty()));
    }
}
