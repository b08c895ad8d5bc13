//! Which claim set a kill off.

use std::collections::BTreeMap;

use super::Evidence;
use crate::finding::Finding;
use crate::finding::fate::{is_open_claim, largest_claim};
use crate::oom::OomEvent;
use crate::words::Outcome;

/// A process that holds a claim and nothing unusual besides has at most this much address space more: the CUDA
/// driver alone reserves tens of gigabytes in every process that uses it.
const BESIDES_BYTES: u64 = 128 << 30;

/// How a kill line's total-vm stands against a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    /// The process was smaller than the claim: it never got it.
    Contradicts,
    /// The process was so much larger than the claim that the claim explains nothing.
    Unrelated,
    /// The line has no figure, or one that neither fits nor contradicts: the process was much larger than the claim, but the
    /// claim was a good part of it.
    Unknown,
    /// The claim and an ordinary process besides.
    Fits,
}

impl Fit {
    /// Of `total_vm` bytes against a claim of `claim` bytes.
    pub fn of(total_vm: Option<u64>, claim: u64) -> Fit {
        match total_vm {
            None => Fit::Unknown,
            Some(vm) if vm < claim => Fit::Contradicts,
            Some(vm) if claim < (vm - claim) / 4 => Fit::Unrelated,
            Some(vm) if vm - claim <= BESIDES_BYTES => Fit::Fits,
            Some(_) => Fit::Unknown,
        }
    }
}

/// A claim held to have set a kill off.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// Index of the finding.
    pub finding: usize,
    /// Index of the effect, among the finding's, that the kill agrees with best.
    pub effect: usize,
    /// How its allocation stands against total-vm.
    pub fit: Fit,
    /// Whether total-vm chose among several readings.
    pub selected: bool,
    /// Seconds from the claim to the kill.
    pub lag: f64,
    /// How sure that is.
    pub lag_uncertainty: f64,
}

/// The trigger of a kill: on the same host, before it, at most `max_lag` before it, with an effect that a candidate
/// server really has and that total-vm does not contradict. Of several the one that fits best, then the earliest: after
/// a claim that is honoured the server reads no more.
pub fn trigger_of(e: &Evidence<'_>, claims: &Claims, event: &OomEvent) -> Option<Trigger> {
    let claims = claims.by_host.get(&e.names.key(event.host.as_deref()?))?;
    // Claims are in order of time.
    let lag = |i: &usize| e.findings.get(*i).map_or(f64::MIN, |f| event.time.seconds_since(f.time));
    let recent = claims.get(claims.partition_point(|i| lag(i) > e.max_lag)..).unwrap_or_default();
    let mut best: Option<Trigger> = None;
    for i in recent {
        if let Some(t) = e.findings.get(*i).and_then(|f| against(e, *i, f, event)) {
            let better = best.as_ref().is_none_or(|b| t.fit > b.fit);
            if better {
                best = Some(t);
            }
            if best.as_ref().is_some_and(|b| b.fit == Fit::Fits) {
                break;
            }
        }
    }
    best
}

/// Open claims by the host they were sent to: a search of all findings for each kill takes minutes where an attacker
/// sends thousands of claims and thousands of hosts fail.
#[derive(Debug, Default)]
pub struct Claims {
    /// Indices of findings, ascending, by the key of the host's name.
    by_host: BTreeMap<String, Vec<usize>>,
}

impl Claims {
    /// The open claims among the findings.
    pub fn of(e: &Evidence<'_>) -> Claims {
        let mut by_host: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, f) in e.findings.iter().enumerate().filter(|(_, f)| is_open_claim(f)) {
            if let Some(host) = e.names.host(f.target.address) {
                by_host.entry(e.names.key(host)).or_default().push(i);
            }
        }
        Claims { by_host }
    }
}

fn against(e: &Evidence<'_>, index: usize, f: &Finding, event: &OomEvent) -> Option<Trigger> {
    let lag = event.time.seconds_since(f.time);
    let uncertainty = event.uncertainty_nanos as f64 / 1e9;
    if lag < -uncertainty || lag > e.max_lag {
        return None;
    }
    // Nothing the server did between the claim and the kill may show that it still served; and where it died of something
    // else before the kill, the claim went with it.
    if let Some(l) = e.listener(f.target)
        && let (_, Some(next)) = l.silence_after(f.time)
    {
        let before_the_kill = event.time.seconds_since(next);
        let died = l.death_after(f.time).is_some_and(|d| d.time == next);
        let slack = if died { super::group::DEATH_SECONDS } else { 1.0 };
        if before_the_kill > uncertainty.max(slack) {
            return None;
        }
    }
    let readings = f.effects.iter().enumerate().filter(|(_, x)| x.outcome == Outcome::Allocates);
    let (effect, fit) = readings
        .map(|(i, x)| (i, Fit::of(event.total_vm_bytes, x.allocates_bytes.unwrap_or(0))))
        .max_by_key(|(i, fit)| (*fit, std::cmp::Reverse(*i)))?;
    if matches!(fit, Fit::Contradicts | Fit::Unrelated) {
        return None;
    }
    let same = |a: usize| {
        let (x, y) = (&f.effects[a], &f.effects[effect]);
        (x.outcome, x.allocates_bytes) == (y.outcome, y.allocates_bytes)
    };
    let selected = fit == Fit::Fits && !(0..f.effects.len()).all(same);
    Some(Trigger { finding: index, effect, fit, selected, lag, lag_uncertainty: uncertainty })
}

/// The claim of a trigger, in bytes: of the reading that holds.
pub(crate) fn claimed(t: &Trigger, f: &Finding) -> u64 {
    f.effects.get(t.effect).and_then(|e| e.allocates_bytes).unwrap_or_else(|| largest_claim(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_vm_is_the_claim_and_a_process_besides() {
        let vm = Some(941_138_648 * 1024);
        assert_eq!(Fit::of(vm, 962_696_183_808), Fit::Fits);
        assert_eq!(Fit::of(vm, 962_696_183_808 * 8), Fit::Contradicts);
        assert_eq!(Fit::of(vm, 268_435_468), Fit::Unrelated);
        assert_eq!(Fit::of(None, 1), Fit::Unknown);
        // A driver that maps all of a host's memory: a part of the process, and no proof.
        assert_eq!(Fit::of(Some(1_715_861_359_616), 962_696_183_808), Fit::Unknown);
        // A job of 100 GB that was sent 256 MiB did not die of these.
        assert_eq!(Fit::of(Some(100 << 30), 256 << 20), Fit::Unrelated);
    }
}
