//! Records of `/dev/kmsg` and of extended netconsole: `3,1234,152700479,-;message` (priority and facility, sequence
//! number, microseconds since boot, flags; perhaps `,caller=T12`, `,ncfrag=0/120`).

use super::super::format::Format;
use super::super::stamp::Stamp;
use super::super::text;
use super::{Labels, Peeled, Writer, date};

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    let (priority, after) = text::number(rest)?;
    let (_, after) = text::number(after.strip_prefix(b",")?)?;
    let (micros, after) = text::number(after.strip_prefix(b",")?)?;
    let end = after.iter().take(80).position(|b| *b == b';')?;
    let flags = after.get(..end)?.strip_prefix(b",")?;
    if priority > 191 || !flags.iter().all(|b| b.is_ascii_graphic()) {
        return None;
    }
    let nanos = i64::try_from(micros).ok()?.checked_mul(1000)?;
    head.stamped(Stamp::Boot { nanos }, date::KERNEL, Format::DmesgRaw);
    head.writer = if priority < 8 { Writer::Kernel } else { Writer::Program(b"a process (/dev/kmsg)".into()) };
    after.get(end + 1..)
}
