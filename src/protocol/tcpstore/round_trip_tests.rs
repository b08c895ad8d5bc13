//! Whatever a client and a server say, cut anywhere, decodes back; whatever anybody says, nothing breaks.

use proptest::prelude::*;

use super::*;
use crate::stream::{Chunk, PacketRef};
use crate::time::Timestamp;

/// A request as the test means it: what the encoder writes and the decoder must find.
#[derive(Clone, Debug)]
struct Said {
    query: Operation,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    number: i64,
    /// The bytes of the answer.
    answer: Vec<u8>,
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

/// Written from the table of requests, not from the decoder's layouts.
fn encode(dialect: Dialect, s: &Said) -> Vec<u8> {
    use Operation::*;
    let mut out = vec![dialect.byte(s.query).unwrap()];
    match s.query {
        Validate => out.extend(VALIDATE_MAGIC.to_le_bytes()),
        Ping => out.extend((s.number as u32).to_le_bytes()),
        GetNumKeys | CancelWait | ListKeys => {}
        Check | Wait | MultiGet | MultiSet => out.extend((s.keys.len() as u64).to_le_bytes()),
        _ => {}
    }
    for (i, key) in s.keys.iter().enumerate() {
        string(&mut out, key);
        match s.query {
            MultiSet => string(&mut out, &s.values[i]),
            Set | Append | QueuePush | CompareSet => s.values.iter().for_each(|v| string(&mut out, v)),
            Add | Barrier => out.extend(s.number.to_le_bytes()),
            _ => {}
        }
    }
    out
}

fn text(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

fn said(dialect: Dialect) -> impl Strategy<Value = Said> {
    use Operation::*;
    let queries: Vec<Operation> =
        dialect.operations().iter().copied().filter(|q| !matches!(q, Validate | WatchKey | CancelWait)).collect();
    let parts = (
        prop::sample::select(queries),
        prop::collection::vec((text(40), text(90)), 0..5),
        any::<i64>(),
        text(90),
        any::<bool>(),
    );
    parts.prop_map(|(query, pairs, number, value, yes)| {
        let (mut keys, mut values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        match query {
            GetNumKeys | ListKeys | Ping => keys.clear(),
            Check | Wait | MultiGet | MultiSet => {}
            _ => keys.resize(1, b"/k".to_vec()),
        }
        values.resize(
            match query {
                Set | Append | QueuePush => 1,
                CompareSet => 2,
                MultiSet => keys.len(),
                _ => 0,
            },
            b"v".to_vec(),
        );
        let mut answer = Vec::new();
        match query {
            Check => answer.push(u8::from(yes)),
            Wait | Barrier => answer.push(0),
            Ping => answer.extend((number as u32).to_le_bytes()),
            Add | GetNumKeys | DeleteKey | QueueLen => answer.extend(number.to_le_bytes()),
            Get | CompareSet => string(&mut answer, &value),
            MultiGet => keys.iter().for_each(|k| string(&mut answer, k)),
            QueuePop => {
                answer.extend(i64::from(yes).to_le_bytes());
                if yes {
                    string(&mut answer, &value);
                }
            }
            ListKeys => {
                answer.extend(2i64.to_le_bytes());
                string(&mut answer, b"init/");
                string(&mut answer, &value);
            }
            _ => {}
        }
        Said { query, keys, values, number, answer }
    })
}

fn sequences() -> impl Strategy<Value = (Dialect, Vec<Said>)> {
    prop::sample::select(Dialect::ALL.to_vec())
        .prop_flat_map(|d| prop::collection::vec(said(d), 1..12).prop_map(move |s| (d, s)))
}

/// Feeds `bytes` in chunks whose sizes come from `cuts`, over and over.
fn feed(
    c: &mut Connection,
    direction: Direction,
    at: &mut u64,
    bytes: &[u8],
    cuts: &[usize],
    out: &mut impl FnMut(Event),
) {
    let mut rest = bytes;
    for size in cuts.iter().cycle() {
        if rest.is_empty() {
            return;
        }
        let (now, later) = rest.split_at((*size).min(rest.len()));
        let chunk = Chunk { offset: *at, time: Timestamp(0), packet: PacketRef::default(), bytes: now };
        match direction {
            Direction::Client => c.client(&chunk, out),
            Direction::Server => c.server(&chunk, out),
        }
        *at += now.len() as u64;
        rest = later;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn what_is_said_is_read(
        (dialect, all) in sequences(),
        cuts in prop::collection::vec(1usize..40, 1..6),
        pipelined in any::<bool>(),
    ) {
        let mut c = Connection::new(dialect, DecodeOptions::default());
        let mut events = Vec::new();
        let mut out = |e| events.push(e);
        let (mut up, mut down) = (0, 0);
        if dialect == Dialect::D {
            feed(&mut c, Direction::Client, &mut up, &[0, 0xce, 0xf7, 0x85, 0x3c], &cuts, &mut out);
        }
        for s in &all {
            feed(&mut c, Direction::Client, &mut up, &encode(dialect, s), &cuts, &mut out);
            if !pipelined {
                feed(&mut c, Direction::Server, &mut down, &s.answer, &cuts, &mut out);
            }
        }
        if pipelined {
            let answers: Vec<u8> = all.iter().flat_map(|s| s.answer.iter().copied()).collect();
            feed(&mut c, Direction::Server, &mut down, &answers, &cuts, &mut out);
        }
        c.end(Direction::Client, &mut out);
        c.end(Direction::Server, &mut out);

        let requests: Vec<&Message> = events.iter()
            .filter_map(|e| if let Event::Request(m) = e { Some(m) } else { None })
            .filter(|m| m.query != Operation::Validate).collect();
        prop_assert_eq!(requests.len(), all.len());
        let (mut at, mut answered) = (0, 0);
        for (m, s) in requests.iter().zip(&all) {
            prop_assert_eq!(m.query, s.query);
            let bytes = |f: &[Field]| f.iter().map(|f| f.bytes.clone()).collect::<Vec<_>>();
            prop_assert_eq!(bytes(&m.keys), s.keys.clone());
            prop_assert_eq!(bytes(&m.values), s.values.clone());
            prop_assert_eq!(m.length, encode(dialect, s).len() as u64);
            if matches!(s.query, Operation::Add | Operation::Barrier) {
                prop_assert_eq!(m.number, Some(s.number));
            }
            if s.answer.is_empty() {
                continue;
            }
            let a = events.iter().find_map(|e| match e { Event::Answer(a) if a.request == m.id => Some(a), _ => None });
            let Some(a) = a else { return Err(TestCaseError::fail(format!("no answer to {m:?} in {events:?}"))) };
            prop_assert_eq!((a.offset, a.length), (at, s.answer.len() as u64));
            at += a.length;
            answered += 1;
        }
        let plain = events.iter().filter(|e| !matches!(e, Event::AnswerLength { .. })).count();
        prop_assert_eq!(plain, requests.len() + answered + usize::from(dialect == Dialect::D), "{:?}", events);
    }

    #[test]
    fn any_bytes_are_survived(
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        midstream in any::<bool>(),
        moves in prop::collection::vec((0u8..6, prop::collection::vec(prop_oneof![Just(0u8), 0u8..20, any::<u8>()], 1..60), any::<u64>()), 0..40),
    ) {
        let options = DecodeOptions::default();
        let mut c = if midstream { Connection::joined_midstream(dialect, options) } else { Connection::new(dialect, options) };
        let mut claimed = [0u64; 2];
        let mut fed = [0u64; 2];
        let mut at = [0u64; 2];
        let mut out = |e: Event| match e {
            Event::Request(m) => {
                claimed[0] += m.length;
                assert!(m.keys.len() <= options.keep_elements && m.keys.iter().all(|k| k.bytes.len() <= options.keep_key_bytes));
            }
            Event::Answer(a) => claimed[1] += a.length,
            Event::Callback(c) => claimed[1] += c.length,
            Event::Undecoded { direction, length, .. } => claimed[usize::from(direction == Direction::Server)] += length,
            Event::Unfinished(u) => claimed[usize::from(u.direction == Direction::Server)] += u.message_delivered,
            _ => {}
        };
        for (what, bytes, far) in &moves {
            let side = usize::from(what % 2 == 1);
            let direction = [Direction::Client, Direction::Server][side];
            if *what >= 4 {
                let length = far % 50;
                c.gap(direction, at[side], length, &mut out);
                at[side] += length;
                fed[side] += length;
            } else {
                feed(&mut c, direction, &mut at[side], bytes, &[usize::MAX], &mut out);
                fed[side] += bytes.len() as u64;
            }
        }
        c.end(Direction::Client, &mut out);
        c.end(Direction::Server, &mut out);
        // No byte is accounted for twice.
        prop_assert!(claimed[0] <= fed[0] && claimed[1] <= fed[1], "{:?} {:?}", claimed, fed);
        // And without gaps and a beginning in the middle, none is missed.
        if !midstream && moves.iter().all(|(what, ..)| *what < 4) {
            prop_assert_eq!(claimed, fed);
        }
    }
}
