//! Clocks of capture hosts against each other, from packets that two sets saw: each at its own end.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::inputs::plain_stem;
use super::sets::{Capture, Set};
use crate::clock::{Crossing, Direction as Way, Method, Offset, between_captures};
use crate::names::Names;
use crate::net::Address;
use crate::protocol::observation::FlowObservation;
use crate::stream::{Direction, FlowRecord};
use crate::time::{NANOS, Timestamp};

/// Packets of one pair of sets that are held against each other, as each of them saw them.
const PACKETS: usize = 2000;
/// Sets that are held against each other.
const SETS: usize = 256;
/// Clocks closer than this are left as they are: lags are told in tenths of seconds.
const WORTH_SECONDS: f64 = 0.1;

/// The clock of one set against that of another.
#[derive(Clone, Debug)]
pub(super) struct SetClock {
    pub(super) set: usize,
    /// Whose clock it is, as a report names it.
    pub(super) host: String,
    pub(super) against: String,
    /// How far it is ahead.
    pub(super) offset: Offset,
    /// It is to be corrected.
    pub(super) off: bool,
}

impl SetClock {
    /// What its times are to be moved by, in nanoseconds.
    pub(super) fn shift(&self) -> i64 {
        (-self.offset.seconds * NANOS as f64) as i64
    }
}

/// A packet as one set saw it.
#[derive(Clone, Copy)]
struct Seen {
    identity: u64,
    sender: Address,
    at: Timestamp,
}

type Pairs = BTreeMap<(usize, usize), [Vec<Seen>; 2]>;

/// The clocks of all sets that saw packets of each other's hosts, against the one that most others agree with.
pub(super) fn between(sets: &[Set], captures: &[Capture], names: &Names) -> Vec<SetClock> {
    if sets.len() < 2 || sets.len() > SETS {
        return Vec::new();
    }
    let mut ahead: BTreeMap<usize, BTreeMap<usize, Offset>> = BTreeMap::new();
    for ((a, b), [of_a, of_b]) in pairs(sets, names) {
        let times: HashMap<u64, Timestamp> = of_b.iter().map(|s| (s.identity, s.at)).collect();
        let owners = |set: usize| owned(&sets[set], names);
        let own = owners(a);
        let crossings = of_a.iter().filter_map(|s| {
            Some(Crossing {
                identity: s.identity,
                direction: if own.contains(&s.sender) { Way::Forward } else { Way::Backward },
                at_first: s.at,
                at_second: *times.get(&s.identity)?,
            })
        });
        if let Some(offset) = between_captures(crossings) {
            ahead.entry(a).or_default().insert(b, offset);
            ahead.entry(b).or_default().insert(a, Offset { seconds: -offset.seconds, ..offset });
        }
    }
    let mut found = Vec::new();
    let mut done = vec![false; sets.len()];
    for start in 0..sets.len() {
        if done.get(start).copied().unwrap_or(true) || !ahead.contains_key(&start) {
            continue;
        }
        let members: Vec<usize> = from(start, &ahead).into_keys().collect();
        members.iter().filter_map(|m| done.get_mut(*m).map(|d| *d = true)).for_each(drop);
        // The clock that most others agree with is taken for right.
        let strangers = |r: usize| from(r, &ahead).values().filter(|o| o.seconds.abs() > WORTH_SECONDS).count();
        let Some(right) = members.iter().copied().min_by_key(|r| (strangers(*r), *r)) else { continue };
        for (set, offset) in from(right, &ahead) {
            if set != right {
                let off = offset.seconds.abs() >= WORTH_SECONDS && !offset.may_be_none();
                let (host, against) = (called(&sets[set], captures), called(&sets[right], captures));
                found.push(SetClock { set, host, against, offset, off });
            }
        }
    }
    found
}

/// How far each clock that can be reached is ahead of that of `start`, by the fewest steps.
fn from(start: usize, ahead: &BTreeMap<usize, BTreeMap<usize, Offset>>) -> BTreeMap<usize, Offset> {
    let none = Offset { seconds: 0.0, uncertainty: 0.0, method: Method::BothWays, fits: 0 };
    let mut found: BTreeMap<usize, Offset> = [(start, none)].into();
    let mut next: VecDeque<usize> = [start].into();
    while let Some(at) = next.pop_front() {
        let Some(so_far) = found.get(&at).copied() else { continue };
        for (to, step) in ahead.get(&at).into_iter().flatten() {
            found.entry(*to).or_insert_with(|| {
                next.push_back(*to);
                Offset {
                    seconds: so_far.seconds + step.seconds,
                    uncertainty: so_far.uncertainty + step.uncertainty,
                    method: so_far.method.max(step.method),
                    fits: if so_far.fits == 0 { step.fits } else { so_far.fits.min(step.fits) },
                }
            });
        }
    }
    found
}

/// The host of a set, else its address, else its first capture's name.
fn called(set: &Set, captures: &[Capture]) -> String {
    let address = || set.own.map(|a| a.to_string());
    let file = || set.captures.first().and_then(|i| captures.get(*i as usize)).and_then(|c| plain_stem(&c.path));
    set.host.clone().or_else(address).or_else(file).unwrap_or_default()
}

fn owned(set: &Set, names: &Names) -> Vec<Address> {
    let named = set.host.iter().flat_map(|h| names.addresses(h)).copied();
    set.own.into_iter().chain(named).collect()
}

/// Packets between the hosts of two sets, as each of the two saw them.
fn pairs(sets: &[Set], names: &Names) -> Pairs {
    let mut owner: HashMap<Address, Vec<usize>> = HashMap::new();
    for (i, set) in sets.iter().enumerate() {
        for a in owned(set, names) {
            let owners = owner.entry(a).or_default();
            if !owners.contains(&i) {
                owners.push(i);
            }
        }
    }
    let mut pairs = Pairs::new();
    for (i, set) in sets.iter().enumerate() {
        let peers = |r: &FlowRecord| -> Vec<usize> {
            let (c, s) = (owner.get(&r.client().address), owner.get(&r.server().address));
            match (c, s) {
                (Some(c), Some(s)) if c.contains(&i) != s.contains(&i) => {
                    if c.contains(&i) {
                        s.clone()
                    } else {
                        c.clone()
                    }
                }
                _ => Vec::new(),
            }
        };
        let mut note = |r: &FlowRecord, seen: &[Seen]| {
            for j in peers(r) {
                let list = &mut pairs.entry((i.min(j), i.max(j))).or_default()[usize::from(i > j)];
                let room = PACKETS.saturating_sub(list.len());
                list.extend(seen.iter().take(room));
            }
        };
        for r in &set.seen.records {
            note(r, &marks(r));
        }
        for f in &set.seen.flows {
            note(&f.record, &pieces(f));
        }
    }
    pairs
}

/// The packets of a flow whose times its record keeps. Only a flow whose beginning was seen can be told from another
/// between the same endpoints.
fn marks(r: &FlowRecord) -> Vec<Seen> {
    let Some(isn) = r.isn(Direction::ToServer) else { return Vec::new() };
    let moments = [
        (Direction::ToServer, r.syn),
        (Direction::ToClient, r.syn_ack),
        (Direction::ToServer, r.fin[0]),
        (Direction::ToClient, r.fin[1]),
        (Direction::ToServer, r.rst[0]),
        (Direction::ToClient, r.rst[1]),
    ];
    let seen = moments.into_iter().enumerate().filter_map(|(kind, (direction, moment))| {
        let identity = hash(&(r.client(), r.server(), isn, kind));
        Some(Seen { identity, sender: r.sender(direction).address, at: moment.get()? })
    });
    seen.collect()
}

/// The packets of a flow that were kept.
fn pieces(f: &FlowObservation) -> Vec<Seen> {
    let mut seen = Vec::new();
    for direction in [Direction::ToServer, Direction::ToClient] {
        if f.base[direction.index()].is_none() {
            continue;
        }
        for k in f.kept[direction.index()].iter().take(64) {
            let sequence = f.sequence(direction, k.offset);
            let identity = hash(&(f.client(), f.server(), direction, sequence, k.bytes.len(), "piece"));
            seen.push(Seen { identity, sender: f.record.sender(direction).address, at: k.time });
        }
    }
    seen
}

/// Not seeded: the same in every run.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
