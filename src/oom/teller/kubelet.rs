//! What the kubelet and node-problem-detector write: `System OOM encountered`, `"Got sys oom event"`, and statuses that
//! quote the kernel.

use super::super::event::{Facts, OomKind, Role};
use super::super::options::Clock;
use super::super::stamp::{self, iso_stamp};
use super::super::text::{self, cut};
use super::{Saying, kernel};

/// node-problem-detector reckons the kernel's stamps from the boot time it saw.
const DETECTED: Clock = Clock { from: "node-problem-detector, kernel time", floor: 1_000_000_000, after: false };

/// A message of either.
pub(super) fn parse(message: &[u8]) -> Option<Saying> {
    if let Some((stamp, quoted)) = detected(message) {
        let stamp = stamp.map(|s| (s, DETECTED));
        return kernel::parse(quoted).map(|saying| Saying { stamp, ..saying });
    }
    system_oom(message).or_else(|| got(message))
}

/// `System OOM encountered, victim process: python, pid: 48211`.
pub(crate) fn system_oom(message: &[u8]) -> Option<Saying> {
    let (_, rest) = cut(message, b"System OOM encountered")?;
    let mut facts = Facts { kind: Some(OomKind::Host), ..Facts::default() };
    if let Some((_, rest)) = cut(rest, b"victim process: ")
        && let Some((name, pid)) = text::rcut(rest, b", pid: ")
    {
        facts.process = text::name(name);
        facts.pid = text::number(pid).map(|(pid, _)| pid);
    }
    Some(Saying::new(Role::Report, facts))
}

/// `New status generated: &{Source:kernel-monitor Events:[{Severity:warn Timestamp:T Reason:OOMKilling Message:M}] …`
fn detected(message: &[u8]) -> Option<(Option<stamp::Stamp>, &[u8])> {
    let (_, status) = cut(message, b"New status generated: &{Source:")?;
    let (before, rest) = cut(status, b" Reason:OOMKilling Message:")?;
    let time = text::rcut(before, b" Timestamp:").and_then(|(_, t)| iso_stamp(t)).map(|(stamp, _)| stamp);
    let end = [&b"} {Severity:"[..], b"}] Conditions:"].iter().filter_map(|e| text::find(rest, e)).min();
    Some((time, rest.get(..end.unwrap_or(rest.len()))?))
}

/// The kubelet's `"Got sys oom event" event={"Pid":7,"ProcessName":"python",…}` (or `&{Pid:7 ProcessName:python …}`).
fn got(message: &[u8]) -> Option<Saying> {
    let (_, event) = cut(message, b"Got sys oom event")?;
    let quoted = cut(event, b"\"ProcessName\":\"").and_then(|(_, n)| cut(n, b"\"")).map(|(n, _)| n);
    let plain = || cut(event, b" ProcessName:").map(|(_, n)| text::word(n).0);
    let pid = cut(event, b"\"Pid\":").or_else(|| cut(event, b"{Pid:")).and_then(|(_, n)| text::number(n));
    let facts = Facts {
        kind: Some(if text::has(event, b"CONSTRAINT_MEMCG") { OomKind::Cgroup } else { OomKind::Host }),
        pid: pid.map(|(n, _)| n),
        process: quoted.or_else(plain).and_then(text::name),
        ..Facts::default()
    };
    Some(Saying::new(Role::Report, facts))
}
