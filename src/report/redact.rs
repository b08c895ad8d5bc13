//! A report that may leave the house: names of hosts, addresses, run ids and the contents of messages are replaced by
//! tokens that stay the same wherever and whenever the same thing stands.

use std::collections::BTreeSet;
use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::model::Report;

/// How much of a message's bytes stays: the query type and one length or count, which the verdict rests on.
const KEPT_BYTES: usize = 9;

/// The same report without names. Times, sizes, counts, packet numbers, ports and verdicts stay as they are; findings
/// keep their ids, which are hashes.
pub fn redacted(report: &Report) -> Report {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut add = |name: Option<&str>| {
        if let Some(n) = name.filter(|n| n.len() > 1 && n.parse::<IpAddr>().is_err()) {
            names.insert(n.to_string());
        }
    };
    report.captures.iter().for_each(|c| add(c.host.as_deref()));
    report.inputs.iter().for_each(|i| add(i.host.as_deref()));
    report.listeners.iter().for_each(|l| add(l.host.as_deref()));
    report.coverage.hosts.iter().for_each(|h| add(Some(&h.host)));
    report.oom_events.iter().for_each(|e| add(e.host.as_deref()));
    report.scans.iter().for_each(|s| add(s.source.label.as_deref()));
    report.incidents.iter().flat_map(|i| &i.hosts).for_each(|h| add(Some(&h.host)));
    report.incidents.iter().filter_map(|i| i.source.as_ref()).for_each(|s| add(s.label.as_deref()));
    report.findings.iter().filter_map(|f| f.target.as_ref()).for_each(|t| add(t.host.as_deref()));
    for job in &report.jobs {
        add(job.run_id.as_deref());
        job.participants.iter().for_each(|p| add(p.host.as_deref()));
        job.signs_of_life.iter().for_each(|s| add(s.host.as_deref()));
        job.timeline.iter().for_each(|t| add(t.host.as_deref()));
    }
    for w in report.oom_events.iter().filter_map(|e| e.workload.as_ref()) {
        add(w.id.as_deref());
        add(w.name.as_deref());
        add(w.namespace.as_deref());
    }
    for argument in &report.arguments {
        if let Some((host, _)) = argument.split_once('=') {
            add(Some(host.trim_start_matches('-')));
        }
    }
    // Longest first: `node-10` before `node-1`.
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by_key(|n| (std::cmp::Reverse(n.len()), n.clone()));
    let Ok(mut value) = serde_json::to_value(report) else { return Report::default() };
    walk(&mut value, None, &names);
    serde_json::from_value(value).unwrap_or_default()
}

/// Fields whose words are the document's own.
const FIXED: [&str; 20] = [
    "schema",
    "id",
    "rule",
    "severity",
    "kind",
    "scope",
    "verdict",
    "cause",
    "coverage",
    "protocol",
    "role",
    "dialect",
    "backend",
    "outcome",
    "query",
    "field",
    "time",
    "oom_event",
    "trigger",
    "listener",
];

fn walk(value: &mut serde_json::Value, field: Option<&str>, names: &[String]) {
    match value {
        serde_json::Value::String(text) => match field {
            Some("bytes_hex" | "alternate_bytes_hex") => text.truncate(2 * KEPT_BYTES),
            Some("cgroup" | "process") => *text = token("text", text),
            Some("community_id") => *text = token("flow", text),
            Some(f) if FIXED.contains(&f) => {}
            _ => *text = text_without(text, names),
        },
        serde_json::Value::Array(items) => items.iter_mut().for_each(|v| walk(v, field, names)),
        // The id of a workload is a name; other ids are hashes.
        serde_json::Value::Object(fields) if field == Some("workload") => {
            for (_, v) in fields.iter_mut().filter(|(k, _)| *k != "kind") {
                if let serde_json::Value::String(text) = v {
                    *text = token("text", text);
                }
            }
        }
        serde_json::Value::Object(fields) => fields.iter_mut().for_each(|(k, v)| walk(v, Some(k), names)),
        _ => {}
    }
}

/// A token for `text`: the same wherever the same text stands.
fn token(kind: &str, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"rdzvscope redaction");
    hash.update(kind.as_bytes());
    hash.update(text.as_bytes());
    let digest = hash.finalize();
    format!("{kind}-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

fn text_without(text: &str, names: &[String]) -> String {
    addresses_out(&names.iter().fold(text.to_string(), |t, name| name_out(&t, name)))
}

/// Replaces `name` where it stands as a word of its own.
fn name_out(text: &str, name: &str) -> String {
    if !text.contains(name) {
        return text.to_string();
    }
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back().or_else(|| out.chars().next_back());
        let after = rest[at + name.len()..].chars().next();
        out.push_str(&rest[..at]);
        if before.is_some_and(part_of_word) || after.is_some_and(part_of_word) {
            out.push_str(name);
        } else {
            out.push_str(&token("host", name));
        }
        rest = &rest[at + name.len()..];
    }
    out.push_str(rest);
    out
}

/// Replaces IPv4 and IPv6 addresses, with or without a port behind them.
fn addresses_out(text: &str) -> String {
    let of_address = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain(std::iter::once('\0')) {
        if of_address(c) {
            word.push(c);
            continue;
        }
        out.push_str(&address_out(&word));
        word.clear();
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

fn address_out(word: &str) -> String {
    let trimmed = word.trim_end_matches([':', '.']);
    let tail = &word[trimmed.len()..];
    let parses = |t: &str| t.parse::<IpAddr>().is_ok() && (t.contains('.') || t.matches(':').count() >= 2);
    if parses(trimmed) {
        return format!("{}{tail}", token("ip", trimmed));
    }
    if let Some((address, port)) = trimmed.rsplit_once(':')
        && parses(address)
        && port.parse::<u16>().is_ok()
    {
        return format!("{}:{port}{tail}", token("ip", address));
    }
    word.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_and_times_stay() {
        let text =
            addresses_out("from 192.0.2.11:29500 (2001:db8::11) at 11:20:10.652448Z, 1.13.0 of 2001:db8::11:29500.");
        assert!(!text.contains("192.0.2") && !text.contains("db8"), "{text}");
        assert!(text.contains("11:20:10.652448Z") && text.contains("1.13.0") && text.contains(":29500"), "{text}");
        assert_eq!(addresses_out("192.0.2.11 "), format!("{} ", token("ip", "192.0.2.11")));
    }

    #[test]
    fn names_go_as_words() {
        let text = text_without("node-1 and node-10, xnode-1x; node-1.pcap", &["node-10".into(), "node-1".into()]);
        assert!(!text.contains("node-10") && text.contains("xnode-1x") && text.ends_with(".pcap"), "{text}");
    }

    #[test]
    fn the_same_thing_has_the_same_token() {
        assert_eq!(token("host", "a"), token("host", "a"));
        assert_ne!(token("host", "a"), token("host", "b"));
    }
}
