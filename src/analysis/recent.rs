//! What came lately of the connections that are decoded, with some of each listener's: enough to judge a claim within the second
//! in which it comes, however much a case holds.
//!
//! A conclusion takes longer the more it is drawn from. Whoever waits for packets draws it from all that is kept now and then, and
//! in between looks at the connections that may hold a claim, besides those that show what the listener speaks. Such a look
//! tells of claims only, under the id that they have in any report.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::codec::{self, KeptSegment};
use super::from_store::{Stored, StoredCapture, StoredSet, analyze_stored};
use super::options::Options;
use super::run::Analysis;
use crate::net::Endpoint;
use crate::time::Timestamp;

/// Segments held of one connection, and bytes of their payload: a stray's claim stands in its first requests.
const FLOW_SEGMENTS: usize = 64;
const FLOW_BYTES: usize = 16 << 10;
/// Memory that a segment takes besides its payload, about: itself, and its header on the heap.
const SEGMENT: usize = size_of::<KeptSegment>() + 96;
/// Memory for all of them.
const MEMORY: usize = 32 << 20;
/// Segments of one look.
const LOOK: usize = 20_000;
/// Answered connections of a listener that stay, the earliest and the latest: they show its dialect.
const WITNESSES: usize = 16;
/// Seconds for which a connection is held after its last segment.
const HELD: f64 = 30.0;

/// A connection: the set in which it was seen, client and listener.
type Key = (i64, Endpoint, Endpoint);

/// The beginning of one connection.
#[derive(Debug)]
struct Flow {
    opened: Timestamp,
    last: Timestamp,
    segments: Vec<KeptSegment>,
    bytes: usize,
    /// The listener sent something.
    answered: bool,
    /// It may hold a claim that was not looked at.
    changed: bool,
    witness: bool,
}

/// The beginnings of connections.
#[derive(Debug, Default)]
pub struct RecentFlows {
    flows: HashMap<Key, Flow>,
    captures: BTreeMap<i64, StoredCapture>,
    /// What names hosts.
    names: Stored,
}

impl RecentFlows {
    /// What a case holds already says what its listeners speak.
    pub fn of(stored: &Stored) -> RecentFlows {
        let Stored { hosts, machines, origins, claimed_hosts, .. } = stored;
        let (hosts, machines) = (hosts.clone(), machines.clone());
        let (origins, claimed_hosts) = (origins.clone(), claimed_hosts.clone());
        let names = Stored { hosts, machines, origins, claimed_hosts, ..Stored::default() };
        let mut recent = RecentFlows { names, ..RecentFlows::default() };
        for set in &stored.sets {
            let Some(capture) = set.captures.first() else { continue };
            set.segments.iter().for_each(|blob| recent.take(set.key, capture.clone(), blob, &[]));
        }
        recent.flows.retain(|_, f| f.witness);
        recent
    }

    /// Takes a packed batch of segments of a set that has one capture, and which connections may hold claims since.
    pub fn take(&mut self, set: i64, capture: StoredCapture, batch: &[u8], claims: &[(Endpoint, Endpoint)]) {
        let mut newest = None;
        codec::unpack(batch, &mut |s| {
            newest = newest.max(Some(s.time));
            self.segment(set, s);
            true
        });
        for (client, server) in claims {
            self.flows.entry((set, *client, *server)).and_modify(|f| f.changed = true);
        }
        self.captures.insert(set, capture);
        if let Some(newest) = newest {
            self.settle(newest);
        }
    }

    fn segment(&mut self, set: i64, s: KeptSegment) {
        let (src, dst) = (s.segment().src, s.segment().dst);
        if let Some(record) = &s.opens {
            let key = (set, record.client(), record.server());
            let flow = Flow {
                opened: s.time,
                last: s.time,
                segments: Vec::new(),
                bytes: 0,
                answered: false,
                changed: false,
                witness: false,
            };
            self.flows.insert(key, flow);
        }
        let from_client = self.flows.contains_key(&(set, src, dst));
        let key = if from_client { (set, src, dst) } else { (set, dst, src) };
        // One whose beginning was let go says nothing.
        let Some(flow) = self.flows.get_mut(&key) else { return };
        flow.last = flow.last.max(s.time);
        if flow.segments.len() >= FLOW_SEGMENTS || flow.bytes >= FLOW_BYTES {
            return;
        }
        let length = s.segment().payload.len();
        flow.bytes += length;
        flow.answered |= !from_client && length > 0;
        flow.segments.push(s);
    }

    /// Lets go what is no longer needed.
    fn settle(&mut self, now: Timestamp) {
        let mut answered: BTreeMap<Endpoint, Vec<(Timestamp, Key)>> = BTreeMap::new();
        for (key, flow) in self.flows.iter_mut() {
            flow.witness = false;
            if flow.answered {
                answered.entry(key.2).or_default().push((flow.opened, *key));
            }
        }
        for mut flows in answered.into_values() {
            flows.sort_unstable();
            let late = flows.len().saturating_sub(WITNESSES).max(WITNESSES);
            for (_, key) in flows.iter().take(WITNESSES).chain(flows.iter().skip(late)) {
                self.flows.entry(*key).and_modify(|f| f.witness = true);
            }
        }
        self.flows.retain(|_, f| f.witness || f.changed || now.seconds_since(f.last) < HELD);
        let weight = |f: &Flow| f.bytes + (f.segments.len() + 2) * SEGMENT;
        let mut total: usize = self.flows.values().map(weight).sum();
        if total <= MEMORY {
            return;
        }
        // What was not looked at yet goes last.
        let mut order: Vec<(bool, bool, Timestamp, Key)> =
            self.flows.iter().map(|(key, f)| (f.changed, f.witness, f.last, *key)).collect();
        order.sort_unstable();
        for (.., key) in order {
            if total <= MEMORY / 4 * 3 {
                break;
            }
            total -= self.flows.remove(&key).map_or(0, |f| weight(&f));
        }
    }

    /// Concludes from the connections that may hold a claim since the last look; `None` when there is none.
    pub fn look(&mut self, options: &Options) -> Option<Analysis> {
        let mut changed: Vec<(Timestamp, Key)> =
            self.flows.iter().filter(|(_, f)| f.changed).map(|(key, f)| (f.last, *key)).collect();
        changed.sort_unstable();
        let (mut chosen, mut size): (BTreeSet<Key>, usize) = Default::default();
        for (_, key) in changed {
            let Some(flow) = self.flows.get_mut(&key).filter(|_| size < LOOK) else { break };
            size += flow.segments.len();
            flow.changed = false;
            chosen.insert(key);
        }
        if chosen.is_empty() {
            return None;
        }
        let listeners: BTreeSet<Endpoint> = chosen.iter().map(|key| key.2).collect();
        chosen.extend(self.flows.iter().filter(|(k, f)| f.witness && listeners.contains(&k.2)).map(|(k, _)| *k));
        let mut segments: BTreeMap<i64, Vec<&KeptSegment>> = BTreeMap::new();
        for key in &chosen {
            segments.entry(key.0).or_default().extend(self.flows.get(key).iter().flat_map(|f| &f.segments));
        }
        let mut stored = self.names.clone();
        for (key, mut segments) in segments {
            segments.sort_by_key(|s| (s.time, s.packet));
            let mut batch = Vec::new();
            segments.iter().for_each(|s| s.put(&mut batch));
            let captures = self.captures.get(&key).cloned().into_iter().collect();
            let segments = codec::pack(&batch).ok().into_iter().collect();
            stored.sets.push(StoredSet { key, captures, segments, ..StoredSet::default() });
        }
        Some(analyze_stored(options, stored).analysis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::GrowingSet;
    use crate::capture::{Limits, Reader};

    /// What a recording holds is taken packet by packet, with a look after each; the ids of the claims that looks told.
    fn looked_at(path: &str, recent: &mut RecentFlows) -> BTreeSet<String> {
        let options = Options { paths: vec![path.into()], ..Options::default() };
        let mut set = GrowingSet::new(&options, &StoredSet::default());
        let mut reader = Reader::open(path.as_ref(), &Limits::default()).unwrap();
        let mut told = BTreeSet::new();
        while let Some(packet) = reader.next().unwrap() {
            set.packet(1, &packet);
            let batch = set.take().unwrap();
            let Some(segments) = batch.segments else { continue };
            recent.take(
                7,
                StoredCapture { id: 1, path: path.into(), ..StoredCapture::default() },
                &segments,
                &batch.claims,
            );
            let report = recent.look(&options).map(|a| a.report.findings).unwrap_or_default();
            told.extend(report.into_iter().filter(|f| f.declared.is_some()).map(|f| f.id));
        }
        told
    }

    #[test]
    fn looks_tell_of_the_claims_that_a_whole_report_tells_of() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/incident-torch1.13/node-a.pcap");
        let whole = crate::analysis::analyze(&Options { paths: vec![path.into()], ..Options::default() });
        let claims: BTreeSet<String> =
            whole.report.findings.into_iter().filter(|f| f.declared.is_some()).map(|f| f.id).collect();
        assert!(!claims.is_empty());
        assert_eq!(looked_at(path, &mut RecentFlows::default()), claims);
    }

    #[test]
    fn what_was_not_looked_at_outlives_what_shows_a_dialect() {
        let mut recent = RecentFlows::default();
        let flow = |n: i64, changed: bool| Flow {
            opened: Timestamp(n),
            last: Timestamp(n),
            segments: Vec::new(),
            bytes: MEMORY / 16,
            answered: !changed,
            changed,
            witness: false,
        };
        let at = |port| Endpoint::new("192.0.2.1".parse::<std::net::IpAddr>().unwrap().into(), port);
        for n in 0..32u16 {
            recent.flows.insert((1, at(1000 + n), at(n)), flow(i64::from(n), n == 0));
        }
        recent.settle(Timestamp(40));
        assert!(recent.flows.len() < 16 && recent.flows.contains_key(&(1, at(1000), at(0))));
    }
}
