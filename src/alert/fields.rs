//! An alert as fields: what a log keeps of it besides its text.

use serde_json::Value;

use crate::case::Alert;
use crate::escape::clean;
use crate::vocabulary::{Severity, severity_of};

/// Columns of one field.
const FIELD: usize = 200;
/// Columns of the text.
const TEXT: usize = 1000;
/// Hosts that are named.
const HOSTS: usize = 16;

/// What an alert says, each value cleaned of control characters and bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// How bad it is. An incident with a trigger is critical, one without a warning.
    pub severity: Severity,
    /// What it says, in a line.
    pub text: String,
    /// Name (lower case, digits none) and value, those that it has.
    pub values: Vec<(&'static str, String)>,
}

impl Fields {
    /// Of an alert that waits.
    pub fn of(letter: &Alert) -> Fields {
        let document: Value = serde_json::from_str(&letter.document).unwrap_or(Value::Null);
        let at = |path: &str| document.pointer(path);
        let text = |path: &str| at(path).and_then(Value::as_str).map(|t| clean(t.as_bytes(), FIELD));
        let end = |of: &str| {
            let address = text(&format!("{of}/address"))?;
            let port = at(&format!("{of}/port")).and_then(Value::as_u64);
            Some(match port {
                Some(port) if address.contains(':') => format!("[{address}]:{port}"),
                Some(port) => format!("{address}:{port}"),
                None => address,
            })
        };
        let mut values: Vec<(&'static str, String)> =
            vec![("id", clean(letter.id.as_bytes(), FIELD)), ("kind", clean(letter.kind.as_bytes(), FIELD))];
        let severity = severity_of(&letter.kind, &document);
        values.push(("severity", severity.text().to_string()));
        let incident = letter.kind == "incident";
        let more: [(&'static str, Option<String>); 10] = [
            ("rule", text("/rule")),
            ("incident", if incident { text("/kind") } else { None }),
            ("verdict", text("/verdict")),
            ("time", text(if incident { "/start" } else { "/time" })),
            ("source", end("/source")),
            ("target", end("/target")),
            ("hosts", hosts(&document).or_else(|| text("/target/host"))),
            ("query", text("/query")),
            ("declared", at("/declared/bytes").and_then(Value::as_u64).map(|n| n.to_string())),
            ("capture", text("/capture").or_else(|| text("/path"))),
        ];
        values.extend(more.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let said = at("/summary").or_else(|| at("/explanation")).and_then(Value::as_str).unwrap_or_default();
        let get = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
        let lead = match (get("rule"), get("source"), get("target"), get("capture")) {
            (Some(rule), Some(source), Some(target), _) => format!("{rule} {source} -> {target}: "),
            (Some(rule), _, _, Some(path)) => format!("{rule} {path}: "),
            (Some(rule), ..) => format!("{rule}: "),
            _ => format!("{}: ", letter.kind),
        };
        Fields { severity, text: clean(format!("{lead}{said}").as_bytes(), TEXT), values }
    }
}

fn hosts(document: &Value) -> Option<String> {
    let all = document.get("hosts")?.as_array()?;
    let mut names: Vec<String> = all
        .iter()
        .filter_map(|h| h.get("host")?.as_str())
        .take(HOSTS)
        .map(|h| clean(h.as_bytes(), 64).replace(',', "_"))
        .collect();
    if all.len() > names.len() {
        names.push(format!("and {} more", all.len() - names.len()));
    }
    (!names.is_empty()).then(|| names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn letter(kind: &str, document: &str) -> Alert {
        let (id, kind, document) = ("f00".to_string(), kind.to_string(), document.to_string());
        Alert { sequence: 1, id, kind, document, attempts: 0, done: Vec::new() }
    }

    #[test]
    fn findings_and_incidents_have_the_fields_that_somebody_would_search_by() {
        let finding = r#"{"type":"finding","rule":"store-claim","severity":"critical","time":"2026-11-29T11:20:10Z",
            "source":{"address":"2001:db8::250","port":41000},"target":{"address":"192.0.2.11","port":29500,"host":"node-a"},
            "declared":{"bytes":962696183808},"explanation":"read as ADD\nforged line \u001b[31m"}"#;
        let f = Fields::of(&letter("finding", finding));
        assert_eq!(f.severity, Severity::Critical);
        let get = |n: &str| f.values.iter().find(|(name, _)| *name == n).map(|(_, v)| v.as_str());
        assert_eq!(get("source"), Some("[2001:db8::250]:41000"));
        assert_eq!((get("target"), get("hosts")), (Some("192.0.2.11:29500"), Some("node-a")));
        assert_eq!(get("declared"), Some("962696183808"));
        assert!(!f.text.contains(['\n', '\u{1b}']) && f.text.starts_with("store-claim [2001:db8::250]:41000 -> "));
        let hosts: Vec<String> = (0..500).map(|i| format!(r#"{{"host":"n{i}","trigger":"f"}}"#)).collect();
        let incident = format!(r#"{{"type":"incident","kind":"oom","hosts":[{}],"summary":"s"}}"#, hosts.join(","));
        let f = Fields::of(&letter("incident", &incident));
        assert_eq!(f.severity, Severity::Critical);
        assert!(f.values.iter().any(|(n, v)| *n == "hosts" && v.ends_with("and 484 more")), "{:?}", f.values);
        // A document that is none is an alert all the same.
        assert_eq!(Fields::of(&letter("finding", "{")).severity, Severity::Warning);
    }
}
