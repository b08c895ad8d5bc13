//! A job's stores as witnesses: who joined, who fell silent first, what the ranks said when something failed.
//!
//! Silence is claimed on what came after it, never on what is missing: somebody who gave a regular sign of life is
//! silent when others were seen to go on for three of its intervals and more, and no state that they read or wrote held
//! a newer sign of it. Where a capture ends, or a store that answers nobody, all signs end together, and none is a claim.

use std::collections::{BTreeMap, BTreeSet};

use super::jobs::{StoreTalk, resolve};
use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::protocol::tcpstore::{Agent, Attendance, JobEvent as ElasticTurn, Purpose, Said};
use crate::time::Timestamp;
use crate::vocabulary::{JobEvent, SignKind};

/// PyTorch's own interval between an agent's keep-alives (`keep_alive_interval`), in seconds, where none was measured.
const KEEP_ALIVE_SECONDS: f64 = 5.0;
/// Keep-alives that may stay away before the other agents give one up (`keep_alive_max_attempt`).
const ATTEMPTS: f64 = 3.0;
/// No silence is claimed below this, in seconds: a busy process misses a second or two.
const LEAST_SECONDS: f64 = 10.0;
/// Moments kept a job: failures before joins.
const MOMENTS: usize = 2000;

/// Somebody who showed regularly that it lives.
#[derive(Clone, Debug)]
pub(super) struct Heartbeat {
    pub(super) kind: SignKind,
    /// Its name, as it gives it itself.
    pub(super) name: Option<String>,
    pub(super) address: Option<Address>,
    pub(super) pid: Option<i64>,
    /// Its own connection, where one was seen: client, then server.
    pub(super) connection: Option<(Endpoint, Endpoint)>,
    /// The key, of those that are no agents.
    pub(super) key: Option<Vec<u8>>,
    pub(super) joined: Said,
    /// Its last sign, by its own clock where it gives a time (an agent's heartbeat).
    pub(super) last: Timestamp,
    /// When and where that was first seen.
    pub(super) last_said: Timestamp,
    pub(super) last_packet: Said,
    /// The last complete request on its own connection.
    pub(super) last_request: Option<Said>,
    pub(super) count: u64,
    /// Seconds between two signs, measured on itself.
    pub(super) interval: Option<f64>,
    /// Seconds between two signs that were expected of it.
    pub(super) expected: f64,
    /// The latest moment at which others show what is known of it.
    pub(super) others_until: Option<Said>,
    /// When it was last heard of, if it was silent from then on.
    pub(super) fell_silent: Option<Timestamp>,
    /// The first of its job to fall silent.
    pub(super) first_of_job: bool,
    /// Where the others had taken it out.
    pub(super) removed: Option<Said>,
    /// When its side closed its connection.
    pub(super) closed: Option<Timestamp>,
}

/// What happened to a job at one moment.
#[derive(Clone, Debug)]
pub(super) struct TimelineEntry {
    pub(super) time: Timestamp,
    pub(super) turn: JobEvent,
    pub(super) name: Option<String>,
    pub(super) address: Option<Address>,
    pub(super) text: String,
    pub(super) said: Option<Said>,
}

impl TimelineEntry {
    /// Whether it tells of trouble.
    pub(super) fn is_of_failure(&self) -> bool {
        use JobEvent::*;
        matches!(self.turn, FellSilent | Removed | DumpRequested | DumpSeen | Aborted | RemoteError)
    }
}

/// What an elastic rendezvous (its run id and connections) and the workers' own store tell of one job.
pub(super) fn of_job(
    elastic: Option<(&String, &Vec<StoreTalk>)>,
    workers: &[StoreTalk],
    names: &Names,
) -> (Vec<Heartbeat>, Vec<TimelineEntry>) {
    let mut signs = Vec::new();
    let mut moments = Vec::new();
    let mut exits: BTreeMap<Endpoint, Timestamp> = BTreeMap::new();
    for h in elastic.iter().flat_map(|(_, heard)| heard.iter()).chain(workers) {
        for s in h.learned.signs.signals.iter().filter(|s| s.purpose == Purpose::TerminalState) {
            let slot = exits.entry(h.client).or_insert(s.said.time);
            *slot = (*slot).min(s.said.time);
        }
    }
    if let Some((run, heard)) = elastic {
        signs.extend(agents(run, heard, &exits, names));
        moments.extend(turns(run, heard));
        moments.extend(signals(heard, names));
    }
    signs.extend(pulses(workers));
    moments.extend(signals(workers, names));
    moments.extend(workers_joined(workers));
    if let Some(first) = signs.iter_mut().filter(|s| s.fell_silent.is_some()).min_by_key(|s| s.fell_silent) {
        first.first_of_job = true;
    }
    moments.extend(signs.iter().flat_map(of_sign));
    let named: BTreeMap<Address, &String> = signs.iter().filter_map(|s| Some((s.address?, s.name.as_ref()?))).collect();
    for m in moments.iter_mut().filter(|m| m.name.is_none()) {
        m.name = m.address.and_then(|a| named.get(&a)).map(|n| n.to_string());
    }
    moments.sort_by(|a, b| {
        (!a.is_of_failure(), a.time, a.turn, &a.text).cmp(&(!b.is_of_failure(), b.time, b.turn, &b.text))
    });
    moments.truncate(MOMENTS);
    moments.sort_by(|a, b| (a.time, a.turn, a.address, &a.text).cmp(&(b.time, b.turn, b.address, &b.text)));
    (signs, moments)
}

fn earlier(a: Said, b: Said) -> Said {
    a.min(b)
}

/// The agents of an elastic job, by all connections to its rendezvous.
fn agents(run: &String, heard: &[StoreTalk], exits: &BTreeMap<Endpoint, Timestamp>, names: &Names) -> Vec<Heartbeat> {
    let mut all: BTreeMap<&Agent, Attendance> = BTreeMap::new();
    let mut own: BTreeMap<&Agent, &StoreTalk> = BTreeMap::new();
    let mut closed_at: Option<Timestamp> = None;
    let mut until: Option<Said> = None;
    for h in heard {
        let Some(job) = h.learned.jobs.get(run) else { continue };
        until = until.max(Some(job.said));
        for (turn, said) in &job.turns {
            if *turn == ElasticTurn::Closed {
                closed_at = Some(closed_at.map_or(said.time, |t| t.min(said.time)));
            }
        }
        if let Some(writer) = &job.writer {
            let slot = own.entry(writer).or_insert(h);
            if h.last > slot.last {
                *slot = h;
            }
        }
        for (agent, new) in &job.agents {
            all.entry(agent).and_modify(|known| *known = joined(*known, *new)).or_insert(*new);
        }
    }
    let measured: BTreeMap<&Agent, f64> = all.iter().filter_map(|(a, x)| Some((*a, interval(x)?))).collect();
    let mut sorted: Vec<f64> = measured.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let expected = sorted.get(sorted.len() / 2).copied().unwrap_or(KEEP_ALIVE_SECONDS);
    all.into_iter()
        .map(|(agent, x)| {
            let h = own.get(agent).copied();
            let last_request = h.and_then(|h| h.learned.signs.last_request);
            let alive = last_request.map_or(x.said.time, |r| r.time.max(x.said.time));
            // After the rendezvous was closed, or its workers ended, nobody owes a keep-alive.
            let exit = h.and_then(|h| exits.get(&h.client)).copied();
            let due: Option<Timestamp> = [until.map(|u| u.time), closed_at, exit].into_iter().flatten().min();
            let silent = due.is_some_and(|due| due.seconds_since(alive) > limit(expected));
            // Read by others it is first seen when they read: the agent's own clock says when it wrote. The agents'
            // clocks agree well enough for the rendezvous, which compares their heartbeats.
            let alive = if h.is_none() { alive.min(x.last_beat) } else { alive };
            Heartbeat {
                kind: SignKind::KeepAlive,
                name: Some(agent.address.clone()),
                address: resolve(&agent.address, names).or(h.map(|h| h.client.address)),
                pid: Some(agent.pid),
                connection: h.map(|h| (h.client, h.server)),
                key: None,
                joined: x.joined,
                last: x.last_beat,
                last_said: x.said.time,
                last_packet: x.said,
                last_request,
                count: x.beats,
                interval: measured.get(agent).copied(),
                expected,
                others_until: until,
                fell_silent: silent.then_some(alive),
                first_of_job: false,
                removed: x.gone.filter(|g| g.time >= x.said.time),
                closed: h.and_then(|h| h.closed),
            }
        })
        .collect()
}

/// How long a sign may stay away, in seconds.
fn limit(expected: f64) -> f64 {
    (ATTEMPTS * expected).max(LEAST_SECONDS)
}

/// Two connections' views of one agent.
fn joined(a: Attendance, b: Attendance) -> Attendance {
    let (newer, older) = if a.last_beat >= b.last_beat { (a, b) } else { (b, a) };
    let more = if a.beats >= b.beats { a } else { b };
    Attendance {
        joined: earlier(a.joined, b.joined),
        // The interval is measured where most heartbeats were seen.
        first_beat: more.first_beat,
        last_beat: newer.last_beat,
        beats: more.beats,
        said: if a.last_beat == b.last_beat { earlier(a.said, b.said) } else { newer.said },
        gone: match (newer.gone, older.gone) {
            (Some(a), Some(b)) => Some(earlier(a, b)),
            (a, b) => a.or(b),
        },
    }
}

/// Seconds between two heartbeats, where three or more tell it.
fn interval(x: &Attendance) -> Option<f64> {
    let span = x.last_beat.seconds_since(x.first_beat);
    (x.beats >= 3 && span > 0.0).then(|| span / (x.beats - 1) as f64)
}

/// Dump flags asked for and heartbeat keys written, by connection and key.
fn pulses(heard: &[StoreTalk]) -> Vec<Heartbeat> {
    let mut all: BTreeMap<(Endpoint, &[u8]), Heartbeat> = BTreeMap::new();
    for h in heard {
        for (key, (purpose, pulse)) in &h.learned.signs.pulses {
            let kind = match purpose {
                Purpose::ExceptionDump => SignKind::DumpPoll,
                _ => SignKind::HeartbeatKey,
            };
            let span = pulse.last.time.seconds_since(pulse.first.time);
            let interval = (pulse.count >= 3 && span > 0.0).then(|| span / (pulse.count - 1) as f64);
            let new = Heartbeat {
                kind,
                name: None,
                address: Some(h.client.address),
                pid: None,
                connection: Some((h.client, h.server)),
                key: Some(key.clone()),
                joined: pulse.first,
                last: pulse.last.time,
                last_said: pulse.last.time,
                last_packet: pulse.last,
                last_request: h.learned.signs.last_request,
                count: pulse.count,
                interval,
                expected: interval.unwrap_or(f64::INFINITY),
                others_until: None,
                fell_silent: None,
                first_of_job: false,
                removed: None,
                closed: h.closed,
            };
            let slot = all.entry((h.client, key.as_slice())).or_insert_with(|| new.clone());
            if new.count > slot.count {
                *slot = new;
            }
        }
    }
    // The latest poll of each key, and the latest of all others' connections.
    type LatestTwo = [Option<(Said, Endpoint)>; 2];
    let mut latest: BTreeMap<&[u8], LatestTwo> = BTreeMap::new();
    for ((client, key), sign) in &all {
        let slot = latest.entry(key).or_default();
        let this = Some((sign.last_packet, *client));
        if this > slot[0] {
            *slot = [this, slot[0]];
        } else if this > slot[1] {
            slot[1] = this;
        }
    }
    let others: BTreeMap<Vec<u8>, LatestTwo> = latest.into_iter().map(|(k, v)| (k.to_vec(), v)).collect();
    let mut signs: Vec<Heartbeat> = all.into_values().collect();
    for sign in signs.iter_mut().filter(|s| s.kind == SignKind::DumpPoll) {
        let Some((key, (client, _))) = sign.key.as_ref().zip(sign.connection) else { continue };
        let other = others.get(key).into_iter().flatten().flatten().find(|(_, c)| *c != client);
        sign.others_until = other.map(|(said, _)| *said);
        let alive = sign.last_request.map_or(sign.last_said, |r| r.time.max(sign.last_said));
        let silent = other.is_some_and(|(said, _)| said.time.seconds_since(alive) > limit(sign.expected));
        sign.fell_silent = silent.then_some(alive);
    }
    signs
}

/// What became of the rendezvous itself.
fn turns(run: &String, heard: &[StoreTalk]) -> Vec<TimelineEntry> {
    let mut first: BTreeMap<ElasticTurn, Said> = BTreeMap::new();
    for (turn, said) in heard.iter().filter_map(|h| h.learned.jobs.get(run)).flat_map(|j| &j.turns) {
        first.entry(*turn).and_modify(|known| *known = earlier(*known, *said)).or_insert(*said);
    }
    let moment = |(turn, said): (ElasticTurn, Said)| {
        let (turn, text) = match turn {
            ElasticTurn::Complete(round) => (JobEvent::Complete, format!("round {round} is complete")),
            ElasticTurn::Closed => (JobEvent::Closed, "the rendezvous is closed".to_string()),
        };
        TimelineEntry { time: said.time, turn, name: None, address: None, text, said: Some(said) }
    };
    first.into_iter().map(moment).collect()
}

/// Keys of failures and ends, each once a connection.
fn signals(heard: &[StoreTalk], names: &Names) -> Vec<TimelineEntry> {
    type One<'a> = (Endpoint, JobEvent, &'a [u8], Option<i32>);
    let mut seen: BTreeMap<One<'_>, Said> = BTreeMap::new();
    for h in heard {
        for s in &h.learned.signs.signals {
            let turn = match (s.purpose, s.found) {
                (Purpose::ExceptionDump, true) => JobEvent::DumpSeen,
                (Purpose::ExceptionDump, false) => JobEvent::DumpRequested,
                (Purpose::NcclAborted, _) => JobEvent::Aborted,
                (Purpose::RemoteError, _) => JobEvent::RemoteError,
                (Purpose::TerminalState, _) => JobEvent::ExitBarrier,
                _ => continue,
            };
            let slot = seen.entry((h.client, turn, &s.key, s.rank)).or_insert(s.said);
            *slot = earlier(*slot, s.said);
        }
    }
    let mut exits: BTreeSet<Endpoint> = BTreeSet::new();
    seen.into_iter()
        // The exit barrier is several keys of one agent.
        .filter(|((client, turn, ..), _)| *turn != JobEvent::ExitBarrier || exits.insert(*client))
        .map(|((client, turn, key, rank), said)| {
            let key = String::from_utf8_lossy(key);
            let by = rank.map_or(String::new(), |r| format!(" by rank {r}"));
            let text = match turn {
                JobEvent::DumpSeen => format!("finds the dump flag {key}"),
                JobEvent::DumpRequested => format!("{key} written{by}: all ranks are to dump what they were doing"),
                JobEvent::Aborted => format!("{key} written{by}: it aborted an NCCL communicator"),
                JobEvent::RemoteError => format!("{key} written{by}: an NCCL error is told to the others"),
                _ => "reached the exit barrier".to_string(),
            };
            let name = names.host(client.address).map(str::to_string);
            TimelineEntry { time: said.time, turn, name, address: Some(client.address), text, said: Some(said) }
        })
        .collect()
}

/// Workers that counted themselves at their store.
fn workers_joined(heard: &[StoreTalk]) -> Vec<TimelineEntry> {
    let mut first: BTreeMap<Endpoint, (u64, Said)> = BTreeMap::new();
    for h in heard {
        if let Some((count, said)) = h.learned.joined_as {
            let slot = first.entry(h.client).or_insert((count, said));
            if said < slot.1 {
                *slot = (count, said);
            }
        }
    }
    first
        .into_iter()
        .map(|(client, (count, said))| TimelineEntry {
            time: said.time,
            turn: JobEvent::Joined,
            name: None,
            address: Some(client.address),
            text: format!("a worker joined the workers' store, {count} there by then"),
            said: Some(said),
        })
        .collect()
}

/// The moments of one that gives signs.
fn of_sign(sign: &Heartbeat) -> Vec<TimelineEntry> {
    let at = |time: Timestamp, turn, text: String, said| TimelineEntry {
        time,
        turn,
        name: sign.name.clone(),
        address: sign.address,
        text,
        said,
    };
    let who = sign.pid.map_or(String::new(), |pid| format!(" (agent, pid {pid})"));
    let mut all = Vec::new();
    if sign.kind == SignKind::KeepAlive {
        let joined = format!("joined the rendezvous{who}");
        all.push(at(sign.joined.time, JobEvent::Joined, joined, Some(sign.joined)));
        if let Some(closed) = sign.closed {
            all.push(at(closed, JobEvent::Disconnected, format!("closed its connection to the rendezvous{who}"), None));
        }
    }
    if let Some(removed) = sign.removed {
        all.push(at(
            removed.time,
            JobEvent::Removed,
            format!("taken out of the rendezvous by the others{who}"),
            Some(removed),
        ));
    }
    if let Some(time) = sign.fell_silent {
        let what = match sign.kind {
            SignKind::KeepAlive => format!("last sign of life before its keep-alives stay away{who}"),
            _ => "last sign of life before it stops asking for the dump flag".to_string(),
        };
        let first = if sign.first_of_job { ", the first of its job" } else { "" };
        let said = sign.last_request.filter(|r| r.time == time).unwrap_or(sign.last_packet);
        all.push(at(time, JobEvent::FellSilent, format!("{what}{first}"), Some(said)));
    }
    all
}
