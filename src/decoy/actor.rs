//! A server model behind one listener: what comes in is handed to it, what it does comes out as [`ActorOutput`]s.

use super::door::Door;
use super::listener::Bootstrap;
use super::listener_role::ListenerRole;
use crate::prescan::{Host, Kind};
use crate::protocol::tcpstore::server::{Action, ConnectionId, How, Limits, Server, Store, hang_up, open, step};

/// More than a model keeps that only has to say what would happen: a client is to get back what it stored, up to the 8 MiB that the
/// libuv server takes of a value.
const LIMITS: Limits = Limits {
    value_bytes: 8 << 20,
    keys: 65_536,
    store_bytes: 16 << 20,
    pending_bytes: 16 << 20,
    request_bytes: 1 << 20,
    queue_bytes: 256 << 10,
    reply_bytes: 10 << 20,
    waits: 65_536,
    connections: 16_384,
};

/// What is to be done on the wire, or noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ActorOutput {
    /// Bytes go out; `omitted` more would, that nobody holds.
    Send { to: u64, bytes: Vec<u8>, omitted: u64 },
    /// The server closes.
    Close { who: u64, how: How },
    /// It would have made a container of so many bytes.
    Claim { who: u64, bytes: u64 },
    /// Others wait for this one.
    Holds { who: u64 },
    /// The model says no more.
    Lost { who: u64 },
    /// The listener would be gone, and all that it had open with it.
    Dies,
}

/// The model.
#[derive(Debug)]
pub(super) enum Actor {
    Store { server: Server, store: Box<Store> },
    Bootstrap(Box<Bootstrap>),
    Door(Door),
}

impl Actor {
    pub(super) fn new(part: &ListenerRole, host: Host, empty: bool) -> Actor {
        match part.target.kind {
            Kind::Store(server) => {
                let store = Store::new(LIMITS);
                let store = if empty { store } else { store.with(b"init/", b"1") };
                Actor::Store { server: server.on(host.policy()), store: Box::new(store) }
            }
            Kind::Nccl(role, version) => Actor::Bootstrap(Box::new(Bootstrap::new(role, version))),
            Kind::Door(door) => Actor::Door(Door::new(super::door::Kind::of(door))),
        }
    }

    pub(super) fn open(&mut self, id: u64) -> Vec<ActorOutput> {
        match self {
            Actor::Store { server, store } => {
                open(server, store, ConnectionId(id));
                Vec::new()
            }
            Actor::Bootstrap(b) => b.open(id),
            Actor::Door(d) => d.open(id),
        }
    }

    pub(super) fn bytes(&mut self, id: u64, bytes: &[u8]) -> Vec<ActorOutput> {
        match self {
            Actor::Store { server, store } => deeds(step(server, store, ConnectionId(id), bytes)),
            Actor::Bootstrap(b) => b.bytes(id, bytes),
            Actor::Door(d) => d.bytes(id, bytes),
        }
    }

    /// The client has closed; or, when the server did, the model may forget the connection.
    pub(super) fn close(&mut self, id: u64) -> Vec<ActorOutput> {
        match self {
            Actor::Store { server, store } => deeds(hang_up(server, store, ConnectionId(id))),
            Actor::Bootstrap(b) => b.close(id),
            Actor::Door(d) => d.close(id),
        }
    }

    /// Whether somebody else holds the one thread.
    pub(super) fn held_by_another(&self, id: u64) -> bool {
        match self {
            Actor::Store { store, .. } => store.blocked_by().is_some_and(|c| c.0 != id),
            Actor::Bootstrap(b) => b.held_by_another(id),
            Actor::Door(_) => false,
        }
    }
}

fn deeds(actions: Vec<Action>) -> Vec<ActorOutput> {
    let deed = |action| match action {
        Action::Reply { connection, bytes, omitted } => Some(ActorOutput::Send { to: connection.0, bytes, omitted }),
        Action::Close { connection, how, .. } => Some(ActorOutput::Close { who: connection.0, how }),
        Action::Allocate { connection, allocation } => {
            Some(ActorOutput::Claim { who: connection.0, bytes: allocation.bytes })
        }
        Action::Blocks { connection, .. } => Some(ActorOutput::Holds { who: connection.0 }),
        Action::Unknown { connection } => Some(ActorOutput::Lost { who: connection.0 }),
        Action::Unblocks { .. } | Action::Waits { .. } | Action::Ignores { .. } => None,
    };
    actions.into_iter().filter_map(deed).collect()
}
