//! The decoder against recorded clients and servers.

use std::collections::BTreeSet;

use super::trial::{Piece, connections, data, decode_as, unhex};
use super::*;
use crate::time::{NANOS, Timestamp};

/// A line a request with its answer; anything that is no request and no answer stands as itself.
fn story(events: &[Event]) -> Vec<String> {
    let text = |f: &Field| String::from_utf8_lossy(&f.bytes).chars().take(40).collect::<String>();
    let texts = |f: &[Field]| f.iter().map(text).collect::<Vec<_>>().join(",");
    let mut lines = Vec::new();
    for e in events {
        match e {
            Event::Request(m) => {
                let mut line = format!("{} {}", m.query, texts(&m.keys));
                if !m.values.is_empty() {
                    line += &format!(" ={}", texts(&m.values));
                }
                if let Some(n) = m.number.filter(|_| !matches!(m.query, Operation::Ping | Operation::Validate)) {
                    line += &format!(" #{n}");
                }
                lines.push(line.trim().to_string());
            }
            Event::Answer(a) => {
                let request = events.iter().filter_map(|e| if let Event::Request(m) = e { Some(m) } else { None });
                let m = request.clone().find(|m| m.id == a.request).unwrap();
                assert_eq!(m.query, a.query);
                let number =
                    a.number.filter(|_| a.query != Operation::Ping).map_or(String::new(), |n| format!(" #{n}"));
                lines.push(
                    format!("  {} <- {}{number} {}", a.query, a.kind.name(), texts(&a.fields)).trim_end().to_string(),
                );
            }
            Event::Callback(c) => {
                lines.push(format!("  {} {} {}->{}", c.change.name(), text(&c.key), text(&c.old), text(&c.new)))
            }
            Event::Unanswered { query, .. } => lines.push(format!("unanswered {query}")),
            other => lines.push(format!("{other:?}")),
        }
    }
    lines
}

fn traces() -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_slice(&data("outcomes/store-traces.json")).unwrap()
}

fn dialect_of(version: &str) -> Dialect {
    let minor = version.split(['.', '/']).nth(1).and_then(|m| m.parse::<u32>().ok()).unwrap();
    match (version.split('.').next(), minor) {
        (Some("1"), 4..=6) => Dialect::A0,
        (Some("1"), 7..=8) => Dialect::A1,
        (Some("1"), _) | (_, 0) => Dialect::B,
        (_, 1) => Dialect::C,
        _ => Dialect::D,
    }
}

/// The pieces of connection `n` of a trace; 100 ms apart.
fn trace(events: &serde_json::Value, n: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (i, e) in events["events"].as_array().unwrap().iter().enumerate() {
        let (connection, what, hex) = (e[0].as_str().unwrap(), e[1].as_str().unwrap(), e[2].as_str().unwrap());
        if what == "DATA" && connection[1..] == n.to_string() {
            let direction = if connection.starts_with('c') { Direction::Client } else { Direction::Server };
            let time = Timestamp(i as i64 * NANOS / 10);
            pieces.push(Piece { direction, time, packet: i as u64 + 1, bytes: unhex(hex) });
        }
    }
    pieces
}

#[test]
fn every_recorded_client_and_server_is_understood() {
    let mut seen = BTreeSet::new();
    for (version, events) in &traces() {
        let dialect = dialect_of(version);
        let pieces = trace(events, 0);
        let whole = story(&decode_as(dialect, &pieces, false));
        assert_eq!(whole, story(&decode_as(dialect, &pieces, true)), "{version}: cut into bytes");
        let got = whole.join("\n");
        println!("== {version}\n{got}");
        seen.insert(got);
    }
    assert_eq!(seen.len(), 0);
}

#[test]
fn print_api() {
    for (v, d) in [
        ("1.4.0", Dialect::A0),
        ("1.13.0", Dialect::B),
        ("2.1.2", Dialect::C),
        ("2.2.2", Dialect::D),
        ("2.15.0", Dialect::D),
    ] {
        for (client, pieces) in connections(&format!("api/store-api-{v}.pcap"), 29500) {
            println!("== {v} {client:?}");
            let whole = decode_as(d, &pieces, false);
            for l in story(&whole) {
                println!("{l}");
            }
        }
    }
    panic!();
}
