//! The answer to a range query: `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{…},
//! "values":[[SECONDS,"VALUE"],…]}]}}`.

use super::series::{Collector, Sample, host};
use crate::oom::Options;
use crate::time::{NANOS, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn read(text: &str, options: &Options, to: &mut Collector) {
    let whole: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => {
            let line = e.line().saturating_sub(1);
            return to.bad(line, "JSON, whole", text.lines().nth(line).unwrap_or_default());
        }
    };
    let result = whole.get("data").and_then(|d| d.get("result")).and_then(Value::as_array);
    let all: Vec<&Value> = result.into_iter().flatten().collect();
    // What is free says nothing without what there is.
    let totals: BTreeMap<String, f64> = all
        .iter()
        .filter(|r| name(r).contains("MemTotal"))
        .filter_map(|r| Some((host(options, labelled(r).as_deref())?.to_owned(), points(r).last()?.1)))
        .collect();
    for series in &all {
        let own = labelled(series);
        let Some(host) = host(options, own.as_deref()) else {
            to.bad(
                0,
                "a label `instance`, `node` or `host`",
                &series.get("metric").unwrap_or(&Value::Null).to_string(),
            );
            continue;
        };
        let name = name(series);
        if name.contains("MemTotal") {
            continue;
        }
        let total = totals.get(host).copied().filter(|t| *t > 0.0);
        let free = name.contains("MemAvailable") || name.contains("MemFree");
        if free && total.is_none() {
            to.bad(0, "node_memory_MemTotal_bytes beside what is free, or a query for what is used", name);
            continue;
        }
        let points: Vec<(Timestamp, f64)> = points(series).collect();
        let most = points.iter().map(|(_, v)| *v).fold(0.0, f64::max);
        for (at, value) in points {
            let (used_bytes, used_percent) = match total {
                Some(total) if free => (Some((total - value).max(0.0)), Some((1.0 - value / total) * 100.0)),
                // An expression has no name: a share is at most 1, a percentage at most 100.
                _ if most <= 1.0 => (None, Some(value * 100.0)),
                _ if most <= 100.0 => (None, Some(value)),
                total => (Some(value), total.map(|t| value / t * 100.0)),
            };
            to.add(host, Sample { at, used_bytes, used_percent }, false);
        }
    }
}

fn name(series: &Value) -> &str {
    series.get("metric").and_then(|m| m.get("__name__")).and_then(Value::as_str).unwrap_or_default()
}

/// The host by the labels: `instance` without its port.
fn labelled(series: &Value) -> Option<String> {
    let metric = series.get("metric")?;
    let label = |key: &str| metric.get(key).and_then(Value::as_str).filter(|v| !v.is_empty());
    if let Some(node) = ["node", "nodename", "hostname", "host", "kubernetes_node"].iter().find_map(|k| label(k)) {
        return Some(node.to_owned());
    }
    let instance = label("instance")?;
    let bare = match instance.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host.trim_matches(['[', ']']),
        _ => instance,
    };
    Some(bare.to_owned())
}

fn points(series: &Value) -> impl Iterator<Item = (Timestamp, f64)> + '_ {
    series.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(|pair| {
        let seconds = pair.get(0)?.as_f64().filter(|s| s.abs() < 9e9)?;
        let value: f64 = pair.get(1)?.as_str()?.parse().ok()?;
        Some((Timestamp((seconds * NANOS as f64) as i64), value)).filter(|_| value.is_finite())
    })
}
