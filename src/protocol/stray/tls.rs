//! TLS: the server name of a ClientHello (RFC 8446, 4.1.2; RFC 6066, 3).

use super::escape::escaped;
use super::identity::Named;

/// Reads big-endian fields from the front of a slice, and never past its end.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// A length in `width` bytes, then that many bytes, or as many as are there.
    fn vector(&mut self, width: usize) -> Option<Cursor<'a>> {
        let length = self.number(width)?;
        let (head, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        Some(Cursor(head))
    }

    fn number(&mut self, width: usize) -> Option<usize> {
        Some(self.take(width)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    }
}

/// A TLS record, client's side.
pub(super) fn identify(first: &[u8]) -> Option<Named> {
    let [kind @ (0x15 | 0x16), 3, 0..=4, high, _, ..] = first else { return None };
    // A record holds at most 2^14 bytes and a little (RFC 8446, 5.2).
    if *high > 0x48 {
        return None;
    }
    let name = if *kind == 0x16 { server_name(first.get(5..).unwrap_or_default()) } else { None };
    Some(("TLS", name.map(|name| format!("SNI {}", escaped(name))).map(bounded)))
}

fn bounded(mut text: String) -> String {
    text.truncate(super::DETAIL);
    text
}

/// The host name in a handshake message, when that is a ClientHello whose first record holds it.
fn server_name(message: &[u8]) -> Option<&[u8]> {
    let mut message = Cursor(message);
    if message.number(1)? != 1 {
        return None;
    }
    let mut hello = message.vector(3)?;
    hello.take(2 + 32)?;
    hello.vector(1)?;
    hello.vector(2)?;
    hello.vector(1)?;
    let mut extensions = hello.vector(2)?;
    while let Some(kind) = extensions.number(2) {
        let mut extension = extensions.vector(2)?;
        if kind == 0 {
            let mut names = extension.vector(2)?;
            // Type 0 is a host name; there is no other.
            return if names.number(1)? == 0 {
                names.vector(2).map(|name| name.0).filter(|n| !n.is_empty())
            } else {
                None
            };
        }
    }
    None
}
