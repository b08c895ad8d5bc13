//! Whatever arrives: no panic, bounded memory, answers in proportion.

use proptest::collection::vec;
use proptest::prelude::*;
use rdzvscope::api::protocol::tcpstore::release::Release;
use rdzvscope::api::protocol::tcpstore::server::{
    Action, Backend, ConnectionId, Limits, Server, Store, hang_up, open, step, verdict,
};

fn servers() -> impl Strategy<Value = Server> {
    (0..Release::ALL.len(), any::<bool>()).prop_map(|(row, uv)| {
        let release = Release::ALL[row];
        let backend = if uv && release.has(Backend::Libuv) { Backend::Libuv } else { Backend::Poll };
        Server::new(release, backend)
    })
}

/// A byte string that gets somewhere: requests with small numbers, between noise.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![4 => 0u64..6, 1 => any::<u64>(), 1 => (0u32..63).prop_map(|s| 1 << s)];
    let piece = prop_oneof![
        3 => (0u8..20).prop_map(|b| vec![b]),
        4 => number.prop_map(|n| n.to_le_bytes().to_vec()),
        2 => vec(prop_oneof![Just(b'/'), Just(b'a'), Just(b'1')], 0..6),
        1 => vec(any::<u8>(), 0..40),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn segments() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    (any::<bool>(), vec((0u64..4, bytes()), 1..12)).prop_map(|(valid, mut all)| {
        if valid {
            let magic = vec![0x00, 0xce, 0xf7, 0x85, 0x3c];
            (0..4).rev().for_each(|c| all.insert(0, (c, magic.clone())));
        }
        all
    })
}

fn tight() -> Limits {
    Limits {
        value_bytes: 8,
        keys: 3,
        store_bytes: 64,
        pending_bytes: 300,
        request_bytes: 200,
        queue_bytes: 64,
        reply_bytes: 128,
        waits: 4,
        connections: 3,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_everything_is_bounded(server in servers(), all in segments(), small in any::<bool>()) {
        let limits = if small { tight() } else { Limits::default() };
        let mut store = Store::new(limits);
        for (connection, segment) in &all {
            let actions = step(&server, &mut store, ConnectionId(*connection), segment);
            let held: usize = actions.iter().map(|a| if let Action::Reply { bytes, .. } = a { bytes.len() } else { 0 }).sum();
            prop_assert!(held <= limits.reply_bytes);
            prop_assert!(store.held_bytes() <= limits.store_bytes && store.len() <= limits.keys);
            prop_assert!(store.pending_bytes() <= limits.pending_bytes);
        }
        for connection in 0..4 {
            hang_up(&server, &mut store, ConnectionId(connection));
        }
        // A poll server that was held up notices only now, so this is asked after the last has gone.
        for connection in 0..4 {
            prop_assert!(!store.is_open(ConnectionId(connection)));
        }
        prop_assert_eq!(store.blocked_by(), None);
    }

    #[test]
    fn a_poll_server_does_not_care_how_bytes_are_cut(bytes in bytes(), cut in 1usize..9, valid in any::<bool>()) {
        for release in Release::ALL {
            let server = Server::new(*release, Backend::Poll);
            let mut all = if valid { vec![0x00, 0xce, 0xf7, 0x85, 0x3c] } else { Vec::new() };
            all.extend_from_slice(&bytes);
            let whole = verdict(&server, &[&all]);
            let pieces: Vec<&[u8]> = all.chunks(cut).collect();
            let cut = verdict(&server, &pieces);
            prop_assert_eq!(whole.then, cut.then);
            prop_assert_eq!((whole.reply_bytes, whole.served), (cut.reply_bytes, cut.served));
        }
    }
}

#[test]
fn a_mebibyte_of_requests_costs_actions_and_bytes_in_proportion() {
    // GETNUMKEYS, CHECK of nothing, LIST_KEYS, WAIT for one missing key, by the ten thousand.
    let server = Server::new(Release::find(2, 15).unwrap(), Backend::Libuv);
    for unit in [&b"\x07"[..], b"\x05\0\0\0\0\0\0\0\0", b"\x11", b"\x06\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0z", b"\x0c"]
    {
        let mut store = Store::with_init();
        for key in 0..5000 {
            store = store.with(format!("/key{key}").as_bytes(), b"value");
        }
        let peer = ConnectionId(1);
        open(&server, &mut store, peer);
        step(&server, &mut store, peer, b"\x00\xce\xf7\x85\x3c");
        let bytes = unit.repeat((1 << 20) / unit.len());
        let actions = step(&server, &mut store, peer, &bytes);
        assert!(actions.len() <= bytes.len());
        assert!(store.is_open(peer));
    }
}
