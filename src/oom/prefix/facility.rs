//! Columns of `dmesg -x` (`kern  :err   : `), of talosctl (`kern:     err: `) and of busybox (`kern.err kernel: `).

use super::{Labels, Peeled, Writer};

const FACILITIES: [&[u8]; 21] = [
    b"kern",
    b"user",
    b"mail",
    b"daemon",
    b"auth",
    b"syslog",
    b"lpr",
    b"news",
    b"uucp",
    b"cron",
    b"authpriv",
    b"ftp",
    b"res0",
    b"local0",
    b"local1",
    b"local2",
    b"local3",
    b"local4",
    b"local5",
    b"local6",
    b"local7",
];
const LEVELS: [&[u8]; 13] = [
    b"emerg", b"alert", b"crit", b"err", b"error", b"warn", b"warning", b"notice", b"info", b"debug", b"panic",
    b"none", b"trace",
];

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    let word = |bytes: &'a [u8]| {
        bytes.split_at_checked(bytes.iter().take(12).take_while(|b| b.is_ascii_alphanumeric()).count())
    };
    let (facility, after) = word(rest)?;
    if !FACILITIES.contains(&facility) {
        return None;
    }
    let end = match after.strip_prefix(b".") {
        Some(level) => word(level).filter(|(l, _)| LEVELS.contains(l))?.1.strip_prefix(b" ")?,
        None => {
            let (level, after) = word(after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())?;
            let after = after.trim_ascii_start().strip_prefix(b":").filter(|_| LEVELS.contains(&level))?;
            after.strip_prefix(b" ").or(Some(after))?
        }
    };
    head.writer = match facility {
        b"kern" => Writer::Kernel,
        other => Writer::Program(other.into()),
    };
    Some(end)
}
