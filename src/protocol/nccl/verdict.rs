//! One connection's effect on a listener: the server model, run for it alone.

use super::role::Role;
use super::server::{Action, Input, Server};
use super::version::Version;
use super::wire::{SOCKET_MAGIC, SocketType, u32_at, u64_at};

/// The worst that one connection does to a listener.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// It is one of NCCL's own.
    Serves,
    /// The listener closes it and goes on.
    Closes,
    /// Nothing else is served while it stays.
    Waits,
    /// Memory is asked for and written.
    Allocates,
    /// A thread spins.
    Spins,
    /// The root, or the operation that accepts, fails.
    Dies,
    /// The process is killed by a signal.
    Killed,
}

impl Effect {
    /// In a word.
    pub fn text(self) -> &'static str {
        match self {
            Effect::Serves => "served",
            Effect::Closes => "closes",
            Effect::Waits => "waits",
            Effect::Allocates => "allocates",
            Effect::Spins => "spins",
            Effect::Dies => "dies",
            Effect::Killed => "killed",
        }
    }
}

/// What one release does with one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The worst of it.
    pub effect: Effect,
    /// Why, in words; empty where nothing happens.
    pub reason: &'static str,
}

/// Runs one connection, alone, through a listener: its segments, then its end. `earlier`: whole streams of clients
/// that came before it and closed.
pub fn verdict(
    role: Role,
    version: Version,
    magic: u64,
    earlier: &[&[u8]],
    segments: &[&[u8]],
    closes: bool,
) -> Verdict {
    let mut server = Server::new(role, version, magic);
    let mut actions = Vec::new();
    for (i, bytes) in earlier.iter().enumerate() {
        let id = i as u32 + 1;
        for input in [Input::Open(id), Input::Bytes(id, bytes), Input::Close(id)] {
            server.step(input);
        }
    }
    actions.extend(server.step(Input::Open(0)));
    for bytes in segments {
        actions.extend(server.step(Input::Bytes(0, bytes)));
    }
    if closes {
        actions.extend(server.step(Input::Close(0)));
    }
    actions.extend(server.step(Input::Accept));
    let judge = |a: &Action| match *a {
        Action::Killed(reason) => Verdict { effect: Effect::Killed, reason },
        Action::Dies(reason) => Verdict { effect: Effect::Dies, reason },
        Action::Spins(reason) => Verdict { effect: Effect::Spins, reason },
        Action::Allocates(_) => {
            Verdict { effect: Effect::Allocates, reason: "as many entries as the check-in declares" }
        }
        Action::Waits(0) if server.waiting == Some(0) => {
            Verdict { effect: Effect::Waits, reason: "one connection at a time, without a timeout" }
        }
        Action::Closes(_) => Verdict { effect: Effect::Closes, reason: "" },
        Action::CheckedIn { .. } | Action::Serves(_) | Action::Completes | Action::Waits(_) => {
            Verdict { effect: Effect::Serves, reason: "" }
        }
    };
    let none = Verdict { effect: Effect::Serves, reason: "" };
    actions.iter().map(judge).max_by_key(|v| v.effect).unwrap_or(none)
}

/// The release that no longer does that, where there is one. `kind`: what the handshake said, if it got so far.
pub fn fixed_in(role: Role, version: Version, effect: Effect, sent: &[u8], magic: u64) -> Option<&'static str> {
    if version.0 < 21602 {
        return (effect == Effect::Dies && sent.len() >= 8).then_some("2.16.2");
    }
    let magic = if matches!(role, Role::Net | Role::Ras) { SOCKET_MAGIC } else { magic };
    match (effect, u64_at(sent, 0), u32_at(sent, 8).map(SocketType::from_wire)) {
        (Effect::Spins, ..) => Some("2.30.7"),
        (Effect::Dies, None, _) => Some("2.27.3"),
        (Effect::Dies, Some(m), None) if m == magic => Some("2.32"),
        (Effect::Dies, _, Some(t)) if t != SocketType::Bootstrap => Some("2.30.7"),
        _ => None,
    }
}
