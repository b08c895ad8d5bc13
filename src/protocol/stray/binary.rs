//! Protocols whose clients begin with fixed numbers, the telling ones first.

use super::escape::{escaped, first_line};
use super::fields::{be16, be32, bytes, le32};
use super::identity::Named;
use super::{database, tls};

/// One protocol's test: the first bytes, and the length of the stream so far.
type Rule = fn(&[u8], u64) -> Option<Named>;

/// In order: what has a long fixed mark comes before what is known by plausible lengths only.
const RULES: &[Rule] = &[
    store,
    nccl,
    |first, _| tls::identify(first),
    tpkt,
    smb,
    kerberos,
    rpc,
    ssl2,
    x11,
    ldap,
    telnet,
    database::identify,
    mqtt,
    ajp,
    iscsi,
    socks,
    openvpn,
    dns,
    modbus,
    short,
];

/// Names binary protocols; `None` for everything else.
pub(super) fn identify(first: &[u8], total_length: u64) -> Option<Named> {
    RULES.iter().find_map(|rule| rule(first, total_length))
}

/// What one mark is enough for.
fn short(first: &[u8], total_length: u64) -> Option<Named> {
    let whole = total_length == first.len() as u64;
    let name = match first {
        [1..=5, rest @ .., b'\n'] if whole && rest.iter().all(u8::is_ascii_graphic) && !rest.is_empty() => "LPD",
        [0, 1, b'n'] => "EPMD",
        [0xfe, 1, ..] => "Minecraft",
        [0xda, 0xbb, ..] => "Dubbo",
        [0x65, 0, 4, 0, 0, 0, 0, 0, ..] => "EtherNet/IP",
        [0x68, 4, 7 | 0x43, 0, 0, 0] => "IEC 60870-5-104",
        [0, 0x9c, 0, 1, 0x1a, 0x2b, 0x3c, 0x4d, ..] => "PPTP",
        [0, 3 | 4, _, _, 0, 0, 0, 0, _, _, _, _, 0, 0, 0, 0, ..] => "AFP",
        _ => return None,
    };
    Some((name, None))
}

/// A TCPStore client: the newest dialect begins with VALIDATE and its magic, older ones with a query for a key. The
/// types differ: ADD, which every rank sends first, is 2 up to PyTorch 1.8 and 3 from 1.9 on.
fn store(first: &[u8], _: u64) -> Option<Named> {
    let said = |releases: &str| Some(("TCPStore", Some(format!("client of PyTorch {releases}"))));
    if first.starts_with(&[0x00, 0xce, 0xf7, 0x85, 0x3c]) {
        return said("2.2 or later");
    }
    let (query, length) = (*first.first()?, u64::from_le_bytes(bytes(first, 1)?));
    let key = first.get(9..)?;
    if query > 11 || !(1..=1024).contains(&length) || key.len() < 5 {
        return None;
    }
    let key = key.get(..usize::try_from(length).ok()?).unwrap_or(key);
    match (query, key.starts_with(b"init/")) {
        (2, true) => said("1.4-1.8"),
        (3, true) => said("1.9-2.1"),
        _ if key.contains(&b'/') && key.iter().all(u8::is_ascii_graphic) => said("2.1 or earlier"),
        _ => None,
    }
}

/// The constant magic of NCCL's data sockets, little-endian, and the socket type (NCCL 2.16 and later). Bootstrap
/// sockets carry their communicator's random magic and cannot be told without it.
fn nccl(first: &[u8], _: u64) -> Option<Named> {
    (u64::from_le_bytes(bytes(first, 0)?) == 0x564a_b9f2_fc4b_9d6c)
        .then(|| ("NCCL", le32(first, 8).map(|kind| format!("socket type {kind}"))))
}

/// TPKT (RFC 1006) around an X.224 connection request: remote desktop, or an industrial controller's ISO-TSAP.
fn tpkt(first: &[u8], _: u64) -> Option<Named> {
    let [3, 0, _, _, indicator, code, ..] = first else { return None };
    // The length indicator counts what follows it, and no other header of this shape has a code there.
    if code & 0xf0 != 0xe0 {
        return (*indicator >= 2 && *code == 0xf0).then_some(("TPKT", None));
    }
    let rest = first.get(11..).unwrap_or_default();
    if matches!(rest, [0xc0..=0xc2, 1..=4, ..]) {
        return Some(("ISO-TSAP", None));
    }
    let cookie = rest.starts_with(b"Cookie:").then(|| first_line(rest)).flatten();
    Some(("RDP", cookie))
}

/// SMB over NetBIOS sessions or directly, and the NetBIOS session request itself (RFC 1002, 4.3).
fn smb(first: &[u8], total_length: u64) -> Option<Named> {
    match first {
        [0, 0 | 1, _, _, 0xff, b'S', b'M', b'B', ..] => Some(("SMB1", None)),
        [0, 0 | 1, _, _, 0xfd | 0xfe, b'S', b'M', b'B', ..] => Some(("SMB2", None)),
        [0x81, 0, 0, length, 0x20, ..] if total_length >= 4 + u64::from(*length) => Some(("NetBIOS session", None)),
        _ => None,
    }
}

/// A record mark, and in it the application tag of AS-REQ or TGS-REQ (RFC 4120, 5.4 and 7.2.2).
fn kerberos(first: &[u8], _: u64) -> Option<Named> {
    let length = be32(first, 0)?;
    let [tag @ (0x6a | 0x6c), ..] = first.get(4..)? else { return None };
    let (inner, after) = ber_length(first.get(5..)?)?;
    let fits = u64::from(length) == 1 + after as u64 + inner && first.get(5 + after) == Some(&0x30);
    fits.then(|| ("Kerberos", Some(if *tag == 0x6a { "AS-REQ" } else { "TGS-REQ" }.to_owned())))
}

/// A BER length, and the bytes that it takes.
fn ber_length(bytes: &[u8]) -> Option<(u64, usize)> {
    let head = *bytes.first()?;
    if head < 0x80 {
        return Some((u64::from(head), 1));
    }
    let count = usize::from(head & 0x7f);
    let digits = bytes.get(1..1 + count).filter(|_| (1..=4).contains(&count))?;
    Some((digits.iter().fold(0, |n, b| n << 8 | u64::from(*b)), 1 + count))
}

/// ONC RPC: a record mark with the last-fragment bit, CALL, version 2 (RFC 5531).
fn rpc(first: &[u8], _: u64) -> Option<Named> {
    let mark = be32(first, 0)?;
    let call = mark >> 31 == 1 && mark & 0x7fff_ffff >= 40 && be32(first, 8)? == 0 && be32(first, 12)? == 2;
    let program = || be32(first, 16).map(|number| format!("program {number}"));
    call.then(|| ("ONC RPC", program()))
}

/// The hello of SSL 2.0, which later clients sent for compatibility: a two-byte header, type 1, a version.
fn ssl2(first: &[u8], _: u64) -> Option<Named> {
    let [0x80..=0xff, length, 1, major @ (0 | 3), minor, ..] = first else { return None };
    let version = matches!((major, minor), (0, 2) | (3, 0..=4));
    (version && *length >= 9).then_some(("SSLv2", None))
}

/// X11's setup: byte order, protocol 11.0.
fn x11(first: &[u8], _: u64) -> Option<Named> {
    matches!(first, [b'l', 0, 11, 0, 0, 0, ..] | [b'B', 0, 0, 11, 0, 0, ..]).then_some(("X11", None))
}

/// An LDAP message: a sequence, a message id, a request (RFC 4511, 4.1.1).
fn ldap(first: &[u8], _: u64) -> Option<Named> {
    let (_, after) = first.strip_prefix(&[0x30]).and_then(ber_length)?;
    let [2, width @ 1..=4, rest @ ..] = first.get(1 + after..)? else { return None };
    let request = match rest.get(usize::from(*width))? {
        0x60 => "bind",
        0x63 => "search",
        0x42 => "unbind",
        0x77 => "extended request",
        _ => return None,
    };
    Some(("LDAP", Some(request.to_owned())))
}

/// Telnet's negotiation (RFC 854).
fn telnet(first: &[u8], _: u64) -> Option<Named> {
    matches!(first, [0xff, 0xfa..=0xfe, 0..=0x40, ..]).then_some(("telnet", None))
}

/// MQTT's CONNECT: type 1, a remaining length, the protocol's name.
fn mqtt(first: &[u8], _: u64) -> Option<Named> {
    let rest = first.strip_prefix(&[0x10])?;
    let after = rest.iter().take(4).position(|b| b & 0x80 == 0)?;
    let rest = rest.get(after + 1..)?;
    (rest.starts_with(b"\0\x04MQTT") || rest.starts_with(b"\0\x06MQIsdp")).then_some(("MQTT", None))
}

/// AJP13, web server to container: a magic and a length.
fn ajp(first: &[u8], total_length: u64) -> Option<Named> {
    let fits = first.starts_with(&[0x12, 0x34]) && total_length >= 4 + u64::from(be16(first, 2)?);
    fits.then_some(("AJP13", None))
}

/// An iSCSI login (RFC 7143, 11.12): opcode 3, a transit bit, version 0, a header of 48 bytes.
fn iscsi(first: &[u8], total_length: u64) -> Option<Named> {
    let [opcode, stage, 0, 0, 0, ..] = first else { return None };
    (*opcode == 0x43 && stage & 0x30 == 0 && total_length >= 48).then_some(("iSCSI", None))
}

/// SOCKS (RFC 1928 and its predecessor): nothing but plausible numbers, so lengths have to fit.
fn socks(first: &[u8], total_length: u64) -> Option<Named> {
    match first {
        [5, count @ 1..=8, methods @ ..] => {
            let count = usize::from(*count);
            let known = |m: &u8| *m <= 9 || *m >= 0x80;
            let methods = methods.get(..count).filter(|methods| methods.iter().all(known))?;
            let follows = first.get(2 + methods.len());
            (total_length == 2 + count as u64 || follows == Some(&5)).then_some(("SOCKS5", None))
        }
        [4, 1 | 2, high, low, a, b, c, d, user @ ..] if (*high, *low) != (0, 0) && user.last() == Some(&0) => {
            let port = u16::from_be_bytes([*high, *low]);
            Some(("SOCKS4", Some(format!("to {a}.{b}.{c}.{d}:{port}"))))
        }
        _ => None,
    }
}

/// OpenVPN over TCP: a length, then a client's hard reset.
fn openvpn(first: &[u8], total_length: u64) -> Option<Named> {
    let reset = matches!(first.get(2)? >> 3, 1 | 7 | 10) && first.get(2)? & 7 == 0;
    (reset && total_length == 2 + u64::from(be16(first, 0)?) && total_length >= 16).then_some(("OpenVPN", None))
}

/// DNS over TCP (RFC 7766): a length, a header that is a query with believable counts.
fn dns(first: &[u8], total_length: u64) -> Option<Named> {
    let length = u64::from(be16(first, 0)?);
    let flags = be16(first, 4)?;
    let [questions, answers, authorities, more] = [6, 8, 10, 12].map(|at| be16(first, at));
    let opcode = flags >> 11 & 0xf;
    let counts = answers? == 0 && authorities? <= 8 && more? <= 8;
    // A status request (RFC 1035, 4.1.1: opcode 2) asks nothing.
    let asks = (1..=8).contains(&questions?) || opcode == 2 && length == 12;
    if length < 12 || total_length < 2 + length || flags >> 15 == 1 || opcode > 6 || !counts || !asks {
        return None;
    }
    Some(("DNS", question(first.get(14..)?)))
}

/// The name asked for, as labels with dots; as much of it as is there.
fn question(mut labels: &[u8]) -> Option<String> {
    let mut name = Vec::new();
    while let Some((length @ 1..=63, rest)) = labels.split_first() {
        if !name.is_empty() {
            name.push(b'.');
        }
        let (label, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        name.extend_from_slice(label);
        labels = rest;
    }
    (!name.is_empty()).then(|| escaped(&name))
}

/// Modbus over TCP: a header whose protocol is 0 and whose length is the rest, and a function code.
fn modbus(first: &[u8], total_length: u64) -> Option<Named> {
    let [_, _, 0, 0, 0, length @ 2..=253, _, 1..=0x2b, ..] = first else { return None };
    (total_length == 6 + u64::from(*length)).then_some(("Modbus", None))
}
