//! A listener of NCCL behind a socket: which of its closes are resets, and who goes down with it.

use std::collections::BTreeMap;

use super::actor::ActorOutput;
use crate::prescan::MAGIC;
use crate::protocol::nccl::{Action, Input, Role, Server, Version};
use crate::protocol::tcpstore::server::How;

/// Of an open connection: its number in the model, its first bytes, how many came.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    id: u64,
    first: [u8; 8],
    bytes: u64,
}

/// The model, and what it does not remember.
#[derive(Debug)]
pub(super) struct Bootstrap {
    role: Role,
    version: Version,
    server: Server,
    /// By number in the model, in the order of arrival.
    seen: BTreeMap<u32, Seen>,
    numbers: BTreeMap<u64, u32>,
    next: u32,
    waits: Option<u32>,
}

impl Bootstrap {
    pub(super) fn new(role: Role, version: Version) -> Self {
        Bootstrap {
            role,
            version,
            server: Server::new(role, version, MAGIC),
            seen: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next: 0,
            waits: None,
        }
    }

    pub(super) fn open(&mut self, id: u64) -> Vec<ActorOutput> {
        self.next = self.next.wrapping_add(1);
        self.seen.insert(self.next, Seen { id, ..Seen::default() });
        self.numbers.insert(id, self.next);
        self.step(id, Input::Open(self.next))
    }

    pub(super) fn bytes(&mut self, id: u64, bytes: &[u8]) -> Vec<ActorOutput> {
        let Some(number) = self.numbers.get(&id).copied() else { return Vec::new() };
        if let Some(seen) = self.seen.get_mut(&number) {
            let at = usize::try_from(seen.bytes).unwrap_or(usize::MAX);
            for (slot, byte) in seen.first.iter_mut().skip(at).zip(bytes) {
                *slot = *byte;
            }
            seen.bytes = seen.bytes.saturating_add(bytes.len() as u64);
        }
        self.step(id, Input::Bytes(number, bytes))
    }

    pub(super) fn close(&mut self, id: u64) -> Vec<ActorOutput> {
        let Some(number) = self.numbers.remove(&id) else { return Vec::new() };
        let deeds = self.step(id, Input::Close(number));
        self.seen.remove(&number);
        deeds
    }

    pub(super) fn held_by_another(&self, id: u64) -> bool {
        self.waits.is_some_and(|w| self.seen.get(&w).is_some_and(|s| s.id != id))
    }

    fn step(&mut self, cause: u64, input: Input<'_>) -> Vec<ActorOutput> {
        let mut deeds = Vec::new();
        for action in self.server.step(input) {
            match action {
                Action::Closes(number) => {
                    if let Some(seen) = self.seen.get(&number) {
                        deeds.push(ActorOutput::Close { who: seen.id, how: self.how(seen) });
                    }
                }
                Action::Waits(number) => {
                    self.waits = Some(number);
                    if let Some(seen) = self.seen.get(&number) {
                        deeds.push(ActorOutput::Holds { who: seen.id });
                    }
                }
                Action::Dies(_) | Action::Killed(_) | Action::Completes => {
                    let left_open = matches!(action, Action::Dies(why) if why.contains("truncated"));
                    // Who waits in the kernel's queue is reset; what was accepted is closed, or forgotten (measured).
                    for (number, seen) in &self.seen {
                        if left_open && seen.id == cause {
                            continue;
                        }
                        let how = if self.waits == Some(*number) { self.how(seen) } else { How::Reset };
                        deeds.push(ActorOutput::Close { who: seen.id, how });
                    }
                    deeds.push(ActorOutput::Dies);
                    self.server = Server::new(self.role, self.version, MAGIC);
                    self.waits = None;
                    self.seen.clear();
                    self.numbers.clear();
                    break;
                }
                Action::CheckedIn { .. } | Action::Serves(_) | Action::Spins(_) | Action::Allocates(_) => {}
            }
        }
        deeds
    }

    /// The kernel resets a connection that is closed with bytes unread: more than magic and type, or than a frame's size.
    fn how(&self, seen: &Seen) -> How {
        let read = match (self.version.0 >= 21_602, u64::from_le_bytes(seen.first) == MAGIC) {
            (true, true) => 12,
            (true, false) => 8,
            (false, _) => 4,
        };
        if seen.bytes > read { How::Reset } else { How::Fin }
    }
}
