//! Kubernetes objects: events (`SystemOOM` of the kubelet, `OOMKilling` of node-problem-detector) and the state of
//! containers in pods. Their times are whole seconds, and late.

use super::super::event::{Facts, OomKind, Role};
use super::super::kernel::{self, Saying};
use super::super::options::Clock;
use super::super::stamp::iso_stamp;
use super::super::text::{self, cut};
use super::super::workload::{Workload, WorkloadKind};
use super::{Format, Peeled};
use serde_json::Value;

/// The kubelet polls and rounds.
const LATE: Clock = Clock { from: "kubernetes, whole seconds and late", floor: 10_000_000_000 };

fn string<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(object, |o, key| o.get(key))?.as_str().filter(|s| !s.is_empty())
}

/// `System OOM encountered, victim process: python, pid: 48211`.
pub(crate) fn system_oom(message: &[u8]) -> Option<Saying> {
    let (_, rest) = cut(message, b"System OOM encountered")?;
    let mut facts = Facts { kind: Some(OomKind::Host), ..Facts::default() };
    if let Some((_, rest)) = cut(rest, b"victim process: ")
        && let Some((name, pid)) = text::rcut(rest, b", pid: ")
    {
        facts.process = text::name(name);
        facts.pid = text::number(pid).map(|(pid, _)| pid);
    }
    Some(Saying::new(Role::Report, facts))
}

fn peeled<'a>(time: Option<&str>, host: Option<&'a str>) -> Peeled<'a> {
    let stamp = time.and_then(|t| iso_stamp(t.as_bytes())).map(|(stamp, _)| (stamp, LATE));
    Peeled {
        format: Format::Kubernetes,
        stamp,
        boot: None,
        host: host.map(|h| h.as_bytes().into()),
        message: b"".into(),
    }
}

/// An event, if it tells of an OOM.
pub(crate) fn event(object: &Value) -> Option<(Peeled<'_>, Saying)> {
    let reason = string(object, &["reason"])?;
    let message = string(object, &["message"]).or_else(|| string(object, &["note"])).unwrap_or_default().as_bytes();
    if !reason.contains("OOM") {
        return None;
    }
    let mut saying = kernel::parse(message)
        .or_else(|| system_oom(message))
        .unwrap_or_else(|| Saying::new(Role::Report, Facts { kind: Some(OomKind::Host), ..Facts::default() }));
    saying.role = Role::Report;
    let involved = object.get("involvedObject").or_else(|| object.get("regarding")).unwrap_or(&Value::Null);
    let host = string(object, &["source", "host"])
        .or_else(|| string(object, &["deprecatedSource", "host"]))
        .or_else(|| string(involved, &["name"]).filter(|_| string(involved, &["kind"]) == Some("Node")));
    saying.facts.occurrences =
        object.get("count").or_else(|| object.get("series").and_then(|s| s.get("count"))).and_then(Value::as_u64);
    let time = ["lastTimestamp", "eventTime", "firstTimestamp", "deprecatedLastTimestamp"]
        .iter()
        .find_map(|key| string(object, &[key]));
    Some((peeled(time, host), saying))
}

/// The containers of a pod (or one container's status alone) that the kernel killed for memory.
pub(crate) fn containers(object: &Value) -> Vec<(Peeled<'_>, Saying)> {
    let status = object.get("status").unwrap_or(&Value::Null);
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let listed = lists.iter().filter_map(|key| status.get(key)?.as_array()).flatten();
    let host = string(object, &["spec", "nodeName"]);
    let mut found = Vec::new();
    for container in listed.chain([object]) {
        for state in ["lastState", "state"] {
            let Some(ended) = container.get(state).and_then(|s| s.get("terminated")) else { continue };
            if string(ended, &["reason"]) != Some("OOMKilled") {
                continue;
            }
            let workload = string(object, &["metadata", "uid"]).map(|uid| Workload {
                kind: WorkloadKind::Pod,
                id: text::lossy(uid.as_bytes(), text::NAME),
                name: string(object, &["metadata", "name"]).and_then(|n| text::name(n.as_bytes())),
                namespace: string(object, &["metadata", "namespace"]).and_then(|n| text::name(n.as_bytes())),
            });
            let facts = Facts { kind: Some(OomKind::Cgroup), workload, ..Facts::default() };
            found.push((peeled(string(ended, &["finishedAt"]), host), Saying::new(Role::Report, facts)));
        }
    }
    found
}
