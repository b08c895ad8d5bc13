//! Why no claim explains a kill: none was seen, or each of those seen is ruled out by something.

use std::collections::BTreeMap;

use super::summary::clock;
use super::trigger::Fit;
use super::{Evidence, kill_of};
use crate::clock::death_misses;
use crate::finding::{Finding, WARNING_BYTES, is_open_claim, largest_claim};
use crate::oom::OomEvent;
use crate::size::{bytes, readings};
use crate::vocabulary::Outcome;

/// Claims before one kill that are looked at.
const LOOKED_AT: usize = 32;

/// What is to be said of the claims that were sent to a host before a kill.
pub(super) struct Before {
    /// Of each kind of reason the latest, and how many there were. Empty: none was seen.
    pub(super) said: Vec<String>,
    /// Some were seen, and the listeners lived on after each of them.
    pub(super) lived: bool,
}

/// Every claim, honoured or refused, by the key of the host it was sent to, in order of time.
#[derive(Debug, Default)]
pub(super) struct ClaimsSent {
    by_host: BTreeMap<String, Vec<usize>>,
}

impl ClaimsSent {
    /// Of all findings, which are in order of time.
    pub(super) fn of(e: &Evidence<'_>) -> ClaimsSent {
        let mut by_host: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, f) in e.findings.iter().enumerate().filter(|(_, f)| is_claim(f)) {
            by_host.entry(e.names.key(&e.host_of(f.target.address))).or_default().push(i);
        }
        ClaimsSent { by_host }
    }

    /// The claims that were sent to a host before a kill.
    pub(super) fn before(&self, e: &Evidence<'_>, host: &str, event: &OomEvent) -> Before {
        let of_host = self.by_host.get(&e.names.key(host)).map(Vec::as_slice).unwrap_or_default();
        let time = |i: &usize| e.findings.get(*i).map_or(i64::MIN, |f| f.time.0);
        let least = event.time.plus_nanos(-((e.max_lag * 1e9) as i64)).0;
        let from = of_host.partition_point(|i| time(i) < least);
        let to = of_host.partition_point(|i| time(i) <= event.time.0.saturating_add(event.uncertainty_nanos));
        let within = of_host.get(from..to).unwrap_or_default();
        let mut kinds: BTreeMap<Why, &Finding> = BTreeMap::new();
        for f in within.iter().rev().take(LOOKED_AT).filter_map(|i| e.findings.get(*i)) {
            kinds.entry(why(e, f, event)).or_insert(f);
        }
        let mut said: Vec<String> = kinds.iter().map(|(why, f)| sentence(e, *why, f, event)).collect();
        if within.len() > kinds.len() && !said.is_empty() {
            said.push(format!("{} claims to it were seen in all in the {:.0} s before", within.len(), e.max_lag));
        }
        let survived = |(why, f): (&Why, &&Finding)| match why {
            Why::Lived => true,
            Why::Refused => e.listener(f.target).and_then(|l| l.lived_on(f.time)) == Some(true),
            _ => false,
        };
        Before { lived: !kinds.is_empty() && kinds.iter().all(survived), said }
    }
}

fn is_claim(f: &Finding) -> bool {
    f.rule == "store-claim-refused"
        || is_open_claim(f)
        || f.rule == "version-mismatch" && largest_claim(f) >= WARNING_BYTES
}

/// What rules a claim out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// The process is smaller than the claim, or much larger.
    Size,
    /// The listener did something afterwards.
    Lived,
    /// Its process died before the kill.
    Died,
    /// The kernel refused it.
    Refused,
    /// Nothing that can be named.
    Unclear,
}

fn why(e: &Evidence<'_>, f: &Finding, event: &OomEvent) -> Why {
    if !is_open_claim(f) {
        return Why::Refused;
    }
    let beside = event.uncertainty_nanos as f64 / 1e9;
    if let Some(l) = e.listener(f.target)
        && let (_, Some(next)) = l.silence_after(f.time)
    {
        let died = l.death_after(f.time).is_some_and(|d| d.time == next);
        if died && death_misses(next, &kill_of(event), event.reaped_at, beside + 1.0) < 0.0 {
            return Why::Died;
        }
        if !died && event.time.seconds_since(next) > beside.max(1.0) {
            return Why::Lived;
        }
    }
    let fit = |x: &crate::finding::Effect| Fit::of(event.total_vm_bytes, x.allocates_bytes.unwrap_or(0));
    let best = f.effects.iter().filter(|x| x.outcome == Outcome::Allocates).map(fit).max();
    if matches!(best, Some(Fit::Contradicts | Fit::Unrelated)) { Why::Size } else { Why::Unclear }
}

fn sentence(e: &Evidence<'_>, why: Why, f: &Finding, event: &OomEvent) -> String {
    let before = event.time.seconds_since(f.time);
    let packet = f.packet.map_or(String::new(), |p| format!(", packet {}", p.number));
    let when = if before < 0.0 { "at the time of the kill".to_string() } else { format!("{before:.1} s before") };
    let declared = f.declared.as_ref().and_then(|d| d.bytes).unwrap_or_else(|| largest_claim(f));
    let claim = format!("a claim of {} to {} was seen {when}{packet}", bytes(declared), f.target);
    let listener = e.listener(f.target);
    let next = listener.and_then(|l| l.silence_after(f.time).1);
    match why {
        Why::Size => {
            let vm = event.total_vm_bytes.unwrap_or(0);
            let process = event.process.as_deref().unwrap_or("the process");
            format!("{claim}; its size contradicts total-vm of {process} ({})", readings(vm))
        }
        Why::Lived => {
            let next = next.map_or(String::new(), |t| format!(" ({})", clock(t)));
            let alone = listener.and_then(|l| l.activity.only_packet(f.time, event.time));
            let alone = alone.map_or(String::new(), |p| {
                format!("; cleared by packet {} alone, which anybody could have forged", p.number)
            });
            format!("{claim}; its listener lived on and was active before the kill{next}{alone}")
        }
        Why::Died => {
            let next = next.map_or(String::new(), |t| format!(" ({})", clock(t)));
            format!("{claim}; its listener was dead before the kill{next}")
        }
        Why::Refused if listener.and_then(|l| l.lived_on(f.time)) == Some(true) => {
            format!("{claim}; it was refused, and its listener lived on")
        }
        Why::Refused => format!("{claim}; it was refused"),
        Why::Unclear => format!("{claim}; nothing else ties it to this kill"),
    }
}
