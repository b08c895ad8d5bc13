//! Container runtimes: containerd's and CRI-O's logs, `docker events`, `podman events`.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::{self, cut};
use super::super::workload::{Workload, WorkloadKind};
use super::{Saying, between};

/// What is known of the kill in a container.
pub(crate) fn facts(id: &[u8], name: Option<&[u8]>) -> Facts {
    let workload = text::name(id)
        .map(|id| Workload { name: name.and_then(text::name), ..Workload::new(WorkloadKind::Container, id) });
    Facts { kind: Some(OomKind::Cgroup), workload, ..Facts::default() }
}

/// `TaskOOM event &TaskOOM{ContainerID:ec9e…,}` (containerd 1), `TaskOOM event container_id:"ec9e…"` (2),
/// `/tasks/oom {"container_id":"ec9e…"}` (`ctr events`), `OOM … container ec9e…` (CRI-O).
pub(super) fn parse(message: &[u8]) -> Option<Saying> {
    let id = if let Some((_, rest)) = cut(message, b"TaskOOM event") {
        between(rest, b"ContainerID:", b",").or_else(|| quoted(rest))?
    } else if let Some((_, rest)) = cut(message, b"/tasks/oom ") {
        quoted(rest)?
    } else {
        let (_, rest) = cut(message, b"Container OOM killed").or_else(|| cut(message, b"OOM killed container"))?;
        cut(rest, b"containerID=").or_else(|| cut(rest, b" id=")).map_or(rest, |(_, id)| id)
    };
    let id = id.trim_ascii().split(|b| !b.is_ascii_alphanumeric()).find(|w| !w.is_empty())?;
    Some(Saying::new(Role::Report, facts(id, None)))
}

fn quoted(rest: &[u8]) -> Option<&[u8]> {
    let (_, rest) = cut(rest, b"container_id")?;
    rest.split(|b| !b.is_ascii_alphanumeric()).find(|w| w.len() > 7)
}

/// `container oom ec9e… (image=…, name=train)`.
pub(super) fn docker(message: &[u8]) -> Option<Saying> {
    let rest = message.strip_prefix(b"container oom ")?;
    let (id, rest) = text::word(rest);
    let name = between(rest, b"name=", b")").map(|n| n.split(|b| *b == b',').next().unwrap_or(n));
    Some(Saying::new(Role::Report, facts(id, name)))
}
