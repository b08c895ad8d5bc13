//! `live` on the loopback interface, and `watch` beside a real tcpdump.

#![cfg(feature = "live")]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use common::{checked, client, command};

/// nmap's TerminalServerCookie: read as ADD with a key of 962 696 183 808 bytes.
const COOKIE: &[u8] =
    b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=nmap\r\n\x01\x00\x08\x00\x03\x00\x00\x00";

/// A store of the time before validation, as far as a client needs it to tell: it answers one ADD and then holds still.
fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut head = [0u8; 64];
            let n = stream.read(&mut head).unwrap_or(0);
            if n >= 14 && &head[9..14] == b"init/" {
                let _ = stream.write_all(&1i64.to_le_bytes());
            }
            open.push(stream);
        }
    });
}

fn stray(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(COOKIE).unwrap();
    stream
}

/// Whether this process may listen; says why not.
fn may_listen() -> bool {
    let output = command().args(["live", "-i", "lo", "--duration", "100ms", "--no-landlock"]).output().unwrap();
    if !output.status.success() {
        common::skipped(&String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Waits until a child has said `text` on standard error; gives the rest of that to a thread.
fn wait_for(child: &mut Child, text: &str) {
    let mut errors = child.stderr.take().unwrap();
    let mut seen = Vec::new();
    let mut byte = [0u8];
    while !String::from_utf8_lossy(&seen).contains(text) {
        assert_eq!(errors.read(&mut byte).unwrap(), 1, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
}

fn end(child: Child) -> (Option<i32>, String) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_claim_on_the_loopback_interface_is_told_at_once() {
    if !may_listen() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(listener);
    let place = TempDir::new().unwrap();
    let (case, written) = (place.path().join("case.db"), place.path().join("pcap"));
    let mut child = command()
        .args(["live", "-i", "lo", "--format", "jsonl", "--port", &port.to_string(), "--min-free", "0", "--case"])
        .arg(&case)
        .arg("--write")
        .arg(&written)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut child, "listening");
    let _client = client(port);
    let _stray = stray(port);
    let sent = Instant::now();
    let mut out = child.stdout.take().unwrap();
    let mut line = Vec::new();
    let mut byte = [0u8];
    let claim = loop {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "it ended");
        if byte != *b"\n" {
            line.push(byte[0]);
            continue;
        }
        let told: Value = serde_json::from_slice(&line).unwrap();
        line.clear();
        if told["rule"] == "store-claim" {
            break told;
        }
    };
    assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    assert_eq!(claim["declared"]["bytes"], 962_696_183_808u64);
    assert_eq!(claim["target"]["port"], port);
    child.stdout = Some(out);
    let (status, _) = end(child);
    assert_eq!(status, Some(1));

    // What was kept tells the same, and so do the packets that were written.
    let report = checked(command().arg("report").arg("--case").arg(&case).args(["--format", "json"]).output().unwrap());
    assert!(report.findings().iter().any(|f| f["id"] == claim["id"]));
    let port = port.to_string();
    let analysis =
        checked(command().arg("analyze").arg(&written).args(["--port", &port, "--format", "json"]).output().unwrap());
    assert!(analysis.findings().iter().any(|f| f["id"] == claim["id"]), "{:?}", analysis.findings());
    let kept =
        std::fs::read_dir(&written).unwrap().flatten().any(|e| e.file_name().to_string_lossy().starts_with("kept-"));
    assert!(kept);
}

#[test]
fn bad_interfaces_and_filters_are_said() {
    for arguments in [&["-i", "nonesuch0"][..], &["-i", "lo", "--filter", "tcp prot 5"]] {
        let output = command().arg("live").args(arguments).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(arguments.last().unwrap()), "{errors}");
    }
}

#[test]
fn privileges_are_given_up() {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n");
    if !root || !may_listen() {
        return;
    }
    let mut child = command()
        .args(["live", "-i", "lo", "-i", "any", "--user", "nobody"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut child, "listening");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|l| l.strip_prefix(name))
            .unwrap()
            .split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert!(field("Uid:").iter().all(|u| u != "0"), "{status}");
    assert!(field("Gid:").iter().all(|g| g != "0"), "{status}");
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    assert!(field("Groups:").iter().all(|g| g != "0"), "{status}");
    end(child);
}

/// tcpdump on the loopback interface, into a ring.
fn tcpdump(directory: &Path, port: u16, more: &[&str]) -> Option<Child> {
    let mut child = Command::new("tcpdump")
        .args(["-i", "lo", "-n", "-U", "--immediate-mode", "-Z", "root", "-w"])
        .arg(directory.join("lo.pcap"))
        .args(more)
        .arg(format!("tcp port {port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    wait_for(&mut child, "listening");
    Some(child)
}

#[test]
fn beside_a_tcpdump_ring_each_finding_is_told_once() {
    if !may_listen() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(listener);
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    // Files of 1 MB: the traffic below fills several.
    let Some(dump) = tcpdump(&captures, port, &["-C", "1", "-W", "8"]) else { return };
    let (case, alerts) = (place.path().join("case.db"), place.path().join("alerts"));
    let mut child = command()
        .args(["watch", "--interval", "100ms", "--alert-on", "info", "--port", &port.to_string(), "--alert-file"])
        .arg(&alerts)
        .arg("--case")
        .arg(&case)
        .arg(&captures)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut open = vec![client(port)];
    for round in 0..6 {
        open.push(stray(port));
        // A client with much to say, whose flow goes on from file to file.
        let mut value = vec![0u8];
        value.extend_from_slice(&6u64.to_le_bytes());
        value.extend_from_slice(b"/key/a");
        value.extend_from_slice(&400_000u64.to_le_bytes());
        value.extend_from_slice(&vec![b'v'; 400_000]);
        let _ = open[0].set_write_timeout(Some(Duration::from_millis(300)));
        let _ = open[0].write(&value);
        std::thread::sleep(Duration::from_millis(300));
        if round == 3 {
            // In the middle of a file.
            child.kill().unwrap();
            child.wait().unwrap();
            child = command()
                .args(["watch", "--interval", "100ms", "--alert-on", "info", "--alert-file"])
                .arg(&alerts)
                .arg("--case")
                .arg(&case)
                .arg(&captures)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
        }
    }
    drop(open);
    end(dump);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(end(child).0, Some(0));
    let report = checked(command().arg("report").arg("--case").arg(&case).args(["--format", "json"]).output().unwrap());
    let port = port.to_string();
    let analysis =
        checked(command().arg("analyze").arg(&captures).args(["--port", &port, "--format", "json"]).output().unwrap());
    let ids = |r: &common::Run| {
        let mut ids: Vec<String> = r.findings().iter().map(|f| f["id"].as_str().unwrap().to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&report), ids(&analysis));
    assert_eq!(report.of_rule("store-claim").len(), 6);
    let text = std::fs::read_to_string(&alerts).unwrap();
    for claim in report.of_rule("store-claim") {
        let id = claim["id"].as_str().unwrap();
        let line = format!("\"id\":\"{id}\"");
        let lines = text.lines().filter(|l| l.contains("\"type\":\"finding\"") && l.contains(&line)).count();
        assert!((1..=2).contains(&lines), "{id}: {lines}");
    }
}
