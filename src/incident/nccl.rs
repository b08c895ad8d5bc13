//! Failures of groups: NCCL communicators that never came up, splits that failed, Gloo groups whose pair was taken, and
//! the stray that broke them.

use std::collections::{BTreeMap, BTreeSet};

use super::trigger::{Fit, Trigger};
use super::{Evidence, HostPart, Incident};
use crate::finding::Finding;
use crate::net::{Address, Endpoint};
use crate::time::Timestamp;
use crate::vocabulary::{Cause, IncidentKind, Scope, Severity, Verdict};

/// Rules that say what broke, and rules that say who felt it.
const BROKE: [&str; 5] =
    ["nccl-root-died", "nccl-split-failed", "nccl-accept-failed", "gloo-stray-took-pair", "gloo-number-by-stranger"];
const FELT: [&str; 2] = ["nccl-rank-refused", "nccl-rank-waits"];

/// One incident for each listener that broke, and the ranks that felt it.
pub(super) fn incidents(e: &Evidence<'_>) -> Vec<Incident> {
    let mut by_source: BTreeMap<(IncidentKind, String), Vec<usize>> = BTreeMap::new();
    for (i, f) in
        e.findings.iter().enumerate().filter(|(_, f)| BROKE.contains(&f.rule) && f.severity == Severity::Critical)
    {
        let (kind, key) = match f.rule {
            "nccl-root-died" => (IncidentKind::NcclInit, f.target.to_string()),
            "gloo-stray-took-pair" | "gloo-number-by-stranger" => {
                (IncidentKind::GlooGroup, f.source.address.to_string())
            }
            // The listeners of all ranks of one communicator fail together.
            _ => (IncidentKind::NcclSplit, f.source.address.to_string()),
        };
        by_source.entry((kind, key)).or_default().push(i);
    }
    let mut felt: BTreeMap<Endpoint, Vec<usize>> = BTreeMap::new();
    for (i, f) in e.findings.iter().enumerate().filter(|(_, f)| FELT.contains(&f.rule)) {
        felt.entry(f.target).or_default().push(i);
    }
    by_source.into_iter().filter_map(|((kind, _), broken)| incident(e, kind, &broken, &felt)).collect()
}

fn incident(
    e: &Evidence<'_>,
    kind: IncidentKind,
    broken: &[usize],
    felt: &BTreeMap<Endpoint, Vec<usize>>,
) -> Option<Incident> {
    let first = *broken.first()?;
    let f = e.findings.get(first)?;
    let targets: BTreeSet<Endpoint> = broken.iter().map(|i| e.findings[*i].target).collect();
    let felt: BTreeSet<usize> = targets.iter().filter_map(|t| felt.get(t)).flatten().copied().collect();
    let felt: Vec<&Finding> = felt.into_iter().map(|i| &e.findings[i]).collect();
    let failures = broken.iter().filter_map(|i| e.findings.get(*i)?.failed);
    let end = felt.iter().map(|x| x.time).chain(failures).max().unwrap_or(f.time).max(f.time);
    let trigger = |found: usize, failed: Timestamp| {
        let lag = e.findings.get(found).map_or(0.0, |x| failed.seconds_since(x.time)).max(0.0);
        Trigger {
            finding: found,
            effect: 0,
            fit: Fit::Unknown,
            selected: false,
            at_limit: false,
            lag,
            lag_uncertainty: 0.0,
        }
    };
    // A stray that ended the root, and ranks that were turned away afterwards, are two facts that agree.
    let verdict = match (felt.is_empty(), kind) {
        (false, _) | (true, IncidentKind::NcclSplit) => Verdict::Confirmed,
        // The member that was refused, or that sent the same number, is the second fact.
        (true, IncidentKind::GlooGroup) if f.failed.is_some() => Verdict::Confirmed,
        (true, _) => Verdict::Probable,
    };
    let mut hosts: BTreeMap<String, HostPart> = BTreeMap::new();
    for i in broken {
        let x = &e.findings[*i];
        let failed = x.failed.unwrap_or(x.time);
        let part = part(e, &mut hosts, x.target, trigger(*i, failed), verdict);
        if kind == IncidentKind::NcclInit {
            part.died = Some(part.died.map_or(failed, |t| t.min(failed)));
        }
        part.reasons.push(x.explanation.clone());
        part.reasons.extend(x.evidence.iter().cloned());
    }
    for x in &felt {
        let part = part(e, &mut hosts, x.source, trigger(first, x.time), verdict);
        part.reasons.push(x.explanation.clone());
        part.reasons.extend(x.evidence.iter().filter(|t| !part.reasons.contains(t)).cloned().collect::<Vec<_>>());
    }
    let what = match kind {
        IncidentKind::NcclInit => "An NCCL communicator never came up: its bootstrap root",
        IncidentKind::GlooGroup => "A Gloo process group failed: the listener of a rank",
        _ => "An NCCL communicator split failed: a listener of its ranks",
    };
    let turned = if kind == IncidentKind::GlooGroup { f.explanation.clone() } else { turned_away(&felt) };
    let others: BTreeSet<&str> = felt
        .iter()
        .chain(std::iter::once(&f))
        .flat_map(|x| &x.evidence)
        .map(String::as_str)
        .filter(|t| t.contains("never have been seen"))
        .collect();
    let source = e.host_of(f.source.address);
    let unseen: Vec<String> = others.into_iter().map(sentence).collect();
    let summary = format!(
        "{what} {} was broken by a connection from {} at {}{}. {turned}{}{}",
        f.target,
        if source == f.source.address.to_string() { source } else { format!("{} ({source})", f.source.address) },
        super::summary::clock(f.time),
        match f.failed.map(|t| t.seconds_since(f.time)) {
            Some(s) if s >= 0.1 => format!("; it failed {s:.1} s later"),
            _ => String::new(),
        },
        if unseen.is_empty() { "" } else { " " },
        unseen.join(" ")
    );
    let scope = if hosts.len() > 1 { Scope::Synchronized } else { Scope::SingleHost };
    Some(Incident {
        id: f.id.clone(),
        kind,
        scope,
        verdict,
        start: f.time,
        end,
        hosts: hosts.into_values().collect(),
        source: Some(f.source.address),
        tool: None,
        cause: cause(e, broken),
        chance: None,
        survivors: Vec::new(),
        summary,
        settled_by: Vec::new(),
    })
}

/// Who felt it. A rank that is refused tries again and again, and each attempt is seen: hosts are counted, not attempts.
fn turned_away(felt: &[&Finding]) -> String {
    let waiting = felt.iter().filter(|x| x.rule == "nccl-rank-waits").count();
    let refused: BTreeSet<Address> =
        felt.iter().filter(|x| x.rule == "nccl-rank-refused").map(|x| x.source.address).collect();
    let attempts: u64 = felt.iter().filter(|x| x.rule == "nccl-rank-refused").map(|x| x.occurrences).sum();
    let waits = match waiting {
        0 => None,
        1 => Some("one rank had checked in and waits".to_string()),
        n => Some(format!("{n} ranks had checked in and wait")),
    };
    let refused = match (refused.len(), attempts) {
        (0, _) => None,
        (1, 1) => Some("one attempt from one host was refused".to_string()),
        (1, n) => Some(format!("{n} attempts from one host were refused")),
        (hosts, n) => Some(format!("{n} attempts from {hosts} hosts were refused")),
    };
    match (waits, refused) {
        (None, None) => "No rank was seen to be turned away.".to_string(),
        (a, b) => sentence(&[a, b].into_iter().flatten().collect::<Vec<_>>().join("; ")),
    }
}

/// A port scan, one stray connection, or ranks of the job itself that do not agree.
fn cause(e: &Evidence<'_>, broken: &[usize]) -> Cause {
    let broken: Vec<&Finding> = broken.iter().filter_map(|i| e.findings.get(*i)).collect();
    let of_launch = |x: &&Finding| {
        let same = |y: &Finding| (y.source, y.target, y.time) == (x.source, x.target, x.time);
        e.findings.iter().any(|y| y.rule == "nccl-rank-mismatch" && same(y))
    };
    if broken.iter().all(of_launch) {
        return Cause::LaunchMismatch;
    }
    let sources: BTreeSet<Address> = broken.iter().map(|x| x.source.address).collect();
    let strays = e.findings.iter().filter(|y| sources.contains(&y.source.address) && y.rule != "nccl-rank-mismatch");
    // Several places, or several things at one: a health check does the same at one place for ever.
    let tried: BTreeSet<(Address, Endpoint, &str)> = strays
        .filter(|y| !FELT.contains(&y.rule) && !BROKE.contains(&y.rule))
        .map(|y| (y.source.address, y.target, y.rule))
        .collect();
    let several = tried.len() > sources.len();
    if several || sources.iter().any(|s| e.scanners.contains(s)) { Cause::Scan } else { Cause::ForeignClient }
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

fn part<'a>(
    e: &Evidence<'_>,
    hosts: &'a mut BTreeMap<String, HostPart>,
    at: Endpoint,
    trigger: Trigger,
    verdict: Verdict,
) -> &'a mut HostPart {
    let host = e.host_of(at.address);
    hosts.entry(host.clone()).or_insert_with(|| {
        let found = &e.findings[trigger.finding];
        let covered = e.watch.of(e.names, &host, found.time, Some(found.time), e.window);
        HostPart {
            host,
            address: Some(at.address),
            event: None,
            trigger: Some(trigger),
            died: None,
            verdict,
            reasons: Vec::new(),
            coverage: covered.level,
            bystander: false,
            claims_seen: true,
            swapped_with: None,
        }
    })
}
