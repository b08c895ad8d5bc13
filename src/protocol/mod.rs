//! Chunks → messages and observations: TCPStore, NCCL bootstrap, Gloo, and whatever else knocks.

pub mod checked;
mod dask;
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
mod ucx;
mod zmq;

use seam::{Dissector, Match, NamedPorts, Opening, ProtocolSet};

use crate::vocabulary::Protocol;

/// The protocols. An endpoint that several take for a listener of theirs is the first one's.
pub static DISSECTORS: [&dyn Dissector; 15] = [
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

/// Ports by the protocols that they are named for.
pub fn named_ports(ports: impl IntoIterator<Item = (Protocol, crate::stream::PortSet)>) -> NamedPorts {
    let mut named = NamedPorts::default();
    ports.into_iter().for_each(|(protocol, ports)| named.add(place(protocol), ports));
    named
}
