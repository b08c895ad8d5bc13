//! What stores teach: the jobs they serve, and the listeners they name.

pub(super) use super::store_talk::{StoreTalk, resolve};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::liveness::{self, Heartbeat, TimelineEntry};
use super::sets::Set;
use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::protocol::gloo::{self, Announced};
use crate::protocol::listener::{Listener, NAMED_BY_A_KILL};
use crate::protocol::seam::Lesson;
use crate::protocol::tcpstore::{Dialect, NamedRoot, Said};
use crate::stream::PacketRef;
use crate::time::Timestamp;
use crate::vocabulary::Protocol;

/// One training job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) run_id: Option<String>,
    pub(super) world_size: Option<u64>,
    /// Rank, address, when it joined, when it was last heard of.
    pub(super) participants: Vec<Participant>,
    /// The store that serves it.
    pub(super) store: Endpoint,
    /// Who showed regularly that it lives, and until when.
    pub(super) signs: Vec<Heartbeat>,
    /// What happened to it, in order of time.
    pub(super) timeline: Vec<TimelineEntry>,
}

/// A rank, or an agent whose ranks are not known.
#[derive(Clone, Debug)]
pub(super) struct Participant {
    pub(super) rank: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) address: Option<Address>,
    pub(super) joined: Timestamp,
    pub(super) last: Timestamp,
}

/// What all stores taught together.
#[derive(Debug, Default)]
pub(super) struct Discovered {
    /// Workers' stores, the rendezvous that named them, where and how.
    pub(super) stores: BTreeMap<Endpoint, (Endpoint, Said, String)>,
    /// Gloo's listeners: the store that named them, where, and whose they are.
    pub(super) pairs: BTreeMap<Endpoint, (Endpoint, Said, Announced)>,
    /// NCCL bootstrap roots, with the store that holds their id.
    pub(super) roots: Vec<(Endpoint, NamedRoot)>,
    /// Workers' stores by run id and the store of the rendezvous that named them.
    workers: BTreeMap<(String, Endpoint), BTreeSet<Endpoint>>,
    /// Stores that nothing but the kill of a process on their host names.
    pub(super) suspects: BTreeSet<Endpoint>,
    by_store: BTreeMap<Endpoint, Vec<StoreTalk>>,
}

impl Discovered {
    /// Stores and NCCL roots that stores named, with how.
    pub(super) fn named(&self) -> BTreeMap<Endpoint, String> {
        let roots = self.roots.iter().map(|(store, r)| {
            (r.id.root, format!("NCCL's unique id in the store {store} (packet {})", r.said.packet.number))
        });
        roots.chain(self.stores.iter().map(|(e, (.., by))| (*e, by.clone()))).collect()
    }

    /// What stores say of other listeners.
    pub(super) fn taught(&self) -> Vec<Lesson> {
        let lesson = |protocol, endpoint, by, teacher, said: Said| Lesson {
            protocol,
            endpoint,
            teacher,
            by,
            packet: said.packet,
            members: None,
            detail: None,
        };
        let stores = self
            .stores
            .iter()
            .map(|(e, (rendezvous, said, by))| lesson(Protocol::Tcpstore, *e, by.clone(), *rendezvous, *said));
        let pairs = self.pairs.iter().map(|(e, (store, said, whose))| {
            let by = format!("a Gloo address in the store {store} (packet {})", said.packet.number);
            let detail: Option<Arc<dyn Any + Send + Sync>> = Some(Arc::new(whose.clone()));
            Lesson { detail, ..lesson(Protocol::Gloo, *e, by, *store, *said) }
        });
        let roots = self.roots.iter().map(|(store, r)| {
            let by = format!("NCCL's unique id in the store {store} (packet {})", r.said.packet.number);
            let members = self.world_size(*store);
            let detail: Option<Arc<dyn Any + Send + Sync>> = Some(Arc::new(r.id));
            Lesson { members, detail, ..lesson(Protocol::Nccl, r.id.root, by, *store, r.said) }
        });
        let suspects = self.suspects.iter().map(|e| Lesson {
            protocol: Protocol::Tcpstore,
            endpoint: *e,
            teacher: *e,
            by: NAMED_BY_A_KILL.to_string(),
            packet: PacketRef::default(),
            members: None,
            detail: None,
        });
        stores.chain(pairs).chain(roots).chain(suspects).collect()
    }

    /// How many workers a store serves, as far as its traffic tells.
    pub(super) fn world_size(&self, store: Endpoint) -> Option<u64> {
        let heard = self.by_store.get(&store)?;
        let joined = heard.iter().map(|h| h.learned.joined).max().filter(|n| *n > 0);
        ranks(heard).iter().filter_map(|p| p.rank).max().map(|r| r + 1).max(joined)
    }
}

/// Reads what every store connection taught. A connection that makes sense in one dialect only is read in that one;
/// values do not depend on the dialect, so any sound reading does.
pub(super) fn lessons(sets: &[Set], names: &Names) -> Discovered {
    let mut lessons = Discovered::default();
    let mut nameless: BTreeSet<(String, Endpoint, u16)> = BTreeSet::new();
    let mut roots: BTreeMap<(Endpoint, Option<u64>), (Endpoint, &NamedRoot)> = BTreeMap::new();
    for f in sets.iter().flat_map(|s| &s.seen.flows) {
        let sound =
            Dialect::ALL.iter().filter_map(|d| f.facts(*d)).find(|x| x.reading.is_sound() && x.implausible == 0);
        let Some(learned) = sound.map(|x| &x.learned) else { continue };
        for store in learned.stores.iter() {
            let (round, named) = store;
            let address = named.address.as_deref().and_then(|a| resolve(a, names));
            if let (None, Some(port), Some(run)) = (address, named.port, run_of(round)) {
                nameless.insert((run.to_string(), f.server(), port));
            }
            if let (Some(address), Some(port)) = (address, named.port) {
                let by = format!(
                    "{} of the rendezvous store {} (packet {})",
                    round.trim_start_matches('/'),
                    f.server(),
                    named.said.packet.number
                );
                let workers = Endpoint::new(address, port);
                if let Some(run) = run_of(round) {
                    lessons.workers.entry((run.to_string(), f.server())).or_default().insert(workers);
                }
                let found = (f.server(), named.said, by);
                let slot = lessons.stores.entry(workers).or_insert_with(|| found.clone());
                if age(&named.said) < age(&slot.1) {
                    *slot = found;
                }
            }
        }
        for ((group, rank), (blob, said)) in &learned.gloo {
            for (entry, endpoint) in blob.endpoints.iter().enumerate() {
                let found = (f.server(), *said, Announced::of(group, *rank, blob, entry));
                let slot = lessons.pairs.entry(*endpoint).or_insert_with(|| found.clone());
                if age(&found.1) < age(&slot.1) {
                    *slot = found;
                }
            }
        }
        for root in &learned.roots {
            let slot = roots.entry((root.id.root, root.id.magic)).or_insert((f.server(), root));
            if age(&root.said) < age(&slot.1.said) {
                *slot = (f.server(), root);
            }
        }
        lessons.by_store.entry(f.server()).or_default().push(StoreTalk {
            client: f.client(),
            server: f.server(),
            last: f.record.last,
            closed: f.record.client_closed(),
            learned: Arc::clone(learned),
        });
    }
    lessons.roots = roots.into_values().map(|(store, root)| (store, root.clone())).collect();
    // A name that nothing resolves (`MASTER_ADDR=node-1`) with a port at which one store alone was seen.
    let mut by_port: BTreeMap<u16, BTreeSet<Endpoint>> = BTreeMap::new();
    for store in lessons.by_store.keys() {
        by_port.entry(store.port).or_default().insert(*store);
    }
    for (run, rendezvous, port) in nameless {
        if let Some([store]) = by_port.get(&port).map(|s| s.iter().copied().collect::<Vec<_>>()).as_deref() {
            lessons.workers.entry((run, rendezvous)).or_default().insert(*store);
        }
    }
    lessons.roots.sort_by_key(|(_, r)| (age(&r.said), r.id.root));
    lessons
}

/// The run id of a rendezvous round: `/torch.rendezvous.exp42.0` is round 0 of `exp42`.
fn run_of(round: &str) -> Option<&str> {
    Some(round.strip_prefix("/torch.rendezvous.")?.rsplit_once('.')?.0)
}

/// What was said first counts, whatever the order in which captures were named.
pub(super) fn age(said: &Said) -> (Timestamp, u64) {
    (said.time, said.packet.number)
}

/// The jobs of all stores that serve one: an elastic job with the ranks of its workers' store, or a store whose ranks
/// gave their Gloo addresses, or counted themselves.
pub(super) fn jobs(lessons: &Discovered, listeners: &[Listener], names: &Names) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut served: BTreeSet<Endpoint> = BTreeSet::new();
    for (rendezvous, heard) in &lessons.by_store {
        let runs: BTreeSet<&String> = heard.iter().flat_map(|h| h.learned.jobs.keys()).collect();
        for run in runs {
            let named = lessons.workers.get(&(run.clone(), *rendezvous));
            let store = named.into_iter().flatten().find(|e| lessons.by_store.contains_key(e)).copied();
            let of_workers = store.and_then(|s| lessons.by_store.get(&s)).map(Vec::as_slice).unwrap_or_default();
            let (signs, timeline) = liveness::of_job(Some((run, heard)), of_workers, names);
            let mut participants = ranks(of_workers);
            if participants.is_empty() {
                participants = agents(&signs);
            }
            let at = store.unwrap_or(*rendezvous);
            served.extend([at, *rendezvous]);
            let world_size = world_size(&participants, of_workers);
            jobs.push(Job { run_id: Some(run.clone()), world_size, participants, store: at, signs, timeline });
        }
    }
    for l in listeners.iter().filter(|l| !served.contains(&l.endpoint)) {
        let Some(heard) = lessons.by_store.get(&l.endpoint) else { continue };
        let mut participants = ranks(heard);
        let joined = heard.iter().map(|h| h.learned.joined).max().unwrap_or(0);
        let (signs, timeline) = liveness::of_job(None, heard, names);
        let told = signs.iter().any(|s| s.count > 1) || timeline.iter().any(TimelineEntry::is_of_failure);
        if participants.is_empty() && joined <= 1 && !told {
            continue;
        }
        if participants.is_empty() {
            participants = workers(heard);
        }
        let world_size = world_size(&ranks(heard), heard).max((joined > 0).then_some(joined));
        jobs.push(Job { run_id: None, world_size, participants, store: l.endpoint, signs, timeline });
    }
    jobs.sort_by(|a, b| (&a.run_id, a.store).cmp(&(&b.run_id, b.store)));
    jobs
}

/// By the highest rank, else by the highest count of workers.
fn world_size(participants: &[Participant], of_workers: &[StoreTalk]) -> Option<u64> {
    let joined = of_workers.iter().map(|h| h.learned.joined).max().unwrap_or(0);
    participants.iter().filter_map(|p| p.rank).max().map(|r| r + 1).or((joined > 0).then_some(joined))
}

/// The ranks that gave Gloo addresses, of the default group.
fn ranks(heard: &[StoreTalk]) -> Vec<Participant> {
    let mut by_rank: BTreeMap<u64, &(gloo::Blob, Said)> = BTreeMap::new();
    let default =
        heard.iter().flat_map(|h| h.learned.gloo.keys()).map(|(g, _)| g).min_by_key(|g| (g.len(), (*g).clone()));
    let Some(group) = default else { return Vec::new() };
    for ((g, rank), found) in heard.iter().flat_map(|h| &h.learned.gloo) {
        if g == group {
            let slot = by_rank.entry(*rank).or_insert(found);
            if age(&found.1) < age(&slot.1) {
                *slot = found;
            }
        }
    }
    by_rank
        .into_iter()
        .map(|(rank, (blob, said))| Participant {
            rank: Some(rank),
            name: None,
            address: blob.endpoints.first().map(|e| e.address),
            joined: said.time,
            last: said.time,
        })
        .collect()
}

/// The agents of an elastic job.
fn agents(signs: &[Heartbeat]) -> Vec<Participant> {
    let agents = signs.iter().filter(|s| s.kind == crate::vocabulary::SignKind::KeepAlive);
    agents
        .map(|s| Participant {
            rank: None,
            name: s.name.clone(),
            address: s.address,
            joined: s.joined.time,
            last: s.last_said,
        })
        .collect()
}

/// Workers that counted themselves, in that order: a store without Gloo addresses (NCCL alone) tells no ranks.
fn workers(heard: &[StoreTalk]) -> Vec<Participant> {
    let mut all: BTreeMap<Endpoint, Participant> = BTreeMap::new();
    for h in heard {
        let Some((_, said)) = h.learned.joined_as else { continue };
        let slot = all.entry(h.client).or_insert(Participant {
            rank: None,
            name: None,
            address: Some(h.client.address),
            joined: said.time,
            last: h.last,
        });
        slot.joined = slot.joined.min(said.time);
        slot.last = slot.last.max(h.last);
    }
    let mut all: Vec<Participant> = all.into_values().collect();
    all.sort_by_key(|p| (p.joined, p.address));
    all
}
