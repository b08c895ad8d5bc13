//! Gloo: what strangers did to the listeners of real jobs is told, and nothing else is, by the built binary.

mod common;

use common::analyze;
use serde_json::Value;

/// What `analyze` says of a recording of `gloo-strays`.
fn report(name: &str) -> Value {
    analyze(&[format!("gloo-strays/{name}.pcap")]).json
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

fn gloo(report: &Value) -> Vec<&Value> {
    report["findings"].as_array().unwrap().iter().filter(|f| text(&f["rule"]).starts_with("gloo-")).collect()
}

fn listeners(report: &Value) -> Vec<&Value> {
    report["listeners"].as_array().unwrap().iter().filter(|l| l["protocol"] == "gloo").collect()
}

#[test]
fn a_pair_that_a_stranger_took_ends_the_group() {
    for (name, port, packet) in [("1.13-pre_close", 40017, 245), ("1.13-pre_rst", 36687, 241)] {
        let report = report(name);
        let [f] = gloo(&report)[..] else { panic!("{name}: {:#}", report["findings"]) };
        assert_eq!((text(&f["rule"]), text(&f["severity"])), ("gloo-stray-took-pair", "critical"), "{f:#}");
        assert_eq!((&f["target"]["port"], &f["packet"]), (&port.into(), &packet.into()), "{f:#}");
        assert_eq!(f["source"]["address"], "192.0.2.250");
        let refused = text(&f["explanation"]).contains("192.0.2.13 came 0.9 s later and was refused");
        assert_eq!(refused, name == "1.13-pre_close", "{f:#}");
        let incidents = report["incidents"].as_array().unwrap();
        let [incident] = &incidents[..] else { panic!("{incidents:#?}") };
        assert_eq!(incident["kind"], "gloo-group");
        assert_eq!(text(&incident["verdict"]), if refused { "confirmed" } else { "probable" });
        assert!(listeners(&report).iter().all(|l| l["version"] == "PyTorch 1.4–2.0"), "{name}");
    }
}

#[test]
fn the_number_of_a_member_that_had_not_come() {
    for (name, port, packet) in [("2.4-pre_seq2", 41759, 119), ("2.15-pre_seq2", 35925, 135)] {
        let report = report(name);
        let all = gloo(&report);
        let found = all.iter().find(|f| f["rule"] == "gloo-number-by-stranger");
        let f = found.unwrap_or_else(|| panic!("{name}: {:#}", report["findings"]));
        assert_eq!((text(&f["severity"]), &f["bytes_hex"]), ("critical", &"0200000000000000".into()), "{f:#}");
        assert_eq!((&f["target"]["port"], &f["packet"]), (&port.into(), &packet.into()), "{f:#}");
        assert!(all.iter().all(|f| f["rule"] == "gloo-number-by-stranger" || f["severity"] != "warning"), "{all:#?}");
        assert_eq!(report["incidents"][0]["verdict"], "confirmed");
    }
}

/// Measured in `/proc/PID/fd` of the real ranks.
#[test]
fn descriptors_are_counted_as_the_release_loses_them() {
    for (name, lost, severity) in [
        ("2.15-steady_close-ten-times", 10, "warning"),
        ("2.15-steady_nmap-sV", 31, "warning"),
        ("2.4-steady_nmap-sV", 20, "notice"),
    ] {
        let report = report(name);
        let [f] = gloo(&report)[..] else { panic!("{name}: {:#}", report["findings"]) };
        assert_eq!((text(&f["rule"]), text(&f["severity"])), ("gloo-descriptors-lost", severity), "{f:#}");
        assert_eq!(f["occurrences"], lost, "{f:#}");
        assert!(text(&f["explanation"]).contains(&format!("Strangers cost it {lost} so far, of 1024")), "{f:#}");
    }
}

#[test]
fn what_hurts_nothing_is_not_told() {
    for name in [
        "1.13-pre_nmap-sS",
        "1.13-steady_nmap-sT",
        "1.13-store_none",
        "2.4-pre_rst",
        "2.4-steady_close-ten-times",
        "2.4-steady_onebyte",
        "2.4-steady_none",
        "2.4-tear-none",
        "2.15-steady_none",
    ] {
        let report = report(name);
        assert!(gloo(&report).is_empty(), "{name}: {:#}", report["findings"]);
        assert!(!listeners(&report).is_empty(), "{name}: no listener");
    }
}

/// A job of Debian's PyTorch 1.13 whose third rank came late to a second group, under `nmap -sT` of two of its hosts.
#[test]
fn a_connect_scan_while_a_rank_is_late_is_one_incident() {
    let place = |name: &str| format!("gloo-late-rank/{name}");
    let captures = ["node-a.pcap", "node-b.pcap", "node-c.pcap"].map(place);
    let logs = common::data("gloo-late-rank/logs");
    let hosts = common::data("gloo-late-rank/hosts");
    let flags = ["--hosts", hosts.to_str().unwrap(), "--oom", logs.to_str().unwrap()].map(str::to_string);
    let report = analyze(&[&captures[..], &flags[..]].concat()).json;
    let [incident] = &report["incidents"].as_array().unwrap()[..] else { panic!("{:#}", report["incidents"]) };
    let hosts: Vec<&str> = incident["hosts"].as_array().unwrap().iter().map(|h| text(&h["host"])).collect();
    assert_eq!((incident["kind"].as_str(), hosts), (Some("gloo-group"), vec!["node-a", "node-b"]));
    assert_eq!(incident["source"]["address"], "192.0.2.250", "{incident:#}");
    let taken: Vec<(u64, u64)> =
        gloo(&report).iter().map(|f| (f["target"]["port"].as_u64().unwrap(), f["packet"].as_u64().unwrap())).collect();
    assert_eq!(taken, [(41659, 176), (35579, 295)]);
    let lags: Vec<Option<f64>> =
        incident["hosts"].as_array().unwrap().iter().map(|h| h["lag_seconds"].as_f64()).collect();
    assert!(lags[0].is_some_and(|l| (3.0..4.0).contains(&l)) && lags[1].is_none(), "node-b's failure is in no capture");
    // What the ranks' own logs say of the same connections: 35579 and 64394 are one number with its bytes swapped.
    let evidence = common::joined(&gloo(&report)[1]["evidence"]);
    assert!(evidence.contains("connect [192.0.2.11]:64394: Connection refused (Gloo prints"), "{evidence}");
    assert!(evidence.contains("[192.0.2.250]:10381: Connection reset by peer"), "{evidence}");
    assert!(evidence.contains("64394 is 35579"), "{evidence}");
    // A kernel's SYNs have every number some time, ZMap's mark among them.
    assert!(report["scans"][0]["tool"].is_null(), "{}", report["scans"]);
}
