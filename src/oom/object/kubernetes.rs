//! Kubernetes objects: events (`SystemOOM` of the kubelet, `OOMKilling` of node-problem-detector) and the state of
//! containers in pods. Their times are whole seconds, and late.

use super::super::event::{Facts, OomKind, Role, ToldBy};
use super::super::format::Format;
use super::super::options::Clock;
use super::super::prefix::Peeled;
use super::super::stamp;
use super::super::teller::{Saying, kernel, kubelet};
use super::super::text;
use super::super::workload::{Workload, WorkloadKind};
use super::string;
use serde_json::Value;

/// The kubelet polls and rounds.
pub(crate) const LATE: Clock =
    Clock { from: "kubernetes, whole seconds and late", floor: 10_000_000_000, after: false };

fn peeled<'a>(time: Option<&str>, host: Option<&'a str>) -> Peeled<'a> {
    let stamp = time.and_then(|t| stamp::any(t.as_bytes())).map(|(stamp, _)| (stamp, LATE));
    Peeled { format: Some(Format::Kubernetes), stamp, host: host.map(|h| h.as_bytes().into()), ..Peeled::default() }
}

/// What the message of an event says.
pub(crate) fn message(reason: &str, message: &str) -> Option<Saying> {
    if !reason.contains("OOM") {
        return None;
    }
    let bytes = message.as_bytes();
    let said = kernel::parse(bytes).or_else(|| kubelet::system_oom(bytes));
    // Node-problem-detector reports hung tasks and the like with other reasons; `OOMKilling` alone names a kill.
    let saying =
        said.unwrap_or_else(|| Saying::new(Role::Report, Facts { kind: Some(OomKind::Host), ..Facts::default() }));
    Some(Saying { role: Role::Report, told_by: Some(ToldBy::Kubernetes), ..saying })
}

/// An event, if it tells of an OOM.
pub(super) fn event(object: &Value) -> Option<(Peeled<'_>, Saying)> {
    let reason = string(object, &["reason"])?;
    let text = string(object, &["message"]).or_else(|| string(object, &["note"])).unwrap_or_default();
    let mut saying = message(reason, text)?;
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
            found.push((peeled(string(ended, &["finishedAt"]), host), Saying::report(ToldBy::Kubernetes, facts)));
        }
    }
    found
}
