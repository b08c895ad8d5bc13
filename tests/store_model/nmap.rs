//! nmap's own probes, read from the file that nmap installs. Their bytes are never copied here.

use std::collections::BTreeMap;

const FILE: &str = "/usr/share/nmap/nmap-service-probes";

/// TCP probes by name, or `None` when nmap is not installed.
pub(crate) fn probes() -> Option<BTreeMap<String, Vec<u8>>> {
    let file = String::from_utf8_lossy(&std::fs::read(FILE).ok()?).into_owned();
    let mut probes = BTreeMap::new();
    for line in file.lines() {
        let Some(rest) = line.strip_prefix("Probe TCP ") else { continue };
        let (name, payload) = rest.split_once(" q").unwrap();
        let delimiter = payload.chars().next().unwrap();
        let body = &payload[delimiter.len_utf8()..];
        let end = body.find(delimiter).unwrap();
        probes.insert(name.to_owned(), unescape(&body[..end]));
    }
    Some(probes)
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().unwrap() {
            b'0' => 0,
            b'a' => 7,
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'v' => 11,
            b'f' => 12,
            b'r' => 13,
            b'x' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    out
}

#[test]
fn escapes_are_read_as_nmap_reads_them() {
    assert_eq!(unescape(r"\x03\0a\r\n\\\|"), b"\x03\0a\r\n\\|");
}
