//! Reassembly held against the kernel of this machine: connections of a hostile sender (splits, disorder, overlaps with
//! other bytes, bad checksums, urgent pointers, window violations, RST, SYN and FIN out of place, old timestamps, ports used
//! again) go to a real socket behind a TAP device in a network namespace of their own, and what `recv()` returned is the
//! truth. `make kernel-fuzz` sends 200,000.

mod common;

use std::process::{Command, Output};

/// Connections of each family.
const CONNECTIONS: u32 = 2000;
/// Of these, so many may differ, on a kernel that joins no segments to a FIN (docs/reassembly.md).
const LACKING: u32 = 1;
const SURPLUS: u32 = 1;

/// The streams of a capture held against what recv() returned, as `compare.py` does it.
fn compare(pcap: &str, truth: &str, differ: &[&str]) -> Output {
    let script = format!("{}/tests/kernel/compare.py", env!("CARGO_MANIFEST_DIR"));
    let program = env!("CARGO_BIN_EXE_rdzvscope");
    Command::new("python3").args([&script, program, pcap, truth]).args(differ).output().unwrap()
}

/// Connections on which model and kernel once differed: of two kernels, for they differ where a FIN waits out of order.
#[test]
fn differences_that_were_found_stay_mended() {
    let mut seen = 0;
    for entry in std::fs::read_dir(common::data("kernel")).unwrap() {
        let pcap = entry.unwrap().path();
        if pcap.extension().is_some_and(|e| e == "pcap") {
            let compared = compare(pcap.to_str().unwrap(), pcap.with_extension("json").to_str().unwrap(), &[]);
            assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
            seen += 1;
        }
    }
    assert_eq!(seen, 8);
}

#[test]
fn streams_are_what_the_kernel_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    for family in ["4", "6"] {
        let (pcap, truth) = (file("connections.pcap"), file("received.json"));
        let inject = format!("{}/tests/kernel/inject.py", env!("CARGO_MANIFEST_DIR"));
        let sent = Command::new("python3")
            .args([&inject, "--count", &CONNECTIONS.to_string(), "--seed", "1", "--family", family])
            .args([&pcap, &truth])
            .output()
            .unwrap();
        if sent.status.code() == Some(77) {
            common::skipped(String::from_utf8_lossy(&sent.stderr).trim());
            return;
        }
        assert!(sent.status.success(), "{sent:?}");
        let allowed = ["--lacking", &LACKING.to_string(), "--surplus", &SURPLUS.to_string()];
        let compared = compare(&pcap, &truth, &allowed);
        let said = String::from_utf8_lossy(&compared.stdout);
        assert!(compared.status.success(), "IPv{family}: {said}");
        assert!(said.contains("2000 connections: "), "{said}");
    }
}
