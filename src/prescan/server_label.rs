//! Servers in words, those that do the same under one name.

use super::fleet::{Fleet, Kind, Target};
use super::matrix::Matrix;
use super::row::Row;

/// `PyTorch 1.9–2.1 store, poll`, `NCCL 2.16.2–2.26.2 bootstrap-root`.
fn name(targets: &[&Target]) -> String {
    let (Some(first), Some(last)) = (targets.first(), targets.last()) else { return String::new() };
    let clean = |v: &str| crate::escape::clean(v.as_bytes(), 24);
    let versions = if targets.len() == 1 {
        clean(&first.version)
    } else {
        format!("{}–{}", clean(&first.version), clean(&last.version))
    };
    if let Kind::Door(door) = first.kind {
        let product = door.product.split(" (").next().unwrap_or_default();
        let listener = door.listener.trim_start_matches(product).trim_start();
        return format!("{product} {versions} {listener}");
    }
    match first.backend() {
        Some(backend) => format!("PyTorch {versions} store, {backend}"),
        None => format!("NCCL {versions} {}", first.role()),
    }
}

/// Servers of one kind and equal `key`s, next to each other in the fleet, as one: its name and indices.
pub(super) fn groups<K: PartialEq>(fleet: &Fleet, key: impl Fn(usize) -> Option<K>) -> Vec<(String, Vec<usize>)> {
    let mut kinds: Vec<(&str, Option<&str>, Vec<usize>)> = Vec::new();
    for (i, target) in fleet.targets.iter().enumerate() {
        let kind = (target.name(), target.backend());
        match kinds.iter_mut().find(|k| (k.0, k.1) == kind) {
            Some(known) => known.2.push(i),
            None => kinds.push((kind.0, kind.1, vec![i])),
        }
    }
    let mut all = Vec::new();
    for (_, _, members) in kinds {
        let mut run: Vec<usize> = Vec::new();
        let mut end = |run: &mut Vec<usize>| {
            let targets: Vec<&Target> = run.iter().filter_map(|i| fleet.targets.get(*i)).collect();
            if !targets.is_empty() {
                all.push((name(&targets), std::mem::take(run)));
            }
        };
        let mut before: Option<K> = None;
        for i in members {
            let this = key(i);
            if this.is_none() || this != before {
                end(&mut run);
            }
            if this.is_some() {
                run.push(i);
            }
            before = this;
        }
        end(&mut run);
    }
    all
}

/// The servers that answer a case alike: name, the row of the last of them.
pub(super) fn alike<'a>(
    board: &'a Matrix,
    fleet: &Fleet,
    case: usize,
    wanted: impl Fn(&Row) -> bool,
) -> Vec<(String, &'a Row)> {
    let key = |t: usize| {
        let row = board.row(case, t).filter(|r| wanted(r))?;
        Some((row.outcome, row.allocates_bytes, row.blocks_server, row.kills))
    };
    groups(fleet, key)
        .into_iter()
        .filter_map(|(name, members)| Some((name, board.row(case, *members.last()?)?)))
        .collect()
}
