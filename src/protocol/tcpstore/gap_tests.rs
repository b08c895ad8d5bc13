//! Gaps, beginnings in the middle, and servers that are none.

use super::test_support::unhex;
use super::*;
use crate::stream::{Chunk, PacketRef};
use crate::time::Timestamp;

struct Bench {
    connection: Connection,
    at: [u64; 2],
    events: Vec<Event>,
}

impl Bench {
    fn new(connection: Connection) -> Self {
        Bench { connection, at: [0; 2], events: Vec::new() }
    }

    fn client(&mut self, hex: &str) {
        let bytes = unhex(hex);
        let chunk = Chunk { offset: self.at[0], time: Timestamp(0), packet: PacketRef::default(), bytes: &bytes };
        self.connection.client(&chunk, &mut |e| self.events.push(e));
        self.at[0] += bytes.len() as u64;
    }

    fn server(&mut self, bytes: &[u8]) {
        let chunk = Chunk { offset: self.at[1], time: Timestamp(0), packet: PacketRef::default(), bytes };
        self.connection.server(&chunk, &mut |e| self.events.push(e));
        self.at[1] += bytes.len() as u64;
    }

    fn gap(&mut self, direction: Direction, length: u64) {
        let at = &mut self.at[usize::from(direction == Direction::Server)];
        self.connection.gap(direction, *at, length, &mut |e| self.events.push(e));
        *at += length;
    }

    fn end(mut self) -> Vec<Event> {
        self.connection.end(Direction::Client, &mut |e| self.events.push(e));
        self.connection.end(Direction::Server, &mut |e| self.events.push(e));
        self.events
    }
}

fn bench(dialect: Dialect) -> Bench {
    Bench::new(Connection::new(dialect, DecodeOptions::default()))
}

const WAIT_K: &str = "05 0100000000000000 0200000000000000 2f6b";
const GET_K: &str = "02 0200000000000000 2f6b";

fn names(events: &[Event]) -> Vec<String> {
    let name = |e: &Event| match e {
        Event::Request(m) => format!("{}@{}+{}", m.query, m.offset, m.length),
        Event::Answer(a) => format!("{}<-{}", a.query, a.kind.name()),
        Event::Undecoded { direction, offset, length } => format!("undecoded {direction:?} {offset}+{length}"),
        Event::Resynchronized { offset, skipped } => format!("again at {offset}, {skipped} skipped"),
        other => format!("{other:?}").chars().take(30).collect(),
    };
    events.iter().map(name).collect()
}

#[test]
fn a_hole_inside_a_value_is_counted_over() {
    let mut b = bench(Dialect::B);
    b.client("00 0200000000000000 2f6b 0a00000000000000 6162");
    b.gap(Direction::Client, 6);
    b.client("7879");
    b.client(GET_K);
    b.server(&unhex("0a00000000000000 61"));
    b.gap(Direction::Server, 9);
    let events = b.end();
    assert_eq!(names(&events), ["SET@0+29", "GET@29+11", "GET<-value"]);
    let Event::Request(m) = &events[0] else { panic!() };
    assert_eq!(m.values, [Field { length: 10, bytes: b"ab".to_vec() }]);
}

#[test]
fn any_other_hole_loses_a_message_and_no_more() {
    let mut b = bench(Dialect::B);
    b.client("02 0200");
    b.gap(Direction::Client, 100);
    // The end of the lost WAIT's count looks like SET; the GET is where decoding begins again.
    b.client("0100000000000000 0200000000000000 2f6b");
    b.server(&[0]);
    b.client(GET_K);
    b.server(&unhex("0100000000000000 78"));
    b.client(WAIT_K);
    b.server(&[0]);
    assert_eq!(
        names(&b.end()),
        [
            "undecoded Client 0+3",
            "undecoded Client 103+18",
            "again at 121, 21 skipped",
            "GET@121+11",
            // It answered the lost WAIT, but nothing here says so.
            "undecoded Server 0+1",
            "GET<-value",
            "WAIT@132+19",
            "WAIT<-stop waiting",
        ]
    );
}

#[test]
fn a_stream_joined_in_the_middle_counts_from_its_first_message() {
    let mut b = Bench::new(Connection::joined_midstream(Dialect::D, DecodeOptions::default()));
    b.server(b"rest of some answer");
    b.client("ff0000 61 03");
    b.client("0200000000000000 2f6b 07");
    b.server(&unhex("0100000000000000 78"));
    b.server(&unhex("0300000000000000"));
    assert_eq!(
        names(&b.end()),
        ["again at 4, 4 skipped", "GET@4+11", "GETNUMKEYS@15+1", "GET<-value", "GETNUMKEYS<-number"]
    );
}

#[test]
fn answers_that_come_early_wait_for_their_request() {
    let mut b = bench(Dialect::B);
    b.server(&unhex("0100000000"));
    b.server(&unhex("00000078"));
    b.client(GET_K);
    assert_eq!(names(&b.end()), ["GET@0+11", "GET<-value"]);
}

#[test]
fn a_server_that_is_none_is_told_by_its_words() {
    let mut b = bench(Dialect::D);
    b.client("00cef7853c 0d 01000000");
    b.server(b"SSH-2.0-OpenSSH_9.2\r\n");
    let events = b.end();
    let Event::Answer(a) = &events[2] else { panic!("{events:?}") };
    assert_eq!((a.kind, a.number), (AnswerKind::WrongNonce, Some(759_714_643)));
    assert!(matches!(events[3], Event::Unexpected { request: None, byte: b'2', .. }), "{events:?}");
    assert_eq!(events[4], Event::Undecoded { direction: Direction::Server, offset: 4, length: 17 });

    let mut b = bench(Dialect::B);
    b.client(GET_K);
    b.server(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let events = b.end();
    assert!(matches!(events[1], Event::AnswerLength { text: Some(t), .. } if &t == b"HTTP/1.1"), "{events:?}");
    assert!(matches!(events[2], Event::Unfinished(u) if u.direction == Direction::Server && u.delivered == 20));
}

#[test]
fn validate_is_judged() {
    for (hex, fault) in [
        ("00deadbeef 07", ValidateFault::WrongMagic { got: 0xefbe_adde }),
        ("00cef7853c 00cef7853c 07", ValidateFault::Repeated),
        ("0300", ValidateFault::Missing { first: 3 }),
    ] {
        let mut b = bench(Dialect::D);
        b.client(hex);
        let events = b.end();
        let faults: Vec<_> = events
            .iter()
            .filter_map(|e| if let Event::Validate { fault, .. } = e { Some(*fault) } else { None })
            .collect();
        assert_eq!(faults, [fault]);
        assert!(matches!(events.last(), Some(Event::Undecoded { .. })), "{events:?}");
    }
}
