//! Which claim set a kill off.

use std::collections::BTreeMap;

use super::merge_sort_tree::MergeSortTree;
use super::{Evidence, kill_of};
use crate::clock::death_misses;
use crate::finding::{Finding, WARNING_BYTES, is_open_claim, largest_claim};
use crate::net::Endpoint;
use crate::oom::{OomEvent, OomKind};
use crate::protocol::listener::Listener;
use crate::time::Timestamp;
use crate::vocabulary::Outcome;

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

    /// The least and the largest claim that a process of `total_vm` bytes fits; all, where its size is not known.
    pub(crate) fn sizes(total_vm: Option<u64>) -> (u64, u64) {
        let Some(vm) = total_vm else { return (0, u64::MAX) };
        // What fits, fits all the better the nearer it is to total-vm.
        let (mut no, mut yes) = (vm.saturating_sub(BESIDES_BYTES), vm);
        if Fit::of(total_vm, no) == Fit::Fits {
            return (no, vm);
        }
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if Fit::of(total_vm, middle) == Fit::Fits { yes = middle } else { no = middle }
        }
        (yes, vm)
    }

    /// The least and the largest claim that a process of `total_vm` bytes does not rule out.
    pub(crate) fn possible_sizes(total_vm: Option<u64>) -> (u64, u64) {
        let Some(vm) = total_vm else { return (0, u64::MAX) };
        // A fifth of it, but for what integers round away.
        let least = (vm / 5).saturating_sub(4);
        let least = (least..=vm).take(16).find(|c| Fit::of(total_vm, *c) != Fit::Unrelated).unwrap_or(vm);
        (least, vm)
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
    /// The claim is small against the process, which stood at the limit of its cgroup: it was the last straw.
    pub at_limit: bool,
    /// Seconds from the claim to the kill.
    pub lag: f64,
    /// How sure that is.
    pub lag_uncertainty: f64,
}

/// The trigger of a kill: on the same host, before it, at most `max_lag` before it, with an effect that a candidate
/// server really has and that total-vm does not contradict. Of several the one that fits best, then the earliest: after
/// a claim that is honoured the server reads no more.
pub fn trigger_of(e: &Evidence<'_>, claims: &Claims, event: &OomEvent) -> Option<Trigger> {
    let of_host = claims.by_host.get(&e.names.key(event.host.as_deref()?))?;
    let fits = Fit::sizes(event.total_vm_bytes);
    let possible = Fit::possible_sizes(event.total_vm_bytes);
    // What explains all of the process comes first; then what may explain it; then what pushed it over its limit.
    first_of(e, of_host, event, fits, usize::MAX)
        .or_else(|| first_of(e, of_host, event, possible, usize::MAX))
        .or_else(|| first_of(e, of_host, event, (WARNING_BYTES, possible.0.checked_sub(1)?), LAST_STRAWS))
}

/// Whether a kill was at the limit of a cgroup that could not hold so many bytes more than the process had: the process held
/// what the limit leaves, less what it was still to be given. Where no line tells the limit, the kernel's word for it counts.
fn at_limit(event: &OomEvent, claim: u64) -> bool {
    let held = [event.anon_rss_bytes, event.file_rss_bytes, event.shmem_rss_bytes];
    let held = held.iter().flatten().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let full = |limit: u64| held.saturating_add(claim) >= limit - limit / 16 && claim >= limit / 256;
    event.kind == OomKind::Cgroup && event.limit_bytes.is_none_or(full)
}

/// Claims of one listener that are looked at as the last straw of one kill.
const LAST_STRAWS: usize = 64;

/// The earliest claim of these sizes that holds.
fn first_of(
    e: &Evidence<'_>,
    of_host: &BTreeMap<Endpoint, ToListener>,
    event: &OomEvent,
    sizes: (u64, u64),
    tries: usize,
) -> Option<Trigger> {
    let uncertainty = event.uncertainty_nanos as f64 / 1e9;
    let mut best: Option<Trigger> = None;
    for (target, claims) in of_host {
        // Claims are in order of time, and each of these bounds holds from one of them on.
        let time = |i: &usize| e.findings.get(*i).map_or(Timestamp::MIN, |f| f.time);
        let listener = e.listener(*target);
        let early = |i: &usize| {
            let t = time(i);
            event.time.seconds_since(t) > e.max_lag || listener.is_some_and(|l| served(l, t, event))
        };
        let mut from = claims.findings.partition_point(early);
        let to = claims.findings.partition_point(|i| event.time.seconds_since(time(i)) >= -uncertainty);
        for _ in 0..tries {
            let Some(at) = claims.sizes.first(from, to, sizes) else { break };
            let Some(index) = claims.findings.get(at).copied() else { break };
            if best.as_ref().is_some_and(|b| b.finding <= index) {
                break;
            }
            if let Some(t) = e.findings.get(index).and_then(|f| against(e, index, f, event)) {
                best = Some(t);
                break;
            }
            from = at + 1;
        }
    }
    best
}

/// Whether the listener did anything between a claim at `time` and long before a kill: then that claim held nothing, and no
/// earlier one did. [`against`] looks closer.
fn served(l: &Listener, time: Timestamp, event: &OomEvent) -> bool {
    let uncertainty = event.uncertainty_nanos as f64 / 1e9;
    let (_, next) = l.silence_after(time);
    next.is_some_and(|n| event.time.seconds_since(n) > uncertainty.max(super::group::DEATH_SECONDS))
        || of_another_life(l, time, event)
}

/// Whether what a claim at `time` reached had ended before the kill, and another process listened in its place.
fn of_another_life(l: &Listener, time: Timestamp, event: &OomEvent) -> bool {
    l.restarted_after(time).is_some_and(|t| t <= event.time.plus_nanos(-event.uncertainty_nanos))
}

/// Open claims by the host they were sent to: a search of all findings for each kill takes minutes where an attacker
/// sends thousands of claims and thousands of hosts fail.
#[derive(Debug, Default)]
pub struct Claims {
    /// By the key of the host's name, then by listener.
    by_host: BTreeMap<String, BTreeMap<Endpoint, ToListener>>,
}

/// The open claims to one listener in order of time: a place for each reading of each.
#[derive(Debug, Default)]
struct ToListener {
    /// Indices of findings.
    findings: Vec<usize>,
    /// What each would allocate, in bytes.
    sizes: MergeSortTree,
}

impl Claims {
    /// The open claims among the findings, which are in order of time.
    pub fn of(e: &Evidence<'_>) -> Claims {
        let mut places: BTreeMap<Endpoint, Vec<(usize, u64)>> = BTreeMap::new();
        for (i, f) in e.findings.iter().enumerate().filter(|(_, f)| is_open_claim(f)) {
            let all = places.entry(f.target).or_default();
            let from = all.len();
            for x in f.effects.iter().filter(|x| x.outcome == Outcome::Allocates) {
                let place = (i, x.allocates_bytes.unwrap_or(0));
                if !all.get(from..).is_some_and(|new| new.contains(&place)) {
                    all.push(place);
                }
            }
        }
        let mut by_host: BTreeMap<String, BTreeMap<Endpoint, ToListener>> = BTreeMap::new();
        for (target, places) in places {
            if let Some(host) = e.names.host(target.address) {
                let (findings, sizes) = places.into_iter().unzip();
                let claims = ToListener { findings, sizes: MergeSortTree::new(sizes) };
                by_host.entry(e.names.key(host)).or_default().insert(target, claims);
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
    let listener = e.listener(f.target);
    // Nothing the server did between the claim and the kill may show that it still served; and where it died of something
    // else before the kill, the claim went with it.
    let mut died = None;
    if let Some(l) = listener
        && let (_, Some(next)) = l.silence_after(f.time)
    {
        died = l.death_after(f.time).map(|d| d.time).filter(|d| *d == next);
        let slack = if died.is_some() { super::group::DEATH_SECONDS } else { 1.0 };
        if event.time.seconds_since(next) > uncertainty.max(slack) || of_another_life(l, f.time, event) {
            return None;
        }
    }
    let readings = f.effects.iter().enumerate().filter(|(_, x)| x.outcome == Outcome::Allocates);
    let (effect, fit) = readings
        .map(|(i, x)| (i, Fit::of(event.total_vm_bytes, x.allocates_bytes.unwrap_or(0))))
        .max_by_key(|(i, fit)| (*fit, std::cmp::Reverse(*i)))?;
    let claim = f.effects.get(effect).and_then(|x| x.allocates_bytes).unwrap_or(0);
    let at_limit = fit == Fit::Unrelated
        && claim >= WARNING_BYTES
        && at_limit(event, claim)
        && died.is_some_and(|d| death_misses(d, &kill_of(event), event.reaped_at, uncertainty) == 0.0);
    if fit == Fit::Contradicts || fit == Fit::Unrelated && !at_limit {
        return None;
    }
    let same = |a: usize| {
        let (x, y) = (&f.effects[a], &f.effects[effect]);
        (x.outcome, x.allocates_bytes) == (y.outcome, y.allocates_bytes)
    };
    let selected = fit == Fit::Fits && !(0..f.effects.len()).all(same);
    let (lag, lag_uncertainty) = bounded(lag, uncertainty, died.map(|d| d.seconds_since(f.time)));
    Some(Trigger { finding: index, effect, fit, selected, at_limit, lag, lag_uncertainty })
}

/// The time from a claim to the kill, and how far it may be off. Where the clocks do not tell which came first, the claim did, or
/// it is no trigger; and the kill came before the listener was seen to be dead.
fn bounded(lag: f64, uncertainty: f64, died: Option<f64>) -> (f64, f64) {
    if lag >= uncertainty {
        return (lag, uncertainty);
    }
    let most = (lag + uncertainty).max(0.0);
    let most = died.filter(|d| (0.0..most).contains(d)).unwrap_or(most);
    (most / 2.0, most / 2.0)
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
        for vm in [0, 1, 5, 63 << 20, 100 << 30, 941_138_648 * 1024, u64::MAX] {
            let (least, most) = Fit::sizes(Some(vm));
            assert!(most == vm && Fit::of(Some(vm), least) == Fit::Fits && Fit::of(Some(vm), most) == Fit::Fits);
            assert!(least == 0 || Fit::of(Some(vm), least - 1) != Fit::Fits, "{vm}");
            let (least, most) = Fit::possible_sizes(Some(vm));
            assert!(most == vm && Fit::of(Some(vm), least) != Fit::Unrelated, "{vm}");
            assert!(least == 0 || Fit::of(Some(vm), least - 1) == Fit::Unrelated, "{vm} {least}");
        }
    }
}
