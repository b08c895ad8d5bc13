//! Slurm: the step daemon counts kills in a step's cgroup, `srun` names the host.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::{self, cut, has, number};
use super::super::workload::{Workload, WorkloadKind};
use super::Saying;

/// `Detected N oom-kill event(s) in step J.S cgroup`, `… in StepId=J.S cgroup`; `srun: error: HOST: task 0: Out Of Memory`;
/// `JobId=J OOM failure` of slurmctld; `Step J.S exceeded memory limit (…), being killed` of jobacct_gather.
pub(super) fn parse(message: &[u8]) -> Option<Saying> {
    if let Some((_, rest)) = cut(message, b"Detected ") {
        return detected(rest);
    }
    if let Some((before, _)) = cut(message, b" OOM failure") {
        let (_, id) = text::rcut(before, b"JobId=")?;
        return Some(Saying::new(Role::Report, facts(text::word(id).0)?));
    }
    if let Some((before, rest)) = cut(message, b" exceeded memory limit ") {
        let id = text::rcut(before, b" ").map_or(before, |(_, id)| id);
        let named = text::rcut(before, b"tep ").is_some() || text::rcut(before, b"ob ").is_some();
        let id = id.strip_prefix(b"StepId=").or_else(|| id.strip_prefix(b"JobId=")).unwrap_or(id);
        return (named && has(rest, b"being killed"))
            .then(|| facts(id))
            .flatten()
            .map(|f| Saying::new(Role::Report, Facts { kind: Some(OomKind::Userspace), ..f }));
    }
    let (_, rest) = cut(message, b"srun: error: ")?;
    let (host, rest) = cut(rest, b": task")?;
    if !rest.trim_ascii_end().ends_with(b": Out Of Memory") || host.contains(&b' ') {
        return None;
    }
    let facts = Facts { kind: Some(OomKind::Cgroup), ..Facts::default() };
    Some(Saying { host: text::name(host), ..Saying::new(Role::Report, facts) })
}

/// What is known of the kill in a job or step.
pub(crate) fn facts(id: &[u8]) -> Option<Facts> {
    let id = id.split(|b| matches!(b, b'(' | b'+')).next()?;
    let workload = Workload::new(WorkloadKind::Slurm, text::name(id.strip_suffix(b".").unwrap_or(id))?);
    id.first().filter(|b| b.is_ascii_digit())?;
    Some(Facts { kind: Some(OomKind::Cgroup), workload: Some(workload), ..Facts::default() })
}

fn detected(rest: &[u8]) -> Option<Saying> {
    let (count, rest) = number(rest)?;
    let rest = cut(rest, b" oom-kill event").or_else(|| cut(rest, b" oom_kill event"))?.1;
    let rest = cut(rest, b" in ")?.1;
    let step = rest.strip_prefix(b"step ").or_else(|| rest.strip_prefix(b"StepId="))?;
    let facts = Facts { occurrences: Some(count), ..facts(text::word(step).0)? };
    (count > 0).then(|| Saying::new(Role::Report, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_and_count_in_both_wordings() {
        for (message, id, count) in [
            (&b"slurmstepd: error: Detected 1 oom-kill event(s) in step 370626.batch cgroup"[..], "370626.batch", 1),
            (b"slurmstepd: error: Detected 2 oom-kill event(s) in StepId=14604003.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.", "14604003.0", 2),
            (b"error: Detected 1 oom_kill event in StepId=5.0. Some of the step tasks have been OOM Killed.", "5.0", 1),
        ] {
            let f = parse(message).expect("understood").facts;
            assert_eq!((f.workload.map(|w| w.id).as_deref(), f.occurrences), (Some(id), Some(count)));
        }
        assert_eq!(
            parse(b"srun: error: gpu-07: task 0: Out Of Memory").and_then(|s| s.host).as_deref(),
            Some("gpu-07")
        );
        assert_eq!(parse(b"srun: error: gpu-07: task 0: Killed"), None);
    }
}
