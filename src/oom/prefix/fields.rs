//! Fields written out before or around the message: `{host="gpu-1", job="kern"} line` (Loki), `time="…" level=… msg="…"`
//! (logfmt, as containerd writes it).

use super::super::format::Format;
use super::super::options::Clock;
use super::super::{stamp, text};
use super::{Labels, Peeled, host_word};

const LOGGED: Clock = Clock { from: "log field", floor: 1_000_000, after: false };

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    match rest.first()? {
        b'{' => {
            let end = text::find(rest.get(..4096).unwrap_or(rest), b"} ")?;
            let inside = rest.get(1..end)?;
            if inside.first() == Some(&b'"') || !text::has(inside, b"=\"") {
                return None;
            }
            pairs(head, inside)?;
            rest.get(end + 2..)
        }
        b'a'..=b'z' => {
            let end = rest.iter().take(16).position(|b| !b.is_ascii_lowercase())?;
            let key = rest.get(..end)?;
            let known = [&b"time"[..], b"ts", b"t", b"level", b"host", b"hostname", b"node", b"lvl", b"timestamp"];
            if rest.get(end) != Some(&b'=') || !known.contains(&key) {
                return None;
            }
            pairs(head, rest)
        }
        _ => None,
    }
}

/// Reads pairs until the message, which is given, or to the end.
fn pairs<'a>(head: &mut Peeled<'a>, mut rest: &'a [u8]) -> Option<&'a [u8]> {
    for _ in 0..64 {
        rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        let Some((key, after)) = text::cut(rest, b"=").filter(|(k, _)| k.len() < 64 && !k.contains(&b' ')) else {
            break;
        };
        let (value, after) = value(after)?;
        match key {
            b"time" | b"ts" | b"t" | b"timestamp" => {
                if let Some((stamp, _)) = stamp::any(value) {
                    head.stamped(stamp, LOGGED, Format::Plain);
                }
            }
            b"host" | b"hostname" | b"node" | b"nodename" | b"node_name" | b"instance" | b"_HOSTNAME" => {
                let name = host_word(value).or_else(|| host_word(text::cut(value, b":")?.0));
                head.label = head.label.take().or(name.map(|n| n.as_bytes().into()));
            }
            b"pod" => head.weak = host_word(value).map(|n| n.as_bytes().into()),
            b"msg" | b"message" => return Some(value),
            _ => {}
        }
        rest = after;
    }
    Some(rest)
}

/// A value in quotes or up to the next blank, and what follows.
fn value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(quoted) = bytes.strip_prefix(b"\"") else {
        let end = bytes.iter().position(|b| matches!(b, b' ' | b',')).unwrap_or(bytes.len());
        return bytes.split_at_checked(end);
    };
    let mut escaped = false;
    for (at, b) in quoted.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((quoted.get(..at)?, quoted.get(at + 1..)?)),
            _ => {}
        }
    }
    Some((quoted, &[]))
}
