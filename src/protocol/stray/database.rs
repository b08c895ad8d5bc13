//! Databases, caches and queues.

use super::escape::escaped;
use super::fields::{be16, be32, bytes, le32};
use super::identity::Named;

/// Names them; `None` for everything else.
pub(super) fn identify(first: &[u8], total_length: u64) -> Option<Named> {
    postgres(first)
        .or_else(|| oracle(first))
        .or_else(|| mongo(first))
        .or_else(|| tds(first, total_length))
        .or_else(|| memcached(first))
        .or_else(|| mysql(first, total_length))
        .or_else(|| cassandra(first))
        .or_else(|| kafka(first))
        .or_else(|| marked(first))
}

/// IBM's, whose requests carry a name.
fn marked(first: &[u8]) -> Option<Named> {
    let name = match first {
        [0, 0, 0, 0, b'D', b'B', b'2', b'D', b'A', b'S', ..] => "DB2 administration server",
        [_, _, 0xd0, _, _, _, _, _, 0x10, 0x41, ..] => "DRDA",
        [b'T', b'S', b'H', b' ' | b'M', ..] => "IBM MQ",
        _ if first.windows(6).take(16).any(|w| w == b"SQLDB2") => "DB2",
        _ => return None,
    };
    Some((name, None))
}

/// PostgreSQL: a length and a version, or one of three codes that are no version.
fn postgres(first: &[u8]) -> Option<Named> {
    let length = be32(first, 0)?;
    let detail = match be32(first, 4)? {
        80_877_103 if length == 8 => "SSLRequest".to_owned(),
        80_877_104 if length == 8 => "GSSENCRequest".to_owned(),
        80_877_102 if length == 16 => "CancelRequest".to_owned(),
        0x0003_0000..=0x0003_0002 if (9..=10_000).contains(&length) => {
            let named = first.get(8..)?.strip_prefix(b"user\0");
            let user = named.and_then(|rest| rest.split(|b| *b == 0).next());
            let user = user.map(|user| format!(", user {}", escaped(user))).unwrap_or_default();
            let mut text = format!("startup{user}");
            text.truncate(super::DETAIL);
            text
        }
        _ => return None,
    };
    Some(("PostgreSQL", Some(detail)))
}

/// Oracle's TNS: a length, no checksum, type CONNECT, a version of 300 or so.
fn oracle(first: &[u8]) -> Option<Named> {
    let [_, _, 0, 0, 1, _, 0, 0, ..] = first else { return None };
    (be16(first, 0)? >= 34 && (300..=400).contains(&be16(first, 8)?)).then_some(("Oracle TNS", None))
}

/// MongoDB's header, little-endian: length, request, response to none, opcode.
fn mongo(first: &[u8]) -> Option<Named> {
    let operation = match le32(first, 12)? {
        2004 => "OP_QUERY",
        2010 => "OP_COMMAND",
        2012 => "OP_COMPRESSED",
        2013 => "OP_MSG",
        _ => return None,
    };
    ((16..=48_000_000).contains(&le32(first, 0)?)).then(|| ("MongoDB", Some(operation.to_owned())))
}

/// SQL Server: PRELOGIN or a login, the last of its message, with a length that fits.
fn tds(first: &[u8], total_length: u64) -> Option<Named> {
    let [0x10 | 0x12, 0 | 1, _, _, _, _, _, 0 | 1, ..] = first else { return None };
    let length = u64::from(be16(first, 2)?);
    (length > 8 && total_length >= length).then_some(("MSSQL TDS", None))
}

/// memcached's binary requests: magic, an opcode, a key and extras within the body.
fn memcached(first: &[u8]) -> Option<Named> {
    let [0x80, 0..=0x5f, _, _, extras, 0, ..] = first else { return None };
    let (key, body) = (be16(first, 2)?, be32(first, 8)?);
    let fits = key <= 250 && u32::from(key) + u32::from(*extras) <= body && body <= 1 << 20;
    fits.then_some(("memcached", Some("binary".to_owned())))
}

/// A client that answers MySQL's greeting: packet number 1, 23 bytes of nothing after its character set.
fn mysql(first: &[u8], total_length: u64) -> Option<Named> {
    let length = u64::from(le32(first, 0)? & 0x00ff_ffff);
    let reserved: [u8; 23] = bytes(first, 13)?;
    (first.get(3) == Some(&1) && reserved == [0; 23] && length >= 32 && total_length == 4 + length)
        .then_some(("MySQL", None))
}

/// Cassandra's native protocol: a version, no flags, OPTIONS or STARTUP.
fn cassandra(first: &[u8]) -> Option<Named> {
    let [3..=5, 0, _, _, operation @ (1 | 5), 0, 0, _, length, ..] = first else { return None };
    ((*operation == 5) == (*length == 0)).then_some(("Cassandra", None))
}

/// Kafka: a length, an API key and its version, a correlation id, the client's name.
fn kafka(first: &[u8]) -> Option<Named> {
    let (length, key, version, name_length) = (be32(first, 0)?, be16(first, 4)?, be16(first, 6)?, be16(first, 12)?);
    let name = first.get(14..)?;
    let name = name.get(..usize::from(name_length)).unwrap_or(name);
    let fits = (10..=1 << 20).contains(&length) && key <= 92 && version <= 20 && name_length <= 255;
    (fits && !name.is_empty() && name.iter().all(u8::is_ascii_graphic)).then(|| ("Kafka", Some(escaped(name))))
}
