//! Chunks → messages and observations: TCPStore, NCCL bootstrap, Gloo, and whatever else knocks.

pub mod checked;
mod dask;
pub mod fate;
pub mod gloo;
mod grpc;
mod http;
pub mod listener;
mod mpi;
mod named;
pub mod nccl;
pub mod observation;
mod redis;
pub mod seam;
mod slurm;
mod socket_address;
mod ssh;
pub mod stray;
pub mod tcpstore;
mod tensorpipe;
#[cfg(test)]
mod toy;
mod ucx;
mod zmq;

use seam::{Dissector, Match, NamedPorts, Opening, ProtocolSet};

use crate::finding::{CaptureRule, Rule};
use crate::vocabulary::Protocol;

/// The protocols. An endpoint that several take for a listener of theirs is the first one's.
pub static DISSECTORS: &[&dyn Dissector] = &[
    &tcpstore::Tcpstore,
    &gloo::Gloo,
    &tensorpipe::TENSORPIPE,
    &mpi::MPI,
    &slurm::SLURM,
    &zmq::ZMQ,
    &grpc::RAY,
    &grpc::ETCD,
    &grpc::OTHER,
    &dask::DASK,
    &redis::REDIS,
    &ucx::UCX,
    &http::HTTP,
    &ssh::SSH,
    #[cfg(test)]
    &toy::Toy,
    // The last: its possible roots are those that nobody else knows.
    &nccl::Nccl,
];

/// The place of a protocol among [`DISSECTORS`]; none of one that has no dissector.
pub fn place(protocol: Protocol) -> ProtocolSet {
    let at = DISSECTORS.iter().position(|d| d.protocol() == protocol);
    at.map_or_else(ProtocolSet::default, ProtocolSet::only)
}

/// The protocols whose decoders a connection may be read by, as far as its first bytes tell: those that take it for
/// theirs, and those that need more bytes.
pub fn recognise(opening: &Opening<'_>) -> (ProtocolSet, ProtocolSet) {
    let mut found = (ProtocolSet::default(), ProtocolSet::default());
    for (place, dissector) in DISSECTORS.iter().enumerate() {
        match dissector.recognise(opening) {
            Match::Yes => found.0 = found.0.with(ProtocolSet::only(place)),
            // What was joined in the middle gets no second chance: later bytes are no beginning either.
            Match::Undecided if opening.whole => found.1 = found.1.with(ProtocolSet::only(place)),
            Match::Undecided | Match::No => {}
        }
    }
    found
}

/// All rules, protocol by protocol, and those of captures.
pub fn rules() -> impl Iterator<Item = Rule> {
    DISSECTORS.iter().flat_map(|d| d.rules()).chain(CaptureRule::ALL).copied()
}

/// The rule of that id, of whatever protocol.
pub fn rule(id: &str) -> Option<Rule> {
    rules().find(|r| r.id == id)
}

/// Ports by the protocols that they are named for.
pub fn named_ports(ports: impl IntoIterator<Item = (Protocol, crate::stream::PortSet)>) -> NamedPorts {
    let mut named = NamedPorts::default();
    ports.into_iter().for_each(|(protocol, ports)| named.add(place(protocol), ports));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_in_full_and_each_has_one_place() {
        let mut ids: Vec<&str> = rules().map(|r| r.id).collect();
        for dissector in DISSECTORS {
            assert!(dissector.rules().windows(2).all(|w| w[0].id < w[1].id));
        }
        for r in rules() {
            assert!(r.meaning.ends_with('.') && r.remedy.ends_with(['.', ')']), "{}", r.id);
            assert!(r.meaning.len() > 40 && r.title.len() > 10);
        }
        assert!(rule("store-claim").is_some() && rule("nope").is_none());
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
