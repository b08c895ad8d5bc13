//! What other protocols say first, by dialect: a table made by another model, cross-checked with real servers.

use rdzvscope::api::protocol::tcpstore::Dialect;
use rdzvscope::api::protocol::tcpstore::server::{Backend, Outcome, Server, Store, Verdict, verdict_on};

use super::{load, text, unhex};

/// The table holds 16 bytes of each greeting. Where the verdict needs more, here is the rest; elsewhere zeros do.
const REST: &[(&str, &str)] = &[
    ("TCPStore >=2.2 client: VALIDATE+ADD init/", "69742f0100000000000000"),
    (
        "TCPStore >=2.2 client: VALIDATE+COMPARE_SET torch.rendezvous.job42 (elastic)",
        "6f7263682e72656e64657a766f75732e6a6f62343200000000000000000c0000000000000059324675615731685a474674",
    ),
    ("TCPStore 1.9-2.1 client: ADD init/", "000000000000"),
    ("TCPStore 1.4-1.8 client: ADD init/", "000000000000"),
];

/// The table's word for a verdict.
fn word(server: &Server, v: &Verdict, length: u64) -> &'static str {
    match (v.then, server.backend) {
        (Outcome::Closes, _) => "closed",
        _ if length == 0 => "idle",
        (_, Backend::Libuv) if v.served == 0 => "ignored-open",
        (_, Backend::Libuv) => "accepted",
        _ if v.blocks_server => "blocks",
        _ => "processed",
    }
}

#[test]
fn every_greeting_in_every_column() {
    let mut differences = Vec::new();
    let table = load("greetings.json");
    assert_eq!(table.as_array().unwrap().len(), 59);
    for greeting in table.as_array().unwrap() {
        let name = text(greeting, "name");
        let length = greeting["length"].as_u64().unwrap();
        let mut bytes = unhex(text(greeting, "first_bytes"));
        if let Some((_, rest)) = REST.iter().find(|(n, _)| *n == name) {
            bytes.extend(unhex(rest));
            assert_eq!(bytes.len() as u64, length, "{name}");
        }
        bytes.resize(length as usize, 0);
        let segments: &[&[u8]] = if bytes.is_empty() { &[] } else { &[&bytes] };
        for (label, server) in Dialect::ALL.iter().flat_map(|d| Server::of_dialect(*d)) {
            let column = &greeting["dialects"][if label == "D-libuv" { "D-uv" } else { label }];
            // The table's model held no key, not even `init/`.
            let verdict = verdict_on(&server, Store::default(), segments);
            let says = word(&server, &verdict, length);
            let was = text(column, "verdict");
            if says != was {
                differences.push(format!("{name} {label}: was {was}, model says {says}"));
            }
            // The table also counts containers whose data had arrived (5 bytes of `init/`); those are no claim.
            let claimed = column["allocates_bytes"].as_u64().filter(|bytes| *bytes > 100);
            let ours = verdict.allocates_bytes.filter(|_| verdict.outcome == Outcome::Allocates);
            if claimed != ours {
                differences.push(format!("{name} {label}: was {claimed:?} bytes, model says {ours:?}"));
            }
        }
    }
    super::assert_differences(&differences, &[], "");
}

#[test]
fn an_old_clients_add_stalls_a_newer_store_that_counts_workers() {
    // GET init/ is answered, and what is left over starts a COMPARE_SET.
    let bytes = unhex("020500000000000000696e69742f0100000000000000");
    for dialect in [Dialect::B, Dialect::C] {
        let (_, server) = Server::of_dialect(dialect).remove(0);
        let verdict = verdict_on(&server, Store::with_init(), &[&bytes]);
        assert_eq!((verdict.outcome, verdict.blocks_server), (Outcome::Replies, true));
    }
}
