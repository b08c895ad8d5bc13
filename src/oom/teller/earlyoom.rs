//! earlyoom: `sending SIGTERM to process 48211 uid 1000 "python": oom_score 1302, …`.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::{self, cut, number};
use super::Saying;

/// Reads the line; the wording before 1.7 has `badness` for `oom_score`.
pub(crate) fn parse(message: &[u8]) -> Option<Saying> {
    let (_, rest) =
        cut(message, b"sending SIGTERM to process ").or_else(|| cut(message, b"sending SIGKILL to process "))?;
    let (pid, rest) = number(rest)?;
    let (uid, rest) = match rest.strip_prefix(b" uid ") {
        Some(rest) => number(rest).map(|(uid, rest)| (Some(uid), rest))?,
        None => (None, rest),
    };
    let rest = rest.strip_prefix(b" \"")?;
    // The command line at the end may hold anything: the first closing quote before a score is that of the name.
    let (name, score) = cut(rest, b"\": oom_score ").or_else(|| cut(rest, b"\": badness "))?;
    let facts = Facts {
        kind: Some(OomKind::Userspace),
        pid: Some(pid),
        uid,
        process: text::name(name),
        score: number(score).map(|(n, _)| n),
        ..Facts::default()
    };
    Some(Saying::new(Role::Killed, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_pid_and_score() {
        let f = parse(b"earlyoom[611]: sending SIGTERM to process 48211 uid 1000 \"py \"x\": oom_score 1302, oom_score_adj 0, VmRSS 502186 MiB, cmdline \"a\": oom_score 7\"")
            .expect("understood")
            .facts;
        assert_eq!(
            (f.pid, f.uid, f.process.as_deref(), f.score),
            (Some(48211), Some(1000), Some("py \"x"), Some(1302))
        );
    }
}
