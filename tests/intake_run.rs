//! How a run goes: looking back for dialects, being stopped, and what `doctor` says.

mod common;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use common::{NODES, analyze, args, command, data, joined, records};

#[test]
fn earlier_files_are_opened_for_dialects_only() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = fs::read(data(NODES[0])).unwrap();
    let mut parts = [pcap[..24].to_vec(), pcap[..24].to_vec()];
    for (start, end) in records(&pcap) {
        let seconds = u32::from_le_bytes(pcap[start..start + 4].try_into().unwrap());
        // 11:20:05: the job has begun, the scan has not.
        parts[usize::from(seconds >= 1_795_951_205)].extend(&pcap[start..end]);
    }
    for (n, part) in parts.iter().enumerate() {
        fs::write(folder.path().join(format!("node-a-{n}.pcap")), part).unwrap();
    }
    let log = ["--oom", "incident-torch1.13/logs/node-a.dmesg-iso", "--hosts", "hosts"];
    let narrow = ["--max-lag", "42s", "--window", "40s"];
    let alone = folder.path().join("node-a-1.pcap");
    let run = analyze(&args(&[&[alone.to_str().unwrap()], &log, &narrow]));
    assert!(run.listener(("192.0.2.11", 29500))["dialect"].is_null(), "what was read does not tell");
    let run = analyze(&args(&[&[folder.path().to_str().unwrap()], &log, &narrow]));
    let skipped = &run.json["captures"][0];
    assert_eq!(skipped["packets"], 0);
    assert!(joined(&skipped["warnings"]).contains("opened for dialects only"), "{skipped}");
    assert_eq!(run.listener(("192.0.2.11", 29500))["dialect"], "B");
    assert_eq!(run.host("node-a")["verdict"], "confirmed");
    assert_eq!(run.trigger("node-a")["dialect"], "B");
}

#[cfg(unix)]
#[test]
fn an_interrupt_prints_the_report_so_far() {
    let pcap = fs::read(data(NODES[0])).unwrap();
    let mut child = command()
        .args(["analyze", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&pcap).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    // The capture goes on for ever; who stopped reading closes the pipe.
    let writer = std::thread::spawn(move || while pipe.write_all(&pcap[24..]).is_ok() {});
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(common::complaints(&json), Vec::<String>::new());
    assert_eq!(json["incomplete"], true);
    assert!(joined(&json["notes"]).contains("Reading was stopped"));
    assert!(json["findings"].as_array().unwrap().iter().any(|f| f["rule"] == "store-claim"), "what was read is told");
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped"));
}

#[test]
fn doctor_says_what_is_missing_and_how_to_mend_it() {
    let good = command().args(["doctor", "."]).output().unwrap();
    let text = String::from_utf8(good.stdout).unwrap();
    assert_eq!(good.status.code(), Some(0), "{text}");
    for what in ["rights", "groups", "disk", "clock", "libpcap", "Landlock", "seccomp", "memory"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    let bad = command().args(["doctor", "/nowhere/at/all"]).output().unwrap();
    let text = String::from_utf8(bad.stdout).unwrap();
    assert_eq!(bad.status.code(), Some(1));
    assert!(text.contains("MISSING") && text.contains("fix: "), "{text}");
}
