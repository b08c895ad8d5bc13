//! Servers with more than one client, and verdicts as users read them.

use super::*;

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);
const VALID: &[u8] = b"\x00\xce\xf7\x85\x3c";

fn server(major: u8, minor: u8, backend: Backend) -> Server {
    Server::new(Release::find(major, minor).unwrap(), backend)
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

fn request(byte: u8, parts: &[&[u8]]) -> Vec<u8> {
    parts.iter().fold(vec![byte], |mut all, part| {
        all.extend(string(part));
        all
    })
}

fn reply(actions: &[Action], to: ConnectionId) -> Vec<u8> {
    let sent = actions.iter().filter_map(|a| match a {
        Action::Reply { connection, bytes, .. } if *connection == to => Some(bytes.clone()),
        _ => None,
    });
    sent.collect::<Vec<_>>().concat()
}

fn validated(server: &Server) -> Store {
    let mut store = Store::with_init();
    for id in [A, B] {
        step(server, &mut store, id, VALID);
    }
    store
}

#[test]
fn one_connection_waits_and_another_wakes_it() {
    for backend in [Backend::Poll, Backend::Libuv] {
        let s = server(2, 15, backend);
        let mut store = validated(&s);
        let wait = [&[6u8, 2, 0, 0, 0, 0, 0, 0, 0][..], &string(b"/x"), &string(b"/y")].concat();
        assert_eq!(step(&s, &mut store, A, &wait), [Action::Waits { connection: A, keys: 2 }]);
        assert_eq!(reply(&step(&s, &mut store, B, &request(1, &[b"/x", b"1"])), A), b"");
        assert_eq!(reply(&step(&s, &mut store, B, &request(1, &[b"/y", b"1"])), A), [0]);
    }
}

#[test]
fn an_unfinished_request_holds_up_everybody_on_poll_and_nobody_on_libuv() {
    let s = server(2, 15, Backend::Poll);
    let mut store = validated(&s);
    let blocks = step(&s, &mut store, A, &request(1, &[b"/x", b"12345"])[..20]);
    assert_eq!(blocks, [Action::Blocks { connection: A, missing: 4 }]);
    assert_eq!(step(&s, &mut store, B, b"\x07\x07"), []);
    let rest = step(&s, &mut store, A, b"2345");
    assert_eq!(reply(&rest, B).len(), 16);
    assert!(rest.contains(&Action::Unblocks { connection: A }));

    let mut store = validated(&s);
    step(&s, &mut store, A, b"\x01");
    step(&s, &mut store, B, b"\x07");
    let gone = hang_up(&s, &mut store, A);
    assert_eq!(reply(&gone, B).len(), 8);

    let uv = server(2, 15, Backend::Libuv);
    let mut store = validated(&uv);
    assert_eq!(step(&uv, &mut store, A, b"\x01"), []);
    assert_eq!(reply(&step(&uv, &mut store, B, b"\x07"), B).len(), 8);
}

#[test]
fn libuv_sets_leading_pairs_early_and_again() {
    let s = server(2, 4, Backend::Libuv);
    let mut store = validated(&s);
    let begin = [&[11u8, 2, 0, 0, 0, 0, 0, 0, 0][..], &string(b"/x"), &string(b"1"), &[9]].concat();
    step(&s, &mut store, A, &begin);
    assert_eq!(store.get(b"/x").unwrap().kept(), b"1");
    step(&s, &mut store, B, &request(1, &[b"/x", b"2"]));
    assert_eq!(store.get(b"/x").unwrap().kept(), b"2");
    step(&s, &mut store, A, &[0]);
    assert_eq!(store.get(b"/x").unwrap().kept(), b"1");
    hang_up(&s, &mut store, A);
    assert_eq!(store.get(b"/x").unwrap().kept(), b"1");
}

#[test]
fn split_requests_are_a_fault_of_one_release() {
    // SET split inside a 3-byte value, GET split inside a 2-byte key, CHECK of two keys split between them.
    let set = request(1, &[b"/x", b"val"]);
    let get = request(3, &[b"/x"]);
    let check = [&[5u8, 2, 0, 0, 0, 0, 0, 0, 0][..], &string(b"/x"), &string(b"/y")].concat();
    for (bytes, cut) in [(&set, set.len() - 2), (&get, get.len() - 1), (&check, 19)] {
        for (minor, closes) in [(2, true), (3, false), (15, false)] {
            let s = server(2, minor, Backend::Libuv);
            let v = verdict(&s, &[VALID, &bytes[..cut], &bytes[cut..]]);
            assert_eq!(v.closed.is_some(), closes, "2.{minor}");
        }
    }
    // A missing field that is longer than what has arrived waits correctly even there.
    let big = [request(1, &[b"/big"]), (1u64 << 20).to_le_bytes().to_vec(), vec![7; 100]].concat();
    assert_eq!(verdict(&server(2, 2, Backend::Libuv), &[VALID, &big]).outcome, Outcome::Waits);
}

#[test]
fn a_descriptor_used_again_gets_the_frames_of_a_watcher_that_left() {
    let s = server(2, 0, Backend::Poll);
    let mut store = Store::with_init();
    open(&s, &mut store, A);
    assert_eq!(reply(&step(&s, &mut store, B, &request(7, &[b"/x"])), B), [3]);
    hang_up(&s, &mut store, B);
    let newcomer = ConnectionId(3);
    open(&s, &mut store, newcomer);
    let frames = reply(&step(&s, &mut store, A, &request(0, &[b"/x", b"1"])), newcomer);
    assert_eq!(frames, [&[1u8][..], &string(b"/x"), &string(b""), &string(b"1")].concat());
    // With nobody there, telling fails and the one who set the key is closed.
    hang_up(&s, &mut store, newcomer);
    let last = step(&s, &mut store, A, &request(0, &[b"/x", b"2"]));
    assert!(matches!(last[..], [Action::Close { connection: A, reason: Reason::WatcherGone, .. }]), "{last:?}");
}

#[test]
fn the_incident_probe_in_words() {
    let probe =
        b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=nmap\r\n\x01\x00\x08\x00\x03\x00\x00\x00";
    let by_label: std::collections::BTreeMap<_, _> = verdicts(&[probe]).into_iter().collect();
    assert_eq!(by_label.len(), 6);
    let b = &by_label["B"];
    assert_eq!(
        (b.outcome, b.allocates_bytes, b.resident, b.blocks_server),
        (Outcome::Allocates, Some(962_696_183_808), true, true)
    );
    assert_eq!((b.query, b.field, b.declared), (Some(Operation::Add), Some(Field::Key), Some(962_696_183_808)));
    assert!(b.explanation.starts_with(
        "ADD with a declared key length of 962696183808 bytes (0.96 TB, 0.876 TiB): PyTorch allocates and zero-fills it \
         before reading the key"
    ), "{}", b.explanation);
    assert_eq!(
        b.condition.as_deref(),
        Some("if the kernel grants 962696183808 bytes (vm.overcommit_memory=1, or RAM+swap above it)")
    );
    assert_eq!(
        (by_label["A1"].outcome, by_label["A1"].allocates_bytes),
        (Outcome::Allocates, Some(962_696_183_808 * 8))
    );
    assert_eq!(by_label["D-poll"].outcome, Outcome::Closes);
    assert_eq!(by_label["D-libuv"].outcome, Outcome::Waits);
    assert_eq!(by_label["D-libuv"].allocates_bytes, None);

    // The same bytes on a host that refuses: an immediate reset, and nothing else.
    let small = server(1, 9, Backend::Poll).on(Policy::Heuristic { ram_and_swap: 24 << 30 });
    let v = verdict(&small, &[probe]);
    assert_eq!((v.outcome, v.closed, v.blocks_server), (Outcome::Closes, Some((How::Reset, Reason::BadAlloc)), false));
    assert!(v.explanation.contains("the kernel refuses 962696183808 bytes"), "{}", v.explanation);
}

#[test]
fn what_follows_an_ignored_first_segment_is_not_called_harmless() {
    let s = server(2, 15, Backend::Libuv);
    assert_eq!(verdict(&s, &[b"\x03\x00\x00\x0b"]).outcome, Outcome::Waits);
    assert_eq!(verdict(&s, &[b"\x03\x00\x00\x0b", b"more"]).outcome, Outcome::Unknown);
    assert_eq!(verdict(&s, &[b"GET / HTTP/1.0\r\n\r\n", b"more"]).outcome, Outcome::Closes);
}

#[test]
fn a_lone_zero_stalls_a_poll_store_of_any_release() {
    for release in Release::ALL {
        let v = verdict(&Server::new(*release, Backend::Poll), &[b"\0"]);
        assert_eq!((v.outcome, v.blocks_server, v.allocates_bytes), (Outcome::Waits, true, None), "{release}");
    }
}

#[test]
fn a_small_claim_that_stalls_is_reported_with_its_size() {
    // nmap's afp probe: SET with a key of 65539 bytes.
    let v = verdict(
        &server(2, 1, Backend::Poll),
        &[b"\x00\x03\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a"],
    );
    assert_eq!((v.outcome, v.allocates_bytes, v.blocks_server), (Outcome::Allocates, Some(65_539), true));
    assert_eq!(v.condition, None);
}

#[test]
fn a_connection_that_ended_behind_another_is_gone_when_its_kept_bytes_run_out() {
    let limits = Limits { queue_bytes: 64, ..Limits::default() };
    let server = server(2, 2, Backend::Poll);
    let mut store = Store::new(limits);
    let (late, holder) = (ConnectionId(0), ConnectionId(1));
    for connection in [late, holder] {
        step(&server, &mut store, connection, b"\x00\xce\xf7\x85\x3c");
    }
    // The holder sends the beginning of a request; behind it one of 64 bytes waits, and more than the queue holds.
    step(&server, &mut store, holder, b"\x01\0\0\0\0\0\0\0\0");
    let request = [&b"\x01"[..], &47u64.to_le_bytes(), &[b'k'; 47], &0u64.to_le_bytes(), &[0; 55]].concat();
    step(&server, &mut store, late, &request);
    hang_up(&server, &mut store, late);
    assert!(store.is_open(late));
    hang_up(&server, &mut store, holder);
    assert!(!store.is_open(late) && !store.is_open(holder));
    assert_eq!(store.blocked_by(), None);
}
