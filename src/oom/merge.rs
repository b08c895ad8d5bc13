//! All sightings of one kill → one event.
//!
//! 1. Equal host, pid, total-vm and anon-rss: one kill, whatever the times say (their difference is one of clocks).
//! 2. A sighting with a pid but without these figures: the kill of that pid on that host within five seconds; a reaper's
//!    line, the last kill of that pid before it.
//! 3. A report without a pid: a kill on that host within five seconds that nothing in it contradicts; of accounting, which
//!    tells the end of the job, the last kill of that job before it.
//! 4. A dump without a victim (its log was cut): the first kill after it that has no dump of its own.

use super::assembly::DUMP_NANOS;
use super::event::{Facts, OomEvent, OomKind, OomSighting, Role, Source, TimeSource, ToldBy};
use super::host::{Names, short};
use crate::time::{NANOS, Timestamp};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// How far copies without figures may lie apart.
const COPY_NANOS: i64 = 5 * NANOS;
/// How long after a kill its memory may be reaped.
const REAP_NANOS: i64 = 600 * NANOS;
/// How long before its job's end, as accounting tells it, a kill may lie.
const JOB_NANOS: i64 = 86_400 * NANOS;
/// Neighbours in time that are looked at for one sighting: a log of a million kills in a second stays linear.
const LOOK: usize = 64;
/// Lines kept for one event.
const LINES: usize = 64;

/// What [`merge`] makes of sightings.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// The events, in order of time, host and pid.
    pub events: Vec<OomEvent>,
    /// Sightings that no log gives an absolute time (`--boot`, a year or a zone is missing), in order of path and line.
    pub untimed: Vec<OomSighting>,
    /// The kills of these: events whose `time` has no meaning.
    pub undated: Vec<OomEvent>,
}

/// Host (by number), clock (0 since 1970, 1 since boot), time, group.
type At = (Option<usize>, u8, i64, usize);
/// Host (by number) and pid.
type OfHost = (Option<usize>, u64);
/// Sightings of equal figures, by host.
type ByHost = BTreeMap<Option<usize>, Vec<OomSighting>>;

#[derive(Default)]
struct Groups {
    members: Vec<Vec<OomSighting>>,
    hosts: Vec<Option<usize>>,
    /// The first sighting of each group that has a time.
    by_time: BTreeSet<At>,
    by_pid: BTreeMap<OfHost, BTreeSet<(u8, i64, usize)>>,
    groups_of_pid: BTreeMap<OfHost, BTreeSet<usize>>,
    /// By job, pod or container, on whatever host.
    by_workload: BTreeMap<String, BTreeSet<(u8, i64, usize)>>,
}

impl Groups {
    fn found(&mut self, host: Option<usize>, sighting: OomSighting) -> usize {
        let group = self.members.len();
        self.hosts.push(host);
        // Nearly every kill has one sighting; the least that a growing list takes is room for four.
        self.members.push(Vec::with_capacity(1));
        self.index(group, &sighting);
        self.join(group, sighting);
        group
    }

    fn index(&mut self, group: usize, sighting: &OomSighting) {
        let Some(host) = self.hosts.get(group).copied() else { return };
        if let Some(pid) = sighting.facts.pid {
            self.groups_of_pid.entry((host, pid)).or_default().insert(group);
        }
        if let (Some((base, at)), Some(key)) =
            (sighting.clock(), sighting.facts.workload.as_ref().and_then(|w| w.key()))
        {
            self.by_workload.entry(key).or_default().insert((base, at, group));
        }
        if let Some((base, at)) = sighting.clock() {
            self.by_time.insert((host, base, at, group));
            if let Some(pid) = sighting.facts.pid {
                self.by_pid.entry((host, pid)).or_default().insert((base, at, group));
            }
        }
    }

    fn join(&mut self, group: usize, sighting: OomSighting) {
        if let Some(members) = self.members.get_mut(group) {
            members.push(sighting);
        }
    }

    /// The group of the nearest kill of that pid.
    fn of_pid(&self, host: Option<usize>, s: &OomSighting) -> Option<usize> {
        let pid = s.facts.pid?;
        let Some((base, at)) = s.clock() else {
            let groups = self.groups_of_pid.get(&(host, pid))?;
            return groups.first().copied().filter(|_| groups.len() == 1);
        };
        let times = self.by_pid.get(&(host, pid))?;
        if s.role == Role::Reaped {
            let (b, t, group) = *times.range(..=(base, at, usize::MAX)).next_back()?;
            return (b == base && at.saturating_sub(t) <= REAP_NANOS).then_some(group);
        }
        let span = (base, at.saturating_sub(COPY_NANOS), 0)..=(base, at.saturating_add(COPY_NANOS), usize::MAX);
        times.range(span).take(LOOK).min_by_key(|(_, t, group)| (t.abs_diff(at), *group)).map(|(.., group)| *group)
    }

    /// The group of the last kill of that job, pod or container before `s`, where `s` tells of its end.
    fn of_workload(&self, host: Option<usize>, s: &OomSighting) -> Option<usize> {
        let (base, at) = s.clock()?;
        let times = self.by_workload.get(&s.facts.workload.as_ref()?.key()?)?;
        let ends = s.time.is_some_and(|t| t.source == TimeSource::Accounting);
        let span = (base, at.saturating_sub(JOB_NANOS), 0)..=(base, at.saturating_add(COPY_NANOS), usize::MAX);
        let fits = |group: usize| {
            let of = self.hosts.get(group).copied().flatten();
            let mut members = self.members.get(group).into_iter().flatten().take(LOOK);
            (of.is_none() || host.is_none() || of == host)
                && members.any(|m| {
                    ends || matches!(m.role, Role::Killed | Role::Constraint) && m.told_by == Some(ToldBy::Kernel)
                })
        };
        times.range(span).rev().take(LOOK).map(|(.., group)| *group).find(|g| fits(*g))
    }

    /// The group of the nearest kill that `s`, which has no pid, can be a report of.
    fn of_report(&self, host: Option<usize>, s: &OomSighting) -> Option<usize> {
        if let Some(group) = self.of_workload(host, s) {
            return Some(group);
        }
        let (base, at) = s.clock()?;
        let before = self.by_time.range((host, base, at.saturating_sub(COPY_NANOS), 0)..(host, base, at, 0)).rev();
        let after = self.by_time.range((host, base, at, 0)..=(host, base, at.saturating_add(COPY_NANOS), usize::MAX));
        let fits = |group: usize| {
            let mut members = self.members.get(group).into_iter().flatten().take(LOOK);
            members.all(|m| compatible(m, s))
        };
        (before.take(LOOK).chain(after.take(LOOK)))
            .filter(|(.., group)| fits(*group))
            .min_by_key(|(.., t, group)| (t.abs_diff(at), *group))
            .map(|(.., group)| *group)
    }

    /// The kill that follows the dump `s`.
    fn of_dump(&self, host: Option<usize>, s: &OomSighting) -> Option<usize> {
        let (base, at) = s.clock()?;
        let span = (host, base, at, 0)..=(host, base, at.saturating_add(DUMP_NANOS), usize::MAX);
        let kernel = |group: usize| {
            let mut members = self.members.get(group).into_iter().flatten().take(LOOK);
            members
                .any(|m| matches!(m.role, Role::Killed | Role::Constraint) && m.facts.kind != Some(OomKind::Userspace))
        };
        let lacks = |group: usize| {
            let members = || self.members.get(group).into_iter().flatten().take(LOOK);
            let (mine, has) = (&s.facts, |f: fn(&Facts) -> bool| members().any(|m| f(&m.facts)));
            mine.invoked_by.is_some() && !has(|f| f.invoked_by.is_some())
                || mine.host_memory.is_some() && !has(|f| f.host_memory.is_some())
                || mine.limit_bytes.is_some() && !has(|f| f.limit_bytes.is_some())
                || mine.host_swap.is_some() && !has(|f| f.host_swap.is_some())
                || mine.limit_cgroup.is_some() && !has(|f| f.limit_cgroup.is_some())
                || mine.score.is_some() && !has(|f| f.score.is_some())
        };
        let kills = || self.by_time.range(span.clone()).take(LOOK).map(|(.., group)| *group).filter(|g| kernel(*g));
        kills().find(|g| lacks(*g)).or_else(|| kills().next())
    }
}

/// Whether nothing in the two says that they are of two kills.
fn compatible(a: &OomSighting, b: &OomSighting) -> bool {
    // systemd tells alike of what the kernel killed and of what systemd-oomd did.
    let class = |s: &OomSighting| match s.facts.kind {
        Some(OomKind::Gpu) => Some(2),
        Some(OomKind::Userspace) => Some(1),
        None if s.told_by == Some(ToldBy::Systemd) => None,
        _ => Some(0),
    };
    let classes = match (class(a), class(b)) {
        (Some(a), Some(b)) => a == b,
        (one, other) => one.or(other) != Some(2),
    };
    let (a, b) = (&a.facts, &b.facts);
    // The kernel cuts names at 15 bytes.
    let names = match (&a.process, &b.process) {
        (Some(a), Some(b)) => a.starts_with(b.as_str()) || b.starts_with(a.as_str()),
        _ => true,
    };
    let workloads = match (&a.workload, &b.workload) {
        (Some(a), Some(b)) => a.agrees(b),
        _ => true,
    };
    classes && names && workloads
}

/// Makes one event of all sightings of one kill. The result does not depend on the order of `sightings`; time grows as
/// n log n.
pub fn merge(mut sightings: Vec<OomSighting>) -> Merged {
    let mut names = Names::default();
    sightings.iter().filter_map(OomSighting::host).for_each(|h| names.add(h));
    for s in &mut sightings {
        s.host = s.host.as_deref().map(|h| names.canonical(h));
    }
    sightings.sort_by(|a, b| order(a).cmp(&order(b)));
    let hosts: Vec<String> =
        sightings.iter().filter_map(|s| s.host.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let number = |s: &OomSighting| s.host.as_ref().and_then(|h| hosts.binary_search(h).ok());

    let mut groups = Groups::default();
    let (with_figures, rest): (Vec<_>, Vec<_>) = sightings.into_iter().partition(|s| s.facts.figures().is_some());
    by_figures(&mut groups, with_figures, number);
    let (with_pid, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|s| s.facts.pid.is_some());
    let (reaped, with_pid): (Vec<_>, Vec<_>) = with_pid.into_iter().partition(|s| s.role == Role::Reaped);
    let (dumps, reports): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|s| matches!(s.role, Role::Invoked | Role::Dump));
    for s in with_pid.into_iter().chain(reaped) {
        let host = number(&s);
        match groups.of_pid(host, &s) {
            Some(group) => groups.join(group, s),
            None => _ = groups.found(host, s),
        }
    }
    // Reports that name a workload first: one without may then join them.
    let (named, unnamed): (Vec<_>, Vec<_>) = reports.into_iter().partition(|s| s.facts.workload.is_some());
    for s in named.into_iter().chain(unnamed) {
        let host = number(&s);
        match groups.of_report(host, &s) {
            Some(group) => groups.join(group, s),
            None => _ = groups.found(host, s),
        }
    }
    for s in dumps {
        let host = number(&s);
        match groups.of_dump(host, &s) {
            Some(group) => groups.join(group, s),
            // Without a victim the OOM killer still ran; figures of memory alone are printed by other dumps too.
            None if s.role == Role::Invoked => _ = groups.found(host, s),
            None => {}
        }
    }
    let mut merged = Merged::default();
    for members in groups.members {
        match event(&members) {
            Some(event) if event.time_kind != TimeSource::None => merged.events.push(event),
            event => {
                merged.undated.extend(event);
                merged.untimed.extend(members);
            }
        }
    }
    merged.events.sort_by(|a, b| (a.time, &a.host, a.pid, &a.id).cmp(&(b.time, &b.host, b.pid, &b.id)));
    merged.untimed.sort_by(|a, b| order(a).cmp(&order(b)));
    merged
}

/// A total order that does not depend on the order of arrival.
fn order(s: &OomSighting) -> impl Ord + '_ {
    let line = s.sources.first().map(|l| (&l.path, l.line));
    (&s.host, s.clock(), s.role, s.facts.pid, line)
}

fn by_figures(groups: &mut Groups, sightings: Vec<OomSighting>, number: impl Fn(&OomSighting) -> Option<usize>) {
    let mut found: BTreeMap<(u64, u64, u64), ByHost> = BTreeMap::new();
    for s in sightings {
        if let Some(figures) = s.facts.figures() {
            let of_host = found.entry(figures).or_default().entry(number(&s));
            of_host.or_insert_with(|| Vec::with_capacity(1)).push(s);
        }
    }
    for (_, mut hosts) in found {
        // A copy in a log that names no host is of the one host that has these figures.
        if hosts.len() == 2
            && let Some(lost) = hosts.remove(&None)
            && let Some((_, sightings)) = hosts.iter_mut().next()
        {
            sightings.extend(lost);
        }
        for (host, sightings) in hosts {
            let mut group = None;
            for s in sightings {
                match group {
                    None => group = Some(groups.found(host, s)),
                    Some(group) => {
                        groups.index(group, &s);
                        groups.join(group, s);
                    }
                }
            }
        }
    }
}

/// How far the moment of the kill may lie from a line of this role, beyond the line's own uncertainty.
fn lag(role: Role) -> i64 {
    match role {
        Role::Killed => 0,
        Role::Constraint => NANOS / 1000,
        Role::Invoked | Role::Report | Role::Dump => NANOS,
        Role::Reaped => 10 * NANOS,
    }
}

fn event(members: &[OomSighting]) -> Option<OomEvent> {
    let mut ranked: Vec<&OomSighting> = members.iter().collect();
    ranked.sort_by_key(|s| {
        let time = s.time.map(|t| (t.assumed, t.uncertainty_nanos.saturating_add(lag(s.role)), t.at));
        (time.is_none(), time, s.role, s.sources.first().map(|l| (l.path.clone(), l.line)))
    });
    let best = *ranked.first()?;
    let time = best.time;
    let mut by_role = ranked.clone();
    by_role.sort_by_key(|s| s.role);
    let mut facts = Facts::default();
    by_role.iter().for_each(|s| facts.fill(&s.facts));
    let host = ranked.iter().find_map(|s| s.host.clone());
    let boot_nanos = by_role.iter().find_map(|s| s.boot_nanos);
    let told_by = ranked.iter().filter_map(|s| s.told_by).min();
    let mut sources: Vec<Source> = members.iter().flat_map(|s| s.sources.iter().cloned()).collect();
    sources.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    sources.dedup_by(|a, b| a.path == b.path && a.line == b.line);
    let more_sources = sources.len().saturating_sub(LINES) as u64;
    sources.truncate(LINES);
    sources.shrink_to_fit();
    let reaped = ranked.iter().filter_map(|s| s.reaped_at).min_by_key(|t| (t.assumed, t.uncertainty_nanos, t.at));
    Some(OomEvent {
        id: identity(
            host.as_deref(),
            &facts,
            time.map_or(boot_nanos.unwrap_or(0), |t| t.at.0),
            time.is_none().then_some(&sources),
        ),
        host,
        time: time.map_or(Timestamp(0), |t| t.at),
        time_kind: time.map_or(TimeSource::None, |t| t.source),
        at_or_after: time.is_some_and(|t| t.at_or_after),
        boot_nanos,
        told_by,
        writer: ranked.iter().find_map(|s| s.writer.clone()).filter(|_| told_by == Some(ToldBy::Process)),
        uncertainty_nanos: time.map_or(0, |t| t.uncertainty_nanos.saturating_add(lag(best.role))),
        time_source: time.map_or("no line tells a time", |t| t.from),
        time_is_assumed: time.is_some_and(|t| t.assumed),
        alternative_time: time.and_then(|t| t.alternative),
        kind: facts.kind.unwrap_or(OomKind::Host),
        process: facts.process,
        pid: facts.pid,
        total_vm_bytes: facts.total_vm,
        anon_rss_bytes: facts.anon_rss,
        file_rss_bytes: facts.file_rss,
        shmem_rss_bytes: facts.shmem_rss,
        uid: facts.uid,
        oom_score: facts.score,
        oom_score_adj: facts.score_adj,
        cgroup: facts.cgroup,
        limit_cgroup: facts.limit_cgroup,
        limit_bytes: facts.limit_bytes,
        usage_bytes: facts.usage_bytes,
        constraint: facts.constraint,
        invoked_by: facts.invoked_by,
        reaped_at: reaped.map(|t| t.at),
        host_memory_bytes: facts.host_memory,
        host_swap_bytes: facts.host_swap,
        workload: facts.workload,
        occurrences: facts.occurrences.unwrap_or(1).max(1),
        sources,
        more_sources,
    })
}

/// With figures the id holds whatever the clocks say and however the host is written; without them it needs the time.
fn identity(host: Option<&str>, facts: &Facts, at: i64, lines: Option<&Vec<Source>>) -> String {
    let what = match (facts.figures(), lines.and_then(|l| l.first())) {
        (Some(figures), _) => format!("{figures:?}"),
        (None, None) => format!("{:?} {:?} {:?} {at}", facts.pid, facts.process, facts.kind),
        // Without any time only where it stands tells it from others.
        (None, Some(line)) => {
            format!("{:?} {:?} {:?} {at} {}:{}", facts.pid, facts.process, facts.kind, line.path, line.line)
        }
    };
    let digest = Sha256::digest(format!("oom/1 {:?} {what}", host.map(short)));
    digest.iter().take(8).fold(String::new(), |mut id, byte| {
        _ = write!(id, "{byte:02x}");
        id
    })
}
