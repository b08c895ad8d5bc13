//! Addresses as iproute2 prints them, alone or gathered from many hosts.

use super::read::{ListFormat, Read};
use crate::names::Names;
use crate::oom::{expand_nodeset, is_host};
use serde_json::Value;
use std::net::IpAddr;

/// `host: rest` of pdsh and clush: no host, and the whole line, without a label.
pub(super) fn label(line: &str) -> (Option<&str>, &str) {
    match line.split_once(": ") {
        Some((host, rest)) if is_host(host) => (Some(host), rest),
        _ => (None, line),
    }
}

/// A rule of dashes around the hosts of a block (dshbak, `clush -b`).
pub(super) fn is_rule(line: &str) -> bool {
    matches!(line.len(), 15 | 16) && line.bytes().all(|b| b == b'-')
}

/// The addresses of `eth0@if5  UP  192.0.2.11/24 2001:db8::11/64 …`.
pub(super) fn brief(line: &str) -> Option<Vec<IpAddr>> {
    const STATES: [&str; 7] = ["UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "TESTING", "NOTPRESENT"];
    let mut words = line.split_whitespace();
    let _interface = words.next()?;
    words.next().filter(|s| STATES.contains(s))?;
    // Words after an address (`metric 100`, `peer …`) are passed over.
    Some(words.filter_map(|w| w.split(['/', '%']).next()?.parse().ok()).take(4096).collect())
}

pub(super) fn read_brief(text: &str, host: Option<&str>, names: &mut Names) -> Read {
    const REQUIRED: &str = "INTERFACE STATE ADDRESS/LENGTH… of a known host (name the file for its host)";
    let mut read = Read::new(ListFormat::IpBrief);
    let mut block: Option<String> = host.map(str::to_owned);
    let mut ruled = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if is_rule(line) {
            ruled = true;
            continue;
        }
        // Equal addresses on several hosts name none of them.
        if std::mem::take(&mut ruled)
            && let Some(nodes) = expand_nodeset(line)
        {
            block = <[_; 1]>::try_from(nodes.hosts).ok().map(|[h]| h.to_string());
            continue;
        }
        let (labelled, rest) = label(line);
        match (brief(rest), labelled.or(block.as_deref())) {
            (Some(found), Some(host)) => found.into_iter().for_each(|ip| read.pair(names, host, ip)),
            (Some(found), None) if found.iter().all(|ip| !super::names_a_host(*ip)) => {}
            (None, _) if line.is_empty() => {}
            _ => read.bad(number, REQUIRED, line),
        }
    }
    read
}

pub(super) fn read_json(text: &str, host: Option<&str>, names: &mut Names) -> Read {
    const REQUIRED: &str = "a list of interfaces with addr_info, of a known host (name the file for its host)";
    let mut read = Read::new(ListFormat::IpJson);
    let whole = serde_json::from_str::<Value>(text);
    let parts: Vec<(usize, Option<&str>, Result<Value, _>)> = match whole {
        Ok(value) => vec![(0, None, Ok(value))],
        // One list a line, of many hosts.
        Err(_) => {
            let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
            lines.map(|(n, l)| (n, label(l).0, serde_json::from_str(label(l).1))).collect()
        }
    };
    for (number, labelled, value) in parts {
        let (Ok(value), Some(host)) = (&value, labelled.or(host)) else {
            read.bad(number, REQUIRED, text.lines().nth(number).unwrap_or_default());
            continue;
        };
        let interfaces = value.as_array().into_iter().flatten();
        for address in interfaces.filter_map(|i| i.get("addr_info")?.as_array()).flatten() {
            if let Some(ip) = address.get("local").and_then(Value::as_str).and_then(|a| a.parse().ok()) {
                read.pair(names, host, ip);
            }
        }
    }
    read
}
