//! `kubectl get nodes,pods -A -o json`. A pod's address is its node's while the pod lives: the kernel that kills is
//! the node's.

use super::read::{ListFormat, Read, names_a_host};
use crate::names::Names;
use crate::oom::{json_objects, parse_instant};
use crate::time::Timestamp;
use serde_json::Value;

fn string<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(object, |o, key| o.get(key))?.as_str().filter(|s| !s.is_empty())
}

fn time(object: &Value, path: &[&str]) -> Option<Timestamp> {
    parse_instant(string(object, path)?).ok()
}

pub(super) fn read(text: &str, names: &mut Names) -> Read {
    let mut read = Read::new(ListFormat::Kubernetes);
    let done = json_objects(text.as_bytes(), &mut |object| match string(object, &["kind"]) {
        Some("Pod") => pod(object, names, &mut read),
        Some("Node") => node(object, names, &mut read),
        _ => {}
    });
    if let Err(e) = done {
        let line = e.line().saturating_sub(1);
        read.bad(line, "JSON of nodes and pods, whole", text.lines().nth(line).unwrap_or_default());
    }
    read
}

fn node(object: &Value, names: &mut Names, read: &mut Read) {
    let Some(name) = string(object, &["metadata", "name"]) else { return };
    let listed = object.get("status").and_then(|s| s.get("addresses")).and_then(Value::as_array);
    for address in listed.into_iter().flatten() {
        let Some(value) = string(address, &["address"]) else { continue };
        match value.parse() {
            Ok(ip) => read.pair(names, name, ip),
            Err(_) => names.add_alias(value, name),
        }
    }
}

fn pod(object: &Value, names: &mut Names, read: &mut Read) {
    let Some(node) = string(object, &["spec", "nodeName"]) else { return };
    if let Some(name) = string(object, &["metadata", "name"]) {
        names.add_alias(name, node);
    }
    let status = object.get("status").unwrap_or(&Value::Null);
    let listed = status.get("podIPs").and_then(Value::as_array).into_iter().flatten();
    let addresses = listed.filter_map(|a| string(a, &["ip"])).chain(string(status, &["podIP"]));
    // A pod in its host's network has the node's own addresses, pod or no pod.
    let own = object.get("spec").and_then(|s| s.get("hostNetwork")).and_then(Value::as_bool) == Some(true);
    let from = time(object, &["status", "startTime"]).or_else(|| time(object, &["metadata", "creationTimestamp"]));
    let until = ended(object, status);
    for ip in addresses.filter_map(|a| a.parse::<std::net::IpAddr>().ok()).filter(|ip| names_a_host(*ip)) {
        if own {
            read.pair(names, node, ip);
        } else {
            names.add_between(node, ip.into(), from, until);
            read.pairs += 1;
        }
    }
}

/// When a pod that is over gave up its address; `None` while it lives.
fn ended(object: &Value, status: &Value) -> Option<Timestamp> {
    if !matches!(string(status, &["phase"]), Some("Succeeded" | "Failed")) {
        return None;
    }
    let containers = status.get("containerStatuses").and_then(Value::as_array).into_iter().flatten();
    let last = containers.filter_map(|c| time(c, &["state", "terminated", "finishedAt"])).max();
    // A second is the resolution of these times.
    last.or_else(|| time(object, &["metadata", "deletionTimestamp"])).map(|t| t.plus_nanos(crate::time::NANOS))
}
