//! What the logs say: sightings of a kill, and the events made of them.

use super::workload::Workload;
use crate::time::Timestamp;
use std::sync::Arc;

/// Who ran out of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OomKind {
    /// The kernel, for want of memory of the host.
    #[default]
    Host,
    /// The kernel, at the limit of a memory cgroup.
    Cgroup,
    /// A daemon: systemd-oomd, earlyoom.
    Userspace,
    /// GPU memory. Nothing was killed for want of host memory: never evidence of an allocation by a store.
    Gpu,
}

impl OomKind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            OomKind::Host => "host",
            OomKind::Cgroup => "cgroup",
            OomKind::Userspace => "userspace",
            OomKind::Gpu => "gpu",
        }
    }
}

/// Who tells of a kill. The order is that of trust: of several tellers of one kill the first is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToldBy {
    /// The kernel's own log.
    Kernel,
    /// systemd or systemd-oomd.
    Systemd,
    /// The kubelet, node-problem-detector, or an object of the Kubernetes API.
    Kubernetes,
    /// A container runtime: containerd, Docker, Podman.
    Container,
    /// A daemon or the accounting of Slurm.
    Slurm,
    /// A daemon or the accounting of PBS.
    Pbs,
    /// A daemon or the accounting of LSF.
    Lsf,
    /// A line that any process could have written: `logger`, the output of a container or of a job.
    Process,
}

impl ToldBy {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ToldBy::Kernel => "kernel",
            ToldBy::Systemd => "systemd",
            ToldBy::Kubernetes => "kubernetes",
            ToldBy::Container => "container",
            ToldBy::Slurm => "slurm",
            ToldBy::Pbs => "pbs",
            ToldBy::Lsf => "lsf",
            ToldBy::Process => "process",
        }
    }
}

/// Where the time of a kill comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeSource {
    /// A line of a log.
    Line,
    /// A line without a year; the year was derived.
    DerivedYear,
    /// Seconds since boot, and a boot time from elsewhere.
    Boot,
    /// The accounting of a batch system: the end of the job or step.
    Accounting,
    /// No time is known.
    #[default]
    None,
}

impl TimeSource {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            TimeSource::Line => "line",
            TimeSource::DerivedYear => "derived-year",
            TimeSource::Boot => "boot",
            TimeSource::Accounting => "accounting",
            TimeSource::None => "none",
        }
    }
}

/// What a line says of a kill. The order is that of trust in its time: the first is the moment of the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `Killed process N …`, or the record of a daemon that kills.
    Killed,
    /// `oom-kill:constraint=…`, microseconds before the kill.
    Constraint,
    /// `X invoked oom-killer`, milliseconds before it (seconds on a slow console).
    Invoked,
    /// A report by another program, after the fact.
    Report,
    /// `oom_reaper: reaped process N`, after the fact.
    Reaped,
    /// Another line of the kernel's dump.
    Dump,
}

/// A time and how good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// The instant.
    pub at: Timestamp,
    /// How far from it the truth may lie, in nanoseconds.
    pub uncertainty_nanos: i64,
    /// Where it comes from, as a person would say it.
    pub from: &'static str,
    /// It rests on a guess (a zone that nobody named, a year from the captures, an hour lived twice).
    pub assumed: bool,
    /// The other instant, where a local time was lived twice.
    pub alternative: Option<Timestamp>,
    /// What it is taken from.
    pub source: TimeSource,
    /// The truth lies at `at` or up to `uncertainty_nanos` after it, not before.
    pub at_or_after: bool,
    /// The local time as printed without a year, in the year that was taken.
    pub(crate) yearless: Option<chrono::NaiveDateTime>,
}

impl EventTime {
    /// A time since boot, reckoned from a boot time that is good to `uncertainty_nanos`.
    pub(crate) fn since_boot(at: Timestamp, uncertainty_nanos: i64, from: &'static str, assumed: bool) -> Self {
        let source = TimeSource::Boot;
        EventTime {
            at,
            uncertainty_nanos,
            from,
            assumed,
            alternative: None,
            source,
            at_or_after: false,
            yearless: None,
        }
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The label of the log, as given to the scanner.
    pub path: Arc<str>,
    /// Number of the line there, from 1.
    pub line: u64,
    /// What the line says.
    pub role: Role,
    /// Its own time, if it has one.
    pub time: Option<EventTime>,
}

/// What is known of a kill. All sizes are bytes; all text is decoded lossily and bounded, but not escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: Option<OomKind>,
    pub(crate) process: Option<String>,
    pub(crate) pid: Option<u64>,
    pub(crate) total_vm: Option<u64>,
    pub(crate) anon_rss: Option<u64>,
    pub(crate) file_rss: Option<u64>,
    pub(crate) shmem_rss: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) score: Option<u64>,
    pub(crate) score_adj: Option<i64>,
    pub(crate) cgroup: Option<String>,
    pub(crate) limit_cgroup: Option<String>,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) usage_bytes: Option<u64>,
    pub(crate) constraint: Option<String>,
    pub(crate) invoked_by: Option<String>,
    pub(crate) host_memory: Option<u64>,
    pub(crate) host_swap: Option<u64>,
    pub(crate) workload: Option<Workload>,
    pub(crate) occurrences: Option<u64>,
}

impl Facts {
    /// Takes from `other` what is not known yet.
    pub(crate) fn fill(&mut self, other: &Facts) {
        fn take<T: Clone>(mine: &mut Option<T>, theirs: &Option<T>) {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        }
        take(&mut self.kind, &other.kind);
        take(&mut self.process, &other.process);
        take(&mut self.pid, &other.pid);
        take(&mut self.total_vm, &other.total_vm);
        take(&mut self.anon_rss, &other.anon_rss);
        take(&mut self.file_rss, &other.file_rss);
        take(&mut self.shmem_rss, &other.shmem_rss);
        take(&mut self.uid, &other.uid);
        take(&mut self.score, &other.score);
        take(&mut self.score_adj, &other.score_adj);
        take(&mut self.cgroup, &other.cgroup);
        take(&mut self.limit_cgroup, &other.limit_cgroup);
        take(&mut self.limit_bytes, &other.limit_bytes);
        take(&mut self.usage_bytes, &other.usage_bytes);
        take(&mut self.constraint, &other.constraint);
        take(&mut self.invoked_by, &other.invoked_by);
        take(&mut self.host_memory, &other.host_memory);
        take(&mut self.host_swap, &other.host_swap);
        match (&mut self.workload, &other.workload) {
            (Some(mine), Some(theirs)) if theirs.is_inside(mine) => *mine = theirs.clone(),
            (mine, theirs) => take(mine, theirs),
        }
        self.occurrences = self.occurrences.max(other.occurrences);
    }

    /// The figures that name a kill whatever clock its line had.
    pub(crate) fn figures(&self) -> Option<(u64, u64, u64)> {
        Some((self.pid?, self.total_vm?, self.anon_rss?))
    }
}

/// One kill as one log tells it. Hand it to [`merge`](super::merge()).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomSighting {
    pub(crate) host: Option<String>,
    pub(crate) time: Option<EventTime>,
    /// Nanoseconds since boot, where the line prints them.
    pub(crate) boot_nanos: Option<i64>,
    /// The best role among its lines; a sighting of [`Role::Invoked`] or [`Role::Dump`] names no victim.
    pub(crate) role: Role,
    /// Who tells; none of lists and counters that name nobody.
    pub(crate) told_by: Option<ToldBy>,
    /// The program that wrote the line, where the line names it and it need not be the teller.
    pub(crate) writer: Option<String>,
    pub(crate) reaped_at: Option<EventTime>,
    /// Nanoseconds since boot of the reaper's line.
    pub(crate) reaped_boot_nanos: Option<i64>,
    pub(crate) facts: Facts,
    pub(crate) sources: Vec<Source>,
}

impl OomSighting {
    /// The host, if the log or its name says.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The time, if one is known.
    pub fn time(&self) -> Option<EventTime> {
        self.time
    }

    /// Seconds since boot times 10⁹, where only these are printed.
    pub fn boot_nanos(&self) -> Option<i64> {
        self.boot_nanos
    }

    /// The process killed.
    pub fn process(&self) -> Option<&str> {
        self.facts.process.as_deref()
    }

    /// Whether it is of GPU memory.
    pub fn is_gpu(&self) -> bool {
        self.facts.kind == Some(OomKind::Gpu)
    }

    /// Its id.
    pub fn pid(&self) -> Option<u64> {
        self.facts.pid
    }

    /// Size of its address space in bytes.
    pub fn total_vm_bytes(&self) -> Option<u64> {
        self.facts.total_vm
    }

    /// The lines that tell of it.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }
}

/// One kill on one host, from however many logs. Sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OomEvent {
    /// The same on every reading of the same kill: sixteen hexadecimal digits.
    pub id: String,
    /// The host, if any log names it.
    pub host: Option<String>,
    /// When, by the best of its lines; the times of the others are in `sources`. Without meaning where `time_kind` is
    /// [`TimeSource::None`].
    pub time: Timestamp,
    /// What `time` is taken from.
    pub time_kind: TimeSource,
    /// The kill was at `time` or up to `uncertainty_nanos` after it, not before.
    pub at_or_after: bool,
    /// Nanoseconds since the host's boot, where a line prints them.
    pub boot_nanos: Option<i64>,
    /// Who tells of it; of several the most trusted.
    pub told_by: Option<ToldBy>,
    /// The program that wrote the line, where only a process tells.
    pub writer: Option<String>,
    /// How far from `time` the truth may lie, in nanoseconds.
    pub uncertainty_nanos: i64,
    /// Where `time` comes from, as a person would say it.
    pub time_source: &'static str,
    /// `time` rests on a guess: it caps what may be concluded from it.
    pub time_is_assumed: bool,
    /// The other instant that `time` can be, where a local time was lived twice.
    pub alternative_time: Option<Timestamp>,
    /// Who ran out of what.
    pub kind: OomKind,
    /// Name of the process killed (the kernel keeps 15 bytes). `None` with no `pid`: the OOM killer ran, its choice was
    /// not logged.
    pub process: Option<String>,
    /// Its process id.
    pub pid: Option<u64>,
    /// Size of its address space.
    pub total_vm_bytes: Option<u64>,
    /// Its resident anonymous memory.
    pub anon_rss_bytes: Option<u64>,
    /// Its resident file pages.
    pub file_rss_bytes: Option<u64>,
    /// Its resident shared memory.
    pub shmem_rss_bytes: Option<u64>,
    /// Its user id.
    pub uid: Option<u64>,
    /// Its badness score (kernels before 5.1, earlyoom).
    pub oom_score: Option<u64>,
    /// Its score adjustment.
    pub oom_score_adj: Option<i64>,
    /// Its memory cgroup.
    pub cgroup: Option<String>,
    /// The cgroup whose limit was reached.
    pub limit_cgroup: Option<String>,
    /// That limit, in bytes.
    pub limit_bytes: Option<u64>,
    /// What the cgroup held when it was reached, in bytes.
    pub usage_bytes: Option<u64>,
    /// `CONSTRAINT_NONE`, `CONSTRAINT_MEMCG`, …
    pub constraint: Option<String>,
    /// Name of the thread whose allocation failed (need not be of the process killed).
    pub invoked_by: Option<String>,
    /// When the kernel had its memory back.
    pub reaped_at: Option<Timestamp>,
    /// Memory of the host (`N pages RAM` of the same dump, pages of 4 KiB).
    pub host_memory_bytes: Option<u64>,
    /// Swap of the host (`Total swap` of the same dump).
    pub host_swap_bytes: Option<u64>,
    /// What the process was part of.
    pub workload: Option<Workload>,
    /// How many kills a record stands for (`count` of a Kubernetes event, `Detected N` of Slurm); 1 otherwise.
    pub occurrences: u64,
    /// The lines that tell of it, in order of path and line.
    pub sources: Vec<Source>,
    /// Lines beyond those in `sources`, which is bounded.
    pub more_sources: u64,
}
