//! One connection to a store, judged: the store rules.

use crate::finding::{Declared, Effect, Finding, KILLING_BYTES, SHOWN_BYTES, Stray, WARNING_BYTES, finding_id};
use crate::protocol::checked;
use crate::protocol::listener::{Candidate, Connection, KnownBy, Listener, Observed, observed};
use crate::protocol::observation::FlowObservation;
use crate::protocol::stray::{self, identify};
use crate::protocol::tcpstore::StoreRule;
use crate::protocol::tcpstore::server::{self, Field, Outcome as ModelOutcome, Policy, Verdict};
use crate::protocol::tcpstore::{self, Dialect, Facts, FieldPart, Operation, ValidateFault};
use crate::stream::{Direction, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::{Acknowledged, Outcome, Severity};

/// A close within this time of a claim is the kernel's refusal.
const REFUSAL_SECONDS: f64 = 1.0;
/// A kernel that refuses does so sooner than this; no process was seen to be killed for a claim so soon.
const REFUSED_AT_ONCE: f64 = 0.03;

/// The findings of one connection to a listener that is, or may be, a store.
pub fn judge(listener: &Listener, connection: &Connection<'_>) -> Vec<Finding> {
    let Some(o) = connection.observation else { return Vec::new() };
    let mut findings: Vec<Finding> =
        o.overlaps.iter().take(1).map(|overlap| overlap_conflict(listener, o, overlap)).collect();
    if o.record.bytes[0] == 0 || o.kept[0].is_empty() {
        findings.extend(spoofed(listener, o));
        return findings;
    }
    // The listener's dialects; where they contradict each other, every one that reads the connection to its end.
    let dialects = listener.dialects();
    let readings: Vec<&Facts> = dialects.iter().filter_map(|d| o.facts(*d)).collect();
    findings.extend(super::reply::judge(listener, o, &readings));
    if readings.iter().any(|f| f.only_greets()) {
        return findings;
    }
    if readings.iter().any(|f| f.is_clean() && f.declared.is_empty()) {
        findings.extend(readings.iter().find(|f| f.is_clean()).and_then(|f| cut_off(listener, o, f)));
        return findings;
    }
    if let Some(f) = readings.iter().find(|f| f.plausible > 0 && f.implausible == 0) {
        findings.extend(of_client(listener, connection, o, f));
    } else if !readings.is_empty() {
        let f = of_stray(listener, connection, o);
        // Of a message whose bytes the capture lost or cut, only a claim that is there can be told.
        let lost = o.gaps > 0 || o.counters[0].cut_bytes > 0 || o.counters[0].tail_missed > 0;
        let guessed = [StoreRule::UnknownQueryType, StoreRule::StoreStalled].iter().any(|r| r.text().id == f.rule);
        findings.extend((!lost || !guessed).then_some(f));
    }
    findings
}

/// Bytes that reached the capture outside a connection that both sides spoke, and that the kernel did not deliver.
fn spoofed(listener: &Listener, o: &FlowObservation) -> Option<Finding> {
    let first = o.refused.iter().find(|r| r.direction == Direction::ToServer && !r.bytes.is_empty())?;
    if o.record.accepted() {
        return None;
    }
    let mut f = base(listener, o, StoreRule::SpoofedSegment, 0, first.packet, first.time);
    f.bytes = first.bytes.iter().copied().take(SHOWN_BYTES).collect();
    f.explanation = format!(
        "A segment with {} bytes belongs to no connection that both sides spoke: no handshake was finished and nobody \
         acknowledged it, so the host's kernel delivered nothing. Whoever sent it may have forged the source address {}.",
        o.record.bytes[0],
        o.client().address
    );
    f.delivered = Some(0);
    f.acknowledged = Some(Acknowledged::Nothing);
    Some(f)
}

/// So many numbers after the last known query type may be those of a release to come.
const NEW_QUERY_TYPES: usize = 8;

/// A client that made sense for a while.
fn of_client(listener: &Listener, connection: &Connection<'_>, o: &FlowObservation, facts: &Facts) -> Option<Finding> {
    if facts.unfinished.is_some() && facts.declared.iter().any(|d| declares(d) >= WARNING_BYTES) {
        return Some(of_stray(listener, connection, o));
    }
    let (at, what) = match (facts.unknown, facts.unexpected_at) {
        (Some((opcode, place)), _) => (place, format!("byte {opcode:#04x} where a query type should be")),
        (None, Some(place)) => (place, "bytes from the server that no request asked for".to_string()),
        (None, None) => return cut_off(listener, o, facts),
    };
    if o.gaps > 0 || o.record.isn(Direction::ToServer).is_none() {
        // The capture lost bytes: the contradiction is its own.
        return None;
    }
    let mut f = base(listener, o, StoreRule::DecodeContradiction, at.offset, at.packet, at.time);
    let next = facts.unknown.map(|(byte, _)| usize::from(byte)).filter(|_| facts.dialect == Dialect::D);
    let known = Dialect::D.operations().len();
    f.explanation = format!(
        "After {} well-formed requests of dialect {} the connection holds {what}.",
        facts.requests, facts.dialect
    );
    // Query types were always added at the end of dialect D.
    if next.is_some_and(|byte| (known..known + NEW_QUERY_TYPES).contains(&byte))
        && let Some(newest) = checked::newest("pytorch")
    {
        f.explanation.push_str(&format!(" It may be a query type of a release {}.", newest.later()));
    }
    Some(f)
}

/// A clean client whose stream ended inside a message.
fn cut_off(listener: &Listener, o: &FlowObservation, facts: &Facts) -> Option<Finding> {
    let u = facts.unfinished.filter(|_| o.record.client_closed().is_some() && o.gaps == 0)?;
    let k = o.packet_at(Direction::ToServer, u.message_offset).or(o.kept[0].last())?;
    let mut f = base(listener, o, StoreRule::MessageCutOff, u.message_offset, k.packet, k.time);
    f.query = u.query.map(|q| q.name());
    f.declared = Some(Declared { bytes: Some(u.declared), count: None, field: u.field.name() });
    f.delivered = Some(u.delivered);
    f.explanation = format!(
        "The client's stream ended inside {}: of {} bytes declared for its {}, {} arrived.",
        f.query.unwrap_or("a request"),
        u.declared,
        u.field.name(),
        u.delivered
    );
    Some(f)
}

/// Bytes that no client of this store sends.
fn of_stray(listener: &Listener, connection: &Connection<'_>, o: &FlowObservation) -> Finding {
    let head = o.head(Direction::ToServer, 512);
    // What was delivered, not what was sent: a segment may stand in the capture twice.
    let kept = o.kept[0].last().map_or(0, |k| k.offset + k.bytes.len() as u64);
    let named = identify(&head, if o.kept_whole[0] { kept } else { o.record.bytes[0] });
    // Up to the first byte that the capture lacks: a model that reads on behind it takes data for lengths.
    let mut end = o.kept[0].first().map_or(0, |k| k.offset);
    let whole = o.kept[0].iter().take_while(|k| {
        let joins = k.offset <= end;
        end = end.max(k.offset + k.bytes.len() as u64);
        joins
    });
    let segments: Vec<&[u8]> = whole.map(|k| k.bytes.as_slice()).collect();
    let seen = survived(listener, connection);
    // What was seen is worth more than what was said: silence after a claim means that it was granted.
    let policy = if matches!(seen, Observed::Silent(_)) { Policy::Always } else { listener.policy };
    let model = |k: Candidate, policy: Policy| {
        let server = k.server().on(policy);
        let v = server::verdict(&server, &segments);
        match restated(o, k.dialect, v.outcome) {
            Some(message) => server::verdict(&server, &[message.as_slice()]),
            None => v,
        }
    };
    let effects: Vec<(Candidate, Effect, Verdict)> = judged(listener)
        .into_iter()
        .map(|k| {
            let v = model(k, policy);
            (k, effect(k, &v), v)
        })
        .collect();
    let settled = settled(&effects);
    let chosen = settled.or_else(|| commonest(&effects));
    // What would be allocated if the kernel granted everything: a claim stays one when it is refused.
    let would = |v: &Verdict| (v.outcome == ModelOutcome::Allocates).then_some(v.allocates_bytes.unwrap_or(0));
    let claim = effects.iter().filter_map(|(k, _, v)| would(v).or_else(|| would(&model(*k, Policy::Always)))).max();
    let told = claim.is_some() && policy.known() && !effects.iter().any(|(_, e, _)| claims(e));
    let mismatch = is_store_client(&named) && (claim.is_none() || reads_as_client(o));
    let refused = claim.is_some_and(|c| c >= WARNING_BYTES)
        && (told || matches!(seen, Observed::Closed(after) if after <= REFUSAL_SECONDS));
    let (rule, severity) = match (claim, refused) {
        (Some(_), true) if mismatch => (StoreRule::VersionMismatch, Severity::Warning),
        (Some(_), true) => (StoreRule::StoreClaimRefused, Severity::Warning),
        (Some(c), false) if c >= KILLING_BYTES && mismatch => (StoreRule::VersionMismatch, Severity::Critical),
        (Some(c), false) if c >= KILLING_BYTES => (StoreRule::StoreClaim, Severity::Critical),
        (Some(c), false) if c >= WARNING_BYTES => (StoreRule::StoreLesserClaim, Severity::Warning),
        _ if chosen.is_some_and(|(_, e, _)| e.blocks_server)
            && !matches!(seen, Observed::Closed(_) | Observed::Replied) =>
        {
            (StoreRule::StoreStalled, Severity::Warning)
        }
        _ if mismatch => (StoreRule::VersionMismatch, Severity::Notice),
        _ => (harmless(listener, o, &named), Severity::Notice),
    };
    let place = chosen
        .and_then(|(k, _, _)| o.facts(k.dialect))
        .and_then(|f| f.declared.last().filter(|_| claim.is_some()))
        .map(|d| (d.message_offset, d.place.packet, d.place.time));
    let first = &o.kept[0][0];
    let (offset, packet, time) = place.unwrap_or((0, first.packet, first.time));
    let mut f = base(listener, o, rule, offset, packet, time);
    f.claims = matches!(rule, StoreRule::StoreClaim | StoreRule::StoreLesserClaim | StoreRule::VersionMismatch);
    if f.claims {
        f.evidence.push(acknowledged(o));
    }
    // Only the client says that a store is there: no more than a warning, until a log or a port says so too.
    let hearsay = listener.known_by == KnownBy::Client && listener.named_by.is_none();
    f.severity = if hearsay { severity.min(Severity::Warning) } else { severity };
    if let Some((k, e, _)) = chosen {
        f.query = e.query;
        f.declared = e.declared.clone();
        f.delivered = o.facts(k.dialect).and_then(|f| f.unfinished).map(|u| u.delivered);
    }
    f.stray = Some(Stray { protocol: named.protocol.to_string(), tool: named.tool, probe: named.nmap_probe });
    f.explanation = explain(&named, chosen.map(|(_, e, _)| e), &effects, listener.dialect(), seen, refused);
    f.effect = settled.map(|(_, e, _)| e.clone());
    f.effects = effects.into_iter().map(|(_, e, _)| e).collect();
    f.evidence.extend(after(seen, refused));
    f
}

/// What the listener did with a connection, where its own end is not taken for an answer: a process that is killed while it
/// fills what it was told to closes everything too, and soon in a small container.
fn survived(listener: &Listener, connection: &Connection<'_>) -> Observed {
    let seen = observed(connection);
    let (Observed::Closed(after), Some(closed)) = (seen, connection.record.server_closed()) else { return seen };
    match listener.lived_on(closed) {
        Some(true) => seen,
        Some(false) => Observed::Silent(after),
        None if after <= REFUSED_AT_ONCE => seen,
        None => Observed::Unclear,
    }
}

/// The claim that a reading ends in, where the model does not see it: a message of the same query and claim, with the
/// least that leads to it. The model has the first bytes of a connection only, and a store without keys: any 4 KiB of
/// honest requests, or a GET of a key that the real store had, would hide the claim behind them.
fn restated(o: &FlowObservation, dialect: Dialect, modelled: ModelOutcome) -> Option<Vec<u8>> {
    let facts = o.facts(dialect)?;
    let d = facts.declared.last().filter(|d| facts.unfinished.is_some_and(|u| u.message_offset == d.message_offset))?;
    let kept = o.kept[0].last().map_or(0, |k| k.offset + k.bytes.len() as u64);
    let beyond = !o.kept_whole[0] && d.place.offset.saturating_add(8) > kept;
    // The server answered all before it: whatever the model made of these, the real one read on.
    let reached = facts.requests > 0 && facts.unanswered == 0 && facts.answers > 0;
    if !beyond && (modelled == ModelOutcome::Allocates || !reached) {
        return None;
    }
    let mut message = Vec::new();
    if dialect.validates() {
        message.push(dialect.byte(Operation::Validate)?);
        message.extend(server::VALIDATE_MAGIC.to_le_bytes());
    }
    message.push(d.opcode);
    let counted = matches!(d.query, Operation::Check | Operation::Wait | Operation::MultiGet | Operation::MultiSet);
    if counted && d.field != FieldPart::KeyCount {
        message.extend(1u64.to_le_bytes());
    }
    if d.field == FieldPart::ValueLength {
        message.extend(1u64.to_le_bytes());
        message.push(b'/');
    }
    message.extend(d.value.to_le_bytes());
    Some(message)
}

/// Whether the whole connection reads as a store client's in some dialect. A client of another release does; a stray that
/// begins with an honest request and ends in a claim does not; nor does one whose claim is an unfinished request in another.
fn reads_as_client(o: &FlowObservation) -> bool {
    let small = |f: &Facts| f.declared.iter().all(|d| declares(d) < WARNING_BYTES);
    o.store().iter().any(|f| f.begins_well() && f.unknown.is_none() && f.unfinished.is_none() && small(f))
}

/// The most that a declared length or count can make a server allocate, in bytes.
fn declares(d: &tcpstore::Declared) -> u64 {
    if d.field == FieldPart::KeyCount { d.value.saturating_mul(32) } else { d.value }
}

/// Whether the bytes are a PyTorch store client's, of whatever release.
fn is_store_client(named: &stray::Stray) -> bool {
    named.protocol == "TCPStore"
}

/// The servers that a finding speaks of: those that fit, and all of them where nothing fits.
fn judged(listener: &Listener) -> Vec<Candidate> {
    if listener.candidates.is_empty() { Candidate::all() } else { listener.candidates.clone() }
}

/// Of readings that do harm (of all, where none does) the one that most candidates share; of several such the newest.
fn commonest(effects: &[(Candidate, Effect, Verdict)]) -> Option<&(Candidate, Effect, Verdict)> {
    let harm = effects.iter().map(|(_, e, _)| weight(e).0).max()?;
    let shared = |e: &Effect| {
        effects.iter().filter(|(_, x, _)| (x.query, x.allocates_bytes) == (e.query, e.allocates_bytes)).count()
    };
    effects.iter().filter(|(_, e, _)| weight(e).0 == harm).max_by_key(|(k, e, _)| (shared(e), *k))
}

/// Whether the effect is a claim.
fn claims(e: &Effect) -> bool {
    e.outcome == Outcome::Allocates
}

fn weight(e: &Effect) -> (u8, u64) {
    let outcome = match e.outcome {
        Outcome::Dies => 6,
        Outcome::Allocates => 5,
        Outcome::Spins => 4,
        Outcome::Waits if e.blocks_server => 3,
        Outcome::Unknown => 2,
        Outcome::Waits => 1,
        Outcome::Closes | Outcome::Replies => 0,
    };
    (outcome, e.allocates_bytes.unwrap_or(0))
}

/// The effect that holds: all candidates agree on what is done, with what, and on how much.
fn settled(effects: &[(Candidate, Effect, Verdict)]) -> Option<&(Candidate, Effect, Verdict)> {
    let first = effects.first()?;
    let same = |e: &Effect| {
        (e.outcome, e.allocates_bytes, e.query, e.blocks_server)
            == (first.1.outcome, first.1.allocates_bytes, first.1.query, first.1.blocks_server)
    };
    effects.iter().all(|(_, e, _)| same(e)).then_some(first)
}

fn effect(k: Candidate, v: &Verdict) -> Effect {
    let outcome = match v.outcome {
        ModelOutcome::Replies => Outcome::Replies,
        ModelOutcome::Waits => Outcome::Waits,
        ModelOutcome::Closes => Outcome::Closes,
        ModelOutcome::Allocates => Outcome::Allocates,
        ModelOutcome::Dies => Outcome::Dies,
        ModelOutcome::Spins => Outcome::Spins,
        ModelOutcome::Unknown => Outcome::Unknown,
    };
    let is_count = matches!(v.field, Some(Field::Count));
    Effect {
        dialect: k.dialect.label(),
        backend: k.backend.name(),
        outcome,
        allocates_bytes: v.allocates_bytes,
        resident: v.allocates_bytes.map(|_| v.resident),
        blocks_server: v.blocks_server,
        condition: v.condition.clone(),
        query: v.query.map(|q| q.name()),
        declared: v.declared.zip(v.field).map(|(n, field)| Declared {
            bytes: (!is_count).then_some(n),
            count: is_count.then_some(n),
            field: field.name(),
        }),
        explanation: v.explanation.clone(),
    }
}

/// How much of what the client sent its receiver acknowledged, in words.
fn acknowledged(o: &FlowObservation) -> String {
    let sent = o.counters[0].span();
    match o.acknowledged[0] {
        Some(n) if n >= sent => {
            format!("the kernel of the listener's host acknowledged all {sent} bytes of this connection")
        }
        Some(n) => format!("the kernel of the listener's host acknowledged {n} of the {sent} bytes of this connection"),
        None => "the capture holds no acknowledgement of these bytes".to_string(),
    }
}

/// The rule for bytes that do no harm here.
fn harmless(listener: &Listener, o: &FlowObservation, named: &stray::Stray) -> StoreRule {
    if !matches!(named.protocol, "unknown" | "constant bytes" | "text") {
        return StoreRule::ForeignProtocol;
    }
    if listener.validates() == Some(true) {
        let fault = o.facts(Dialect::D).and_then(|f| f.validate);
        return match fault {
            Some((ValidateFault::WrongMagic { .. }, _)) => StoreRule::WrongMagic,
            _ => StoreRule::MissingMagic,
        };
    }
    StoreRule::UnknownQueryType
}

/// The releases that read the bytes as `effect` says; where the listener's dialect is not known, all that do.
fn readers(effect: &Effect, effects: &[(Candidate, Effect, Verdict)], dialect: Option<Dialect>) -> String {
    if let Some(d) = dialect {
        return d.releases().to_string();
    }
    let same =
        |e: &Effect| (e.query, e.allocates_bytes, e.outcome) == (effect.query, effect.allocates_bytes, effect.outcome);
    let mut releases: Vec<&str> =
        effects.iter().filter(|(_, e, _)| same(e)).map(|(k, _, _)| k.dialect.releases()).collect();
    releases.dedup();
    let short: Vec<&str> = releases.iter().map(|r| r.strip_prefix("PyTorch ").unwrap_or(r)).collect();
    format!("PyTorch {}", short.join(" or "))
}

fn explain(
    named: &stray::Stray,
    effect: Option<&Effect>,
    effects: &[(Candidate, Effect, Verdict)],
    dialect: Option<Dialect>,
    seen: Observed,
    refused: bool,
) -> String {
    let what = match (named.nmap_probe, named.protocol) {
        (Some(probe), protocol) => format!("{protocol} (nmap's {probe} probe)"),
        (None, "unknown" | "constant bytes" | "text") => "bytes of no known protocol".to_string(),
        (None, protocol) => protocol.to_string(),
    };
    let detail = named.detail.as_deref().map_or(String::new(), |d| format!(" [{d}]"));
    let reads = match effect {
        Some(e) => format!(" {} reads it so: {}", readers(e, effects, dialect), e.explanation),
        None => String::new(),
    };
    let after = match (refused, seen) {
        (true, Observed::Closed(s)) => {
            format!(" The connection was closed {:.1} ms later: the kernel refused the allocation.", s * 1e3)
        }
        (true, _) => " By what was said of this host, its kernel refuses the allocation.".to_string(),
        _ => String::new(),
    };
    format!("The client sent {what}{detail} to a store.{reads}{after}")
}

fn after(seen: Observed, refused: bool) -> Option<String> {
    Some(match seen {
        Observed::Closed(s) if refused => format!("closed {:.1} ms after the claim: refused", s * 1e3),
        Observed::Closed(s) => format!("the server closed the connection {:.1} ms later", s * 1e3),
        Observed::Silent(s) => format!("the server did not answer on this connection for {s:.1} s"),
        Observed::Replied => "the server replied".to_string(),
        Observed::Unclear => return None,
    })
}

fn overlap_conflict(
    listener: &Listener,
    o: &FlowObservation,
    overlap: &crate::protocol::observation::Overlap,
) -> Finding {
    let mut f = base(listener, o, StoreRule::OverlapConflict, overlap.offset, overlap.packets[1], overlap.time);
    f.packets = overlap.packets.to_vec();
    f.bytes = overlap.first[..overlap.first.len().min(SHOWN_BYTES)].to_vec();
    f.alternate_bytes = Some(overlap.second[..overlap.second.len().min(SHOWN_BYTES)].to_vec());
    f.occurrences = o.overlap_count;
    if overlap.direction == Direction::ToClient {
        f.source = o.server();
        f.target = o.client();
    }
    f.explanation = format!(
        "Two packets carry different bytes for offset {} of the stream; the first copy was decoded.",
        overlap.offset
    );
    f
}

/// A finding about the client's stream of a connection, with everything but words.
pub(crate) fn base(
    listener: &Listener,
    o: &FlowObservation,
    rule: StoreRule,
    offset: u64,
    packet: PacketRef,
    time: Timestamp,
) -> Finding {
    let bytes = o.bytes_from(Direction::ToServer, offset, SHOWN_BYTES);
    let sequence = o.sequence(Direction::ToServer, offset);
    let carried = o.kept[0].iter().filter(|k| {
        k.offset + k.bytes.len() as u64 > offset && k.offset < offset + SHOWN_BYTES as u64 && k.packet <= packet
    });
    let mut packets: Vec<PacketRef> = carried.map(|k| k.packet).collect();
    if !packets.contains(&packet) {
        packets.push(packet);
    }
    let id = finding_id(rule.text().id, o.client(), o.server(), sequence, &bytes);
    Finding {
        packets,
        protocol: Some("tcpstore"),
        dialect: listener.dialect_name(),
        dialect_candidates: listener.dialect_names(),
        stream_offset: Some(offset),
        bytes,
        one_direction: o.record.packets[1] == 0,
        evidence: listener.evidence.iter().map(|e| e.text.clone()).collect(),
        ..Finding::new(rule.text(), id, time, Some(packet), o.client(), o.server())
    }
}
