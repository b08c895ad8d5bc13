//! Jobs as the report tells them: who was there, until when, and what that rests on.

use std::collections::BTreeMap;

use super::jobs::Job;
use super::listener_rows::listener_id;
use super::liveness::{Heartbeat, TimelineEntry};
use super::reporting::{capture_path, text};
use super::run::Material;
use crate::escape::clean;
use crate::net::Address;
use crate::protocol::tcpstore::Said;
use crate::report::model::{Job as JobOut, Moment as MomentOut, Participant, SignOfLife};
use crate::report::size::{Times, Zone, grouped, span};
use crate::vocabulary::{Protocol, SignKind};

/// Texts of a moment and of what a sign rests on are at most this wide.
const TEXT: usize = 1000;

/// One job.
pub(super) fn job(m: &Material<'_>, j: &Job) -> JobOut {
    let mut agents: BTreeMap<Address, Option<&Heartbeat>> = BTreeMap::new();
    for sign in j.signs.iter().filter(|s| s.kind == SignKind::KeepAlive) {
        // Several agents at one address: whose ranks are whose is not known.
        if let Some(address) = sign.address {
            agents.entry(address).and_modify(|a| *a = None).or_insert(Some(sign));
        }
    }
    let participant = |p: &super::jobs::Participant| {
        let agent = p.address.and_then(|a| agents.get(&a).copied().flatten());
        Participant {
            rank: p.rank,
            host: host(m, p.address, p.name.as_deref()),
            address: p.address.map(|a| a.to_string()),
            joined: Some(p.joined),
            last_seen: Some(p.last),
            last_keep_alive: agent.map(|s| s.last_said),
            fell_silent: agent.and_then(|s| s.fell_silent),
        }
    };
    JobOut {
        protocol: Protocol::Tcpstore,
        run_id: j.run_id.as_deref().map(text),
        world_size: j.world_size,
        participants: j.participants.iter().map(participant).collect(),
        listener: Some(listener_id(j.store)),
        signs_of_life: j.signs.iter().map(|s| sign(m, s)).collect(),
        timeline: j.timeline.iter().map(|t| moment(m, t)).collect(),
    }
}

fn host(m: &Material<'_>, address: Option<Address>, name: Option<&str>) -> Option<String> {
    address.and_then(|a| m.names.host(a)).map(text).or(name.map(text))
}

fn moment(m: &Material<'_>, t: &TimelineEntry) -> MomentOut {
    MomentOut {
        time: Some(t.time),
        kind: t.turn,
        host: host(m, t.address, t.name.as_deref()),
        address: t.address.map(|a| a.to_string()),
        text: clean(t.text.as_bytes(), TEXT),
        capture: t.said.map(|s| capture_path(m, s.packet)),
        packet: t.said.map(|s| s.packet.number),
    }
}

fn sign(m: &Material<'_>, s: &Heartbeat) -> SignOfLife {
    SignOfLife {
        kind: s.kind,
        host: host(m, s.address, s.name.as_deref()),
        address: s.address.map(|a| a.to_string()),
        pid: s.pid,
        key: s.key.as_deref().map(|k| clean(k, 256)),
        connection: s.connection.map(|(client, server)| format!("{client} > {server}")),
        joined: Some(s.joined.time),
        last_seen: Some(s.last_said),
        last_keep_alive: (s.kind == SignKind::KeepAlive).then_some(s.last),
        count: s.count,
        interval_seconds: s.interval.map(|i| (i * 1e3).round() / 1e3),
        fell_silent: s.fell_silent,
        first_of_job: s.first_of_job,
        observed_until: s.others_until.map(|u| u.time),
        removed: s.removed.map(|r| r.time),
        disconnected: s.closed,
        basis: clean(basis(m, s).as_bytes(), TEXT),
    }
}

/// What is claimed of one that gives signs, and on what.
fn basis(m: &Material<'_>, s: &Heartbeat) -> String {
    let times = Times { zone: Zone::Utc, date: Some(Zone::Utc.date(s.last_said)) };
    let at = |said: Said| {
        format!("{} (packet {} of {})", times.short(said.time), said.packet.number, capture_path(m, said.packet))
    };
    let (one, go_on) = match s.kind {
        SignKind::KeepAlive => ("keep-alive", "the last state of the job that was seen"),
        SignKind::DumpPoll => ("question for the dump flag", "the last of another rank"),
        SignKind::HeartbeatKey => ("write", "the last of another"),
    };
    let mut parts = vec![format!("last {one} seen {}", at(s.last_packet))];
    match s.interval {
        Some(i) => parts.push(format!("one every {} before ({} seen)", span(i), grouped(s.count))),
        None if s.kind == SignKind::KeepAlive => {
            parts.push(format!("{} seen; one every {} is expected", grouped(s.count), span(s.expected)));
        }
        None => parts.push(format!("{} seen: too few to expect another", grouped(s.count))),
    }
    if s.fell_silent.is_some() {
        let due = s.last_said.plus_nanos((s.expected * 1e9) as i64);
        parts.push(format!("the next was due by {}", times.short(due)));
    }
    if let Some(until) = s.others_until {
        let since = until.time.seconds_since(s.last_said).max(0.0);
        parts.push(match s.fell_silent {
            Some(_) => format!("{go_on} is of {}, {} later, and shows no newer one", at(until), span(since)),
            None => format!("{go_on} is of {}, too soon after it to tell of silence", at(until)),
        });
    }
    if let (Some((client, _)), Some(request)) = (s.connection, s.last_request) {
        parts.push(format!("last request on its connection from {client} {}", at(request)));
    } else if s.kind == SignKind::KeepAlive {
        let clock = times.short(s.last);
        parts.push(format!("its own connection is in no capture: by its own clock it wrote that at {clock}"));
    }
    parts.join("; ")
}
