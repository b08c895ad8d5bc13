//! The decoder against recorded clients and servers.

use super::test_support::{Piece, connections, data, decode_as, unhex};
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

/// What the recorded clients did, in order. `init`: with a worker count first.
fn script(version: &str, init: bool) -> Vec<&'static str> {
    let dialect = dialect_of(version);
    let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
    let at_least = |m| dialect == Dialect::D && minor >= m;
    let mut s = Vec::new();
    if dialect == Dialect::D {
        s.push("VALIDATE");
    }
    if at_least(5) {
        s.extend(["PING", "  PING <- pong"]);
    }
    if init {
        s.extend(["ADD init/ #1", "  ADD <- number #2"]);
    }
    s.extend(["SET /k1 =val", "WAIT /k1", "  WAIT <- stop waiting", "GET /k1", "  GET <- value val"]);
    s.extend(["ADD /ctr #5", "  ADD <- number #5"]);
    if dialect >= Dialect::B {
        s.extend(["COMPARE_SET /k1 =val,val", "  COMPARE_SET <- value val"]);
        if !version.starts_with("1.9") {
            s.extend(["CHECK /k1,/k2", "  CHECK <- not ready"]);
        }
    }
    if dialect > Dialect::A0 {
        s.extend(["GETNUMKEYS", if init { "  GETNUMKEYS <- number #3" } else { "  GETNUMKEYS <- number #2" }]);
    }
    s.extend(["WAIT /k1", "  WAIT <- stop waiting"]);
    if dialect > Dialect::A0 {
        s.extend(["DELETE_KEY /k1", "  DELETE_KEY <- number #1"]);
    }
    if dialect >= Dialect::C {
        s.extend(["APPEND /k1 =val", "WAIT /k1,/ctr", "  WAIT <- stop waiting"]);
        s.extend(["MULTI_GET /k1,/ctr", "  MULTI_GET <- values val,5", "MULTI_SET /k1,/k3 =val,val"]);
    }
    s.extend(["SET /k1 =val", "WAIT /never"]);
    const CANCEL: [&str; 3] = ["CANCEL_WAIT", "  WAIT <- wait canceled", "  CANCEL_WAIT <- wait canceled"];
    if dialect < Dialect::C {
        s.push("unanswered WAIT");
        return s;
    }
    s.extend(CANCEL);
    if at_least(8) {
        s.extend(["QUEUE_PUSH /qk =val", "QUEUE_POP /qk"]);
        if version.ends_with("poll") {
            s.push("unanswered QUEUE_POP");
            return s;
        }
        s.extend(["  QUEUE_POP <- element #1 val", "QUEUE_LEN /qk", "  QUEUE_LEN <- number #0", "WAIT /qk"]);
        s.extend(CANCEL);
    }
    if at_least(10) {
        s.push("LIST_KEYS");
        s.push("  LIST_KEYS <- list #3 …");
    }
    if at_least(12) {
        s.extend(["BARRIER /bk #1", "  BARRIER <- stop waiting", "BARRIER /bk2 #2", "CANCEL_WAIT"]);
        s.extend(["  BARRIER <- wait canceled", "  CANCEL_WAIT <- wait canceled"]);
    }
    s
}

#[test]
fn every_recorded_client_and_server_is_understood() {
    let traces = traces();
    assert_eq!(traces.len(), 20);
    for (version, events) in &traces {
        let dialect = dialect_of(version);
        let pieces = trace(events, 0);
        let mut whole = story(&decode_as(dialect, &pieces, false));
        assert_eq!(whole, story(&decode_as(dialect, &pieces, true)), "{version}: cut into bytes");
        for line in whole.iter_mut().filter(|l| l.starts_with("  LIST_KEYS")) {
            // Keys come in no order.
            let mut keys: Vec<_> = line.rsplit(' ').next().unwrap().split(',').collect();
            keys.sort_unstable();
            assert_eq!(keys, ["/ctr", "/k1", "/k3"]);
            *line = "  LIST_KEYS <- list #3 …".to_string();
        }
        let init = matches!(version.as_str(), "1.4.0/poll" | "1.7.0/poll" | "1.9.0/poll");
        assert_eq!(whole, script(version, init), "{version}");
    }
}

#[test]
fn a_watched_key_calls_back_on_the_second_connection() {
    let pieces = trace(&traces()["2.0.0/poll"], 1);
    let wanted = ["WATCH_KEY /k1", "  WATCH_KEY <- registered", "  KEY_CREATED /k1 ->val"];
    for bytewise in [false, true] {
        assert_eq!(story(&decode_as(Dialect::B, &pieces, bytewise)), wanted);
    }
}

/// All bytes of `direction` are accounted for by messages that follow each other.
fn tiles(events: &[Event], pieces: &[Piece], direction: Direction) {
    let bytes: usize = pieces.iter().filter(|p| p.direction == direction).map(|p| p.bytes.len()).sum();
    let mut at = 0;
    for e in events {
        let (offset, length) = match (e, direction) {
            (Event::Request(m), Direction::Client) => (m.offset, m.length),
            (Event::Answer(a), Direction::Server) => (a.offset, a.length),
            _ => continue,
        };
        assert_eq!(offset, at);
        at += length;
    }
    assert_eq!(at, bytes as u64);
}

#[test]
fn captured_clients_are_understood_to_the_last_byte() {
    let mut requests = Vec::new();
    for (version, dialect) in [
        ("1.4.0", Dialect::A0),
        ("1.13.0", Dialect::B),
        ("2.1.2", Dialect::C),
        ("2.2.2", Dialect::D),
        ("2.15.0", Dialect::D),
    ] {
        let mut count = 0;
        if version == "2.15.0" {
            // Payload bytes by stream as tshark sums them, client then server.
            let sums = |d| -> Vec<usize> {
                let flows = connections("api/store-api-2.15.0.pcap", 29500);
                let sum = |p: &Vec<Piece>| p.iter().filter(|p| p.direction == d).map(|p| p.bytes.len()).sum();
                flows.values().map(sum).collect()
            };
            assert_eq!(sums(Direction::Client), [68, 200_954, 52]);
            assert_eq!(sums(Direction::Server), [22, 200_366, 14]);
        }
        for pieces in connections(&format!("api/store-api-{version}.pcap"), 29500).values() {
            let events = decode_as(dialect, pieces, false);
            assert_eq!(story(&events), story(&decode_as(dialect, pieces, true)), "{version}");
            tiles(&events, pieces, Direction::Client);
            tiles(&events, pieces, Direction::Server);
            for e in &events {
                match e {
                    Event::Request(_) => count += 1,
                    Event::Answer(_) => {}
                    // The 200 000-byte value, both ways.
                    Event::Declared(d) => assert_eq!((d.field, d.value), (FieldPart::ValueLength, 200_000)),
                    Event::AnswerLength { value, text, .. } => assert_eq!((*value, *text), (200_000, None)),
                    // The wait that times out, where clients could not cancel it.
                    Event::Unanswered { query: Operation::Wait, .. } if dialect < Dialect::C => {}
                    other => panic!("{version}: {other:?}"),
                }
            }
        }
        requests.push(count);
    }
    assert_eq!(requests, [21, 24, 30, 32, 45]);
}

fn client(bytes: &[u8]) -> Vec<Piece> {
    vec![Piece { direction: Direction::Client, time: Timestamp(0), packet: 1, bytes: bytes.to_vec() }]
}

#[test]
fn the_probe_that_killed_three_jobs() {
    // Packet 411 of the incident's node-a: nmap's TerminalServerCookie.
    let all = connections("incident-torch1.13/node-a.pcap", 29500);
    let pieces = all.values().find(|p| p.iter().any(|p| p.packet == 411)).unwrap();
    for (dialect, query, field) in [
        (Dialect::B, Operation::Add, FieldPart::KeyLength),
        (Dialect::C, Operation::Add, FieldPart::KeyLength),
        (Dialect::A1, Operation::Check, FieldPart::KeyCount),
    ] {
        let events = decode_as(dialect, pieces, true);
        let Some(Event::Declared(d)) = events.first() else { panic!("{events:?}") };
        assert_eq!((d.query, d.field, d.value), (query, field, 962_696_183_808));
        assert_eq!((d.message_offset, d.place.offset, d.place.packet.number), (0, 1, 411));
    }
    let events = decode_as(Dialect::B, pieces, false);
    let Some(Event::Unfinished(u)) = events.last() else { panic!("{events:?}") };
    assert_eq!((u.field, u.declared, u.delivered, u.message_delivered), (FieldPart::Key, 962_696_183_808, 33, 42));
    let events = decode_as(Dialect::D, pieces, false);
    assert!(matches!(events[0], Event::Validate { fault: ValidateFault::Missing { first: 3 }, .. }), "{events:?}");
}

#[test]
fn greetings_are_read_as_the_servers_read_them() {
    let greetings: Vec<serde_json::Value> = serde_json::from_slice(&data("outcomes/greetings.json")).unwrap();
    let mut declared = 0;
    for g in &greetings {
        let bytes = unhex(g["first_bytes"].as_str().unwrap());
        let whole = g["length"].as_u64().unwrap() as usize == bytes.len();
        for (name, verdict) in g["dialects"].as_object().unwrap() {
            let dialect = match name.as_str() {
                "A0" => Dialect::A0,
                "A1" => Dialect::A1,
                "B" => Dialect::B,
                "C" => Dialect::C,
                _ => Dialect::D,
            };
            let events = decode_as(dialect, &client(&bytes), false);
            let context = format!("{} as {name}: {verdict} {events:?}", g["name"]);
            let why = verdict["why"].as_str().unwrap_or("");
            if let Some(opcode) = why.strip_prefix("unexpected query type ") {
                let opcode: u8 = opcode.parse().unwrap();
                assert!(matches!(events[0], Event::Unknown { opcode: o, .. } if o == opcode), "{context}");
            }
            if why.starts_with("first byte is not VALIDATE") {
                assert!(matches!(events[0], Event::Validate { fault: ValidateFault::Missing { .. }, .. }), "{context}");
            }
            let Some(allocates) = verdict["allocates_bytes"].as_u64().filter(|n| *n >= 1 << 20) else { continue };
            // The model sums what the message allocates: a string of the length, or 8 bytes a key.
            let sum: u64 = events
                .iter()
                .filter_map(|e| match e {
                    Event::Declared(d) if d.field == FieldPart::KeyCount => d.value.checked_mul(8),
                    Event::Declared(d) => Some(d.value).filter(|n| *n < 1 << 47),
                    _ => None,
                })
                .sum();
            // Of longer greetings only 16 bytes are recorded; a count's key lengths may lie behind them.
            assert!(sum == allocates || (!whole && sum < allocates), "{sum}: {context}");
            declared += u32::from(sum > 0);
        }
    }
    assert!(declared >= 28, "{declared}");
}

#[test]
fn a_connection_is_small() {
    assert!(std::mem::size_of::<Connection>() < 1024, "{}", std::mem::size_of::<Connection>());
}

/// PyTorch up to 2.0: a WAIT times out, the client goes on and tells nobody; the key is set later by another client.
#[test]
fn a_wait_that_was_given_up_is_answered_late() {
    let piece = |direction, ms: i64, hex: &str| Piece {
        direction,
        time: Timestamp(ms * 1_000_000),
        packet: ms as u64,
        bytes: unhex(hex),
    };
    use Direction::{Client, Server};
    let pieces = [
        piece(Client, 0, "05 0100000000000000 0600000000000000 2f6e65766572"),
        piece(Client, 300, "03 0400000000000000 2f637472 0500000000000000"),
        // The counter says 256: a zero first, and no late answer.
        piece(Server, 301, "0001000000000000"),
        piece(Client, 400, "02 0200000000000000 2f6b"),
        // Empty value, whose length is all zeros.
        piece(Server, 401, "0000000000000000"),
        piece(Client, 500, "03 0400000000000000 2f637472 0500000000000000"),
        piece(Server, 501, "00"),
        piece(Server, 502, "0501000000000000"),
    ];
    for bytewise in [false, true] {
        let events = decode_as(Dialect::B, &pieces, bytewise);
        let answers: Vec<_> = events
            .iter()
            .filter_map(|e| {
                if let Event::Answer(a) = e { Some((a.query, a.number, a.stale, a.first.number)) } else { None }
            })
            .collect();
        assert_eq!(
            answers,
            [
                (Operation::Add, Some(256), false, 301),
                (Operation::Get, None, false, 401),
                (Operation::Wait, None, true, 501),
                (Operation::Add, Some(261), false, 502)
            ],
            "{events:?}"
        );
        assert_eq!(events.len(), 8);
    }
}
