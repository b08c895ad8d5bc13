//! The results that `conformance/` keeps: the models still say what real releases did, the documents and the program tell of
//! them, and a model that is wrong in one number would be caught.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::command;
use rdzvscope::api::protocol::tcpstore::Operation;
use rdzvscope::api::protocol::tcpstore::release::Release;
use rdzvscope::api::protocol::tcpstore::server::{Action, Backend, ConnectionId, How, Server, Store, open, step};
use serde_json::Value;

const PEER: ConnectionId = ConnectionId(1);
const MAGIC: &str = "00cef7853c";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn results(product: &str) -> Vec<Value> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root().join("conformance/results")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let all = files.iter().map(|f| serde_json::from_slice::<Value>(&std::fs::read(f).unwrap()).unwrap());
    all.filter(|r| r["product"] == product).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
}

/// What the model answers to a case: reply in hex, state, whether others are served. `exchanged`: two query types that this
/// model takes for each other.
fn model(server: &Server, case: &Value, exchanged: Option<(u8, u8)>) -> (String, &'static str, bool) {
    let release = server.release;
    let mut store = if (release.major, release.minor) < (1, 9) { Store::with_init() } else { Store::default() };
    store = store.with(b"/k1", b"v1");
    open(server, &mut store, PEER);
    let (mut reply, mut state) = (Vec::new(), "open");
    for segment in case["segments"].as_str().unwrap().split(',').filter(|s| !s.is_empty()) {
        if state != "open" {
            break;
        }
        let mut bytes = unhex(segment);
        if let (Some((a, b)), true, Some(first)) = (exchanged, segment != MAGIC, bytes.first_mut()) {
            *first = if *first == a {
                b
            } else if *first == b {
                a
            } else {
                *first
            };
        }
        for action in step(server, &mut store, PEER, &bytes) {
            match action {
                Action::Reply { connection: PEER, bytes, .. } => reply.extend(bytes),
                Action::Close { connection: PEER, how, .. } => {
                    state = if how == How::Reset { "reset" } else { "closed" }
                }
                _ => {}
            }
        }
    }
    let hex = reply.iter().map(|b| format!("{b:02x}")).collect();
    (hex, state, store.blocked_by().is_none())
}

/// Names of the cases in which the model answers otherwise than the server that was run.
fn differences(server: &Server, cases: &[Value], exchanged: Option<(u8, u8)>) -> Vec<String> {
    let recorded = |c: &Value| {
        let (reply, state) = (c["reply"].as_str().unwrap().to_owned(), c["state"].as_str().unwrap().to_owned());
        (reply, state, c["others_served"].as_bool().unwrap())
    };
    let says = |c: &Value| {
        let (reply, state, served) = model(server, c, exchanged);
        (reply, state.to_owned(), served)
    };
    // The names of LIST_KEYS come in the order of a hash table.
    let listing = |c: &Value| c["case"] == "type 17";
    cases.iter().filter(|c| !listing(c) && says(c) != recorded(c)).map(|c| c["case"].to_string()).collect()
}

#[test]
fn the_models_still_say_what_was_recorded_and_one_exchanged_number_is_caught() {
    let mut tried = 0;
    for result in results("pytorch") {
        let release = Release::parse(result["release"].as_str().unwrap()).unwrap();
        for recorded in result["servers"].as_array().unwrap() {
            let backend = if recorded["backend"] == "poll" { Backend::Poll } else { Backend::Libuv };
            let server = Server::new(release, backend);
            let cases: Vec<Value> = recorded["cases"].as_array().unwrap().clone();
            let known = result["differences"].as_array().unwrap();
            let found = differences(&server, &cases, None);
            let told =
                |name: &String| known.iter().any(|k| k["what"].as_str().unwrap().contains(name.trim_matches('"')));
            assert!(found.iter().all(told), "{release}/{}: {found:?}", backend.name());
            // Any two neighbouring query types of this release, taken for each other. The first of D is the magic number's.
            let asks = |byte: u8| release.operation(backend, byte);
            for byte in u8::from(release.dialect.validates())..release.highest {
                // Of an empty queue QUEUE_POP and QUEUE_LEN say the same; the session of the real client tells them apart.
                let alike = (asks(byte), asks(byte + 1)) == (Some(Operation::QueuePop), Some(Operation::QueueLen));
                if asks(byte).is_none() && asks(byte + 1).is_none() || alike {
                    continue;
                }
                let wrong = differences(&server, &cases, Some((byte, byte + 1)));
                assert!(wrong.len() > found.len(), "{release}/{}: {byte} and {} exchanged", backend.name(), byte + 1);
                tried += 1;
            }
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn documents_and_program_tell_of_every_result() {
    let python = |what: &str| {
        let script =
            format!("import sys; sys.path.insert(0, 'conformance'); import table; sys.stdout.write(table.{what}())");
        let out = Command::new("python3").args(["-c", &script]).current_dir(root()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let read = |p: &str| std::fs::read_to_string(root().join(p)).unwrap();
    assert!(read("docs/protocols.md").contains(&python("table")), "make conformance-table makes it anew");
    assert_eq!(read("conformance/checked.tsv"), python("checked"), "make conformance-table makes it anew");
    let mut said: Option<String> = None;
    for flags in [["--version", "--verbose"], ["-v", "-V"]] {
        let out = command().args(flags).output().unwrap();
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(said.is_none_or(|s| s == text));
        said = Some(text);
    }
    let said = said.unwrap();
    for (product, name) in [("pytorch", "PyTorch"), ("nccl", "NCCL")] {
        let all = results(product);
        assert!(!all.is_empty());
        for r in all {
            let (release, date) = (r["release"].as_str().unwrap(), r["date"].as_str().unwrap());
            let line = said.lines().find(|l| l.split_whitespace().take(2).eq([name, release]));
            assert!(line.is_some_and(|l| l.contains(date)), "{name} {release}: {said}");
        }
    }
}

fn analyze(capture: &Path) -> Value {
    let out = command().args(["analyze", "--format", "json", "--exit-zero"]).arg(capture).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A poll store, its decoy, a libuv store and its decoy, each given the whole API of the real client of 2.15.0.
#[test]
fn an_honest_clients_answers_do_not_tell_a_poll_store_for_a_libuv_store() {
    let report = analyze(&root().join("testdata/conformance/session-2.15.0.pcap.zst"));
    let mut stores: BTreeMap<&str, &Value> = BTreeMap::new();
    for l in report["listeners"].as_array().unwrap() {
        stores.insert(l["first_seen"].as_str().unwrap(), l);
    }
    assert_eq!(stores.len(), 4);
    let backends: Vec<&Value> = stores.values().map(|l| &l["backend"]).collect();
    assert!(backends[..2].iter().all(|b| b.is_null()), "nothing in these bytes tells: {backends:?}");
    // Queues are served by libuv alone.
    assert!(backends[2..].iter().all(|b| *b == "libuv"), "{backends:?}");
    for name in ["session", "torchrun"] {
        let capture = root().join(format!("testdata/conformance/{name}-2.15.0.pcap.zst"));
        let out = command().args(["messages", "--undecoded"]).arg(capture).output().unwrap();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 0), "{name}");
    }
}

#[test]
fn a_later_release_is_decoded_as_the_newest_and_called_later() {
    let run = |arguments: &[&str]| {
        let out = command().args(arguments).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr))
    };
    let payload = ["prescan", "--payload", "0300000b06e0000000000000"];
    let (_, store) = run(&[&payload[..], &["--pytorch", "2.90.1"]].concat());
    assert!(store.contains("later than checked (2."), "{store}");
    let (_, nccl) = run(&[&payload[..], &["--nccl", "root:2.91"]].concat());
    assert!(nccl.contains("later than checked (2."), "{nccl}");
    let (_, known) = run(&[&payload[..], &["--pytorch", "2.15", "--nccl", "root:2.26"]].concat());
    assert!(!known.contains("later than checked"), "{known}");
    let (status, said) = run(&["prescan", "--pytorch", "3.1", "--payload", "00"]);
    assert!(status == Some(2) && said.contains("was required"), "{said}");
}
