//! NCCL failures: communicators that never came up, splits that failed, and the stray that broke them.

use std::collections::{BTreeMap, BTreeSet};

use super::trigger::{Fit, Trigger};
use super::{Evidence, HostPart, Incident};
use crate::finding::Finding;
use crate::net::Endpoint;
use crate::words::{Cause, IncidentKind, Scope, Verdict};

/// Rules that say what broke, and rules that say who felt it.
const BROKE: [&str; 3] = ["nccl-root-died", "nccl-split-failed", "nccl-accept-failed"];
const FELT: [&str; 2] = ["nccl-rank-refused", "nccl-rank-waits"];

/// One incident for each listener that broke, and the ranks that felt it.
pub(super) fn incidents(e: &Evidence<'_>) -> Vec<Incident> {
    let mut by_source: BTreeMap<(IncidentKind, String), Vec<usize>> = BTreeMap::new();
    for (i, f) in e.findings.iter().enumerate().filter(|(_, f)| BROKE.contains(&f.rule)) {
        let (kind, key) = match f.rule {
            "nccl-root-died" => (IncidentKind::NcclInit, f.target.to_string()),
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
    let end = felt.iter().map(|x| x.time).max().unwrap_or(f.time).max(f.time);
    let lag = end.seconds_since(f.time);
    let trigger = Trigger { finding: first, effect: 0, fit: Fit::Unknown, selected: false, lag, lag_uncertainty: 0.0 };
    // A stray that ended the root, and ranks that were turned away afterwards, are two facts that agree.
    let verdict = match (felt.is_empty(), kind) {
        (false, _) | (true, IncidentKind::NcclSplit) => Verdict::Confirmed,
        (true, _) => Verdict::Probable,
    };
    let mut hosts: BTreeMap<String, HostPart> = BTreeMap::new();
    for i in broken {
        let x = &e.findings[*i];
        let part = part(e, &mut hosts, x.target, &trigger, verdict);
        part.died = Some(x.time);
        part.reasons.push(x.explanation.clone());
        part.reasons.extend(x.evidence.iter().cloned());
    }
    for x in &felt {
        let part = part(e, &mut hosts, x.source, &trigger, verdict);
        part.reasons.push(x.explanation.clone());
        part.reasons.extend(x.evidence.iter().filter(|t| !part.reasons.contains(t)).cloned().collect::<Vec<_>>());
    }
    let what = match kind {
        IncidentKind::NcclInit => "An NCCL communicator never came up: its bootstrap root",
        _ => "An NCCL communicator split failed: a listener of its ranks",
    };
    let refused: u64 = felt.iter().map(|x| x.occurrences).sum();
    let turned = match refused {
        0 => "No rank was seen to be turned away.".to_string(),
        1 => "One rank was seen to be turned away or to wait.".to_string(),
        n => format!("{n} ranks were seen to be turned away or to wait."),
    };
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
        "{what} {} was broken by a connection from {} at {}. {turned}{}{}",
        f.target,
        if source == f.source.address.to_string() { source } else { format!("{} ({source})", f.source.address) },
        super::summary::clock(f.time),
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
        cause: Cause::Scan,
        chance: None,
        survivors: Vec::new(),
        summary,
        settled_by: Vec::new(),
    })
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
    trigger: &Trigger,
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
            trigger: Some(trigger.clone()),
            died: None,
            verdict,
            reasons: Vec::new(),
            coverage: covered.level,
        }
    })
}
