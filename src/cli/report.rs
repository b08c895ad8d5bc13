//! `rdzvscope report`: reports from a case file.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args;
use super::exit::Exit;
use super::flags::{JoinArgs, StatusArgs};
use super::output::OutputArgs;
use super::site_facts::SiteFacts;
use crate::analysis::{Analysis, Stored, analyze_stored};
use crate::case::{Case, Mode};
use crate::evidence::FactSet;
use crate::report::model::Report;
use crate::time::Timestamp;

/// Arguments of `report`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Any report from a case file",
    after_help = "Examples:
  rdzvscope report --case case.db
  rdzvscope report --case case.db --since 2026-11-29T00:00:00Z --format html -o night.html

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct Args {
    /// The case file
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// Only what happened at this time or later
    #[arg(long, value_name = "TIME", value_parser = args::instant)]
    since: Option<Timestamp>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Debug)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) status: StatusArgs,
    #[command(flatten)]
    pub(super) join: JoinArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs `report`.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let case = Case::open(&a.case, Mode::Read)?;
    let mut stored = case.load()?;
    let setup = SiteFacts::of_evidence(&stored.setups)?.join(SiteFacts::of_case(&case)?).join(a.common.join.setup());
    let options = a.common.join.options(&setup, arguments)?;
    a.common.add_hosts(&mut stored)?;
    let mut analysis = analyze_stored(&options, stored).analysis;
    if let Some(since) = a.since {
        keep_since(&mut analysis.report, since);
    }
    tell_of_withheld(std::slice::from_ref(&a.case), &mut analysis.report)?;
    earlier_nights(&case, &mut analysis.report)?;
    let facts = if a.since.is_none() && a.common.output.is_evidence() { case.pile()? } else { FactSet::default() };
    a.common.finish(&analysis, &facts, false)
}

/// What was no alert stands in the report all the same: it says so.
fn tell_of_withheld(cases: &[PathBuf], report: &mut Report) -> anyhow::Result<()> {
    for path in cases {
        for w in Case::open(path, Mode::Read)?.withheld()? {
            let plural = if w.count == 1 { "alert was" } else { "alerts were" };
            report.notes.push(format!("{} {plural} withheld by {} ({})", w.count, w.entry, w.reason));
        }
    }
    Ok(())
}

/// What the case remembers of a source's earlier nights.
fn earlier_nights(case: &Case, report: &mut Report) -> anyhow::Result<()> {
    for scan in &report.scans {
        let Some(time) = scan.last.or(scan.first) else { continue };
        let seen = case.earlier_nights(&scan.source.address, scan.tool.as_deref().unwrap_or_default(), time)?;
        if seen.nights > 0 {
            let label = scan.source.label.as_ref().map(|l| format!(" ({l})")).unwrap_or_default();
            let with = scan.tool.as_ref().map(|t| format!(" with {t}")).unwrap_or_default();
            let nights = if seen.nights == 1 { "an earlier night" } else { &format!("{} earlier nights", seen.nights) };
            let shown = seen.dates.join(", ");
            let last = if seen.nights > seen.dates.len() as u64 { "the last of them " } else { "" };
            let source = &scan.source.address;
            report.notes.push(format!("{source}{label} came{with} at this hour on {nights} too: {last}{shown}."));
        }
    }
    Ok(())
}

impl Common {
    /// Adds the lists that `--hosts` names.
    pub(super) fn add_hosts(&self, stored: &mut Stored) -> anyhow::Result<()> {
        for path in &self.join.clocks.hosts {
            let content = std::fs::read(path).map_err(|e| anyhow::anyhow!("{}: cannot read: {e}", path.display()))?;
            stored.hosts.push((path.clone(), content));
        }
        stored.hosts.sort();
        Ok(())
    }

    /// Writes the report; the exit status.
    pub(super) fn finish(&self, analysis: &Analysis, facts: &FactSet, trouble: bool) -> anyhow::Result<Exit> {
        self.output.write_with(&analysis.report, facts, self.output.redact.veil()?.as_ref())?;
        Ok(self.status.exit(&analysis.report, trouble || analysis.trouble, false, false))
    }
}

/// Leaves out what happened earlier, but for what an incident that is told rests on.
fn keep_since(report: &mut Report, since: Timestamp) {
    report.incidents.retain(|i| i.end.or(i.start).is_none_or(|t| t >= since));
    let hosts = || report.incidents.iter().flat_map(|i| &i.hosts);
    let triggers: std::collections::BTreeSet<String> = hosts().filter_map(|h| h.trigger.clone()).collect();
    let kills: std::collections::BTreeSet<String> = hosts().filter_map(|h| h.oom_event.clone()).collect();
    report.findings.retain(|f| f.time.is_none_or(|t| t >= since) || triggers.contains(&f.id));
    report.oom_events.retain(|e| e.time.is_none_or(|t| t >= since) || kills.contains(&e.id));
    let findings: std::collections::BTreeSet<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
    for s in &mut report.scans {
        s.findings.retain(|f| findings.contains(f.as_str()));
    }
    report.scans.retain(|s| s.last.is_none_or(|t| t >= since));
    report.notes.push(format!("what happened before {since} is left out (--since)"));
}
