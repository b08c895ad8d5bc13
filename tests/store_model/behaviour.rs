//! The behaviour suite: segments one after the other, exact replies, the state of the connection, whether others are served.

use std::collections::BTreeMap;

use rdzvscope::api::protocol::tcpstore::server::{Action, Backend, ConnectionId, How, Server, Store, open, step};

use super::{hex, load, sent, server, text, unhex};

const PEER: ConnectionId = ConnectionId(1);

/// What the server held when a case began.
///
/// The suite ran its cases against one living server, and some of them (not all are recorded) left traces; so `/k1` was not
/// always `v1`. The state is read off the replies themselves:
/// * from 2.1 on MULTI_GET answers `/k1` with zero bytes and ADD to it is refused: it is there, and empty;
/// * on 1.8 to 2.0 ADD to `/k1` answers 1: it is gone. On 1.9 and 2.0 the connection is closed after that answer, which is
///   what a watcher that left does to whoever changes its key;
/// * where GETNUMKEYS answers 3, one more key was there.
fn before(server: &Server, case: &str) -> Store {
    let (major, minor) = (server.release.major, server.release.minor);
    let mut store = Store::with_init();
    let gone = case == "add_non_numeric" && ((1, 8)..=(2, 0)).contains(&(major, minor));
    if !gone {
        store = store.with(b"/k1", if (major, minor) >= (2, 1) { b"" } else { b"v1" });
    }
    if gone && (major, minor) >= (1, 9) {
        store = store.with_gone_watcher(b"/k1");
    }
    let three = server.backend == Backend::Libuv || [(1, 8), (1, 9), (2, 1)].contains(&(major, minor));
    if three { store.with(b"/other", b"x") } else { store }
}

#[test]
fn every_case_on_every_recorded_server() {
    let mut differences = Vec::new();
    let mut agreed: BTreeMap<String, u32> = BTreeMap::new();
    let cases = load("store-behaviour.json");
    for case in cases.as_array().unwrap() {
        let name = format!("{}/{} {}", text(case, "pytorch"), text(case, "backend"), text(case, "case"));
        let server = server(text(case, "pytorch"), text(case, "backend"));
        let mut store = before(&server, text(case, "case"));
        open(&server, &mut store, PEER);
        let (mut reply, mut state) = (Vec::new(), "open");
        for segment in case["segments"].as_array().unwrap() {
            let actions = step(&server, &mut store, PEER, &unhex(segment.as_str().unwrap()));
            reply.extend(sent(&actions, PEER));
            for action in &actions {
                if let Action::Close { connection: PEER, how, .. } = action {
                    state = if *how == How::Reset { "reset" } else { "closed" };
                }
            }
        }
        let served = store.blocked_by().is_none();
        let was = (text(case, "reply").to_owned(), text(case, "state"), case["others_served"].as_bool().unwrap());
        let says = (hex(&reply), state, served);
        if says == was {
            *agreed.entry(format!("{}/{}", text(case, "pytorch"), text(case, "backend"))).or_default() += 1;
        } else {
            differences.push(format!("{name}: was {was:?}, model says {says:?}"));
        }
    }
    assert_eq!(cases.as_array().unwrap().len(), 356);
    super::assert_differences(&differences, &[], &format!("agreed: {agreed:#?}"));
}
