//! Ordinary connections: what a busy host has tens of thousands of a day, counted by client and listener instead of kept.
//!
//! A connection is ordinary that was opened, accepted and ended, to an endpoint that no protocol read and nobody named; a request
//! without an answer is not, nor are those to an endpoint that answered nobody and refused somebody. A capture may hold its payload or only what opened and ended it. No rule
//! looks at such a one alone; what is asked of all together (who spoke to whom, who knocked where, when, how often) its counts
//! answer. The earliest and the latest to each listener are kept as they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::quiet::{Quiet, quiet};
use super::record_codec::put_endpoint;
use super::{Direction, FlowRecord, Take};
use crate::net::{Address, Endpoint};
use crate::time::{NANOS, Timestamp};

/// Sets with fewer of them keep all.
pub(crate) const MANY: usize = 4096;
/// Listeners whose earliest and latest connections are kept where evidence is read; of more, only those of the set's own host.
pub(crate) const LISTENERS: usize = 256;
/// Pairs whose times are shipped to the nanosecond, and to the second; of more, to the hour.
const EXACT: usize = 64;
const TO_THE_SECOND: usize = 2048;
/// Bytes of a pair, and their layout.
const PAIR: usize = 16 + 18 + 7 * 8;
const LAYOUT: u8 = 1;

/// The ordinary connections of one client address to one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordinary {
    /// Who opened them.
    pub client: Address,
    /// Where to.
    pub server: Endpoint,
    /// How many.
    pub count: u64,
    /// On how many the listener sent something.
    pub spoken: u64,
    /// How many carried nothing and were closed by the client soon.
    pub knocks: u64,
    /// How many of these finished the handshake.
    pub finished: u64,
    /// Packets of all of them.
    pub packets: u64,
    /// The first packet.
    pub first: Timestamp,
    /// The last packet.
    pub last: Timestamp,
}

impl Ordinary {
    fn of(r: &FlowRecord) -> Ordinary {
        let quiet = quiet(r);
        Ordinary {
            client: r.client().address,
            server: r.server(),
            count: 1,
            spoken: u64::from(r.bytes[1] > 0),
            knocks: u64::from(quiet.is_some()),
            finished: u64::from(quiet == Some(Quiet::ConnectAndClose)),
            packets: r.packets.iter().map(|n| u64::from(*n)).sum(),
            first: r.first,
            last: r.last,
        }
    }

    fn numbers(&self) -> [u64; 5] {
        [self.count, self.spoken, self.knocks, self.finished, self.packets]
    }

    /// Adds what another one counts.
    fn add(&mut self, other: &Ordinary) {
        for (slot, n) in [
            (&mut self.count, other.count),
            (&mut self.spoken, other.spoken),
            (&mut self.knocks, other.knocks),
            (&mut self.finished, other.finished),
            (&mut self.packets, other.packets),
        ] {
            *slot = slot.saturating_add(n);
        }
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
    }
}

/// Whether a connection is ordinary where no protocol read it.
fn is_ordinary(r: &FlowRecord) -> bool {
    may_become(r) && r.has_ended()
}

/// Whether it is, or will be when it ends.
pub(crate) fn may_become(r: &FlowRecord) -> bool {
    let whole = r.direction_known && r.isn(Direction::ToServer).is_some() && r.isn(Direction::ToClient).is_some();
    let asked_only = r.bytes[0] > 0 && r.bytes[1] == 0;
    whole && !asked_only && !r.folded && r.syn_maker.tool().is_none()
}

/// Counts the ordinary ones among records, where they are more than `most`; what is left, and the counts in order of listener
/// and client. `spared`: listeners whose connections all stay; of at most `listeners` others the earliest and the latest do.
pub(crate) fn thin(
    records: Vec<FlowRecord>,
    spared: &BTreeSet<Endpoint>,
    most: usize,
    listeners: usize,
) -> (Vec<FlowRecord>, Vec<Ordinary>) {
    // A listener that never answered and then refused somebody may be one that a stray ended.
    let mut refusing: BTreeSet<Endpoint> = records.iter().filter(|r| r.refused()).map(FlowRecord::server).collect();
    for r in records.iter().filter(|r| r.bytes[1] > 0) {
        refusing.remove(&r.server());
    }
    let counts = |r: &FlowRecord| is_ordinary(r) && !spared.contains(&r.server()) && !refusing.contains(&r.server());
    if records.iter().filter(|r| counts(r)).count() <= most {
        return (records, Vec::new());
    }
    let mut packets: HashMap<Address, u64> = HashMap::new();
    for a in records.iter().flat_map(|r| [r.client().address, r.server().address]) {
        *packets.entry(a).or_default() += 1;
    }
    let own = packets.into_iter().max_by_key(|(a, n)| (*n, *a)).map(|(a, _)| a);
    // First and last of each listener.
    let mut ends: BTreeMap<Endpoint, [usize; 2]> = BTreeMap::new();
    for (i, r) in records.iter().enumerate().filter(|(_, r)| counts(r)) {
        let [first, last] = ends.entry(r.server()).or_insert([i, i]);
        let earlier = |j: usize| records.get(j).is_some_and(|o| (r.first, r.first_packet) < (o.first, o.first_packet));
        let later = |j: usize| records.get(j).is_some_and(|o| (r.last, r.first_packet) > (o.last, o.first_packet));
        (*first, *last) = (if earlier(*first) { i } else { *first }, if later(*last) { i } else { *last });
    }
    if ends.len() > listeners {
        ends.retain(|e, _| Some(e.address) == own);
    }
    let kept: BTreeSet<usize> = ends.into_values().flatten().collect();
    let mut pairs: BTreeMap<(Endpoint, Address), Ordinary> = BTreeMap::new();
    let mut left = Vec::new();
    for (i, r) in records.into_iter().enumerate() {
        if !counts(&r) || kept.contains(&i) {
            left.push(r);
            continue;
        }
        put(&mut pairs, Ordinary::of(&r));
    }
    left.shrink_to_fit();
    (left, pairs.into_values().collect())
}

fn put(pairs: &mut BTreeMap<(Endpoint, Address), Ordinary>, one: Ordinary) {
    match pairs.get_mut(&(one.server, one.client)) {
        Some(there) => there.add(&one),
        None => drop(pairs.insert((one.server, one.client), one)),
    }
}

/// Joins counts of different connections.
pub(crate) fn join(all: impl Iterator<Item = Ordinary>) -> Vec<Ordinary> {
    let mut pairs = BTreeMap::new();
    all.for_each(|one| put(&mut pairs, one));
    pairs.into_values().collect()
}

/// Counts as bytes, little-endian: a layout, the earliest time and the unit of times in nanoseconds, then all first bytes of all
/// pairs, all second ones, and so on, which pack well.
pub(crate) fn to_bytes(pairs: &[Ordinary]) -> Vec<u8> {
    let unit = match pairs.len() {
        n if n <= EXACT => 1,
        n if n <= TO_THE_SECOND => NANOS,
        _ => 3600 * NANOS,
    };
    let base = pairs.iter().map(|p| p.first.0).min().unwrap_or(0).div_euclid(unit).saturating_mul(unit);
    let mut rows = Vec::with_capacity(pairs.len() * PAIR);
    for p in pairs {
        rows.extend_from_slice(&p.client.0.to_le_bytes());
        put_endpoint(&mut rows, p.server);
        let units = |t: Timestamp, up: i64| (t.0.saturating_sub(base).saturating_add(up) / unit) as u64;
        let first = units(p.first, 0);
        for n in p.numbers().into_iter().chain([first, units(p.last, unit - 1).saturating_sub(first)]) {
            rows.extend_from_slice(&n.to_le_bytes());
        }
    }
    let columns = (0..PAIR).flat_map(|byte| rows.iter().skip(byte).step_by(PAIR)).copied();
    std::iter::once(LAYOUT).chain(base.to_le_bytes()).chain(unit.to_le_bytes()).chain(columns).collect()
}

/// The counts in bytes; `None` when they are none.
pub(crate) fn from_bytes(whole: &[u8]) -> Option<Vec<Ordinary>> {
    let head = &mut Take(whole);
    let (layout, base, unit) = (head.u8()?, head.time()?, head.time()?.0);
    let columns = head.0;
    let n = columns.len() / PAIR;
    if layout != LAYOUT || n * PAIR != columns.len() {
        return None;
    }
    let row = |i: usize| {
        let row: Vec<u8> = columns.iter().skip(i).step_by(n).copied().collect();
        let take = &mut Take(&row);
        let (client, server) = (take.address()?, take.endpoint()?);
        let (count, spoken, knocks, finished) = (take.u64()?, take.u64()?, take.u64()?, take.u64()?);
        let packets = take.u64()?;
        let mut after = |t: Timestamp| {
            let units = i64::try_from(take.u64()?).unwrap_or(i64::MAX);
            Some(t.plus_nanos(units.saturating_mul(unit)))
        };
        let first = after(base)?;
        Some(Ordinary { client, server, count, spoken, knocks, finished, packets, first, last: after(first)? })
    };
    (0..n).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_and_cut_ones_are_refused() {
        let pair = |n: u8| Ordinary {
            client: Address::v4([192, 0, 2, n]),
            server: Endpoint::new(Address::v4([198, 51, 100, 1]), 443),
            count: u64::from(n),
            spoken: 1,
            knocks: 0,
            finished: 0,
            packets: 9,
            first: Timestamp(-7),
            last: Timestamp(NANOS),
        };
        let pairs = vec![pair(1), pair(2)];
        let bytes = to_bytes(&pairs);
        assert_eq!(from_bytes(&bytes).as_ref(), Some(&pairs));
        assert!((0..17).chain(18..PAIR).all(|cut| from_bytes(&bytes[..cut]).is_none()));
        let twice = join(pairs.iter().chain(&pairs).cloned());
        assert_eq!((twice.len(), twice[1].count), (2, 4));
        // Of very many, the hour.
        let many: Vec<Ordinary> = (0..=TO_THE_SECOND as u64)
            .map(|n| Ordinary { client: Address::v4((n as u32).to_be_bytes()), first: Timestamp(NANOS), ..pair(1) })
            .collect();
        let back = from_bytes(&to_bytes(&many)).unwrap();
        assert_eq!((back[0].first, back[0].last), (Timestamp(0), Timestamp(3600 * NANOS)));
    }
}
