//! klog, as the kubelet and node-problem-detector write it: `E1129 11:20:39.123456    1234 kubelet.go:1234] message`.
//! Local time without a year.

use super::super::format::Format;
use super::super::options::Clock;
use super::super::{stamp, text};
use super::{Labels, Peeled, Writer};

const LATE: Clock = Clock { from: "klog", floor: 1_000_000_000, after: false };

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    let (level, rest) = rest.split_first()?;
    if !b"IWEF".contains(level) {
        return None;
    }
    let (found, rest) = stamp::klog(rest)?;
    let (_, rest) = text::number(rest.trim_ascii_start())?;
    let (place, message) = text::cut(rest, b"] ")?;
    if !place.starts_with(b" ") || !place.contains(&b':') {
        return None;
    }
    head.stamped(found, LATE, Format::Klog);
    head.writer = Writer::Program(place.get(1..)?.into());
    head.open = false;
    if text::has(message, b"kind=\"Node\"") {
        head.host = text::cut(message, b" object=\"").and_then(|(_, m)| text::cut(m, b"\"")).map(|(name, _)| {
            // `namespace/name` of newer releases.
            text::rcut(name, b"/").map_or(name, |(_, n)| n).into()
        });
    }
    Some(message)
}
