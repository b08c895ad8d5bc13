//! Counters of kills: `memory.events` of a cgroup, `/proc/vmstat`, `container_oom_events_total`. They have no time:
//! only that a count grew can be said.

use super::super::event::{Facts, OomKind, Role};
use super::super::teller::Saying;
use super::super::text::{self, cut};
use super::super::workload::{self, Workload, WorkloadKind};

/// A reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// What was counted: a cgroup's path, the labels of a metric; empty where nothing says.
    pub(crate) scope: String,
    /// Kills since the cgroup, or the host, began; `None` for another counter of the same file.
    pub(crate) kills: Option<u64>,
    kind: Option<OomKind>,
    workload: Option<Workload>,
}

/// Reads a line of such a file; `file` is the file's name, where an envelope gives it.
pub(crate) fn reading(line: &[u8], file: Option<&str>) -> Option<Reading> {
    if let Some(labels) = line.strip_prefix(b"container_oom_events_total{") {
        return metric(labels);
    }
    // `grep . …/memory.events` puts the path before the pair.
    let (path, pair) = match cut(line, b"memory.events:") {
        Some((path, pair)) => (Some(path), pair),
        None => (file.map(str::as_bytes), line),
    };
    let (key, value) = text::word(pair);
    let value = text::whole(value.trim_ascii())?;
    let kills = match key {
        b"oom_kill" => Some(value),
        b"low" | b"high" | b"max" | b"oom" | b"oom_group_kill" | b"sock_throttled" => None,
        _ => return None,
    };
    let path = path.unwrap_or_default();
    let host = path.ends_with(b"vmstat");
    let path = path.strip_suffix(b"memory.events").unwrap_or(path);
    let path = path.strip_prefix(b"/sys/fs/cgroup").unwrap_or(path);
    let path = if path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    Some(Reading {
        scope: text::lossy(path, text::PATH),
        kills,
        kind: (!host).then_some(OomKind::Cgroup),
        workload: workload::from_cgroup(path),
    })
}

/// `container="train",namespace="ml",pod="job-0"} 2 [time]`
fn metric(labels: &[u8]) -> Option<Reading> {
    let (labels, value) = text::rcut(labels, b"} ")?;
    let (kills, rest) = text::number(value)?;
    if !(rest.is_empty() || rest.starts_with(b" ") || rest.starts_with(b".0")) {
        return None;
    }
    let label = |key: &[u8]| {
        let (_, v) = cut(labels, &[key, b"=\""].concat())?;
        text::name(cut(v, b"\"")?.0)
    };
    let workload = label(b"pod").map(|pod| Workload {
        name: Some(pod.clone()),
        namespace: label(b"namespace"),
        ..Workload::new(WorkloadKind::Pod, pod)
    });
    Some(Reading { scope: text::lossy(labels, text::PATH), kills: Some(kills), kind: Some(OomKind::Cgroup), workload })
}

impl Reading {
    /// What `grown` more kills say.
    pub(crate) fn saying(&self, grown: u64) -> Saying {
        let facts = Facts {
            kind: self.kind,
            cgroup: (self.scope.starts_with('/')).then(|| self.scope.clone()),
            workload: self.workload.clone(),
            occurrences: Some(grown),
            ..Facts::default()
        };
        Saying::new(Role::Report, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_each_kind() {
        let r =
            reading(b"oom_kill 2", Some("/sys/fs/cgroup/system.slice/train.service/memory.events")).expect("reading");
        assert_eq!((r.scope.as_str(), r.kills), ("/system.slice/train.service", Some(2)));
        assert_eq!(r.workload.map(|w| w.id).as_deref(), Some("train.service"));
        let r = reading(b"/sys/fs/cgroup/memory.events:oom_kill 3", None).expect("reading");
        assert_eq!((r.scope.as_str(), r.kills), ("/", Some(3)));
        let r = reading(b"container_oom_events_total{container=\"train\",pod=\"job-0\"} 2", None).expect("reading");
        assert_eq!((r.kills, r.workload.and_then(|w| w.name).as_deref()), (Some(2), Some("job-0")));
        assert_eq!(reading(b"max 4810", None).map(|r| r.kills), Some(None));
        for line in [
            &b"oom_kill"[..],
            b"oom_kill x",
            b"oom_kill 99999999999999999999",
            b"hello 1",
            b"container_oom_events_total{} x",
        ] {
            assert_eq!(reading(line, None), None);
        }
    }
}
