//! The seam: what a protocol says to the rest of the house, and what it is given.
//!
//! A protocol is a folder beside this file and one entry in [`DISSECTORS`](super::DISSECTORS). It says which
//! connections are its own, reads them piece by piece in bounded memory, and, once all captures are read, what its
//! listeners are and what is wrong with what they were sent. `docs/ARCHITECTURE.md` has the recipe.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use super::listener::{Connection, Listener};
use super::observation::FlowObservation;
use super::tcpstore::server::Policy;
use crate::finding::{Finding, Rule};
use crate::net::{Address, Endpoint};
use crate::stream::{Activity, Chunk, Direction, FlowRecord, Ordinary, PacketRef, PortSet};
use crate::time::Timestamp;
use crate::vocabulary::{Protocol, Role};

/// A listener that sent more than this many bytes before its client sent any speaks first.
pub const SERVER_FIRST_BYTES: usize = 64;

/// Whether a connection is a protocol's, as far as its bytes tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// It is not.
    No,
    /// More bytes will tell.
    Undecided,
    /// It is, or may be and somebody wants to know.
    Yes,
}

/// The first bytes of a connection, at most [`HEAD_BYTES`](crate::stream::HEAD_BYTES) of each direction.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// What the client sent.
    pub client: &'a [u8],
    /// What the listener sent.
    pub server: &'a [u8],
    /// Port of the listener.
    pub port: u16,
    /// The capture holds the beginning of the connection. Where it does not, `client` is the first segment seen, of
    /// whichever side.
    pub whole: bool,
}

/// A protocol.
pub trait Dissector: Sync {
    /// Its name in the report.
    fn protocol(&self) -> Protocol;

    /// Whether a connection to a port that nobody named is its own. Called for every flow with payload: it must cost
    /// nanoseconds. `Yes` must be sure enough that other traffic is not taken for it.
    fn recognise(&self, opening: &Opening<'_>) -> Match;

    /// A decoder for one connection. `midstream`: the connection began before the capture.
    fn decoder(&self, midstream: bool) -> Box<dyn Decoder>;

    /// A number that further connections of the same group begin with (u64, little-endian): they are this protocol's
    /// too, whatever else they say. `client`: the first bytes of a client that [`Dissector::recognise`] took.
    fn group_token(&self, _client: &[u8]) -> Option<u64> {
        None
    }

    /// A hash of all that its rules look at in one connection: connections of one source to one listener with equal hashes
    /// beyond the first ones are counted, not kept. `None`: this one has something of its own.
    fn alike(&self, _seen: &FlowObservation) -> Option<u64> {
        None
    }

    /// Endpoints that may be its listeners. By default those that it has decoded connections to, those that it was told
    /// of, and those that were connected to on a port that the user named for it.
    fn candidates(&self, seen: &Seen<'_>, asked: &Asked<'_>, taught: &[Lesson]) -> BTreeSet<Endpoint> {
        own_candidates(self.protocol(), seen, asked, taught)
    }

    /// Which endpoints are its listeners, of its candidates and of those that their connections name. Flows to them that
    /// were not decoded are read again.
    fn listeners(&self, given: &Given<'_>) -> BTreeSet<Endpoint> {
        given.connections.keys().copied().collect()
    }

    /// Whether flows to a listener that became known late are read again for this protocol.
    fn reads_late(&self) -> bool {
        true
    }

    /// Adds to findings what its own error texts in logs say of the same connections.
    fn corroborate(&self, _findings: &mut [Finding], _errors: &[LoggedError]) {}

    /// What its listeners are, and what is wrong with what they were sent.
    fn study(&self, given: &Given<'_>) -> Study;

    /// What its rules flag, mean, and what to do.
    fn rules(&self) -> &'static [Rule] {
        &[]
    }
}

/// Endpoints that a protocol has decoded connections to or was told of, and those that were connected to on a port that
/// the user named for it.
pub fn own_candidates(protocol: Protocol, seen: &Seen<'_>, asked: &Asked<'_>, taught: &[Lesson]) -> BTreeSet<Endpoint> {
    let own = asked.place(protocol);
    let decoded = seen.flows().filter(|f| f.read_by.contains(own)).map(FlowObservation::server);
    let told = taught.iter().filter(|l| l.protocol == protocol).map(|l| l.endpoint);
    let mut all: BTreeSet<Endpoint> = decoded.chain(told).collect();
    if let Some(ports) = asked.ports.of(own) {
        all.extend(seen.records().map(FlowRecord::server).filter(|e| ports.contains(e.port)));
    }
    all
}

/// Reads one connection, both ways, in the order in which packets were seen. Its memory is bounded, whatever comes.
pub trait Decoder: Send {
    /// The next bytes of one direction.
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>);

    /// Bytes that the capture does not hold.
    fn gap(&mut self, direction: Direction, offset: u64, length: u64);

    /// What follows is only counted: the connection needs no further reading. Reading stops for other protocols too.
    fn is_done(&self) -> bool {
        false
    }

    /// It needs no further reading itself; others may.
    fn has_enough(&self) -> bool {
        self.is_done()
    }

    /// How many lengths and counts were declared so far that may be claims; `None`: only the end tells. Whoever waits for packets
    /// looks at a connection at once when there are more.
    fn claims(&self) -> Option<u64> {
        None
    }

    /// Both directions have ended.
    fn end(self: Box<Self>) -> Arc<dyn Decoded>;
}

/// What a decoder made of one connection: facts, from which everything else is computed.
pub trait Decoded: Any + Debug + Send + Sync {
    /// All bytes of each direction, of a connection that was read to [`Decoder::is_done`] and then only counted.
    fn count(&mut self, _bytes: [u64; 2]) {}

    /// Bytes of memory that it takes, with what findings and a report say of its claims.
    fn memory(&self) -> u64 {
        4 << 10
    }
}

/// Protocols, by their places among [`DISSECTORS`](super::DISSECTORS).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProtocolSet(u32);

impl ProtocolSet {
    /// The one at this place.
    pub fn only(place: usize) -> Self {
        ProtocolSet(1u32.checked_shl(place as u32).unwrap_or(0))
    }

    /// Those in either.
    #[must_use]
    pub fn with(self, other: ProtocolSet) -> Self {
        ProtocolSet(self.0 | other.0)
    }

    /// Whether all of `other` are in.
    pub fn contains(self, other: ProtocolSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Ports whose listeners the user takes for a protocol's.
#[derive(Clone, Default)]
pub struct NamedPorts(Vec<(ProtocolSet, PortSet)>);

impl NamedPorts {
    /// Adds the ports of one protocol.
    pub fn add(&mut self, of: ProtocolSet, ports: PortSet) {
        self.0.push((of, ports));
    }

    /// The ports named for a protocol.
    pub fn of(&self, protocol: ProtocolSet) -> Option<&PortSet> {
        self.0.iter().find(|(p, _)| *p == protocol).map(|(_, ports)| ports)
    }

    /// The protocols that a port is named for.
    pub fn at(&self, port: u16) -> ProtocolSet {
        let named = self.0.iter().filter(|(_, ports)| ports.contains(port));
        named.fold(ProtocolSet::default(), |all, (p, _)| all.with(*p))
    }
}

/// What one capture set holds.
#[derive(Clone, Copy)]
pub struct SeenSet<'a> {
    /// A record for every flow.
    pub records: &'a [FlowRecord],
    /// Ordinary connections that no record is kept of.
    pub ordinary: &'a [Ordinary],
    /// The flows that were decoded.
    pub flows: &'a [FlowObservation],
}

/// What all captures hold.
#[derive(Clone)]
pub struct Seen<'a>(pub Vec<SeenSet<'a>>);

impl<'a> Seen<'a> {
    /// The decoded flows of all sets.
    pub fn flows(&self) -> impl Iterator<Item = &'a FlowObservation> {
        self.0.iter().flat_map(|s| s.flows)
    }

    /// The records of all sets.
    pub fn records(&self) -> impl Iterator<Item = &'a FlowRecord> + Clone {
        self.0.iter().flat_map(|s| s.records)
    }

    /// Ordinary connections of all sets that no record is kept of.
    pub fn ordinary(&self) -> impl Iterator<Item = &'a Ordinary> + Clone {
        self.0.iter().flat_map(|s| s.ordinary)
    }

    /// Connections that were accepted, first and last packet of all connections by listener, as far as `wanted` takes listener and number.
    pub fn traffic(&self, wanted: impl Fn(Endpoint, u64) -> bool) -> BTreeMap<Endpoint, Traffic> {
        let mut all: BTreeMap<Endpoint, Traffic> = BTreeMap::new();
        let kept = self.records().map(|r| (r.server(), u64::from(r.accepted()), r.first, r.last));
        let counted = self.ordinary().map(|o| (o.server, o.count, o.first, o.last));
        for (server, accepted, first, last) in kept.chain(counted).filter(|(server, n, ..)| wanted(*server, *n)) {
            let t = all.entry(server).or_insert(Traffic { accepted: 0, first, last });
            t.accepted += accepted;
            (t.first, t.last) = (t.first.min(first), t.last.max(last));
        }
        all
    }
}

/// What was seen of a listener's connections.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Connections that were accepted.
    pub accepted: u64,
    /// First packet.
    pub first: Timestamp,
    /// Last packet.
    pub last: Timestamp,
}

/// What the user said.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Ports named for protocols.
    pub ports: &'a NamedPorts,
    /// Ids of groups, as the user gave them.
    pub ids: &'a [String],
    /// Places of protocols.
    pub places: &'a dyn Fn(Protocol) -> ProtocolSet,
}

impl Asked<'_> {
    /// The place of a protocol.
    pub fn place(&self, protocol: Protocol) -> ProtocolSet {
        (self.places)(protocol)
    }
}

/// A line of a log in which a library tells of an error on a connection.
#[derive(Clone, Debug)]
pub struct LoggedError {
    /// The log and the line, in words.
    pub place: String,
    /// The line, escaped and cut.
    pub text: String,
}

/// What one protocol's connection says of a listener.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The protocol that the listener speaks.
    pub protocol: Protocol,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The listener whose connection says so.
    pub teacher: Endpoint,
    /// How it is named, in words.
    pub by: String,
    /// The packet that says so.
    pub packet: PacketRef,
    /// How many take part, where the teacher knows.
    pub members: Option<u64>,
    /// What the listener's own protocol makes of it.
    pub detail: Option<Arc<dyn Any + Send + Sync>>,
}

/// One connection, with what every vantage point saw of it.
#[derive(Clone, Debug)]
pub struct DistinctFlow<'a> {
    /// At the vantage point nearest to the listener.
    pub connection: Connection<'a>,
    /// At the others.
    pub elsewhere: Vec<&'a FlowObservation>,
}

/// Connections that were not kept: listener, source and a hash of what makes them alike; how many; when the last began.
pub type Folded = ((Endpoint, Address, u64), u64, Timestamp);

/// What a protocol judges by.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// All flows.
    pub seen: &'a Seen<'a>,
    /// What the user said.
    pub asked: &'a Asked<'a>,
    /// What all protocols say of listeners.
    pub taught: &'a [Lesson],
    /// Listeners of the protocols before it.
    pub others: &'a BTreeSet<Endpoint>,
    /// Its listeners, as far as they are known.
    pub listeners: &'a BTreeSet<Endpoint>,
    /// When a listener sent anything, on any connection, and whether one clock says so.
    pub activity: &'a dyn Fn(Endpoint) -> (Activity, bool),
    /// How the kernel of an address's host answers requests for memory, as far as the user said.
    pub policy: &'a dyn Fn(Address) -> Policy,
    /// Connections like this one that were counted, not kept: their kind, how many, and when the last one began.
    pub folded: &'a dyn Fn(&FlowObservation) -> Option<Folded>,
    /// The connections to other listeners.
    pub gather: &'a dyn Fn(&BTreeSet<Endpoint>) -> BTreeMap<Endpoint, Vec<DistinctFlow<'a>>>,
    /// Sources that connect to many places without a byte.
    pub connectors: &'a BTreeSet<Address>,
    /// The connections to them, in order of time.
    pub connections: &'a BTreeMap<Endpoint, Vec<DistinctFlow<'a>>>,
}

/// A statement and the packet that shows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Evidence {
    /// In words.
    pub text: String,
    /// The packet to look at.
    pub packet: Option<PacketRef>,
}

/// A listener, as a report lists it.
#[derive(Clone, Debug)]
pub struct ListenerView {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// What for.
    pub role: Option<Role>,
    /// The releases that it may be.
    pub version: Option<String>,
    /// What says that it is one.
    pub learned_from: Evidence,
    /// It is merely possible that it is one: nobody spoke to it, and no other stream named it.
    pub possible: bool,
    /// Connections, where any was seen.
    pub traffic: Option<Traffic>,
    /// When it was first seen to be gone.
    pub died_at: Option<Timestamp>,
    /// What to do about it.
    pub advice: Option<String>,
}

impl ListenerView {
    /// A listener of which nothing is known but what names it.
    pub fn new(endpoint: Endpoint, role: Option<Role>, learned_from: Evidence) -> Self {
        ListenerView {
            endpoint,
            role,
            version: None,
            learned_from,
            possible: false,
            traffic: None,
            died_at: None,
            advice: None,
        }
    }
}

/// Processes that belong together: a communicator.
#[derive(Clone, Debug)]
pub struct Group {
    /// What its connections begin with.
    pub magic: Option<String>,
    /// Where its members meet.
    pub roots: Vec<Endpoint>,
    /// How many members it has.
    pub size: Option<u64>,
    /// Those that came: rank, address, when.
    pub members: Vec<(u64, Endpoint, Timestamp)>,
    /// Whether all came.
    pub complete: bool,
}

/// What a protocol concludes.
#[derive(Default)]
pub struct Study {
    /// Its listeners, in order of address.
    pub listeners: Vec<ListenerView>,
    /// Listeners whose claims, silences and deaths are held against kills, in order of address; reports list them first.
    pub watched: Vec<Listener>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What its own speakers need to tell messages apart.
    pub own: Option<Arc<dyn Any + Send + Sync>>,
}

impl Debug for Study {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Study").field("listeners", &self.listeners).finish_non_exhaustive()
    }
}

/// For protocols whose clients speak first: what the listener's bytes say while the client has sent none. Few of them may
/// be an answer to bytes that the capture has late.
pub fn client_speaks_first(opening: &Opening<'_>) -> Option<Match> {
    let late = opening.client.is_empty() && !opening.server.is_empty();
    late.then_some(if opening.server.len() > SERVER_FIRST_BYTES { Match::No } else { Match::Undecided })
}
