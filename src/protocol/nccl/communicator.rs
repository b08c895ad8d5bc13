//! Communicators: who checked in at which root, who is missing, when the ring closed.

use std::collections::{BTreeMap, BTreeSet};

use super::network::{Flow, NcclListener};
use super::role::Role;
use super::version::Versions;
use crate::net::Endpoint;
use crate::stream::PacketRef;
use crate::time::Timestamp;

/// Ranks that are kept of a communicator, and missing ones that are listed.
const RANKS: usize = 65_536;
const MISSING: usize = 1024;

/// A rank that checked in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rank {
    /// Its rank.
    pub rank: i32,
    /// From where.
    pub client: Endpoint,
    /// Its ring listener.
    pub ring: Option<Endpoint>,
    /// Where it awaits the root's reply.
    pub reply: Option<Endpoint>,
    /// When.
    pub time: Timestamp,
    /// The packet that completed the check-in.
    pub packet: PacketRef,
}

/// A communicator, as its check-ins show it.
#[derive(Clone, Debug)]
pub struct Communicator {
    /// Its magic, of several roots the first one's; `None` up to 2.15.
    pub magic: Option<u64>,
    /// Its roots, in order of their number.
    pub roots: Vec<Endpoint>,
    /// Its size, as most of its check-ins say.
    pub nranks: i32,
    /// Other sizes that check-ins said: a launch with different numbers.
    pub other_nranks: Vec<i32>,
    /// The ranks that checked in, in order of rank.
    pub ranks: Vec<Rank>,
    /// Check-ins of a rank that had checked in already.
    pub duplicates: Vec<Rank>,
    /// Ranks of which no check-in was seen, the first 1024.
    pub missing: Vec<i32>,
    /// How many.
    pub missing_count: u64,
    /// Whether every rank checked in: each was seen to, or what the root and the ring said proves it.
    pub complete: bool,
    /// Of the ranks that checked in: how many got the root's reply.
    pub answered: u64,
    /// When the last ring listener was connected to by its neighbour, if all were.
    pub ring_closed: Option<Timestamp>,
    /// The releases that it may be.
    pub versions: Versions,
    /// When the first rank checked in.
    pub since: Timestamp,
}

impl Communicator {
    /// Whether every rank checked in.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether the root did its work, as far as the ranks that were seen tell: a rank on the root's own host checks
    /// in over loopback, out of sight. Replies go out when the next rank has checked in too.
    pub fn is_served(&self) -> bool {
        self.is_complete() || self.answered > 0 && self.answered == self.ranks.len() as u64
    }
}

struct At {
    rank: Rank,
    nranks: i32,
    roots: (i32, i32),
    /// When its connection was opened.
    opened: Timestamp,
    root: Endpoint,
    magic: Option<u64>,
    versions: Versions,
}

pub(super) fn communicators(flows: &[Flow<'_>], listeners: &mut BTreeMap<Endpoint, NcclListener>) -> Vec<Communicator> {
    // Without a magic the root's endpoint tells communicators apart.
    let mut groups: BTreeMap<(Option<u64>, Option<Endpoint>), Vec<At>> = BTreeMap::new();
    for flow in flows {
        let (record, Some(f)) = (flow.record, flow.facts) else { continue };
        let Some((c, place)) = &f.check_in else { continue };
        if c.reply.is_none() || listeners.get(&record.server()).is_none_or(|l| l.role != Some(Role::Root)) {
            continue;
        }
        let root = record.server();
        let rank = Rank {
            rank: c.rank,
            client: record.client(),
            ring: c.ring,
            reply: c.reply,
            time: place.time,
            packet: place.packet,
        };
        let at = At {
            rank,
            nranks: c.nranks,
            roots: c.roots.unwrap_or((0, 1)),
            opened: record.first,
            root,
            magic: f.magic(),
            versions: c.versions,
        };
        // The constant magic of NCCL_COMM_ID says nothing: many communicators carry it.
        let own = f.magic().filter(|m| *m != super::COMM_ID_MAGIC);
        groups.entry((own, own.is_none().then_some(root))).or_default().push(at);
    }
    let told = Told::of(flows);
    let mut all: Vec<Communicator> = joined(groups).into_iter().map(|g| communicator(g, &told, listeners)).collect();
    // Of strays that no rank followed there is nothing to tell.
    all.retain(|c| !c.ranks.is_empty());
    all.sort_by_key(|c| (c.since, c.magic, c.roots.clone()));
    all
}

/// Several roots of one communicator (2.23 and later): a rank at the boundary checks in at two of them with one ring
/// listener. One root serves one communicator after the other where its port is fixed.
fn joined(groups: BTreeMap<(Option<u64>, Option<Endpoint>), Vec<At>>) -> Vec<Vec<At>> {
    let mut out: Vec<Vec<At>> = Vec::new();
    let mut place: BTreeMap<Endpoint, usize> = BTreeMap::new();
    for ((magic, _), mut group) in groups {
        if group.iter().all(|a| a.roots.1 <= 1) {
            if magic.is_some() {
                out.push(group);
                continue;
            }
            group.sort_by_key(|a| (a.rank.time, a.rank.packet));
            let mut ranks: BTreeSet<i32> = BTreeSet::new();
            let mut current: Vec<At> = Vec::new();
            for at in group {
                let full = current.first().is_some_and(|f| i64::from(f.nranks) == ranks.len() as i64);
                if full && current.last().is_some_and(|l| l.rank.time < at.opened) {
                    out.push(std::mem::take(&mut current));
                    ranks.clear();
                }
                ranks.insert(at.rank.rank);
                current.push(at);
            }
            out.push(current);
            continue;
        }
        let rings: BTreeSet<Endpoint> = group.iter().filter_map(|a| a.rank.ring).collect();
        let joins = rings.iter().find_map(|r| place.get(r).copied());
        let index = joins.unwrap_or(out.len());
        match out.get_mut(index) {
            Some(g) => g.extend(group),
            None => out.push(group),
        }
        place.extend(rings.into_iter().map(|r| (r, index)));
    }
    out
}

/// What connections other than check-ins say of communicators, by the listener that they went to.
#[derive(Default)]
struct Told {
    /// When each listener first got a frame that is no peer's.
    first: BTreeMap<Endpoint, Timestamp>,
    /// The ring listener that the root's reply names.
    replies: BTreeMap<Endpoint, Option<Endpoint>>,
    /// How many ranks' addresses a ring connection carried.
    ring: BTreeMap<Endpoint, usize>,
}

impl Told {
    fn of(flows: &[Flow<'_>]) -> Self {
        let mut told = Told::default();
        for (server, f) in flows.iter().filter_map(|f| Some((f.record.server(), f.facts?))) {
            if let Some((_, place)) = f.first_frame.filter(|_| f.peer.is_none()) {
                let t = told.first.entry(server).or_insert(place.time);
                *t = place.time.min(*t);
            }
            if let Some((next, _)) = f.reply {
                told.replies.entry(server).or_insert(next);
            }
            let peers: BTreeSet<Endpoint> = f.slots.iter().filter_map(|s| s.peer).collect();
            // Up to 2.22 first all peer listeners pass, then all proxies.
            let ranks = peers.len().max(f.ring_addresses.len() / 2);
            let most = told.ring.entry(server).or_default();
            *most = ranks.max(*most);
        }
        told
    }

    /// Whether every rank checked in, as far as replies and the ring prove it.
    fn proves(&self, ranks: &BTreeMap<i32, Rank>, nranks: i32, versions: Versions) -> bool {
        let answered: Vec<&Rank> =
            ranks.values().filter(|r| r.reply.is_some_and(|e| self.replies.contains_key(&e))).collect();
        // Up to 2.22 the root answers nobody before all have come; later a rank when its successor has come too.
        let by_first = versions.until.0 < 22300 && !answered.is_empty();
        let mut known: BTreeSet<i32> = ranks.keys().copied().collect();
        known.extend(answered.iter().map(|r| (r.rank + 1) % nranks.max(1)));
        // In an all-gather the addresses of all others pass through every connection of the ring.
        let others = usize::try_from(nranks).unwrap_or(usize::MAX).saturating_sub(1).max(1);
        let by_ring = ranks.values().filter_map(|r| self.ring.get(&r.ring?)).any(|n| *n >= others);
        nranks > 0 && (by_first || by_ring || i64::try_from(known.len()).is_ok_and(|n| n == i64::from(nranks)))
    }
}

fn communicator(mut group: Vec<At>, told: &Told, listeners: &mut BTreeMap<Endpoint, NcclListener>) -> Communicator {
    group.sort_by_key(|a| (a.roots.0, a.rank.time, a.rank.packet));
    let mut sizes: BTreeMap<i32, u32> = BTreeMap::new();
    for a in &group {
        *sizes.entry(a.nranks).or_default() += 1;
    }
    let nranks = sizes.iter().max_by_key(|(n, count)| (**count, -i64::from(**n))).map_or(0, |(n, _)| *n);
    let mut roots = Vec::new();
    let mut ranks: BTreeMap<i32, Rank> = BTreeMap::new();
    let mut duplicates = Vec::new();
    let mut versions = Versions::ALL;
    for a in &group {
        versions = versions.and(a.versions).unwrap_or(versions);
        if !roots.contains(&a.root) && roots.len() < MISSING {
            roots.push(a.root);
            if let Some(l) = listeners.get_mut(&a.root) {
                l.nranks = Some(nranks);
            }
        }
        if a.rank.rank < 0 || a.rank.rank >= nranks || ranks.len() >= RANKS {
            continue;
        }
        match ranks.get(&a.rank.rank) {
            None => drop(ranks.insert(a.rank.rank, a.rank)),
            Some(r) if r.ring == a.rank.ring => {}
            Some(_) if duplicates.len() < MISSING => duplicates.push(a.rank),
            Some(_) => {}
        }
    }
    let missing: Vec<i32> = (0..nranks).filter(|r| !ranks.contains_key(r)).take(MISSING).collect();
    let missing_count = u64::try_from(nranks).unwrap_or(0).saturating_sub(ranks.len() as u64);
    let magic = group.first().and_then(|a| a.magic);
    // Of several roots each answers with its own id's magic; everything else carries the first one's.
    for ring in ranks.values().filter_map(|r| r.ring) {
        if let Some(l) = listeners.get_mut(&ring).filter(|_| magic.is_some()) {
            (l.magic, l.group) = (magic, magic);
        }
    }
    let ring_closed = ring_closed(&ranks, nranks, &told.first);
    let replies = ranks.values().filter_map(|r| r.reply);
    let answered = replies.filter(|r| told.first.contains_key(r)).count() as u64;
    let complete = told.proves(&ranks, nranks, versions);
    let since = group.iter().map(|a| a.rank.time).min().unwrap_or_default();
    Communicator {
        magic,
        roots,
        nranks,
        other_nranks: sizes.keys().copied().filter(|n| *n != nranks).take(MISSING).collect(),
        ranks: ranks.into_values().collect(),
        duplicates,
        missing,
        missing_count,
        complete,
        answered,
        ring_closed,
        versions,
        since,
    }
}

/// Every rank's ring listener got its neighbour's connection, with at least one frame.
fn ring_closed(ranks: &BTreeMap<i32, Rank>, nranks: i32, first: &BTreeMap<Endpoint, Timestamp>) -> Option<Timestamp> {
    let rings: BTreeSet<Endpoint> = ranks.values().filter_map(|r| r.ring).collect();
    if rings.is_empty() || i64::try_from(rings.len()).ok()? != i64::from(nranks) {
        return None;
    }
    let times: Option<Vec<Timestamp>> = rings.iter().map(|r| first.get(r).copied()).collect();
    times?.into_iter().max()
}
