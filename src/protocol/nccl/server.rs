//! What a listener of NCCL does with what it is sent, release by release: a model that a decoy can run.
//!
//! Listeners serve one connection at a time: whatever comes meanwhile waits in the kernel's queue.

use std::collections::{BTreeSet, VecDeque};

use super::layout::check_in;
use super::role::Role;
use super::version::Version;
use super::wire::{SOCKET_MAGIC, i32_at, u32_at, u64_at};

/// Connections that wait at most (the kernel's usual somaxconn), and bytes kept of each.
const BACKLOG: usize = 4096;
const KEPT: usize = 256;
/// Idle connections that a proxy service without a handshake can hold.
const PROXY_SLOTS: usize = 64;

/// Since when an early close is tolerated, a wrong type and a spinning accept are fixed, a missing type is tolerated.
const TOLERATES_CLOSE: u32 = 22703;
const TOLERATES_TYPE: u32 = 23007;
const TOLERATES_NO_TYPE: u32 = 23203;
/// Since when magic and type are read together: eight wrong bytes are waited on, twelve are closed (measured: 2.31.2, 2.32.3).
const READS_TYPE_FIRST: u32 = 23200;

/// What happens at a listener.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A connection is made (the kernel accepts it, whatever the process does).
    Open(u32),
    /// Bytes come.
    Bytes(u32, &'a [u8]),
    /// The client closes, by FIN or RST.
    Close(u32),
    /// A ring or peer listener is asked for the next connection: it looks at its queue only then.
    Accept,
}

/// What the server does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Closes the connection and goes on.
    Closes(u32),
    /// A rank has checked in.
    CheckedIn {
        /// The connection.
        connection: u32,
        /// The rank.
        rank: i32,
    },
    /// Takes the connection as the one it waited for.
    Serves(u32),
    /// All ranks have checked in: the root answers them and closes.
    Completes,
    /// The thread, or the operation that accepts, ends with an error; a root closes its listener.
    Dies(&'static str),
    /// A signal ends the process.
    Killed(&'static str),
    /// A thread accepts for ever, on one core, and serves nobody.
    Spins(&'static str),
    /// Nothing else is served until this connection sends more or closes.
    Waits(u32),
    /// Asks for so many bytes and writes them.
    Allocates(u64),
}

/// How it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    Closed,
}

#[derive(Debug)]
struct Pending {
    id: u32,
    bytes: Vec<u8>,
    closed: bool,
}

/// A listener of one role and release.
#[derive(Debug)]
pub struct Server {
    role: Role,
    version: Version,
    magic: u64,
    queue: VecDeque<Pending>,
    state: State,
    accepting: bool,
    spinning: bool,
    pub(super) waiting: Option<u32>,
    first: Option<(i32, i32)>,
    ranks: BTreeSet<i32>,
    /// Connections that passed, of a proxy service.
    served: usize,
}

/// What came of looking at the head of the queue.
enum Step {
    /// It must send more.
    More,
    /// It is done with.
    Done,
    /// So is the listener.
    Over,
}

impl Server {
    /// A listener. `magic`: its communicator's; of NET/Socket and RAS listeners the constant counts, up to 2.15 none.
    pub fn new(role: Role, version: Version, magic: u64) -> Self {
        let magic = if matches!(role, Role::Net | Role::Ras) { SOCKET_MAGIC } else { magic };
        Server {
            role,
            version,
            magic,
            queue: VecDeque::new(),
            state: State::Open,
            accepting: !matches!(role, Role::Ring | Role::Peer),
            spinning: false,
            waiting: None,
            first: None,
            ranks: BTreeSet::new(),
            served: 0,
        }
    }

    fn has_handshake(&self) -> bool {
        self.version.0 >= 21602
    }

    /// The type of handshake that it wants.
    fn kind(&self) -> u32 {
        match self.role {
            Role::Root | Role::Reply | Role::Ring | Role::Peer => 1,
            Role::Proxy => 2,
            Role::Net => 3,
            Role::Ras => 5,
        }
    }

    /// One thing that happens, and what the server does about it and what was waiting.
    pub fn step(&mut self, input: Input<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.state == State::Closed {
            return actions;
        }
        match input {
            Input::Open(id) if self.queue.len() < BACKLOG => {
                self.queue.push_back(Pending { id, bytes: Vec::new(), closed: false });
            }
            Input::Open(_) => return actions,
            Input::Bytes(id, bytes) => {
                if let Some(p) = self.queue.iter_mut().find(|p| p.id == id) {
                    let room = KEPT.saturating_sub(p.bytes.len());
                    p.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                }
            }
            Input::Close(id) => {
                if let Some(p) = self.queue.iter_mut().find(|p| p.id == id) {
                    p.closed = true;
                }
            }
            Input::Accept => self.accepting = true,
        }
        while self.state == State::Open && self.accepting {
            let Some(mut head) = self.queue.pop_front() else {
                self.waiting = None;
                break;
            };
            match self.look(&head, &mut actions) {
                Step::More => {
                    if self.waiting != Some(head.id) {
                        self.waiting = Some(head.id);
                        actions.push(Action::Waits(head.id));
                    }
                    self.queue.push_front(head);
                    break;
                }
                Step::Done => head.bytes.clear(),
                Step::Over => self.state = State::Closed,
            }
        }
        actions
    }

    fn look(&mut self, head: &Pending, actions: &mut Vec<Action>) -> Step {
        let bytes = head.bytes.as_slice();
        if !self.has_handshake() {
            return match self.role {
                Role::Proxy => self.bare_proxy(head, actions),
                Role::Net | Role::Ras => Step::Done,
                _ => self.frame(head, bytes, actions),
            };
        }
        match (u64_at(bytes, 0), u32_at(bytes, 8)) {
            (None, _) if head.closed => self.closed_early(head, TOLERATES_CLOSE, actions),
            (None, _) => Step::More,
            (Some(magic), kind) if magic != self.magic && (kind.is_some() || self.version.0 < READS_TYPE_FIRST) => {
                actions.push(Action::Closes(head.id));
                if matches!(self.role, Role::Proxy | Role::Ras) && self.version.0 < TOLERATES_TYPE && !self.spinning {
                    self.spinning = true;
                    actions.push(Action::Spins(
                        "after a wrong magic it accepts again and again until a valid connection comes",
                    ));
                }
                Step::Done
            }
            (_, None) if head.closed => self.closed_early(head, TOLERATES_NO_TYPE, actions),
            (_, None) => Step::More,
            (_, Some(kind)) if kind != self.kind() => {
                if self.version.0 >= TOLERATES_TYPE || matches!(self.role, Role::Proxy | Role::Ras) {
                    actions.push(Action::Closes(head.id));
                    return Step::Done;
                }
                self.over(Action::Dies("the right magic with a wrong type is an error"), actions)
            }
            _ => self.frame(head, bytes.get(12..).unwrap_or_default(), actions),
        }
    }

    /// Closed before the handshake was whole.
    fn closed_early(&mut self, head: &Pending, tolerated: u32, actions: &mut Vec<Action>) -> Step {
        // A service thread says so in its log and goes on.
        if self.version.0 >= tolerated || matches!(self.role, Role::Proxy | Role::Ras) {
            actions.push(Action::Closes(head.id));
            return Step::Done;
        }
        self.over(Action::Dies("a peer that closes before its handshake is whole is an error"), actions)
    }

    fn over(&self, action: Action, actions: &mut Vec<Action>) -> Step {
        actions.push(action);
        Step::Over
    }

    fn frame(&mut self, head: &Pending, bytes: &[u8], actions: &mut Vec<Action>) -> Step {
        match self.role {
            Role::Proxy | Role::Net | Role::Ras => {
                self.spinning = false;
                actions.push(Action::Serves(head.id));
                return Step::Done;
            }
            Role::Ring => {
                // Ring neighbours send their frames when all is set up; the accept is over with the handshake.
                self.accepting = false;
                actions.push(Action::Serves(head.id));
                return Step::Done;
            }
            Role::Root | Role::Reply | Role::Peer => {}
        }
        let expected = self.expected();
        match i32_at(bytes, 0) {
            None if head.closed => self.over(Action::Dies("the connection was closed before a frame came"), actions),
            None => Step::More,
            Some(size) if size > expected => {
                self.over(Action::Dies("a frame larger than expected: Message truncated"), actions)
            }
            Some(size) => {
                let size = usize::try_from(size).unwrap_or(0);
                let Some(body) = bytes.get(4..).and_then(|b| b.get(..size)) else {
                    if head.closed {
                        return self.over(Action::Dies("the connection was closed inside a frame"), actions);
                    }
                    return Step::More;
                };
                if self.role != Role::Root {
                    self.accepting = false;
                    actions.push(Action::Serves(head.id));
                    return if self.role == Role::Reply { Step::Over } else { Step::Done };
                }
                // What the frame leaves out stays as it was: zero, as far as was seen.
                let mut whole = body.to_vec();
                whole.resize(usize::try_from(expected).unwrap_or(0), 0);
                self.check_in(head, &whole, actions)
            }
        }
    }

    /// Bytes of the first frame that it wants.
    fn expected(&self) -> i32 {
        let v = self.version.0;
        match self.role {
            Role::Root if v >= 22900 => 176,
            Role::Root if v >= 22300 => 172,
            Role::Root if v >= 20800 => 64,
            Role::Root => 136,
            Role::Reply if v >= 22300 => 128,
            Role::Reply if v >= 20800 => 28,
            Role::Reply => 64,
            _ if v >= 22300 => 8,
            _ => 4,
        }
    }

    fn check_in(&mut self, head: &Pending, body: &[u8], actions: &mut Vec<Action>) -> Step {
        let Some(c) = check_in(body, self.has_handshake()) else { return Step::Done };
        let v = self.version.0;
        let nroots = c.roots.map_or(1, |r| r.1);
        if v >= 22300 && (nroots == 0 || c.nranks == 0) {
            return self.over(Action::Killed("a division by the number of roots or ranks, which is zero"), actions);
        }
        match self.first {
            None if c.nranks < 0 => {
                return self.over(Action::Dies("a negative number of ranks: Failed to malloc"), actions);
            }
            None => {
                let slot = if v >= 22300 {
                    156
                } else if v >= 20800 {
                    56
                } else {
                    128
                };
                let bytes = u64::try_from(c.nranks).unwrap_or(0).saturating_mul(slot);
                if bytes > 1 << 30 {
                    actions.push(Action::Allocates(bytes));
                }
                self.first = Some((c.nranks, nroots));
            }
            Some(first) if first != (c.nranks, nroots) => {
                return self.over(Action::Dies("ranks that disagree on the number of ranks or roots"), actions);
            }
            Some(_) => {}
        }
        let boundary = nroots > 1 && c.rank == c.nranks;
        if c.nranks == 0 || c.rank < 0 {
            return self.over(Action::Dies("a rank below zero, or of none, counts as checked in already"), actions);
        }
        if c.rank >= c.nranks && !boundary {
            return match v {
                22900.. => self.over(Action::Dies("a rank out of range"), actions),
                _ => self.over(Action::Killed("a rank out of range is an index out of bounds"), actions),
            };
        }
        if !self.ranks.insert(c.rank) {
            return self.over(Action::Dies("a rank that has checked in already"), actions);
        }
        actions.push(Action::CheckedIn { connection: head.id, rank: c.rank });
        if nroots == 1 && i64::try_from(self.ranks.len()).is_ok_and(|n| n == i64::from(c.nranks)) {
            actions.push(Action::Completes);
            return Step::Over;
        }
        Step::Done
    }

    fn bare_proxy(&mut self, head: &Pending, actions: &mut Vec<Action>) -> Step {
        match i32_at(&head.bytes, 0) {
            // Each connection has its own slot: an idle one keeps nobody waiting until all are taken.
            None => {
                self.served += 1;
                if self.served >= PROXY_SLOTS {
                    return self.over(Action::Dies("too many connections"), actions);
                }
                actions.push(if head.closed { Action::Closes(head.id) } else { Action::Serves(head.id) });
                Step::Done
            }
            Some(7 | 8) => {
                self.over(Action::Dies("the bytes read as Stop or Abort, which end the service thread"), actions)
            }
            Some(1..=6) => {
                actions.push(Action::Serves(head.id));
                Step::Done
            }
            Some(_) => {
                actions.push(Action::Closes(head.id));
                Step::Done
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::{Effect, verdict};
    use super::*;

    const MAGIC: u64 = 0x1122_3344_5566_7788;

    fn root(version: u32, bytes: &[u8], closes: bool) -> Effect {
        verdict(Role::Root, Version(version), MAGIC, &[], &[bytes], closes).effect
    }

    fn holder(rest: &[u8]) -> Vec<u8> {
        [&MAGIC.to_le_bytes()[..], rest].concat()
    }

    #[test]
    fn the_table_of_the_root() {
        use Effect::{Closes, Dies, Killed, Waits};
        let releases = [21403, 21602, 22602, 22703, 23007];
        let row = |bytes: &[u8], closes| releases.map(|v| root(v, bytes, closes));
        assert_eq!(row(b"", true), [Dies, Dies, Dies, Closes, Closes]);
        assert_eq!(row(b"\r\n\r\n", true), [Dies, Dies, Dies, Closes, Closes]);
        assert_eq!(row(b"GET / HTTP/1.0\r\n\r\n", false), [Dies, Closes, Closes, Closes, Closes]);
        assert_eq!(row(b"", false), [Waits; 5]);
        let eight = |closes| [23102, 23203].map(|v| root(v, b"ABCDEFGH", closes));
        assert_eq!((eight(false), eight(true)), ([Closes, Waits], [Closes, Closes]));
        assert_eq!(root(23203, b"ABCDEFGHIJKL", false), Closes);
        let modern = |rest: &[u8]| [21602, 22602, 22703, 23007, 23203].map(|v| root(v, &holder(rest), true));
        assert_eq!(modern(&[2, 0, 0, 0]), [Dies, Dies, Dies, Closes, Closes]);
        assert_eq!(modern(&[]), [Dies, Dies, Dies, Dies, Closes]);
        assert_eq!(modern(&[1, 0, 0, 0, 0, 0, 0, 0]), [Dies, Killed, Killed, Killed, Killed]);
        assert_eq!(modern(&[1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]), [Dies; 5]);
    }

    #[test]
    fn a_silent_connection_keeps_ranks_waiting_and_a_proxy_spins() {
        let mut s = Server::new(Role::Root, Version(22703), MAGIC);
        assert_eq!(s.step(Input::Open(1)), [Action::Waits(1)]);
        assert_eq!(s.step(Input::Open(2)), []);
        let mut hello = holder(&[1, 0, 0, 0, 172, 0, 0, 0]);
        hello.extend([0u8; 4]);
        hello.extend([1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        hello.resize(12 + 4 + 172, 0);
        assert_eq!(s.step(Input::Bytes(2, &hello)), []);
        assert_eq!(
            s.step(Input::Close(1)),
            [Action::Closes(1), Action::CheckedIn { connection: 2, rank: 0 }, Action::Completes]
        );
        let spins = |v| verdict(Role::Proxy, Version(v), MAGIC, &[], &[b"GET / HTTP/1.0"], true).effect;
        assert_eq!(
            [21602, 22602, 23004, 23007].map(spins),
            [Effect::Spins, Effect::Spins, Effect::Spins, Effect::Closes]
        );
    }

    #[test]
    fn a_scan_of_a_peer_listener_is_a_fuse() {
        let mut s = Server::new(Role::Peer, Version(22602), MAGIC);
        assert_eq!(s.step(Input::Open(1)), []);
        assert_eq!(s.step(Input::Close(1)), []);
        assert!(matches!(s.step(Input::Accept)[..], [Action::Dies(_)]));
        assert_eq!(verdict(Role::Peer, Version(22703), MAGIC, &[], &[], true).effect, Effect::Closes);
    }

    proptest::proptest! {
        #[test]
        fn no_input_breaks_the_model(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), holder in proptest::bool::ANY) {
            for v in super::super::Versions::ALL.representatives() {
                for role in [Role::Root, Role::Reply, Role::Ring, Role::Peer, Role::Proxy, Role::Net, Role::Ras] {
                    let sent = if holder { [&MAGIC.to_le_bytes()[..], &[1, 0, 0, 0], &bytes].concat() } else { bytes.clone() };
                    verdict(role, v, MAGIC, &[], &[&sent], true);
                }
            }
        }
    }
}
