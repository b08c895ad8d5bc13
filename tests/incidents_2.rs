//! Four recorded incidents with real kills at the limits of cgroups, each held against its truth row by row; and the same kill told
//! beside another process's.

mod common;

use common::{Run, analyze, args, data, joined, table, unwrapped};
use serde_json::{Value, json};

fn time(v: &Value) -> f64 {
    chrono::DateTime::parse_from_rfc3339(v.as_str().unwrap()).unwrap().timestamp_nanos_opt().unwrap() as f64 / 1e9
}

fn truth(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data("incidents-2").join(name).join("truth.json")).unwrap()).unwrap()
}

fn run(name: &str, more: &[&str]) -> Run {
    let place = format!("incidents-2/{name}");
    analyze(&args(&[&[place.as_str(), "--hosts", "hosts"], more]))
}

/// The event, the part and the incident of a kill.
fn of_kill<'a>(run: &'a Run, kill: &Value) -> (&'a Value, &'a Value, &'a Value) {
    let event = run.json["oom_events"].as_array().unwrap().iter().find(|e| e["pid"] == kill["pid"]).expect("the kill");
    let incidents = run.json["incidents"].as_array().unwrap().iter();
    let mut parts = incidents.flat_map(|i| i["hosts"].as_array().unwrap().iter().map(move |h| (i, h)));
    let (incident, part) = parts.find(|(_, h)| h["oom_event"] == event["id"]).expect("its part");
    (event, part, incident)
}

/// Every kill against its row: the trigger's very packet, and bounds of time and lag that hold.
fn holds(run: &Run, truth: &Value) {
    for kill in truth["kills"].as_array().unwrap() {
        let (event, part, _) = of_kill(run, kill);
        assert_eq!(part["host"], kill["host"]);
        let off = (time(&event["time"]) - time(&kill["time"])).abs();
        assert!(off <= event["uncertainty_seconds"].as_f64().unwrap() + 1e-3, "{event:#} {kill:#}");
        let due = truth["triggers"].as_array().unwrap().iter().find(|t| {
            t["host"] == kill["host"]
                && t["round"] == kill["round"]
                && t["probe"] == kill["caused_by"]
                && !t["frame"].is_null()
        });
        let Some(due) = due else {
            assert_eq!(part["trigger"], Value::Null, "{part:#}");
            continue;
        };
        let trigger = run.finding(&part["trigger"]);
        let capture = due["capture"].as_str().unwrap();
        assert!(trigger["capture"].as_str().unwrap().ends_with(capture), "{trigger:#}");
        assert_eq!((&trigger["packet"], &trigger["declared"]["bytes"]), (&due["frame"], &due["declared_bytes"]));
        let off = (part["lag_seconds"].as_f64().unwrap() - kill["lag_s"].as_f64().unwrap()).abs();
        assert!(off <= part["lag_uncertainty_seconds"].as_f64().unwrap() + 2e-3, "{part:#} {kill:#}");
        assert!(!joined(&part["reasons"]).contains(" -"), "no printed latency is negative: {part:#}");
    }
}

#[test]
fn a_store_that_is_killed_a_moment_after_the_claim_was_not_refused() {
    let run = run("fast", &["--boot", "node-a=2026-11-30T20:18:58.201387Z"]);
    let truth = truth("fast");
    holds(&run, &truth);
    assert_eq!((&run.incident()["scope"], &run.incident()["verdict"]), (&json!("synchronized"), &json!("confirmed")));
    for host in ["node-a", "node-b", "node-c"] {
        assert_eq!(run.host(host)["verdict"], "confirmed", "{:#}", run.host(host));
        assert!(!run.host(host)["listener_died_at"].is_null());
        assert!(joined(&run.host(host)["reasons"]).contains("limit of its memory cgroup"));
    }
    assert!(run.of_rule("store-claim-refused").is_empty());
    let summary = run.incident()["summary"].as_str().unwrap();
    assert!(summary.contains("(to node-a)") && summary.contains("(to node-b and node-c)"), "{summary}");
}

#[test]
fn what_the_listener_survived_is_refused_and_a_leak_beside_it_is_another_matter() {
    let boot = |host: &str| format!("{host}=2026-11-30T20:18:58.201734Z");
    let run = run("refused", &["--boot", &boot("node-a"), "--boot", &boot("node-b"), "--log-tz", "UTC"]);
    let truth = truth("refused");
    holds(&run, &truth);
    let (_, part, incident) = of_kill(&run, &truth["kills"][0]);
    assert_eq!((&part["verdict"], &incident["scope"]), (&json!("confirmed"), &json!("single-host")));
    let survivors: Vec<&str> =
        incident["survivors"].as_array().unwrap().iter().map(|s| s["host"].as_str().unwrap()).collect();
    assert_eq!(survivors, ["node-a", "node-c"]);
    let (_, part, leak) = of_kill(&run, &truth["kills"][1]);
    assert_eq!((&part["verdict"], &leak["source"]), (&json!("unexplained"), &Value::Null));
    let why = joined(&part["reasons"]);
    assert!(why.contains("was refused, and its listener lived on") && why.contains("lived on and was active"), "{why}");
    assert!(!why.contains("no claim") && !leak["summary"].as_str().unwrap().contains("No claim"), "{why}");
    for (host, claims) in truth["refused_claims"].as_object().unwrap() {
        for claim in claims.as_array().unwrap() {
            let refused = run.of_rule("store-claim-refused").into_iter().any(|f| {
                f["capture"].as_str().unwrap().ends_with(&format!("{host}.pcap")) && f["packet"] == claim["frame"]
            });
            assert!(refused, "{host} {claim}");
        }
    }
}

#[test]
fn a_store_that_starts_again_on_its_port_is_another_life() {
    let run = run("restart", &["--boot", "node-a=2026-11-30T20:18:58.201658Z", "--log-tz", "UTC"]);
    holds(&run, &truth("restart"));
    assert_eq!(run.incident()["hosts"].as_array().unwrap().len(), 6);
    assert_eq!((&run.incident()["verdict"], &run.json["coverage"]["oom_hosts"]), (&json!("confirmed"), &json!(3)));
    let summary = run.incident()["summary"].as_str().unwrap();
    assert!(summary.starts_with("3 hosts (node-a, node-b and node-c) lost 6 processes"), "{summary}");
    let (_, text) = table(&["incidents-2/restart", "--hosts", "hosts", "--boot", "node-a=2026-11-30T20:18:58.201658Z"]);
    assert!(unwrapped(&text).contains("one synchronized failure of 3 hosts"), "{text}");
}

#[test]
fn a_capture_of_one_direction_certifies_nothing_and_accuses_nobody() {
    let run = run("oneway", &["--boot", "node-c=2026-11-30T20:18:58.201469Z"]);
    holds(&run, &truth("oneway"));
    assert_eq!(run.host("node-c")["verdict"], "confirmed");
    let why = |host: &str| joined(&run.host(host)["reasons"]);
    assert_eq!(run.host("node-a")["verdict"], "probable");
    assert!(!why("node-a").contains("sent nothing on any connection"), "{}", why("node-a"));
    let of_b = &run.host("node-b")["verdict"];
    assert!(of_b == "possible" || of_b == "unexplained", "{of_b}");
    assert!(why("node-b").contains("one direction"), "{}", why("node-b"));
    for f in run.grave() {
        let client = f["source"]["address"].as_str().unwrap();
        assert!(client == "192.0.2.250" || f["rule"] == "listener-died", "an honest rank is accused: {f:#}");
    }
    for l in run.json["listeners"].as_array().unwrap().iter().filter(|l| l["protocol"] == "tcpstore") {
        assert_ne!((&l["dialect"], &l["validates"]), (&json!("D"), &json!(true)), "{l:#}");
    }
}

#[test]
fn two_kills_on_one_host_are_two_kills_and_one_host() {
    let run = |log: &str| {
        analyze(&["two-kills/node-b.pcap", "--hosts", "hosts", "--oom", &format!("node-b=two-kills/{log}")])
    };
    for (log, explained) in [("two.dmesg-iso", 28.7), ("before.dmesg-iso", 28.7)] {
        let run = run(log);
        let hosts = run.incident()["hosts"].as_array().unwrap();
        assert_eq!((hosts.len(), &run.json["coverage"]["oom_hosts"]), (2, &json!(1)), "{log}");
        let summary = run.incident()["summary"].as_str().unwrap();
        assert!(
            summary.starts_with("node-b lost 2 processes") && summary.contains("1 of the kills remains"),
            "{summary}"
        );
        let with: Vec<&Value> = hosts.iter().filter(|h| !h["trigger"].is_null()).collect();
        assert_eq!(with.len(), 1);
        assert!((with[0]["lag_seconds"].as_f64().unwrap() - explained).abs() < 0.1);
        let other = hosts.iter().find(|h| h["trigger"].is_null()).unwrap();
        let why = joined(&other["reasons"]);
        assert!(why.contains("its size contradicts total-vm") && !why.contains("no claim"), "{log}: {why}");
        assert_eq!(run.incident()["scope"], "single-host");
    }
    assert!(joined(&run("before.dmesg-iso").incident()["hosts"][0]["reasons"]).contains("was seen 25.7 s before"));
}

#[test]
fn a_selection_that_nothing_is_of_is_an_error() {
    for (flag, value) in
        [("--host", "node-z"), ("--host", "192.0.2.99"), ("--net", "203.0.113.0/24"), ("--source", "203.0.113.9/32")]
    {
        let output = common::command()
            .args(["analyze", "incident-torch1.13/node-a.pcap", "--hosts", "hosts", flag, value])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(flag) && text.contains(value.split('/').next().unwrap()), "{text}");
    }
    for (flag, value) in
        [("--host", "node-a"), ("--host", "192.0.2.11"), ("--net", "192.0.2.0/24"), ("--source", "192.0.2.250/32")]
    {
        let run = analyze(&["incident-torch1.13/node-a.pcap", "--hosts", "hosts", flag, value]);
        assert_eq!(run.status, 1, "{flag} {value}: {}", run.stderr);
    }
}

#[test]
fn the_host_that_is_named_with_a_log_wins_over_the_folder_that_holds_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("logs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(data("two-kills/one.dmesg-iso"), folder.join("messages.dmesg-iso")).unwrap();
    let folder = folder.to_str().unwrap().to_string();
    let named = format!("node-b={folder}/messages.dmesg-iso");
    for order in [[&folder, &named], [&named, &folder]] {
        let mut arguments = vec!["two-kills/node-b.pcap".to_string(), "--hosts".into(), "hosts".into()];
        order.iter().for_each(|o| arguments.extend(["--oom".to_string(), o.to_string()]));
        let run = analyze(&arguments);
        assert_eq!(run.json["oom_events"].as_array().unwrap().len(), 1, "{order:?}");
        assert_eq!(
            (&run.json["oom_events"][0]["host"], &run.incident()["verdict"]),
            (&json!("node-b"), &json!("confirmed"))
        );
    }
}

#[test]
fn logs_of_two_hosts_that_were_swapped_confirm_nothing_and_are_told() {
    let logs = |a: &str, b: &str| {
        analyze(&[
            "incident-torch1.13/node-a.pcap".to_string(),
            "incident-torch1.13/node-b.pcap".into(),
            "--hosts".into(),
            "hosts".into(),
            "--oom".into(),
            format!("node-a=incident-torch1.13/logs/{a}.dmesg-iso"),
            "--oom".into(),
            format!("node-b=incident-torch1.13/logs/{b}.dmesg-iso"),
        ])
    };
    assert_eq!(logs("node-a", "node-b").incident()["verdict"], "confirmed");
    let run = logs("node-b", "node-a");
    for host in ["node-a", "node-b"] {
        assert_ne!(run.host(host)["verdict"], "confirmed", "{:#}", run.host(host));
        assert!(
            joined(&run.host(host)["reasons"]).contains("fit each other's captures: swapped?"),
            "{:#}",
            run.host(host)
        );
    }
    assert!(joined(&run.incident()["settled_by"]).contains("--oom node-a=PATH --oom node-b=PATH"));
}

#[test]
fn the_zone_hint_counts_from_the_zone_that_was_given() {
    // The kills' lines in local time of +08:00, as `dmesg -T` has them there.
    let place = tempfile::tempdir().unwrap();
    let mut arguments: Vec<String> = NODES_BC.iter().map(|n| format!("incident-torch1.13/{n}.pcap")).collect();
    arguments.extend(["--hosts".into(), "hosts".into()]);
    for (host, clock) in [("node-b", "19:20:39"), ("node-c", "19:21:08")] {
        let path = place.path().join(format!("{host}.dmesg-T"));
        let kill = "Out of memory: Killed process 10273 (python3) total-vm:941138648kB, anon-rss:8203356kB, file-rss:0kB, \
                    shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0";
        std::fs::write(&path, format!("[Sun Nov 29 {clock} 2026] {kill}\n")).unwrap();
        arguments.extend(["--oom".to_string(), format!("{host}={}", path.display())]);
    }
    let with =
        |zone: &[&str]| analyze(&arguments.iter().map(String::as_str).chain(zone.iter().copied()).collect::<Vec<_>>());
    assert!(with(&[]).notes().contains("Pass --log-tz +08:00"), "{}", with(&[]).notes());
    let wrong = with(&["--log-tz", "+05:30"]);
    assert!(
        wrong.notes().contains("--log-tz gives seems wrong") && wrong.notes().contains("--log-tz +08:00 fits"),
        "{}",
        wrong.notes()
    );
    assert!(!with(&["--log-tz", "+08:00"]).notes().contains("--log-tz"));
}

const NODES_BC: [&str; 2] = ["node-b", "node-c"];
