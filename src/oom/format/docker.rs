//! `docker inspect`: `State.OOMKilled` and the time at which the container ended.

use super::super::event::{Facts, OomKind, Role};
use super::super::kernel::Saying;
use super::super::options::Clock;
use super::super::stamp::iso_stamp;
use super::super::text;
use super::super::workload::{Workload, WorkloadKind};
use super::{Format, Peeled};
use serde_json::Value;

/// The container's end follows the kill of one of its processes, not always at once.
const ENDED: Clock = Clock { from: "end of the container", floor: 1_000_000_000 };

/// A container that had an OOM kill. Docker does not say on which host it ran.
pub(crate) fn container(object: &Value) -> Option<(Peeled<'static>, Saying)> {
    let state = object.get("State")?;
    if state.get("OOMKilled")?.as_bool() != Some(true) {
        return None;
    }
    let time = state.get("FinishedAt").and_then(Value::as_str).and_then(|t| iso_stamp(t.as_bytes()));
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let workload = text("Id").and_then(|id| text::name(id.as_bytes())).map(|id| Workload {
        name: text("Name").and_then(|n| text::name(n.trim_start_matches('/').as_bytes())),
        ..Workload::new(WorkloadKind::Container, id)
    });
    let facts = Facts { kind: Some(OomKind::Cgroup), workload, ..Facts::default() };
    let peeled = Peeled {
        format: Format::Docker,
        stamp: time.map(|(stamp, _)| (stamp, ENDED)),
        boot: None,
        host: None,
        message: b"".into(),
    };
    Some((peeled, Saying::new(Role::Report, facts)))
}
