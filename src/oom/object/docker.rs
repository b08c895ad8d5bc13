//! `docker inspect`, `podman inspect`: `State.OOMKilled` and the time at which the container ended; and events in JSON.

use super::super::event::{Facts, OomKind, ToldBy};
use super::super::format::Format;
use super::super::options::Clock;
use super::super::prefix::Peeled;
use super::super::stamp::{self, SECOND, Stamp};
use super::super::teller::Saying;
use super::super::text;
use super::super::workload::{Workload, WorkloadKind};
use super::string;
use crate::time::Timestamp;
use serde_json::Value;

/// The container's end follows the kill of one of its processes, not always at once.
const ENDED: Clock = Clock { from: "end of the container", floor: SECOND, after: false };
const TOLD: Clock = Clock { from: "event of the container runtime", floor: 1_000_000, after: false };

fn found(stamp: Option<(Stamp, Clock)>, id: Option<&str>, name: Option<&str>) -> (Peeled<'static>, Saying) {
    let workload = id.and_then(|id| text::name(id.as_bytes())).map(|id| Workload {
        name: name.and_then(|n| text::name(n.trim_start_matches('/').as_bytes())),
        ..Workload::new(WorkloadKind::Container, id)
    });
    let facts = Facts { kind: Some(OomKind::Cgroup), workload, ..Facts::default() };
    (Peeled { format: Some(Format::Docker), stamp, ..Peeled::default() }, Saying::report(ToldBy::Container, facts))
}

/// A container that had an OOM kill. Docker does not say on which host it ran.
pub(super) fn inspected(object: &Value) -> Option<(Peeled<'static>, Saying)> {
    let state = object.get("State")?;
    if state.get("OOMKilled")?.as_bool() != Some(true) {
        return None;
    }
    let time = string(state, &["FinishedAt"]).and_then(|t| stamp::any(t.as_bytes())).map(|(s, _)| (s, ENDED));
    Some(found(time, string(object, &["Id"]), string(object, &["Name"])))
}

/// An event of `docker events --format json` (`Action`, `Actor`, `timeNano`) or `podman events --format json` (`Status`).
pub(super) fn event(object: &Value) -> Option<(Peeled<'static>, Saying)> {
    let action =
        string(object, &["Action"]).or_else(|| string(object, &["status"])).or_else(|| string(object, &["Status"]))?;
    if action != "oom" {
        return None;
    }
    let nanos = object.get("timeNano").and_then(Value::as_i64).map(|n| Stamp::Absolute { at: Timestamp(n), unit: 1 });
    let seconds = || {
        let at = object.get("time").and_then(Value::as_i64)?.checked_mul(SECOND)?;
        Some(Stamp::Absolute { at: Timestamp(at), unit: SECOND })
    };
    let text = || string(object, &["Time"]).and_then(|t| stamp::any(t.as_bytes())).map(|(s, _)| s);
    let id = string(object, &["Actor", "ID"]).or_else(|| string(object, &["id"])).or_else(|| string(object, &["ID"]));
    let name = string(object, &["Actor", "Attributes", "name"]).or_else(|| string(object, &["Name"]));
    Some(found(nanos.or_else(seconds).or_else(text).map(|s| (s, TOLD)), id, name))
}
