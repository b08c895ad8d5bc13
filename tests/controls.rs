//! What must not be flagged, and what a scan of a single store must show.

mod common;

use common::{COOKIE_CLAIM, TERMINAL_CLAIM, analyze, args, joined, table, unwrapped};
use serde_json::json;

#[test]
fn clean_runs_are_clean() {
    let sets: [&[&str]; 14] = [
        &[
            "torchrun/node-a.pcap",
            "torchrun/node-b.pcap",
            "torchrun/node-c-rot-20261129-112916.pcap",
            "torchrun/node-c-rot-20261129-112932.pcap",
            "torchrun/node-c-rot-20261129-112942.pcap",
            "torchrun/node-c-rot-20261129-112952.pcap",
            "torchrun/node-c-rot-20261129-113002.pcap",
        ],
        &["torchrun", "--hosts", "hosts"],
        &["torchrun/elastic-1.9.0-loopback.pcap"],
        &["gloo/gloo-1.4.0.pcap"],
        &["gloo/gloo-1.8.0.pcap"],
        &["gloo/gloo-2.10.0.pcap"],
        &["api/store-api-1.4.0.pcap"],
        &["api/store-api-1.13.0.pcap"],
        &["api/store-api-2.1.2.pcap"],
        &["api/store-api-2.2.2.pcap"],
        &["api/store-api-2.15.0.pcap"],
        &["nccl/2.26.2-real-4ranks-netsocket.pcap"],
        &["store-and-nccl/torch2.15-nccl2.26-node-a.pcap"],
        &["gloo", "api/store-api-2.2.2.pcap", "torchrun/node-a.pcap"],
    ];
    for set in sets {
        let run = analyze(set);
        assert_eq!(run.grave(), Vec::<&serde_json::Value>::new(), "{set:?}");
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{set:?}");
        assert_eq!(run.json["incidents"], json!([]), "{set:?}");
    }
}

#[test]
fn versions_are_told_apart() {
    // The capture, the store's endpoint, the dialects that remain, whether it validates.
    type Store = (&'static str, (&'static str, u64), &'static [&'static str], bool);
    let stores: [Store; 9] = [
        ("api/store-api-1.4.0.pcap", ("127.0.0.1", 29500), &["A0", "A1"], false),
        ("api/store-api-1.13.0.pcap", ("127.0.0.1", 29500), &["B"], false),
        ("api/store-api-2.1.2.pcap", ("127.0.0.1", 29500), &["C"], false),
        ("api/store-api-2.2.2.pcap", ("127.0.0.1", 29500), &["D"], true),
        ("api/store-api-2.15.0.pcap", ("127.0.0.1", 29500), &["D"], true),
        ("gloo/gloo-2.10.0.pcap", ("127.0.0.1", 29512), &["D"], true),
        ("torchrun/elastic-1.9.0-loopback.pcap", ("127.0.0.1", 29513), &["B"], false),
        ("torchrun/node-a.pcap", ("192.0.2.11", 29400), &["D"], true),
        ("torchrun/node-a.pcap", ("192.0.2.11", 33281), &["D"], true),
    ];
    for (capture, endpoint, dialects, validates) in stores {
        let run = analyze(&[capture]);
        let listener = run.listener(endpoint);
        assert_eq!((&listener["protocol"], &listener["role"]), (&json!("tcpstore"), &json!("store")), "{capture}");
        assert_eq!(listener["validates"], validates, "{capture}");
        assert_eq!(listener["dialect_candidates"], json!(dialects), "{capture}");
    }
}

#[test]
fn a_client_may_take_its_time_for_its_second_connection() {
    // Three stores of PyTorch 1.13.0. On node-b its own client is seen too, over loopback: it opens its second, silent
    // connection 1.28 s after the first (packets 6 and 946), when the other ranks have come.
    for capture in ["links/node-b-any-sll2.pcap", "links/three-interfaces.pcapng"] {
        let run = analyze(&[capture]);
        for host in ["192.0.2.11", "192.0.2.12", "192.0.2.13"] {
            assert_eq!(run.listener((host, 29500))["dialect_candidates"], json!(["B"]), "{capture}: {host}");
        }
    }
}

#[test]
fn the_same_scan_harms_no_store_that_validates() {
    let survivors = ["survivors-torch2.15", "--hosts", "hosts"];
    let run = analyze(&survivors);
    assert_eq!((run.status, &run.json["incidents"]), (0, &json!([])));
    assert_eq!(run.grave(), Vec::<&serde_json::Value>::new());
    let scans = run.json["scans"].as_array().unwrap();
    assert_eq!(scans.len(), 1);
    assert_eq!((&scans[0]["source"]["address"], &scans[0]["tool"]), (&json!("192.0.2.250"), &json!("nmap")));
    assert_eq!((&scans[0]["hosts"], &scans[0]["ports"]), (&json!(3), &json!(3)));
    for host in ["192.0.2.11", "192.0.2.12", "192.0.2.13"] {
        let listener = run.listener((host, 29500));
        assert_eq!((&listener["validates"], &listener["dialect"]), (&json!(true), &json!("D")));
        assert_eq!(listener["backend"], "libuv");
    }
    let (status, text) = table(&survivors);
    assert_eq!(status, 0);
    let text = unwrapped(&text);
    assert!(!text.contains("CONFIRMED") && !text.contains("critical"), "{text}");
    assert!(text.contains("192.0.2.250") && text.contains("nmap, version scan"), "{text}");
}

#[test]
fn strays_that_do_no_harm_stay_below_warning() {
    for name in
        ["scans/syn-only", "scans/badsum", "scans/decoy", "scans/curl", "scans/tls", "other-strangers/health-check"]
    {
        let run = analyze(&[format!("{name}.pcap"), "--hosts".into(), "hosts".into()]);
        assert_eq!((run.status, run.grave().len()), (0, 0), "{name}: {:#?}", run.grave());
        assert_eq!(run.json["incidents"], json!([]), "{name}");
    }
    let foreign = |name: &str| {
        let run = analyze(&[name]);
        assert_eq!(run.findings().len(), 1, "{name}");
        assert_eq!(run.findings()[0]["rule"], "foreign-protocol");
        run.findings()[0]["stray"]["protocol"].as_str().unwrap().to_string()
    };
    assert!(foreign("scans/curl.pcap").starts_with("HTTP"));
    assert!(foreign("scans/tls.pcap").starts_with("TLS"));
    // Of three sources two are forged: only the real one closed its half-open connection.
    let decoy = analyze(&["scans/decoy.pcap"]);
    assert_eq!(decoy.of_rule("syn-scan").len(), 1);
    assert_eq!(decoy.of_rule("syn-scan")[0]["source"]["address"], "192.0.2.250");
    let health = analyze(&["other-strangers/health-check.pcap"]);
    assert_eq!(health.of_rule("connect-and-close")[0]["occurrences"], 5);
}

#[test]
fn wrong_checksums_are_counted() {
    // The two SYNs that nmap --badsum spoilt. tshark calls all eight segments of netcat.pcap wrong too: they hold the
    // sum over the pseudo-header that a sending host leaves for its card to finish, which is told from a wrong one.
    let bad = |name: &str| analyze(&[name]).json["totals"]["bad_checksums"].as_u64().unwrap();
    assert_eq!(bad("scans/netcat.pcap"), 0);
    assert_eq!(bad("scans/badsum.pcap"), 2);
}

#[test]
fn a_scan_of_a_lone_store_keeps_its_candidates() {
    let scans = [
        ("ipv6-version-scan", 72, "2001:db8::11", COOKIE_CLAIM, "TerminalServerCookie"),
        ("frag-version-scan", 68, "192.0.2.11", COOKIE_CLAIM, "TerminalServerCookie"),
        ("netcat", 4, "192.0.2.11", TERMINAL_CLAIM, "TerminalServer"),
    ];
    for (name, packet, target, claim, probe) in scans {
        let run = analyze(&[format!("scans/{name}.pcap")]);
        assert_eq!(run.status, 1, "{name}");
        let claims = run.of_rule("store-claim");
        assert_eq!(claims.len(), 1, "{name}");
        let f = claims[0];
        assert_eq!((&f["packet"], &f["severity"]), (&json!(packet), &json!("critical")), "{name}");
        assert_eq!((&f["target"]["address"], &f["stray"]["probe"]), (&json!(target), &json!(probe)), "{name}");
        assert_eq!(f["dialect"], serde_json::Value::Null, "no client tells the version: {name}");
        let reading = f["effects"].as_array().unwrap().iter().find(|e| e["dialect"] == "B").expect("candidate B");
        assert_eq!((&reading["outcome"], &reading["allocates_bytes"]), (&json!("allocates"), &json!(claim)), "{name}");
    }
}

#[test]
fn a_refused_claim_is_a_warning() {
    // The store on an odd port is one because the user says so.
    let run = analyze(&["scans/nmap-sV-1.9.0-poll.pcap", "--port", "39845,57000-57300"]);
    assert_eq!(run.status, 1);
    let refused = run.of_rule("store-claim-refused");
    let begins = |f: &&serde_json::Value| f["bytes_hex"].as_str().unwrap()[..8].to_string();
    assert_eq!(refused.iter().map(begins).collect::<Vec<_>>(), ["0300002a", "0300000b"]);
    assert!(refused.iter().all(|f| f["severity"] == "warning"));
    assert!(run.findings().iter().all(|f| f["severity"] != "critical"));
    assert_eq!(run.json["incidents"], json!([]));
    let untold = analyze(&["scans/nmap-sV-1.9.0-poll.pcap"]);
    assert_eq!((untold.status, untold.findings().len()), (0, 0));
    assert!(untold.notes().contains("No stream of a known protocol"), "{}", untold.notes());
}

#[test]
fn mixed_versions_are_a_cause_without_a_scan() {
    const CAPTURE: &str = "other-strangers/client2.2-on-store1.13.pcap";
    let log = ["--oom", "node-a=other-strangers/client2.2-on-store1.13.dmesg-iso", "--hosts", "hosts"];
    let run = analyze(&args(&[&[CAPTURE], &log]));
    assert_eq!(run.status, 1);
    let incident = run.incident();
    assert_eq!((&incident["cause"], &incident["scope"]), (&json!("version-mismatch"), &json!("single-host")));
    assert_eq!(incident["source"]["address"], "192.0.2.12");
    let f = run.trigger("node-a");
    assert_eq!((&f["rule"], &f["severity"]), (&json!("version-mismatch"), &json!("critical")));
    assert_eq!((&f["packet"], &f["packets"]), (&json!(6), &json!([4, 6])));
    assert_eq!((&f["query"], &f["declared"]["bytes"]), (&json!("SET"), &json!(5_515_753_420_750_u64)));
    assert_eq!(run.json["scans"], json!([]));
    assert!(joined(&run.host("node-a")["reasons"]).contains("total-vm"));
    // The same mistake with a length that no address space holds: refused, and nobody dies.
    let refused = analyze(&["other-strangers/client2.15-on-store1.13.pcap"]);
    assert_eq!((refused.status, refused.grave().len()), (0, 0));
    assert!(refused.of_rule("version-mismatch").iter().all(|f| f["severity"] == "notice"));
    assert!(!refused.of_rule("version-mismatch").is_empty());
}

#[test]
fn ordinary_services_are_no_stores_and_raise_nothing() {
    for capture in ["ordinary/services.pcap", "ordinary/postgresql.pcap"] {
        let run = analyze(&[capture]);
        assert_eq!((run.status, run.findings().len()), (0, 0), "{capture}");
        assert_eq!(run.json["listeners"], json!([]), "{capture}");
    }
}

#[test]
fn a_store_client_at_another_service_is_pointed_out() {
    let run = analyze(&["ordinary/store-clients-at-strangers.pcap"]);
    let found: Vec<_> = run
        .of_rule("foreign-server")
        .iter()
        .map(|f| (f["packet"].clone(), f["source"]["port"].clone(), f["stray"]["protocol"].clone()))
        .collect();
    assert_eq!(found, [(json!(8), json!(18001), json!("text")), (json!(18), json!(18005), json!("SSH"))]);
    assert!(run.findings().iter().all(|f| f["severity"] != "critical"), "only the clients say that these are stores");
}

#[test]
fn every_scan_is_one_object_with_its_tool() {
    for (capture, tool, profile) in [
        ("scans/curl.pcap", json!("curl"), "one connection"),
        ("scans/decoy.pcap", json!("nmap"), "SYN scan"),
        ("scans/frag-version-scan.pcap", json!("nmap"), "version scan"),
        ("scans/ipv6-version-scan.pcap", json!("nmap"), "version scan"),
        ("scans/netcat.pcap", json!("nmap"), "one connection"),
        ("scans/syn-only.pcap", json!("nmap"), "SYN scan"),
        ("scans/tls.pcap", json!(null), "one connection"),
    ] {
        let scans = analyze(&[capture]).json["scans"].clone();
        assert_eq!(scans.as_array().unwrap().len(), 1, "{capture}");
        assert_eq!((&scans[0]["tool"], &scans[0]["profile"]), (&tool, &json!(profile)), "{capture}");
    }
}
