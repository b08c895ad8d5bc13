//! The recorded incident: a version scan, three stores, three kills.

mod common;

use common::{
    COOKIE_CLAIM, LOGS, NODES, Run, TERMINAL_CLAIM, analyze, args, data, joined, move_port, table, unwrapped,
};
use serde_json::{Value, json};

const SCANNER: &str = "incident-torch1.13/scanner.pcap";

struct Host {
    name: &'static str,
    address: &'static str,
    packet: u64,
    at_scanner: u64,
    time: &'static str,
    killed: &'static str,
    pid: u64,
    lag: f64,
    gone: &'static str,
}

const HOSTS: [Host; 3] = [
    Host {
        name: "node-a",
        address: "192.0.2.11",
        packet: 411,
        at_scanner: 237,
        time: "2026-11-29T11:20:10.652448000Z",
        killed: "2026-11-29T11:20:49.653666000Z",
        pid: 10267,
        lag: 39.0,
        gone: "2026-11-29T11:20:52.4",
    },
    Host {
        name: "node-b",
        address: "192.0.2.12",
        packet: 412,
        at_scanner: 222,
        time: "2026-11-29T11:20:10.634682000Z",
        killed: "2026-11-29T11:20:39.381744000Z",
        pid: 10273,
        lag: 28.7,
        gone: "2026-11-29T11:20:41.44",
    },
    Host {
        name: "node-c",
        address: "192.0.2.13",
        packet: 410,
        at_scanner: 208,
        time: "2026-11-29T11:20:10.617957000Z",
        killed: "2026-11-29T11:21:08.153166000Z",
        pid: 10279,
        lag: 57.5,
        gone: "2026-11-29T11:21:11.45",
    },
];

fn seconds(time: &Value) -> f64 {
    let clock: Vec<f64> =
        time.as_str().unwrap()[11..].trim_end_matches('Z').split(':').map(|p| p.parse().unwrap()).collect();
    clock[0] * 3600.0 + clock[1] * 60.0 + clock[2]
}

/// What stands in every report of the whole incident, whoever's capture is beside the three.
fn is_the_incident(run: &Run) {
    assert_eq!(run.status, 1, "{}", run.stderr);
    let incident = run.incident();
    for (field, value) in [("kind", "oom"), ("scope", "synchronized"), ("verdict", "confirmed"), ("cause", "scan")] {
        assert_eq!(incident[field], value);
    }
    assert_eq!(incident["source"]["address"], "192.0.2.250");
    assert_eq!(incident["source"]["label"], "scanner");
    assert_eq!(incident["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(run.json["oom_events"].as_array().unwrap().len(), 3, "two kills stand in two logs");
    for field in ["oom_hosts", "observed"] {
        assert_eq!(run.json["coverage"][field], 3);
    }
    for h in &HOSTS {
        let (part, trigger) = (run.host(h.name), run.trigger(h.name));
        assert_eq!((&part["verdict"], &part["coverage"]), (&json!("confirmed"), &json!("observed")));
        assert!((part["lag_seconds"].as_f64().unwrap() - h.lag).abs() < 0.05, "{}", part["lag_seconds"]);
        let gone = seconds(&part["listener_died_at"]) - seconds(&json!(h.gone));
        assert!(gone.abs() < 0.011, "{}: {}", h.name, part["listener_died_at"]);
        assert_eq!(trigger["rule"], "store-claim");
        assert_eq!(trigger["capture"], format!("incident-torch1.13/{}.pcap", h.name));
        assert_eq!((&trigger["packet"], &trigger["time"]), (&json!(h.packet), &json!(h.time)));
        assert_eq!((&trigger["query"], &trigger["declared"]["bytes"]), (&json!("ADD"), &json!(COOKIE_CLAIM)));
        assert_eq!(trigger["stray"]["probe"], "TerminalServerCookie");
        assert_eq!((&trigger["dialect"], &trigger["severity"]), (&json!("B"), &json!("critical")));
        assert_eq!(trigger["source"]["address"], "192.0.2.250");
        assert_eq!((&trigger["target"]["address"], &trigger["target"]["port"]), (&json!(h.address), &json!(29500)));
        assert_eq!(trigger["effect"]["outcome"], "allocates");
        assert_eq!(trigger["effect"]["allocates_bytes"], COOKIE_CLAIM);
        assert!(trigger["bytes_hex"].as_str().unwrap().starts_with("0300002a25e00000000000436f6f6b6965"));
        let event = &run.json["oom_events"].as_array().unwrap().iter().find(|e| e["host"] == h.name).unwrap();
        assert_eq!((&event["time"], &event["pid"]), (&json!(h.killed), &json!(h.pid)));
        assert_eq!(event["total_vm_bytes"], 941_138_648_u64 * 1024);
        assert_eq!(part["oom_event"], event["id"]);
        assert!(joined(&part["reasons"]).contains("941138648 kB"), "total-vm is held against the claim");
        let lesser: Vec<_> = run.of_rule("store-lesser-claim");
        let lesser: Vec<_> = lesser.iter().filter(|f| f["target"]["address"] == h.address).collect();
        assert_eq!(lesser.len(), 1);
        assert_eq!((&lesser[0]["severity"], &lesser[0]["query"]), (&json!("warning"), &json!("SET")));
        assert_eq!(lesser[0]["declared"]["bytes"], 268_435_468);
        assert_eq!(lesser[0]["stray"]["probe"], "DNSStatusRequestTCP");
    }
    let late = run.findings().iter().find(|f| f["packet"] == 513).expect("513 is flagged");
    assert_eq!((&late["rule"], &late["declared"]["bytes"]), (&json!("store-claim"), &json!(TERMINAL_CLAIM)));
    assert_eq!(late["stray"]["probe"], "TerminalServer");
    assert!(incident["hosts"].as_array().unwrap().iter().all(|h| h["trigger"] != late["id"]));
    let dns_of_a = run.of_rule("store-lesser-claim").into_iter().find(|f| f["target"]["host"] == "node-a").unwrap();
    assert_eq!(dns_of_a["packet"], 387);
}

#[test]
fn three_hosts_are_one_failure() {
    let run = analyze(&args(&[&NODES, &LOGS]));
    is_the_incident(&run);
    assert!(run.findings().iter().all(|f| f["sightings"].as_array().unwrap().is_empty()));
    let two_logs = |e: &&Value| {
        let paths: std::collections::BTreeSet<_> =
            e["sources"].as_array().unwrap().iter().map(|s| s["path"].as_str().unwrap()).collect();
        paths.len() == 2
    };
    assert_eq!(run.json["oom_events"].as_array().unwrap().iter().filter(two_logs).count(), 2);
}

#[test]
fn the_table_leads_with_verdict_and_coverage() {
    let (status, text) = table(&args(&[&NODES, &LOGS]));
    assert_eq!(status, 1);
    assert!(text.starts_with("CONFIRMED"), "{text}");
    assert!(text.lines().take(4).any(|l| l.contains("3 of 3 OOM hosts observed")), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "wider than 100 columns");
    let text = unwrapped(&text);
    for part in ["node-a.pcap #411", "node-b.pcap #412", "node-c.pcap #410", "962 696 183 808", "TerminalServerCookie"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["39.0 s", "28.7 s", "57.5 s", "192.0.2.250", "0.96 TB, 0.876 TiB", "pid 10267", "941138648 kB"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let ascii = common::command().arg("analyze").args(args(&[&NODES, &LOGS])).env("LC_ALL", "C").output().unwrap();
    assert!(ascii.stdout.is_ascii(), "borders are ASCII where the locale is not UTF-8");
}

#[test]
fn a_second_vantage_point_is_a_sighting() {
    let run = analyze(&args(&[&NODES, &[SCANNER], &LOGS]));
    is_the_incident(&run);
    let seen = |packet: u64| json!([{"capture": SCANNER, "packet": packet}]);
    for h in &HOSTS {
        assert_eq!(run.trigger(h.name)["sightings"], seen(h.at_scanner));
    }
    assert_eq!(run.findings().iter().find(|f| f["packet"] == 513).unwrap()["sightings"], seen(435));
    let without = analyze(&args(&[&NODES, &LOGS]));
    let ids = |r: &Run| r.findings().iter().map(|f| f["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&run), ids(&without), "a finding is the same in every capture");
    assert_eq!(run.incident()["id"], without.incident()["id"]);
}

#[test]
fn order_and_threads_change_nothing() {
    let paths = [NODES[0], NODES[1], NODES[2], SCANNER];
    let conclusions = |order: [usize; 4]| {
        let run = analyze(&args(&[&order.map(|i| paths[i]), &LOGS]));
        let keys = ["coverage", "listeners", "scans", "findings", "oom_events", "incidents", "totals", "notes"];
        keys.map(|k| (k, serde_json::to_string_pretty(&run.json[k]).unwrap()))
    };
    let first = conclusions([0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        for ((key, was), (_, is)) in first.iter().zip(conclusions(order)) {
            let other = was.lines().zip(is.lines()).find(|(a, b)| a != b);
            assert_eq!(other, None, "{key} of {order:?}");
            assert_eq!(was.len(), is.len());
        }
    }
    let bytes = |threads: &str| {
        let run = analyze(&args(&[&paths, &LOGS, &["--threads", threads]]));
        let mut json = run.json;
        json["arguments"] = Value::Null;
        serde_json::to_vec(&json).unwrap()
    };
    assert_eq!(bytes("1"), bytes("2"));
    assert_eq!(
        table(&args(&[&paths, &LOGS, &["--threads", "1"]])),
        table(&args(&[&paths, &LOGS, &["--threads", "2"]]))
    );
}

#[test]
fn the_scanners_view_leaves_the_dialect_open() {
    let run = analyze(&args(&[&[SCANNER], &LOGS]));
    assert_eq!(run.status, 1);
    assert_eq!(run.incident()["cause"], "scan");
    for h in &HOSTS {
        let trigger = run.trigger(h.name);
        assert_eq!((&trigger["capture"], &trigger["packet"]), (&json!(SCANNER), &json!(h.at_scanner)));
        assert_eq!(trigger["dialect"], Value::Null);
        assert_eq!(trigger["dialect_candidates"], json!(["A0", "A1", "B", "C"]));
        let dialects: Vec<_> = trigger["effects"].as_array().unwrap().iter().map(|e| &e["dialect"]).collect();
        assert!(["A0", "A1", "B", "C"].iter().all(|d| dialects.contains(&&json!(d))), "an effect for each");
        assert_eq!((&trigger["query"], &trigger["declared"]["bytes"]), (&json!("ADD"), &json!(COOKIE_CLAIM)));
        let evidence = joined(&trigger["evidence"]);
        assert!(evidence.contains("total-vm") && evidence.contains("ADD"), "{evidence}");
    }
    assert!(run.json["coverage"]["observed"] == 0, "a scanner's capture is no watch over the hosts");
}

#[test]
fn one_unfiltered_host_is_confirmed() {
    let run = analyze(&args(&[&["incident-torch1.13/node-b-unfiltered.pcap.zst"], &LOGS]));
    assert_eq!(run.status, 1);
    assert_eq!(run.host("node-b")["verdict"], "confirmed");
    assert_eq!((&run.trigger("node-b")["packet"], &run.trigger("node-b")["dialect"]), (&json!(11862), &json!("B")));
    let alone = analyze(&args(&[
        &["incident-torch1.13/node-b-unfiltered.pcap.zst", "--hosts", "hosts"],
        &["--oom", "incident-torch1.13/logs/node-b.dmesg-iso"],
    ]));
    assert_eq!(
        (&alone.incident()["scope"], &alone.incident()["verdict"]),
        (&json!("single-host"), &json!("confirmed"))
    );
}

#[test]
fn a_store_on_another_port_is_found_untold() {
    let dir = tempfile::tempdir().unwrap();
    let paths = NODES.map(|n| {
        let mut bytes = std::fs::read(data(n)).unwrap();
        move_port(&mut bytes, 29500, 23999);
        let path = dir.path().join(n.rsplit('/').next().unwrap());
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    });
    let run = analyze(&args(&[&paths.each_ref().map(String::as_str), &LOGS]));
    assert_eq!(run.status, 1);
    assert_eq!((&run.incident()["verdict"], &run.incident()["scope"]), (&json!("confirmed"), &json!("synchronized")));
    for h in &HOSTS {
        let trigger = run.trigger(h.name);
        assert_eq!((&trigger["packet"], &trigger["target"]["port"]), (&json!(h.packet), &json!(23999)));
        assert_eq!(trigger["declared"]["bytes"], COOKIE_CLAIM);
        assert_eq!(run.listener((h.address, 23999))["dialect"], "B");
    }
    // These hosts left checksums to their cards, so what was in their place is wrong now; that drops nothing.
    assert!(run.json["totals"]["bad_checksums"].as_u64().unwrap() > 0);
}
