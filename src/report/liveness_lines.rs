//! What a job's stores witnessed, in lines: who fell silent, which dump was asked for.

use super::escape::clean;
use super::model::{Job, JobEvent, Moment, Report, SignKind, SignOfLife};
use super::size::{Times, span};
use super::table::place_of;

/// What went wrong in a job, a line each, the earliest first; empty when its stores tell of nothing. Text from outside
/// is cleaned.
pub(super) fn troubles(report: &Report, job: &Job, times: &Times) -> Vec<String> {
    let mut lines: Vec<_> = job.signs_of_life.iter().filter_map(|s| silence(report, job, s, times)).collect();
    // Every rank that polls finds the flag: the first one tells all.
    let mut seen = false;
    for m in &job.timeline {
        let told = match m.kind {
            JobEvent::DumpRequested | JobEvent::Aborted | JobEvent::RemoteError => true,
            JobEvent::DumpSeen => !std::mem::replace(&mut seen, true),
            _ => false,
        };
        if let Some(time) = m.time.filter(|_| told) {
            let text = clean(m.text.as_bytes(), 160);
            let at = if m.kind == JobEvent::DumpSeen { "first at" } else { "at" };
            lines.push((time, format!("{}: {text}, {at} {}{}", who(m), times.short(time), seen_in(report, m))));
        }
    }
    lines.sort_by_key(|(time, _)| *time);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// One sentence on who fell silent first; `None` when nobody did.
pub(super) fn first_silence(job: &Job, times: &Times) -> Option<String> {
    let silent: Vec<&SignOfLife> = job.signs_of_life.iter().filter(|s| s.fell_silent.is_some()).collect();
    let first = silent.iter().find(|s| s.first_of_job)?;
    let at = times.short(first.fell_silent?);
    let more = silent.len() - 1;
    let more = if more == 0 { String::new() } else { format!(", {more} more after it") };
    Some(format!("{} fell silent{} at {at}{more}", name(first), if silent.len() > 1 { " first" } else { "" }))
}

/// What a job is called: `job exp42`, or by its store.
pub(super) fn title(report: &Report, job: &Job) -> String {
    match &job.run_id {
        Some(run) => format!("job {}", clean(run.as_bytes(), 60)),
        None => {
            let store = job.listener.as_deref().and_then(|id| report.listeners.iter().find(|l| l.id == id));
            store.map_or("a job".to_string(), |l| {
                format!("the job of {}", super::table::endpoint(&l.address, Some(l.port)))
            })
        }
    }
}

fn silence(report: &Report, job: &Job, s: &SignOfLife, times: &Times) -> Option<(crate::time::Timestamp, String)> {
    let time = s.fell_silent?;
    let what = match s.kind {
        SignKind::KeepAlive => "keep-alives stopped",
        SignKind::DumpPoll => "no longer asked for the dump flag",
        SignKind::HeartbeatKey => "heartbeats stopped",
    };
    let others = job.signs_of_life.iter().filter(|o| o.fell_silent.is_some()).count() > 1;
    let first = if s.first_of_job && others { ", the first to fall silent" } else { "" };
    let mut text = format!("{}: {what}{first}; last sign of life {}", name(s), times.short(time));
    let moment = job.timeline.iter().find(|m| m.kind == JobEvent::FellSilent && m.time == s.fell_silent);
    text.push_str(&moment.map_or(String::new(), |m| seen_in(report, m)));
    if let Some(until) = s.observed_until {
        text.push_str(&format!(", others seen {} longer", span(until.seconds_since(time))));
    }
    if let Some(at) = s.disconnected {
        text.push_str(&format!(", its side closed the connection {}", times.short(at)));
    }
    if let Some(at) = s.removed {
        text.push_str(&format!(", taken out by the others {}", times.short(at)));
    }
    Some((time, text))
}

fn seen_in(report: &Report, m: &Moment) -> String {
    let place = m.capture.as_deref().map(|capture| place_of(report, capture, m.packet, 40));
    place.map_or(String::new(), |p| format!(" ({p})"))
}

fn who(m: &Moment) -> String {
    m.host.as_deref().or(m.address.as_deref()).map_or("somebody".to_string(), |n| clean(n.as_bytes(), 60))
}

fn name(s: &SignOfLife) -> String {
    s.host.as_deref().or(s.address.as_deref()).map_or("somebody".to_string(), |n| clean(n.as_bytes(), 60))
}
