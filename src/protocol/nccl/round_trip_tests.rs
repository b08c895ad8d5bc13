//! Made-up connections: encoded, cut anywhere, decoded; and bytes that are nothing at all.

use proptest::prelude::*;

use super::test_support::{Held, decoding, events};
use super::*;
use crate::stream::{Direction, PacketRef};
use crate::time::Timestamp;

const MAGIC: u64 = 0x8877_6655_4433_2211;

fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_le_bytes()[..], body].concat()
}

fn words(words: &[i32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn address(port: u16, six: bool) -> Vec<u8> {
    let mut a = vec![if six { 10 } else { 2 }, 0];
    a.extend(port.to_be_bytes());
    if six {
        a.extend([0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    } else {
        a.extend([192, 0, 2, 9]);
    }
    a.resize(28, 0);
    a
}

fn hello(kind: u32) -> Vec<u8> {
    [&MAGIC.to_le_bytes()[..], &kind.to_le_bytes()].concat()
}

/// A check-in of each layout.
fn check_in(size: usize, rank: i32, nranks: i32, port: u16, six: bool) -> Vec<u8> {
    let mut body = words(&[rank, nranks]);
    let (reply, ring) = match size {
        136 => (8, 72),
        64 => (8, 36),
        172 => (16, 44),
        _ => (20, 48),
    };
    if size >= 172 {
        body.extend(words(&[0, 1]));
    }
    body.resize(reply, 0);
    body.extend(address(port, six));
    body.resize(ring, 0);
    body.extend(address(port ^ 1, six));
    body.resize(size, 0);
    frame(&body)
}

/// `bytes` in pieces of these lengths, in turn.
fn cut(direction: Direction, bytes: &[u8], lengths: &[usize]) -> Vec<Held> {
    let (mut out, mut at) = (Vec::new(), 0);
    for n in lengths.iter().cycle() {
        let Some(piece) = bytes.get(at..(at + n).min(bytes.len())).filter(|p| !p.is_empty()) else { break };
        let packet = PacketRef { capture: 0, number: 1 };
        out.push(Held { direction, offset: at as u64, time: Timestamp(0), packet, bytes: piece.to_vec() });
        at += n;
    }
    out
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1usize..40, 1..8)
}

proptest! {
    #[test]
    fn check_ins(
        size in prop_oneof![Just(64usize), Just(172), Just(176)], bare in any::<bool>(), old in any::<bool>(),
        rank in 0i32..1000, more in 1i32..1000, port in 2u16.., six in any::<bool>(), lengths in lengths(),
    ) {
        let size = match (bare, old) { (true, true) => 136, (true, false) => 64, _ => size };
        let mut bytes = if bare { Vec::new() } else { hello(1) };
        bytes.extend(check_in(size, rank, rank + more, port, six));
        let f = decoding(&cut(Direction::ToServer, &bytes, &lengths), Framing::Auto, false);
        let (c, _) = f.check_in.unwrap();
        prop_assert_eq!((c.rank, c.nranks, c.roots), (rank, rank + more, (size >= 172).then_some((0, 1))));
        prop_assert_eq!((c.reply.unwrap().port, c.ring.unwrap().port), (port, port ^ 1));
        prop_assert_eq!(c.reply.unwrap().address.is_v4(), !six);
        prop_assert!(f.is_clean() && f.unfinished.is_none());
        let known = first_bytes(&bytes[..bytes.len().min(64)]);
        prop_assert_eq!(known, FirstBytes::Nccl { role: Role::Root, certain: false });
    }

    #[test]
    fn proxy_conversations_of_every_layout(
        layout in 0usize..4, requests in proptest::collection::vec((3i32..6, 0usize..50, 1usize..50), 0..8), lengths in lengths(),
    ) {
        // 2.12–2.16, 2.17, 2.18, 2.19 and later.
        let mut held = Vec::new();
        let (mut asked, mut answered) = (hello(2), Vec::new());
        let (mut at, mut id) = ([0u64; 2], 0x7f00_0000_1000u64);
        let mut turn = |asked: &mut Vec<u8>, answered: &mut Vec<u8>| {
            for (i, bytes) in [asked, answered].into_iter().enumerate() {
                let direction = if i == 0 { Direction::ToServer } else { Direction::ToClient };
                for mut h in cut(direction, bytes, &lengths) {
                    h.offset += at[i];
                    held.push(h);
                }
                at[i] += bytes.len() as u64;
                bytes.clear();
            }
        };
        let reply = |answered: &mut Vec<u8>, id: u64, n: usize| {
            if layout >= 1 {
                answered.extend(id.to_le_bytes());
            }
            if layout >= 3 {
                answered.extend(words(&[0]));
            }
            if layout >= 1 {
                answered.extend(words(&[n as i32]));
            }
            answered.extend(vec![0x55; n]);
        };
        if layout < 2 {
            asked.extend(words(&[1, 2, 0, 1]));
            answered.extend(*b"pointer!suffix");
        } else {
            asked.extend(words(&[1, 0, 0, 20, 16, 2, 0, 0, 1, 0]));
            asked.extend(id.to_le_bytes());
            reply(&mut answered, id, 16);
        }
        turn(&mut asked, &mut answered);
        for (kind, request, size) in &requests {
            id += 64;
            asked.extend(words(&[*kind]));
            asked.extend(7u64.to_le_bytes());
            asked.extend(words(&[*request as i32, *size as i32]));
            asked.extend(vec![0x66; *request]);
            if layout >= 1 {
                asked.extend(id.to_le_bytes());
            }
            reply(&mut answered, id, *size);
            turn(&mut asked, &mut answered);
        }
        asked.extend(words(&[6]));
        turn(&mut asked, &mut answered);
        let f = decoding(&held, Framing::Auto, false);
        let n = requests.len() as u64;
        prop_assert_eq!((f.proxy, f.fault_count, f.undecoded), ([n + 2, n + 1], 0, [0, 0]));
        prop_assert!(f.unfinished.is_none());
        prop_assert_eq!(events(&held, false), events(&held, true));
    }

    #[test]
    fn arbitrary_bytes_never_break_it_and_all_are_told_of(
        start in 0usize..7, client in proptest::collection::vec(any::<u8>(), 0..600),
        server in proptest::collection::vec(any::<u8>(), 0..600), lengths in lengths(), small in any::<bool>(),
    ) {
        let mut bytes = if start < 6 { hello(start as u32) } else { Vec::new() };
        bytes.extend(client.iter().map(|b| if small { b & 7 } else { *b }));
        let mut held = cut(Direction::ToServer, &bytes, &lengths);
        held.extend(cut(Direction::ToClient, &server, &lengths));
        let f = decoding(&held, Framing::Auto, false);
        prop_assert!(f.undecoded[0] <= bytes.len() as u64 && f.undecoded[1] <= server.len() as u64);
        prop_assert_eq!(f.bytes, [bytes.len() as u64, server.len() as u64]);
        for framing in [Framing::Bare, Framing::Handshake] {
            decoding(&held, framing, false);
        }
        prop_assert_eq!(events(&held, false), events(&held, true));
    }

    #[test]
    fn gaps_never_break_it(
        kind in 0u32..7, body in proptest::collection::vec(any::<u8>(), 1..400), at in 0u64..300, missing in 1u64..5000,
    ) {
        let mut c = NcclConnection::new(Framing::Auto);
        let bytes = [hello(kind), frame(&body)].concat();
        let mut told = 0;
        let mut out = |e: Event| if let Event::Undecoded { length, .. } = e { told += length };
        let at = at.min(bytes.len() as u64);
        for (offset, part) in [(0, &bytes[..at as usize]), (at + missing, &bytes[at as usize..])] {
            let chunk = crate::stream::Chunk { offset, time: Timestamp(0), packet: PacketRef::default(), bytes: part };
            if !part.is_empty() {
                c.client(&chunk, &mut out);
            }
        }
        c.gap(Direction::ToServer, u64::MAX - 5, 100, &mut out);
        c.end(Direction::ToServer, &mut out);
        c.end(Direction::ToClient, &mut out);
        prop_assert!(told <= bytes.len() as u64);
    }
}

/// A NET/Socket connection of which the capture shows no more than its handshake.
#[test]
fn a_message_that_did_not_begin_is_not_unfinished() {
    let held = cut(Direction::ToServer, &hello(3), &[5]);
    let all = events(&held, false);
    let taken: u64 = all.iter().map(|e| if let Event::Message { length, .. } = e { *length } else { 0 }).sum();
    assert!(taken == 12 && !all.iter().any(|e| matches!(e, Event::Unfinished { .. })), "{all:?}");
    let all = events(&cut(Direction::ToServer, &[&hello(1)[..], &[172, 0]].concat(), &[5]), false);
    assert!(all.iter().any(|e| matches!(e, Event::Unfinished { offset: 12, delivered: 2, .. })), "{all:?}");
}
