//! PBS and LSF: their daemons kill a job that takes more memory than it asked for, and say so in its output, their logs
//! and their accounting.

use super::super::event::{Facts, OomKind, Role};
use super::super::options::Clock;
use super::super::text::{self, cut};
use super::super::workload::{Workload, WorkloadKind};
use super::{Saying, between};

/// The end of a job, in whole seconds, after the kill.
const ENDED: Clock = Clock { from: "accounting, end of the job", floor: 1_000_000_000, after: false };

fn job(id: &[u8]) -> Option<Workload> {
    Some(Workload::new(WorkloadKind::Job, text::name(id)?))
}

fn saying(workload: Option<Workload>, host: Option<&[u8]>) -> Saying {
    let facts = Facts { kind: Some(OomKind::Userspace), workload, ..Facts::default() };
    Saying { host: host.and_then(text::name), ..Saying::new(Role::Report, facts) }
}

/// `=>> PBS: job killed: mem 4kb exceeded limit 2kb` in a job's output; `…;pbs_mom;Job;77.srv;mem 4kb exceeded limit 2kb`
/// in the execution daemon's log; `…;E;77.srv;… exec_host=gpu-1/0 … Exit_status=-27` in the accounting, where -26 and -27 are
/// a job killed for vmem and for mem.
pub(super) fn pbs(message: &[u8]) -> Option<Saying> {
    if let Some((_, rest)) = cut(message, b"PBS: job killed: ") {
        return (rest.starts_with(b"mem ") || rest.starts_with(b"vmem ")).then(|| saying(None, None));
    }
    let mut parts = message.strip_prefix(b";")?.split(|b| *b == b';');
    let (kind, second) = (parts.next()?, parts.next()?);
    if kind == b"E" {
        let rest = parts.next()?;
        let status = cut(rest, b"Exit_status=").map(|(_, s)| s.split(|b| *b == b' ').next().unwrap_or_default())?;
        let host = cut(rest, b"exec_host=").and_then(|(_, h)| h.split(|b| matches!(b, b'/' | b' ')).next());
        let ended = Saying { clock: Some(ENDED), ..saying(job(second), host) };
        return matches!(status, b"-26" | b"-27").then_some(ended);
    }
    let _class = parts.next()?;
    let (id, rest) = (parts.next()?, parts.next()?);
    let over = (rest.starts_with(b"mem ") || rest.starts_with(b"vmem ")) && text::has(rest, b" exceeded limit ");
    over.then(|| saying(job(id), None))
}

/// `TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.`, with `Job <77>` before it in `bhist` and `bacct`.
pub(super) fn lsf(message: &[u8]) -> Option<Saying> {
    let (before, _) = cut(message, b"TERM_MEMLIMIT").or_else(|| cut(message, b"TERM_SWAP"))?;
    let id = between(before, b"Job <", b">");
    let host = between(before, b"host(s) <", b">");
    Some(saying(id.and_then(job), host))
}
