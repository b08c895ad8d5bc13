//! What a process was part of, read from its cgroup path.

use super::text;

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// A Slurm job (id `job` or `job.step`).
    Slurm,
    /// A Kubernetes pod (id: its uid).
    Pod,
    /// A systemd unit.
    Unit,
    /// A container outside Kubernetes (id: the runtime's).
    Container,
    /// A job of PBS or LSF.
    Job,
}

impl WorkloadKind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadKind::Slurm => "slurm",
            WorkloadKind::Pod => "pod",
            WorkloadKind::Unit => "unit",
            WorkloadKind::Container => "container",
            WorkloadKind::Job => "job",
        }
    }
}

/// What a process was part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its id in the terms of whoever runs it.
    pub id: String,
    /// Its name, where a log gives one besides.
    pub name: Option<String>,
    /// Its Kubernetes namespace.
    pub namespace: Option<String>,
}

impl Workload {
    pub(crate) fn new(kind: WorkloadKind, id: String) -> Self {
        Workload { kind, id, name: None, namespace: None }
    }

    /// Whether the two can be one: of two kinds we cannot tell; a Slurm step is part of its job; of a unit and its slices
    /// systemd tells alike; ids of containers are cut short.
    pub(crate) fn agrees(&self, other: &Workload) -> bool {
        let job = |id: &str| id.split('.').next().unwrap_or_default().to_owned();
        if self.kind != other.kind || self.id == other.id {
            return true;
        }
        match self.kind {
            WorkloadKind::Slurm => job(&self.id) == job(&other.id),
            WorkloadKind::Unit => self.holds_units() || other.holds_units(),
            WorkloadKind::Container => {
                let short = self.id.len().min(other.id.len());
                short >= 12 && self.id.get(..short) == other.id.get(..short)
            }
            // One may be known by its uid alone, the other by its name alone.
            WorkloadKind::Pod => match (&self.name, &other.name) {
                (Some(a), Some(b)) => a == b && (self.id == *a || other.id == *b),
                (Some(name), None) => self.id == *name,
                (None, Some(name)) => other.id == *name,
                (None, None) => false,
            },
            WorkloadKind::Job => false,
        }
    }

    /// What is the same in all that tells of it, on whatever host: the job, the pod's uid, the beginning of the container's
    /// id.
    pub(crate) fn key(&self) -> Option<String> {
        match self.kind {
            WorkloadKind::Slurm | WorkloadKind::Job => Some(format!("job {}", self.id.split('.').next()?)),
            WorkloadKind::Pod => Some(format!("pod {}", self.id)),
            WorkloadKind::Container => Some(format!("container {}", self.id.get(..12)?)),
            WorkloadKind::Unit => None,
        }
    }

    /// Whether other units run inside this one: a slice, or a user's own systemd.
    fn holds_units(&self) -> bool {
        self.id.ends_with(".slice") || self.id.starts_with("user@")
    }

    /// Whether it names a smaller part than `other`, which holds it.
    pub(crate) fn is_inside(&self, other: &Workload) -> bool {
        let depth = |w: &Workload| match (w.holds_units(), w.id.starts_with("user@")) {
            (false, _) => usize::MAX,
            (true, true) => usize::MAX - 1,
            (true, false) => w.id.matches('-').count(),
        };
        self.kind == WorkloadKind::Unit && other.kind == WorkloadKind::Unit && depth(self) > depth(other)
    }
}

fn hex(part: &[u8], at_least: usize) -> bool {
    part.len() >= at_least && part.iter().all(u8::is_ascii_hexdigit)
}

/// The workload that a cgroup path names. Slurm: `…/job_77[/step_0]`; Kubernetes: `kubepods…/pod<uid>` and, under
/// systemd, `…-pod<uid with _>.slice`; containers: 64 hexadecimal digits, alone or as `docker-<id>.scope`;
/// otherwise the innermost `.service` or `.scope`.
pub(crate) fn from_cgroup(path: &[u8]) -> Option<Workload> {
    let parts = || path.split(|b| *b == b'/').filter(|p| !p.is_empty()).take(64);
    let mut job = None;
    for part in parts() {
        if let Some(id) = part.strip_prefix(b"job_").filter(|id| text::whole(id).is_some()) {
            job = Some(text::lossy(id, text::NAME));
        } else if let (Some(job), Some(step)) = (&job, part.strip_prefix(b"step_")) {
            return Some(Workload::new(WorkloadKind::Slurm, format!("{job}.{}", text::lossy(step, text::NAME))));
        }
    }
    if let Some(job) = job {
        return Some(Workload::new(WorkloadKind::Slurm, job));
    }
    if text::has(path, b"kubepods") {
        for part in parts() {
            let part = part.strip_suffix(b".slice").unwrap_or(part);
            let uid = part.strip_prefix(b"pod").or_else(|| text::rcut(part, b"-pod").map(|(_, uid)| uid));
            if let Some(uid) = uid.filter(|u| u.len() >= 32 && u.len() <= 64) {
                return Some(Workload::new(WorkloadKind::Pod, text::lossy(uid, text::NAME).replace('_', "-")));
            }
        }
    }
    let container = parts().find_map(|part| {
        let part = part.strip_suffix(b".scope").unwrap_or(part);
        let id = part.rsplit(|b| *b == b'-').next()?;
        hex(id, 64).then(|| text::lossy(id, 64))
    });
    if let Some(id) = container {
        return Some(Workload::new(WorkloadKind::Container, id));
    }
    let unit = parts().filter(|p| p.ends_with(b".service") || p.ends_with(b".scope")).last()?;
    Some(Workload::new(WorkloadKind::Unit, text::lossy(unit, text::NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_each_runner() {
        let id = "a".repeat(64);
        for (path, kind, want) in [
            ("/system.slice/slurmstepd.scope/job_77", WorkloadKind::Slurm, "77"),
            ("/slurm/uid_1000/job_77/step_0/task_3", WorkloadKind::Slurm, "77.0"),
            (
                "/kubepods/burstable/pod0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0/x",
                WorkloadKind::Pod,
                "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            ),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice/cri-containerd-x.scope",
                WorkloadKind::Pod,
                "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
            ),
            (&format!("/system.slice/docker-{id}.scope"), WorkloadKind::Container, &id),
            (&format!("/docker/{id}"), WorkloadKind::Container, &id),
            ("/system.slice/train.service", WorkloadKind::Unit, "train.service"),
        ] {
            let got = from_cgroup(path.as_bytes()).expect(path);
            assert_eq!((got.kind, got.id.as_str()), (kind, want), "{path}");
        }
        assert_eq!(from_cgroup(b"/"), None);
    }
}
