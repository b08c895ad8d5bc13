//! Encodings: texts of other systems, made the UTF-8 that the recognisers read.

use std::borrow::Cow;

/// How a text is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// ASCII, UTF-8, Latin-1, or anything else in which a line feed is one byte.
    Bytes,
    /// UTF-16, the low byte first.
    Utf16Le,
    /// UTF-16, the high byte first.
    Utf16Be,
}

/// The encoding of a text that begins with `head`: by its mark, or by where its zeros stand.
pub(crate) fn sniff(head: &[u8]) -> Encoding {
    match head {
        [0xff, 0xfe, ..] => return Encoding::Utf16Le,
        [0xfe, 0xff, ..] => return Encoding::Utf16Be,
        _ => {}
    }
    let head = head.get(..1024).unwrap_or(head);
    let zeros = |odd: usize| head.iter().skip(odd).step_by(2).filter(|b| **b == 0).count();
    let (even, odd, half) = (zeros(0), zeros(1), head.len() / 2);
    match half >= 8 {
        true if odd * 4 > half * 3 && even * 8 < half => Encoding::Utf16Le,
        true if even * 4 > half * 3 && odd * 8 < half => Encoding::Utf16Be,
        _ => Encoding::Bytes,
    }
}

/// Turns a stream of UTF-16 into UTF-8, whatever its pieces are cut.
#[derive(Default)]
pub(crate) struct Utf16 {
    /// A byte whose other half has not come, and a surrogate whose other half has not.
    byte: Option<u8>,
    high: Option<u16>,
}

impl Utf16 {
    /// Adds what `bytes` hold to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], little: bool, out: &mut Vec<u8>) {
        let mut add = |c: char| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        for &b in bytes {
            let Some(first) = self.byte.take() else {
                self.byte = Some(b);
                continue;
            };
            let unit = if little { u16::from_le_bytes([first, b]) } else { u16::from_be_bytes([first, b]) };
            let pair = [self.high.take().unwrap_or(unit), unit];
            match unit {
                0xd800..=0xdbff => self.high = Some(unit),
                0xfeff => {}
                _ => {
                    let units = if pair[0] == unit { pair.get(1..).unwrap_or_default() } else { &pair[..] };
                    char::decode_utf16(units.iter().copied()).for_each(|c| add(c.unwrap_or('\u{fffd}')));
                }
            }
        }
    }
}

/// A line without a mark of UTF-8, NUL bytes, colour codes and a carriage return at its end.
pub(crate) fn plain(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let escaped = |l: &[u8]| memchr::memmem::find(l, b"#033[").is_some();
    if memchr::memchr2(0, 0x1b, line).is_none() && !escaped(line) {
        return Cow::Borrowed(line);
    }
    let (mut plain, mut rest) = (Vec::with_capacity(line.len()), line);
    while let Some((b, after)) = rest.split_first() {
        // rsyslog writes control characters as `#` and three octal digits.
        let code = if *b == 0x1b { after.strip_prefix(b"[") } else { rest.strip_prefix(b"#033[") };
        rest = match code {
            Some(code) => {
                let end = code.iter().take(32).position(|b| (0x40..=0x7e).contains(b));
                end.and_then(|e| code.get(e + 1..)).unwrap_or(after)
            }
            None => {
                if !matches!(b, 0 | 0x1b) {
                    plain.push(*b);
                }
                after
            }
        };
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_is_known_by_its_mark_or_its_zeros_and_read_in_any_pieces() {
        let text = "\u{feff}Nov 14 22:14:25 gpu-1 kernel: é 😀\r\n";
        for little in [true, false] {
            let bytes: Vec<u8> =
                text.encode_utf16().flat_map(|u| if little { u.to_le_bytes() } else { u.to_be_bytes() }).collect();
            let kind = if little { Encoding::Utf16Le } else { Encoding::Utf16Be };
            assert_eq!((sniff(&bytes), sniff(&bytes[2..])), (kind, kind));
            for size in 1..7 {
                let (mut decoder, mut out) = (Utf16::default(), Vec::new());
                bytes.chunks(size).for_each(|c| decoder.push(c, little, &mut out));
                assert_eq!(String::from_utf8(out).unwrap(), &text[3..]);
            }
        }
        assert_eq!(sniff(b"Nov 14 22:14:25"), Encoding::Bytes);
        assert_eq!(sniff(&[0; 64]), Encoding::Bytes);
    }

    #[test]
    fn colours_and_zeros_are_taken_out() {
        assert_eq!(&*plain(b"\x1b[32m[1.5] \x1b[0m\x1b[31mOut\x1b[0m\r\n"), b"[1.5] Out");
        assert_eq!(&*plain(b"\0\0Nov 14\0"), b"Nov 14");
        assert_eq!(&*plain(b"\xef\xbb\xbfa#033[31mb"), b"ab");
        assert_eq!(&*plain(b"a\x1b"), b"a");
    }
}
