//! `<N>` of syslog (the priority: facility times eight, and the level), and the rest of an RFC 5424 header:
//! `1 TIME HOST APP PROCID MSGID SD`.

use super::super::format::Format;
use super::super::{stamp, text};
use super::{Labels, Peeled, Writer, date, host_word};

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    if let Some(rest) = rest.strip_prefix(b"<") {
        let (priority, after) = text::number(rest)?;
        let after = after.strip_prefix(b">").filter(|_| priority <= 191)?;
        if priority >= 8 {
            head.writer = Writer::Program(b"a process (syslog facility)".into());
        }
        return Some(header(head, after).unwrap_or(after));
    }
    header(head, rest)
}

fn header<'a>(head: &mut Peeled<'a>, rest: &'a [u8]) -> Option<&'a [u8]> {
    let rest = rest.strip_prefix(b"1 ")?;
    let (found, rest) = match rest.strip_prefix(b"- ") {
        Some(rest) => (None, rest),
        None => {
            let (stamp, rest) = stamp::iso_stamp(rest)?;
            (Some(stamp), rest.strip_prefix(b" ")?)
        }
    };
    let (host, rest) = text::word(rest);
    let (app, rest) = text::word(rest);
    let (_proc, rest) = text::word(rest);
    let (_id, rest) = text::word(rest);
    let rest = structured(rest.trim_ascii_start())?.trim_ascii_start();
    if let Some(stamp) = found {
        head.stamped(stamp, date::RECEIVED, Format::Rfc5424);
    }
    head.format = Some(Format::Rfc5424);
    head.host = host_word(host).filter(|h| *h != "-").map(|h| h.as_bytes().into());
    match app {
        b"kernel" if head.writer == Writer::Unknown => head.writer = Writer::Kernel,
        b"kernel" | b"-" => {}
        app => head.writer = Writer::Program(app.into()),
    }
    Some(rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest))
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
