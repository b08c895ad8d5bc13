//! A stamp that stands free.

use super::super::format::Format;
use super::super::options::Clock;
use super::super::stamp::{self, SECOND, Stamp};
use super::{Labels, Peeled};

/// The kernel's own clock.
pub(crate) const KERNEL: Clock = Clock { from: "kernel log with zone", floor: 1000, after: false };
/// The daemon stamps a line when it receives it: not better than a millisecond, whatever it prints.
pub(crate) const RECEIVED: Clock = Clock { from: "syslog with zone", floor: 1_000_000, after: false };
/// `dmesg --time-format iso` drops the fraction of the boot time: the kill was up to a second later.
const LATER: Clock = Clock { from: "dmesg iso: up to 1 s before the kill", floor: SECOND, after: true };

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    let (found, after) = stamp::any(rest)?;
    let after = after.strip_prefix(b":").unwrap_or(after);
    if !after.first().is_none_or(|b| b.is_ascii_whitespace() || b"|[,;\"".contains(b)) {
        return None;
    }
    // Only dmesg has a comma in a time with `T`, and six digits behind it.
    let dmesg = rest.get(10) == Some(&b'T')
        && rest.get(19) == Some(&b',')
        && matches!(found, Stamp::Absolute { unit: 1000, .. });
    let (clock, format) = match found {
        _ if dmesg => (LATER, Format::DmesgIso),
        Stamp::Yearless { .. } => (RECEIVED, Format::Rfc3164),
        _ => (RECEIVED, Format::SyslogIso),
    };
    head.stamped(found, clock, format);
    head.open = !dmesg;
    Some(after)
}
