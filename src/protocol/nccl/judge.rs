//! Conclusions about one listener, from all its connections.

use std::collections::BTreeMap;

use super::Purpose;
use super::communicator::Communicator;
use super::facts::Facts;
use super::fate::{Outcome, RootFate, fate};
use super::misbehaviour::{Cut, Misbehaviour, Standing, first_close, standing};
use super::network::{Flow, LearnedFrom, NcclListener};
use super::role::Role;
use super::verdict::{Effect, Verdict, fixed_in, verdict};
use super::version::{Version, Versions};
use super::wire::HANDSHAKE_BYTES;
use crate::net::{Address, Endpoint};
use crate::stream::{Direction, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// Strays that are judged one by one; a flood adds nothing.
const JUDGED: usize = 4096;

/// The packet that carries what is said of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// When it was seen.
    pub time: Timestamp,
    /// The packet.
    pub packet: PacketRef,
    /// The bytes of the client that it carries, where these are what is wrong.
    pub bytes: Vec<u8>,
    /// Their offset in the client's stream.
    pub offset: u64,
}

impl Shown {
    fn at(time: Timestamp, packet: PacketRef) -> Self {
        Shown { time, packet, bytes: Vec::new(), offset: 0 }
    }

    /// The end of a connection; of one that nobody closed, the client's first packet after its SYN.
    fn end(flow: &Flow<'_>) -> Self {
        let record = flow.record;
        match first_close(record) {
            Some(close) => Shown::at(close.time, close.packet),
            None => {
                let alone = record.bytes == [0, 0] && record.packets[0] == record.packets[1].saturating_mul(2);
                let time = record.syn_ack.get().filter(|_| !alone).unwrap_or(record.last);
                Shown::at(time, record.client_packet().unwrap_or(record.first_packet))
            }
        }
    }

    /// What shows a deed: the bytes, where some came, else the end.
    fn of(flow: &Flow<'_>, deed: Misbehaviour) -> Self {
        let by_bytes = || {
            let f = flow.facts?;
            let fault = |wanted| f.faults.iter().find(|(_, fault, _)| *fault == wanted).map(|(.., place)| *place);
            let told = match deed {
                Misbehaviour::Malformed(wanted) => fault(wanted).or(f.first_frame.map(|(_, place)| place)),
                _ => None,
            };
            let end = match told.and_then(|t| f.pieces.iter().find(|p| p.packet == t.packet)) {
                Some(piece) => piece.offset + 1,
                None => deed.shown_by(f.bytes[0]),
            };
            let (place, bytes) = f.piece(end)?;
            Some(Shown { time: place.time, packet: place.packet, bytes: bytes.to_vec(), offset: place.offset })
        };
        by_bytes().unwrap_or_else(|| Shown::end(flow))
    }
}

/// What follows from the connections of a listener.
#[derive(Clone, PartialEq, Debug)]
pub struct Conclusion {
    /// The rule, `nccl-…`.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The packet to look at.
    pub shown: Shown,
    /// When what it led to was seen: the first sign of a root's end, the connection that failed.
    pub failed: Option<Timestamp>,
    /// Others that show what followed.
    pub also: Vec<PacketRef>,
    /// The first bytes of a stranger.
    pub sent: Vec<u8>,
    /// How many bytes came in all.
    pub sent_bytes: u64,
    /// Initial sequence number of the connection, 0 where it is not known.
    pub sequence: u32,
    /// Who did it.
    pub source: Endpoint,
    /// To whom.
    pub target: Endpoint,
    /// What the listener does with it, by release.
    pub effect: Option<Effect>,
    /// How often the same source did the same.
    pub occurrences: u64,
    /// What happened, in words.
    pub explanation: String,
    /// Why that is so.
    pub evidence: Vec<String>,
}

impl Conclusion {
    fn new(rule: &'static str, severity: Severity, flow: &Flow<'_>, shown: Shown, explanation: String) -> Self {
        let record = flow.record;
        Conclusion {
            rule,
            severity,
            shown,
            failed: None,
            also: Vec::new(),
            sent: Vec::new(),
            sent_bytes: 0,
            sequence: record.isn(Direction::ToServer).unwrap_or(0),
            source: record.client(),
            target: record.server(),
            effect: None,
            occurrences: 1,
            explanation,
            evidence: Vec::new(),
        }
    }

    /// Of a stray, with its bytes and its effect.
    fn of_stray(rule: &'static str, severity: Severity, stray: &Stray<'_>, explanation: String) -> Self {
        Conclusion {
            sent: stray.sent(),
            sent_bytes: stray.flow.record.bytes[0],
            effect: Some(stray.worst()),
            ..Conclusion::new(rule, severity, stray.flow, stray.shown.clone(), explanation)
        }
    }
}

/// All of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Judgement {
    /// In order of time.
    pub conclusions: Vec<Conclusion>,
    /// Of a root: what became of it.
    pub fate: Option<RootFate>,
}

/// A connection that is none of NCCL's own, with what the releases do about it.
pub(super) struct Stray<'a> {
    pub(super) flow: &'a Flow<'a>,
    pub(super) deed: Misbehaviour,
    pub(super) verdicts: Vec<(Version, Verdict)>,
    /// When it takes effect: at its last byte, or when it closes.
    pub(super) time: Timestamp,
    pub(super) shown: Shown,
}

impl Stray<'_> {
    /// The first bytes that came; none of ranks that quarrel, whose bytes are NCCL's own.
    fn sent(&self) -> Vec<u8> {
        let quarrel = matches!(self.deed, Misbehaviour::Disagrees { .. } | Misbehaviour::Duplicate(_));
        self.flow.facts.filter(|_| !quarrel).map_or_else(Vec::new, |f| f.head.clone())
    }

    pub(super) fn worst(&self) -> Effect {
        self.verdicts.iter().map(|(_, v)| v.effect).max().unwrap_or(Effect::Serves)
    }

    pub(super) fn all(&self, effect: Effect) -> bool {
        !self.verdicts.is_empty() && self.verdicts.iter().all(|(_, v)| v.effect == effect)
    }

    /// `what the bootstrap root does, by release: NCCL 2.16.2–2.26.2: fails; NCCL 2.27.3: …; fixed in 2.27.3`.
    fn by_release(&self, listener: &NcclListener) -> String {
        let mut runs: Vec<(Effect, Version, Version)> = Vec::new();
        for (version, v) in &self.verdicts {
            match runs.last_mut() {
                Some(last) if last.0 == v.effect => last.2 = *version,
                _ => runs.push((v.effect, *version, *version)),
            }
        }
        let texts: Vec<String> = runs
            .iter()
            .map(|(e, a, b)| format!("NCCL {}: {}", Versions { since: *a, until: *b }, verb(*e, listener.role)))
            .collect();
        let head = self.flow.facts.map_or(&[][..], |f| &f.head);
        let magic = self.magic(listener);
        let fix = self
            .verdicts
            .iter()
            .find_map(|(v, w)| fixed_in(listener.role.unwrap_or(Role::Root), *v, w.effect, head, magic));
        let fix = fix.map_or_else(String::new, |f| format!("; fixed in {f}"));
        format!("what the {} does, by release: {}{fix}", listener.name(), texts.join("; "))
    }

    fn magic(&self, listener: &NcclListener) -> u64 {
        right_magic(listener, self.flow.facts, self.deed)
    }
}

/// The magic that counts as right: the listener's; unknown, the one that a well-formed handshake carries, or eight
/// bytes that were followed by nothing.
fn right_magic(listener: &NcclListener, facts: Option<&Facts>, deed: Misbehaviour) -> u64 {
    let sent = || {
        let head = facts.filter(|_| deed == Misbehaviour::NoType)?.head.get(..8)?;
        Some(u64::from_le_bytes(head.try_into().ok()?))
    };
    listener.magic.or_else(|| facts.and_then(Facts::magic)).or_else(sent).unwrap_or(0)
}

fn verb(e: Effect, role: Option<Role>) -> &'static str {
    match e {
        Effect::Dies if matches!(role, Some(Role::Ring | Role::Peer | Role::Reply | Role::Net)) => {
            "fails at its next accept, whenever that is"
        }
        Effect::Serves => "takes it as one of its own",
        Effect::Closes => "closes it and goes on",
        Effect::Waits => "waits for it and serves nobody else",
        Effect::Allocates => "allocates what it declares",
        Effect::Spins => "keeps one core busy and serves nobody",
        Effect::Dies => "fails",
        Effect::Killed => "takes its whole process down",
    }
}

/// Judges one listener.
///
/// `flows`: its connections, in any order. `communicator`: the one whose root it is, where it is one.
/// `hint`: releases that other listeners of the same host speak, used where its own say nothing.
pub fn judge(
    listener: &NcclListener,
    communicator: Option<&Communicator>,
    hint: Option<Versions>,
    flows: &[Flow<'_>],
) -> Judgement {
    if listener.text {
        // The text service of RAS answers whatever it is sent; a scan there is harmless by design.
        return Judgement::default();
    }
    let mut flows: Vec<&Flow<'_>> = flows.iter().collect();
    flows.sort_by_key(|f| (f.record.first, f.record.first_packet));
    let mut versions = listener.versions;
    let mut assumed = None;
    if let Some(both) = hint.and_then(|h| h.and(versions)).filter(|b| *b != versions) {
        versions = both;
        assumed = Some(both);
    }
    let records: Vec<_> = flows.iter().map(|f| f.record).collect();
    let ladder = super::ladder(&records);
    if let Some(both) = ladder.as_ref().and_then(|l| l.versions.and(versions)) {
        versions = both;
    }
    let standings: Vec<Standing> = flows.iter().map(|f| standing(listener, f)).collect();
    let mut strays: Vec<Stray<'_>> = flows
        .iter()
        .zip(&standings)
        .filter_map(|(f, s)| if let Standing::Stray(d) = s { Some(stray(listener, versions, f, *d)) } else { None })
        .take(JUDGED)
        .collect();
    let own: Vec<&Flow<'_>> =
        flows.iter().zip(&standings).filter(|(_, s)| **s == Standing::Own).map(|(f, _)| *f).collect();
    // Cut short by the listener's side, but with the right magic: it would have been one.
    let cut = |f: &Flow<'_>, s: &Standing| {
        matches!(s, Standing::Unclear | Standing::CutOff(_))
            && listener.magic.is_some()
            && f.facts.and_then(Facts::magic) == listener.magic
    };
    let unread: Vec<&Flow<'_>> =
        flows.iter().zip(&standings).filter(|(f, s)| **s == Standing::Own || cut(f, s)).map(|(f, _)| *f).collect();
    let mut out = Judgement::default();
    let is_root = matches!(listener.role, Some(Role::Root) | None);
    if is_root {
        strays.extend(quarrels(&own));
        strays.sort_by_key(|s| (s.time, s.shown.packet));
        let fate = fate(&flows, &unread, &strays, communicator);
        what_it_did(&mut strays, &fate);
        if listener.learned_from != LearnedFrom::Conduct {
            root(listener, &flows, &own, &strays, &fate, ladder.as_ref(), communicator, &mut out.conclusions);
        }
        out.fate = Some(fate);
    }
    tell_strays(listener, &strays, out.fate.as_ref(), &mut out.conclusions);
    for (f, standing) in flows.iter().zip(&standings) {
        if let Standing::CutOff(cut) = standing {
            out.conclusions.extend(cut_off(listener, f, *cut));
        }
    }
    match listener.role {
        Some(Role::Proxy | Role::Ras) => spinning(listener, &strays, &own, &mut out.conclusions),
        Some(Role::Ring | Role::Peer | Role::Reply) => fuses(listener, &strays, &own, &mut out.conclusions),
        _ => {}
    }
    if let Some(v) = assumed {
        let text = format!("assumed: NCCL {v}, as other bootstrap roots of the same host");
        out.conclusions.iter_mut().filter(|c| c.effect.is_some()).for_each(|c| c.evidence.push(text.clone()));
    }
    out.conclusions.sort_by(|a, b| (a.shown.time, a.shown.packet, a.rule).cmp(&(b.shown.time, b.shown.packet, b.rule)));
    out
}

fn stray<'a>(listener: &NcclListener, versions: Versions, flow: &'a Flow<'a>, deed: Misbehaviour) -> Stray<'a> {
    let record = flow.record;
    let head = flow.facts.map_or(&[][..], |f| &f.head);
    let whole: Vec<u8>;
    let mut sent = head;
    if let Some((c, _)) = flow.facts.and_then(|f| f.check_in) {
        // What is kept of the head ends before a check-in does; what its frame declares is what counts.
        whole = rebuilt(head, &c);
        sent = &whole;
    } else if matches!(deed, Misbehaviour::WrongType(_))
        && let Some(after) = head.get(HANDSHAKE_BYTES..)
    {
        // The model knows one type for each role; a NET listener has one of three.
        whole = [head.get(..8).unwrap_or_default(), &u32::MAX.to_le_bytes(), after].concat();
        sent = &whole;
    }
    let magic = right_magic(listener, flow.facts, deed);
    let role = listener.role.unwrap_or(Role::Root);
    let close = first_close(record).filter(|c| !c.by_listener);
    let verdicts =
        versions.representatives().map(|v| (v, verdict(role, v, magic, &[], &[sent], close.is_some()))).collect();
    let last = flow.facts.and_then(|f| f.client).map(|(_, last)| last.time).filter(|_| !deed.counts_at_close());
    let time = last.or(close.map(|c| c.time)).unwrap_or(record.last);
    Stray { flow, deed, verdicts, time, shown: Shown::of(flow, deed) }
}

/// Leaves of the releases those that do what the root did: those that live through what it lived through, and that end
/// at what ended it.
fn what_it_did(strays: &mut [Stray<'_>], fate: &RootFate) {
    for i in 0..strays.len() {
        let survived = fate.outcome == Outcome::Completed || fate.cause.is_some_and(|cause| i < cause);
        let ended = fate.cause == Some(i);
        let Some(s) = strays.get(i).filter(|_| survived || ended) else { continue };
        let left: Vec<Version> =
            s.verdicts.iter().filter(|(_, v)| (v.effect >= Effect::Dies) == ended).map(|(v, _)| *v).collect();
        // Where no release fits, something else happened.
        if !left.is_empty() {
            strays.iter_mut().filter(|s| s.verdicts.iter().any(|(v, _)| left.contains(v))).for_each(|s| {
                s.verdicts.retain(|(v, _)| left.contains(v));
            });
        }
    }
}

/// A connection that the listener closed before its first message was whole.
fn cut_off(listener: &NcclListener, flow: &Flow<'_>, cut: Option<Cut>) -> Option<Conclusion> {
    let record = flow.record;
    let own = listener.magic.is_some() && flow.facts.is_some_and(|f| f.begins_with(listener.magic));
    let how = if record.rst[1].get().is_some_and(|t| Some(t) == record.server_closed()) { "reset" } else { "closed" };
    let inside = match cut {
        Some(cut) => format!("inside {cut}"),
        None if record.bytes[0] == 0 => "before a byte came".to_string(),
        None => format!("after {} bytes", record.bytes[0]),
    };
    let (target, name, client) = (listener.endpoint, listener.name(), record.client());
    let severity = if own { Severity::Warning } else { Severity::Notice };
    let explanation = format!(
        "{target}, the {name}, {how} the connection from {client} {inside}: the listener, not the client, ended it."
    );
    (own || record.bytes[0] > 0)
        .then(|| Conclusion::new("nccl-listener-closed", severity, flow, Shown::end(flow), explanation))
}

/// A check-in as the model reads it: its head, and zeros for the addresses behind.
fn rebuilt(head: &[u8], c: &super::CheckIn) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes.resize(if c.versions.until.0 < 20800 { 140 } else { 192 }, 0);
    bytes
}

/// Ranks that disagree with the first one, and ranks that come twice. None of them is a scan.
fn quarrels<'a>(own: &[&'a Flow<'a>]) -> Vec<Stray<'a>> {
    let mut first: Option<i32> = None;
    let mut seen: BTreeMap<i32, Option<Endpoint>> = BTreeMap::new();
    let mut last = Timestamp::MIN;
    let mut out = Vec::new();
    let mut check_ins: Vec<_> = own.iter().filter_map(|f| Some((*f, f.facts?.check_in?))).collect();
    check_ins.sort_by_key(|(_, (_, place))| (place.time, place.packet));
    for (flow, (c, place)) in check_ins.into_iter().take(JUDGED) {
        if first.is_some_and(|n| i64::from(n) == seen.len() as i64) && flow.record.first > last {
            // All had come before it connected: it is of the next communicator of a fixed port.
            (first, seen) = (None, BTreeMap::new());
        }
        last = place.time;
        let deed = match first {
            Some(n) if n != c.nranks => Some(Misbehaviour::Disagrees { first: n, this: c.nranks }),
            _ => seen.insert(c.rank, c.ring).filter(|ring| *ring != c.ring).map(|_| Misbehaviour::Duplicate(c.rank)),
        };
        first = first.or(Some(c.nranks));
        if let Some(deed) = deed {
            let v = Verdict { effect: Effect::Dies, reason: "ranks that contradict each other end the root" };
            let verdicts = c.versions.representatives().map(|r| (r, v)).collect();
            out.push(Stray { flow, deed, verdicts, time: place.time, shown: Shown::at(place.time, place.packet) });
        }
    }
    out
}

#[allow(clippy::too_many_arguments)]
fn root(
    listener: &NcclListener,
    flows: &[&Flow<'_>],
    own: &[&Flow<'_>],
    strays: &[Stray<'_>],
    fate: &RootFate,
    ladder: Option<&super::RetryPattern>,
    communicator: Option<&Communicator>,
    out: &mut Vec<Conclusion>,
) {
    let (target, name) = (listener.endpoint, listener.name());
    let dead = matches!(fate.outcome, Outcome::Died | Outcome::Killed);
    let cause = fate.cause.and_then(|i| strays.get(i));
    if dead && let Some(cause) = cause {
        let what = if fate.outcome == Outcome::Killed { "took its whole process down" } else { "ended with an error" };
        let mut evidence = vec![cause.by_release(listener), fate.sign.clone()];
        evidence.extend(ladder.map(|l| l.text.clone()));
        if listener.role.is_none() {
            evidence.push("nothing but the named port says that it is one".to_string());
        }
        let explanation = format!(
            "{} {}: at that the {name} {target} {what}. Ranks that come later are refused; ranks that had checked in wait for ever.",
            cause.flow.record.client(),
            cause.deed
        );
        let told = Conclusion::of_stray("nccl-root-died", Severity::Critical, cause, explanation);
        out.push(Conclusion { failed: fate.at, evidence, ..told });
    }
    if fate.outcome == Outcome::Completed {
        return;
    }
    let mut refused: BTreeMap<Address, Vec<&Flow<'_>>> = BTreeMap::new();
    for f in flows.iter().filter(|f| f.record.refused() && f.record.first >= fate.since) {
        refused.entry(f.record.client().address).or_default().push(f);
    }
    let hosts = refused.len();
    for attempts in refused.into_values() {
        let Some(first) = attempts.first() else { continue };
        let mut evidence = Vec::new();
        if let Some(l) = ladder {
            evidence.push(l.text.clone());
        }
        evidence.push(match cause {
            Some(c) => format!("the root ended after {} {}", c.flow.record.client(), c.deed),
            None => "no stray that would end the root was seen: it ended before the capture, or out of its sight"
                .to_string(),
        });
        if let Some(n) = listener.nranks.or(communicator.map(|c| c.nranks)) {
            // A rank that came twice is one rank.
            let own = communicator.map_or(own.len(), |c| c.ranks.len());
            let seen = own as u64 + hosts as u64;
            let unseen = u64::try_from(n).unwrap_or(0).saturating_sub(seen);
            let hosts = if hosts == 1 { "one host".to_string() } else { format!("{hosts} hosts") };
            let unseen = if unseen > 0 { format!(", {unseen} may never have been seen") } else { String::new() };
            evidence.push(format!(
                "the communicator has {n} ranks: {own} checked in, attempts from {hosts} were refused{unseen}"
            ));
        }
        evidence.push(
            "ranks on the root's own host connect over loopback, which captures of its network interface do not hold"
                .to_string(),
        );
        let record = first.record;
        let explanation = format!(
            "{} was refused{} by the {name} {target}: ncclCommInitRank fails there.",
            record.client().address,
            if attempts.len() > 1 { format!(" {} times", attempts.len()) } else { String::new() }
        );
        let severity = if dead { Severity::Critical } else { Severity::Warning };
        let shown = Shown::at(record.server_closed().unwrap_or(record.first), record.server_close_packet());
        let told = Conclusion::new("nccl-rank-refused", severity, first, shown, explanation);
        out.push(Conclusion { occurrences: attempts.len() as u64, evidence, ..told });
    }
    for f in own.iter().filter(|_| dead) {
        let Some((c, place)) = f.facts.and_then(|f| f.check_in) else { continue };
        let explanation = format!(
            "rank {} of {} checked in at the root {target} before that ended: the rank waits for a reply that never comes, without a timeout.",
            c.rank, c.nranks
        );
        let shown = Shown::at(place.time, place.packet);
        let told = Conclusion::new("nccl-rank-waits", Severity::Critical, f, shown, explanation);
        out.push(Conclusion { evidence: vec![fate.sign.clone()], ..told });
    }
}

/// Strays, those of one source that did the same thing together.
fn tell_strays(listener: &NcclListener, strays: &[Stray<'_>], fate: Option<&RootFate>, out: &mut Vec<Conclusion>) {
    let survived = fate.is_some_and(|f| f.outcome == Outcome::Completed);
    let mut groups: BTreeMap<(&'static str, Address, String), (usize, u64)> = BTreeMap::new();
    for (i, s) in strays.iter().enumerate() {
        let what = match s.deed {
            Misbehaviour::Silent(..) | Misbehaviour::Short(_) => String::new(),
            deed => deed.to_string(),
        };
        groups.entry((s.deed.rule(), s.flow.record.client().address, what)).or_insert((i, 0)).1 += 1;
    }
    for ((rule, ..), (i, occurrences)) in groups {
        let Some(s) = strays.get(i) else { continue };
        let severity = match s.worst() {
            Effect::Serves | Effect::Closes => Severity::Notice,
            _ if survived || listener.learned_from == LearnedFrom::Conduct => Severity::Notice,
            _ => Severity::Warning,
        };
        let mut evidence = vec![s.by_release(listener)];
        evidence.extend(s.verdicts.iter().map(|(_, v)| v.reason).find(|r| !r.is_empty()).map(str::to_string));
        if survived {
            evidence.push("the ranks checked in all the same: the root survived it".to_string());
        }
        if listener.learned_from == LearnedFrom::Conduct {
            evidence.extend(listener.evidence.iter().map(|e| e.text.clone()));
            evidence.extend(fate.filter(|f| f.at.is_some()).map(|f| f.sign.clone()));
        }
        let (client, target) = (s.flow.record.client(), listener.endpoint);
        let explanation = format!("{client} {} at {target}, the {}.", s.deed, listener.name());
        out.push(Conclusion { occurrences, evidence, ..Conclusion::of_stray(rule, severity, s, explanation) });
    }
}

/// A proxy or RAS thread that accepts again and again after a wrong magic, until a valid connection comes.
fn spinning(listener: &NcclListener, strays: &[Stray<'_>], own: &[&Flow<'_>], out: &mut Vec<Conclusion>) {
    let Some(s) = strays.iter().find(|s| s.worst() == Effect::Spins) else { return };
    let released = own.iter().map(|f| f.record.first).filter(|t| *t > s.time).min();
    let until = match released {
        Some(t) => format!("until {}, when a valid connection came ({:.1} s)", clock(t), t.seconds_since(s.time)),
        None => "and no valid connection was seen to release it".to_string(),
    };
    let hang = if listener.role == Some(Role::Proxy) { " Set-up and registration hang meanwhile." } else { "" };
    let severity = if s.all(Effect::Spins) { Severity::Critical } else { Severity::Warning };
    let explanation = format!(
        "{} {} at {}, the {}: its thread keeps one core busy and serves none of its connections, {until}.{hang}",
        s.flow.record.client(),
        s.deed,
        listener.endpoint,
        listener.name()
    );
    let told = Conclusion::of_stray("nccl-proxy-spins", severity, s, explanation);
    out.push(Conclusion { effect: Some(Effect::Spins), evidence: vec![s.by_release(listener)], ..told });
}

/// A time of day. UTC.
pub(super) fn clock(t: Timestamp) -> String {
    t.to_utc().format("%H:%M:%S%.6fZ").to_string()
}

/// Connections that were opened and closed long before make a later accept fail.
fn fuses(listener: &NcclListener, strays: &[Stray<'_>], own: &[&Flow<'_>], out: &mut Vec<Conclusion>) {
    for f in own {
        let Some(reset_at) = f.record.rst[1].get() else { continue };
        // The listener's side had not read what it was sent: its accept had failed.
        if f.record.fin[1].get().is_some_and(|t| t < reset_at) || f.record.bytes[1] > 0 {
            continue;
        }
        let first = f.record.first;
        let lit = strays.iter().rfind(|s| s.time < first && s.worst() >= Effect::Dies);
        let Some(s) = lit else { continue };
        let peer = f.facts.and_then(|f| f.peer);
        let split = peer.is_some_and(|p| p.purpose == Purpose::Split);
        let (rule, what) = if split {
            ("nccl-split-failed", "a communicator split")
        } else {
            ("nccl-accept-failed", "a bootstrap exchange")
        };
        let packet = peer.map_or(f.record.server_close_packet(), |p| p.place.packet);
        let explanation = format!(
            "{} {} at {} and was left in the queue of {}, the {}; {:.1} s later {what} failed there: the rank's accept took that connection first and failed.",
            s.flow.record.client(),
            s.deed,
            clock(s.flow.record.first),
            listener.endpoint,
            listener.name(),
            first.seconds_since(s.flow.record.first),
        );
        let reset = format!(
            "the rank's own connection, from {} at {}, was reset unread (packet {})",
            f.record.client(),
            clock(first),
            packet.number
        );
        // The stray is what is to be looked for; what failed came later.
        let told = Conclusion::of_stray(rule, Severity::Critical, s, explanation);
        out.push(Conclusion {
            failed: Some(reset_at),
            also: vec![packet],
            effect: Some(Effect::Dies),
            evidence: vec![reset, s.by_release(listener)],
            ..told
        });
    }
}
