//! `messages`: what clients said, in order, with what they were answered; and that nothing is left over.

mod wire;

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;
use wire::{Ends, Wire, lines, run, stdout, string};

/// Clean captures whose every store byte is a message's. Each entry is one set.
const CLEAN: [&[&str]; 12] = [
    &["api/store-api-1.4.0.pcap"],
    &["api/store-api-1.13.0.pcap"],
    &["api/store-api-2.1.2.pcap"],
    &["api/store-api-2.2.2.pcap"],
    &["api/store-api-2.15.0.pcap"],
    &["torchrun/node-a.pcap"],
    &["torchrun/node-b.pcap"],
    &[
        "torchrun/node-c-rot-20261129-112916.pcap",
        "torchrun/node-c-rot-20261129-112932.pcap",
        "torchrun/node-c-rot-20261129-112942.pcap",
        "torchrun/node-c-rot-20261129-112952.pcap",
        "torchrun/node-c-rot-20261129-113002.pcap",
    ],
    &["torchrun/elastic-1.9.0-loopback.pcap"],
    &["gloo/gloo-1.4.0.pcap"],
    &["gloo/gloo-1.8.0.pcap"],
    &["gloo/gloo-2.10.0.pcap"],
];

fn with<'a>(command: &'a str, flags: &[&'a str], files: &'a [String]) -> Vec<&'a str> {
    let mut all = vec![command];
    all.extend(flags);
    all.extend(files.iter().map(String::as_str));
    all
}

#[test]
fn no_byte_of_a_clean_capture_is_left_over() {
    for set in CLEAN {
        let files: Vec<String> = set.iter().map(|f| format!("testdata/{f}")).collect();
        assert_eq!(stdout(&with("messages", &["--undecoded"], &files), 0), "", "{set:?}");
        // Nothing left over because everything was read: the messages of each stream are as long as the stream.
        let mut told: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for m in lines(&stdout(&with("messages", &["--format", "jsonl"], &files), 0)) {
            let flow = m["flow_number"].as_u64().unwrap();
            let direction = m["direction"].as_str().unwrap().to_string();
            *told.entry((flow, direction)).or_default() += m["length"].as_u64().unwrap();
            let answer = m["answered"]["length"].as_u64().unwrap_or(0);
            *told.entry((flow, "to-client".to_string())).or_default() += answer;
        }
        told.retain(|_, n| *n > 0);
        let mut carried = BTreeMap::new();
        let flows: serde_json::Value =
            serde_json::from_str(&stdout(&with("streams", &["--all", "--format", "json"], &files), 0)).unwrap();
        for flow in flows["flows"].as_array().unwrap().iter().filter(|f| f["protocol"] != "none") {
            for s in flow["streams"].as_array().unwrap() {
                let key = (flow["number"].as_u64().unwrap(), s["direction"].as_str().unwrap().to_string());
                carried.insert(key, s["length"].as_u64().unwrap());
            }
        }
        assert!(carried.len() >= 4, "{set:?}: {carried:?}");
        assert_eq!(told, carried, "{set:?}");
    }
}

/// `calls-*.txt`: query, first key, value length and answer of every call, read from the payload bytes that tshark
/// prints, by a decoder of a hundred lines that shares nothing with this program.
#[test]
fn calls_are_told_in_order_with_their_answers() {
    for version in ["1.4.0", "1.13.0", "2.1.2", "2.2.2", "2.15.0"] {
        let file = format!("testdata/api/store-api-{version}.pcap");
        let told: Vec<String> = lines(&stdout(&["messages", "--format", "jsonl", &file], 0))
            .iter()
            .map(|m| {
                let text = |k: &str| m[k].as_str().unwrap_or("-").to_string();
                let value = m["value_bytes"].as_u64().map_or("-".to_string(), |n| n.to_string());
                let mut answer = text("answer");
                if matches!(answer.as_str(), "number" | "element" | "list") {
                    answer = format!("{answer} {}", m["answered"]["number"]);
                }
                format!("{} {} {value} {answer}", text("query"), text("key"))
            })
            .collect();
        let listed = std::fs::read_to_string(format!("tests/messages/calls-{version}.txt")).unwrap();
        assert_eq!(told, listed.lines().collect::<Vec<_>>(), "{version}");
    }
}

#[test]
fn the_rotated_files_of_one_capture_are_one_stream() {
    let files: Vec<String> = CLEAN[7].iter().map(|f| format!("testdata/{f}")).collect();
    let all = lines(&stdout(&with("messages", &["--format", "jsonl"], &files), 0));
    let captures: std::collections::BTreeSet<_> = all.iter().map(|m| m["capture"].to_string()).collect();
    assert!(captures.len() >= 3, "{captures:?}");
    let times: Vec<_> = all.iter().map(|m| m["time"].as_str().unwrap().to_string()).collect();
    assert!(times.is_sorted());
    // A request in one file is matched to its answer in the next; every key's purpose is known by its grammar.
    assert!(all.iter().any(|m| m["purpose"] == "elastic rendezvous state"));
    let waits = all.iter().filter(|m| m["query"] == "GET");
    assert!(waits.clone().count() > 10 && waits.clone().all(|m| m["answer"] == "value"));
}

#[test]
fn the_workers_own_store_is_read_on_its_ephemeral_port() {
    let told = stdout(&["messages", "--port", "33281", "--format", "jsonl", "testdata/torchrun/node-a.pcap"], 0);
    let told = lines(&told);
    assert!(told.len() > 50 && told.iter().all(|m| m["flow"].as_str().unwrap().ends_with("192.0.2.11:33281")));
    assert!(told.iter().any(|m| m["purpose"] == "Gloo address"));
}

#[test]
fn a_claim_that_never_ended_is_told_as_such() {
    let args = ["messages", "--host", "192.0.2.250", "--query", "add", "--format", "jsonl"];
    let told = lines(&stdout(&[&args[..], &["testdata/incident-torch1.13/node-a.pcap"]].concat(), 0));
    let told: Vec<_> = told.iter().map(|m| (m["packet"].as_u64(), m["unfinished"]["declared"].as_u64())).collect();
    assert_eq!(told, [(Some(411), Some(962_696_183_808))]);
}

#[test]
fn lines_are_narrow_and_values_hidden() {
    for set in CLEAN {
        let files: Vec<String> = set.iter().map(|f| format!("testdata/{f}")).collect();
        for line in stdout(&with("messages", &[], &files), 0).lines() {
            assert!(line.width() <= 100, "{} columns: {line}", line.width());
        }
    }
    let file = "testdata/api/store-api-2.1.2.pcap";
    let hidden = stdout(&["messages", "-x", file], 0);
    assert!(hidden.contains("key length") && hidden.contains("7 bytes not shown") && !hidden.contains("value-1"));
    for form in ["table", "jsonl"] {
        assert!(!stdout(&["messages", "-x", "--format", form, file], 0).contains("76616c75652d31"));
    }
    let shown = stdout(&["messages", "-x", "--show-values", "--query", "COMPARE_SET", file], 0);
    assert!(shown.contains("76 61 6c 75 65 2d 31") && shown.contains("value-1"), "{shown}");
}

/// A store's client of PyTorch 2.1: ADD init/, answered.
fn joined(wire: &mut Wire, ends: Ends) -> (u32, u32) {
    let join = [&[3][..], &string(b"init/"), &1u64.to_le_bytes()].concat();
    wire.handshake(ends);
    wire.client(ends, 0, &join);
    wire.server(ends, 0, &1u64.to_le_bytes());
    (join.len() as u32, 8)
}

#[test]
fn what_no_message_accounts_for_is_told_and_flagged() {
    let directory = tempfile::tempdir().unwrap();
    let ends = Ends((12, 40_000), (11, 29_500));
    let mut wire = Wire::new();
    let (c, s) = joined(&mut wire, ends);
    // A hole in the middle of the client's stream; what follows begins with bytes that are no message.
    let set = [&[0][..], &string(b"/k"), &string(b"v")].concat();
    wire.client(ends, c + 50, &[&[0xee; 5][..], &set].concat());
    wire.server(ends, s, b"??");
    let file = wire.save(directory.path(), "hole.pcap");
    let file = file.to_str().unwrap();
    let told = lines(&stdout(&["messages", "--undecoded", "--format", "jsonl", file], 1));
    let told: Vec<_> =
        told.iter().map(|m| (m["direction"].as_str().unwrap(), &m["stream_offset"], &m["length"])).collect();
    let at = |n: u32| serde_json::json!(n);
    assert_eq!(told, [("to-server", &at(c + 50), &at(5)), ("to-client", &at(s), &at(2))]);
    assert!(stdout(&["messages", "--undecoded", file], 1).contains("192.0.2.12:40000-192.0.2.11:29500  to-server"));
    assert_eq!(stdout(&["messages", file], 0).lines().count(), 3);
}

#[test]
fn a_stream_joined_in_the_middle_counts_from_its_first_message() {
    let directory = tempfile::tempdir().unwrap();
    let ends = Ends((12, 40_000), (11, 29_500));
    let mut wire = Wire::new();
    wire.client(ends, 0, b"the end of a value that began before the capture");
    for i in 0..4u32 {
        let add = [&[3][..], &string(b"/counter"), &1u64.to_le_bytes()].concat();
        wire.client(ends, 48 + i * add.len() as u32, &add);
        wire.server(ends, i * 8, &u64::from(i).to_le_bytes());
    }
    let file = wire.save(directory.path(), "middle.pcap");
    let file = file.to_str().unwrap();
    let told = lines(&stdout(&["messages", "--format", "jsonl", file], 0));
    let told: Vec<_> = told.iter().map(|m| (m["stream_offset"].as_u64().unwrap(), m["answer"].as_str())).collect();
    assert_eq!(told, [48, 73, 98, 123].map(|at| (at, Some("number"))));
    assert_eq!(stdout(&["messages", "--undecoded", file], 0), "");
}

#[test]
fn strays_are_no_recognised_streams() {
    for node in ["a", "b", "c"] {
        assert_eq!(
            stdout(&["messages", "--undecoded", &format!("testdata/survivors-torch2.15/node-{node}.pcap")], 0),
            ""
        );
        assert_eq!(
            stdout(&["messages", "--undecoded", &format!("testdata/incident-torch1.13/node-{node}.pcap")], 0),
            ""
        );
    }
    // A client of another version is a store's client, and the store never understood it.
    let told = stdout(&["messages", "--undecoded", "testdata/other-strangers/client2.2-on-store1.13.pcap"], 1);
    assert!(told.contains("to-server  offset 0  27 bytes"), "{told}");
}

#[test]
fn nothing_from_the_wire_reaches_the_terminal_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let ends = Ends((12, 40_000), (11, 29_500));
    let mut wire = Wire::new();
    let (c, _) = joined(&mut wire, ends);
    let evil = "/\x1b[2J\r\n\u{202e}key\u{7}";
    wire.client(ends, c, &[&[0][..], &string(evil.as_bytes()), &string(evil.as_bytes())].concat());
    let file = wire.save(directory.path(), "evil.pcap");
    for flags in [&["messages", "-x", "--show-values"][..], &["messages", "--format", "jsonl", "--show-values"]] {
        let out = stdout(&[flags, &[file.to_str().unwrap()]].concat(), 0);
        assert!(out.contains("[2J") && out.contains("u{202e}key"), "{out}");
        assert!(!out.chars().any(|c| c != '\n' && rdzvscope::api::report::escape::is_unsafe(c)), "{out:?}");
    }
    let followed = stdout(&["streams", "--follow", "1", file.to_str().unwrap()], 0);
    assert!(!followed.chars().any(|c| c != '\n' && rdzvscope::api::report::escape::is_unsafe(c)), "{followed:?}");
}

#[test]
fn trouble_is_said() {
    assert_eq!(run(&["messages", "testdata/none.pcap"]).status.code(), Some(2));
    assert_eq!(run(&["messages", "testdata/hosts"]).status.code(), Some(2));
    let unknown = run(&["messages", "--host", "node-z", "testdata/api/store-api-1.4.0.pcap"]);
    assert!(unknown.status.code() == Some(2) && String::from_utf8_lossy(&unknown.stderr).contains("--hosts"));
    assert_eq!(run(&["messages", "--query", "FETCH", "testdata/api/store-api-1.4.0.pcap"]).status.code(), Some(2));
}
