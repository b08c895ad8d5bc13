//! Reassembly held against the kernel of this machine: connections of a hostile sender (splits, disorder, overlaps with
//! other bytes, bad checksums, urgent pointers, window violations, RST, SYN and FIN out of place, old timestamps, ports used
//! again) go to a real socket behind a TAP device in a network namespace of their own, and what `recv()` returned is the
//! truth. `make kernel-fuzz` sends 200,000.

mod common;

use std::process::Command;

/// Connections of each family.
const CONNECTIONS: u32 = 2000;
/// Of these, so many may differ: of 200,000 connections one did, in one byte (docs/reassembly.md).
const LACKING: u32 = 1;
const SURPLUS: u32 = 1;

#[test]
fn streams_are_what_the_kernel_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    for family in ["4", "6"] {
        let (pcap, truth) = (file("connections.pcap"), file("received.json"));
        let script = |name: &str| format!("{}/tests/kernel/{name}", env!("CARGO_MANIFEST_DIR"));
        let sent = Command::new("python3")
            .args([&script("inject.py"), "--count", &CONNECTIONS.to_string(), "--seed", "1", "--family", family])
            .args([&pcap, &truth])
            .output()
            .unwrap();
        if sent.status.code() == Some(77) {
            common::skipped(String::from_utf8_lossy(&sent.stderr).trim());
            return;
        }
        assert!(sent.status.success(), "{sent:?}");
        let compared = Command::new("python3")
            .args([&script("compare.py"), env!("CARGO_BIN_EXE_rdzvscope"), &pcap, &truth])
            .args(["--lacking", &LACKING.to_string(), "--surplus", &SURPLUS.to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&compared.stdout);
        assert!(compared.status.success(), "IPv{family}: {said}");
        assert!(said.contains("2000 connections: "), "{said}");
    }
}
