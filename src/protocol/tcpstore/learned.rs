//! What the traffic of a store teaches of other listeners and of the job: where its workers' store is, which bootstrap
//! roots and pairs its ranks will speak to, who takes part.

pub use super::said::Said;
use std::collections::{BTreeMap, VecDeque};

use super::answer::Answer;
use super::elastic::parse_elastic_state;
use super::elastic_events::ElasticJob;
use super::key::{ELASTIC_STATE, Purpose, purpose};
use super::request::Message;
use super::signs::Signs;
use super::{Field, Operation};
use crate::protocol::gloo;
use crate::protocol::nccl::{UniqueId, parse_unique_id};

/// Requests whose keys are remembered until their answer.
const PENDING: usize = 64;
/// Ids, stores and jobs kept a connection.
const KEPT: usize = 64;
/// Ranks kept a connection.
const MEMBERS: usize = 4096;

/// A bootstrap root, named by a stored `ncclUniqueId`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedRoot {
    /// The id: where the root listens, and what its connections begin with.
    pub id: UniqueId,
    /// The key that holds the id.
    pub key: Vec<u8>,
    /// Where the id was first seen.
    pub said: Said,
}

/// The workers' own store, named by an elastic rendezvous.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedStore {
    /// `MASTER_ADDR`.
    pub address: Option<String>,
    /// `MASTER_PORT`.
    pub port: Option<u16>,
    /// Where the later of both was first seen.
    pub said: Said,
}

/// What one connection taught. Bounded.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Learned {
    /// Bootstrap roots.
    pub roots: Vec<NamedRoot>,
    /// Workers' stores, by the rendezvous round that names them.
    pub stores: BTreeMap<String, NamedStore>,
    /// Gloo addresses by group and rank: where the rank waits for its pairs (up to 1.13 one address a peer).
    pub gloo: BTreeMap<(String, u64), (gloo::Blob, Said)>,
    /// Elastic jobs by run id.
    pub jobs: BTreeMap<String, ElasticJob>,
    /// The highest count of `init/`: how many workers joined.
    pub joined: u64,
    /// Where the first count of `init/` was answered, and the count: this worker's own place in the order.
    pub joined_as: Option<(u64, Said)>,
    /// Signs of life, of failure and of the end.
    pub signs: Signs,
    pending: VecDeque<(u64, Vec<Field>)>,
}

impl Learned {
    /// Takes note of a request: what it writes is known now, what it reads when it is answered.
    pub(super) fn request(&mut self, m: &Message) {
        let said = Said { time: m.time, packet: m.last };
        if self.signs.request(m, said) {
            self.remember(m);
        }
        match m.query {
            Operation::Set | Operation::MultiSet | Operation::Append => {
                for (key, value) in m.keys.iter().zip(&m.values) {
                    self.written(key, value, said);
                }
            }
            Operation::CompareSet => {
                if let (Some(key), [expected, desired]) = (m.keys.first(), m.values.as_slice()) {
                    match purpose(&key.bytes, None) {
                        Some(Purpose::ElasticState) => self.elastic(key, Some(expected), desired, said),
                        _ => self.written(key, desired, said),
                    }
                }
                self.remember(m);
            }
            Operation::Get | Operation::MultiGet | Operation::Add => self.remember(m),
            _ => {}
        }
    }

    /// The connection has ended: no answer will come.
    pub(super) fn settle(&mut self) {
        self.pending = VecDeque::new();
        self.roots.shrink_to_fit();
        self.signs.signals.shrink_to_fit();
    }

    /// Whether it tells anything that another connection from the same host does not.
    pub fn teaches(&self) -> bool {
        !self.roots.is_empty()
            || !self.stores.is_empty()
            || !self.gloo.is_empty()
            || !self.jobs.is_empty()
            || self.signs.signal_count > 0
            || !self.signs.pulses.is_empty()
    }

    fn remember(&mut self, m: &Message) {
        if self.pending.len() >= PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((m.id, m.keys.clone()));
    }

    /// Takes note of an answer.
    pub(super) fn answer(&mut self, a: &Answer) {
        let Some(at) = self.pending.iter().position(|(id, _)| *id == a.request) else { return };
        let Some((_, keys)) = self.pending.remove(at) else { return };
        let said = Said { time: a.time, packet: a.last };
        if a.query == Operation::Check {
            self.signs.answer(&keys, a, said);
            return;
        }
        if a.query == Operation::Add {
            if keys.first().is_some_and(|k| k.bytes == b"init/") {
                let count = a.number.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
                self.joined = self.joined.max(count);
                self.joined_as = self.joined_as.or(Some((count, said)));
            }
            return;
        }
        for (key, value) in keys.iter().zip(&a.fields) {
            self.value(key, value, said);
        }
    }

    /// What a client writes under a key.
    fn written(&mut self, key: &Field, value: &Field, said: Said) {
        if !key.is_whole() || !value.is_whole() {
            return;
        }
        let purpose = purpose(&key.bytes, Some(&value.bytes));
        self.signs.written(purpose, &key.bytes, &value.bytes, said);
        self.taught(purpose, key, value, said);
    }

    /// What a key holds, as an answer tells.
    fn value(&mut self, key: &Field, value: &Field, said: Said) {
        if key.is_whole() && value.is_whole() {
            self.taught(purpose(&key.bytes, Some(&value.bytes)), key, value, said);
        }
    }

    fn taught(&mut self, purpose: Option<Purpose>, key: &Field, value: &Field, said: Said) {
        if value.bytes.is_empty() {
            return;
        }
        match purpose {
            Some(Purpose::NcclUniqueId) => self.root(&key.bytes, &value.bytes, said),
            Some(Purpose::MasterAddress) => {
                let text = String::from_utf8_lossy(&value.bytes).into_owned();
                if let Some(store) = self.store(&key.bytes, said) {
                    store.address.get_or_insert(text);
                }
            }
            Some(Purpose::MasterPort) => {
                let port = std::str::from_utf8(&value.bytes).ok().and_then(|t| t.trim().parse().ok());
                if let Some(store) = self.store(&key.bytes, said) {
                    store.port = store.port.or(port);
                }
            }
            Some(Purpose::GlooAddress) => self.pair(&key.bytes, &value.bytes, said),
            Some(Purpose::ElasticState) => self.elastic(key, None, value, said),
            _ => {}
        }
    }

    fn root(&mut self, key: &[u8], value: &[u8], said: Said) {
        if self.roots.len() < KEPT
            && let Some(id) = parse_unique_id(value)
            && !self.roots.iter().any(|r| r.id == id)
        {
            self.roots.push(NamedRoot { id, key: key.to_vec(), said });
        }
    }

    /// The workers' store of the round that a `…/MASTER_ADDR` or `…/MASTER_PORT` key belongs to.
    fn store(&mut self, key: &[u8], said: Said) -> Option<&mut NamedStore> {
        let text = String::from_utf8_lossy(key);
        let round = text.rsplit_once('/')?.0.to_string();
        if self.stores.len() >= KEPT && !self.stores.contains_key(&round) {
            return None;
        }
        let store = self.stores.entry(round).or_insert(NamedStore { address: None, port: None, said });
        if store.address.is_none() || store.port.is_none() {
            store.said = said;
        }
        Some(store)
    }

    fn pair(&mut self, key: &[u8], value: &[u8], said: Said) {
        let text = String::from_utf8_lossy(key).into_owned();
        let Some((group, rank)) = text.rsplit_once('/') else { return };
        let (Ok(rank), Some(mut blob)) = (rank.parse::<u64>(), gloo::parse_blob(value)) else { return };
        blob.endpoints.truncate(MEMBERS);
        if self.gloo.len() < MEMBERS {
            self.gloo.entry((group.to_string(), rank)).or_insert((blob, said));
        }
    }

    /// A state that the store holds, or (with what it expects to be there) one that an agent wants to be written.
    fn elastic(&mut self, key: &Field, expected: Option<&Field>, value: &Field, said: Said) {
        if !key.is_whole() || !value.is_whole() {
            return;
        }
        let Some(run_id) = key.bytes.strip_prefix(ELASTIC_STATE).map(String::from_utf8_lossy) else { return };
        let Ok(Some(state)) = parse_elastic_state(&value.bytes) else { return };
        if self.jobs.len() >= KEPT && !self.jobs.contains_key(&*run_id) {
            return;
        }
        let job = self.jobs.entry(run_id.to_string()).or_insert_with(|| ElasticJob::new(&state, said));
        match expected {
            Some(expected) => {
                let before =
                    if job.writer.is_none() { parse_elastic_state(&expected.bytes).ok().flatten() } else { None };
                job.wanted(before.as_ref(), state, said);
            }
            None => job.held(state, said),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{connections, decode_as};
    use super::super::{Dialect, Event};
    use super::*;
    use crate::stream::PacketRef;
    use crate::time::Timestamp;

    fn taught(capture: &str, port: u16) -> Vec<Learned> {
        connections(capture, port)
            .values()
            .map(|pieces| {
                let mut learned = Learned::default();
                for event in decode_as(Dialect::D, pieces, false) {
                    match event {
                        Event::Request(m) => learned.request(&m),
                        Event::Answer(a) => learned.answer(&a),
                        _ => {}
                    }
                }
                learned
            })
            .collect()
    }

    #[test]
    fn ids_of_every_layout_are_learnt_from_a_store() {
        let bare = [2, 0, 0xe4, 0xb3, 192, 0, 2, 11];
        let magic = [&[0x82, 4, 0x0f, 0xcc, 0xce, 0x3a, 0x3d, 0x2d][..], &bare].concat();
        for (head, written) in [(&bare[..], 80..96), (&bare, 128..128), (&magic, 40..128), (&magic, 128..128)] {
            let mut id = vec![0; 128];
            id[..head.len()].copy_from_slice(head);
            id[written].fill(0x2a);
            let whole = |bytes: &[u8]| Field { bytes: bytes.to_vec(), length: bytes.len() as u64 };
            let mut learned = Learned::default();
            let said = Said { time: Timestamp(1), packet: PacketRef::default() };
            learned.written(&whole(b"/default_pg/0//cuda//0"), &whole(&id), said);
            let roots: Vec<String> = learned.roots.iter().map(|r| r.id.root.to_string()).collect();
            assert_eq!(roots, ["192.0.2.11:58547"], "{id:?}");
        }
    }

    #[test]
    fn a_rendezvous_names_its_job_and_the_workers_store() {
        let all = taught("torchrun/node-b.pcap", 29400);
        let stores: Vec<_> = all.iter().flat_map(|l| l.stores.values()).collect();
        assert!(stores.iter().any(|s| s.port == Some(33281) && s.address.is_some()), "{stores:?}");
        let job = all.iter().find_map(|l| l.jobs.get("exp42")).expect("the run id");
        assert_eq!(job.agents.len(), 3);
    }

    #[test]
    fn a_real_id_in_a_real_store_names_the_real_root() {
        let all = taught("store-and-nccl/torch2.15-nccl2.26-node-a.pcap", 29500);
        let ids: Vec<UniqueId> = all.iter().flat_map(|l| &l.roots).map(|r| r.id).collect();
        assert!(!ids.is_empty());
        for id in ids {
            assert_eq!(id.root.to_string(), "192.0.2.11:58547");
            assert_eq!(id.magic.map(u64::to_le_bytes), Some([0x82, 0x04, 0x0f, 0xcc, 0xce, 0x3a, 0x3d, 0x2d]));
        }
    }

    #[test]
    fn ranks_are_named_by_their_gloo_addresses() {
        let all = taught("torchrun/node-b.pcap", 33281);
        let mut ranks: Vec<u64> = all.iter().flat_map(|l| l.gloo.keys().map(|(_, r)| *r)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        assert_eq!(ranks, [0, 1, 2, 3, 4, 5]);
        assert!(all.iter().any(|l| l.joined >= 2));
    }
}
