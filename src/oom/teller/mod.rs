//! Who tells of kills, and in which words: one file a teller, one table.

mod batch;
mod cuda;
mod dask;
mod earlyoom;
pub(crate) mod kernel;
pub(crate) mod kubelet;
mod oomd;
mod ray;
mod runtime;
mod slurm;
mod systemd;

use super::event::{Facts, OomKind, Role, ToldBy};
use super::options::Clock;
use super::prefix::{Peeled, Writer};
use super::stamp::Stamp;
use super::text;

/// One understood message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saying {
    pub(crate) role: Role,
    pub(crate) facts: Facts,
    /// The host that the message itself names.
    pub(crate) host: Option<String>,
    /// The time that the message itself tells.
    pub(crate) stamp: Option<(Stamp, Clock)>,
    /// How good the line's time is for the kill, where that is another than its form has.
    pub(crate) clock: Option<Clock>,
    pub(crate) told_by: Option<ToldBy>,
}

impl Saying {
    pub(crate) fn new(role: Role, facts: Facts) -> Self {
        Saying { role, facts, host: None, stamp: None, clock: None, told_by: None }
    }

    /// A report after the fact, by `told_by`.
    pub(crate) fn report(told_by: ToldBy, facts: Facts) -> Self {
        Saying { told_by: Some(told_by), ..Saying::new(Role::Report, facts) }
    }
}

/// A teller.
struct Teller {
    told_by: ToldBy,
    /// The programs whose lines are believed to be its own; empty: the kernel's.
    writers: &'static [&'static str],
    /// The event's kind, where that is one.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the table is documentation, and held against the parts by tests")
    )]
    kind: Option<OomKind>,
    /// A line that it understands.
    #[cfg_attr(not(test), expect(dead_code, reason = "as above"))]
    example: &'static str,
    parse: fn(&[u8]) -> Option<Saying>,
}

/// The tellers, in the order in which they are asked.
const TELLERS: [Teller; 13] = [
    Teller {
        told_by: ToldBy::Kubernetes,
        writers: &[],
        kind: Some(OomKind::Host),
        example: "System OOM encountered, victim process: python3, pid: 7",
        parse: kubelet::parse,
    },
    Teller {
        told_by: ToldBy::Kernel,
        writers: &[],
        kind: Some(OomKind::Host),
        example: "Out of memory: Killed process 7 (python3) total-vm:9kB, anon-rss:8kB, file-rss:1kB, shmem-rss:0kB",
        parse: kernel::parse,
    },
    Teller {
        told_by: ToldBy::Systemd,
        writers: &["systemd", "systemd-oomd", "oomd"],
        kind: Some(OomKind::Userspace),
        example: "Killed /system.slice/train.service due to memory pressure for /system.slice being 85.03% > 80.00%",
        parse: oomd::parse,
    },
    Teller {
        told_by: ToldBy::Systemd,
        writers: &["systemd"],
        kind: None,
        example: "train.service: A process of this unit has been killed by the OOM killer.",
        parse: systemd::parse,
    },
    Teller {
        told_by: ToldBy::Process,
        writers: &[],
        kind: Some(OomKind::Userspace),
        example: "sending SIGTERM to process 7 uid 0 \"python3\": oom_score 1302, oom_score_adj 0",
        parse: earlyoom::parse,
    },
    Teller {
        told_by: ToldBy::Slurm,
        writers: &[],
        kind: Some(OomKind::Cgroup),
        example: "slurmstepd: error: Detected 1 oom-kill event(s) in step 1.batch cgroup",
        parse: slurm::parse,
    },
    Teller {
        told_by: ToldBy::Container,
        writers: &[],
        kind: Some(OomKind::Cgroup),
        example: "TaskOOM event container_id:\"ec9ee26695deb4cc\"",
        parse: runtime::parse,
    },
    Teller {
        told_by: ToldBy::Pbs,
        writers: &[],
        kind: Some(OomKind::Userspace),
        example: "=>> PBS: job killed: mem 4194304kb exceeded limit 2097152kb",
        parse: batch::pbs,
    },
    Teller {
        told_by: ToldBy::Lsf,
        writers: &[],
        kind: Some(OomKind::Userspace),
        example: "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        parse: batch::lsf,
    },
    Teller {
        told_by: ToldBy::Process,
        writers: &[],
        kind: Some(OomKind::Userspace),
        example: "1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons",
        parse: ray::parse,
    },
    Teller {
        told_by: ToldBy::Process,
        writers: &[],
        kind: Some(OomKind::Userspace),
        example: "Worker tcp://192.0.2.7:34567 (pid=7) exceeded 95% memory budget. Restarting...",
        parse: dask::parse,
    },
    Teller {
        told_by: ToldBy::Container,
        writers: &[],
        kind: Some(OomKind::Cgroup),
        example: "container oom ec9ee26695deb4cc (image=train:1, name=train)",
        parse: runtime::docker,
    },
    Teller {
        told_by: ToldBy::Process,
        writers: &[],
        kind: Some(OomKind::Gpu),
        example: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        parse: cuda::parse,
    },
];

/// What a message says, by any of the known wordings, and who tells it: a line that any process could have written is
/// told by that process, whatever it says of itself.
pub(crate) fn understand(peeled: &Peeled<'_>) -> Option<Saying> {
    for teller in &TELLERS {
        let Some(mut saying) = (teller.parse)(&peeled.message) else { continue };
        let foreign = match (&peeled.writer, teller.told_by) {
            (Writer::Program(_), ToldBy::Kernel) => true,
            (Writer::Program(p), ToldBy::Systemd) => {
                !teller.writers.iter().any(|w| p.as_ref() == w.as_bytes() || p.starts_with(b"daemon"))
            }
            _ => false,
        };
        let contained = peeled.contained && matches!(teller.told_by, ToldBy::Kernel | ToldBy::Systemd);
        saying.told_by = Some(if foreign || contained { ToldBy::Process } else { teller.told_by });
        return Some(saying);
    }
    None
}

pub(crate) use slurm::facts as slurm_facts;
pub(crate) use systemd::facts as unit_facts;

/// The text between `before` and `after`.
fn between<'a>(message: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    Some(text::cut(text::cut(message, before)?.1, after)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_example_is_understood_by_its_own_teller_and_by_none_before() {
        for (n, teller) in TELLERS.iter().enumerate() {
            let first = TELLERS.iter().position(|t| (t.parse)(teller.example.as_bytes()).is_some());
            assert_eq!(first, Some(n), "{}", teller.example);
            let saying = (teller.parse)(teller.example.as_bytes()).unwrap();
            assert_eq!(saying.facts.kind, teller.kind, "{}", teller.example);
            assert!(super::super::may_matter(teller.example.as_bytes()), "{}", teller.example);
        }
    }
}
