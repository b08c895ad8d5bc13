//! Crowds, slow senders, huge claims, noise: bounds hold, and what is said of each is right.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;

use super::{Stage, answer, exactly, send};

const CLAIM: &[u8] = b"\x03\0\0\x0b\x06\xe0\0\0\0\0\0";

/// The binary, and where it listens.
pub(super) fn start(arguments: &[&str]) -> (Child, Vec<String>, BufReader<std::process::ChildStdout>) {
    let mut command = Command::cargo_bin("rdzvscope").unwrap();
    let mut child = command.arg("decoy").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let listeners = arguments.iter().filter(|a| **a == "--listen").count();
    let mut addresses = Vec::new();
    for _ in 0..listeners {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        addresses.push(line["listen"].as_str().unwrap().to_owned());
    }
    (child, addresses, out)
}

pub(super) fn lines(out: BufReader<std::process::ChildStdout>) -> Vec<Value> {
    out.lines().map(|l| serde_json::from_str(&l.unwrap()).unwrap()).collect()
}

/// Peak resident memory, in kB; 0 where there is no /proc.
pub(super) fn peak(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

#[test]
fn a_killing_claim_is_reported_and_recorded_and_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let capture = directory.path().join("d.pcapng");
    let capture = capture.to_str().unwrap();
    let arguments =
        ["--as", "tcpstore:1.13", "--listen", "0", "--connections", "3", "--for", "30", "--record", capture];
    let (mut child, addresses, out) = start(&arguments);
    let connect = || TcpStream::connect(&addresses[0]).unwrap();
    let mut web = connect();
    send(&mut web, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(answer(&mut web, Duration::from_secs(2)), (vec![], "reset"));
    let mut scanner = connect();
    send(&mut scanner, CLAIM);
    assert_eq!(answer(&mut scanner, Duration::from_millis(100)), (vec![], "open"));
    // While the claim is held, nobody is served.
    let mut worker = connect();
    send(&mut worker, b"\x02\x05\0\0\0\0\0\0\0init/");
    assert_eq!(answer(&mut worker, Duration::from_millis(100)), (vec![], "open"));
    let memory = peak(&child);
    drop(scanner);
    assert_eq!(answer(&mut worker, Duration::from_millis(500)), (b"\x01\0\0\0\0\0\0\x001".to_vec(), "open"));
    drop(worker);
    let said = lines(out);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(memory < 64 << 10, "{memory} kB");
    let kills: Vec<&Value> = said.iter().filter(|l| l["kills"] == true).collect();
    assert_eq!(kills.len(), 1, "{said:#?}");
    assert_eq!(kills[0]["allocates_bytes"], 962_174_058_496u64);
    assert_eq!((&kills[0]["nmap_probe"], &kills[0]["ended"]), (&"TerminalServer".into(), &"client-close".into()));
    let summary = said.last().unwrap();
    assert_eq!(
        (&summary["type"], &summary["connections"], &summary["kills"]),
        (&"summary".into(), &3.into(), &1.into())
    );
    // Our own reader finds in the recording what was sent, whole.
    let mut command = Command::cargo_bin("rdzvscope").unwrap();
    let streams = command.args(["streams", capture, "--all", "--format", "jsonl"]).output().unwrap();
    let streams: Vec<Value> =
        String::from_utf8(streams.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let lengths: Vec<u64> = streams.iter().map(|s| s["length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, [18, 11, 14, 9], "{streams:#?}");
    assert!(streams.iter().all(|s| s["gap_bytes"] == 0));
}

#[test]
fn a_crowd_with_huge_claims_stays_within_bounds() {
    let parts = ["tcpstore:1.13", "tcpstore:2.15/libuv", "tcpstore:2.15/poll", "nccl-root:2.26"];
    let mut arguments = vec!["--for", "60", "--max-open", "300"];
    for part in parts {
        arguments.extend(["--as", part, "--listen", "0"]);
    }
    let (mut child, addresses, out) = start(&arguments);
    let payloads: [&[u8]; 5] = [CLAIM, b"\0", b"\0\xce\xf7\x85\x3c\x01\xff\xff\xff\xff\xff\0\0\0", b"GET ", b""];
    let mut crowd = Vec::new();
    for i in 0..400 {
        let mut stream = TcpStream::connect(&addresses[i % 4]).unwrap();
        send(&mut stream, payloads[i % 5]);
        crowd.push(stream);
    }
    // Slow senders: one byte at a time. The noise goes to closed connections too.
    for round in 0..5u8 {
        for stream in crowd.iter_mut().step_by(3) {
            send(stream, &[round.wrapping_mul(37)]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let noise: Vec<u8> = (0..1u32 << 18).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for address in &addresses {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        send(&mut stream, &noise);
    }
    std::thread::sleep(Duration::from_millis(300));
    let memory = peak(&child);
    assert!(memory < 100 << 10, "{memory} kB");
    assert!(child.try_wait().unwrap().is_none(), "it is still there");
    drop(crowd);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let said = lines(out);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let summary = said.last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert!(summary["connections"].as_u64().unwrap() >= 400, "{summary}");
    assert!(summary["most_open"].as_u64().unwrap() <= 300 && summary["kills"].as_u64().unwrap() > 10, "{summary}");
    assert_eq!(said.len() as u64, summary["connections"].as_u64().unwrap() + 1);
}

/// A client gets back what another stored, whole, and what was sent first is done first. (Real clients found both.)
#[test]
fn what_was_stored_comes_back_whole_and_in_order() {
    let string = |b: &[u8]| [&(b.len() as u64).to_le_bytes(), b].concat();
    let stage = Stage::new("tcpstore:2.1", true);
    let (mut writer, mut reader) = (stage.connect(), stage.connect());
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 7) as u8).collect();
    assert!(send(&mut writer, &[&[0][..], &string(b"/large"), &string(&large)].concat()));
    // An answered request after it: all of it has arrived.
    assert!(send(&mut writer, &[&[4][..], &1u64.to_le_bytes(), &string(b"/large")].concat()));
    assert_eq!(exactly(&mut writer, 1), [0]);
    assert!(send(&mut reader, &[&[2][..], &string(b"/large")].concat()));
    assert!(exactly(&mut reader, 8 + large.len()) == string(&large));
    for i in 0..2000u32 {
        let value = i.to_le_bytes();
        assert!(send(&mut writer, &[&[0][..], &string(b"/k"), &string(&value)].concat()));
        assert!(send(&mut reader, &[&[4][..], &1u64.to_le_bytes(), &string(b"/k")].concat()));
        let ready = exactly(&mut reader, 1);
        assert!(send(&mut reader, &[&[2][..], &string(b"/k")].concat()));
        if i > 0 || ready == [0] {
            assert_eq!(exactly(&mut reader, 12), string(&value), "{i}");
        }
    }
    stage.end();
}

/// The ten minutes of tools/decoy-load.py, in ten seconds.
#[test]
fn a_thousand_clients_of_every_bad_kind_for_ten_seconds() {
    let binary = Command::cargo_bin("rdzvscope").unwrap().get_program().to_owned();
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/decoy-load.py");
    let output = Command::new("python3").arg(tool).arg(binary).args(["10", "1000"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let summary = said.lines().find_map(|l| l.strip_prefix("summary: ")).unwrap();
    let summary: Value = serde_json::from_str(summary).unwrap();
    assert!(summary["most_open"].as_u64() >= Some(900) && summary["kills"].as_u64() > Some(100), "{summary}");
    assert_eq!(summary["largest_claim_bytes"], 1u64 << 40);
}

#[test]
fn a_root_dies_of_a_stranger_that_closes_and_closes_wrong_magics_by_reset() {
    for (part, dies) in [("nccl-root:2.26", true), ("nccl-root:2.27.3", false)] {
        let stage = Stage::new(part, false);
        let mut web = stage.connect();
        send(&mut web, b"GET / HTTP/1.0\r\n\r\n");
        assert_eq!(answer(&mut web, Duration::from_secs(2)), (vec![], "reset"), "{part}");
        // Eight bytes are all read: a normal close.
        let mut eight = stage.connect();
        send(&mut eight, b"GET / HT");
        assert_eq!(answer(&mut eight, Duration::from_secs(2)), (vec![], "closed"), "{part}");
        drop(stage.connect());
        std::thread::sleep(Duration::from_millis(200));
        let (summary, entries) = stage.end();
        assert_eq!((summary.deaths, summary.kills), (u64::from(dies), u64::from(dies)), "{part} {entries:#?}");
    }
}

#[test]
fn nobody_came_is_trouble() {
    let (mut child, _, out) = start(&["--as", "tcpstore:2.15", "--listen", "0", "--for", "0.2"]);
    assert_eq!(lines(out).len(), 1);
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
