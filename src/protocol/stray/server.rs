//! Naming a service by the first bytes that it sends.

/// The protocol that a server's first bytes are, where they alone tell. `first` may be cut anywhere after twelve bytes.
pub fn greeting(first: &[u8]) -> Option<&'static str> {
    let at = |i: usize| first.get(i).copied();
    let word = |i: usize| Some(u32::from_be_bytes(first.get(i..i + 4)?.try_into().ok()?));
    // A packet of its length (three bytes) and number 0: protocol version 10 and the server's version in digits.
    if at(3) == Some(0) && at(4) == Some(10) && at(5).is_some_and(|b| b.is_ascii_digit()) && at(2) == Some(0) {
        return Some("MySQL");
    }
    // ZMTP: a signature that is both a length of old and a mark of new releases.
    if at(0) == Some(0xff) && at(9) == Some(0x7f) && first.get(1..8).is_some_and(|b| b.iter().all(|b| *b == 0)) {
        return Some("ZeroMQ");
    }
    // HTTP/2: a SETTINGS frame on stream 0, whose length is a multiple of six.
    if at(3) == Some(4) && word(5) == Some(0) && word(0).is_some_and(|l| l >> 8 <= 600 && (l >> 8) % 6 == 0) {
        return Some("HTTP/2");
    }
    // AMQP 0-9-1: a method frame on channel 0, Connection.Start (10, 10).
    if at(0) == Some(1) && first.get(1..3) == Some(&[0, 0]) && word(7) == Some(10 << 16 | 10) {
        return Some("AMQP");
    }
    let texts: [(&[u8], &'static str); 7] = [
        (b"AMQP", "AMQP"),
        (b"HTTP/1.", "HTTP"),
        (b"SSH-", "SSH"),
        (b"STORED\r\n", "memcached"),
        (b"RFB ", "VNC"),
        (b"+PONG\r\n", "Redis"),
        (b"-ERR ", "Redis"),
    ];
    texts.iter().find(|(t, _)| first.starts_with(t)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_what_they_say_first() {
        for (bytes, name) in [
            (&b"\x6e\0\0\0\x0a5.5.5-10.11.6-MariaDB-0\0"[..], Some("MySQL")),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f", Some("ZeroMQ")),
            (b"\0\0\x18\x04\0\0\0\0\0\0\x04\0\x40", Some("HTTP/2")),
            (b"\x01\0\0\0\0\x02\x0d\0\x0a\0\x0a\0\x09", Some("AMQP")),
            (b"HTTP/1.1 200 OK", Some("HTTP")),
            (b"STORED\r\n", Some("memcached")),
            (b"\x02\0\0\0\0\0\0\0", None),
            (b"", None),
        ] {
            assert_eq!(greeting(bytes), name, "{bytes:?}");
        }
    }
}
