//! Reassembly of IP datagrams from their fragments, within limits.

use std::collections::{BTreeMap, HashMap};

use foldhash::quality::RandomState;

use super::counters::{Counters, Skip};
use super::decoder::Limits;
use crate::net::Address;
use crate::time::Timestamp;

/// What a datagram longer than this would need cannot be said in an IP header.
const LONGEST: u32 = 65535;

/// What a piece and a datagram cost beside their bytes, roughly: both count against the memory limit.
const PIECE_COST: usize = 64;
const DATAGRAM_COST: usize = 256;

/// What fragments of one datagram have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) source: Address,
    pub(super) target: Address,
    pub(super) id: u32,
    /// 4 or 6.
    pub(super) version: u8,
    /// IPv4: part of a datagram's identity. IPv6: always 0, the first fragment alone tells it.
    pub(super) protocol: u8,
    /// The encapsulation around it: tenants may use the same addresses.
    pub(super) depth: u8,
    pub(super) tunnel: Option<u32>,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    /// Where its bytes belong in the datagram's payload.
    pub(super) offset: u32,
    /// Its length on the wire.
    pub(super) length: u32,
    /// The captured bytes, at most `length`.
    pub(super) bytes: &'a [u8],
    pub(super) more: bool,
    pub(super) protocol: u8,
}

/// The payload of a datagram.
#[derive(Debug)]
pub(super) struct Datagram {
    /// The bytes up to the first that the snaplen cut off.
    pub(super) bytes: Vec<u8>,
    /// Its length on the wire.
    pub(super) wire: usize,
    /// As the fragment at offset 0 says.
    pub(super) protocol: u8,
}

/// NonTcp of a datagram; `bytes` are fewer than `length` when the snaplen cut the fragment.
#[derive(Debug)]
struct Piece {
    length: u32,
    bytes: Box<[u8]>,
}

/// A datagram not yet complete.
///
/// Invariants: pieces do not overlap, none is empty, none reaches beyond `total`; `held` is the sum of their lengths;
/// `cost` is what this datagram adds to [`Fragments::cost`].
#[derive(Debug)]
struct Partial {
    key: Key,
    pieces: BTreeMap<u32, Piece>,
    total: Option<u32>,
    held: u32,
    cost: usize,
    packets: u64,
    protocol: u8,
}

/// When the first fragment came, and which datagram of that instant it was: the order of expiry and eviction.
type Age = (Timestamp, u64);

/// The datagrams that wait for fragments.
///
/// Invariants: `ages` maps the key of each datagram in `waiting` to its age, and nothing else; `cost` is the sum of
/// theirs, and within the limit whenever `add` returns.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    ages: HashMap<Key, Age, RandomState>,
    waiting: BTreeMap<Age, Partial>,
    cost: usize,
    serial: u64,
}

impl Fragments {
    /// Takes in one fragment; the datagram, when this one completes it.
    ///
    /// Where copies differ, the first one wins and a conflict is counted. Time is the packets' own.
    pub(super) fn add(
        &mut self,
        key: Key,
        mut fragment: Fragment<'_>,
        time: Timestamp,
        limits: &Limits,
        counters: &mut Counters,
    ) -> Result<Datagram, Skip> {
        self.expire(time, limits, counters);
        if fragment.more {
            // Receivers ignore what is beyond the last multiple of eight.
            fragment.length &= !7;
            fragment.bytes = fragment.bytes.get(..fragment.length as usize).unwrap_or(fragment.bytes);
        }
        if fragment.length == 0 {
            return Err(Skip::FragmentSize);
        }
        if fragment.offset.saturating_add(fragment.length) > LONGEST {
            return Err(Skip::FragmentRange);
        }
        if fragment.bytes.len() + PIECE_COST + DATAGRAM_COST > limits.fragment_bytes || limits.fragment_datagrams == 0 {
            return Err(Skip::FragmentSize);
        }
        let age = match self.ages.get(&key) {
            Some(&age) => age,
            None => {
                while self.waiting.len() >= limits.fragment_datagrams && self.evict(counters) {}
                self.serial += 1;
                let age = (time, self.serial);
                self.ages.insert(key, age);
                self.waiting.insert(age, Partial::new(key));
                self.cost += DATAGRAM_COST;
                age
            }
        };
        let Some(partial) = self.waiting.get_mut(&age) else { return Err(Skip::FragmentWaiting) };
        let before = partial.cost;
        if partial.insert(fragment) {
            counters.fragment_conflicts += 1;
        }
        self.cost += partial.cost - before;
        if partial.is_complete() {
            counters.fragments_joined += partial.packets;
            return self.remove(age).map(Partial::join).ok_or(Skip::FragmentWaiting);
        }
        partial.packets += 1;
        while self.cost > limits.fragment_bytes && self.evict(counters) {}
        Err(Skip::FragmentWaiting)
    }

    fn expire(&mut self, now: Timestamp, limits: &Limits, counters: &mut Counters) {
        while let Some((&age, _)) = self.waiting.first_key_value() {
            if now.0.saturating_sub(age.0.0) <= limits.fragment_timeout {
                return;
            }
            self.remove(age);
            counters.fragments_expired += 1;
        }
    }

    /// Gives up the oldest datagram. False when there is none.
    fn evict(&mut self, counters: &mut Counters) -> bool {
        let Some((&age, _)) = self.waiting.first_key_value() else { return false };
        counters.fragments_evicted += 1;
        self.remove(age).is_some()
    }

    fn remove(&mut self, age: Age) -> Option<Partial> {
        let partial = self.waiting.remove(&age)?;
        self.ages.remove(&partial.key);
        self.cost = self.cost.saturating_sub(partial.cost);
        Some(partial)
    }
}

impl Partial {
    fn new(key: Key) -> Self {
        Partial {
            key,
            pieces: BTreeMap::new(),
            total: None,
            held: 0,
            cost: DATAGRAM_COST,
            packets: 0,
            protocol: key.protocol,
        }
    }

    fn is_complete(&self) -> bool {
        self.total == Some(self.held)
    }

    /// Puts the new bytes of a fragment in their places. True when it disagrees with what is held.
    ///
    /// Takes time in proportion to the fragment's length, since pieces within it are of eight bytes at least.
    fn insert(&mut self, fragment: Fragment<'_>) -> bool {
        let mut conflict = false;
        let start = fragment.offset;
        let mut end = start + fragment.length;
        let reach = self.pieces.last_key_value().map_or(0, |(at, piece)| at + piece.length);
        if !fragment.more {
            match self.total {
                Some(total) => conflict |= total != end,
                None if reach > end => conflict = true,
                None => self.total = Some(end),
            }
        }
        if let Some(total) = self.total.filter(|&total| end > total) {
            conflict = true;
            end = total;
        }
        if start == 0 && !self.pieces.contains_key(&0) {
            self.protocol = fragment.protocol;
        }
        let before = self.pieces.range(..start).next_back().filter(|(at, piece)| *at + piece.length > start);
        let mut gaps = Vec::new();
        let mut at = start;
        for (&held_at, piece) in before.into_iter().chain(self.pieces.range(start..end.max(start))) {
            if held_at > at {
                gaps.push((at, held_at));
            }
            conflict |= differ(held_at, &piece.bytes, start, fragment.bytes);
            at = at.max(held_at + piece.length);
        }
        if at < end {
            gaps.push((at, end));
        }
        for (from, to) in gaps {
            let bytes = clip(fragment.bytes, from - start, to - start);
            self.held += to - from;
            self.cost += bytes.len() + PIECE_COST;
            self.pieces.insert(from, Piece { length: to - from, bytes: bytes.into() });
        }
        conflict
    }

    fn join(self) -> Datagram {
        let mut bytes = Vec::with_capacity(self.pieces.values().map(|piece| piece.bytes.len()).sum());
        for piece in self.pieces.values() {
            bytes.extend_from_slice(&piece.bytes);
            if piece.bytes.len() < piece.length as usize {
                break;
            }
        }
        Datagram { bytes, wire: self.held as usize, protocol: self.protocol }
    }
}

/// The bytes from `from` to `to`, as far as they are there.
fn clip(bytes: &[u8], from: u32, to: u32) -> &[u8] {
    let end = bytes.len().min(to as usize);
    bytes.get(from as usize..end).unwrap_or_default()
}

/// Whether two runs of bytes at these places differ where both have bytes.
fn differ(a_at: u32, a: &[u8], b_at: u32, b: &[u8]) -> bool {
    let from = a_at.max(b_at);
    let a = clip(a, from - a_at, u32::MAX);
    let b = clip(b, from - b_at, u32::MAX);
    let n = a.len().min(b.len());
    a.get(..n) != b.get(..n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(id: u32) -> Key {
        let a = Address::v4([192, 0, 2, 1]);
        Key { source: a, target: a, id, version: 4, protocol: 6, depth: 0, tunnel: None }
    }

    fn part(offset: u32, bytes: &[u8], more: bool) -> Fragment<'_> {
        Fragment { offset, length: bytes.len() as u32, bytes, more, protocol: 6 }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0)
    }

    fn check(f: &Fragments) {
        assert_eq!(f.ages.len(), f.waiting.len());
        assert_eq!(f.cost, f.waiting.values().map(|p| p.cost).sum::<usize>());
    }

    #[test]
    fn any_order_joins() {
        let whole: Vec<u8> = (0..44).collect();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
            let (mut f, mut c) = (Fragments::default(), Counters::default());
            let pieces = [part(0, &whole[..16], true), part(16, &whole[16..40], true), part(40, &whole[40..], false)];
            for (n, i) in order.into_iter().enumerate() {
                let got = f.add(key(1), pieces[i], at(0), &Limits::default(), &mut c);
                assert_eq!(got.is_ok(), n == 2);
                if let Ok(d) = got {
                    assert_eq!((d.bytes.as_slice(), d.wire, d.protocol), (&whole[..], 44, 6));
                }
            }
            assert_eq!((f.cost, f.waiting.len(), c.fragments_joined, c.fragment_conflicts), (0, 0, 2, 0));
        }
    }

    #[test]
    fn the_first_copy_wins_and_conflicts_are_counted() {
        let (mut f, mut c, l) = (Fragments::default(), Counters::default(), Limits::default());
        assert!(f.add(key(1), part(8, &[1; 16], true), at(0), &l, &mut c).is_err());
        assert!(f.add(key(1), part(8, &[1; 8], true), at(0), &l, &mut c).is_err());
        assert_eq!(c.fragment_conflicts, 0);
        assert!(f.add(key(1), part(0, &[2; 32], true), at(0), &l, &mut c).is_err());
        assert_eq!(c.fragment_conflicts, 1);
        // An end before bytes already held is not believed.
        assert!(f.add(key(1), part(16, &[1; 4], false), at(0), &l, &mut c).is_err());
        assert_eq!(c.fragment_conflicts, 2);
        let d = f.add(key(1), part(32, &[3; 3], false), at(0), &l, &mut c).unwrap();
        let want = [&[2; 8][..], &[1; 16], &[2; 8], &[3; 3]].concat();
        assert_eq!((d.bytes, d.wire), (want, 35));
        check(&f);
    }

    #[test]
    fn cut_fragments_join_up_to_the_cut() {
        let (mut f, mut c, l) = (Fragments::default(), Counters::default(), Limits::default());
        assert!(f.add(key(1), part(0, &[1; 16], true), at(0), &l, &mut c).is_err());
        let cut = Fragment { length: 800, ..part(16, &[2; 50], true) };
        assert!(f.add(key(1), cut, at(0), &l, &mut c).is_err());
        let d = f.add(key(1), part(816, &[3; 9], false), at(0), &l, &mut c).unwrap();
        assert_eq!((d.bytes, d.wire), ([&[1; 16][..], &[2; 50]].concat(), 825));
    }

    #[test]
    fn time_number_and_memory_are_bounded() {
        let (mut f, mut c, l) = (Fragments::default(), Counters::default(), Limits::default());
        assert!(f.add(key(1), part(0, &[1; 8], true), at(0), &l, &mut c).is_err());
        assert!(f.add(key(2), part(0, &[1; 8], true), at(31), &l, &mut c).is_err());
        assert_eq!((f.waiting.len(), c.fragments_expired), (1, 1));
        assert!(f.add(key(1), part(8, &[1; 8], false), at(31), &l, &mut c).is_err(), "its first half is gone");

        let l = Limits { fragment_datagrams: 10, ..Limits::default() };
        for id in 0..1000 {
            assert!(f.add(key(id), part(80, &[1; 8], true), at(31), &l, &mut c).is_err());
            assert!(f.waiting.len() <= 10);
        }
        let l = Limits { fragment_bytes: 10_000, ..Limits::default() };
        for id in 0..1000 {
            let from = (id % 7) * 8;
            assert!(f.add(key(id % 100), part(from, &[1; 1000], true), at(32), &l, &mut c).is_err());
            assert!(f.cost <= 10_000, "{}", f.cost);
            check(&f);
        }
        assert!(matches!(f.add(key(1), part(65528, &[0; 16], false), at(32), &l, &mut c), Err(Skip::FragmentRange)));
        assert!(matches!(f.add(key(1), part(0, &[0; 7], true), at(32), &l, &mut c), Err(Skip::FragmentSize)));
        assert!(matches!(f.add(key(1), part(0, &[0; 12000], true), at(32), &l, &mut c), Err(Skip::FragmentSize)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_byte_map(parts in prop::collection::vec((0u32..12, 1usize..40, any::<u8>(), any::<bool>()), 1..30)) {
            let (mut f, mut c, l) = (Fragments::default(), Counters::default(), Limits::default());
            let mut map: Vec<Option<u8>> = vec![None; 200];
            let mut total = None;
            for (offset, length, byte, more) in parts {
                let bytes = vec![byte; length];
                let offset = offset * 8;
                let got = f.add(key(1), part(offset, &bytes, more), at(0), &l, &mut c);
                check(&f);
                let length = if more { length & !7 } else { length };
                let end = offset as usize + length;
                if length == 0 { prop_assert!(got.is_err()); continue; }
                let reach = map.iter().rposition(|b| b.is_some()).map_or(0, |p| p + 1);
                if !more && total.is_none() && reach <= end { total = Some(end); }
                for slot in &mut map[offset as usize..end.min(total.unwrap_or(200)).max(offset as usize)] {
                    slot.get_or_insert(byte);
                }
                let full = total.filter(|&t| map[..t].iter().all(|b| b.is_some()));
                prop_assert_eq!(got.is_ok(), full.is_some());
                if let (Ok(d), Some(t)) = (got, full) {
                    let want: Vec<u8> = map[..t].iter().flatten().copied().collect();
                    prop_assert_eq!(d.bytes, want);
                    prop_assert_eq!(f.cost, 0);
                    break;
                }
            }
        }
    }
}
