//! From sets to listeners: a flow seen from several vantage points is one flow.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::sets::Set;
use crate::names::Names;
use crate::net::Endpoint;
use crate::protocol::listener::Connection;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::DistinctFlow;
use crate::stream::{Activity, FlowRecord};
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
        let mut place: HashMap<(Endpoint, Option<u32>, i64), usize> = HashMap::new();
        let mut gathered: Vec<DistinctFlow<'a>> = Vec::new();
        for (i, (records, observations)) in of_sets {
            let until = sets[i].span.map_or(Timestamp::MIN, |s| s.1);
            for record in records {
                let observation = observations.get(&key_of(record)).copied();
                let record = observation.map_or(record, |o| &o.record);
                let isn = record.isn(crate::stream::Direction::ToServer);
                // Without a sequence number, flows of one pair of endpoints are told apart by the minute.
                let minute = if isn.is_some() { 0 } else { record.first.0 / 60_000_000_000 };
                let identity = (record.client(), isn, minute);
                match place.get(&identity) {
                    Some(at) => gathered[*at].elsewhere.extend(observation),
                    None => {
                        place.insert(identity, gathered.len());
                        let connection = Connection { record, observation, until };
                        gathered.push(DistinctFlow { connection, elsewhere: Vec::new() });
                    }
                }
            }
        }
        gathered.sort_by_key(|g| (g.connection.record.first, g.connection.record.client()));
        all.insert(endpoint, gathered);
    }
    all
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
