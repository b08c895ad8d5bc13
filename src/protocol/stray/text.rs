//! Protocols whose clients begin with text.

use super::escape::{escaped, first_line, line};
use super::identity::Named;

/// What a stream starts with, its protocol, and whether the first line is worth telling.
const OPENINGS: &[(&[u8], &str, bool)] = &[
    (b"PRI * HTTP/2.0", "HTTP/2", false),
    (b"SSH-", "SSH", true),
    (b"RFB 0", "VNC", true),
    (b"PROXY ", "PROXY protocol", true),
    (b"\r\n\r\n\0\r\nQUIT\n", "PROXY protocol", false),
    (b"AMQP", "AMQP", false),
    (b"JRMI", "Java RMI", false),
    (b"JDWP-Handshake", "JDWP", false),
    (b"GIOP", "GIOP", false),
    (b"DIST0", "distcc", false),
    (b"CNXN\0\0\0\x01", "ADB", false),
    (b"\x1b%-12345X", "PJL", false),
    (b"@RSYNCD:", "rsync", true),
    (b"ZBXD\x01", "Zabbix", false),
    (b"\x13BitTorrent protocol", "BitTorrent", false),
    (b"t3 1", "WebLogic T3", true),
    (b"fox a ", "Niagara Fox", true),
    (b"( 2 (", "Subversion", false),
    (b"<stream:stream", "XMPP", false),
    (b"<?xml", "XML", false),
    (b"EHLO", "SMTP", true),
    (b"HELO", "SMTP", true),
    (b"MAIL FROM:", "SMTP", true),
    (b"USER ", "FTP", true),
    (b"PASS ", "FTP", false),
    (b"SYST\r\n", "FTP", true),
    (b"FEAT\r\n", "FTP", true),
    (b"AUTH TLS\r\n", "FTP", true),
    (b"CAPA\r\n", "POP3", true),
    (b"NICK ", "IRC", true),
    (b"CONNECT {", "NATS", false),
    (b"CONNECT\n", "STOMP", false),
    (b"STOMP\n", "STOMP", false),
    (b"PING\r\n", "Redis", true),
    (b"INFO\r\n", "Redis", true),
    (b"stats\r\n", "memcached", true),
    (b"version\r\n", "memcached", true),
    (b"\r\n\r\n", "blank lines", false),
];

/// Four-letter words of ZooKeeper (3.9's `cfg` names apart).
const ZOOKEEPER: &[&[u8]] = &[
    b"ruok", b"stat", b"srvr", b"srst", b"conf", b"cons", b"crst", b"dump", b"envi", b"mntr", b"wchs", b"wchc",
    b"wchp", b"dirs", b"isro",
];

/// Methods that HTTP clients use, for request lines that are cut before their version.
const METHODS: &[&[u8]] =
    &[b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"PATCH", b"PROPFIND"];

/// Names text protocols; `None` for everything else.
pub(super) fn identify(first: &[u8], total_length: u64) -> Option<Named> {
    if let Some((_, name, tell)) = OPENINGS.iter().find(|(opening, _, _)| first.starts_with(opening)) {
        return Some((*name, if *tell { first_line(first) } else { None }));
    }
    let word = first.strip_suffix(b"\n").unwrap_or(first);
    if total_length == first.len() as u64 && ZOOKEEPER.contains(&word) {
        return Some(("ZooKeeper", Some(escaped(word))));
    }
    resp(first).or_else(|| request_line(first))
}

/// Redis' serialization protocol: an array of bulk strings.
fn resp(first: &[u8]) -> Option<Named> {
    let (count, _) = line(first.strip_prefix(b"*")?);
    if count.is_empty() || count.len() > 7 || !count.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let rest = first.get(1 + count.len()..)?.strip_prefix(b"\r\n")?;
    if !rest.is_empty() && rest.first() != Some(&b'$') {
        return None;
    }
    let command = rest.split(|b| *b == b'\n').nth(1).map(|word| word.strip_suffix(b"\r").unwrap_or(word));
    Some(("Redis", command.filter(|word| !word.is_empty()).map(escaped)))
}

/// `METHOD target VERSION`, of HTTP, RTSP or SIP.
fn request_line(first: &[u8]) -> Option<Named> {
    let (line, whole) = line(first);
    let mut words = line.split(|b| *b == b' ');
    let method = words.next().filter(|m| (3..=20).contains(&m.len()))?;
    if !method.iter().all(|b| b.is_ascii_uppercase() || matches!(b, b'_' | b'-')) {
        return None;
    }
    let target = words.next()?;
    let version = line.rsplit(|b| *b == b' ').next().unwrap_or_default();
    let is = |name: &[u8], schemes: [&[u8]; 2]| {
        version.starts_with(name) || schemes.iter().any(|scheme| target.starts_with(scheme))
    };
    let name = if is(b"RTSP/", [b"rtsp:", b"rtspu:"]) {
        "RTSP"
    } else if is(b"SIP/", [b"sip:", b"sips:"]) {
        "SIP"
    } else if version.starts_with(b"HTTP/") {
        "HTTP"
    } else {
        // No version: the line is cut, or it is HTTP/0.9, which has two words.
        let simple = words.next().is_none() && target.starts_with(b"/");
        if !METHODS.contains(&method) || whole && !simple {
            return None;
        }
        "HTTP"
    };
    Some((name, Some(escaped(line))))
}
