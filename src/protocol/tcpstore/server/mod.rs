//! What a TCPStore server of any release does with any bytes: no I/O, no clock, no memory sized by a claim.
//!
//! [`step`] hands one received segment to a [`Store`] and returns the [`Action`]s of the server; [`open`] and [`hang_up`] are
//! the two ends of a connection. [`verdict()`] wraps them: what comes of this connection, in one word and in plain words.
//!
//! Two servers exist. *poll* (all releases): one thread, blocking reads, containers sized by the declared length before the
//! data arrives; an incomplete request holds the whole store. *libuv* (2.2 and later): limits, an event loop, a buffer for
//! what is incomplete. Both are modelled from recordings of real servers (`testdata/outcomes`), which `tests/store_model.rs`
//! replays.

mod action;
mod apply;
mod connection;
mod explain;
mod libuv;
mod policy;
mod poll;
mod request;
mod store;
#[cfg(test)]
mod tests;
mod value;
mod verdict;

pub use action::{Action, Allocation, Claim, ConnectionId, Field, How, Reason};
pub use policy::Policy;
pub use store::{Limits, Store};
pub use value::Value;
pub use verdict::{Outcome, Verdict, verdict, verdict_on, verdicts, verdicts_for_dialect};

use super::release::{Build, Release};
use super::{Dialect, Operation};
use action::Sink;

/// The magic number of VALIDATE, on the wire `CE F7 85 3C`.
pub const VALIDATE_MAGIC: u32 = 0x3C85_F7CE;
/// Longest key, in bytes, that the libuv server takes.
pub const MAX_KEY_BYTES: u64 = 8192;
/// Longest value, in bytes, that the libuv server takes.
pub const MAX_VALUE_BYTES: u64 = 8 * 1024 * 1024;
/// Most keys in one request to the libuv server.
pub const MAX_KEYS: u64 = 131_072;
/// User address space of an x86-64 process: 128 TiB. On aarch64 it is usually 256 TiB.
pub const ADDRESS_SPACE: u64 = 1 << 47;
/// An allocation below this is nothing to tell: what a page holds was there before.
pub const NOTEWORTHY_BYTES: u64 = 4096;

/// No host that runs training refuses less than this.
pub const REFUSABLE_BYTES: u64 = 1 << 30;

/// Which of the two servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Backend {
    /// One thread, `poll(2)`, blocking reads.
    Poll,
    /// libuv's event loop.
    Libuv,
}

impl Backend {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Poll => "poll",
            Backend::Libuv => "libuv",
        }
    }
}

/// A server: release, kind, build and host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// The PyTorch release.
    pub release: Release,
    /// Which of its servers.
    pub backend: Backend,
    /// Bytes of a `std::string`: 8, 32 or 24.
    pub string_bytes: u64,
    /// Bytes of user address space; an allocation of this size or more is refused by any kernel.
    pub address_space: u64,
    /// What the kernel grants below that.
    pub policy: Policy,
}

impl Server {
    /// A server from an x86-64 wheel on a host that nothing is known about.
    pub fn new(release: Release, backend: Backend) -> Self {
        let string_bytes = release.string_bytes(Build::WheelX86);
        Server { release, backend, string_bytes, address_space: ADDRESS_SPACE, policy: Policy::Unknown }
    }

    /// The same server on a host with this policy.
    pub fn on(self, policy: Policy) -> Self {
        Server { policy, ..self }
    }

    /// The same server from another build.
    pub fn built(self, build: Build) -> Self {
        Server { string_bytes: self.release.string_bytes(build), ..self }
    }

    /// The servers that stand for a dialect, with their labels: `A0`, `A1`, `B`, `C`, `D-poll`, `D-libuv`.
    pub fn of_dialect(dialect: Dialect) -> Vec<(&'static str, Server)> {
        let release = Release::newest(dialect);
        let poll = Server::new(release, Backend::Poll);
        match dialect {
            Dialect::D => vec![("D-poll", poll), ("D-libuv", Server::new(release, Backend::Libuv))],
            _ => vec![(dialect.name(), poll)],
        }
    }

    fn operation(&self, byte: u8) -> Option<Operation> {
        self.release.operation(self.backend, byte)
    }
}

/// A connection is accepted. [`step`] does this by itself for a connection it has not seen.
pub fn open(server: &Server, store: &mut Store, connection: ConnectionId) {
    store.open(connection, server.release.dialect.validates());
}

/// One segment arrives, as the server's kernel hands it over. Bytes for a closed connection are ignored.
///
/// Linear in the segment and in what it releases; memory is bounded by the store's [`Limits`].
pub fn step(server: &Server, store: &mut Store, connection: ConnectionId, segment: &[u8]) -> Vec<Action> {
    open(server, store, connection);
    let mut sink = Sink::new(store.limits.reply_bytes);
    match server.backend {
        Backend::Poll => poll::receive(server, store, connection, segment, &mut sink),
        Backend::Libuv => libuv::receive(server, store, connection, segment, &mut sink),
    }
    sink.actions
}

/// The peer closes or resets its end. What a blocked poll server left unread of other connections is served now.
pub fn hang_up(server: &Server, store: &mut Store, connection: ConnectionId) -> Vec<Action> {
    let mut sink = Sink::new(store.limits.reply_bytes);
    match server.backend {
        Backend::Poll => poll::end(server, store, connection, &mut sink),
        Backend::Libuv => libuv::end(store, connection, &mut sink),
    }
    sink.actions
}
