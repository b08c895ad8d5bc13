//! NCCL's out-of-band protocol, as the rest of the house sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Communicator, Conclusion, Decoding, Effect, Facts, FirstBytes, Flow, Framing, Knowledge, KnownId, LearnedFrom,
    Network, RAS_PORT, RULES, SOCKET_MAGIC, UniqueId, first_bytes, magic_text, study, suspects, unique_id_of_hex,
};
use crate::finding::{self, Finding, Rule, finding_id};
use crate::net::Endpoint;
use crate::protocol::checked::later;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{
    Asked, Decoded, Decoder, Dissector, Evidence, Given, Group, Lesson, ListenerView, Match, Opening, Seen, Study,
    client_speaks_first, own_candidates,
};
use crate::protocol::stray;
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::{self, Outcome, Protocol};

/// NCCL's bootstrap, proxy, NET/Socket and RAS.
pub struct Nccl;

impl Decoded for Facts {
    fn count(&mut self, bytes: [u64; 2]) {
        self.count_bulk(bytes);
    }
}

impl FlowObservation {
    /// What a decoder of NCCL makes of it; `None` when none was tried.
    pub fn nccl(&self) -> Option<&Facts> {
        self.decoded()
    }
}

impl Decoder for Decoding {
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        Decoding::chunk(self, direction, chunk);
    }

    fn gap(&mut self, direction: Direction, offset: u64, length: u64) {
        Decoding::gap(self, direction, offset, length);
    }

    fn is_done(&self) -> bool {
        self.is_bulk()
    }

    fn end(self: Box<Self>) -> Arc<dyn Decoded> {
        Arc::new(Decoding::end(*self))
    }
}

impl Dissector for Nccl {
    fn protocol(&self) -> Protocol {
        Protocol::Nccl
    }

    fn recognise(&self, opening: &Opening<'_>) -> Match {
        if opening.port == RAS_PORT {
            return Match::Yes;
        }
        client_speaks_first(opening).unwrap_or_else(|| match first_bytes(opening.client) {
            FirstBytes::No => Match::No,
            FirstBytes::NotEnoughBytes => Match::Undecided,
            FirstBytes::Nccl { .. } => Match::Yes,
        })
    }

    fn decoder(&self, midstream: bool) -> Box<dyn Decoder> {
        Box::new(Decoding::new(Framing::Auto, midstream))
    }

    /// The magic of a communicator: it is random, so connections that begin with it are that communicator's.
    fn group_token(&self, client: &[u8]) -> Option<u64> {
        let magic = u64::from_le_bytes(*client.first_chunk()?);
        let bare = magic as u32 <= 0xffff || magic == SOCKET_MAGIC;
        (!bare && matches!(first_bytes(client), FirstBytes::Nccl { .. })).then_some(magic)
    }

    /// Besides the usual ones, endpoints that did what a bootstrap root does at its first stray.
    fn candidates(&self, seen: &Seen<'_>, asked: &Asked<'_>, taught: &[Lesson]) -> BTreeSet<Endpoint> {
        let mut all = own_candidates(Protocol::Nccl, seen, asked, taught);
        let others = taught.iter().filter(|l| l.protocol != Protocol::Nccl).map(|l| l.endpoint).collect();
        all.extend(by_hand(asked).map(|id| id.root));
        all.extend(conducts(seen, asked, &others).into_keys());
        all
    }

    fn rules(&self) -> &'static [Rule] {
        RULES
    }

    fn listeners(&self, given: &Given<'_>) -> BTreeSet<Endpoint> {
        study(&knowledge(given), &flows(given)).listeners.into_keys().collect()
    }

    fn study(&self, given: &Given<'_>) -> Study {
        if given.connections.is_empty() {
            return Study::default();
        }
        let flows = flows(given);
        let mut network = study(&knowledge(given), &flows);
        network.listeners.retain(|e, _| given.listeners.contains(e));
        for l in network.listeners.values_mut().filter(|l| l.nranks.is_none()) {
            let lesson = given.taught.iter().find(|t| t.protocol == Protocol::Nccl && t.endpoint == l.endpoint);
            l.nranks = lesson.and_then(|t| t.members).and_then(|n| i32::try_from(n).ok());
        }
        let judgements = network.judge(&flows);
        let mut findings: Vec<Finding> = judgements.values().flat_map(|j| &j.conclusions).map(finding).collect();
        for f in &mut findings {
            f.sightings = sightings(f, given);
        }
        Study {
            listeners: listeners(given, &network, &findings),
            groups: network.communicators.iter().map(group).collect(),
            findings,
            watched: Vec::new(),
            own: Some(Arc::new(network)),
        }
    }
}

/// Ids that the user gave.
fn by_hand(asked: &Asked<'_>) -> impl Iterator<Item = UniqueId> {
    asked.ids.iter().filter_map(|text| unique_id_of_hex(text))
}

/// The ids that stores hold or the user gave, and the ports that the user named.
fn knowledge(given: &Given<'_>) -> Knowledge {
    let id = |t: &Lesson| {
        let id = t.detail.as_ref()?.downcast_ref::<UniqueId>()?;
        Some(KnownId { id: *id, packet: Some(t.packet) })
    };
    let taught = given.taught.iter().filter(|t| t.protocol == Protocol::Nccl);
    let ports = given.asked.ports.of(given.asked.place(Protocol::Nccl));
    Knowledge {
        ids: taught.filter_map(id).chain(by_hand(given.asked).map(|id| KnownId { id, packet: None })).collect(),
        ports: ports.into_iter().flat_map(|p| p.iter()).collect(),
        suspects: conducts(given.seen, given.asked, given.others),
    }
}

/// Endpoints that did what a bootstrap root does at its first stray, and are not known to be anything else.
fn conducts(seen: &Seen<'_>, asked: &Asked<'_>, others: &BTreeSet<Endpoint>) -> BTreeMap<Endpoint, super::Evidence> {
    let stores = asked.ports.of(asked.place(Protocol::Tcpstore));
    suspects((seen.records(), seen.ordinary()), |e| others.contains(&e) || stores.is_some_and(|p| p.contains(e.port)))
}

fn flows<'a>(given: &Given<'a>) -> Vec<Flow<'a>> {
    let gathered = given.connections.values().flatten();
    gathered
        .map(|g| Flow {
            record: g.connection.record,
            facts: g.connection.observation.and_then(FlowObservation::nccl),
            until: g.connection.until,
        })
        .collect()
}

/// The packets that show the same at other vantage points.
fn sightings(f: &Finding, given: &Given<'_>) -> Vec<PacketRef> {
    let flows = given.connections.get(&f.target).into_iter().flatten();
    flows
        .filter(|g| g.connection.record.client() == f.source)
        .flat_map(|g| &g.elsewhere)
        .filter_map(|o| match f.stream_offset {
            Some(offset) => o.packet_at(Direction::ToServer, offset).map(|k| k.packet),
            None if f.rule == "nccl-rank-refused" => Some(o.record.server_close_packet()),
            None => o.record.client_packet(),
        })
        .collect()
}

/// The listeners of a network. One that was named and that nobody was seen to connect to is among them.
fn listeners(given: &Given<'_>, network: &Network, findings: &[Finding]) -> Vec<ListenerView> {
    let traffic = given.seen.traffic(|e, _| network.listeners.contains_key(&e));
    let mut gone: BTreeMap<Endpoint, Timestamp> = BTreeMap::new();
    let mut ends: Vec<&Finding> = findings.iter().filter(|f| f.rule == "nccl-root-died").collect();
    ends.sort_by_key(|f| (f.time, f.target, f.source));
    for f in ends {
        gone.entry(f.target).or_insert(f.failed.unwrap_or(f.time));
    }
    let view = |l: &super::NcclListener| {
        let possible = l.learned_from == LearnedFrom::Conduct;
        let packet = l.evidence.first().and_then(|e| e.packet);
        let by = Evidence { text: l.learned_from.text().to_string(), packet };
        ListenerView {
            version: Some(
                l.later.and_then(|v| later("nccl", &v.to_string())).unwrap_or_else(|| format!("NCCL {}", l.versions)),
            ),
            traffic: traffic.get(&l.endpoint).copied(),
            died_at: gone.get(&l.endpoint).copied(),
            possible,
            advice: possible.then(|| {
                format!("possible bootstrap root of NCCL: judged as one with --nccl-port {}", l.endpoint.port)
            }),
            ..ListenerView::new(l.endpoint, l.role.map(role), by)
        }
    };
    network.listeners.values().map(view).collect()
}

fn role(role: super::Role) -> vocabulary::Role {
    match role {
        super::Role::Root => vocabulary::Role::BootstrapRoot,
        super::Role::Reply => vocabulary::Role::Reply,
        super::Role::Ring => vocabulary::Role::Ring,
        super::Role::Peer => vocabulary::Role::Peer,
        super::Role::Proxy => vocabulary::Role::Proxy,
        super::Role::Net => vocabulary::Role::Net,
        super::Role::Ras => vocabulary::Role::Ras,
    }
}

fn group(c: &Communicator) -> Group {
    let member = |r: &super::Rank| Some((u64::try_from(r.rank).ok()?, r.ring.or(r.reply).unwrap_or(r.client), r.time));
    Group {
        magic: c.magic.map(magic_text),
        roots: c.roots.clone(),
        size: u64::try_from(c.nranks).ok(),
        members: c.ranks.iter().filter_map(member).collect(),
        complete: c.is_complete(),
    }
}

fn finding(c: &Conclusion) -> Finding {
    let outcome = c.effect.map(|e| match e {
        Effect::Serves => Outcome::Replies,
        Effect::Closes => Outcome::Closes,
        Effect::Waits => Outcome::Waits,
        Effect::Allocates => Outcome::Allocates,
        Effect::Spins => Outcome::Spins,
        Effect::Dies | Effect::Killed => Outcome::Dies,
    });
    // Whose bytes these are, if not NCCL's: the tool that sends them is the source's, whatever it reached.
    let named = stray::identify(&c.sent, c.sent_bytes);
    let nameless = matches!(named.protocol, "unknown" | "none" | "constant bytes" | "text");
    let known = !nameless || named.nmap_probe.is_some() || named.tool.is_some();
    let mut evidence = c.evidence.clone();
    if known {
        let probe = named.nmap_probe.map(|p| format!("nmap's {p} probe"));
        let protocol = Some(named.protocol.to_string()).filter(|_| !nameless);
        let names: Vec<String> = [protocol, probe].into_iter().flatten().collect();
        let what = if names.is_empty() { named.tool.unwrap_or_default().to_string() } else { names.join(", ") };
        evidence.insert(0, format!("what it sent: {what}"));
    }
    Finding {
        id: finding_id(c.rule, c.source, c.target, c.sequence, &c.shown.bytes),
        rule: c.rule,
        severity: c.severity,
        claims: false,
        time: c.shown.time,
        failed: c.failed,
        packet: Some(c.shown.packet),
        packets: std::iter::once(c.shown.packet).chain(c.also.iter().copied()).collect(),
        sightings: Vec::new(),
        source: c.source,
        target: c.target,
        protocol: Some("nccl"),
        dialect: None,
        dialect_candidates: Vec::new(),
        query: None,
        stream_offset: (!c.shown.bytes.is_empty()).then_some(c.shown.offset),
        bytes: c.shown.bytes.iter().copied().take(finding::SHOWN_BYTES).collect(),
        alternate_bytes: None,
        declared: None,
        delivered: None,
        acknowledged: None,
        one_direction: false,
        occurrences: c.occurrences,
        stray: known.then(|| finding::Stray {
            protocol: named.protocol.to_string(),
            tool: named.tool,
            probe: named.nmap_probe,
        }),
        effects: Vec::new(),
        effect: None,
        listener_outcome: outcome,
        explanation: c.explanation.clone(),
        evidence,
    }
}
