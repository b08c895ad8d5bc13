//! The host or service that a collecting tool put before a line: `host: line` (pdsh, clush, pssh -P, salt --out=txt,
//! talosctl), `service | line` (docker compose), `host<tab>line` (parallel --tag).
//!
//! Many programs begin a line with a word and a colon. So a label is believed only when what follows is a line that a
//! log can begin with (a time stamp, JSON, the kernel's own words for a kill); once believed, it holds for the lines
//! of that host that have no header of their own.

use super::super::envelope::nodeset::{MAX_HOSTS, is_host};
use super::{Peeled, is_nameless, opens_within};
use std::collections::BTreeSet;

/// Words before a colon that are programs, facilities, levels or fields, and no hosts.
const NO_HOSTS: [&str; 68] = [
    "kernel",
    "kern",
    "user",
    "daemon",
    "syslog",
    "auth",
    "systemd",
    "systemd-oomd",
    "oomd",
    "earlyoom",
    "slurmstepd",
    "slurmd",
    "slurmctld",
    "srun",
    "sbatch",
    "kubelet",
    "containerd",
    "dockerd",
    "crio",
    "node-problem-detector",
    "python",
    "python3",
    "pt_main_thread",
    "torchrun",
    "error",
    "warning",
    "info",
    "debug",
    "fatal",
    "notice",
    "stdout",
    "stderr",
    "out",
    "err",
    "clush",
    "pdsh",
    "ssh",
    "dmesg",
    "journalctl",
    "oom_reaper",
    "oom-kill",
    "data",
    "message",
    "msg",
    "log",
    "line",
    "event",
    "events",
    "id",
    "retry",
    "time",
    "date",
    "level",
    "severity",
    "output",
    "comment",
    "result",
    "stdout_lines",
    "subject",
    "from",
    "note",
    "reason",
    "status",
    "description",
    "memory",
    "warn",
    "name",
    "node",
];

/// The labels believed so far.
#[derive(Default)]
pub(crate) struct Labels {
    believed: BTreeSet<Box<str>>,
}

impl Labels {
    /// The host that stands before a line, which is then believed of other lines too, and the line.
    pub(crate) fn host<'a>(&mut self, line: &'a [u8]) -> Option<(&'a str, &'a [u8])> {
        let mut head = Peeled::default();
        let rest = take_within(&mut head, line, self, 2)?;
        let (label, ..) = split(line).filter(|_| head.label.is_some())?;
        if is_nameless(label.as_bytes()) {
            return None;
        }
        if self.believed.len() < MAX_HOSTS && !self.believed.contains(label) {
            self.believed.insert(label.into());
        }
        Some((label, rest))
    }
}

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    take_within(head, rest, labels, 2)
}

/// The same, where labels may stand behind each other only `depth` times more.
pub(super) fn take_within<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels, depth: u8) -> Option<&'a [u8]> {
    if head.stamp.is_some() || head.label.is_some() {
        return None;
    }
    let (label, kind, after) = split(rest)?;
    let believed = || labels.believed.contains(label) || opens_within(after, labels, depth);
    if !(is_host(label) || is_nameless(label.as_bytes())) || is_program(label) || !believed() {
        return None;
    }
    match kind {
        Kind::Service => {
            head.weak = Some(label.as_bytes().into());
            head.contained = true;
        }
        Kind::Host => head.label = Some(label.as_bytes().into()),
    }
    Some(after)
}

enum Kind {
    Host,
    Service,
}

/// The word at the start of a line, how it is set off, and what follows.
fn split(line: &[u8]) -> Option<(&str, Kind, &[u8])> {
    let end = line.iter().take(254).position(|b| !(b.is_ascii_alphanumeric() || b"._-:".contains(b)))?;
    let (word, after) = line.split_at_checked(end)?;
    let text = |word| std::str::from_utf8(word).ok().filter(|l| !l.is_empty());
    if after.starts_with(b"\t") {
        return Some((text(word)?, Kind::Host, after.get(1..)?));
    }
    let blanks = after.iter().take(64).take_while(|b| **b == b' ').count();
    if let Some(rest) = after.get(blanks..)?.strip_prefix(b"| ").filter(|_| blanks > 0) {
        return Some((text(word)?, Kind::Service, rest));
    }
    Some((text(word.strip_suffix(b":")?)?, Kind::Host, after.strip_prefix(b" ")?))
}

fn is_program(label: &str) -> bool {
    NO_HOSTS.iter().any(|p| p.eq_ignore_ascii_case(label)) || label.ends_with("Error") || label.ends_with("Exception")
}

/// Whether a word can stand for a host where a block of lines begins with it.
pub(crate) fn can_be_host(word: &str) -> bool {
    is_host(word) && !is_program(word)
}
