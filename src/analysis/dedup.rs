//! From sets to listeners: a flow seen from several vantage points is one flow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::sets::Set;
use crate::names::Names;
use crate::net::Endpoint;
use crate::protocol::listener::Connection;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::DistinctFlow;
use crate::stream::{Activity, Direction, FlowRecord};
use crate::time::Timestamp;

/// How near a set was taken to an endpoint: on its host, at its address, elsewhere.
fn distance(set: &Set, endpoint: Endpoint, names: &Names) -> u8 {
    let host = names.host(endpoint.address);
    match (&set.host, host) {
        (Some(a), Some(b)) if names.same(a, b) => 0,
        _ if set.own == Some(endpoint.address) => 1,
        _ => 2,
    }
}

/// The connections to each of `listeners`, one for each flow, in order of time.
pub(super) fn gather<'a>(
    sets: &'a [Set],
    listeners: &BTreeSet<Endpoint>,
    names: &Names,
) -> BTreeMap<Endpoint, Vec<DistinctFlow<'a>>> {
    // Flows and records of each set by listener, once.
    type Held<'a> = (Vec<&'a FlowRecord>, HashMap<u64, &'a FlowObservation>);
    let mut held: BTreeMap<Endpoint, Vec<(usize, Held<'a>)>> = BTreeMap::new();
    for (i, set) in sets.iter().enumerate() {
        let mut of_set: BTreeMap<Endpoint, Held<'a>> = BTreeMap::new();
        for r in set.seen.records.iter().filter(|r| listeners.contains(&r.server())) {
            of_set.entry(r.server()).or_default().0.push(r);
        }
        for f in set.seen.flows.iter().filter(|f| listeners.contains(&f.server())) {
            of_set.entry(f.server()).or_default().1.insert(key_of(&f.record), f);
        }
        for (endpoint, flows) in of_set {
            held.entry(endpoint).or_default().push((i, flows));
        }
    }
    let mut all = BTreeMap::new();
    for (endpoint, mut of_sets) in held {
        // Of several captures of one host the one with fewer packets: it is easier to check by hand.
        of_sets.sort_by_key(|(i, _)| (distance(&sets[*i], endpoint, names), sets[*i].seen.counters.packets, *i));
        let most = of_sets.iter().map(|(_, (records, _))| records.len()).max().unwrap_or(0);
        let mut gathered: Vec<DistinctFlow<'a>> = Vec::with_capacity(most);
        // Places in `gathered` by identity.
        let (hasher, mut places) = (RandomState::new(), HashTable::<u32>::with_capacity(most));
        for (i, (records, observations)) in of_sets {
            let until = sets[i].span.map_or(Timestamp::MIN, |s| s.1);
            for record in records {
                let observation = observations.get(&key_of(record)).copied();
                let record = observation.map_or(record, |o| &o.record);
                let identity = identity(record);
                let known = |place: &u32| self::identity(gathered[*place as usize].connection.record);
                let hash = hasher.hash_one(identity);
                if let Some(place) = places.find(hash, |place| known(place) == identity) {
                    gathered[*place as usize].elsewhere.extend(observation);
                    continue;
                }
                let place = u32::try_from(gathered.len()).unwrap_or(u32::MAX);
                places.insert_unique(hash, place, |place| hasher.hash_one(known(place)));
                let connection = Connection { record, observation, until };
                gathered.push(DistinctFlow { connection, elsewhere: Vec::new() });
            }
        }
        gathered.sort_unstable_by_key(|g| (g.connection.record.first, g.connection.record.client()));
        all.insert(endpoint, gathered);
    }
    all
}

/// What tells the flows to one listener apart: without a sequence number, flows of one client's port by the minute.
fn identity(record: &FlowRecord) -> (Endpoint, Option<u32>, i64) {
    let isn = record.isn(Direction::ToServer);
    (record.client(), isn, if isn.is_some() { 0 } else { record.first.0 / 60_000_000_000 })
}

/// Clocks of captures that are left as they are may be apart by so many nanoseconds, with the way of a packet.
const CLOCKS_APART: i64 = 250_000_000;

/// A record and the observation made of it have their first packet in common.
fn key_of(r: &FlowRecord) -> u64 {
    (u64::from(r.first_packet.capture) << 44) ^ r.first_packet.number
}

/// When each of these listeners sent anything, and whether one clock says so. The host's own captures first: by their clock
/// the claims are timed.
pub(super) fn activities(
    sets: &[Set],
    listeners: &BTreeSet<Endpoint>,
    names: &Names,
) -> BTreeMap<Endpoint, (Activity, bool)> {
    let mut activities: BTreeMap<Endpoint, Activity> = BTreeMap::new();
    // Endpoints that were seen by one clock: of their host's own captures, or of one capture alone.
    let mut clocks: BTreeMap<Endpoint, (bool, usize)> = BTreeMap::new();
    for home in [true, false] {
        for set in sets {
            for (endpoint, more) in set.seen.activity.iter().filter(|(e, _)| listeners.contains(e)) {
                let own = set.own == Some(endpoint.address)
                    || set.host.as_deref().is_some_and(|h| names.addresses(h).contains(&endpoint.address));
                if home {
                    let (at_home, sets) = clocks.entry(*endpoint).or_default();
                    (*at_home, *sets) = (*at_home || own, *sets + 1);
                }
                match (home, own) {
                    (true, true) => activities.entry(*endpoint).or_default().merge(more),
                    (false, false) => activities.entry(*endpoint).or_default().merge_apart(more, CLOCKS_APART),
                    _ => {}
                }
            }
        }
    }
    let one_clock = |e: Endpoint| clocks.get(&e).is_some_and(|(at_home, sets)| *at_home || *sets == 1);
    activities.into_iter().map(|(e, activity)| (e, (activity, one_clock(e)))).collect()
}
