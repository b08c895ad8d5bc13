//! Why a line that speaks of an OOM gave no event, and the nearest form that would have.

use super::text::has;

pub(super) const LIST: &str = "no row of the list that the file began as (host,time[,process[,pid]])";
pub(super) const TOO_MANY: &str = "too many hosts are mixed in one export of the journal";
pub(super) const BAD_JSON: &str = "no valid JSON: it may be cut";
pub(super) const UNKNOWN_JSON: &str =
    "JSON without a message under a usual name: --log-field message=NAME,time=NAME,host=NAME names it";

/// The reason for a message.
pub(super) fn of(message: &[u8]) -> &'static str {
    const FORMS: [(&[&[u8]], &str); 9] = [
        (
            &[b"Killed process "],
            "a kill whose pid, name or sizes cannot be read; nearest: `Killed process PID (NAME) total-vm:NkB, …`",
        ),
        (
            &[b"Kill process "],
            "a choice of the OOM killer that cannot be read; nearest: `Kill process PID (NAME) score N or sacrifice child`",
        ),
        (&[b"oom-kill:"], "cut or of another kernel; nearest: `oom-kill:constraint=…,task=NAME,pid=N,uid=N`"),
        (&[b"oom_reaper: reaped"], "cut; nearest: `oom_reaper: reaped process PID (NAME), now anon-rss:…`"),
        (
            &[b"SystemOOM", b"OOMKill"],
            "Kubernetes' word without an event around it; nearest: `kubectl get events -o json`",
        ),
        (
            &[b"OUT_OF_ME"],
            "Slurm's state without its columns; nearest: `sacct -P -o JobID,State,ExitCode,NodeList,End`",
        ),
        (
            &[b"Out Of Memory"],
            "Slurm's word without a host or step; nearest: `srun: error: HOST: task N: Out Of Memory`",
        ),
        (&[b"oom-kill", b"OOM killer"], "names the OOM killer but no process or unit"),
        (
            &[b"Out of memory"],
            "the kernel ran out of memory, no process is named; nearest: `Out of memory: Killed process PID (NAME) …`",
        ),
    ];
    FORMS
        .iter()
        .find(|(words, _)| words.iter().any(|w| has(message, w)))
        .map_or("words of no known teller", |(_, why)| why)
}
