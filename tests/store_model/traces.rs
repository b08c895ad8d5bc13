//! Twenty conversations of a real client with a real server: the client's bytes in, the server's bytes out.

use std::collections::BTreeMap;

use rdzvscope::api::protocol::tcpstore::server::{Action, ConnectionId, Store, hang_up, open, step};

use super::recorded::{LIST_KEYS, had_joined, hex, load, sorted_names, unhex};
use super::server;

#[test]
fn every_reply_of_every_conversation() {
    let traces = load("store-traces.json");
    assert_eq!(traces.as_object().unwrap().len(), 20);
    for (name, trace) in traces.as_object().unwrap() {
        let (version, backend) = name.split_once('/').unwrap();
        let server = server(version, backend);
        let mut store = if had_joined(version) { Store::with_init() } else { Store::default() };
        let mut expected: BTreeMap<ConnectionId, Vec<u8>> = BTreeMap::new();
        let mut received: BTreeMap<ConnectionId, Vec<u8>> = BTreeMap::new();
        let (mut closes, mut closed) = (0, 0);
        let mut listing = None;
        for event in trace["events"].as_array().unwrap() {
            let who = event[0].as_str().unwrap();
            let id = ConnectionId(who[1..].parse().unwrap());
            let bytes = unhex(event[2].as_str().unwrap());
            let actions = match (&who[..1], event[1].as_str().unwrap()) {
                ("c", "OPEN") => {
                    open(&server, &mut store, id);
                    Vec::new()
                }
                ("c", "DATA") => {
                    let actions = step(&server, &mut store, id, &bytes);
                    if bytes == [LIST_KEYS] {
                        let Action::Reply { bytes, .. } = &actions[0] else { panic!("{name}: {actions:?}") };
                        listing = Some(sorted_names(bytes));
                        continue;
                    }
                    actions
                }
                ("c", "CLOSE") => hang_up(&server, &mut store, id),
                ("s", "DATA") => {
                    match listing.take() {
                        Some(names) => assert_eq!(names, sorted_names(&bytes), "{name}"),
                        None => expected.entry(id).or_default().extend(bytes),
                    }
                    continue;
                }
                ("s", "CLOSE") => {
                    closes += 1;
                    assert!(!store.is_open(id), "{name}: the server closed");
                    continue;
                }
                other => panic!("{other:?}"),
            };
            for action in actions {
                match action {
                    Action::Reply { connection, bytes, .. } => received.entry(connection).or_default().extend(bytes),
                    Action::Close { .. } if store.is_open(id) || event[1] == "DATA" => closed += 1,
                    _ => {}
                }
            }
        }
        for (id, bytes) in &expected {
            assert_eq!(hex(bytes), hex(received.get(id).map_or(&[], |b| b)), "{name} {id:?}");
        }
        assert_eq!(expected.len(), received.len(), "{name}");
        assert_eq!(closes, closed, "{name}");
    }
}
