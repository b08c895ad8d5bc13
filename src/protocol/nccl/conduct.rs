//! Listeners that nothing names but what they do: a bootstrap root ends at the first stray, before any rank has come.

use std::collections::{BTreeMap, BTreeSet};

use super::network::Evidence;
use crate::net::{Address, Endpoint};
use crate::stream::{FlowRecord, Ordinary, PacketRef};
use crate::time::Timestamp;

/// Ephemeral ports begin here at the earliest.
const FIRST_PORT: u16 = 1024;
/// A stray that ends a root sends no more than a check-in, which a capture may hold twice.
const STRAY_BYTES: u64 = 512;
/// Endpoints that are looked at, and addresses that are kept of each.
const ENDPOINTS: usize = 65_536;
const ADDRESSES: usize = 64;

/// What an endpoint did.
#[derive(Default)]
struct Conduct {
    strays: BTreeSet<Address>,
    accepted: u64,
    last_accept: Option<Timestamp>,
    refused: BTreeSet<Address>,
    refusals: u64,
    first_refusal: Option<(Timestamp, PacketRef)>,
    /// It answered somebody, or was sent more than a stray sends.
    served: bool,
}

impl Conduct {
    fn note(&mut self, record: &FlowRecord) {
        let client = record.client().address;
        if record.refused() {
            self.refusals += 1;
            let (time, packet) = (record.first, record.server_close_packet());
            self.first_refusal = Some(self.first_refusal.map_or((time, packet), |f| f.min((time, packet))));
            if self.refused.len() < ADDRESSES {
                self.refused.insert(client);
            }
        } else if record.accepted() {
            self.accepted += 1;
            self.served |= !is_stray(record);
            self.last_accept = self.last_accept.max(Some(record.first));
            if self.strays.len() < ADDRESSES {
                self.strays.insert(client);
            }
        }
    }

    fn count(&mut self, o: &Ordinary) {
        self.accepted += o.count;
        self.served |= o.spoken > 0;
        self.last_accept = self.last_accept.max(Some(o.last));
        if self.strays.len() < ADDRESSES {
            self.strays.insert(o.client);
        }
    }

    /// It took connections, sent nothing on any, and from one moment on refused everybody; among those somebody who is
    /// not the stranger (on one host the addresses do not tell).
    fn evidence(&self, own: Address) -> Option<Evidence> {
        let (time, packet) = self.first_refusal?;
        let ended = !self.served && self.last_accept.is_some_and(|t| t < time);
        let others = self.refused.iter().any(|a| *a == own || !self.strays.contains(a));
        let text = format!(
            "it took {} connection{} without sending a byte and refused all {} that came later",
            self.accepted,
            if self.accepted == 1 { "" } else { "s" },
            self.refusals
        );
        (ended && others).then_some(Evidence { text, packet: Some(packet) })
    }
}

fn is_stray(record: &FlowRecord) -> bool {
    record.bytes[1] == 0 && record.bytes[0] <= STRAY_BYTES
}

/// Endpoints that did what a bootstrap root does at its first stray, with what they did, by records and by counts. It proves nothing: any service
/// may have been stopped.
pub fn suspects<'a>(
    (records, ordinary): (impl Iterator<Item = &'a FlowRecord> + Clone, impl Iterator<Item = &'a Ordinary>),
    known: impl Fn(Endpoint) -> bool,
) -> BTreeMap<Endpoint, Evidence> {
    let mut conducts: BTreeMap<Endpoint, Conduct> = BTreeMap::new();
    for r in records.clone().filter(|r| r.syn.get().is_some() && r.accepted() && is_stray(r)) {
        if r.server().port >= FIRST_PORT && conducts.len() < ENDPOINTS && !known(r.server()) {
            conducts.entry(r.server()).or_default();
        }
    }
    for r in records {
        if let Some(conduct) = conducts.get_mut(&r.server()) {
            conduct.note(r);
        }
    }
    for o in ordinary {
        if let Some(conduct) = conducts.get_mut(&o.server) {
            conduct.count(o);
        }
    }
    conducts.into_iter().filter_map(|(e, c)| Some((e, c.evidence(e.address)?))).collect()
}
