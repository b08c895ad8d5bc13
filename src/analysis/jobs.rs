//! What stores teach: the jobs they serve, and the listeners they name.

use std::collections::{BTreeMap, BTreeSet};

use super::sets::Set;
use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::protocol::listener::Listener;
use crate::protocol::tcpstore::{Dialect, Learned, NamedRoot, Said};
use crate::time::Timestamp;

/// One training job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) run_id: Option<String>,
    pub(super) world_size: Option<u64>,
    /// Rank, address, when it joined, when it was last heard of.
    pub(super) participants: Vec<Participant>,
    /// The store that serves it.
    pub(super) store: Endpoint,
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
pub(super) struct Lessons {
    /// Workers' stores, and what named them.
    pub(super) stores: BTreeMap<Endpoint, String>,
    /// Gloo pairs, and the store that named them.
    pub(super) pairs: BTreeMap<Endpoint, (Endpoint, Said)>,
    /// NCCL bootstrap roots, with the store that holds their id.
    pub(super) roots: Vec<(Endpoint, NamedRoot)>,
    by_store: BTreeMap<Endpoint, Vec<Learned>>,
}

impl Lessons {
    /// Stores and NCCL roots that stores named, with how.
    pub(super) fn named(&self) -> BTreeMap<Endpoint, String> {
        let roots = self.roots.iter().map(|(store, r)| {
            (r.root, format!("NCCL's unique id in the store {store} (packet {})", r.said.packet.number))
        });
        roots.chain(self.stores.iter().map(|(e, by)| (*e, by.clone()))).collect()
    }

    /// How many workers a store serves, as far as its traffic tells.
    pub(super) fn world_size(&self, store: Endpoint) -> Option<u64> {
        let learned = self.by_store.get(&store)?;
        let joined = learned.iter().map(|l| l.joined).max().filter(|n| *n > 0);
        ranks(learned).iter().filter_map(|p| p.rank).max().map(|r| r + 1).max(joined)
    }
}

/// Reads what every store connection taught. A connection that makes sense in one dialect only is read in that one;
/// values do not depend on the dialect, so any sound reading does.
pub(super) fn lessons(sets: &[Set], names: &Names) -> Lessons {
    let mut lessons = Lessons::default();
    let mut stores: BTreeMap<Endpoint, ((Timestamp, u64), String)> = BTreeMap::new();
    for f in sets.iter().flat_map(|s| &s.seen.flows) {
        let sound =
            Dialect::ALL.iter().filter_map(|d| f.facts(*d)).find(|x| x.reading.is_sound() && x.implausible == 0);
        let Some(learned) = sound.map(|x| &x.learned) else { continue };
        for store in learned.stores.iter() {
            let (round, named) = store;
            let address = named.address.as_deref().and_then(|a| resolve(a, names));
            if let (Some(address), Some(port)) = (address, named.port) {
                let by = format!(
                    "{} of the rendezvous store {} (packet {})",
                    round.trim_start_matches('/'),
                    f.server(),
                    named.said.packet.number
                );
                let slot = stores.entry(Endpoint::new(address, port)).or_insert((age(&named.said), by.clone()));
                if age(&named.said) < slot.0 {
                    *slot = (age(&named.said), by);
                }
            }
        }
        for (endpoints, said) in learned.gloo.values() {
            for endpoint in endpoints {
                let found = (f.server(), *said);
                let slot = lessons.pairs.entry(*endpoint).or_insert(found);
                if age(&found.1) < age(&slot.1) {
                    *slot = found;
                }
            }
        }
        for root in &learned.roots {
            let known = lessons.roots.iter_mut().find(|(_, r)| r.root == root.root && r.magic == root.magic);
            match known {
                Some((_, r)) if age(&r.said) <= age(&root.said) => {}
                Some(slot) => *slot = (f.server(), root.clone()),
                None => lessons.roots.push((f.server(), root.clone())),
            }
        }
        lessons.by_store.entry(f.server()).or_default().push(learned.clone());
    }
    lessons.stores = stores.into_iter().map(|(e, (_, by))| (e, by)).collect();
    lessons.roots.sort_by_key(|(_, r)| (age(&r.said), r.root));
    lessons
}

/// What was said first counts, whatever the order in which captures were named.
fn age(said: &Said) -> (Timestamp, u64) {
    (said.time, said.packet.number)
}

/// An address as text, or the name of a host.
fn resolve(text: &str, names: &Names) -> Option<Address> {
    text.parse::<std::net::IpAddr>().ok().map(Address::from).or_else(|| names.addresses(text).first().copied())
}

/// The jobs of all stores that serve one: an elastic job with the ranks of its workers' store, or a store whose ranks
/// gave their Gloo addresses.
pub(super) fn jobs(lessons: &Lessons, listeners: &[Listener], names: &Names) -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut served: BTreeSet<Endpoint> = BTreeSet::new();
    for learned_at in lessons.by_store.values() {
        let mut runs: BTreeSet<&String> = BTreeSet::new();
        learned_at.iter().for_each(|l| runs.extend(l.jobs.keys()));
        for run in runs {
            let workers = lessons.stores.iter().filter(|(_, by)| by.contains(&format!("torch.rendezvous.{run}")));
            let store = workers.map(|(e, _)| *e).find(|e| lessons.by_store.contains_key(e));
            let mut ranks = store.map(|s| ranks(&lessons.by_store[&s])).unwrap_or_default();
            let joined = store.map_or(0, |s| lessons.by_store[&s].iter().map(|l| l.joined).max().unwrap_or(0));
            if ranks.is_empty() {
                ranks = agents(learned_at, run, names);
            }
            let rendezvous = lessons.by_store.iter().find(|(_, l)| std::ptr::eq(*l, learned_at)).map(|(e, _)| *e);
            if let Some(at) = store.or(rendezvous) {
                served.insert(at);
                served.extend(rendezvous);
                let world_size =
                    ranks.iter().filter_map(|p| p.rank).max().map(|r| r + 1).or((joined > 0).then_some(joined));
                jobs.push(Job { run_id: Some((*run).clone()), world_size, participants: ranks, store: at });
            }
        }
    }
    for l in listeners.iter().filter(|l| !served.contains(&l.endpoint)) {
        let Some(learned) = lessons.by_store.get(&l.endpoint) else { continue };
        let ranks = ranks(learned);
        let joined = learned.iter().map(|l| l.joined).max().unwrap_or(0);
        if !ranks.is_empty() || joined > 1 {
            let world_size =
                ranks.iter().filter_map(|p| p.rank).max().map(|r| r + 1).max((joined > 0).then_some(joined));
            jobs.push(Job { run_id: None, world_size, participants: ranks, store: l.endpoint });
        }
    }
    jobs.sort_by(|a, b| (&a.run_id, a.store).cmp(&(&b.run_id, b.store)));
    jobs
}

/// The ranks that gave Gloo addresses, of the default group.
fn ranks(learned: &[Learned]) -> Vec<Participant> {
    let mut by_rank: BTreeMap<u64, &(Vec<Endpoint>, Said)> = BTreeMap::new();
    let default = learned.iter().flat_map(|l| l.gloo.keys()).map(|(g, _)| g).min_by_key(|g| (g.len(), (*g).clone()));
    let Some(group) = default else { return Vec::new() };
    for ((g, rank), found) in learned.iter().flat_map(|l| &l.gloo) {
        if g == group {
            let slot = by_rank.entry(*rank).or_insert(found);
            if age(&found.1) < age(&slot.1) {
                *slot = found;
            }
        }
    }
    by_rank
        .into_iter()
        .map(|(rank, (endpoints, said))| Participant {
            rank: Some(rank),
            name: None,
            address: endpoints.first().map(|e| e.address),
            joined: said.time,
            last: said.time,
        })
        .collect()
}

/// The agents of an elastic job.
fn agents(learned: &[Learned], run: &str, names: &Names) -> Vec<Participant> {
    let mut all: BTreeMap<(String, i64), Participant> = BTreeMap::new();
    for job in learned.iter().filter_map(|l| l.jobs.get(run)) {
        for (agent, first, last) in &job.agents {
            let p = all.entry((agent.address.clone(), agent.pid)).or_insert(Participant {
                rank: None,
                name: Some(agent.address.clone()),
                address: resolve(&agent.address, names),
                joined: *first,
                last: *last,
            });
            p.joined = p.joined.min(*first);
            p.last = p.last.max(*last);
        }
    }
    all.into_values().collect()
}
