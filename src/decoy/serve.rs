//! The loop: one thread, sockets that do not block, bounds on everything.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use socket2::SockRef;

use super::actor::{Actor, ActorOutput};
use super::entry::{Ended, Entry, Summary};
use super::link::{Link, endpoint};
use super::listener_role::ListenerRole;
use super::record::{Recorder, Tape};
use crate::prescan::Host;
use crate::protocol::tcpstore::server::How;
use crate::time::Timestamp;

/// Bytes of one read.
const READ: usize = 64 << 10;
/// Answers that one connection may leave unread before it is given up.
const UNREAD: usize = 12 << 20;
/// Bytes of answers and of what was sent, of all connections together; above, the one that holds most is given up.
const HELD: usize = 64 << 20;
/// Reads of one connection before the others get their turn.
const TURN: usize = 16;

/// Why no decoy can be made.
#[derive(Debug, thiserror::Error)]
pub enum DecoyError {
    /// It cannot listen there.
    #[error("{address}: cannot listen: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The system's event queue failed.
    #[error("waiting for connections: {0}")]
    Poll(io::Error),
    /// The recording or the output failed.
    #[error("writing: {0}")]
    Write(#[from] io::Error),
}

/// How long and how much.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Stops after so long.
    pub time: Option<Duration>,
    /// Stops after so many connections have ended.
    pub connections: Option<u64>,
    /// Open at once at most; more are turned away.
    pub open: usize,
    /// Stops when this is set.
    pub stop: Arc<AtomicBool>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { time: None, connections: None, open: 1000, stop: Arc::default() }
    }
}

/// One listener.
struct Stage {
    part: ListenerRole,
    socket: Option<TcpListener>,
    address: SocketAddr,
    shown: String,
    actor: Actor,
}

/// Listeners that play their parts.
pub struct Decoy {
    poll: Poll,
    stages: Vec<Stage>,
    links: BTreeMap<u64, Link>,
    tapes: BTreeMap<u64, Tape>,
    next: u64,
    ended: u64,
    host: Host,
    mortal: bool,
    recorder: Option<Recorder>,
    summary: Summary,
    entries: Vec<Entry>,
    /// Connections that may have more to read than they had in their turn.
    again: BTreeSet<u64>,
    /// Accepting failed for want of descriptors.
    starved: bool,
    /// Bytes of answers that no client has read yet.
    unread: usize,
}

impl Decoy {
    /// Listens. `empty`: stores begin without the key that rank 0 leaves; `mortal`: a listener that would be gone is.
    ///
    /// # Errors
    /// When an address cannot be had.
    pub fn new(
        parts: Vec<(ListenerRole, SocketAddr)>,
        host: Host,
        empty: bool,
        mortal: bool,
    ) -> Result<Decoy, DecoyError> {
        let poll = Poll::new().map_err(DecoyError::Poll)?;
        let mut stages = Vec::new();
        for (i, (part, address)) in parts.into_iter().enumerate() {
            let failed = |error| DecoyError::Listen { address, error };
            let mut socket = TcpListener::bind(address).map_err(failed)?;
            let address = socket.local_addr().map_err(failed)?;
            poll.registry().register(&mut socket, Token(i), Interest::READABLE).map_err(DecoyError::Poll)?;
            let actor = Actor::new(&part, host, empty);
            stages.push(Stage { part, socket: Some(socket), address, shown: endpoint(address), actor });
        }
        Ok(Decoy {
            poll,
            stages,
            links: BTreeMap::new(),
            tapes: BTreeMap::new(),
            next: 0,
            ended: 0,
            host,
            mortal,
            recorder: None,
            summary: Summary { r#type: "summary", ..Summary::default() },
            entries: Vec::new(),
            again: BTreeSet::new(),
            starved: false,
            unread: 0,
        })
    }

    /// Where it listens, and as what.
    pub fn listeners(&self) -> impl Iterator<Item = (SocketAddr, &str)> {
        self.stages.iter().map(|s| (s.address, s.part.name.as_str()))
    }

    /// Records what is exchanged.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Plays until a bound is reached. `tell` is given each connection when it has ended; its error ends the play.
    ///
    /// # Errors
    /// Those of the system, of the recording and of `tell`.
    pub fn run(
        mut self,
        bounds: &Bounds,
        tell: &mut dyn FnMut(&Entry) -> io::Result<()>,
    ) -> Result<Summary, DecoyError> {
        let until = bounds.time.and_then(|t| Instant::now().checked_add(t));
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; READ];
        loop {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            let full = bounds.connections.is_some_and(|n| self.ended >= n);
            if full || left.is_some_and(|l| l.is_zero()) || bounds.stop.load(Ordering::Relaxed) {
                break;
            }
            let busy = !self.again.is_empty();
            let wait = if busy { Duration::ZERO } else { Duration::from_millis(if self.starved { 20 } else { 250 }) };
            match self.poll.poll(&mut events, Some(left.map_or(wait, |l| l.min(wait)))) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(DecoyError::Poll(e)),
            }
            let again = std::mem::take(&mut self.again);
            if std::mem::take(&mut self.starved) {
                (0..self.stages.len()).for_each(|i| self.accept(i, bounds));
            }
            for event in &events {
                match event.token().0.checked_sub(self.stages.len()) {
                    None => self.accept(event.token().0, bounds),
                    Some(id) => {
                        let id = id as u64;
                        if event.is_writable() {
                            self.flush(id);
                        }
                        if event.is_readable() || event.is_read_closed() || event.is_error() {
                            self.readable(id, &mut buffer);
                        }
                    }
                }
            }
            for id in again {
                // Unless it had its turn already.
                if !self.again.contains(&id) {
                    self.readable(id, &mut buffer);
                }
            }
            self.shed();
            for entry in std::mem::take(&mut self.entries) {
                tell(&entry)?;
            }
        }
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            self.end(id, Ended::StillOpen);
        }
        for entry in std::mem::take(&mut self.entries) {
            tell(&entry)?;
        }
        if let Some(recorder) = self.recorder.take() {
            self.summary.unrecorded = recorder.unrecorded();
            recorder.finish()?;
        }
        Ok(self.summary)
    }

    fn accept(&mut self, at: usize, bounds: &Bounds) {
        loop {
            let Some(stage) = self.stages.get(at) else { return };
            let Some(socket) = &stage.socket else { return };
            let (mut stream, client) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted].contains(&e.kind()) => {
                    continue;
                }
                Err(_) => {
                    self.starved = true;
                    return;
                }
            };
            let now = now();
            let local = stream.local_addr().unwrap_or(stage.address);
            self.next += 1;
            let id = self.next;
            self.summary.connections += 1;
            // For reading alone: an event that it may be written to would let it overtake clients that sent before it did.
            let registered = self
                .token(id)
                .is_some_and(|t| self.poll.registry().register(&mut stream, t, Interest::READABLE).is_ok());
            let link = Link::new(id, at, stream, client, now);
            let room = registered && self.links.len() < bounds.open;
            self.links.insert(id, link);
            if !room {
                self.reset(id);
                self.end(id, Ended::TurnedAway);
                continue;
            }
            self.summary.most_open = self.summary.most_open.max(self.links.len());
            if let Some(recorder) = &mut self.recorder {
                let mut tape = Tape::new(client, local);
                recorder.opened(&mut tape, now);
                self.tapes.insert(id, tape);
            }
            let deeds = self.stages.get_mut(at).map(|s| s.actor.open(id)).unwrap_or_default();
            self.act(at, deeds);
        }
    }

    fn readable(&mut self, id: u64, buffer: &mut [u8]) {
        for _ in 0..TURN {
            let Some(link) = self.links.get_mut(&id).filter(|l| l.closing.is_none() && l.ended.is_none()) else {
                return;
            };
            let at = link.listener;
            match link.stream.read(buffer) {
                Ok(0) => return self.hung_up(id, Ended::ClientClose),
                Ok(n) => {
                    let bytes = buffer.get(..n).unwrap_or_default();
                    link.received(bytes);
                    link.queued |= self.stages.get(at).is_some_and(|s| s.actor.held_by_another(id));
                    if let (Some(recorder), Some(tape)) = (&mut self.recorder, self.tapes.get_mut(&id)) {
                        recorder.data(tape, true, bytes, now());
                    }
                    let deeds = self.stages.get_mut(at).map(|s| s.actor.bytes(id, bytes)).unwrap_or_default();
                    self.act(at, deeds);
                    // That was all, it seems. Whether more has come since is looked at after the others have had their turn, as
                    // real servers do: else the answer that it got would let it overtake a request that was sent before.
                    if n < READ {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.hung_up(id, Ended::ClientReset),
            }
        }
        self.again.insert(id);
    }

    /// The client has closed. The model may take its time to notice, as the real server does.
    fn hung_up(&mut self, id: u64, how: Ended) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let at = link.listener;
        link.ended = Some(how);
        if let (Some(recorder), Some(tape)) = (&mut self.recorder, self.tapes.get_mut(&id)) {
            recorder.closed(tape, true, how == Ended::ClientReset, now());
        }
        let deeds = self.stages.get_mut(at).map(|s| s.actor.close(id)).unwrap_or_default();
        self.act(at, deeds);
        // Nobody will ever read what is still to be sent to it.
        if how == Ended::ClientReset || self.links.get(&id).is_some_and(|l| l.closing.is_none()) {
            self.end(id, how);
        }
    }

    /// What the model of listener `at` does.
    fn act(&mut self, at: usize, deeds: Vec<ActorOutput>) {
        for deed in deeds {
            match deed {
                ActorOutput::Send { to, bytes, omitted } => self.send(to, &bytes, omitted),
                ActorOutput::Close { who, how } => {
                    if let Some(link) = self.links.get_mut(&who) {
                        link.closing.get_or_insert(how);
                        self.flush(who);
                    }
                }
                ActorOutput::Claim { who, bytes } => {
                    if let Some(link) = self.links.get_mut(&who).filter(|l| l.claims.len() < 1024) {
                        link.claims.push(bytes);
                    }
                }
                ActorOutput::Holds { who } => {
                    if let Some(link) = self.links.get_mut(&who) {
                        link.holds = true;
                    }
                }
                ActorOutput::Lost { who } => {
                    if let Some(link) = self.links.get_mut(&who) {
                        link.lost = true;
                    }
                }
                ActorOutput::Dies => {
                    self.summary.deaths += 1;
                    if let Some(stage) = self.stages.get_mut(at).filter(|_| self.mortal) {
                        stage.socket = None;
                    }
                }
            }
        }
    }

    fn send(&mut self, to: u64, bytes: &[u8], omitted: u64) {
        let Some(link) = self.links.get_mut(&to) else { return };
        let full = self.unread.saturating_add(bytes.len()) > HELD;
        if omitted > 0 || full || link.out.len().saturating_add(bytes.len()) > UNREAD {
            self.reset(to);
            self.forget(to);
            self.end(to, Ended::GivenUp);
            return;
        }
        link.out.extend(bytes);
        self.unread = self.unread.saturating_add(bytes.len());
        if let (Some(recorder), Some(tape)) = (&mut self.recorder, self.tapes.get_mut(&to)) {
            recorder.data(tape, false, bytes, now());
        }
        self.flush(to);
    }

    /// Sends what can be sent, and closes when that was the last of it.
    fn flush(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id) else { return };
        while !link.out.is_empty() {
            let (front, _) = link.out.as_slices();
            match link.stream.write(front) {
                Ok(n) => {
                    link.sent = link.sent.saturating_add(n as u64);
                    link.out.drain(..n);
                    self.unread = self.unread.saturating_sub(n);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return self.want_writing(id, true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.unread = self.unread.saturating_sub(link.out.len());
                    link.out.clear();
                    break;
                }
            }
        }
        let Some(how) = link.closing else { return self.want_writing(id, false) };
        let by_client = link.ended;
        if how == How::Reset {
            self.reset(id);
        }
        if let (Some(recorder), Some(tape)) = (&mut self.recorder, self.tapes.get_mut(&id))
            && by_client != Some(Ended::ClientReset)
        {
            recorder.closed(tape, false, how == How::Reset, now());
        }
        let server = if how == How::Reset { Ended::ServerReset } else { Ended::ServerClose };
        self.forget(id);
        self.end(id, by_client.unwrap_or(server));
    }

    fn token(&self, id: u64) -> Option<Token> {
        usize::try_from(id).ok().and_then(|id| id.checked_add(self.stages.len())).map(Token)
    }

    /// Whether to be told when it can be written to.
    fn want_writing(&mut self, id: u64, wanted: bool) {
        let token = self.token(id);
        let (Some(link), Some(token)) = (self.links.get_mut(&id), token) else { return };
        if link.wants_writing != wanted {
            let interest = if wanted { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            link.wants_writing = self.poll.registry().reregister(&mut link.stream, token, interest).is_ok() && wanted;
        }
    }

    /// From now on closing it is a reset.
    fn reset(&self, id: u64) {
        if let Some(link) = self.links.get(&id) {
            let _ = SockRef::from(&link.stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// The model need not remember it any longer; what it does for others then is done.
    fn forget(&mut self, id: u64) {
        let Some(link) = self.links.get_mut(&id).filter(|l| l.ended.is_none()) else { return };
        let at = link.listener;
        link.ended = Some(Ended::ServerClose);
        let deeds = self.stages.get_mut(at).map(|s| s.actor.close(id)).unwrap_or_default();
        self.act(at, deeds);
    }

    fn end(&mut self, id: u64, ended: Ended) {
        let Some(link) = self.links.remove(&id) else { return };
        self.unread = self.unread.saturating_sub(link.out.len());
        self.tapes.remove(&id);
        let Some(stage) = self.stages.get(link.listener) else { return };
        let entry = link.entry(&stage.part, &stage.shown, self.host, now(), ended);
        self.summary.add(&entry);
        self.entries.push(entry);
        self.ended += 1;
    }

    /// Above the bound of memory, gives up the connections that hold most.
    fn shed(&mut self) {
        let mut held: usize = self.links.values().map(Link::bytes).sum();
        while held > HELD {
            let Some((id, bytes)) = self.links.iter().map(|(id, l)| (*id, l.bytes())).max_by_key(|l| l.1) else {
                return;
            };
            self.reset(id);
            self.forget(id);
            self.end(id, Ended::GivenUp);
            held = held.saturating_sub(bytes.max(1));
        }
    }
}

/// This moment, by this host's clock.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(i64::try_from(since.as_secs()).unwrap_or(0), i64::from(since.subsec_nanos()))
}
