//! Findings, bounded.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::incident::Incident;

/// Keeps the `max` worst findings, in order of time; how many were left out. What set an incident off is always kept:
/// whoever sends ten thousand probes more does not thereby hide the one that killed.
pub(super) fn bounded(findings: &mut Vec<Finding>, incidents: &mut [Incident], max: usize) -> usize {
    if findings.len() <= max {
        return 0;
    }
    let mut triggers: Vec<&mut usize> = incidents
        .iter_mut()
        .flat_map(|i| &mut i.hosts)
        .filter_map(|h| h.trigger.as_mut().map(|t| &mut t.finding))
        .collect();
    let needed: BTreeSet<usize> = triggers.iter().map(|t| **t).collect();
    let mut by_weight: Vec<usize> = (0..findings.len()).collect();
    by_weight.sort_by_key(|i| (!needed.contains(i), Reverse(findings[*i].severity), *i));
    by_weight.truncate(max.max(needed.len()));
    by_weight.sort_unstable();
    for trigger in &mut triggers {
        **trigger = by_weight.partition_point(|i| *i < **trigger);
    }
    let left_out = findings.len() - by_weight.len();
    let mut keep = vec![false; findings.len()];
    by_weight.iter().for_each(|i| keep[*i] = true);
    let mut i = 0;
    findings.retain(|_| {
        i += 1;
        keep[i - 1]
    });
    left_out
}
