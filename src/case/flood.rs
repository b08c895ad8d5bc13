//! Many findings of one source at once: one alert stands for them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::report::size::grouped;
use crate::time::Timestamp;

/// Findings of one rule and source, told at once, beyond which they are folded.
const FLOOD: usize = 32;
/// Listeners whose first finding is an alert of its own all the same, and that are named.
const LISTENERS: usize = 16;

/// What a finding's document says of whom it is of.
#[derive(Deserialize, Default)]
struct Head {
    rule: Option<String>,
    severity: Option<String>,
    time: Option<String>,
    source: Option<End>,
    target: Option<End>,
}

#[derive(Deserialize, Default)]
struct End {
    address: Option<String>,
    port: Option<u16>,
}

/// One alert in the place of many.
pub(super) struct Folded {
    pub(super) id: String,
    pub(super) document: String,
}

/// Of documents of findings that are new: which of them are no alerts of their own, by index, and the alerts that stand
/// for them.
pub(super) fn folded(documents: &[&str], now: Timestamp) -> (BTreeSet<usize>, Vec<Folded>) {
    let heads: Vec<Head> = documents.iter().map(|d| serde_json::from_str(d).unwrap_or_default()).collect();
    let mut groups: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (i, head) in heads.iter().enumerate() {
        let source = head.source.as_ref().and_then(|s| s.address.as_deref());
        if let (Some(rule), Some(source)) = (head.rule.as_deref(), source) {
            groups.entry((rule, source)).or_default().push(i);
        }
    }
    let (mut left_out, mut alerts) = (BTreeSet::new(), Vec::new());
    for ((rule, source), group) in groups.into_iter().filter(|(_, g)| g.len() > FLOOD) {
        let listener = |i: &usize| {
            let target = heads.get(*i).and_then(|h| h.target.as_ref());
            let address = target.and_then(|t| t.address.clone()).unwrap_or_default();
            target.and_then(|t| t.port).map_or(address.clone(), |port| format!("{address}:{port}"))
        };
        let mut listeners: BTreeSet<String> = BTreeSet::new();
        for i in &group {
            if !listeners.insert(listener(i)) || listeners.len() > LISTENERS {
                left_out.insert(*i);
            }
        }
        let own = || group.iter().filter_map(|i| heads.get(*i));
        let times = || own().filter_map(|h| h.time.as_deref());
        let severity =
            own().filter_map(|h| h.severity.as_deref()).max_by_key(|s| crate::vocabulary::Severity::from_text(s));
        let (count, at) = (group.len() as u64, listeners.len());
        let plural = if at == 1 { "listener" } else { "listeners" };
        let explanation = format!("{} findings of {rule} from {source} at {at} {plural}", grouped(count));
        let id = crate::finding::short_hash([b"flood", rule.as_bytes(), source.as_bytes(), &now.0.to_le_bytes()[..]]);
        let named: Vec<&String> = listeners.iter().take(LISTENERS).collect();
        let document = json!({
            "type": "notice",
            "id": id,
            "rule": crate::alert::FLOOD,
            "severity": severity,
            "time": times().max(),
            "path": Value::Null,
            "explanation": explanation,
            "folded": {
                "rule": rule, "source": source, "count": count, "listeners": named, "listener_count": at,
                "first": times().min(), "last": times().max(),
            },
        });
        alerts.push(Folded { id, document: crate::escape::json(document.to_string()) });
    }
    (left_out, alerts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_alert_and_the_first_at_each_listener() {
        let finding = |n: usize| {
            format!(
                r#"{{"rule":"store-claim","severity":"critical","time":"2026-11-29T11:20:{:02}Z","source":{{"address":"192.0.2.250"}},"target":{{"address":"192.0.2.{}","port":29500}}}}"#,
                n % 60,
                n % 3
            )
        };
        let many: Vec<String> = (0..6000).map(finding).collect();
        let texts: Vec<&str> = many.iter().map(String::as_str).collect();
        let (left_out, alerts) = folded(&texts, Timestamp(1));
        assert_eq!((left_out.len(), alerts.len()), (5997, 1));
        let document: Value = serde_json::from_str(&alerts[0].document).unwrap();
        assert_eq!(document["explanation"], "6 000 findings of store-claim from 192.0.2.250 at 3 listeners");
        assert_eq!((&document["severity"], &document["folded"]["count"]), (&json!("critical"), &json!(6000)));
        let few: Vec<&str> = texts.iter().take(30).copied().collect();
        assert!(folded(&few, Timestamp(1)).0.is_empty());
    }
}
