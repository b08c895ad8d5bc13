//! Real nmap against decoys, and its probes in their order against what `prescan` said beforehand.
//!
//! nmap's waits are cut to a fraction in a copy of the user's own file of probes, so that this takes seconds.

use std::path::{Path, PathBuf};
use std::process::Command;

use rdzvscope::api::decoy::Entry;
use rdzvscope::api::prescan::{Fleet, Host, Plan, ProbeFile, Profile, nccl, pytorch};

use super::{Stage, skipped};

/// nmap and a quick copy of its probes; says why not.
pub(super) fn quick(directory: &Path) -> Option<PathBuf> {
    let there = Command::new("nmap").arg("--version").output().is_ok_and(|o| o.status.success());
    let Some(file) = ProbeFile::installed().filter(|_| there) else {
        skipped("nmap is not installed");
        return None;
    };
    let text = std::fs::read(file).unwrap();
    let mut out = Vec::new();
    for line in text.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"totalwaitms") || line.starts_with(b"tcpwrappedms") {
            continue;
        }
        out.extend_from_slice(line);
        if line.starts_with(b"Probe TCP") {
            out.extend_from_slice(b"totalwaitms 400\n");
        }
    }
    let path = directory.join("quick-probes");
    std::fs::write(&path, out).unwrap();
    Some(path)
}

/// What a real nmap does to a decoy with these options; the quick file unless another is named.
fn scan(part: &str, options: &[&str], probes: &Path) -> (u16, Vec<Entry>) {
    let stage = Stage::new(part, false);
    let port = stage.address.port();
    let mut nmap = Command::new("nmap");
    nmap.args(["-Pn", "-n", "--unprivileged", "--host-timeout", "90", "--versiondb"]).arg(probes);
    let output = nmap.args(options).args(["-p", &port.to_string(), "127.0.0.1"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (port, stage.end().1)
}

/// What arrived: names of probes, in order. The port scan and what nmap's scripts send have no probe's name or come last.
fn seen(entries: &[Entry]) -> Vec<String> {
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by_key(|e| e.number);
    let name = |e: &Entry| match e.nmap_probe {
        Some(probe) => probe.to_owned(),
        None if e.received_bytes == 0 => "port scan (-sT)".to_owned(),
        None => format!("{} {}", e.stray, e.received_bytes),
    };
    entries.into_iter().map(name).collect()
}

pub(super) fn predicted(fleet: &Fleet, options: &str, probes: &Path, port: u16) -> Vec<(String, bool)> {
    let profile = Profile::parse(&format!("nmap {options} -p {port} 127.0.0.1")).unwrap();
    let plan = Plan::new(ProbeFile::read(probes).unwrap(), Some(profile), fleet);
    let name = |probe: &str| match probe {
        "skypev2-version (nmap script)" => "GetRequest".to_owned(),
        "rpc-grind (nmap script)" => "ONC RPC 44".to_owned(),
        other => other.to_owned(),
    };
    let board = plan.board(fleet, Host::default());
    // Silence and the first probe are one connection.
    board.rows().filter(|r| r.probe != "NULL").map(|r| (name(&r.probe), r.kills)).collect()
}

#[test]
fn what_nmap_sends_is_what_was_predicted_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let Some(probes) = quick(directory.path()) else { return };
    let cases = [
        ("tcpstore:1.13", "5"),
        ("tcpstore:1.13", "6"),
        ("tcpstore:1.13", "7"),
        ("tcpstore:2.15/libuv", "7"),
        ("tcpstore:2.15/poll", "9"),
        ("nccl-root:2.26", "7"),
    ];
    std::thread::scope(|scope| {
        let probes = &probes;
        let run = |(part, intensity): (&'static str, &'static str)| {
            scope.spawn(move || {
                let options = ["-sT", "-sV", "--version-intensity", intensity];
                let (port, entries) = scan(part, &options, probes);
                let mut fleet = Fleet::default();
                match part.split_once(':').unwrap() {
                    ("tcpstore", version) => {
                        let version = version.split('/').next().unwrap();
                        fleet.stores(&pytorch(version).unwrap(), None, &[port]).unwrap();
                        fleet.targets.truncate(1);
                    }
                    (_, version) => fleet.nccl(&nccl(&format!("root:{version}")).unwrap()),
                }
                let want = predicted(&fleet, &options.join(" "), probes, port);
                let names: Vec<&String> = want.iter().map(|w| &w.0).collect();
                assert_eq!(seen(&entries).iter().collect::<Vec<_>>(), names, "{part} at {intensity}");
                let kills: Vec<&str> =
                    entries.iter().filter(|e| e.would_have.kills).filter_map(|e| e.nmap_probe).collect();
                let expected: &[&str] = match (part, intensity) {
                    ("tcpstore:1.13", "6") => &["TerminalServer"],
                    ("tcpstore:1.13", "7") => &["TerminalServerCookie", "TerminalServer"],
                    ("nccl-root:2.26", _) => &["GenericLines", "Help", "JavaRMI"],
                    _ => &[],
                };
                let probe_kills = want.iter().filter(|w| w.1 && !w.0.starts_with("port scan")).map(|w| w.0.as_str());
                assert_eq!(
                    kills.iter().copied().filter(|k| expected.contains(k)).count(),
                    expected.len(),
                    "{part} {kills:?}"
                );
                assert_eq!(probe_kills.collect::<Vec<_>>(), kills, "{part} at {intensity}");
            })
        };
        let all: Vec<_> = cases.into_iter().map(run).collect();
        all.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn each_proposed_change_holds_with_real_nmap() {
    let directory = tempfile::tempdir().unwrap();
    let Some(probes) = quick(directory.path()) else { return };
    let file = ProbeFile::read(&probes).unwrap();
    let clean = directory.path().join("clean");
    std::fs::write(&clean, file.without(&["TerminalServer", "TerminalServerCookie"].into())).unwrap();
    let (_, entries) = scan("tcpstore:1.13", &["-sT", "-sV"], &clean);
    assert!(entries.len() > 20 && entries.iter().all(|e| !e.would_have.kills), "{:?}", seen(&entries));
    // Excluded ports are not touched at all; `Exclude` in the file spares them from version detection alone.
    let stage = Stage::new("tcpstore:1.13", false);
    let port = stage.address.port().to_string();
    let excluded = directory.path().join("excluded");
    let text = String::from_utf8_lossy(&std::fs::read(&probes).unwrap())
        .replace("Exclude T:9100-9107", &format!("Exclude T:9100-9107,{port}"));
    std::fs::write(&excluded, text).unwrap();
    let nmap = |options: &[&str]| {
        let output = Command::new("nmap")
            .args(["-Pn", "-n", "--unprivileged", "-sT", "-sV"])
            .args(options)
            .arg("127.0.0.1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    nmap(&["-p", &format!("1,{port}"), "--exclude-ports", &port]);
    nmap(&["-p", &port, "--versiondb", excluded.to_str().unwrap()]);
    let (summary, entries) = stage.end();
    assert_eq!((summary.connections, summary.received_bytes), (1, 0), "{:?}", seen(&entries));
}
