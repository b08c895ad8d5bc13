//! One listener, from all its connections: what it speaks, whether it lives.

use crate::finding::DialectName;
use crate::net::Endpoint;
use crate::protocol::observation::FlowObservation;
use crate::protocol::stray::{greeting, identify};
use crate::protocol::tcpstore::server::{Backend, Outcome, Policy, Server, verdict};
use crate::protocol::tcpstore::{Dialect, Facts, FlowReadings, Partner, Reading, narrow};
use crate::stream::{Activity, Direction, FlowRecord, PacketRef};
use crate::time::Timestamp;

/// A server that closes, does so within this time of the bytes it dislikes.
const AT_ONCE: f64 = 0.3;
/// A server that rejects a connection for its bytes does so sooner than this. A process that fills what it was told to takes
/// longer until it is killed: the smallest container was seen to take 138 ms.
const REJECTS: f64 = 0.03;
/// A server that says nothing for this long is silent.
const SILENT: f64 = 0.9;
/// Closings within this time are one event.
const BURST: f64 = 2.0;
/// A companion connection (PyTorch 1.9–2.0) follows the first one within this time. Milliseconds are usual; more than a
/// second was seen on a busy host.
const COMPANION: f64 = 5.0;
/// A companion stays open; who closes sooner checks whether somebody listens.
const STAYS: f64 = 1.0;
/// Later connections among which a companion is looked for.
const LATER: usize = 512;
/// Strays that the inference looks at; a flood adds nothing.
const JUDGED: usize = 256;

/// One connection to a listener, at the vantage point nearest to it.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// Its record.
    pub record: &'a FlowRecord,
    /// What was decoded of it, where it was.
    pub observation: Option<&'a FlowObservation>,
    /// The last time at which that vantage point saw anything: a silence lasts at most until then.
    pub until: Timestamp,
}

/// A kind of server that the listener may be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Candidate {
    /// Its dialect.
    pub dialect: Dialect,
    /// Its backend.
    pub backend: Backend,
}

impl Candidate {
    /// Every kind of server, oldest first.
    pub fn all() -> Vec<Candidate> {
        let mut all: Vec<Candidate> =
            Dialect::ALL.iter().map(|d| Candidate { dialect: *d, backend: Backend::Poll }).collect();
        all.push(Candidate { dialect: Dialect::D, backend: Backend::Libuv });
        all
    }

    /// The model that stands for it.
    pub fn server(self) -> Server {
        let of_dialect = Server::of_dialect(self.dialect);
        let found = of_dialect.iter().find(|(_, s)| s.backend == self.backend).or(of_dialect.first());
        found.map_or_else(
            || Server::new(crate::protocol::tcpstore::Release::newest(self.dialect), self.backend),
            |f| f.1,
        )
    }
}

/// How a listener came to be taken for a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KnownBy {
    /// A store client and the listener understood each other.
    Speech,
    /// A client spoke to it as to a store.
    Client,
    /// Its port is one of those watched.
    Port,
    /// Another stream named it.
    Named(String),
}

/// A statement and the packet that shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// In words.
    pub text: String,
    /// The packet to look at.
    pub packet: Option<PacketRef>,
}

/// The death of a listener, as its connections show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    /// The first sign.
    pub time: Timestamp,
    /// Its packet.
    pub packet: PacketRef,
    /// Connections that the listener's side closed within a moment.
    pub closed: u32,
    /// Of these: by a reset.
    pub reset: u32,
    /// Later attempts that were refused.
    pub refused: u32,
}

/// Another service at a port where a store was looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// What it speaks, where its bytes or its client's name it.
    pub protocol: Option<&'static str>,
    /// It sent something before its client did.
    pub spoke_first: bool,
    /// The first packet that shows it.
    pub packet: PacketRef,
    /// Of that packet.
    pub time: Timestamp,
}

/// A store, or what may be one.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// How it came to be taken for a store.
    pub known_by: KnownBy,
    /// What else named it.
    pub named_by: Option<String>,
    /// The kinds of server that fit everything seen. Empty: what was seen contradicts itself.
    pub candidates: Vec<Candidate>,
    /// Why those.
    pub evidence: Vec<Evidence>,
    /// The oldest release that every client can be, as (major, minor).
    pub since: Option<(u8, u8)>,
    /// The newest release that some client can be.
    pub until: Option<(u8, u8)>,
    /// How its host's kernel answers requests for memory, where somebody said so.
    pub policy: Policy,
    /// Connections it accepted.
    pub accepted: u64,
    /// First packet to or from it.
    pub first_seen: Option<Timestamp>,
    /// Last packet to or from it.
    pub last_seen: Option<Timestamp>,
    /// Whether and when it died first.
    pub death: Option<Death>,
    /// All its deaths, in order: a store that was started again on its port may die again.
    pub deaths: Vec<Death>,
    /// The first connection that it accepted after each time that it had refused one: another process listens from then on.
    pub restarts: Vec<Timestamp>,
    /// The last connection that it accepted.
    pub last_accept: Option<Timestamp>,
    /// Signs and death may be apart by so many seconds and be one event, seen by different captures.
    pub apart: f64,
    /// It answers as no store does.
    pub foreign: Option<Foreign>,
    /// When it sent anything.
    pub activity: Activity,
    /// Whether the captures hold any packet of its side, where it was sent bytes: without one nothing can be said of what it
    /// did.
    pub heard: bool,
}

impl Listener {
    /// Its dialect, where only one fits.
    pub fn dialect(&self) -> Option<Dialect> {
        let first = self.candidates.first()?.dialect;
        self.candidates.iter().all(|c| c.dialect == first).then_some(first)
    }

    /// The dialects that fit, oldest first.
    pub fn dialects(&self) -> Vec<Dialect> {
        let mut all: Vec<Dialect> = self.candidates.iter().map(|c| c.dialect).collect();
        all.dedup();
        all
    }

    /// The same, as findings have them.
    pub fn dialect_name(&self) -> Option<DialectName> {
        self.dialect().map(Dialect::label)
    }

    /// The same, as findings have them.
    pub fn dialect_names(&self) -> Vec<DialectName> {
        self.dialects().into_iter().map(Dialect::label).collect()
    }

    /// Its backend, where only one fits.
    pub fn backend(&self) -> Option<Backend> {
        let first = self.candidates.first()?.backend;
        self.candidates.iter().all(|c| c.backend == first).then_some(first)
    }

    /// Whether it asks for the validate magic, where that is settled.
    pub fn validates(&self) -> Option<bool> {
        let first = self.candidates.first()?.dialect.validates();
        self.candidates.iter().all(|c| c.dialect.validates() == first).then_some(first)
    }

    /// Its first death after `time`.
    pub fn death_after(&self, time: Timestamp) -> Option<Death> {
        self.deaths.get(self.deaths.partition_point(|d| d.time <= time)).copied()
    }

    /// Whether a close at `time` was the listener's own choice: it lived on afterwards. `None` where nothing tells.
    pub fn lived_on(&self, time: Timestamp) -> Option<bool> {
        let from = self.deaths.partition_point(|d| time.seconds_since(d.time) > BURST);
        let near = |d: &Death| d.time.seconds_since(time) <= SAME_SECONDS;
        if self.deaths.get(from).is_some_and(near) {
            return Some(false);
        }
        let later = |t: Timestamp| t.seconds_since(time) > SAME_SECONDS;
        let acted = self.activity.first_after(time.plus_nanos((SAME_SECONDS * 1e9) as i64)).is_some();
        (acted || self.last_accept.is_some_and(later)).then_some(true)
    }

    /// When another process listened for the first time after `time`.
    pub fn restarted_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.restarts.get(self.restarts.partition_point(|t| *t <= time)).copied()
    }

    /// How long the listener was silent after `time`, on every connection, and until when: its next sign, its death,
    /// or the end of what was seen. No time at all where the captures hold one direction only.
    pub fn silence_after(&self, time: Timestamp) -> (f64, Option<Timestamp>) {
        if !self.heard {
            return (0.0, None);
        }
        let next = self.activity.first_after(time);
        let died = self.death_after(time).map(|d| d.time);
        let next = match (next, died) {
            // The death itself, by the clock of another capture.
            (Some(a), Some(b)) if b.seconds_since(a) <= self.apart => Some(b),
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let end = next.or(self.last_seen).unwrap_or(time);
        (end.seconds_since(time), next)
    }
}

/// A store that died accepts again after this many seconds at the earliest: Python has to import PyTorch first.
const RESTART_SECONDS: f64 = 1.0;
/// A process that ends closes its connections no further apart than this, in seconds.
pub const ENDING_SECONDS: f64 = 0.005;
/// Two captures show one event within this time of each other, in seconds.
const SAME_SECONDS: f64 = 0.25;

/// How a store is named that nothing names but the size of a process that was killed on its host.
pub const NAMED_BY_A_KILL: &str = "the total-vm of a process killed on its host, which is what it was told to allocate";

/// What a listener did with one connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Observed {
    /// It sent payload.
    Replied,
    /// It closed at once, after so many seconds.
    Closed(f64),
    /// It said nothing for so many seconds.
    Silent(f64),
    /// The capture does not tell.
    Unclear,
}

/// What the listener did with a connection whose client sent something.
pub fn observed(connection: &Connection<'_>) -> Observed {
    let record = connection.record;
    // The client went on although nothing that came back was captured: the capture holds one direction.
    if record.packets[1] == 0 {
        return Observed::Unclear;
    }
    if record.bytes[Direction::ToClient.index()] > 0 {
        return Observed::Replied;
    }
    let Some(last) = connection.observation.and_then(FlowObservation::last_client_byte) else {
        return Observed::Unclear;
    };
    let (server, client) = (record.server_closed(), record.client_closed());
    if let Some(closed) = server.filter(|s| client.is_none_or(|c| *s <= c)) {
        let after = closed.seconds_since(last);
        return if after <= AT_ONCE { Observed::Closed(after.max(0.0)) } else { Observed::Silent(after) };
    }
    let silent = client.unwrap_or(connection.until).seconds_since(last);
    if silent >= SILENT { Observed::Silent(silent) } else { Observed::Unclear }
}

/// Studies one listener. `connections` in order of time; `by_port`: its port is one of those watched.
pub fn study(
    endpoint: Endpoint,
    connections: &[Connection<'_>],
    activity: Activity,
    by_port: bool,
    named: Option<&str>,
) -> Listener {
    let Lives { restarts, last_accept, deaths } = lives(connections);
    let mut listener = Listener {
        endpoint,
        known_by: match named {
            Some(n) => KnownBy::Named(n.to_string()),
            None if by_port => KnownBy::Port,
            None => KnownBy::Client,
        },
        named_by: named.map(str::to_string),
        candidates: Candidate::all(),
        evidence: Vec::new(),
        since: None,
        until: None,
        policy: Policy::Unknown,
        accepted: connections.iter().filter(|c| c.record.accepted()).count() as u64,
        first_seen: connections.iter().map(|c| c.record.first).min(),
        last_seen: connections.iter().map(|c| c.record.last).max(),
        death: deaths.first().copied(),
        deaths,
        restarts,
        last_accept,
        apart: SAME_SECONDS,
        foreign: None,
        activity,
        heard: connections.iter().all(|c| c.record.bytes[0] == 0)
            || connections.iter().any(|c| c.record.packets[1] > 0),
    };
    by_speech(&mut listener, connections);
    if listener.known_by != KnownBy::Speech {
        listener.foreign = connections.iter().find_map(foreign);
    }
    if listener.foreign.is_some() {
        listener.candidates = Candidate::all();
        return listener;
    }
    by_strays(&mut listener, connections);
    listener
}

/// How a connection shows that no store listens: whole from its beginning, the server spoke first, as no store does, or it answered
/// what makes sense in no dialect: before a request was complete, with a wrong nonce, with a length that no store sends.
pub fn foreign(connection: &Connection<'_>) -> Option<Foreign> {
    let o = connection.observation?;
    let r = &o.record;
    let whole =
        r.isn(Direction::ToServer).is_some() && r.syn_ack.get().is_some() && o.gaps == 0 && !o.store().is_empty();
    let first = o.kept[1].first().filter(|_| whole && r.bytes[1] > 0)?;
    let spoke_first = o.kept[0].first().is_none_or(|c| first.time < c.time);
    if !spoke_first && o.store().iter().any(Facts::server_makes_sense) {
        return None;
    }
    let head = o.head(Direction::ToClient, 256);
    let named = identify(&head, r.bytes[1]);
    let client = identify(&o.head(Direction::ToServer, 256), r.bytes[0]);
    let nameless = |p: &str| matches!(p, "unknown" | "none" | "constant bytes" | "text" | "TCPStore");
    let protocol = greeting(&head).or([named.protocol, client.protocol].into_iter().find(|p| !nameless(p)));
    Some(Foreign { protocol, spoke_first, packet: first.packet, time: first.time })
}

/// Store clients that were answered name the dialect, and sometimes bound their own version.
fn by_speech(listener: &mut Listener, connections: &[Connection<'_>]) {
    let answered = |c: &&Connection<'_>| {
        c.observation.is_some_and(|o| o.store().len() == Dialect::ALL.len()) && c.record.bytes[1] > 0
    };
    let mut flows = Vec::new();
    for c in connections.iter().filter(answered) {
        let Some(o) = c.observation else { continue };
        let mut readings: [Reading; 5] = Default::default();
        for (slot, facts) in readings.iter_mut().zip(o.store()) {
            slot.clone_from(&facts.reading);
        }
        if !readings.iter().any(Reading::is_sound) {
            readings = readings.map(Reading::forgiven);
        }
        if readings.iter().any(Reading::is_sound) {
            listener.known_by = KnownBy::Speech;
            flows.push(FlowReadings { readings, partner: partner(c, o, connections) });
        }
    }
    if flows.is_empty() {
        return;
    }
    let narrowed = narrow(&flows);
    listener.candidates.retain(|k| narrowed.dialects.contains(k.dialect));
    listener.since = narrowed.since;
    listener.until = narrowed.until;
    let spoke = connections.iter().filter(answered).filter_map(|c| c.observation).find_map(|o| {
        let facts = narrowed.dialects.iter().filter_map(|d| o.facts(d)).find(|f| f.reading.is_sound())?;
        facts.first.as_ref().map(|first| (o, first))
    });
    if let Some((o, first)) = spoke {
        let key = first.key.as_deref().map_or(String::new(), |k| format!(" {}", k.escape_ascii()));
        let magic = if narrowed.dialects.iter().eq([Dialect::D]) { "the validate magic and " } else { "" };
        listener.evidence.push(Evidence {
            text: format!("{} sent {magic}{}{key} and was answered", o.client().address, first.query),
            packet: Some(first.packet),
        });
    }
    listener.evidence.extend(narrowed.evidence.into_iter().map(|e| Evidence { text: e.text, packet: Some(e.packet) }));
}

/// PyTorch 1.9–2.0 opens a second connection for callbacks and leaves it silent; 2.1 does not.
fn partner(c: &Connection<'_>, o: &FlowObservation, connections: &[Connection<'_>]) -> Partner {
    let Some(first) = o.facts(Dialect::B).filter(|f| f.is_clean()).and_then(|f| f.first.as_ref()) else {
        return Partner::Unknown;
    };
    // Connections stand in order of time: only those that began later are looked at, and few of them. A client that
    // waits for workers counts itself before it opens the second one; one that does not opens it before it says anything.
    let from = connections.partition_point(|other| other.record.first < c.record.first);
    let silent = |r: &FlowRecord| {
        r.client().address == o.client().address
            && r.client() != o.client()
            && r.accepted()
            && r.bytes[0] == 0
            && r.client_closed().is_none_or(|t| t.seconds_since(r.first) > STAYS)
    };
    match connections[from..].iter().take(LATER).map(|c| c.record).find(|r| silent(r)) {
        Some(r) if r.first.seconds_since(first.time) < COMPANION => Partner::Silent(r.first_packet),
        // Late, but it may be the companion all the same.
        Some(_) => Partner::Unknown,
        None if connections.len() - from > LATER => Partner::Unknown,
        None if c.record.syn.get().is_some() && c.until.seconds_since(first.time) > COMPANION => Partner::None,
        None => Partner::Unknown,
    }
}

/// What the listener did with strays and unanswered clients rules servers out that would have done otherwise.
fn by_strays(listener: &mut Listener, connections: &[Connection<'_>]) {
    let mut stalled: Vec<(Timestamp, Timestamp)> = Vec::new();
    let mut ruled_out = 0;
    for c in connections.iter().filter(|c| c.record.bytes[0] > 0).take(JUDGED) {
        let Some(o) = c.observation else { continue };
        let seen = observed(c);
        let Some(last) = o.last_client_byte() else { continue };
        let segments: Vec<&[u8]> = o.kept[0].iter().map(|k| k.bytes.as_slice()).collect();
        let held = stalled.iter().any(|(from, to)| *from <= last && last <= *to);
        if let Observed::Silent(_) = seen {
            let end = c.record.client_closed().or(c.record.server_closed()).unwrap_or(c.until);
            stalled.push((last, end));
        }
        let silence_tells_nothing = held && matches!(seen, Observed::Silent(_));
        if o.gaps > 0 || !o.kept_whole[0] || silence_tells_nothing || listener.candidates.len() < 2 {
            continue;
        }
        let fits = |k: &Candidate| {
            let model = verdict(&k.server(), &segments);
            match seen {
                Observed::Closed(_) => matches!(model.outcome, Outcome::Closes | Outcome::Allocates | Outcome::Unknown),
                Observed::Silent(_) => {
                    matches!(model.outcome, Outcome::Waits | Outcome::Allocates | Outcome::Unknown)
                }
                // What an honest client is answered depends on the keys that others set, which the model of one connection
                // does not hold: there only query types that the server lacks tell.
                Observed::Replied => match o.facts(k.dialect).filter(|f| f.is_clean()) {
                    Some(facts) => serves_all(k, facts),
                    None => !matches!(model.outcome, Outcome::Closes | Outcome::Waits),
                },
                Observed::Unclear => true,
            }
        };
        let before = listener.dialects();
        let kept: Vec<Candidate> = listener.candidates.iter().copied().filter(fits).collect();
        // Contradicting everything, it is a fact of its own and rules nothing out.
        if kept.is_empty() || kept.len() == listener.candidates.len() {
            continue;
        }
        let gone: Vec<String> = listener
            .candidates
            .iter()
            .filter(|k| !kept.contains(k))
            .map(|k| format!("{} ({})", k.dialect, k.backend.name()))
            .collect();
        listener.candidates = kept;
        ruled_out += 1;
        if ruled_out <= 4 || listener.dialects() != before {
            let did = match seen {
                Observed::Closed(s) => format!("closed the connection {:.1} ms after", s * 1e3),
                Observed::Silent(s) => format!("stayed silent for {s:.1} s after"),
                Observed::Replied => "replied to".to_string(),
                Observed::Unclear => continue,
            };
            listener.evidence.push(Evidence {
                text: format!(
                    "it {did} {} bytes from {}: not {}",
                    o.record.bytes[0],
                    o.client().address,
                    gone.join(", ")
                ),
                packet: o.kept[0].last().map(|k| k.packet),
            });
        }
    }
}

/// Whether this kind of server knows every query type that the connection asked for.
fn serves_all(candidate: &Candidate, facts: &Facts) -> bool {
    let release = candidate.server().release;
    let served = |byte| release.operation(candidate.backend, byte);
    candidate.dialect.operations().iter().enumerate().all(|(byte, operation)| {
        facts.operations >> (*operation as u32) & 1 == 0 || u8::try_from(byte).ok().and_then(served) == Some(*operation)
    })
}

/// When a life accepted its last connection, and what was refused first after it.
type Life<'a> = (Timestamp, Option<(Timestamp, &'a FlowRecord)>);

/// What the connections show of a listener's lives and their ends.
struct Lives {
    restarts: Vec<Timestamp>,
    last_accept: Option<Timestamp>,
    deaths: Vec<Death>,
}

/// It had accepted connections; then it closed what was open within a moment, and accepted nothing more (or nothing
/// before it refused). Refusals before it ever listened are no death, nor is a connection that it closed because of
/// what that connection sent. What accepts again after it refused is another process, and may die again.
fn lives(connections: &[Connection<'_>]) -> Lives {
    let mut accepts: Vec<Timestamp> = connections.iter().filter_map(|c| c.record.syn_ack.get()).collect();
    accepts.sort_unstable();
    let mut refusals: Vec<(Timestamp, &FlowRecord)> = connections
        .iter()
        .filter(|c| c.record.refused())
        .filter_map(|c| Some((c.record.rst[1].get()?, c.record)))
        .collect();
    refusals.sort_by_key(|(t, r)| (*t, r.server_close_packet()));
    let closings = closings(connections);
    let ends = ends(&accepts, &refusals);
    let restart = |(_, refusal): &Life<'_>| {
        let (refused, _) = (*refusal)?;
        accepts.get(accepts.partition_point(|a| *a < refused)).copied()
    };
    let restarts = ends.iter().filter_map(restart).collect();
    let of_life = |(n, life): (usize, &Life<'_>)| {
        let next = ends.get(n + 1).map_or(Timestamp::MAX, |(a, _)| *a);
        death(*life, &closings, &refusals, next)
    };
    let deaths = ends.iter().enumerate().filter_map(of_life).collect();
    Lives { restarts, last_accept: accepts.last().copied(), deaths }
}

/// A connection that the listener's side closed.
struct Closing<'a> {
    time: Timestamp,
    record: &'a FlowRecord,
    /// So soon after the client's bytes that these may be the reason.
    prompt: bool,
}

/// The connections that the listener's side closed first, or reset, in order of time; without those that it plainly rejected.
fn closings<'a>(connections: &[Connection<'a>]) -> Vec<Closing<'a>> {
    let of = |c: &Connection<'a>| {
        // Of a connection from before the capture the beginning is not seen: that it was closed shows that it was one.
        let accepted = c.record.accepted() || c.record.syn.get().is_none();
        let time = c.record.server_closed().filter(|_| accepted)?;
        let prompt = match observed(c) {
            Observed::Closed(after) if after < REJECTS => return None,
            o => matches!(o, Observed::Closed(_)),
        };
        let own = c.record.rst[1].get().is_some() || c.record.client_closed().is_none_or(|c| c >= time);
        own.then_some(Closing { time, record: c.record, prompt })
    };
    let mut all: Vec<Closing<'a>> = connections.iter().filter_map(of).collect();
    all.sort_by_key(|c| (c.time, c.record.server_close_packet()));
    all
}

/// For each life: the last connection that it accepted, and the first that was refused after it.
fn ends<'a>(accepts: &[Timestamp], refusals: &[(Timestamp, &'a FlowRecord)]) -> Vec<Life<'a>> {
    let mut lives: Vec<Life<'a>> = Vec::new();
    for refusal in refusals {
        let before = accepts.partition_point(|a| *a < refusal.0);
        let Some(accept) = before.checked_sub(1).and_then(|i| accepts.get(i)) else { continue };
        // No process is started again so fast: it is the capture that lost something, or a filter that refused.
        if accepts.get(before).is_some_and(|next| next.seconds_since(refusal.0) < RESTART_SECONDS) {
            continue;
        }
        if lives.last().is_none_or(|(a, _)| a != accept) {
            lives.push((*accept, Some(*refusal)));
        }
    }
    if let Some(last) = accepts.last().filter(|last| lives.last().is_none_or(|(a, _)| a != *last)) {
        lives.push((*last, None));
    }
    lives
}

/// The death that ended a life. `next`: when the next life accepted its last connection.
fn death(
    (accept, refusal): Life<'_>,
    closings: &[Closing<'_>],
    refusals: &[(Timestamp, &FlowRecord)],
    next: Timestamp,
) -> Option<Death> {
    let until = refusal.map_or(Timestamp::MAX, |r| r.0);
    let from = closings.partition_point(|c| c.time <= accept);
    let to = closings.partition_point(|c| c.time <= until);
    let own = closings.get(from..to).unwrap_or_default();
    // A close that the bytes before it explain is a sign where there is no other.
    let sign = own.iter().find(|c| !c.prompt).or(own.first());
    let sign = sign.map(|c| (c.time, c.record)).or(refusal)?;
    // While a process ends, its listening socket may accept once more after its first connection was closed.
    let begun = closings.partition_point(|c| c.time < sign.0);
    let before = closings.get(..begun).unwrap_or_default().iter().rev();
    let mut begun = sign;
    for c in before {
        if begun.0.seconds_since(c.time) > ENDING_SECONDS {
            break;
        }
        begun = (c.time, c.record);
    }
    let first = closings.partition_point(|c| c.time < begun.0);
    let burst: Vec<&Closing<'_>> =
        closings.iter().skip(first).take_while(|c| c.time.seconds_since(begun.0) <= BURST && c.time <= until).collect();
    // A store that is done with a claim closes, one after the other, what strays left in its queue and gave up: without a
    // refusal it takes connections that their clients still held.
    let held = burst.iter().filter(|c| !c.prompt && c.record.client_closed().is_none_or(|t| t >= c.time)).count();
    if held < 2 && refusal.is_none() {
        return None;
    }
    let refused = refusals.partition_point(|(t, _)| *t < next) - refusals.partition_point(|(t, _)| *t < begun.0);
    Some(Death {
        time: begun.0,
        packet: begun.1.server_close_packet(),
        closed: burst.len() as u32,
        reset: burst.iter().filter(|c| c.record.rst[1].get().is_some()).count() as u32,
        refused: refused as u32,
    })
}
