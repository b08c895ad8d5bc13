//! Advice for each kind of listener: what closes it, and what stays open all the same.

use serde::Serialize;

use super::fleet::{Fleet, Kind};
use crate::protocol::nccl::Role;
use crate::protocol::tcpstore::server::Backend;

/// The first NCCL whose bootstrap listeners survive a peer that closes early.
const TOLERANT: u32 = 22_703;
/// The first NCCL whose proxy and RAS do not accept for ever after a wrong magic.
const PATIENT: u32 = 23_007;

/// What is to be said of one kind of listener.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Remedy {
    /// The kind.
    pub listener: &'static str,
    /// The releases that it is said of.
    pub range: &'static str,
    /// Releases and settings that close it, the best first.
    pub closes: &'static [&'static str],
    /// What stays open.
    pub open: &'static [&'static str],
    /// Which servers of the fleet it is about, by index.
    #[serde(skip)]
    pub servers: Vec<usize>,
}

/// A kind of listener: name, range, what closes it, what stays open.
type Kinds = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const OLD_STORE: Kinds = (
    "store without a magic number",
    "PyTorch 1.4 to 2.1",
    &[
        "PyTorch 2.4 or later, with the libuv store (its default for TCPStore, env:// and tcp://; for torchrun's own rendezvous since 2.5)",
        "PyTorch 2.2 or later asks for a magic number first, so that no scanner's bytes are taken for a request",
        "the port open to the hosts of the job alone (policy nftables or kubernetes)",
        "vm.overcommit_memory=0 where RAM and swap together are less than the claim, or 2: the kernel refuses it and the store goes on",
    ],
    &[
        "kernels that grant the claim: vm.overcommit_memory=1, or 0 on a host with more RAM and swap than is claimed",
        "lesser claims, and requests that are not finished, hold the store up for everybody until the peer closes",
        "a client of PyTorch 2.2 or later that joins by mistake is a claim of terabytes too",
        "whoever reaches the port may read and write every key",
    ],
);

const POLL_STORE: Kinds = (
    "store with the poll server",
    "PyTorch 2.2 and later: the default of 2.2 and 2.3 and of torchrun's rendezvous in 2.4, later where libuv is switched off",
    &[
        "the libuv store: USE_LIBUV=1 (env://), ?use_libuv=1 in a URL, use_libuv=True; it is the default from 2.4 on, for torchrun's rendezvous from 2.5 on",
        "the port open to the hosts of the job alone (policy nftables or kubernetes)",
    ],
    &[
        "one incomplete request, of a single byte even, holds the store up for everybody until the peer closes, in every release",
        "a peer that knows the magic number may declare any length, and it is allocated where the kernel grants it",
        "from 2.5 on each connection is looked up in the DNS: a resolver that does not answer may hold the store up",
    ],
);

const LIBUV_STORE: Kinds = (
    "store with the libuv server",
    "PyTorch 2.2 and later: the default from 2.4 on",
    &["nothing that a scanner was seen to send hurts it"],
    &[
        "a peer that knows the magic number reads and writes every key, with strings of at most 8 MiB",
        "a connection that never sends the magic number stays open until the peer leaves, and costs a descriptor and some kilobytes that are not given back",
        "from 2.6 on each connection is looked up in the DNS: a resolver that does not answer may hold the store up",
    ],
);

const OLD_ROOT: Kinds = (
    "bootstrap root",
    "NCCL before 2.27.3",
    &[
        "NCCL 2.27.3 or later: a peer that closes early is passed over",
        "NCCL_SOCKET_IFNAME on a network that is not scanned",
        "scanning when no job starts: a root exists for seconds, at the start and at each split",
    ],
    &[
        "whoever connects and says nothing is waited for: ranks that check in meanwhile wait too",
        "a peer that knows the magic of the communicator is believed",
        "its port is chosen by the kernel: no list of ports covers it",
    ],
);

const ROOT: Kinds = (
    "bootstrap root",
    "NCCL 2.27.3 and later",
    &[
        "NCCL_SOCKET_IFNAME on a network that is not scanned",
        "scanning when no job starts: a root exists for seconds, at the start and at each split",
    ],
    &[
        "whoever connects and says nothing is waited for, without a limit: ranks that check in meanwhile wait too",
        "a peer that knows the magic of the communicator is believed",
        "its port is chosen by the kernel: no list of ports covers it",
    ],
);

const OLD_RANK: Kinds = (
    "listeners of a rank (reply, ring, peer, NET/Socket)",
    "NCCL before 2.27.3",
    &["NCCL 2.27.3 or later", "NCCL_SOCKET_IFNAME on a network that is not scanned"],
    &[
        "whoever connects and says nothing is waited for while a communicator is set up",
        "their ports are chosen by the kernel",
    ],
);

const RANK: Kinds = (
    "listeners of a rank (reply, ring, peer, NET/Socket)",
    "NCCL 2.27.3 and later",
    &["NCCL_SOCKET_IFNAME on a network that is not scanned"],
    &[
        "whoever connects and says nothing is waited for while a communicator is set up",
        "their ports are chosen by the kernel",
    ],
);

const OLD_SERVICE: Kinds = (
    "proxy service and RAS",
    "NCCL before 2.30.7",
    &[
        "NCCL 2.30.7 or later: a wrong magic is closed and that is all",
        "NCCL_SOCKET_IFNAME on a network that is not scanned; NCCL_RAS_ENABLE=0 where RAS is not used",
    ],
    &[
        "whoever connects and says nothing holds the service up as long as the connection is open",
        "their ports are chosen by the kernel",
    ],
);

const SERVICE: Kinds = (
    "proxy service and RAS",
    "NCCL 2.30.7 and later",
    &["NCCL_SOCKET_IFNAME on a network that is not scanned; NCCL_RAS_ENABLE=0 where RAS is not used"],
    &[
        "whoever connects and says nothing holds the service up as long as the connection is open",
        "their ports are chosen by the kernel",
    ],
);

fn kinds(kind: &Kind) -> Kinds {
    if let Kind::Door(door) = kind {
        let (range, closes, open) = door.family.remedy;
        return (door.family.name, range, closes, open);
    }
    *match kind {
        Kind::Store(s) if !s.release.dialect.validates() => &OLD_STORE,
        Kind::Store(s) if s.backend == Backend::Poll => &POLL_STORE,
        Kind::Store(_) => &LIBUV_STORE,
        Kind::Nccl(Role::Root, v) if v.0 < TOLERANT => &OLD_ROOT,
        Kind::Nccl(Role::Root, _) => &ROOT,
        Kind::Nccl(Role::Proxy | Role::Ras, v) if v.0 < PATIENT => &OLD_SERVICE,
        Kind::Nccl(Role::Proxy | Role::Ras, _) => &SERVICE,
        Kind::Nccl(_, v) if v.0 < TOLERANT => &OLD_RANK,
        Kind::Nccl(..) | Kind::Door(_) => &RANK,
    }
}

/// One for each kind of listener in the fleet, in its order.
pub fn remedies(fleet: &Fleet) -> Vec<Remedy> {
    let mut all: Vec<Remedy> = Vec::new();
    for (i, target) in fleet.targets.iter().enumerate() {
        let (listener, range, closes, open) = kinds(&target.kind);
        match all.iter_mut().find(|r| (r.listener, r.range) == (listener, range)) {
            Some(known) => known.servers.push(i),
            None => all.push(Remedy { listener, range, closes, open, servers: vec![i] }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::behaviour::Behaviour;
    use super::super::fleet::{nccl, pytorch};
    use super::super::host::Host;
    use super::super::matrix::{Act, Case, Matrix};
    use super::super::row::Grade;
    use super::*;

    fn all() -> Fleet {
        let mut fleet = Fleet::default();
        fleet.stores(&pytorch("all").unwrap(), None, &[29500]).unwrap();
        fleet.nccl(&nccl("all").unwrap());
        fleet
    }

    fn worst(fleet: &Fleet, remedy: &Remedy, act: Act) -> Vec<Grade> {
        let board = Matrix::ask(vec![Case { name: "x".into(), act }], fleet, Host::default(), |_, _| true);
        let mut all: Vec<Grade> = remedy.servers.iter().filter_map(|s| board.worst_at(*s)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// What is said of each kind is what the models do, of every release in its range.
    #[test]
    fn the_models_agree() {
        let fleet = all();
        let of = |listener: &str, range: &str| {
            remedies(&fleet).into_iter().find(|r| r.listener == listener && r.range.starts_with(range)).unwrap()
        };
        let bytes = |b: &[u8]| Act::Segments(vec![b.to_vec()]);
        let claim = || bytes(b"\x03\0\0\x0b\x06\xe0\0\0\0\0\0");
        let validated = || bytes(b"\0\xce\xf7\x85\x3c\x01\0\0\0\0\0\x01\0\0");
        let old = of("store without a magic number", "PyTorch 1.4");
        assert_eq!(worst(&fleet, &old, claim()), [Grade::Kills]);
        let poll = of("store with the poll server", "PyTorch 2.2");
        assert_eq!(worst(&fleet, &poll, claim()), [Grade::Safe]);
        assert_eq!(worst(&fleet, &poll, bytes(b"\0")), [Grade::Degrades]);
        assert_eq!(worst(&fleet, &poll, validated()), [Grade::Kills]);
        let uv = of("store with the libuv server", "PyTorch 2.2");
        for act in [claim(), bytes(b"\0"), validated()] {
            assert_eq!(worst(&fleet, &uv, act), [Grade::Safe]);
        }
        let close = || Behaviour::ConnectClose.case().act;
        let hold = || Behaviour::ConnectHold(10.0).case().act;
        assert_eq!(worst(&fleet, &of("bootstrap root", "NCCL before"), close()), [Grade::Kills]);
        assert_eq!(worst(&fleet, &of("bootstrap root", "NCCL 2.27.3"), close()), [Grade::Safe]);
        assert_eq!(worst(&fleet, &of("bootstrap root", "NCCL 2.27.3"), hold()), [Grade::Degrades]);
        let web = || bytes(b"GET / HTTP/1.0\r\n\r\n");
        let new = of("proxy service and RAS", "NCCL 2.30.7");
        assert_eq!(
            (worst(&fleet, &new, web()), worst(&fleet, &new, hold())),
            (vec![Grade::Safe], vec![Grade::Degrades])
        );
        assert!(worst(&fleet, &of("proxy service and RAS", "NCCL before"), web()).contains(&Grade::Degrades));
        let ranks = of("listeners of a rank (reply, ring, peer, NET/Socket)", "NCCL 2.27.3");
        assert_eq!(
            (worst(&fleet, &ranks, close()), worst(&fleet, &ranks, hold())),
            (vec![Grade::Safe], vec![Grade::Degrades])
        );
        let before = of("listeners of a rank (reply, ring, peer, NET/Socket)", "NCCL before");
        assert!(worst(&fleet, &before, close()).contains(&Grade::Kills));
        assert_eq!(remedies(&fleet).len(), 9);
    }
}
