//! What was watched, what was not, and that a "no" says so. Besides: the forms of output.

mod common;

use common::{LOGS, NODES, analyze, args, command, data, table, unwrapped};
use serde_json::{Value, json};

#[test]
fn without_a_capture_a_kill_is_unexplained_not_untouched() {
    let run = analyze(&LOGS[1..]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "an unexplained incident alone does not flag");
    let incident = run.incident();
    assert_eq!((&incident["verdict"], &incident["cause"]), (&json!("unexplained"), &json!("unknown")));
    assert_eq!(incident["source"], Value::Null);
    let coverage = &run.json["coverage"];
    assert_eq!((&coverage["oom_hosts"], &coverage["not_observed"]), (&json!(3), &json!(3)));
    for host in ["node-a", "node-b", "node-c"] {
        assert_eq!((&run.host(host)["coverage"], &run.host(host)["trigger"]), (&json!("not-observed"), &Value::Null));
        assert!(common::joined(&run.host(host)["reasons"]).contains("not observed"));
    }
    let (status, text) = table(&LOGS[1..]);
    assert_eq!(status, 0);
    let text = unwrapped(&text);
    assert!(text.contains("UNEXPLAINED") && text.contains("0 of 3 OOM hosts observed"), "{text}");
}

#[test]
fn a_host_without_a_capture_of_its_own_is_not_observed() {
    // Of node-c only the log is there: its peers' captures saw some of its packets.
    let run = analyze(&args(&[&NODES[..2], &LOGS]));
    assert_eq!((run.status, &run.incident()["scope"]), (1, &json!("synchronized")));
    assert_eq!(run.json["coverage"]["observed"], 2);
    assert_ne!(run.host("node-c")["coverage"], "observed");
    // The trigger is in no capture; the size of the process, and its death in another host's capture, tell of it.
    assert_eq!((&run.host("node-c")["verdict"], &run.host("node-c")["trigger"]), (&json!("probable"), &Value::Null));
    let why = common::joined(&run.host("node-c")["reasons"]);
    assert!(why.contains("no capture holds its trigger") && why.contains("died on the wire"), "{why}");
    for (host, packet) in [("node-a", 411), ("node-b", 412)] {
        assert_eq!((&run.host(host)["verdict"], &run.trigger(host)["packet"]), (&json!("confirmed"), &json!(packet)));
    }
    let (_, text) = table(&args(&[&NODES[..2], &LOGS]));
    assert!(unwrapped(&text).contains("2 of 3 OOM hosts observed"), "{text}");
    // A capture that ends before the kill, or of another day, watched nothing.
    let run = analyze(&args(&[&["torchrun/node-a.pcap", "torchrun/node-b.pcap"], &LOGS]));
    assert_eq!((run.status, &run.incident()["verdict"]), (0, &json!("unexplained")));
    assert_eq!(run.json["coverage"]["observed"], 0, "{:#}", run.json["coverage"]);
}

#[test]
fn a_host_is_watched_no_longer_than_its_captures() {
    let run = analyze(&args(&[&NODES, &LOGS]));
    for host in run.json["coverage"]["hosts"].as_array().unwrap() {
        let name = format!("incident-torch1.13/{}.pcap", host["host"].as_str().unwrap());
        let captures = run.json["captures"].as_array().unwrap();
        let own = captures.iter().find(|c| c["path"] == name).unwrap();
        assert_eq!((&host["from"], &host["to"]), (&own["first"], &own["last"]), "{name}");
    }
}

#[test]
fn without_logs_the_wire_is_probable_at_best() {
    let run = analyze(&args(&[&NODES, &["--hosts", "hosts"]]));
    let incident = run.incident();
    assert_eq!(run.status, 1);
    assert_eq!((&incident["kind"], &incident["verdict"]), (&json!("listener-death"), &json!("probable")));
    assert_eq!((&incident["scope"], &incident["cause"]), (&json!("synchronized"), &json!("scan")));
    for (host, packet) in [("node-a", 411), ("node-b", 412), ("node-c", 410)] {
        assert_eq!(run.trigger(host)["packet"], packet);
        assert!(common::joined(&run.host(host)["reasons"]).contains("at best probable"));
    }
}

#[test]
fn no_stream_of_a_known_protocol_is_said_plainly() {
    for capture in ["scans/nmap-sV-1.9.0-poll.pcap", "scans/badsum.pcap"] {
        let run = analyze(&[capture]);
        assert_eq!(run.status, 0);
        assert!(run.notes().contains("No stream of a known protocol was seen"), "{capture}: {}", run.notes());
        let (_, text) = table(&[capture]);
        assert!(unwrapped(&text).contains("No stream of a known protocol was seen"), "{capture}: {text}");
    }
    assert!(!analyze(&[NODES[0]]).notes().contains("No stream"));
}

#[test]
fn lines_are_typed_objects_of_the_same_report() {
    for arguments in [
        args(&[&NODES, &LOGS]),
        args(&[&LOGS[1..]]),
        args(&[&["survivors-torch2.15"]]),
        args(&[&["links/three-interfaces.pcapng", "scans", "/missing"]]),
    ] {
        let output = command().arg("analyze").args(&arguments).args(["--format", "jsonl"]).output().unwrap();
        let run = analyze(&arguments);
        let mut findings = Vec::new();
        for line in std::str::from_utf8(&output.stdout).unwrap().lines() {
            let mut object: Value = serde_json::from_str(line).unwrap();
            let kind = object.as_object_mut().unwrap().remove("type").unwrap_or_else(|| panic!("no type: {line}"));
            if kind == "finding" {
                findings.push(object);
            }
        }
        assert_eq!(findings, run.findings());
        assert_eq!(output.status.code(), Some(run.status));
    }
}

#[test]
fn a_file_takes_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.json");
    let output = command().args(["analyze", NODES[0], "--format", "json", "-o"]).arg(&path).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(common::complaints(&json), Vec::<String>::new());
    let output = command().args(["analyze", NODES[0], "--quiet"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(1), 0, 0));
    let nowhere = command().args(["analyze", NODES[0], "-o", "/missing/report"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
}

/// What no terminal may get: C0 (but the end of a line), DEL, C1, bidi controls, line and paragraph separators.
fn dangerous(text: &str) -> Vec<char> {
    let bad = |c: &char| {
        matches!(*c, '\0'..='\x09' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
            || matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
    };
    text.chars().filter(bad).collect()
}

/// Every string of a document.
fn strings<'a>(value: &'a Value, all: &mut Vec<&'a str>) {
    match value {
        Value::String(s) => all.push(s),
        Value::Array(list) => list.iter().for_each(|v| strings(v, all)),
        Value::Object(map) => map.iter().for_each(|(k, v)| {
            all.push(k);
            strings(v, all);
        }),
        _ => {}
    }
}

#[test]
fn hostile_text_never_reaches_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "p\u{1b}]0;owned\u{8}\u{1b}[31m\u{202e}\u{9b}2J";
    let kill = "total-vm:941138648kB, anon-rss:12005208kB, file-rss:80kB, shmem-rss:0kB, UID:0 pgtables:24316kB";
    let iso = dir.path().join("evil\u{1b}[2J\u{202e}.log");
    std::fs::write(
        &iso,
        format!("2026-11-29T11:20:49,653666+00:00 Out of memory: Killed process 10267 ({evil}) {kill}\n"),
    )
    .unwrap();
    let syslog = dir.path().join("syslog");
    let line = format!("h\u{1b}[1m\u{202e}st kernel: Out of memory: Killed process 7 ({evil}) {kill}");
    std::fs::write(&syslog, format!("2026-11-29T11:20:50.000000+00:00 {line}\n")).unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "192.0.2.11 node-a\n192.0.2.250 sc\u{1b}[5m\u{202e}an\n192.0.2.12 node-b\n").unwrap();
    // The user's name in nmap's cookie, and interface names of a pcapng, are whatever the sender likes.
    let mut pcap = std::fs::read(data(NODES[0])).unwrap();
    let at = pcap.windows(8).position(|w| w == b"mstshash").unwrap();
    pcap[at..at + 8].copy_from_slice("\u{1b}[2J\u{202e}x".as_bytes());
    for at in 0..pcap.len() - 16 {
        if pcap[at..].starts_with(b"GET / HTTP") {
            pcap[at + 4..at + 9].copy_from_slice(b"\x1b[7m ");
        }
    }
    let capture = dir.path().join("c\u{1b}[2Jap.pcap");
    std::fs::write(&capture, pcap).unwrap();

    let host = format!("no\u{1b}[2J\u{202e}de={}", iso.to_str().unwrap());
    let missing = dir.path().join("mis\u{1b}[2Jsing\u{202e}");
    let mut arguments: Vec<String> =
        [&capture, &iso, &syslog, &missing].map(|p| p.to_str().unwrap().to_string()).into();
    arguments.extend(["--oom".into(), host, "--hosts".into(), hosts.to_str().unwrap().to_string(), "-v".into()]);

    let output = command().arg("analyze").args(&arguments).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((dangerous(&out), dangerous(&err)), (vec![], vec![]), "{out:?} {err:?}");
    assert!(out.contains("10267") && err.contains("sing"), "the kill and the missing file are told:\n{out}\n{err}");

    let run = analyze(&arguments);
    assert!(run.json["oom_events"].as_array().unwrap().len() >= 2, "{:#}", run.json["oom_events"]);
    let mut all = Vec::new();
    strings(&run.json, &mut all);
    all.retain(|s| !dangerous(s).is_empty());
    assert_eq!(all, Vec::<&str>::new(), "{:#}", run.json["inputs"]);

    let output = command().arg(&capture).output().unwrap();
    assert_eq!(dangerous(&String::from_utf8(output.stderr).unwrap()), vec![], "the suggestion of a command");
    let output = command().arg("oom").args([&iso, &syslog]).output().unwrap();
    assert_eq!(dangerous(&String::from_utf8(output.stdout).unwrap()), vec![], "rdzvscope oom");
}
