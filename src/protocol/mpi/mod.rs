//! MPI: MPICH's launcher and ranks, Open MPI's ranks and daemons.
//!
//! MPICH's control port: up to 4.0 a proxy sends its number (four bytes) and is answered with a header of 32 bytes, from 4.1
//! on it begins with `HYD`. ch3:nemesis: 20 bytes, answered with 16. Open MPI: a process name and `OPAL-TCP-BTL` both ways;
//! PRRTE's out-of-band port begins with the name of its namespace.

use super::named::{DoorRule, Harm, Name, Named, Speech, any, prefix};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

const HYDRA: &[u8] = b"HYD\0";
const BTL: &[u8] = b"OPAL-TCP-BTL";
/// Length of the process name before it.
const BTL_NAME: usize = 8;
/// What mpiexec up to 4.0 answers a proxy with.
const ANSWER: &[u8] = &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
/// Proxies are numbered from 0; one a node.
const PROXIES: u32 = 1 << 16;

/// The protocol.
pub static MPI: Named = Named {
    protocol: Protocol::Mpi,
    begins,
    name,
    own: |client| {
        client.starts_with(HYDRA)
            || client.starts_with(b"prterun-")
            || client.get(BTL_NAME..).is_some_and(|c| c.starts_with(BTL))
            || is_nemesis(client)
            || is_proxy(client)
    },
    usual: None,
    harm: Harm::Dies,
    rules: DoorRule::ALL,
};

fn begins(s: &Speech<'_>) -> Match {
    if s.client.is_empty() {
        return Match::Undecided;
    }
    let btl = if s.client.len() < BTL_NAME { Match::Undecided } else { prefix(&s.client[BTL_NAME..], BTL) };
    // A small number says nothing until it is answered.
    let control = match (is_proxy(s.client), s.server.is_empty()) {
        (true, true) => Match::Undecided,
        (true, false) => prefix(s.server, ANSWER),
        (false, _) if s.client.len() < 4 => Match::Undecided,
        _ => Match::No,
    };
    let nemesis = if is_nemesis(s.client) { Match::Yes } else { Match::No };
    any([prefix(s.client, HYDRA), prefix(s.client, b"prterun-"), btl, control, nemesis])
}

fn name(s: &Speech<'_>) -> Option<Name> {
    let btl = |b: &[u8]| b.get(BTL_NAME..).is_some_and(|c| c.starts_with(BTL));
    if s.client.starts_with(HYDRA) {
        return Some(Name::new(Role::Control, "MPICH mpiexec, 4.1 or later"));
    }
    if s.client.starts_with(b"prterun-") {
        return Some(Name::new(Role::Oob, "Open MPI 5 (PRRTE), out of band"));
    }
    if btl(s.client) || btl(s.server) {
        return Some(Name::new(Role::Btl, "Open MPI, BTL tcp"));
    }
    if is_proxy(s.client) && s.server.starts_with(ANSWER) {
        return Some(Name::new(Role::Control, "MPICH mpiexec, up to 4.0"));
    }
    (is_nemesis(s.client) && s.server.len() >= 16).then(|| Name::new(Role::Peer, "MPICH rank, ch3:nemesis"))
}

/// A proxy's number, alone or with what follows it.
fn is_proxy(client: &[u8]) -> bool {
    client.first_chunk().is_some_and(|n| u32::from_le_bytes(*n) < PROXIES)
}

/// Four zeros, a cookie, the length of what follows.
fn is_nemesis(client: &[u8]) -> bool {
    client.len() >= 20
        && client.starts_with(&[0; 4])
        && client.get(4..8) != Some(&[0; 4])
        && client.get(8..12) == Some(&[4, 0, 0, 0])
}
