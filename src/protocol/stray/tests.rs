//! Names against recorded greetings and probes.

use super::*;
use crate::test_bytes::unhex;

fn named(bytes: &[u8]) -> (&'static str, String) {
    let stray = identify(bytes, bytes.len() as u64);
    (stray.protocol, stray.detail.unwrap_or_default())
}

#[derive(serde::Deserialize)]
struct Greeting {
    name: String,
    length: u64,
    first_bytes: String,
}

/// Words of a greeting's description, and the protocol that they stand for; the first that fits counts.
const EXPECTED: &[(&str, &str)] = &[
    ("no bytes", "none"),
    ("HTTP/2", "HTTP/2"),
    ("HTTP", "HTTP"),
    ("TLS", "TLS"),
    ("SSH", "SSH"),
    ("RDP", "RDP"),
    ("SMB1", "SMB1"),
    ("SMB2", "SMB2"),
    ("NetBIOS", "NetBIOS session"),
    ("DNS", "DNS"),
    ("SIP", "SIP"),
    ("RTSP", "RTSP"),
    ("LDAP", "LDAP"),
    ("Redis", "Redis"),
    ("memcached", "memcached"),
    ("MongoDB", "MongoDB"),
    ("PostgreSQL", "PostgreSQL"),
    ("MSSQL", "MSSQL TDS"),
    ("Oracle", "Oracle TNS"),
    ("MQTT", "MQTT"),
    ("AMQP", "AMQP"),
    ("ZooKeeper", "ZooKeeper"),
    ("Kafka", "Kafka"),
    ("SOCKS5", "SOCKS5"),
    ("SOCKS4", "SOCKS4"),
    ("Java RMI", "Java RMI"),
    ("AJP13", "AJP13"),
    ("iSCSI", "iSCSI"),
    ("RPC", "ONC RPC"),
    ("X11", "X11"),
    ("VNC", "VNC"),
    ("FTP", "FTP"),
    ("SMTP", "SMTP"),
    ("telnet", "telnet"),
    ("CR LF", "blank lines"),
    ("PROXY", "PROXY protocol"),
    ("NCCL", "NCCL"),
    ("all ", "constant bytes"),
    ("TCPStore", "TCPStore"),
];

#[test]
fn every_recorded_greeting_has_its_name() {
    let file = include_str!("../../../testdata/outcomes/greetings.json");
    let greetings: Vec<Greeting> = serde_json::from_str(file).unwrap();
    assert!(greetings.len() > 50);
    for greeting in greetings {
        let expected = EXPECTED.iter().find(|(words, _)| greeting.name.contains(words)).unwrap();
        // RDP and TLS stand in other descriptions as well.
        let expected = if greeting.name.starts_with("LDAP") { "LDAP" } else { expected.1 };
        let expected = if greeting.name.starts_with("HAProxy") { "PROXY protocol" } else { expected };
        let stray = identify(&unhex(&greeting.first_bytes), greeting.length);
        assert_eq!(stray.protocol, expected, "{}: {stray:?}", greeting.name);
        assert!(stray.detail.is_none_or(|d| d.len() <= DETAIL && d.bytes().all(|b| (0x20..0x7f).contains(&b))));
    }
}

#[test]
fn details_say_what_was_asked_for() {
    let cases: &[(&[u8], &str, &str)] = &[
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP", "GET /metrics HTTP/1.1"),
        (b"GET /\r\n", "HTTP", "GET /"),
        (b"GET /a/very/long/path", "HTTP", "GET /a/very/long/path"),
        (b"GET SERVER\n", "text", "GET SERVER"),
        (b"OPTIONS rtsp://10.0.0.1 RTSP/1.0\r\n\r\n", "RTSP", "OPTIONS rtsp://10.0.0.1 RTSP/1.0"),
        (b"SSH-2.0-Go\r\n", "SSH", "SSH-2.0-Go"),
        (b"*1\r\n$4\r\nINFO\r\n", "Redis", "INFO"),
        (
            b"\x03\0\0\x2b\x26\xe0\0\0\0\0\0Cookie: mstshash=eve\r\n\x01\0\x08\0\x03\0\0\0",
            "RDP",
            "Cookie: mstshash=eve",
        ),
        (b"\x03\0\0\x16\x11\xe0\0\0\0\x01\0\xc1\x02\x01\0\xc2\x02\x01\x02\xc0\x01\x0a", "ISO-TSAP", ""),
        (b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01", "DNS", "example.com"),
        (b"\x04\x01\0\x50\x7f\0\0\x01\0", "SOCKS4", "to 127.0.0.1:80"),
        (b"\0\0\0\x23\0\x03\0\0user\0postgres\0database\0p\0\0\0", "PostgreSQL", "startup, user postgres"),
        (b"\x6c\x9d\x4b\xfc\xf2\xb9\x4a\x56\x03\0\0\0", "NCCL", "socket type 3"),
        (b"\x00\xce\xf7\x85\x3c", "TCPStore", "client of PyTorch 2.2 or later"),
        (b"\x03\x05\0\0\0\0\0\0\0init/\x01\0", "TCPStore", "client of PyTorch 1.9-2.1"),
        (b"\x02\x05\0\0\0\0\0\0\0init/\x01\0", "TCPStore", "client of PyTorch 1.4-1.8"),
        (b"\x1b[2J\x1b]0;x\x07", "unknown", ""),
        (b"hello\x20there", "text", "hello there"),
        (b"\0", "unknown", ""),
        (b"", "none", ""),
    ];
    for (bytes, protocol, detail) in cases {
        assert_eq!(named(bytes), (*protocol, (*detail).to_owned()), "{bytes:?}");
    }
}

/// A ClientHello with the extensions given, in one record.
fn client_hello(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut out = vec![0x16, 3, 1];
    out.extend((body.len() as u16 + 4).to_be_bytes());
    out.extend([1, 0]);
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
    out
}

#[test]
fn tls_names_its_server_and_survives_every_cut() {
    let extensions = b"\0\x0b\0\x02\x01\0\0\0\0\x10\0\x0e\0\0\x0bexample.org";
    let hello = client_hello(extensions);
    assert_eq!(named(&hello), ("TLS", "SNI example.org".into()));
    for cut in 0..hello.len() {
        identify(&hello[..cut], hello.len() as u64);
    }
    for lie in 0..hello.len() {
        let mut broken = hello.clone();
        broken[lie] = 0xff;
        identify(&broken, broken.len() as u64);
    }
    assert_eq!(named(&client_hello(b"")), ("TLS", String::new()));
    let (_, detail) = named(&client_hello(b"\0\0\0\x08\0\x06\0\0\x03\x1b\xffx"));
    assert_eq!(detail, "SNI \\x1b\\xffx");
}

#[test]
fn random_bytes_are_safe() {
    // A small generator, so that a failure can be repeated.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..20_000usize {
        let bytes: Vec<u8> = (0..round % 80).map(|i| if i < 6 { random() & 0x87 } else { random() }).collect();
        let stray = identify(&bytes, bytes.len() as u64 + u64::from(random() & 1));
        assert!(stray.detail.is_none_or(|d| d.len() <= DETAIL && d.is_ascii()));
    }
}

/// TCP payloads of a classic little-endian pcap with Ethernet and IPv4, by packet number; enough for our own captures.
fn payload(capture: &[u8], number: usize) -> Vec<u8> {
    let (mut at, mut left) = (24, number);
    loop {
        let length = u32::from_le_bytes(capture[at + 8..at + 12].try_into().unwrap()) as usize;
        let packet = &capture[at + 16..at + 16 + length];
        left -= 1;
        if left == 0 {
            let ip = &packet[14..14 + usize::from(u16::from_be_bytes([packet[16], packet[17]]))];
            let tcp = &ip[usize::from(ip[0] & 15) * 4..];
            return tcp[usize::from(tcp[12] >> 4) * 4..].to_vec();
        }
        at += 16 + length;
    }
}

#[test]
fn the_probes_of_the_incident_are_told_apart() {
    let scanner = include_bytes!("../../../testdata/incident-torch1.13/scanner.pcap");
    let node_c = include_bytes!("../../../testdata/incident-torch1.13/node-c.pcap");
    let cases: [(&[u8], usize, &str, &str); 5] = [
        (scanner, 237, "TerminalServerCookie", "RDP"),
        (scanner, 222, "TerminalServerCookie", "RDP"),
        (scanner, 208, "TerminalServerCookie", "RDP"),
        (node_c, 410, "TerminalServerCookie", "RDP"),
        (node_c, 513, "TerminalServer", "RDP"),
    ];
    for (capture, number, probe, protocol) in cases {
        let bytes = payload(capture, number);
        let stray = identify(&bytes, bytes.len() as u64);
        assert_eq!((stray.nmap_probe, stray.protocol, stray.tool), (Some(probe), protocol, Some("nmap")));
        // In part, or with more behind it, it is no probe.
        assert_eq!(identify(&bytes[..bytes.len() - 1], bytes.len() as u64 - 1).nmap_probe, None);
        assert_eq!(identify(&bytes, bytes.len() as u64 + 1).nmap_probe, None);
    }
}

#[test]
fn the_table_is_sorted_and_whole() {
    let table = nmap_probes::NMAP_PROBES;
    assert_eq!(table.len(), 99);
    assert!(table.is_sorted_by_key(|(length, digest, _)| (*length, *digest)));
}
