//! Whether bytes look like the beginning of a request: for streams that are joined in the middle, and for
//! ports that nobody named. Strict, because a wrong yes turns foreign bytes into claims.

use super::dialect::{Dialect, Operation};
use super::request::{FieldPart, VALIDATE_MAGIC, layout};

/// Longest key that is taken for one, in bytes: longer ones exist, but not at the place where decoding begins.
const MAX_KEY: u64 = 4096;
/// Largest value that is believed at the place where decoding begins, in bytes.
const MAX_VALUE: u64 = 64 << 20;
/// Largest count that is believed there; libuv servers refuse more.
const MAX_KEYS: u64 = 131_072;
/// How much of a key is looked at, in bytes.
const KEY_SAMPLE: usize = 32;

/// Most bytes that [`request`] asks for: opcode, count, length, and a sample of the key.
pub(super) const WINDOW: usize = 1 + 8 + 8 + KEY_SAMPLE;

/// An answer to "is this …?" that may need more bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plausible {
    Yes,
    No,
    /// So far, yes.
    More,
}

/// Reads a u64 from the front of `bytes`. With fewer than eight bytes: `Err(true)` when a value up to `limit`
/// can still come of it.
fn length(bytes: &[u8], limit: u64) -> Result<(u64, &[u8]), bool> {
    let mut raw = [0; 8];
    let n = bytes.len().min(8);
    let (head, tail) = bytes.split_at(n);
    raw.iter_mut().zip(head).for_each(|(r, b)| *r = *b);
    let value = u64::from_le_bytes(raw);
    if n < 8 { Err(value <= limit) } else { Ok((value, tail)) }
}

/// Whether `sample`, the first bytes of a key of `length` bytes, looks like a store key: the worker counter
/// `init/`, or the store's own prefix `/` and readable text.
pub(super) fn key(sample: &[u8], length: u64) -> Plausible {
    if !(2..=MAX_KEY).contains(&length) {
        return Plausible::No;
    }
    let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(KEY_SAMPLE);
    let seen = sample.get(..wanted).unwrap_or(sample);
    let worker_counter = length == 5 && b"init/".starts_with(seen);
    let prefixed = seen.is_empty() || (seen.first() == Some(&b'/') && is_text(seen));
    match worker_counter || prefixed {
        false => Plausible::No,
        true if seen.len() < wanted => Plausible::More,
        true => Plausible::Yes,
    }
}

/// Whether `bytes` are UTF-8 without control characters; a character may be cut at the end.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() => {
            bytes.get(..e.valid_up_to()).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or("")
        }
        Err(_) => return false,
    };
    !text.chars().any(char::is_control)
}

/// Whether `bytes` begin with a request of `dialect` that names a key (or with VALIDATE and its magic).
/// Queries without a key prove nothing and are answered with no.
pub(super) fn request(dialect: Dialect, bytes: &[u8]) -> Plausible {
    let Some((opcode, rest)) = bytes.split_first() else { return Plausible::More };
    let Some(query) = dialect.operation(*opcode) else { return Plausible::No };
    if query == Operation::Validate {
        let magic = VALIDATE_MAGIC.to_le_bytes();
        return match rest.len() {
            0..4 if magic.starts_with(rest) => Plausible::More,
            4.. if rest.starts_with(&magic) => Plausible::Yes,
            _ => Plausible::No,
        };
    }
    let layout = layout(query);
    if layout.steps.first() != Some(&FieldPart::Key) {
        return Plausible::No;
    }
    let more = |possible: bool| if possible { Plausible::More } else { Plausible::No };
    let rest = if layout.counted {
        match length(rest, MAX_KEYS) {
            Ok((count, tail)) if (1..=MAX_KEYS).contains(&count) => tail,
            Ok(_) => return Plausible::No,
            Err(possible) => return more(possible),
        }
    } else {
        rest
    };
    let (key_length, rest) = match length(rest, MAX_KEY) {
        Ok(read) => read,
        Err(possible) => return more(possible),
    };
    let verdict = key(rest, key_length);
    if verdict != Plausible::Yes {
        return verdict;
    }
    // What follows the key is judged as far as it is there.
    let tail = usize::try_from(key_length).ok().and_then(|n| rest.get(n..)).unwrap_or(&[]);
    let sound = match layout.steps.get(1) {
        Some(FieldPart::Value) => match length(tail, MAX_VALUE) {
            Ok((value, _)) => value <= MAX_VALUE,
            // High bytes are still to come: no judgement.
            Err(possible) => possible,
        },
        Some(FieldPart::Number) => match length(tail, u64::MAX) {
            Ok((number, _)) => (number as i64).unsigned_abs() < 1 << 40,
            Err(_) => true,
        },
        _ => true,
    };
    if sound { Plausible::Yes } else { Plausible::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_init(opcode: u8) -> Vec<u8> {
        let mut b = vec![opcode, 5, 0, 0, 0, 0, 0, 0, 0];
        b.extend_from_slice(b"init/\x01\0\0\0\0\0\0\0");
        b
    }

    #[test]
    fn the_window_is_enough_to_decide() {
        let mut wait = vec![5, 1, 0, 0, 0, 0, 0, 0, 0, 0xd0, 7, 0, 0, 0, 0, 0, 0, b'/'];
        wait.resize(WINDOW - 1, b'k');
        assert_eq!(request(Dialect::B, &wait), Plausible::More);
        wait.push(b'k');
        assert_eq!(request(Dialect::B, &wait), Plausible::Yes);
    }

    #[test]
    fn every_prefix_of_a_request_is_possible() {
        let b = add_init(3);
        for n in 0..14 {
            assert_eq!(request(Dialect::B, &b[..n]), Plausible::More, "{n}");
        }
        for n in 14..=b.len() {
            assert_eq!(request(Dialect::B, &b[..n]), Plausible::Yes, "{n}");
        }
        assert_eq!(request(Dialect::A0, &b), Plausible::No);
        assert_eq!(request(Dialect::D, &b), Plausible::Yes);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for b in [
            &b"GET / HTTP/1.1"[..],
            b"\x16\x03\x01\x02\x00",
            b"\x03\x00\x00\x2a\x25\xe0\0\0\0\0\0",
            b"\x00\x0c\x00\x00\x10\0\0\0\0\0\0\0\0\0",
            &[0; 64],
        ] {
            for d in Dialect::ALL {
                assert_eq!(request(d, b), Plausible::No, "{d} {b:?}");
            }
        }
        assert_eq!(key(b"/a\x00b", 4), Plausible::No);
        assert_eq!(key("/键".as_bytes(), 4), Plausible::Yes);
    }
}
