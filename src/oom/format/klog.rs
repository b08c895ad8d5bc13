//! klog, as the kubelet and node-problem-detector write it: `E1129 11:20:39.123456    1234 kubelet.go:1234] message`.
//! Local time without a year.

use super::super::event::{Facts, OomKind, Role};
use super::super::kernel::Saying;
use super::super::options::Clock;
use super::super::stamp::{self, iso_stamp};
use super::super::text::{self, cut};
use super::{Format, Peeled};
use std::borrow::Cow;

const LATE: Clock = Clock { from: "klog", floor: 1_000_000_000 };
/// node-problem-detector reckons the kernel's stamps from the boot time it saw.
const DETECTED: Clock = Clock { from: "node-problem-detector, kernel time", floor: 1_000_000_000 };

/// Takes the header off; of node-problem-detector's statuses takes the kernel's line out.
pub(crate) fn line(line: &[u8]) -> Option<Peeled<'_>> {
    let (level, rest) = line.split_first()?;
    if !b"IWEF".contains(level) {
        return None;
    }
    let (stamp, rest) = stamp::klog(rest)?;
    let (_, rest) = text::number(rest.trim_ascii_start())?;
    let (place, message) = cut(rest, b"] ")?;
    if !place.starts_with(b" ") || !place.contains(&b':') {
        return None;
    }
    let mut peeled = Peeled {
        format: Format::Klog,
        stamp: Some((stamp, LATE)),
        boot: None,
        host: None,
        message: Cow::Borrowed(message),
    };
    if let Some((stamp, message)) = detected(message) {
        peeled.message = Cow::Borrowed(message);
        peeled.stamp = stamp.map(|s| (s, DETECTED)).or(peeled.stamp);
    } else if text::has(message, b"kind=\"Node\"") {
        peeled.host = cut(message, b" object=\"").and_then(|(_, m)| cut(m, b"\"")).map(|(name, _)| {
            // `namespace/name` of newer releases.
            Cow::Borrowed(text::rcut(name, b"/").map_or(name, |(_, n)| n))
        });
    }
    Some(peeled)
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
pub(crate) fn kubelet(message: &[u8]) -> Option<Saying> {
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
