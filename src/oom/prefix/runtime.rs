//! `stdout F ` and `stderr P ` behind the time of a container's log (CRI); of a part (`P`) what is there.

use super::super::format::Format;
use super::super::options::Clock;
use super::{Labels, Peeled};

/// The time at which the line was printed.
pub(crate) const PRINTED: Clock = Clock { from: "container log, time of printing", floor: 1_000_000_000, after: false };

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    if !head.open {
        return None;
    }
    let after = rest.strip_prefix(b"stdout ").or_else(|| rest.strip_prefix(b"stderr "))?;
    let after = after.strip_prefix(b"F ").or_else(|| after.strip_prefix(b"P "))?;
    head.stamp = head.stamp.map(|(stamp, _)| (stamp, PRINTED));
    (head.format, head.contained, head.open) = (Some(Format::Cri), true, false);
    Some(after)
}
