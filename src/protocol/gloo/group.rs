//! Whose listener it is: the members of its group, and what its release does with strangers.

use std::collections::{BTreeMap, BTreeSet};

use super::blob::{Blob, Layout};
use super::seam::PairFacts;
use crate::net::{Address, Endpoint};
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{Given, Lesson};
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::Protocol;

/// A closing within this many seconds of the other side's answers it.
const ANSWERS: f64 = 1.0;
/// A capture that goes on for this many seconds after a stranger's FIN would show the listener's.
const WATCHED: f64 = 2.0;

/// What a store says of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// The process group: the key without the rank.
    pub group: String,
    /// The rank that listens.
    pub rank: u64,
    /// How it says so.
    pub layout: Layout,
    /// Members of the group; 0 where that is not known.
    pub size: u64,
    /// With [`Layout::PerPeer`] the rank that the listener is for.
    pub peer: Option<u64>,
}

impl Announced {
    /// The `entry`th endpoint of a blob.
    pub fn of(group: &str, rank: u64, blob: &Blob, entry: usize) -> Announced {
        let entry = entry as u64;
        let peer = (blob.layout == Layout::PerPeer).then_some(if entry < rank { entry } else { entry + 1 });
        Announced { group: group.to_string(), rank, layout: blob.layout, size: blob.size, peer }
    }
}

/// How a release treats strangers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// PyTorch 1.4–2.0: the first connection takes the pair.
    TakesFirst,
    /// 2.1–2.7: a descriptor for each number that nobody waits for.
    KeepsNumbers,
    /// 2.8 and later: a descriptor for every connection.
    KeepsAll,
    /// 2.1 or later, and no more is known.
    Later,
}

impl Class {
    pub(super) fn releases(self) -> &'static str {
        match self {
            Class::TakesFirst => "PyTorch 1.4–2.0",
            Class::KeepsNumbers => "PyTorch 2.1–2.7",
            Class::KeepsAll => "PyTorch 2.8 or later",
            Class::Later => "PyTorch 2.1 or later",
        }
    }
}

/// What is known of all groups.
pub(super) struct Groups {
    announced: BTreeMap<Endpoint, Announced>,
    /// The stores that say so.
    announced_by: BTreeSet<Endpoint>,
    /// Addresses that take part, by any address of theirs: hosts that speak to each other are one family.
    families: BTreeMap<Address, u32>,
    /// Addresses of ranks, by family, group and rank.
    ranks: BTreeMap<(u32, String, u64), Address>,
    classes: BTreeMap<u32, Class>,
}

impl Groups {
    pub(super) fn of(given: &Given<'_>) -> Groups {
        let lessons: Vec<(&Lesson, &Announced)> = given
            .taught
            .iter()
            .filter(|l| l.protocol == Protocol::Gloo)
            .filter_map(|l| Some((l, announced(l)?)))
            .collect();
        // Members are those whose addresses stand in one store, else those that speak as pairs do.
        let named = lessons.iter().map(|(l, _)| (l.teacher.address, l.endpoint.address));
        let known: BTreeSet<Address> = lessons.iter().map(|(l, _)| l.endpoint.address).collect();
        let pairs = given.seen.flows().filter(|f| speaks(f)).map(|f| (f.client().address, f.server().address));
        // Where a store names them, nobody becomes a member by what he sends.
        let pairs = pairs.filter(|(a, b)| !known.contains(a) && !known.contains(b));
        let families = families(named.chain(pairs));
        let mut groups = Groups {
            announced_by: lessons.iter().map(|(l, _)| l.teacher).collect(),
            announced: lessons.iter().map(|(l, a)| (l.endpoint, (*a).clone())).collect(),
            families,
            ranks: BTreeMap::new(),
            classes: BTreeMap::new(),
        };
        for (l, a) in &lessons {
            let family = groups.family(l.endpoint.address);
            groups.ranks.insert((family, a.group.clone(), a.rank), l.endpoint.address);
        }
        groups.read_classes(given);
        groups
    }

    pub(super) fn announced(&self, listener: Endpoint) -> Option<&Announced> {
        self.announced.get(&listener)
    }

    fn family(&self, address: Address) -> u32 {
        self.families.get(&address).copied().unwrap_or(u32::MAX)
    }

    /// Whether a client is none of those that the listener's process speaks to.
    pub(super) fn is_stranger(&self, client: Address, listener: Endpoint) -> bool {
        let own = self.families.get(&listener.address);
        own.is_some() && self.families.get(&client) != own
    }

    /// Where a rank of the listener's group is; by another group of the same store where it has not come yet.
    pub(super) fn rank(&self, listener: Endpoint, rank: u64) -> Option<Address> {
        let family = self.family(listener.address);
        let group = self.announced(listener).map(|a| a.group.clone())?;
        self.ranks.get(&(family, group, rank)).copied().or_else(|| {
            let elsewhere = self.ranks.iter().filter(|((f, _, r), _)| *f == family && *r == rank);
            let all: BTreeSet<Address> = elsewhere.map(|(_, a)| *a).collect();
            if all.len() == 1 { all.first().copied() } else { None }
        })
    }

    /// The releases that a listener may be of, where anything tells.
    pub(super) fn releases(&self, listener: Endpoint) -> Option<&'static str> {
        let class = self.class(listener);
        (class != Class::Later || self.announced(listener).is_some()).then(|| class.releases())
    }

    pub(super) fn class(&self, listener: Endpoint) -> Class {
        match self.announced(listener).map(|a| a.layout) {
            Some(Layout::PerPeer) => Class::TakesFirst,
            Some(Layout::Numbered) => Class::KeepsNumbers,
            _ => self.classes.get(&self.family(listener.address)).copied().unwrap_or(Class::Later),
        }
    }

    /// What the store's clients show of their release counts first: all ranks of a job run one. Else a stranger that sent
    /// fewer than eight bytes and closed in order is closed too up to 2.7, and never from 2.8 on.
    fn read_classes(&mut self, given: &Given<'_>) {
        for o in given.seen.flows().filter(|o| self.announced_by.contains(&o.server())) {
            let class = match o.client_releases() {
                (Some(since), _) if since >= (2, 8) => Class::KeepsAll,
                (_, Some(until)) if until <= (2, 7) => Class::KeepsNumbers,
                _ => continue,
            };
            self.classes.entry(self.family(o.server().address)).or_insert(class);
        }
        for c in given.connections.values().flatten().map(|g| &g.connection) {
            let r = c.record;
            // What was delivered, not what was captured: a capture may hold every packet twice.
            let sent = c.observation.map_or(r.bytes[0], |o| o.counters[0].delivered);
            let Some(fin) = r.fin[0].get().filter(|_| r.rst[0].get().is_none() && sent < 8) else { continue };
            if !self.is_stranger(r.client().address, r.server()) || !completed(r) {
                continue;
            }
            let class = match r.server_closed() {
                Some(closed) if closed.seconds_since(fin) <= ANSWERS => Class::KeepsNumbers,
                Some(_) => Class::KeepsAll,
                None if c.until.seconds_since(fin) >= WATCHED => Class::KeepsAll,
                None => continue,
            };
            self.classes.entry(self.family(r.server().address)).or_insert(class);
        }
    }
}

fn announced(lesson: &Lesson) -> Option<&Announced> {
    lesson.detail.as_ref()?.downcast_ref()
}

/// Whether a flow carries what pairs exchange.
pub(super) fn speaks(f: &FlowObservation) -> bool {
    f.gloo().is_some_and(|PairFacts { speaks, .. }| *speaks)
}

/// Addresses that are joined, directly or by others.
fn families(joined: impl Iterator<Item = (Address, Address)>) -> BTreeMap<Address, u32> {
    let mut families: BTreeMap<Address, u32> = BTreeMap::new();
    let mut members: BTreeMap<u32, Vec<Address>> = BTreeMap::new();
    for (i, (a, b)) in (0u32..).zip(joined) {
        let (x, y) = (families.get(&a).copied(), families.get(&b).copied());
        let into = x.or(y).unwrap_or(i);
        if let (Some(x), Some(y)) = (x, y)
            && x != y
        {
            for moved in members.remove(&y).unwrap_or_default() {
                families.insert(moved, x);
                members.entry(x).or_default().push(moved);
            }
        }
        for new in [(a, x), (b, y)].into_iter().filter(|(_, old)| old.is_none()).map(|(address, _)| address) {
            if families.insert(new, into).is_none() {
                members.entry(into).or_default().push(new);
            }
        }
    }
    families
}

/// Whether the handshake was completed: a half-open scan answers the SYN-ACK with a reset and never reaches the process.
pub(super) fn completed(r: &FlowRecord) -> bool {
    r.accepted() && !r.half_open() && (r.client_packet().is_some() || r.bytes[0] > 0)
}

/// The packet to look at, and its time: the first bytes, the end of a connection that came and went, else its beginning.
pub(super) fn shown(r: &FlowRecord, o: Option<&FlowObservation>) -> (PacketRef, Timestamp) {
    if let Some(first) = o.and_then(|o| o.kept[0].first()) {
        return (first.packet, first.time);
    }
    let brief = r.client_closed().filter(|t| t.seconds_since(r.first) <= ANSWERS);
    brief.zip(r.client_packet()).map_or((r.first_packet, r.first), |(time, packet)| (packet, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_grow_together() {
        let a = |n| Address::v4([192, 0, 2, n]);
        let all = families([(a(1), a(2)), (a(3), a(4)), (a(5), a(5)), (a(4), a(2))].into_iter());
        assert!((2..=4).all(|n| all[&a(n)] == all[&a(1)]) && all[&a(5)] != all[&a(1)], "{all:?}");
    }
}
