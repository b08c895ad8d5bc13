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
#[path = "store_model/traces.rs"]
mod traces;

use rdzvscope::api::protocol::tcpstore::release::Release;
use rdzvscope::api::protocol::tcpstore::server::{Action, Backend, ConnectionId, Server};

/// A recorded file.
fn load(name: &str) -> serde_json::Value {
    let path = format!("{}/testdata/outcomes/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()
}

fn text<'a>(value: &'a serde_json::Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no text {name} in {value}"))
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
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
