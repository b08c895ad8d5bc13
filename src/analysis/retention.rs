//! Connections that say nothing new: beyond the first ones of a kind they are counted, not kept.
//!
//! What is kept of a connection to a store is some kilobytes. A health check that asks a store for `GET /` every second, or a client
//! that comes and goes, would fill any memory with what is known already. So connections from one address to one listener
//! that a reader could not tell apart are kept [`KEPT`] times, the earliest ones, whatever the order in which they
//! end; the others keep their record in the flow table, and their number stands as occurrences of the first
//! finding. A connection with a claim, a gap, an overlap or a lesson is never folded.

use std::collections::BTreeMap;

use crate::net::{Address, Endpoint};
use crate::protocol::DISSECTORS;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::ProtocolSet;
use crate::stream::PacketRef;
use crate::time::Timestamp;

/// Connections kept of one kind: the inference looks at as many strays of a listener.
pub(super) const KEPT: usize = 256;

/// What cannot be told apart: listener, source, and a hash of what makes the judgement.
pub type FoldKey = (Endpoint, Address, u64);

/// Connections of one kind that were not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// How many.
    pub count: u64,
    /// When the last one began.
    pub last: Timestamp,
}

/// Connections kept of one kind.
#[derive(Debug, Default)]
struct Group {
    /// When each began, and its place among all that were kept.
    kept: Vec<(Timestamp, PacketRef, usize)>,
    folded: Option<Folded>,
}

/// Decides which connections are kept.
#[derive(Debug, Default)]
pub(super) struct Folder {
    groups: BTreeMap<FoldKey, Group>,
}

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Retention {
    /// It is kept, at a place of its own.
    Keep,
    /// It is kept, in the place of a later one.
    Replace(usize),
    /// It is counted only.
    Fold,
}

impl Folder {
    /// What becomes of `o`, whose place would be `place`.
    pub(super) fn take(&mut self, o: &FlowObservation, place: usize) -> Retention {
        let Some(kind) = kind(o) else { return Retention::Keep };
        let group = self.groups.entry(kind).or_default();
        let this = (o.record.first, o.record.first_packet, place);
        if group.kept.len() < KEPT {
            if group.kept.is_empty() {
                group.kept.reserve_exact(1);
            }
            group.kept.push(this);
            return Retention::Keep;
        }
        let latest = group.kept.iter().enumerate().max_by_key(|(_, k)| (k.0, k.1)).map(|(i, k)| (i, *k));
        let (fate, folded) = match latest {
            Some((i, (first, packet, at))) if (this.0, this.1) < (first, packet) => {
                if let Some(slot) = group.kept.get_mut(i) {
                    *slot = (this.0, this.1, at);
                }
                (Retention::Replace(at), first)
            }
            _ => (Retention::Fold, this.0),
        };
        let before = group.folded.unwrap_or(Folded { count: 0, last: folded });
        group.folded = Some(Folded { count: before.count + 1, last: before.last.max(folded) });
        fate
    }

    /// What was not kept.
    pub(super) fn finish(self) -> BTreeMap<FoldKey, Folded> {
        self.groups.into_iter().filter_map(|(kind, group)| Some((kind, group.folded?))).collect()
    }
}

/// What a connection is, as far as any rule looks at it; `None`: it has something of its own and is kept.
pub(super) fn kind(o: &FlowObservation) -> Option<FoldKey> {
    let plain = o.gaps == 0 && o.overlap_count == 0 && o.outer.is_empty() && o.record.direction_known;
    let readers = (0..).map(ProtocolSet::only).zip(DISSECTORS).filter(|(place, _)| o.read_by.contains(*place));
    let mut print = None;
    for (_, dissector) in readers.filter(|_| plain) {
        print = Some(print.unwrap_or(0) ^ dissector.alike(o)?);
    }
    let print = print?;
    Some((o.server(), o.client().address, print))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::scan::{ScanOptions, SetScan};
    use crate::capture::{Limits, Reader};
    use crate::protocol::named_ports;
    use crate::vocabulary::Protocol;

    fn observed() -> Vec<FlowObservation> {
        let options = ScanOptions {
            ports: [29500].into_iter().collect(),
            named: named_ports([(Protocol::Tcpstore, [29500].into_iter().collect())]),
            only: None,
            max_flows: 4096,
            max_tracked_bytes: 1 << 24,
            keep_heads: false,
        };
        let mut scan = SetScan::new(0, options);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/scans/curl.pcap");
        let mut reader = Reader::open(std::path::Path::new(path), &Limits::default()).unwrap();
        while let Some(packet) = reader.next().unwrap() {
            scan.packet(0, &packet);
        }
        scan.finish().flows
    }

    #[test]
    fn the_earliest_of_a_kind_are_kept_whatever_the_order() {
        let flows = observed();
        let plain = flows.iter().find(|o| kind(o).is_some()).expect("a connection with nothing of its own");
        let at = |n: i64| {
            let mut o = plain.clone();
            o.record.first = Timestamp(n);
            o
        };
        let many = KEPT as i64 + 40;
        for order in
            [(0..many).collect::<Vec<i64>>(), (0..many).rev().collect(), (0..many).map(|n| n * 7 % many).collect()]
        {
            let mut folder = Folder::default();
            let mut kept: Vec<i64> = Vec::new();
            for n in order {
                match folder.take(&at(n), kept.len()) {
                    Retention::Keep => kept.push(n),
                    Retention::Replace(i) => kept[i] = n,
                    Retention::Fold => {}
                }
            }
            kept.sort_unstable();
            assert_eq!(kept, (0..KEPT as i64).collect::<Vec<_>>());
            let folded: Vec<Folded> = folder.finish().into_values().collect();
            assert_eq!(folded, [Folded { count: 40, last: Timestamp(many - 1) }]);
        }
    }
}
