//! Facts from several places, joined: who is meant by a path, and what was given twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::from_store::{Stored, StoredCapture, StoredSet};
use super::inputs::{Inputs, Refused};
use crate::capture::Summary;
use crate::escape::clean;
use crate::names::{Names, short};
use crate::net::Address;
use crate::time::Timestamp;

/// What machines say of themselves. An address that several have (a bridge of containers) is nobody's name; what the
/// operator's lists say comes first.
pub(super) fn name_machines(machines: &[(String, Vec<Address>)], names: &mut Names) {
    let mut owners: BTreeMap<Address, BTreeSet<&str>> = BTreeMap::new();
    for (host, addresses) in machines {
        for address in addresses {
            owners.entry(*address).or_default().insert(host);
        }
    }
    for (address, owners) in owners {
        if let Some(host) = owners.first().filter(|_| owners.len() == 1 && !address.is_loopback()) {
            names.add(host, address);
            names.add_node(address);
        }
    }
}

/// What a hosts list that came with evidence of `whose` claims against what the operator's lists and the machines
/// themselves say: named, and the list is not used but for what agrees.
pub(super) fn claimed_names(
    whose: &str,
    path: &std::path::Path,
    text: &str,
    machines: &[(String, Vec<Address>)],
    names: &mut Names,
) -> Vec<String> {
    let mut claimed = Names::default();
    crate::hosts::read(text, None, &mut claimed);
    let themselves: BTreeMap<String, &Vec<Address>> = machines.iter().map(|(name, all)| (short(name), all)).collect();
    let (mut contradicts, mut agrees) = (Vec::new(), Vec::new());
    for address in claimed.all_addresses().collect::<Vec<_>>() {
        let Some(name) = claimed.host(address).map(str::to_string) else { continue };
        let known = names.host(address).filter(|known| short(known) != short(&name)).map(str::to_string);
        let told = themselves.get(&short(&name)).filter(|all| short(whose) != short(&name) && !all.contains(&address));
        match (known, told) {
            (Some(known), _) => contradicts.push(format!("{address} is {name}, not {known}")),
            (None, Some(_)) => contradicts.push(format!("{name} has {address}, which {name} itself does not say")),
            (None, None) => agrees.push((name, address)),
        }
    }
    if contradicts.is_empty() {
        return Vec::new();
    }
    agrees.iter().for_each(|(name, address)| names.add(name, *address));
    let more = if contradicts.len() > 3 { format!(", and {} more", contradicts.len() - 3) } else { String::new() };
    contradicts.truncate(3);
    let path = clean(path.to_string_lossy().as_bytes(), 200);
    let text = contradicts.join("; ");
    vec![clean(
        format!("the hosts list {path} in evidence of {whose} claims that {text}{more}: not used").as_bytes(),
        600,
    )]
}

/// Paths that captures of several hosts have.
pub(super) fn shared_paths(sets: &[StoredSet]) -> BTreeSet<PathBuf> {
    let mut labels: BTreeMap<&PathBuf, BTreeSet<&Option<String>>> = BTreeMap::new();
    for set in sets {
        for capture in &set.captures {
            labels.entry(&capture.path).or_default().insert(&set.label);
        }
    }
    labels.into_iter().filter(|(_, l)| l.len() > 1).map(|(p, _)| p.clone()).collect()
}

pub(super) fn refused(paths: &[(String, String)]) -> Inputs {
    let one = |(label, error): &(String, String)| Refused {
        label: label.clone(),
        error: error.clone(),
        named: true,
        warning_only: false,
    };
    let all: BTreeSet<&(String, String)> = paths.iter().collect();
    let mut inputs = Inputs::default();
    inputs.refused = all.into_iter().map(one).collect();
    inputs
}

/// A capture as it is told from others: the host that it came from, path and first packet.
type Print = (Option<String>, PathBuf, Option<Timestamp>);

/// What was given twice, in two cases or copies of one, counts once; so does what one of them holds only the beginning of.
pub(super) fn once(stored: &mut Stored) {
    // Whatever the order in which they came.
    let prints = |s: &StoredSet| -> Vec<(Print, u64)> {
        let one = |c: &StoredCapture| {
            let summary = c.summary.as_ref();
            let packets = summary.map_or(0, |s| s.packets);
            ((s.host.clone(), c.path.clone(), summary.and_then(Summary::first)), packets)
        };
        s.captures.iter().map(one).collect()
    };
    let weight = |s: &StoredSet| prints(s).iter().map(|p| p.1).sum::<u64>();
    stored.sets.sort_by_cached_key(|s| (prints(s), s.segments.iter().map(Vec::len).collect::<Vec<_>>()));
    stored.sets.sort_by_key(|s| std::cmp::Reverse(weight(s)));
    let mut best: BTreeMap<Print, (u64, usize)> = BTreeMap::new();
    let mut number = 0;
    stored.sets.retain(|s| {
        let prints = prints(s);
        let mut whole: BTreeSet<Option<usize>> = BTreeSet::new();
        for (print, packets) in &prints {
            whole.insert(best.get(print).filter(|(p, _)| packets <= p).map(|(_, set)| *set));
        }
        // All of its captures are in one other set, as far at least.
        if whole.len() == 1 && whole.first().is_some_and(Option::is_some) {
            return false;
        }
        for (print, packets) in prints {
            let place = best.entry(print).or_insert((packets, number));
            *place = (*place).max((packets, number));
        }
        number += 1;
        true
    });
    let mut logs = BTreeSet::new();
    stored.logs.retain(|l| logs.insert((l.path.clone(), l.host.clone(), l.from.clone(), l.lines.clone())));
    let mut hosts = BTreeSet::new();
    stored.hosts.retain(|h| hosts.insert(h.clone()));
    stored.notes.sort();
    stored.notes.dedup();
}
