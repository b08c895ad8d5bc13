//! Syslog files (RFC 3164, RFC 5424, rsyslog's ISO form) and the `short` outputs of journalctl, which share them.

use super::super::options::Clock;
use super::super::stamp::{self, Stamp};
use super::super::text;
use super::{Format, Peeled, dmesg};
use std::borrow::Cow;

/// The daemon stamps a line when it receives it: not better than a millisecond, whatever it prints.
pub(crate) const RECEIVED: Clock = Clock { from: "syslog with zone", floor: 1_000_000 };

/// `<PRI>` and what follows.
pub(crate) fn priority(line: &[u8]) -> Option<(u64, &[u8])> {
    let (pri, rest) = text::number(line.strip_prefix(b"<")?)?;
    (pri <= 191).then_some((pri, rest.strip_prefix(b">")?))
}

/// `1 TIME HOST APP PROCID MSGID SD MSG`, `<PRI>` already taken.
pub(crate) fn rfc5424(line: &[u8]) -> Option<Peeled<'_>> {
    let rest = line.strip_prefix(b"1 ")?;
    let (stamp, rest) = match rest.strip_prefix(b"- ") {
        Some(rest) => (None, rest),
        None => {
            let (stamp, rest) = stamp::iso_stamp(rest)?;
            (Some((stamp, RECEIVED)), rest.strip_prefix(b" ")?)
        }
    };
    let (host, rest) = text::word(rest);
    let (_app, rest) = text::word(rest);
    let (_proc, rest) = text::word(rest);
    let (_id, rest) = text::word(rest);
    let rest = structured(rest.trim_ascii_start())?.trim_ascii_start();
    let message = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
    let (boot, message) = since_boot(message);
    let host = (host != b"-" && !host.is_empty()).then_some(Cow::Borrowed(host));
    Some(Peeled { format: Format::Rfc5424, stamp, boot, host, message: Cow::Borrowed(message) })
}

/// Skips `-` or `[id name="value"]…`; quotes may hold escaped quotes and brackets.
fn structured(text: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = text.strip_prefix(b"-") {
        return Some(rest);
    }
    let (mut quoted, mut escaped, mut open) = (false, false, false);
    for (at, b) in text.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if open => quoted = !quoted,
            b'[' if !quoted => open = true,
            b']' if !quoted => open = false,
            _ if !open => return text.get(at..),
            _ => {}
        }
    }
    Some(&[])
}

/// `2023-11-14T22:14:25.512040+00:00 host kernel: …`; offset with or without a colon, or `Z`.
pub(crate) fn iso(line: &[u8]) -> Option<Peeled<'_>> {
    let (stamp, rest) = stamp::iso_stamp(line)?;
    header(Format::SyslogIso, stamp, rest)
}

/// `Nov 14 22:14:25[.512900] host kernel: …`.
pub(crate) fn rfc3164(line: &[u8]) -> Option<Peeled<'_>> {
    let (stamp, rest) = stamp::rfc3164(line)?;
    header(Format::Rfc3164, stamp, rest)
}

/// `host ident[pid]: message`; a message without an ident is left whole.
fn header(format: Format, stamp: Stamp, rest: &[u8]) -> Option<Peeled<'_>> {
    let (host, rest) = text::word(rest.strip_prefix(b" ")?);
    let rest = rest.trim_ascii_start();
    let (ident, tail) = text::word(rest);
    let message = if ident.ends_with(b":") && !ident.starts_with(b"oom") { tail } else { rest };
    let (boot, message) = since_boot(message);
    // A clock that prints whole seconds or an hour without a zone is said to be so by `Options::resolve`.
    Some(Peeled {
        format,
        stamp: Some((stamp, RECEIVED)),
        boot,
        host: (!host.is_empty()).then_some(Cow::Borrowed(host)),
        message: Cow::Borrowed(message),
    })
}

/// `[184467.512040] ` that the kernel put before its message, and a caller id.
fn since_boot(message: &[u8]) -> (Option<i64>, &[u8]) {
    let message = message.trim_ascii_start();
    match message.strip_prefix(b"[").and_then(stamp::boot) {
        Some((Stamp::Boot { nanos }, rest)) => match rest.strip_prefix(b"]") {
            Some(rest) => (Some(nanos), dmesg::caller(rest)),
            None => (None, message),
        },
        _ => (None, dmesg::caller(message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_data_may_hold_what_ends_it() {
        assert_eq!(structured(br#"[a x="]\""][b] rest"#), Some(&b" rest"[..]));
        assert_eq!(structured(b"- rest"), Some(&b" rest"[..]));
        assert_eq!(structured(br#"[a x="never closed"#), Some(&b""[..]));
    }
}
