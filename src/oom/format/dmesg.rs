//! The kernel's ring buffer as `dmesg` prints it: raw, `-T`, `--time-format iso`, with `-x` and caller ids.
//!
//! `-T` and iso are counted from the boot time that `dmesg` saw when it ran: after a suspend they are off. util-linux 2.38 drops the
//! fraction of that time, so that iso is early by up to a second and `-T`, which drops that of the sum too, by up to two.

use super::super::options::Clock;
use super::super::stamp::{self, SECOND, Stamp};
use super::super::text;
use super::{Format, Peeled};
use std::borrow::Cow;

const KERNEL: Clock = Clock { from: "kernel log with zone", floor: 1000 };
const ISO: Clock = Clock { from: "dmesg --time-format iso, early by up to a second", floor: SECOND };
const CTIME: Clock = Clock { from: "dmesg -T, early by up to two seconds", floor: 2 * SECOND };

/// `[  521.653666] …`, `[Tue Nov 14 22:14:25 2023] …`, or `[2023-11-14T22:14:25.512] …` as slurmd writes it.
pub(crate) fn bracketed(line: &[u8]) -> Option<Peeled<'_>> {
    let inner = line.strip_prefix(b"[")?;
    let (format, (stamp, rest)) = stamp::boot(inner)
        .map(|s| (Format::DmesgRaw, s))
        .or_else(|| stamp::ctime(inner).map(|s| (Format::DmesgTime, s)))
        .or_else(|| stamp::iso_stamp(inner).map(|s| (Format::Slurm, s)))?;
    let message = caller(rest.trim_ascii_start().strip_prefix(b"]")?);
    let boot = if let Stamp::Boot { nanos } = stamp { Some(nanos) } else { None };
    let clock = if format == Format::DmesgTime { CTIME } else { KERNEL };
    Some(Peeled { format, stamp: Some((stamp, clock)), boot, host: None, message: Cow::Borrowed(message) })
}

/// `2023-11-14T22:14:25,512040+00:00 …`: only dmesg has the comma.
pub(crate) fn iso(line: &[u8]) -> Option<Peeled<'_>> {
    if line.get(19) != Some(&b',') {
        return None;
    }
    let (stamp, rest) = stamp::iso_stamp(line)?;
    let message = caller(rest.strip_prefix(b" ")?);
    Some(Peeled {
        format: Format::DmesgIso,
        stamp: Some((stamp, ISO)),
        boot: None,
        host: None,
        message: Cow::Borrowed(message),
    })
}

/// `kern  :err   : ` of `dmesg -x` before any of these.
pub(crate) fn prefixed(line: &[u8]) -> Option<Peeled<'_>> {
    let (facility, rest) = text::cut(line, b":")?;
    let (level, rest) = text::cut(rest, b": ")?;
    let names = |part: &[u8]| part.len() <= 10 && part.trim_ascii_end().iter().all(|b| b.is_ascii_alphanumeric());
    if !names(facility) || !names(level) || level.is_empty() {
        return None;
    }
    bracketed(rest.trim_ascii_start()).or_else(|| iso(rest.trim_ascii_start()))
}

/// Drops a caller id (`[T48260]`, `[    C3]`) and blanks.
pub(crate) fn caller(message: &[u8]) -> &[u8] {
    let message = message.trim_ascii_start();
    let id = || {
        let inner = message.strip_prefix(b"[")?.trim_ascii_start();
        let (_, rest) = text::number(inner.strip_prefix(b"T").or_else(|| inner.strip_prefix(b"C"))?)?;
        Some(rest.trim_ascii_start().strip_prefix(b"]")?.trim_ascii_start())
    };
    id().unwrap_or(message)
}
