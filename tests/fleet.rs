//! Evidence of many hosts and of busy ones: lean evidence, and ordinary connections that are only counted.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use common::{command, data, records};

/// Evidence of inputs as `analyze --format jsonl` writes it.
fn evidence(inputs: &[PathBuf], lean: bool, to: &Path) {
    let mut analyze = command();
    analyze.arg("analyze").args(inputs).args(["--format", "jsonl", "--exit-zero", "-o"]).arg(to);
    analyze.args(lean.then_some("--lean")).output().unwrap();
}

/// The report of `analyze` or `merge`, without its command line.
fn report(subcommand: &str, inputs: &[PathBuf]) -> Value {
    let out = command().arg(subcommand).args(inputs).args(["--format", "json", "--exit-zero"]).output().unwrap();
    let mut report: Value = serde_json::from_slice(&out.stdout).unwrap();
    report.as_object_mut().unwrap().remove("arguments");
    report
}

/// How many connections evidence only counts.
fn counted(evidence: &Path) -> u64 {
    let text = std::fs::read_to_string(evidence).unwrap();
    let lines = text.lines().filter(|l| l.contains("\"evidence-ordinary\""));
    lines.map(|l| serde_json::from_str::<Value>(l).unwrap()["connections"].as_u64().unwrap()).sum()
}

fn folders(below: &Path, all: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(below).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            folders(&path, all);
        } else if path.to_string_lossy().contains(".pcap") {
            all.insert(below.to_path_buf());
        }
    }
}

#[test]
fn lean_evidence_of_every_recording_tells_the_same() {
    let place = TempDir::new().unwrap();
    let mut all = BTreeSet::new();
    folders(&data("."), &mut all);
    let mut connections = 0;
    for folder in all {
        let [full, lean] = [false, true].map(|lean| {
            let to = place.path().join(format!("{lean}.jsonl"));
            let _ = std::fs::remove_file(&to);
            evidence(std::slice::from_ref(&folder), lean, &to);
            to
        });
        connections += counted(&lean);
        let (full, lean) = (report("merge", &[full]), report("merge", &[lean]));
        for part in ["incidents", "findings", "coverage", "oom_events"] {
            assert_eq!(full[part], lean[part], "{}: {part}", folder.display());
        }
    }
    assert!(connections > 0, "the recordings hold few connections that nobody looks at; the next test makes many");
}

/// A capture of node-a's incident after so many connections to and from it: some with payload, some without, from many peers.
fn busy(connections: u32) -> Vec<u8> {
    let incident = std::fs::read(data("incident-torch1.13/node-a.pcap")).unwrap();
    let begin = u32::from_le_bytes(incident[24..28].try_into().unwrap());
    let own = [192, 0, 2, 11];
    let mut out = incident[..24].to_vec();
    for n in 0..connections {
        let peer = ([198, 51, 100, (n % 60) as u8 + 1], 32768 + (n % 20_000) as u16);
        let (client, server) = match n % 3 {
            0 => ((own, peer.1), (peer.0, 2049)),
            _ => (peer, (own, [9100, 22][(n % 2) as usize])),
        };
        let (mut seqs, payload) = ([n.wrapping_mul(977), n.wrapping_mul(1013)], if n % 4 == 0 { 0 } else { 16 });
        let steps = [(0, 2, 0), (1, 0x12, 0), (0, 0x18, payload), (1, 0x18, payload), (0, 0x11, 0), (1, 0x11, 0)];
        for (i, (side, flags, length)) in (0u32..).zip(steps) {
            let (src, dst) = if side == 0 { (client, server) } else { (server, client) };
            let mut frame = vec![0; 12];
            frame.extend_from_slice(&[8, 0, 0x45, 0, 0, 40 + length as u8, 0, 0, 0x40, 0, 64, 6, 0, 0]);
            frame.extend_from_slice(&src.0);
            frame.extend_from_slice(&dst.0);
            frame.extend_from_slice(&src.1.to_be_bytes());
            frame.extend_from_slice(&dst.1.to_be_bytes());
            frame.extend_from_slice(&seqs[side].to_be_bytes());
            frame.extend_from_slice(&if i == 0 { 0 } else { seqs[1 - side] }.to_be_bytes());
            frame.extend_from_slice(&[0x50, flags, 250, 0, 0, 0, 0, 0]);
            frame.extend_from_slice(&b"\x16\x03\x01 ordinary...."[..length]);
            seqs[side] = seqs[side].wrapping_add(length as u32 + u32::from(flags & 3 != 0));
            let time = begin - 7200 + n * 7000 / connections;
            for word in [time, n % 900 * 1000 + i * 100, frame.len() as u32, frame.len() as u32] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            out.extend_from_slice(&frame);
        }
    }
    assert!(!records(&incident).is_empty());
    out.extend_from_slice(&incident[24..]);
    out
}

#[test]
fn ordinary_connections_of_a_busy_host_are_counted_and_nothing_else_changes() {
    let place = TempDir::new().unwrap();
    let capture = place.path().join("node-a.pcap");
    std::fs::write(&capture, busy(6000)).unwrap();
    let log = format!("--oom=node-a={}", data("incident-torch1.13/logs/node-a.dmesg-iso").display());
    let inputs = [capture, PathBuf::from(log)];
    let [full, lean] = [false, true].map(|lean| {
        let to = place.path().join(format!("{lean}.jsonl"));
        evidence(&inputs, lean, &to);
        to
    });
    let size = |p: &Path| std::fs::metadata(p).unwrap().len();
    assert!(counted(&lean) > 5900 && size(&lean) * 4 < size(&full), "{} and {}", size(&full), size(&lean));
    let whole = report("analyze", &inputs);
    assert_eq!(whole["incidents"].as_array().unwrap().len(), 1);
    let merged = report("merge", &[full]);
    for (part, value) in whole.as_object().unwrap() {
        assert!(merged[part] == *value, "{part}: {} and {value}", merged[part]);
    }
    let lean = report("merge", &[lean]);
    for part in ["incidents", "findings", "coverage", "oom_events", "scans", "totals"] {
        assert_eq!(lean[part], whole[part], "{part}");
    }
}

#[test]
fn a_watch_with_lean_evidence_counts_each_connection_once() {
    let place = TempDir::new().unwrap();
    let (ring, to) = (place.path().join("ring"), place.path().join("evidence"));
    std::fs::create_dir(&ring).unwrap();
    let all = busy(300);
    let half = records(&all)[900].0;
    let capture = ring.join("node-a.pcap");
    for part in [&all[..half], &all[..]] {
        std::fs::write(&capture, part).unwrap();
        let mut watch = command();
        watch.arg("watch").arg(&ring).args(["--once", "-q", "--lean", "--case"]).arg(place.path().join("case.db"));
        assert!(watch.arg("--evidence").arg(&to).output().unwrap().status.code() < Some(2));
    }
    let segments: Vec<PathBuf> = std::fs::read_dir(&to).unwrap().map(|e| e.unwrap().path()).collect();
    let sum: u64 = segments.iter().map(|s| counted(s)).sum();
    assert!((280..=300).contains(&sum), "{sum}");
    assert_eq!(report("merge", &[to])["totals"]["flows"], report("analyze", &[capture])["totals"]["flows"]);
}
