//! `host: line`, as pdsh and clush print it.
//!
//! Many programs begin a line with a word and a colon. So a label is believed only when what follows is a line that a
//! log can begin with (a time stamp, JSON, the kernel's own words for a kill); once believed, it holds for the lines
//! of that host that have no header of their own.

use super::super::format::{self, Format};
use super::super::text;
use super::nodeset::{MAX_HOSTS, is_host};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Words before a colon that are programs, facilities or levels, and no hosts.
const NO_HOSTS: [&str; 41] = [
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
];

/// The labels seen so far.
#[derive(Default)]
pub(crate) struct Labels {
    believed: BTreeSet<Arc<str>>,
    last: Option<Arc<str>>,
}

impl Labels {
    /// The host and the line behind it.
    pub(crate) fn peel<'a>(&mut self, line: &'a [u8]) -> Option<(Arc<str>, &'a [u8])> {
        let (label, rest) = split(line)?;
        if let Some(last) = self.last.as_ref().filter(|l| ***l == *label) {
            return Some((Arc::clone(last), rest));
        }
        let host = match self.believed.get(label) {
            Some(host) => Arc::clone(host),
            None if self.believed.len() < MAX_HOSTS && is_host(label) && !is_program(label) && opens_a_line(rest) => {
                let host: Arc<str> = label.into();
                self.believed.insert(Arc::clone(&host));
                host
            }
            None => return None,
        };
        self.last = Some(Arc::clone(&host));
        Some((host, rest))
    }
}

/// What stands before the first colon and blank, if nothing but the characters of a host's name or address does.
fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let end = line.iter().take(254).position(|b| !(b.is_ascii_alphanumeric() || b"._-:".contains(b)))?;
    let label = line.get(..end)?.strip_suffix(b":")?;
    let rest = line.get(end..)?.strip_prefix(b" ")?;
    Some((std::str::from_utf8(label).ok().filter(|l| !l.is_empty())?, rest))
}

fn is_program(label: &str) -> bool {
    NO_HOSTS.iter().any(|p| p.eq_ignore_ascii_case(label)) || label.ends_with("Error") || label.ends_with("Exception")
}

/// Whether a log can begin with this line.
fn opens_a_line(rest: &[u8]) -> bool {
    const KERNEL: [&[u8]; 4] =
        [b"Out of memory: Kill", b"Memory cgroup out of memory: Kill", b"oom-kill:constraint=", b"oom_reaper: reaped "];
    const OTHERS: [&[u8]; 4] = [b"{\"", b"__CURSOR=", b"__REALTIME_TIMESTAMP=", super::super::facts::MARK];
    let killed = || rest.strip_prefix(b"Killed process ").and_then(text::number).is_some();
    OTHERS.iter().chain(&KERNEL).any(|k| rest.starts_with(k))
        || rest == b"{"
        || killed()
        || format::peel(rest).format != Format::Plain
}
