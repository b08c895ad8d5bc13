//! `streams`: which flows there are, their bytes in files and on the terminal.

mod wire;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use unicode_width::UnicodeWidthStr;
use wire::{Ends, FIN, Wire, lines, run, stdout};

const NODE_A: &str = "testdata/incident-torch1.13/node-a.pcap";

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn every_stream_is_a_file_with_its_hash() {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("new");
    let flag = into.to_str().unwrap();
    stdout(&["streams", NODE_A, "--host", "192.0.2.250", "--write", flag], 0);
    let index: serde_json::Value = serde_json::from_slice(&fs::read(into.join("index.json")).unwrap()).unwrap();
    let streams = index["streams"].as_array().unwrap();
    assert_eq!(streams.len() + 1, fs::read_dir(&into).unwrap().count());
    assert!(streams.len() > 10);
    for s in streams {
        let bytes = fs::read(into.join(s["file"].as_str().unwrap())).unwrap();
        assert_eq!(
            (bytes.len() as u64, sha256(&bytes)),
            (s["length"].as_u64().unwrap(), s["sha256"].as_str().unwrap().into())
        );
    }
    let killing = streams.iter().find(|s| s["flow"] == 29).unwrap();
    let bytes = fs::read(into.join(killing["file"].as_str().unwrap())).unwrap();
    assert!(bytes.starts_with(&[3, 0, 0, 0x2a, 0x25, 0xe0]));
    // Nothing is ever overwritten.
    let again = run(&["streams", NODE_A, "--write", flag]);
    assert!(again.status.code() == Some(2) && String::from_utf8_lossy(&again.stderr).contains("empty"));
}

#[test]
fn a_flow_can_be_followed() {
    let raw = run(&["streams", NODE_A, "--follow", "29", "--as", "raw"]);
    assert_eq!((raw.status.code(), raw.stdout.len()), (Some(0), 42));
    let hex = stdout(&["streams", NODE_A, "--follow", "29", "--as", "hex"], 0);
    assert!(hex.contains("> offset 0, 42 bytes, packet 411, 2026-11-29T11:20:10.652448000Z"), "{hex}");
    assert!(hex.contains("00000000  03 00 00 2a 25 e0 00 00"), "{hex}");
    let text = stdout(&["streams", NODE_A, "--follow", "29"], 0);
    assert!(text.contains("Cookie: mstshash=nmap"), "{text}");
    let gone = run(&["streams", NODE_A, "--follow", "999"]);
    assert!(gone.status.code() == Some(2) && String::from_utf8_lossy(&gone.stderr).contains("there are 49"));
}

#[test]
fn flows_are_selected_by_listener_port_and_host() {
    let count = |flags: &[&str]| {
        let all: serde_json::Value =
            serde_json::from_str(&stdout(&[&["streams", NODE_A, "--format", "json"], flags].concat(), 0)).unwrap();
        all["flows"].as_array().unwrap().len()
    };
    let all = count(&["--all"]);
    assert_eq!(all, 49);
    assert!(count(&[]) < all && count(&[]) > count(&["--host", "192.0.2.250"]));
    assert_eq!(
        count(&["--all", "--host", "scanner", "--hosts", "testdata/hosts"]),
        count(&["--all", "--host", "192.0.2.250"])
    );
    assert_eq!(count(&["--port", "22,80"]), 2);
}

#[test]
fn the_table_is_narrow_and_says_what_flows_speak() {
    for file in [NODE_A, "testdata/scans/ipv6-version-scan.pcap", "testdata/nccl/2.26.2-real-4ranks-netsocket.pcap"] {
        let text = stdout(&["streams", "--all", file], 0);
        for line in text.lines() {
            assert!(line.width() <= 100, "{} columns: {line}", line.width());
        }
    }
    let text = stdout(&["streams", NODE_A], 0);
    assert!(text.contains("tcpstore B") && text.contains("HTTP"), "{text}");
    // The community id of 192.0.2.13:55080 and 192.0.2.11:29500, as tshark prints it.
    assert!(text.contains("1:Jh87B+LEkgZYf35KZYn8fe5YSqc="), "{text}");
}

#[test]
fn a_capture_can_come_through_a_pipe() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rdzvscope"))
        .args(["streams", "-", "--format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(NODE_A).unwrap()).unwrap();
    let out = child.wait_with_output().unwrap();
    let piped: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let read: serde_json::Value = serde_json::from_str(&stdout(&["streams", NODE_A, "--format", "json"], 0)).unwrap();
    assert_eq!(piped["flows"][0]["capture"], "standard input");
    assert_eq!(piped["flows"][3]["streams"], read["flows"][3]["streams"]);
    assert_eq!(piped["totals"], read["totals"]);
}

#[test]
fn packets_seen_twice_are_no_retransmissions() {
    let directory = tempfile::tempdir().unwrap();
    let ends = Ends((12, 40_000), (11, 29_500));
    let once = |twice: bool| {
        let mut wire = Wire::new();
        wire.handshake(ends);
        for i in 0..4 {
            let copy = wire.packets();
            wire.client(ends, i * 3, b"abc");
            if twice {
                wire.again(copy, |w| w.client(ends, i * 3, b"abc"));
            }
        }
        let path = wire.save(directory.path(), if twice { "twice.pcap" } else { "once.pcap" });
        let mut all = lines(&stdout(&["streams", "--all", "--format", "jsonl", path.to_str().unwrap()], 0));
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    let (once, twice) = (once(false), once(true));
    assert_eq!(once["sha256"], twice["sha256"]);
    assert_eq!((&once["duplicates"], &twice["duplicates"]), (&0.into(), &4.into()));
    assert_eq!((&twice["retransmitted_bytes"], &twice["conflicts"]), (&0.into(), &0.into()));
}

#[test]
fn memory_has_a_ceiling_and_what_is_given_up_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut wire = Wire::new();
    let ends = |i: u16| Ends((12, 10_000 + i), (11, 80));
    for i in 0..3000 {
        wire.handshake(ends(i));
        wire.client(ends(i), 0, b"GET / HTTP/1.1\r\n\r\n");
        if i % 2 == 0 {
            let Ends(c, s) = ends(i);
            wire.segment(c, s, 118, 500, FIN, b"");
            wire.segment(s, c, 500, 119, FIN, b"");
        }
    }
    wire.client(ends(1), 18, b"late");
    let path = wire.save(directory.path(), "many.pcap");
    let args = ["streams", "--all", "--format", "json", "--memory", "1M", path.to_str().unwrap()];
    let out = run(&args);
    let all: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let evicted = all["totals"]["evicted_flows"].as_u64().unwrap();
    assert!(evicted > 500 && String::from_utf8_lossy(&out.stderr).contains("memory limit"), "{}", all["totals"]);
    assert_eq!(out.stdout, run(&args).stdout, "the same input gives the same output");
}
