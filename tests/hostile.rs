//! What attackers leave in captures and logs: the analysis stays right, and its time grows as its input does.

mod common;
mod wire;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use common::{Run, analyze, command};
use serde_json::Value;
use wire::{ACK, Ends, Wire, string};

/// What nmap's TerminalServerCookie declares as a length.
const CLAIM: [u8; 9] = [3, 0, 0, 0x2a, 0x25, 0xe0, 0, 0, 0];
const STORE: (u8, u16) = (11, 29500);
/// When the first packet of a [`Wire`] was sent, in seconds since 1970.
const START: u64 = 1_795_951_210;
const ATTACKER: Ends = Ends((250, 6000), STORE);

/// A client of PyTorch 1.9-2.1 that is answered, so that the listener is a store's.
fn honest(wire: &mut Wire, store: (u8, u16)) {
    let ends = Ends((1, 4000), store);
    let requests = [
        ([&[3][..], &string(b"init/"), &1u64.to_le_bytes()].concat(), 1u64.to_le_bytes().to_vec()),
        ([&[0][..], &string(b"/k"), &string(b"v"), &[2], &string(b"/k")].concat(), string(b"v")),
    ];
    wire.handshake(ends);
    let (mut sent, mut answered) = (0, 0);
    for (request, answer) in requests {
        wire.client(ends, sent, &request);
        wire.server(ends, answered, &answer);
        (sent, answered) = (sent + request.len() as u32, answered + answer.len() as u32);
    }
}

fn send(wire: &mut Wire, ends: Ends, payloads: &[Vec<u8>]) {
    wire.handshake(ends);
    let mut offset = 0;
    for part in payloads.iter().flat_map(|p| p.chunks(1400)) {
        wire.client(ends, offset, part);
        offset += part.len() as u32;
        // Without it the window would be full soon.
        if part.len() == 1400 {
            wire.server(ends, 0, b"");
        }
    }
}

/// Packets of others for `seconds`, so that the capture goes on.
fn pass(wire: &mut Wire, seconds: u32) {
    for _ in 0..seconds {
        let at = wire.packets() + 999;
        wire.again(at, |w| w.segment((1, 1), (2, 2), 1, 1, ACK, b""));
        let at = wire.packets() + 1000;
        wire.again(at, |_| ());
    }
}

fn of_wire(wire: &Wire, more: &[&str]) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let path = wire.save(dir.path(), "x.pcap");
    let mut arguments = vec![path.to_str().unwrap().to_string()];
    arguments.extend(more.iter().map(|a| a.to_string()));
    analyze(&arguments)
}

/// What the program says, and how much of a processor it took, in seconds: its own, however busy the machine is.
fn costs(arguments: &[&str]) -> (Value, f64) {
    let program = command().get_program().to_owned();
    let timed = "\"$0\" \"$@\"; times >&2";
    let output = Command::new("sh").arg("-c").arg(timed).arg(program).args(arguments).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    // The last line has the time of the shell's children: user, system.
    let seconds = told.lines().last().unwrap().split_whitespace().map(|word| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    });
    (serde_json::from_slice(&output.stdout).unwrap(), seconds.sum())
}

/// Input of four times the size takes about four times as long; sixteen times would be quadratic.
fn in_proportion(one: f64, four: f64) {
    assert!(four < 9.0 * one.max(0.05), "four times the input took {four} s instead of {one} s");
}

fn save(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

fn kill(text: &mut String, host: &str, pid: u64, seconds: u64) {
    let time = chrono::DateTime::from_timestamp(seconds as i64, 0).unwrap().format("%Y-%m-%dT%H:%M:%S+00:00");
    let figures = "total-vm:941138648kB, anon-rss:1000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB";
    writeln!(text, "{time} {host} kernel: [1.0] Out of memory: Killed process {pid} (python) {figures}").unwrap();
}

#[test]
fn a_flood_of_probes_hides_no_trigger() {
    let mut wire = Wire::new();
    for port in 0..20 {
        send(&mut wire, Ends((250, 5000 + port), (99, 29500)), &[CLAIM.to_vec()]);
    }
    honest(&mut wire, STORE);
    send(&mut wire, ATTACKER, &[CLAIM.to_vec()]);
    let dir = tempfile::tempdir().unwrap();
    let mut log = String::new();
    kill(&mut log, "node-a", 1, START + 30);
    let log = save(dir.path(), "node-a.log", &log);
    let hosts = save(dir.path(), "hosts", "192.0.2.11 node-a\n");
    for max in ["1", "10", "1000"] {
        let run = of_wire(&wire, &["--oom", &log, "--hosts", &hosts, "--max-findings", max]);
        let trigger = run.trigger("node-a");
        assert_eq!((&trigger["rule"], &trigger["target"]["address"]), (&"store-claim".into(), &"192.0.2.11".into()));
        let kept = max.parse::<usize>().unwrap().clamp(1, 21);
        assert!(run.findings().len() >= kept.min(10), "{max}: {}", run.findings().len());
        // What is named is there.
        let ids: Vec<&Value> = run.findings().iter().map(|f| &f["id"]).collect();
        let named = run.json["scans"].as_array().unwrap().iter().flat_map(|s| s["findings"].as_array().unwrap());
        assert!(named.clone().count() > 0 || max == "1");
        assert!(named.into_iter().all(|id| ids.contains(&id)), "{max}");
    }
    let refused = common::command().args(["analyze", "-", "--max-findings", "0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("0 is not in 1.."));
}

#[test]
fn no_honest_bytes_hide_a_claim_behind_them() {
    let set = |key: String, value: usize| [&[0][..], &string(key.as_bytes()), &string(&vec![b'v'; value])].concat();
    let before: [Vec<Vec<u8>>; 5] = [
        vec![],
        vec![set("/k".into(), 1)],
        // More segments, more bytes, and more large lengths than are kept of a connection.
        (0..80).map(|i| set(format!("/k{i}"), 1)).collect(),
        vec![set("/k".into(), 8000)],
        (0..17).map(|i| set(format!("/k{i}"), 65_600)).collect(),
    ];
    for (i, mut payloads) in before.into_iter().enumerate() {
        let mut wire = Wire::new();
        honest(&mut wire, STORE);
        payloads.push(CLAIM.to_vec());
        send(&mut wire, ATTACKER, &payloads);
        pass(&mut wire, 5);
        let run = of_wire(&wire, &[]);
        let claims = run.of_rule("store-claim");
        assert_eq!(claims.len(), 1, "{i}: {:#?}", run.findings());
        let (f, offset) = (claims[0], payloads.iter().map(Vec::len).sum::<usize>() - CLAIM.len());
        assert_eq!((&f["severity"], &f["stream_offset"]), (&"critical".into(), &offset.into()), "{i}: {f:#}");
        assert_eq!(f["declared"]["bytes"], common::COOKIE_CLAIM, "{i}");
    }
}

#[test]
fn a_request_that_only_the_real_store_could_answer_hides_no_claim() {
    let mut wire = Wire::new();
    honest(&mut wire, STORE);
    let get = [&[2][..], &string(b"/k")].concat();
    send(&mut wire, ATTACKER, std::slice::from_ref(&get));
    wire.server(ATTACKER, 0, &string(b"v"));
    wire.client(ATTACKER, get.len() as u32, &CLAIM);
    pass(&mut wire, 5);
    let run = of_wire(&wire, &[]);
    assert_eq!(run.of_rule("store-claim").len(), 1, "{:#?}", run.findings());
}

#[test]
fn what_memory_made_the_analysis_forget_is_told() {
    let mut wire = Wire::new();
    honest(&mut wire, STORE);
    for port in 0..600 {
        let ends = Ends((250, 5000 + port), (99, 29500));
        wire.handshake(ends);
        wire.client(ends, 0, &[2]);
    }
    assert!(of_wire(&wire, &["--memory", "1M"]).notes().contains("Memory ran out"));
    assert!(!of_wire(&wire, &[]).notes().contains("Memory ran out"));
}

#[test]
fn connections_all_alike_are_kept_a_few_times_and_counted() {
    let flood = |count: u16| {
        let mut wire = Wire::new();
        honest(&mut wire, STORE);
        for i in 0..count {
            let ends = Ends((250, 5000 + i), STORE);
            send(&mut wire, ends, &[b"GET / HTTP/1.0\r\n\r\n".to_vec()]);
            wire.segment(STORE, ends.0, 500, 118, wire::FIN, b"");
            wire.segment(ends.0, STORE, 118, 501, wire::FIN, b"");
        }
        send(&mut wire, Ends((250, 4999), STORE), &[CLAIM.to_vec()]);
        pass(&mut wire, 5);
        of_wire(&wire, &[])
    };
    let run = flood(600);
    let strays: Vec<&Value> = run.findings().iter().filter(|f| f["stray"]["protocol"] == "HTTP").collect();
    let occurrences: u64 = strays.iter().map(|f| f["occurrences"].as_u64().unwrap()).sum();
    assert_eq!((strays.len(), occurrences), (256, 600), "{:#}", strays[0]);
    assert_eq!(strays[0]["occurrences"], 345);
    assert!(strays[0]["explanation"].as_str().unwrap().contains("344 more connections"), "{:#}", strays[0]);
    assert_eq!((&run.json["scans"][0]["connections"], &run.json["totals"]["flows"]), (&601.into(), &603.into()));
    assert_eq!(run.listener(("192.0.2.11", 29500))["connections"], 602);
    assert_eq!(run.of_rule("store-claim").len(), 1, "a claim among them is never one of many");
    // What is kept is what a smaller flood keeps: the earliest.
    let small = flood(256);
    let ids = |r: &Run| -> Vec<Value> {
        r.findings().iter().filter(|f| f["stray"]["protocol"] == "HTTP").map(|f| f["id"].clone()).collect()
    };
    assert_eq!(ids(&small), ids(&run));
}

#[test]
fn who_floods_pushes_out_his_own_connections() {
    let mut wire = Wire::new();
    honest(&mut wire, STORE);
    // A claim that comes in two parts, with a flood of open connections between them.
    let victim = Ends((249, 7000), STORE);
    wire.handshake(victim);
    wire.client(victim, 0, &CLAIM[..4]);
    for port in 0..3000 {
        let ends = Ends((250, 5000 + port), (99, 29500));
        wire.handshake(ends);
        wire.client(ends, 0, &[2]);
    }
    wire.client(victim, 4, &CLAIM[4..]);
    pass(&mut wire, 5);
    let run = of_wire(&wire, &["--memory", "8M"]);
    assert!(run.notes().contains("Memory ran out"), "{}", run.notes());
    assert_eq!(run.of_rule("store-claim").len(), 1, "{:#?}", run.findings());
}

#[test]
fn claims_and_kills_of_one_host_take_time_in_proportion() {
    let dir = tempfile::tempdir().unwrap();
    let cost = |count: u16| {
        let mut wire = Wire::new();
        honest(&mut wire, STORE);
        // Claims of twice the size that any of the killed processes had: each kill has to look for a smaller one.
        let mut claim = vec![3u8];
        claim.extend(2_000_000_000_000u64.to_le_bytes());
        for i in 0..count {
            send(&mut wire, Ends((250, 5000 + i), STORE), std::slice::from_ref(&claim));
        }
        let mut log = String::new();
        let after = START + u64::from(wire.packets()) / 1000 + 2;
        let kills = 8 * u64::from(count);
        for i in 0..kills {
            kill(&mut log, "node-a", i, after + i / 100);
        }
        let capture = wire.save(dir.path(), "x.pcap");
        let log = save(dir.path(), "x.log", &log);
        let hosts = save(dir.path(), "hosts", "192.0.2.11 node-a\n");
        let arguments = ["analyze", capture.to_str().unwrap(), "--oom", &log, "--hosts", &hosts, "--format", "json"];
        let (report, seconds) = costs(&arguments);
        assert_eq!(report["oom_events"].as_array().unwrap().len() as u64, kills);
        seconds
    };
    in_proportion(cost(1_000), cost(4_000));
}

#[test]
fn kills_by_the_ten_thousand_take_time_in_proportion() {
    let dir = tempfile::tempdir().unwrap();
    let cost = |count: u64, hosts: bool| {
        let mut log = String::new();
        for i in 0..count {
            let (host, time) = if hosts { (format!("node-{i}"), START) } else { ("node-a".to_string(), START + i) };
            kill(&mut log, &host, i, time);
        }
        let (report, seconds) = costs(&["oom", &save(dir.path(), "x.log", &log), "--format", "json"]);
        assert_eq!(report["oom_events"].as_array().unwrap().len() as u64, count);
        seconds
    };
    for hosts in [false, true] {
        in_proportion(cost(10_000, hosts), cost(40_000, hosts));
    }
}

#[test]
fn a_name_of_a_hundred_thousand_addresses_takes_time_in_proportion() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = String::new();
    kill(&mut log, "same", 1, START);
    let log = save(dir.path(), "x.log", &log);
    let cost = |count: u32| {
        let mut hosts = String::new();
        for i in 0..count {
            writeln!(hosts, "10.{}.{}.{} same", i >> 16, i >> 8 & 255, i & 255).unwrap();
        }
        let hosts = save(dir.path(), "hosts", &hosts);
        let (report, seconds) = costs(&["oom", "--hosts", &hosts, "--format", "json", &log]);
        assert_eq!(report["oom_events"][0]["host"], "same");
        seconds
    };
    in_proportion(cost(50_000), cost(200_000));
}
