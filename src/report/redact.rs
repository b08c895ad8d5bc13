//! A report that may leave the house: names of hosts, addresses, run ids and the contents of messages are replaced by
//! tokens that stay the same wherever and whenever the same thing stands.

use std::collections::BTreeSet;

use super::model::Report;
use super::pseudonym::Pseudonyms;

/// How much of a message's bytes stays: the query type and one length or count, which the verdict rests on.
pub(super) const KEPT_BYTES: usize = 9;

/// The same report without names. Times, sizes, counts, packet numbers, ports and verdicts stay as they are; findings
/// keep their ids, which are hashes.
pub fn redacted(report: &Report, veil: &Pseudonyms) -> Report {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut add = |name| names.extend::<Option<&str>>(name);
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
    let veil = veil.clone().with_names(names);
    let Ok(mut value) = serde_json::to_value(report) else { return Report::default() };
    walk(&mut value, None, &veil);
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

/// What sentences quote from messages and logs stands between these.
const QUOTES: [(&str, &str); 3] = [(" [", "] to a store"), (" names \"", "\", no key"), (" was not understood: ", "")];

/// Puts a token in the place of what a sentence quotes.
fn contents_out(text: &str, veil: &Pseudonyms) -> String {
    QUOTES.iter().fold(text.to_string(), |text, (before, after)| {
        // What is quoted may hold the closing words itself, but nothing of ours follows that holds them.
        let Some((head, rest)) = text.split_once(before) else { return text };
        match rest.rfind(after) {
            Some(end) => format!("{head}{before}{}{}", veil.token("text", &rest[..end]), &rest[end..]),
            None => text,
        }
    })
}

fn walk(value: &mut serde_json::Value, field: Option<&str>, veil: &Pseudonyms) {
    match value {
        serde_json::Value::String(text) => match field {
            Some("bytes_hex" | "alternate_bytes_hex") => text.truncate(2 * KEPT_BYTES),
            Some("cgroup" | "process") => *text = veil.token("text", &*text),
            Some("community_id") => *text = veil.token("flow", &*text),
            Some(f) if FIXED.contains(&f) => {}
            _ => *text = veil.text(&contents_out(text, veil)),
        },
        serde_json::Value::Array(items) => items.iter_mut().for_each(|v| walk(v, field, veil)),
        // The id of a workload is a name; other ids are hashes.
        serde_json::Value::Object(fields) if field == Some("workload") => {
            for (_, v) in fields.iter_mut().filter(|(k, _)| *k != "kind") {
                if let serde_json::Value::String(text) = v {
                    *text = veil.token("text", &*text);
                }
            }
        }
        serde_json::Value::Object(fields) => fields.iter_mut().for_each(|(k, v)| walk(v, Some(k), veil)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sentences_quote_goes() {
        let veil = Pseudonyms::default();
        for text in [
            "The client sent HTTP [GET /secret] to a store] to a store. PyTorch 1.13 reads it so: GET",
            "SET names \"secret\", no key of secret\", no key of a store",
            "line 4 looks like an OOM and was not understood: secret killed",
        ] {
            let out = contents_out(text, &veil);
            assert!(!out.contains("secret") && out.contains("text-"), "{out}");
            let (first, last) = (text.split(' ').next(), text.split(' ').next_back());
            assert_eq!(out.split(' ').next(), first);
            assert!(last == Some("killed") || out.split(' ').next_back() == last, "{out}");
        }
    }
}
