//! Which capture is whose, and which files are one capture.

mod common;

use common::{analyze, data};
use serde_json::json;

fn hosts_of(run: &common::Run) -> Vec<(String, serde_json::Value)> {
    let captures = run.json["captures"].as_array().unwrap();
    captures
        .iter()
        .map(|c| (c["path"].as_str().unwrap().rsplit('/').next().unwrap().to_string(), c["host"].clone()))
        .collect()
}

fn copy(to: &std::path::Path, name: &str) -> String {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(data(name), to).unwrap();
    to.to_str().unwrap().to_string()
}

#[test]
fn a_host_comes_from_a_pattern_the_name_the_directory_or_the_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let by_pattern = copy(&dir.path().join("x-node-c-7.pcap"), "incident-torch1.13/node-c.pcap");
    let by_directory = copy(&dir.path().join("node-a/dump.pcap"), "incident-torch1.13/node-a.pcap");
    let by_address = copy(&dir.path().join("tap0.pcap"), "incident-torch1.13/node-b.pcap");
    let run =
        analyze(&[&by_pattern, &by_directory, &by_address, "--hosts", "hosts", "--host-pattern", "x-(node-[a-z])-"]);
    let got = hosts_of(&run);
    assert_eq!(
        got,
        [
            ("x-node-c-7.pcap".to_string(), json!("node-c")),
            ("dump.pcap".to_string(), json!("node-a")),
            ("tap0.pcap".to_string(), json!("node-b")),
        ]
    );
}

#[test]
fn rotated_files_continue_each_others_flows_whatever_their_names_order() {
    let all = [
        "torchrun/node-c-rot-20261129-113002.pcap",
        "torchrun/node-c-rot-20261129-112942.pcap",
        "torchrun/node-c-rot-20261129-112916.pcap",
        "torchrun/node-c-rot-20261129-112952.pcap",
        "torchrun/node-c-rot-20261129-112932.pcap",
    ];
    let together = analyze(&all);
    let flows = together.json["totals"]["flows"].as_u64().unwrap();
    let apart: u64 = all.iter().map(|f| analyze(&[f]).json["totals"]["flows"].as_u64().unwrap()).sum();
    assert!(flows < apart, "{flows} flows together, {apart} one by one: flows that run across files are one");
    assert_eq!(together.json["totals"]["gaps"], 0, "nothing is missing where one file goes on with the next");
    let mut other_order = all;
    other_order.reverse();
    assert_eq!(analyze(&other_order).json["listeners"], together.json["listeners"]);
}

#[test]
fn files_that_overlap_in_time_are_different_captures_whatever_their_names() {
    // gpu-001 and gpu-002 differ in digits only, as rotated files do; they were taken at the same time.
    let dir = tempfile::tempdir().unwrap();
    let a = copy(&dir.path().join("gpu-001.pcap"), "incident-torch1.13/node-a.pcap");
    let b = copy(&dir.path().join("gpu-002.pcap"), "incident-torch1.13/node-b.pcap");
    let run = analyze(&[&a, &b]);
    let hosts: Vec<_> = hosts_of(&run).into_iter().map(|(_, h)| h).collect();
    assert_eq!(hosts, [json!("gpu-001"), json!("gpu-002")]);
    assert_eq!(run.findings().iter().filter(|f| f["rule"] == "listener-died").count(), 2);
}

#[test]
fn files_being_copied_and_hidden_ones_are_left_alone_and_a_header_alone_is_done() {
    let dir = tempfile::tempdir().unwrap();
    copy(&dir.path().join("node-a.pcap.part"), "incident-torch1.13/node-a.pcap");
    copy(&dir.path().join(".node-a.pcap"), "incident-torch1.13/node-a.pcap");
    let header = std::fs::read(data("incident-torch1.13/node-a.pcap")).unwrap()[..24].to_vec();
    std::fs::write(dir.path().join("node-b.pcap"), header).unwrap();
    let run = analyze(&[dir.path().to_str().unwrap()]);
    assert_eq!(run.status, 0);
    assert_eq!(run.json["captures"].as_array().unwrap().len(), 1);
    assert!(run.json["captures"][0]["warnings"][0].as_str().unwrap().contains("no packet"));
}

#[test]
fn a_capture_inside_a_tunnel_says_so() {
    let run = analyze(&["links/vxlan-underlay.pcap"]);
    let claim = run.of_rule("store-claim");
    assert_eq!(claim.len(), 1);
    let outer = &claim[0]["outer"][0];
    assert_eq!((&outer["kind"], &outer["id"]), (&json!("vxlan"), &json!(42)));
    assert!(claim[0]["target"]["address"].as_str().unwrap().starts_with("198.51.100."));
}
