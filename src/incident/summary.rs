//! What happened, in plain words.

use std::collections::{BTreeMap, BTreeSet};

use super::clocks::Whose;
use super::trigger::claimed;
use super::{Evidence, HostPart, Incident};
use crate::finding::Finding;
use crate::oom::OomEvent;
use crate::size::bytes;
use crate::time::{NANOS, Timestamp};
use crate::vocabulary::{CoverageLevel, Verdict};

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
    let explained: Vec<&HostPart> = i.hosts.iter().filter(|h| h.trigger.is_some()).collect();
    let mut text = what_failed(e, i);
    match explained.first() {
        Some(_) => {
            let stores = distinct(explained.iter().copied()).len();
            let of_store = |h: &&HostPart| {
                h.trigger
                    .as_ref()
                    .and_then(|t| e.findings.get(t.finding))
                    .is_none_or(|f| f.protocol == Some("tcpstore"))
            };
            let noun = if explained.iter().all(of_store) { "store" } else { "listener" };
            let each = format!("{} {noun} had", if stores == 1 { "its" } else { "each" });
            text.push_str(&format!(" {} {each} been sent {}", earlier(&explained), claims(e, i, &explained)));
            rest(i, &mut text);
        }
        None if i.hosts.iter().all(|h| h.coverage == CoverageLevel::NotObserved) => {
            text.push_str(" No capture shows what reached these hosts before.");
        }
        None if i.hosts.iter().any(|h| h.claims_seen) => {
            text.push_str(" Claims were seen before, and each is ruled out by something: see the reasons.");
        }
        None => text.push_str(" No claim to a listener of theirs was seen before."),
    }
    text
}

/// Hosts by name, each once.
fn distinct<'a>(parts: impl Iterator<Item = &'a HostPart>) -> BTreeSet<&'a str> {
    parts.map(|h| h.host.as_str()).collect()
}

/// Who lost what, and when.
fn what_failed(e: &Evidence<'_>, i: &Incident) -> String {
    let killed = distinct(i.hosts.iter().filter(|h| h.event.is_some()));
    let kills = i.hosts.iter().filter(|h| h.event.is_some()).count();
    let mut lost = distinct(i.hosts.iter().filter(|h| h.event.is_none()));
    lost.retain(|h| !killed.contains(h));
    let (first, last) = (failure(e, i, true), failure(e, i, false));
    let when = if first == last { format!("at {first}") } else { format!("between {first} and {last}") };
    let hosts = |names: &BTreeSet<&str>| match names.len() {
        1 => listed(names),
        n => format!("{n} hosts ({})", listed(names)),
    };
    if killed.is_empty() {
        let (s, verb) = if lost.len() == 1 { ("", "died") } else { ("s", "died") };
        return format!("The listener{s} of {} {verb} {when}; no log tells of a kill.", listed(&lost));
    }
    let what = if kills > killed.len() { format!("{kills} processes") } else { "a process".to_string() };
    let more = match lost.len() {
        0 => String::new(),
        1 => format!(", and {} lost its store (no log tells of a kill there)", listed(&lost)),
        n => format!(", and {n} more ({}) lost their stores (no log tells of kills there)", listed(&lost)),
    };
    format!("{} lost {what} to the OOM killer {when}{more}.", hosts(&killed))
}

/// How long before, no finer than the clocks tell: `28.7 to 57.9 s earlier`, `At most 1.9 s earlier`.
fn earlier(explained: &[&HostPart]) -> String {
    let lags = || explained.iter().filter_map(|h| h.trigger.as_ref());
    let coarse = |t: &&super::Trigger| t.lag_uncertainty >= 0.05;
    let low = lags().map(|t| if coarse(&t) { t.lag - t.lag_uncertainty } else { t.lag }).fold(f64::MAX, f64::min);
    let high = lags().map(|t| if coarse(&t) { t.lag + t.lag_uncertainty } else { t.lag }).fold(0.0, f64::max);
    match (low, high) {
        (low, high) if low < 0.05 => format!("At most {:.1} s earlier", (high * 10.0).ceil() / 10.0),
        (low, high) if high - low < 0.05 => format!("{low:.1} s earlier"),
        (low, high) => format!("{low:.1} to {high:.1} s earlier"),
    }
}

/// What was sent by whom, and how it is read: each claim once, with its hosts where there are several.
fn claims(e: &Evidence<'_>, i: &Incident, explained: &[&HostPart]) -> String {
    let mut by_claim: BTreeMap<(u64, String), (&super::Trigger, &Finding, BTreeSet<&str>)> = BTreeMap::new();
    for h in explained {
        let Some((t, f)) = h.trigger.as_ref().and_then(|t| Some((t, e.findings.get(t.finding)?))) else { continue };
        let slot = by_claim.entry((claimed(t, f), what(f))).or_insert((t, f, BTreeSet::new()));
        slot.2.insert(&h.host);
    }
    let several = by_claim.len() > 1;
    let one = |((claim, what), (t, f, hosts)): (&(u64, String), &(&super::Trigger, &Finding, BTreeSet<&str>))| {
        let effect = f.effects.get(t.effect);
        let reading = effect.and_then(|x| x.query).unwrap_or("a request");
        let dialect = effect.map_or_else(|| "the store".to_string(), |x| readers(f, x));
        let to = if several { format!(" (to {})", listed(hosts)) } else { String::new() };
        let by = if several { String::new() } else { format!(" by {}", who(e, i)) };
        format!("{what}{to}{by}, which {dialect} reads as {reading} with {} to come, and allocates", bytes(*claim))
    };
    let all: Vec<String> = by_claim.iter().map(one).collect();
    let lead = if several { format!("something by {}: ", who(e, i)) } else { String::new() };
    format!("{lead}{}.", all.join("; "))
}

/// What else is to be told: kills without a seen trigger.
fn rest(i: &Incident, text: &mut String) {
    let without = || i.hosts.iter().filter(|h| h.trigger.is_none());
    let inferred = without().filter(|h| h.verdict > Verdict::Unexplained).count();
    if inferred > 0 {
        let s = if inferred == 1 { "" } else { "s" };
        text.push_str(&format!(
            " The trigger{s} of {inferred} more kill{s} {} in no capture.",
            if inferred == 1 { "is" } else { "are" }
        ));
    }
    let rest = without().count() - inferred;
    if rest > 0 {
        text.push_str(&format!(" {rest} of the kills remain{} unexplained.", if rest == 1 { "s" } else { "" }));
    }
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

/// When the first or the last of them failed, no finer than its clock.
fn failure(e: &Evidence<'_>, i: &Incident, first: bool) -> String {
    let time = |h: &HostPart| match h.event.map(|v| &e.events[v]) {
        Some(v) => Some(killed(e, h, v)),
        None => h.died.map(|t| (t, 0)),
    };
    let times = i.hosts.iter().filter_map(time);
    let (at, within) = if first { times.min() } else { times.max() }.unwrap_or((i.start, 0));
    let whole = within >= NANOS / 2 && at.0 % NANOS == 0;
    let fraction = at.fraction_within(if whole { 1.0 } else { within as f64 / 1e9 });
    format!("{}{fraction}Z", at.to_utc().format("%H:%M:%S"))
}

/// The time of a kill and its uncertainty in nanoseconds: that of the log, or, where this is the finer, what trigger and lag say.
fn killed(e: &Evidence<'_>, h: &HostPart, event: &OomEvent) -> (Timestamp, i64) {
    let by_lag = h.trigger.as_ref().and_then(|t| {
        let within = (t.lag_uncertainty * 1e9) as i64;
        let finer = t.lag_uncertainty >= 0.05 && within < event.uncertainty_nanos;
        finer.then_some((e.findings.get(t.finding)?.time.plus_nanos((t.lag * 1e9) as i64), within))
    });
    by_lag.unwrap_or((event.time, event.uncertainty_nanos))
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
            flags.push(if event.time_source.contains("year") && !event.time_source.contains("zone assumed") {
                format!(
                    "--oom {}=LOG: a log of that host whose lines have a year (journalctl -k -o short-iso-precise)",
                    h.host
                )
            } else if event.time_source.contains("boot") {
                format!("--boot {}=TIME: when it booted (`uptime -s` on the host)", h.host)
            } else {
                format!("--log-tz {}=ZONE: the zone of its log", h.host)
            });
        } else if h.verdict < Verdict::Confirmed && e.clocks.of(&h.host).iter().any(|c| c.whose == Whose::Log) {
            flags.push(format!("the clock of {} held against another's (chronyc tracking, or a second log)", h.host));
        }
        if let Some(other) = h.swapped_with.as_deref().filter(|o| *o > h.host.as_str()) {
            let host = &h.host;
            flags.push(format!(
                "the logs of {host} and {other} fit each other's captures: swapped? (--oom {host}=PATH --oom {other}=PATH)"
            ));
        }
        if h.coverage == CoverageLevel::NotObserved && h.trigger.is_none() {
            if e.names.addresses(&h.host).is_empty() {
                flags.push(format!("--hosts FILE: the addresses of {}", h.host));
            } else {
                let held = e.watch.own(e.names, &h.host);
                let before = if held { " that holds the time before the kill" } else { "" };
                flags.push(format!("a capture of {}{before}", h.host));
            }
        }
    }
    flags.sort();
    flags.dedup();
    flags
}
