//! The server model against what real servers did: recordings of many releases, replayed.
//!
//! `testdata/outcomes/README.md` says how each file was made. Nothing here is tolerated in silence: every difference is in a
//! list, with its cause, and a difference that vanishes fails too.

#[path = "store_model/behaviour.rs"]
mod behaviour;
#[path = "store_model/greetings.rs"]
mod greetings;
#[path = "store_model/nmap.rs"]
mod nmap;
#[path = "store_model/outcomes.rs"]
mod outcomes;
#[path = "store_model/properties.rs"]
mod properties;
#[path = "common/recorded.rs"]
mod recorded;
#[path = "common/skip.rs"]
mod skip;
#[path = "store_model/traces.rs"]
mod traces;

use rdzvscope::api::protocol::tcpstore::release::Release;
use rdzvscope::api::protocol::tcpstore::server::{Action, Backend, ConnectionId, Server};
use recorded::{hex, load, unhex};

fn text<'a>(value: &'a serde_json::Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no text {name} in {value}"))
}

fn server(version: &str, backend: &str) -> Server {
    let backend = if backend == "poll" { Backend::Poll } else { Backend::Libuv };
    Server::new(Release::parse(version).unwrap(), backend)
}

/// What went out to one connection.
fn sent(actions: &[Action], to: ConnectionId) -> Vec<u8> {
    let mut out = Vec::new();
    for action in actions {
        if let Action::Reply { connection, bytes, omitted } = action {
            assert_eq!(*omitted, 0);
            if *connection == to {
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

/// Fails unless the differences are exactly those that are known.
fn assert_differences(found: &[String], known: &[&str], table: &str) {
    let unexpected: Vec<_> = found.iter().filter(|f| !known.contains(&f.as_str())).collect();
    let vanished: Vec<_> = known.iter().filter(|k| !found.iter().any(|f| f == *k)).collect();
    assert!(
        unexpected.is_empty() && vanished.is_empty(),
        "unexpected: {unexpected:#?}\nvanished: {vanished:#?}\n{table}"
    );
}
