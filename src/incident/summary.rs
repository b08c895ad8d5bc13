//! What happened, in plain words.

use std::collections::BTreeSet;

use super::clocks::Whose;
use super::trigger::claimed;
use super::{Evidence, HostPart, Incident};
use crate::finding::Finding;
use crate::size::bytes;
use crate::time::Timestamp;
use crate::vocabulary::{CoverageLevel, Scope, Verdict};

/// A time of day in UTC with microseconds.
pub(crate) fn clock(t: Timestamp) -> String {
    t.to_utc().format("%H:%M:%S%.6fZ").to_string()
}

fn listed(names: &BTreeSet<&str>) -> String {
    let all: Vec<&str> = names.iter().copied().collect();
    match all.as_slice() {
        [] => String::new(),
        [one] => (*one).to_string(),
        [head @ .., last] if all.len() <= 6 => format!("{} and {last}", head.join(", ")),
        [a, b, c, ..] => format!("{a}, {b}, {c} and {} more", all.len() - 3),
        _ => all.join(" and "),
    }
}

/// The sentence or three that begin a report.
pub(crate) fn summary(e: &Evidence<'_>, i: &Incident) -> String {
    let hosts: BTreeSet<&str> = i.hosts.iter().map(|h| h.host.as_str()).collect();
    let explained: Vec<&HostPart> = i.hosts.iter().filter(|h| h.trigger.is_some()).collect();
    let killed = i.hosts.iter().any(|h| h.event.is_some());
    let mut text = match (i.scope, killed) {
        (Scope::Synchronized, true) => format!(
            "{} hosts ({}) lost a process to the OOM killer between {} and {}.",
            hosts.len(),
            listed(&hosts),
            clock(failure(e, i, true)),
            clock(failure(e, i, false))
        ),
        (Scope::SingleHost, true) => {
            format!("{} lost a process to the OOM killer at {}.", listed(&hosts), clock(failure(e, i, true)))
        }
        (Scope::Synchronized, false) => format!(
            "The listeners of {} died between {} and {}; no log tells of a kill.",
            listed(&hosts),
            clock(failure(e, i, true)),
            clock(failure(e, i, false))
        ),
        (Scope::SingleHost, false) => {
            format!(
                "The listener of {} died at {}; no log tells of a kill.",
                listed(&hosts),
                clock(failure(e, i, true))
            )
        }
    };
    let first = explained
        .iter()
        .filter_map(|h| h.trigger.as_ref())
        .map(|t| (t, &e.findings[t.finding]))
        .min_by_key(|(_, f)| f.time);
    match first {
        Some((t, f)) => {
            let lags: Vec<f64> = explained.iter().filter_map(|h| h.trigger.as_ref()).map(|t| t.lag).collect();
            let (low, high) = (lags.iter().copied().fold(f64::MAX, f64::min), lags.iter().copied().fold(0.0, f64::max));
            let when = if lags.len() == 1 { format!("{low:.1} s") } else { format!("{low:.1} to {high:.1} s") };
            let each = if explained.len() == 1 { "its store had" } else { "each store had" };
            text.push_str(&format!(" {when} earlier {each} been sent {} by {}", what(f), who(e, i)));
            let effect = f.effects.get(t.effect);
            let reading = effect.and_then(|x| x.query).unwrap_or("a request");
            let dialect = effect.map_or_else(|| "the store".to_string(), |x| readers(f, x));
            text.push_str(&format!(
                ", which {dialect} reads as {reading} with {} to come, and allocates.",
                bytes(claimed(t, f))
            ));
            let rest = i.hosts.len() - explained.len();
            if rest > 0 {
                text.push_str(&format!(" {rest} of the kills remain{} unexplained.", if rest == 1 { "s" } else { "" }));
            }
        }
        None if i.hosts.iter().all(|h| h.coverage == CoverageLevel::NotObserved) => {
            text.push_str(" No capture shows what reached these hosts before.");
        }
        None => text.push_str(" No claim to a listener of theirs was seen before."),
    }
    text
}

/// The releases that read a finding as `effect` does: `PyTorch 1.9-2.0`, `PyTorch 1.9-2.0 or 2.1`.
fn readers(f: &Finding, effect: &crate::finding::Effect) -> String {
    let mut releases: Vec<&str> = f
        .effects
        .iter()
        .filter(|x| (x.query, x.allocates_bytes) == (effect.query, effect.allocates_bytes))
        .map(|x| x.dialect.releases())
        .collect();
    releases.dedup();
    let short: Vec<&str> = releases.iter().map(|r| r.strip_prefix("PyTorch ").unwrap_or(r)).collect();
    format!("PyTorch {}", short.join(" or "))
}

fn failure(e: &Evidence<'_>, i: &Incident, first: bool) -> Timestamp {
    let times = i.hosts.iter().filter_map(|h| h.event.map(|v| e.events[v].time).or(h.died));
    if first { times.min() } else { times.max() }.unwrap_or(i.start)
}

fn what(f: &Finding) -> String {
    match &f.stray {
        Some(s) => match (s.tool, s.probe) {
            (Some(tool), Some(probe)) => format!("{tool}'s {probe} probe ({})", s.protocol),
            _ => format!("bytes of {}", s.protocol),
        },
        None => "a malformed request".to_string(),
    }
}

fn who(e: &Evidence<'_>, i: &Incident) -> String {
    match i.source {
        Some(a) => match e.names.host(a) {
            Some(name) if name != a.to_string() => format!("{a} ({name})"),
            _ => a.to_string(),
        },
        None => "several sources".to_string(),
    }
}

/// The flags that would settle what the verdict assumes.
pub(crate) fn settled_by(e: &Evidence<'_>, i: &Incident) -> Vec<String> {
    let mut flags = Vec::new();
    for h in &i.hosts {
        let Some(event) = h.event.map(|v| &e.events[v]) else {
            flags.push(format!("--oom {}=LOG: the kernel log of that host", h.host));
            continue;
        };
        if event.time_is_assumed && h.verdict < Verdict::Confirmed {
            flags.push(if event.time_source.contains("boot") {
                format!("--boot {}=TIME: when it booted (`uptime -s` on the host)", h.host)
            } else {
                format!("--log-tz {}=ZONE: the zone of its log", h.host)
            });
        } else if h.verdict < Verdict::Confirmed && e.clocks.of(&h.host).iter().any(|c| c.whose == Whose::Log) {
            flags.push(format!("the clock of {} held against another's (chronyc tracking, or a second log)", h.host));
        }
        if h.coverage == CoverageLevel::NotObserved && h.trigger.is_none() {
            if e.names.addresses(&h.host).is_empty() {
                flags.push(format!("--hosts FILE: the addresses of {}", h.host));
            } else {
                flags.push(format!("a capture of {}", h.host));
            }
        }
    }
    flags.sort();
    flags.dedup();
    flags
}
