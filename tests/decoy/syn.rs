//! Real `nmap -sS -sV` against decoys of their own process: what it killed is told, in nmap's order, at no cost in memory. And every
//! change that `prescan` proposes for that scan, tried the same way.

use std::process::Command;
use std::time::Duration;

use assert_cmd::cargo::CommandCargoExt;
use rdzvscope::api::prescan::{Fleet, pytorch};
use serde_json::Value;

use super::crowd::{lines, peak, start};
use super::nmap::{predicted, quick};

/// Whether nmap may make packets of its own here; says why not.
fn privileged() -> bool {
    let output = Command::new("nmap").args(["-sS", "-n", "-Pn", "-p", "1", "127.0.0.1"]).output();
    let may = output.is_ok_and(|o| o.status.success());
    if !may {
        super::skipped("nmap -sS is for root alone, or nmap is not installed");
    }
    may
}

/// Scans a decoy: its lines (connections, then the summary), and its peak memory in kB. `PORT` in an option is its port.
fn scanned(part: &str, options: &[&str]) -> (Vec<Value>, u64) {
    let (mut child, addresses, out) = start(&["--as", part, "--listen", "0", "--for", "120"]);
    let port = addresses[0].rsplit_once(':').unwrap().1.to_owned();
    let options: Vec<String> = options.iter().map(|o| o.replace("PORT", &port)).collect();
    let output = Command::new("nmap")
        .args(["-Pn", "-n", "--host-timeout", "100", "-p", &format!("1,{port}")])
        .args(&options)
        .arg("127.0.0.1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    std::thread::sleep(Duration::from_millis(300));
    let memory = peak(&child);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said = lines(out);
    child.wait().unwrap();
    (said, memory)
}

/// What arrived, in order: names of probes; of what nmap's own scripts send, protocol and length.
fn sequence(lines: &[Value]) -> Vec<String> {
    let mut all: Vec<&Value> = lines.iter().filter(|l| l["type"] == "connection").collect();
    all.sort_by_key(|l| l["number"].as_u64());
    let name = |l: &Value| match l["nmap_probe"].as_str() {
        Some(probe) => probe.to_owned(),
        None => format!("{} {}", l["stray"].as_str().unwrap(), l["received_bytes"]),
    };
    all.into_iter().map(name).collect()
}

/// What was said beforehand of that scan: all but the SYNs, which no process sees.
fn foreseen(probes: &str, lines: &[Value]) -> Vec<String> {
    let listen = lines.iter().find_map(|l| l["listen"].as_str()).unwrap();
    let port: u16 = listen.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut fleet = Fleet::default();
    fleet.stores(&pytorch("1.13").unwrap(), None, &[port]).unwrap();
    let all = predicted(&fleet, "-sS -sV", probes.as_ref(), port);
    all.into_iter().map(|p| p.0).filter(|n| !n.starts_with("port scan")).collect()
}

fn killing(lines: &[Value]) -> Vec<&str> {
    let mut all: Vec<&Value> = lines.iter().filter(|l| l["type"] != "summary" && l["kills"] == true).collect();
    all.sort_by_key(|l| l["number"].as_u64());
    all.iter().map(|l| l["nmap_probe"].as_str().unwrap_or("none")).collect()
}

#[test]
fn a_syn_and_version_scan_kills_an_old_store_alone() {
    let directory = tempfile::tempdir().unwrap();
    let Some(probes) = quick(directory.path()).filter(|_| privileged()) else { return };
    let probes = probes.to_str().unwrap();
    let (old, memory) = scanned("tcpstore:1.13", &["-sS", "-sV", "--versiondb", probes]);
    assert_eq!(sequence(&old), foreseen(probes, &old));
    assert_eq!(killing(&old), ["TerminalServerCookie", "TerminalServer"]);
    let claims: Vec<u64> =
        old.iter().filter(|l| l["kills"] == true).filter_map(|l| l["allocates_bytes"].as_u64()).collect();
    assert_eq!(claims, [962_696_183_808, 962_174_058_496]);
    assert!(memory < 64 << 10, "{memory} kB");
    // A SYN scan finishes no handshake: each connection carried a probe.
    assert!(old.iter().filter(|l| l["type"] == "connection").all(|l| l["received_bytes"].as_u64() > Some(0)));
    for part in ["tcpstore:2.15/libuv", "tcpstore:2.15/poll"] {
        let (new, memory) = scanned(part, &["-sS", "-sV", "--versiondb", probes]);
        assert_eq!(killing(&new), [""; 0], "{part}");
        assert!(new.len() > 20 && memory < 64 << 10, "{part} {memory} kB");
    }
    // A connect scan is enough for a root; a SYN scan without version detection touches nothing.
    let (root, memory) = scanned("nccl-root:2.26", &["-sT"]);
    assert_eq!(killing(&root), ["none"]);
    assert!(memory < 64 << 10, "{memory} kB");
    let (root, _) = scanned("nccl-root:2.26", &["-sS"]);
    assert_eq!(root.len(), 1, "{root:#?}");
}

#[test]
fn every_proposed_change_is_tried_with_the_real_scanner() {
    let directory = tempfile::tempdir().unwrap();
    let Some(probes) = quick(directory.path()).filter(|_| privileged()) else { return };
    let probes = probes.to_str().unwrap();
    let written = directory.path().join("written");
    let written = written.to_str().unwrap();
    // What is proposed for this very scan.
    let mut command = Command::cargo_bin("rdzvscope").unwrap();
    let profile = format!("nmap -sS -sV --versiondb {probes} -p 29500 x");
    let asked = ["prescan", "--pytorch", "1.13", "--port", "29500", "--profile", &profile, "--format", "json"];
    let output = command.args(asked).args(["--write-probes", written]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let highest = document["advice"]["highest_intensity"][0].as_u64().unwrap().to_string();
    let steps = document["advice"]["steps"].as_array().unwrap();
    let changes: Vec<&str> = steps.iter().filter_map(|s| s["change"].as_str()).collect();
    let line = changes.iter().find_map(|c| c.split('"').nth(1).filter(|l| l.starts_with("Exclude "))).unwrap();
    let excluded = directory.path().join("excluded");
    let scan = ["-sS", "-sV"];
    let tried = [
        ("--version-intensity", vec!["--versiondb", probes, "--version-intensity", &highest], 5..60),
        ("--write-probes", vec!["--versiondb", written], 20..60),
        ("Exclude", vec!["--versiondb", excluded.to_str().unwrap()], 0..1),
        ("--exclude-ports", vec!["--versiondb", probes, "--exclude-ports", "PORT"], 0..1),
    ];
    for (name, options, connections) in tried {
        assert!(changes.iter().any(|c| c.contains(name)), "{name} is not proposed: {changes:#?}");
        // The directive names a port; that of the decoy is known when it listens.
        let (said, _) = if name == "Exclude" {
            let (mut child, addresses, out) = start(&["--as", "tcpstore:1.13", "--listen", "0", "--for", "120"]);
            let port = addresses[0].rsplit_once(':').unwrap().1;
            let text = String::from_utf8_lossy(&std::fs::read(probes).unwrap())
                .replace("Exclude T:9100-9107", &line.replace("29500", port));
            std::fs::write(&excluded, text).unwrap();
            let output = Command::new("nmap")
                .args(["-Pn", "-n", "-p", port, "127.0.0.1"])
                .args(scan)
                .args(&options)
                .output()
                .unwrap();
            assert!(
                output.status.success() && String::from_utf8_lossy(&output.stdout).contains("Excluded"),
                "{output:?}"
            );
            assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
            let said = lines(out);
            child.wait().unwrap();
            (said, 0)
        } else {
            scanned("tcpstore:1.13", &[&scan[..], &options].concat())
        };
        assert_eq!(killing(&said), [""; 0], "{name}");
        let count = said.iter().filter(|l| l["type"] == "connection").count();
        assert!(connections.contains(&count), "{name}: {count} connections");
    }
}
