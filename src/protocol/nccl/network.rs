//! Listeners and their roles, from all connections together: the order in which things were learnt never matters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::communicator::{Communicator, communicators};
use super::facts::{Facts, VersionEvidence};
use super::judge::{Judgement, judge};
use super::role::Role;
use super::unique_id::UniqueId;
use super::version::{Version, Versions};
use super::wire::{COMM_ID_MAGIC, RAS_PORT, SOCKET_MAGIC, SocketType};
use crate::net::{Address, Endpoint};
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;

/// One connection, at the vantage point nearest to its listener.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// Its record.
    pub record: &'a FlowRecord,
    /// What was decoded of it; `None` where nothing was, because no payload came or nobody asked.
    pub facts: Option<&'a Facts>,
    /// The last time at which that vantage point saw anything.
    pub until: Timestamp,
}

/// A unique id that another stream carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownId {
    /// The id.
    pub id: UniqueId,
    /// The packet in which it was first seen; `None` where the user gave it.
    pub packet: Option<PacketRef>,
}

/// What is known from elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Unique ids, from values of a TCPStore or from the user.
    pub ids: Vec<KnownId>,
    /// Ports that the user named (`--nccl-port`).
    pub ports: BTreeSet<u16>,
    /// Endpoints that did what a bootstrap root does at a stray, with what they did.
    pub suspects: BTreeMap<Endpoint, Evidence>,
}

/// How a listener came to be known, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LearnedFrom {
    /// A unique id in a store's value.
    UniqueId,
    /// A unique id that the user gave.
    GivenId,
    /// An address inside a check-in.
    CheckIn,
    /// An address inside a root's reply.
    Reply,
    /// An address inside a slot of a ring's all-gather.
    RingSlot,
    /// An address inside a RAS message.
    RasMessage,
    /// What its own clients sent.
    Speech,
    /// A known magic on a connection to it.
    Magic,
    /// The user named its port.
    Port,
    /// What it does: it took strays, answered none of them, and refused whoever came later. Nothing proves it.
    Conduct,
}

impl LearnedFrom {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            LearnedFrom::UniqueId => "a unique id in a store",
            LearnedFrom::GivenId => "a unique id given with --nccl-id",
            LearnedFrom::CheckIn => "an address in a check-in",
            LearnedFrom::Reply => "an address in a root's reply",
            LearnedFrom::RingSlot => "an address in the ring's all-gather",
            LearnedFrom::RasMessage => "an address in a RAS message",
            LearnedFrom::Speech => "what its clients sent",
            LearnedFrom::Magic => "a known magic",
            LearnedFrom::Port => "a port named by the user",
            LearnedFrom::Conduct => "what it did (possible bootstrap root; --nccl-port settles it)",
        }
    }
}

/// A statement and the packet that shows it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Evidence {
    /// In words.
    pub text: String,
    /// The packet to look at.
    pub packet: Option<PacketRef>,
}

/// A listener of NCCL.
#[derive(Clone, Debug)]
pub struct NcclListener {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// What for; `None` where nothing tells.
    pub role: Option<Role>,
    /// The magic that its connections carry.
    pub magic: Option<u64>,
    /// Whether connections begin with a handshake, where that is known.
    pub handshake: Option<bool>,
    /// Of a NET listener: the handshake's type that most of its connections carry, of as many the first.
    pub net: Option<SocketType>,
    /// The releases that it may be.
    pub versions: Versions,
    /// What RAS says, where that is later than all releases that were checked.
    pub later: Option<Version>,
    /// Why those.
    pub version_evidence: Vec<VersionEvidence>,
    /// The strongest of what names it.
    pub learned_from: LearnedFrom,
    /// All of what names it; the first few.
    pub evidence: Vec<Evidence>,
    /// The magic of the communicator that its process belongs to: of RAS listeners it is not their own.
    pub group: Option<u64>,
    /// The size of its communicator, where a check-in or another said so.
    pub nranks: Option<i32>,
    /// Whether it is the text service of RAS: no magic, and harmless to scan.
    pub text: bool,
    /// Whether a connection to it was seen at all.
    pub has_traffic: bool,
}

impl NcclListener {
    /// The type of handshake that it wants.
    pub fn kind(&self) -> SocketType {
        match self.role {
            Some(Role::Proxy) => SocketType::Proxy,
            Some(Role::Net) => self.net.unwrap_or(SocketType::NetSocket),
            Some(Role::Ras) => SocketType::RasNetwork,
            _ => SocketType::Bootstrap,
        }
    }

    /// Its role, as sentences name it.
    pub fn name(&self) -> &'static str {
        self.role.map_or("possible bootstrap root", Role::name)
    }
}

/// All that a set of connections says of NCCL.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Listeners, in order of address.
    pub listeners: BTreeMap<Endpoint, NcclListener>,
    /// Communicators, in order of their first check-in.
    pub communicators: Vec<Communicator>,
}

impl Network {
    /// Whether any listener is known by more than what it did.
    pub fn is_spoken(&self) -> bool {
        self.listeners.values().any(|l| l.learned_from != LearnedFrom::Conduct)
    }

    /// Judges every listener that was connected to. `flows`: all connections, as [`study`] was given them.
    pub fn judge(&self, flows: &[Flow<'_>]) -> BTreeMap<Endpoint, Judgement> {
        let mut own: BTreeMap<Endpoint, Vec<Flow<'_>>> = BTreeMap::new();
        for f in flows {
            if self.listeners.contains_key(&f.record.server()) {
                own.entry(f.record.server()).or_default().push(*f);
            }
        }
        let roots: BTreeMap<Endpoint, &Communicator> =
            self.communicators.iter().flat_map(|c| c.roots.iter().map(move |r| (*r, c))).collect();
        let hosts = self.hosts();
        let one = |(endpoint, flows): (Endpoint, Vec<Flow<'_>>)| {
            let listener = self.listeners.get(&endpoint)?;
            let hint = hosts.get(&endpoint.address).copied().flatten();
            Some((endpoint, judge(listener, roots.get(&endpoint).copied(), hint, &flows)))
        };
        own.into_iter().filter_map(one).collect()
    }

    /// The releases that all roots of a host speak, where they agree.
    fn hosts(&self) -> BTreeMap<Address, Option<Versions>> {
        let mut hosts: BTreeMap<Address, Option<Versions>> = BTreeMap::new();
        for l in self.listeners.values() {
            if l.role == Some(Role::Root) && !l.version_evidence.is_empty() {
                let all = hosts.entry(l.endpoint.address).or_insert(Some(Versions::ALL));
                *all = all.and_then(|v| v.and(l.versions));
            }
        }
        hosts
    }
}

/// Evidence that is kept of a listener.
const EVIDENCE: usize = 8;

/// One statement about an endpoint.
struct Claim {
    role: Role,
    from: LearnedFrom,
    magic: Option<u64>,
    /// The magic of the communicator that the process belongs to, where the claim shows it.
    group: Option<u64>,
    handshake: bool,
    evidence: Evidence,
}

type Claims = BTreeMap<Endpoint, Vec<Claim>>;

/// Studies all connections at once. Their order does not matter.
pub fn study(knowledge: &Knowledge, flows: &[Flow<'_>]) -> Network {
    let mut claims = Claims::new();
    for k in &knowledge.ids {
        let from = if k.packet.is_some() { LearnedFrom::UniqueId } else { LearnedFrom::GivenId };
        let evidence = Evidence { text: format!("{} names it as bootstrap root", from.text()), packet: k.packet };
        let magic = k.id.magic;
        claims.entry(k.id.root).or_default().push(Claim {
            role: Role::Root,
            from,
            magic,
            group: magic,
            handshake: magic.is_some(),
            evidence,
        });
    }
    let mut magics: BTreeSet<u64> = knowledge.ids.iter().filter_map(|k| k.id.magic).collect();
    magics.extend([SOCKET_MAGIC, COMM_ID_MAGIC]);
    for flow in flows {
        if let Some(f) = flow.facts {
            speech(flow.record, f, &mut claims, &mut magics);
        }
    }
    // Messages that have no shape of their own count where the magic, or the address, is known by now.
    for flow in flows {
        let Some(f) = flow.facts else { continue };
        let server = flow.record.server();
        let known = f.magic().is_some_and(|m| magics.contains(&m));
        let named = claims.get(&server).is_some_and(|c| c.iter().any(|c| c.from != LearnedFrom::Speech));
        if known || named || knowledge.ports.contains(&server.port) {
            weak_speech(flow.record, f, known, &mut claims);
        }
    }
    let mut by_server: BTreeMap<Endpoint, Vec<&Flow<'_>>> = BTreeMap::new();
    for flow in flows {
        let server = flow.record.server();
        let named = knowledge.ports.contains(&server.port) || knowledge.suspects.contains_key(&server);
        if named || claims.contains_key(&server) {
            by_server.entry(server).or_default().push(flow);
        }
    }
    let mut listeners = BTreeMap::new();
    let endpoints: BTreeSet<Endpoint> = claims.keys().chain(by_server.keys()).copied().collect();
    for endpoint in endpoints {
        let claims = claims.remove(&endpoint).unwrap_or_default();
        let flows = by_server.remove(&endpoint).unwrap_or_default();
        let mut listener = listener(endpoint, claims, &flows);
        if listener.role.is_none()
            && !knowledge.ports.contains(&endpoint.port)
            && let Some(conduct) = knowledge.suspects.get(&endpoint)
        {
            listener.learned_from = LearnedFrom::Conduct;
            listener.evidence.push(conduct.clone());
        }
        listeners.insert(endpoint, listener);
    }
    let mut communicators = communicators(flows, &mut listeners);
    pool(&mut listeners, &mut communicators);
    Network { listeners, communicators }
}

/// The processes of a communicator run one release: what one listener shows holds for all of them.
fn pool(listeners: &mut BTreeMap<Endpoint, NcclListener>, communicators: &mut [Communicator]) {
    let mut pools: BTreeMap<u64, Versions> = BTreeMap::new();
    for l in listeners.values() {
        if let Some(group) = l.group {
            let pool = pools.entry(group).or_default();
            // Contradictions stay with the listener that shows them.
            *pool = pool.and(l.versions).unwrap_or(*pool);
        }
    }
    let pooled = |group: Option<u64>, own: Versions| pools.get(&group?).and_then(|p| p.and(own));
    for l in listeners.values_mut() {
        l.versions = pooled(l.group, l.versions).unwrap_or(l.versions);
    }
    for c in communicators {
        c.versions = pooled(c.magic, c.versions).unwrap_or(c.versions);
    }
}

/// Messages with a shape of their own name their listener, and those whose addresses they carry.
fn speech(record: &FlowRecord, f: &Facts, claims: &mut Claims, magics: &mut BTreeSet<u64>) {
    let server = record.server();
    let magic = f.magic();
    let handshake = f.handshake.is_some();
    let mut strong = false;
    let group = magic.filter(|m| ![SOCKET_MAGIC, COMM_ID_MAGIC].contains(m));
    let mut claim = |endpoint, role, from, magic, packet, text: String| {
        let evidence = Evidence { text, packet: Some(packet) };
        claims.entry(endpoint).or_default().push(Claim { role, from, magic, group, handshake, evidence });
    };
    if let Some((c, place)) = &f.check_in
        && let Some(reply) = c.reply
    {
        strong = true;
        let (rank, client) = (c.rank, record.client());
        claim(
            server,
            Role::Root,
            LearnedFrom::Speech,
            magic,
            place.packet,
            format!("rank {rank} checks in from {client}"),
        );
        let text = |what| format!("rank {rank} names its {what} listener in its check-in");
        claim(reply, Role::Reply, LearnedFrom::CheckIn, magic, place.packet, text("reply"));
        if let Some(ring) = c.ring {
            claim(ring, Role::Ring, LearnedFrom::CheckIn, magic, place.packet, text("ring"));
        }
    }
    if let Some((Some(next), place)) = f.reply {
        strong = true;
        let text = "one frame with one address: the root's reply".to_string();
        claim(server, Role::Reply, LearnedFrom::Speech, magic, place.packet, text);
        let text = "the root's reply names it as the next rank's ring listener".to_string();
        claim(next, Role::Ring, LearnedFrom::Reply, magic, place.packet, text);
    }
    if let Some(place) = f.ring_at {
        strong = true;
        let text = "the first all-gather of the ring".to_string();
        claim(server, Role::Ring, LearnedFrom::Speech, magic, place.packet, text);
        let named = |what: &str| format!("the ring's all-gather names it as a rank's {what} listener");
        for slot in &f.slots {
            let all = [(slot.peer, Role::Peer), (slot.proxy, Role::Proxy), (slot.ras, Role::Ras)];
            for (address, role) in all {
                if let Some(a) = address {
                    let magic = if role == Role::Ras { Some(SOCKET_MAGIC) } else { magic };
                    claim(a, role, LearnedFrom::RingSlot, magic, place.packet, named(role.text()));
                }
            }
        }
        // All peer listeners, then all proxies: of an all-gather that was cut short the halves cannot be told.
        if f.ring_addresses.len() as u64 == f.ring_count && f.ring_count.is_multiple_of(2) {
            for (i, a) in f.ring_addresses.iter().enumerate() {
                let role = if i < f.ring_addresses.len() / 2 { Role::Peer } else { Role::Proxy };
                claim(*a, role, LearnedFrom::RingSlot, magic, place.packet, named(role.text()));
            }
        }
    }
    let first = f.client.map_or_else(PacketRef::default, |(first, _)| first.packet);
    let constant = f.handshake.filter(|(m, kind, _)| *m == SOCKET_MAGIC && kind.has_constant_magic());
    if let Some((_, kind, place)) = constant {
        let role = if kind == SocketType::RasNetwork { Role::Ras } else { Role::Net };
        let text = format!("the constant magic and type {}", kind.name());
        claim(server, role, LearnedFrom::Speech, Some(SOCKET_MAGIC), place.packet, text);
        for a in &f.ras_addresses {
            let text = "a RAS message names it".to_string();
            claim(*a, Role::Ras, LearnedFrom::RasMessage, Some(SOCKET_MAGIC), place.packet, text);
        }
    }
    if f.ras_server || server.port == RAS_PORT && f.ras_commands > 0 {
        claim(
            server,
            Role::Ras,
            LearnedFrom::Speech,
            None,
            first,
            if f.ras_server { "it answers as RAS answers text clients" } else { "a text client of RAS at its port" }
                .to_string(),
        );
    }
    if handshake && f.proxy_kinds & 2 != 0 && f.proxy[1] > 0 && f.fault_count == 0 {
        strong = true;
        claim(
            server,
            Role::Proxy,
            LearnedFrom::Speech,
            magic,
            first,
            "an Init of the proxy service, answered".to_string(),
        );
    }
    if strong && let Some(m) = magic {
        magics.insert(m);
    }
}

/// Messages that could be anything, on a connection whose magic or listener is known.
fn weak_speech(record: &FlowRecord, f: &Facts, known: bool, claims: &mut Claims) {
    let handshake = f.handshake.is_some();
    let magic = f.magic();
    let from = if known { LearnedFrom::Magic } else { LearnedFrom::Speech };
    let kind = f.handshake.map(|(_, kind, _)| kind);
    let told = match (&f.peer, kind) {
        (Some(p), _) => {
            Some((Role::Peer, p.place.packet, format!("rank {} connects as to a peer ({})", p.rank, p.purpose.text())))
        }
        (None, Some(SocketType::Proxy)) if known || f.proxy[0] > 0 => {
            f.handshake.map(|(_, _, place)| (Role::Proxy, place.packet, "type Proxy after the magic".to_string()))
        }
        _ => None,
    };
    if let Some((role, packet, text)) = told {
        let evidence = Evidence { text, packet: Some(packet) };
        claims.entry(record.server()).or_default().push(Claim { role, from, magic, group: None, handshake, evidence });
    }
}

fn listener(endpoint: Endpoint, mut claims: Vec<Claim>, flows: &[&Flow<'_>]) -> NcclListener {
    claims.sort_by(|a, b| (a.from, a.role, &a.evidence).cmp(&(b.from, b.role, &b.evidence)));
    let of = |role| claims.iter().any(|c| c.role == role);
    // Up to 2.22 a rank's ring listener is its peer listener too.
    let role = if of(Role::Ring) && of(Role::Peer) { Some(Role::Ring) } else { claims.first().map(|c| c.role) };
    let agreeing = |c: &&Claim| Some(c.role) == role || c.role == Role::Peer && role == Some(Role::Ring);
    let magic = claims.iter().filter(agreeing).find_map(|c| c.magic);
    let handshake = claims.iter().find(agreeing).map(|c| c.handshake);
    let mut versions = match handshake {
        _ if role == Some(Role::Ras) => Versions::new(22400, Versions::ALL.until.0),
        Some(true) => Versions::HANDSHAKE,
        Some(false) => Versions::BARE,
        _ => Versions::ALL,
    };
    let mut version_evidence: Vec<VersionEvidence> = flows
        .iter()
        .filter_map(|f| f.facts)
        .filter(|f| magic.is_none() || f.magic() == magic)
        .filter(|f| f.fault_count == 0)
        .flat_map(|f| f.versions.iter().copied())
        .collect();
    // What a later release says of itself is kept; its bytes are read as the newest known release's.
    let later = version_evidence.iter().map(|v| v.versions.since).filter(|v| *v > Version::NEWEST).max();
    for v in version_evidence.iter_mut().filter(|v| v.versions.since > Version::NEWEST) {
        v.versions = Versions::new(Version::NEWEST.0 / 100 * 100, Version::NEWEST.0);
    }
    version_evidence.sort_by_key(|v| (v.place.time, v.place.packet, v.by));
    version_evidence.retain(|v| match versions.and(v.versions) {
        Some(both) if both != versions => {
            versions = both;
            true
        }
        _ => false,
    });
    let mut evidence: Vec<Evidence> = Vec::new();
    for c in &claims {
        if evidence.len() < EVIDENCE && !evidence.contains(&c.evidence) {
            evidence.push(c.evidence.clone());
        }
    }
    NcclListener {
        endpoint,
        role,
        magic,
        handshake,
        net: net_kind(flows),
        versions,
        later,
        version_evidence,
        learned_from: claims.first().map_or(LearnedFrom::Port, |c| c.from),
        evidence,
        group: claims.iter().find_map(|c| c.group),
        nranks: None,
        text: flows
            .iter()
            .filter_map(|f| f.facts)
            .any(|f| f.ras_server || endpoint.port == RAS_PORT && f.ras_commands > 0),
        has_traffic: !flows.is_empty(),
    }
}

/// The type that most handshakes with the constant magic carry; of as many, the one that came first.
fn net_kind(flows: &[&Flow<'_>]) -> Option<SocketType> {
    let mut kinds: BTreeMap<SocketType, (usize, Reverse<Timestamp>)> = BTreeMap::new();
    for (magic, kind, place) in flows.iter().filter_map(|f| f.facts?.handshake) {
        if magic == SOCKET_MAGIC && matches!(kind, SocketType::NetSocket | SocketType::NetIb | SocketType::NetNd) {
            let (count, first) = kinds.entry(kind).or_insert((0, Reverse(place.time)));
            (*count, *first) = (*count + 1, (*first).max(Reverse(place.time)));
        }
    }
    kinds.into_iter().max_by_key(|(_, rank)| *rank).map(|(kind, _)| kind)
}
