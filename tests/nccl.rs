//! NCCL: clean starts are clean, strays are named by what they did, and what they broke is said, by the built binary.

mod wire;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wire::{Ends, Wire, lines, run, stdout};

/// Clean starts: their entry in `truth.json`, where there is one, and the capture.
const CLEAN: [(&str, &str); 9] = [
    ("2.16.2-real-4ranks-netsocket", "nccl/2.16.2-real-4ranks-netsocket.pcap"),
    ("2.26.2-real-4ranks-netsocket", "nccl/2.26.2-real-4ranks-netsocket.pcap"),
    ("2.16.2-realroot-4pyranks", "nccl/2.16.2-realroot-4pyranks.pcap"),
    ("2.32.3-realroot-4pyranks", "nccl/2.32.3-realroot-4pyranks.pcap"),
    ("2.7.8src-4ranks", "nccl/2.7.8src-4ranks.pcap"),
    ("2.14.3src-4ranks", "nccl/2.14.3src-4ranks.pcap"),
    ("2.26.2-real-2ranks-NCCL_COMM_ID", "nccl/2.26.2-real-2ranks-NCCL_COMM_ID.pcap"),
    ("2.26.2-2realroots-4pyranks", "nccl/2.26.2-2realroots-4pyranks.pcap"),
    ("", "store-and-nccl/torch2.15-nccl2.26-node-a.pcap"),
];

/// Captures of other protocols, and of NCCL's pairs of Gloo.
const OTHERS: [&str; 6] = ["scans", "incident-torch1.13", "survivors-torch2.15", "api", "gloo", "torchrun"];

fn truth(name: &str) -> Value {
    let all: Value = serde_json::from_slice(&std::fs::read("testdata/nccl/truth.json").unwrap()).unwrap();
    all[name].clone()
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

/// The report on some captures, and the exit status.
fn report(arguments: &[&str]) -> (Value, i32) {
    let out = run(&[&["analyze", "--format", "json"], arguments].concat());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    (serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {error}")), out.status.code().unwrap())
}

fn array<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().unwrap()
}

fn is_loud(finding: &Value) -> bool {
    matches!(text(&finding["severity"]), "warning" | "critical")
}

fn place(listener: &Value) -> String {
    format!("{}:{}", text(&listener["address"]), listener["port"])
}

fn captures(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(format!("testdata/{directory}")).unwrap().flatten();
    let mut paths: Vec<String> = entries.map(|e| e.path().to_string_lossy().into_owned()).collect();
    paths.retain(|p| p.ends_with(".pcap"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

#[test]
fn clean_starts_are_clean_and_told_as_they_were() {
    for (name, file) in CLEAN {
        let path = format!("testdata/{file}");
        let (report, status) = report(&[&path]);
        assert_eq!(status, 0, "{file}");
        assert!(!array(&report, "findings").iter().any(is_loud), "{file} {:#}", report["findings"]);
        assert!(array(&report, "incidents").is_empty(), "{file}");
        let [communicator] = array(&report, "communicators") else { panic!("{file} {:#}", report["communicators"]) };
        assert!(name.is_empty() || communicator["complete"] == true, "{file}");
        let listeners: Vec<&Value> = array(&report, "listeners").iter().filter(|l| l["protocol"] == "nccl").collect();
        if name.is_empty() {
            assert_eq!(communicator["root"], "192.0.2.11:58547");
            assert!(text(&communicator["magic"]) == "82040fccce3a3d2d", "{communicator:#}");
            continue;
        }
        let truth = truth(name);
        let roots: Vec<String> = match truth["roots"].as_array() {
            Some(all) => all.iter().map(|r| format!("{}:{}", text(&r[0]), r[1])).collect(),
            None => vec![format!("{}:{}", text(&truth["root"][0]), truth["root"][1])],
        };
        let magic = truth["magics"].get(0).unwrap_or(&truth["magic"]);
        assert!(roots.contains(&text(&communicator["root"]).to_string()), "{file} {communicator:#}");
        assert_eq!((&communicator["magic"], &communicator["nranks"]), (magic, &truth["nranks"]), "{file}");
        let told: BTreeSet<String> =
            listeners.iter().filter(|l| l["role"] == "bootstrap-root").map(|l| place(l)).collect();
        assert_eq!(told, roots.iter().cloned().collect(), "{file}");
        // Where the truth lists what listened, it lists all that are told and last.
        let during = truth["during"]["listeners"].as_object().into_iter().flat_map(|o| o.values());
        let listed: BTreeSet<&str> =
            during.flat_map(|l| l.as_array().into_iter().flatten()).map(|l| text(&l[0])).collect();
        // One that was named and never connected to is no claim about traffic.
        for l in listeners.iter().filter(|l| l["connections"].as_u64() > Some(0)) {
            let lasting = matches!(text(&l["role"]), "ring" | "peer" | "proxy" | "ras");
            assert!(!lasting || listed.is_empty() || listed.contains(place(l).as_str()), "{file} {l:#}");
        }
    }
}

#[test]
fn no_listener_is_invented() {
    for directory in OTHERS {
        for path in captures(directory) {
            let (report, _) = report(&[&path]);
            let found = array(&report, "listeners").iter().filter(|l| l["protocol"] == "nccl").count();
            assert_eq!((found, array(&report, "communicators").len()), (0, 0), "{path}");
        }
    }
}

/// Each message says which bytes it takes: together they are the streams, whole.
#[test]
fn messages_account_for_every_byte() {
    for (_, file) in CLEAN.into_iter().chain([("", "torchrun/node-a.pcap"), ("", "torchrun/node-b.pcap")]) {
        let path = format!("testdata/{file}");
        assert_eq!(stdout(&["messages", "--undecoded", &path], 0), "", "{file}");
        let mut told: BTreeMap<(u64, String), u64> = BTreeMap::new();
        let mut kinds = BTreeSet::new();
        for m in lines(&stdout(&["messages", "--format", "jsonl", &path], 0)) {
            let flow = m["flow_number"].as_u64().unwrap();
            *told.entry((flow, text(&m["direction"]).to_string())).or_default() += m["length"].as_u64().unwrap();
            *told.entry((flow, "to-client".to_string())).or_default() += m["answered"]["length"].as_u64().unwrap_or(0);
            assert!(m["unfinished"].is_null(), "{file} {m}");
            if m["protocol"] == "nccl" {
                assert!(text(&m["dialect"]).starts_with("2."), "{m}");
            }
            kinds.insert(text(&m["query"]).to_string());
        }
        told.retain(|_, n| *n > 0);
        let flows: Value = serde_json::from_str(&stdout(&["streams", "--all", "--format", "json", &path], 0)).unwrap();
        let mut carried = BTreeMap::new();
        for flow in array(&flows, "flows") {
            for s in array(flow, "streams") {
                let key = (flow["number"].as_u64().unwrap(), text(&s["direction"]).to_string());
                carried.insert(key, s["length"].as_u64().unwrap());
                assert!(matches!(text(&flow["protocol"]), "tcpstore" | "nccl" | "gloo"), "{file} {flow:#}");
            }
        }
        assert!(carried.len() >= 8, "{file}");
        assert_eq!(told, carried, "{file}");
        let has = |k: &str| kinds.contains(k);
        if file.contains("2.26.2-real-4ranks") {
            let all = ["handshake", "check-in", "reply", "ring slot", "peer", "data", "NET index", "RAS"];
            assert!(all.iter().all(|k| has(k)) && has("proxy request") && has("proxy reply"), "{kinds:?}");
        }
        assert!(!file.starts_with("torchrun") || has("bulk"), "{kinds:?}");
        assert!(!file.contains("2.14.3src") || has("ring address") && has("peer"), "{kinds:?}");
    }
}

#[test]
fn check_ins_say_who_came() {
    let args =
        ["messages", "--query", "check-in", "--format", "jsonl", "testdata/nccl/2.26.2-real-4ranks-netsocket.pcap"];
    let told = lines(&stdout(&args, 0));
    let ranks: BTreeSet<i64> = told.iter().map(|m| m["number"].as_i64().unwrap()).collect();
    assert_eq!(ranks, (0..4).collect());
    assert!(
        told.iter().all(|m| text(&m["detail"]).contains(" of 4, ring 127.0.0.1:") && m["length"] == 176),
        "{told:#?}"
    );
    assert_eq!(told.iter().map(|m| m["packet"].as_u64().unwrap()).collect::<Vec<_>>(), [10, 22, 59, 96]);
    for line in stdout(&["messages", args[5]], 0).lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// What each scenario of `strays-at-root` is to be named by.
fn named(scenario: &str) -> (&'static str, &'static str) {
    match scenario {
        "connect_fin" | "connect_rst" => ("nccl-stray-closed", "connected and closed without a byte"),
        "crlf4_fin" => ("nccl-stray-closed", "sent 4 bytes, too few"),
        "http_get" | "tls_hello" => ("nccl-stray-wrong-magic", "do not begin with the communicator's magic"),
        "idle_hold" => ("nccl-stray-silent", "stayed silent for 3.0 s"),
        "magic_only_fin" => ("nccl-malformed-frame", "no type, and closed"),
        "wrong_type" => ("nccl-malformed-frame", "type of another listener (Proxy)"),
        "hs_then_fin" => ("nccl-malformed-frame", "the handshake, no frame, and closed"),
        "size_huge" => ("nccl-malformed-frame", "a frame size of 2147483647 bytes"),
        "size_negative" => ("nccl-malformed-frame", "a frame size of -1 bytes"),
        "size_zero" => ("nccl-malformed-frame", "an empty first frame"),
        "size_plus1" => ("nccl-malformed-frame", "which no release sends here"),
        "nranks_first_3" => ("nccl-rank-mismatch", "one of 2 ranks where the first had said 3"),
        "rank_1000000" => ("nccl-malformed-frame", "rank 1000000 of 2"),
        "rank_minus1" => ("nccl-malformed-frame", "rank -1 of 2"),
        "nranks_huge" => ("nccl-malformed-frame", "2147483647 ranks"),
        "nranks_neg" => ("nccl-malformed-frame", "-1 ranks"),
        "nranks_zero" => ("nccl-malformed-frame", "0 ranks"),
        "nroots_zero" => ("nccl-malformed-frame", "root 0 of 0"),
        "dup_rank0" => ("nccl-rank-mismatch", "rank 0, which had checked in already"),
        other => panic!("{other}"),
    }
}

/// With the roots' ports, each scenario is named by what it did, and the root's fate is the recorded one. With
/// `NCCL_TABLE` set, prints the table.
#[allow(clippy::print_stderr)] // the table is for who asks for it
#[test]
fn strays_at_the_root_are_named_with_their_outcome() {
    for version in ["2.16.2", "2.26.2"] {
        let truth = truth(&format!("{version}-strays-at-root"));
        let scenarios = array(&truth, "scenarios");
        let ports: Vec<String> = scenarios.iter().map(|s| s["root"][1].to_string()).collect();
        let path = format!("testdata/nccl/{version}-strays-at-root.pcap");
        let (report, _) = report(&["--nccl-port", &ports.join(","), &path]);
        for s in scenarios.iter().filter(|s| s["stray_saw"] != "n/a") {
            let (scenario, port) = (text(&s["scenario"]), &s["root"][1]);
            let recorded = match (s["two_ranks_ok_afterwards"].as_bool(), s["root_process_exit"].is_null()) {
                (Some(true), _) => "survived",
                (_, false) => "process killed",
                // Nothing is in its log: it was still allocating when the record ended.
                _ if array(s, "log").is_empty() => "still there",
                _ => "died",
            };
            let own: Vec<&Value> = array(&report, "findings").iter().filter(|f| f["target"]["port"] == *port).collect();
            let of = |rule: &str| own.iter().find(|f| f["rule"] == rule);
            let dead = of("nccl-root-died").map(|f| text(&f["explanation"]));
            let outcome = match dead {
                Some(t) if t.contains("whole process down") => "process killed",
                Some(t) if t.contains("ended with an error") => "died",
                Some(t) => panic!("{t}"),
                None if recorded == "still there" => "still there",
                None => "survived",
            };
            let (rule, words) = named(scenario);
            let stray = of(rule).unwrap_or_else(|| panic!("{version} {scenario}: {own:#?}"));
            let told = text(&stray["explanation"]);
            #[allow(clippy::print_stdout)]
            if std::env::var_os("NCCL_TABLE").is_some() {
                eprintln!("{version}  {scenario:<15} recorded {recorded:<14} told {outcome:<14} {rule:<23} {told}");
            }
            assert!(told.contains(words), "{version} {scenario}: {told}");
            assert_eq!(outcome, recorded, "{version} {scenario}: {own:#?}");
            // A root that nobody survives is loud; one that goes on is not.
            assert_eq!(own.iter().any(|f| is_loud(f)), recorded != "survived", "{version} {scenario}: {own:#?}");
        }
    }
}

#[test]
fn without_the_ports_nothing_false_is_said_of_strays() {
    for version in ["2.16.2", "2.26.2"] {
        let truth = truth(&format!("{version}-strays-at-root"));
        let (report, _) = report(&[&format!("testdata/nccl/{version}-strays-at-root.pcap")]);
        for s in array(&truth, "scenarios") {
            let own = array(&report, "findings").iter().filter(|f| f["target"]["port"] == s["root"][1]);
            let rules: Vec<&str> = own.map(|f| text(&f["rule"])).collect();
            let survived = s["two_ranks_ok_afterwards"] == true;
            assert!(!survived || !rules.contains(&"nccl-root-died"), "{version} {s:#} {rules:?}");
        }
        let known: Vec<String> =
            array(&truth, "scenarios").iter().map(|s| format!("127.0.0.1:{}", s["root"][1])).collect();
        for l in array(&report, "listeners").iter().filter(|l| l["role"] == "bootstrap-root") {
            assert!(known.contains(&place(l)), "{version} {l:#}");
        }
    }
    for version in ["2.16.2", "2.26.2"] {
        let (report, status) = report(&[&format!("testdata/nccl/{version}-stray-nmap-sT-then-2ranks.pcap")]);
        assert!(status == 0 && !array(&report, "findings").iter().any(is_loud), "{version}");
    }
}

#[test]
fn a_root_that_a_scan_ended_before_its_id_was_known() {
    let a = "testdata/store-and-nccl/torch2.15-nccl2.26-stray-node-a.pcap";
    let b = "testdata/store-and-nccl/torch2.15-nccl2.26-stray-node-b.pcap";
    for files in [&[a][..], &[a, b], &[b, a]] {
        let (report, status) = report(files);
        assert_eq!(status, 1);
        let root = array(&report, "listeners").iter().find(|l| l["port"] == 55225).unwrap();
        assert_eq!((text(&root["role"]), text(&root["address"])), ("bootstrap-root", "192.0.2.11"));
        let learned = text(&root["learned_from"]);
        assert!(learned.contains("a unique id in a store") && learned.contains("packet 43"), "{learned}");
        let of =
            |rule: &str| -> Vec<&Value> { array(&report, "findings").iter().filter(|f| f["rule"] == rule).collect() };
        let died = of("nccl-root-died");
        let [died] = died.as_slice() else { panic!("{died:#?}") };
        // The reset, not the SYN.
        assert_eq!((died["packet"].as_u64(), text(&died["source"]["address"])), (Some(38), "192.0.2.250"));
        let refused: BTreeSet<_> =
            of("nccl-rank-refused").iter().map(|f| (f["packet"].as_u64(), text(&f["source"]["address"]))).collect();
        assert_eq!(refused, [(Some(48), "192.0.2.12"), (Some(50), "192.0.2.13")].into(), "{files:?}");
        let [incident] = array(&report, "incidents") else { panic!("{:#}", report["incidents"]) };
        assert_eq!((text(&incident["kind"]), text(&incident["source"]["address"])), ("nccl-init", "192.0.2.250"));
        assert!(text(&incident["summary"]).contains("1 may never have been seen"), "{incident:#}");
        assert!(array(incident, "hosts").iter().all(|h| h["trigger"] == died["id"]), "{incident:#}");
        assert_eq!(text(&incident["cause"]), "scan");
        // The stray is one time, the first sign of the root's end (the first refusal, packet 48) another.
        assert_eq!(text(&died["time"]), "2026-11-29T12:02:26.894405000Z");
        assert_eq!(text(&died["failed_at"]), "2026-11-29T12:02:29.826648000Z");
        let own = array(incident, "hosts").iter().find(|h| h["address"] == "192.0.2.11").unwrap();
        assert_eq!((&own["listener_died_at"], &root["died_at"]), (&died["failed_at"], &died["failed_at"]));
        assert!((own["lag_seconds"].as_f64().unwrap() - 2.932_243).abs() < 1e-6, "{own:#}");
    }
}

#[test]
fn a_launch_that_disagrees_with_itself_is_no_scan() {
    for version in ["2.16.2", "2.26.2"] {
        let truth = truth(&format!("{version}-strays-at-root"));
        let path = format!("testdata/nccl/{version}-strays-at-root.pcap");
        let mut seen = 0;
        for s in array(&truth, "scenarios").iter().filter(|s| s["stray_saw"] != "n/a") {
            let (scenario, port) = (text(&s["scenario"]), s["root"][1].to_string());
            let (report, _) = report(&["--nccl-port", &port, &path]);
            let of_root: Vec<&Value> = array(&report, "incidents")
                .iter()
                .filter(|i| text(&i["summary"]).contains(&format!(":{port} ")))
                .collect();
            let launch = matches!(scenario, "nranks_first_3" | "dup_rank0");
            for incident in of_root {
                seen += u32::from(launch);
                assert_eq!(text(&incident["cause"]) == "launch-mismatch", launch, "{version} {scenario} {incident:#}");
            }
            let died = array(&report, "findings")
                .iter()
                .find(|f| f["rule"] == "nccl-root-died" && f["target"]["port"] == s["root"][1]);
            let remedy = died.map_or("", |f| text(&f["remedy"]));
            assert_eq!(remedy.contains("Compare world size"), launch, "{version} {scenario} {died:#?}");
        }
        assert!(seen > 0, "{version}");
    }
}

#[test]
fn attempts_are_no_ranks() {
    let (report, _) = report(&["testdata/nccl/2.14.3src-stray-nmap-sSsV-then-2ranks.pcap"]);
    let [incident] = array(&report, "incidents") else { panic!("{:#}", report["incidents"]) };
    let summary = text(&incident["summary"]);
    assert!(summary.contains("2 ranks had checked in and wait; 12 attempts from one host were refused"), "{summary}");
    assert!(!summary.contains("14 ranks") && !summary.contains(" 0 may"), "{summary}");
}

#[test]
fn a_communicator_names_all_of_its_roots() {
    let (report, _) = report(&["testdata/nccl/2.26.2-2realroots-4pyranks.pcap"]);
    let [communicator] = array(&report, "communicators") else { panic!("{:#}", report["communicators"]) };
    let told: BTreeSet<&str> = array(communicator, "roots").iter().map(text).collect();
    let roots: BTreeSet<String> =
        array(&report, "listeners").iter().filter(|l| l["role"] == "bootstrap-root").map(place).collect();
    assert_eq!(told, roots.iter().map(String::as_str).collect());
    assert_eq!(told.len(), 2);
}

#[test]
fn a_split_that_failed_is_joined_to_the_scan_before_it() {
    let (report, status) = report(&["testdata/nccl/2.26.2-split-after-nmap-sT.pcap"]);
    assert_eq!(status, 1);
    let [incident] = array(&report, "incidents") else { panic!("{:#}", report["incidents"]) };
    assert_eq!(text(&incident["kind"]), "nccl-split");
    let trigger = array(incident, "hosts")[0]["trigger"].clone();
    let finding = array(&report, "findings").iter().find(|f| f["id"] == trigger).unwrap();
    // The scan's connection (its reset is packet 569 or 565), not the rank's own that came five seconds later.
    assert!(matches!(finding["packet"].as_u64(), Some(569 | 565)), "{finding:#}");
    assert!(matches!(finding["source"]["port"].as_u64(), Some(46992 | 58776)), "{finding:#}");
    assert!(array(finding, "packets").iter().any(|p| matches!(p.as_u64(), Some(625 | 635))), "{finding:#}");
    let reasons = serde_json::to_string(&incident["hosts"]).unwrap();
    assert!(reasons.contains("127.0.0.1:46992") && reasons.contains("127.0.0.1:58776"), "{reasons}");
}

/// A NET/Socket connection with data: one record, all bytes counted, though the data is not read.
#[test]
fn net_data_is_one_record_and_its_listener_clean() {
    let directory = tempfile::tempdir().unwrap();
    let ends = Ends((12, 40_000), (11, 41_000));
    let mut wire = Wire::new();
    wire.handshake(ends);
    let mut hello = vec![0x6c, 0x9d, 0x4b, 0xfc, 0xf2, 0xb9, 0x4a, 0x56];
    hello.extend(3u32.to_le_bytes());
    wire.client(ends, 0, &hello);
    wire.client(ends, 12, &[0]);
    for i in 0..500u32 {
        wire.client(ends, 13 + i * 1000, &[i as u8; 1000]);
        if i % 5 == 0 {
            wire.server(ends, i / 5 * 8, &[1; 8]);
        }
    }
    let Ends(c, s) = ends;
    wire.segment(c, s, 100 + 13 + 500_000, 500, wire::FIN, b"");
    let file = wire.save(directory.path(), "net.pcap");
    let file = file.to_str().unwrap();
    assert_eq!(stdout(&["messages", "--undecoded", file], 0), "");
    let told = lines(&stdout(&["messages", "--format", "jsonl", file], 0));
    let told: Vec<_> =
        told.iter().map(|m| (text(&m["query"]), text(&m["direction"]), m["length"].as_u64().unwrap())).collect();
    let expected = [
        ("handshake", "to-server", 12),
        ("NET index", "to-server", 1),
        ("bulk", "to-client", 800),
        ("bulk", "to-server", 500_000),
    ];
    assert_eq!(told, expected);
    let (report, status) = report(&[file]);
    let [listener] = array(&report, "listeners") else { panic!("{:#}", report["listeners"]) };
    assert_eq!((status, text(&listener["role"]), listener["port"].as_u64()), (0, "net", Some(41_000)));
    // The last packet is the FIN, half a second after the data began.
    assert!(text(&listener["last_seen"]) > text(&listener["first_seen"]), "{listener:#}");
    let seconds = |k: &str| text(&listener[k])[17..23].parse::<f64>().unwrap();
    assert!(seconds("last_seen") - seconds("first_seen") > 0.5, "{listener:#}");
}

#[test]
fn strays_are_shown_and_named_by_their_bytes() {
    let (http, _) = report(&["testdata/nccl/2.16.2-livejob-http-at-every-listener.pcap"]);
    let (lines, _) = report(&["testdata/nccl/2.14.3src-stray-nmap-sSsV-then-2ranks.pcap"]);
    let of = |report: &Value, rule: &str| -> Value {
        array(report, "findings").iter().find(|f| f["rule"] == rule).unwrap_or(&Value::Null).clone()
    };
    // The bytes are those that tshark shows in the packet that is named. One GET is anybody's; the probes of a whole
    // version scan are nmap's.
    for (report, rule, protocol, tool, probe) in [
        (&http, "nccl-proxy-spins", Some("HTTP"), None, None),
        (&lines, "nccl-root-died", None, Some("nmap"), Some("GenericLines")),
    ] {
        let finding = of(report, rule);
        let stray = &finding["stray"];
        assert_eq!((stray["tool"].as_str(), stray["probe"].as_str()), (tool, probe), "{finding:#}");
        assert!(protocol.is_none_or(|p| finding["stray"]["protocol"] == p));
        let shown = std::process::Command::new("tshark")
            .args(["-r", text(&finding["capture"]), "-Y", &format!("frame.number=={}", finding["packet"])])
            .args(["-T", "fields", "-e", "tcp.payload"])
            .output()
            .expect("tshark is installed by make test");
        assert_eq!(text(&finding["bytes_hex"]), String::from_utf8(shown.stdout).unwrap().trim());
    }
    // Ranks that quarrel are no strangers.
    assert!(
        array(&lines, "findings").iter().filter(|f| text(&f["rule"]).contains("rank")).all(|f| f["stray"].is_null())
    );
}

/// The packets of a capture as tshark reads them: time, flags, payload in hex.
fn packets(path: &str) -> BTreeMap<u64, (String, String, String)> {
    let shown = std::process::Command::new("tshark")
        .args(["-r", path, "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch"])
        .args(["-e", "tcp.flags", "-e", "tcp.payload"])
        .output()
        .expect("tshark is installed by make test");
    let lines = String::from_utf8(shown.stdout).unwrap();
    let row = |line: &str| -> Option<(u64, (String, String, String))> {
        let mut fields = line.split('\t').map(str::to_string);
        Some((fields.next()?.parse().ok()?, (fields.next()?, fields.next()?, fields.next().unwrap_or_default())))
    };
    lines.lines().filter_map(row).collect()
}

/// Of every finding the packet is the one with the bytes, the close or the refusal, at its own time, never the SYN.
#[test]
fn evidence_is_the_packet_that_carries_it() {
    const SYN: u32 = 2;
    const END: u32 = 1 | 4;
    let mut rules: BTreeMap<String, u32> = BTreeMap::new();
    let mut files = captures("nccl");
    files.extend(captures("nccl/wire"));
    for path in files {
        let name = path.rsplit('/').next().unwrap().trim_end_matches(".pcap").to_string();
        let truth = truth(&name);
        let roots = truth["scenarios"].as_array().cloned().unwrap_or_else(|| vec![truth.clone()]);
        let ports: Vec<String> = roots.iter().filter_map(|s| Some(s["root"].get(1)?.to_string())).collect();
        let wire = packets(&path);
        let mut arguments = vec![path.as_str()];
        let ports = ports.join(",");
        if !ports.is_empty() {
            arguments.extend(["--nccl-port", &ports]);
        }
        let (report, _) = report(&arguments);
        for f in array(&report, "findings").iter().filter(|f| text(&f["rule"]).starts_with("nccl-")) {
            let (epoch, flags, payload) = &wire[&f["packet"].as_u64().unwrap()];
            let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap();
            assert_eq!(flags & SYN, 0, "{path} {f:#}");
            let (seconds, nanos) = epoch.split_once('.').unwrap();
            let time = chrono::DateTime::parse_from_rfc3339(text(&f["time"])).unwrap();
            assert_eq!(
                (time.timestamp().to_string().as_str(), format!("{:09}", time.timestamp_subsec_nanos())),
                (seconds, format!("{nanos:0<9}")),
                "{path} {f:#}"
            );
            match f["bytes_hex"].as_str().filter(|b| !b.is_empty()) {
                Some(bytes) => assert!(payload.starts_with(bytes), "{path} {f:#}"),
                None => assert!(flags & END != 0 || !payload.is_empty(), "{path} {f:#}"),
            }
            *rules.entry(text(&f["rule"]).to_string()).or_default() += 1;
        }
    }
    let told = |rule: &str| rules.get(rule).copied().unwrap_or(0);
    assert!(told("nccl-stray-closed") >= 8 && told("nccl-root-died") >= 30 && told("nccl-rank-refused") >= 30);
}

/// Without any port every root of the recordings is listed, at least as a possible one, and nothing is loud about those.
#[test]
fn roots_that_only_strays_reached_are_found() {
    for version in ["2.16.2", "2.26.2"] {
        let truth = truth(&format!("{version}-strays-at-root"));
        let (report, _) = report(&[&format!("testdata/nccl/{version}-strays-at-root.pcap")]);
        let mut possible = 0;
        for s in array(&truth, "scenarios").iter().filter(|s| s["stray_saw"] != "n/a") {
            let found = array(&report, "listeners").iter().find(|l| l["port"] == s["root"][1]);
            let root = found.unwrap_or_else(|| panic!("{version} {s:#}"));
            assert_eq!(root["protocol"], "nccl");
            if root["role"] == "bootstrap-root" {
                continue;
            }
            possible += 1;
            assert!(text(&root["learned_from"]).contains("possible bootstrap root"), "{root:#}");
            let own = array(&report, "findings").iter().filter(|f| f["target"]["port"] == s["root"][1]);
            let told: Vec<&Value> = own.collect();
            assert!(!told.is_empty() && !told.iter().any(|f| is_loud(f)), "{version} {told:#?}");
        }
        assert!(possible >= 9, "{version}: {possible}");
    }
}

#[test]
fn what_stands_on_the_wire_is_what_is_told() {
    let of = |name: &str| report(&[&format!("testdata/nccl/wire/{name}.pcap")]).0;
    let told = |report: &Value, rule: &str| -> (u64, String) {
        let found = array(report, "findings").iter().find(|f| f["rule"] == rule);
        let f = found.unwrap_or_else(|| panic!("{:#}", report["findings"]));
        (f["packet"].as_u64().unwrap(), text(&f["explanation"]).to_string())
    };
    let (packet, said) = told(&of("nccl-root-type99"), "nccl-malformed-frame");
    assert!(packet == 20 && said.contains("type 99"), "{said}");
    let (packet, said) = told(&of("nccl-type4-at-type3"), "nccl-malformed-frame");
    assert!(packet == 17 && said.contains("type of another listener (NetIb)"), "{said}");
    let (packet, said) = told(&of("nccl-listener-resets-ring"), "nccl-listener-closed");
    assert!(packet == 34 && said.starts_with("10.0.0.7:42001, the ring listener of a rank, reset the"), "{said}");
    assert!(said.contains("8 of 12 bytes"), "{said}");
    let ras = of("nccl-ras-text-with-job");
    let listener = array(&ras, "listeners").iter().find(|l| l["port"] == 28028).unwrap();
    assert_eq!((text(&listener["role"]), array(&ras, "findings").len()), ("ras", 0));
    let stack = of("unique-id-with-stack-bytes");
    let root = array(&stack, "listeners").iter().find(|l| l["port"] == 60329).unwrap();
    let learned = text(&root["learned_from"]);
    assert!(learned.contains("a unique id in a store") && learned.contains("packet 40 "), "{learned}");
}

/// Every fifth record has the latest time there is.
#[test]
fn corrupt_times_end() {
    let start = std::time::Instant::now();
    let (report, _) = report(&["testdata/nccl/wire/nccl-corrupt-times.pcapng"]);
    assert!(array(&report, "listeners").iter().any(|l| l["protocol"] == "nccl"));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// What the root said proves who had come, though a rank on its own host is not in the capture.
#[test]
fn replies_prove_that_all_ranks_came() {
    let (report, _) = report(&["testdata/store-and-nccl/torch2.15-nccl2.26-node-a.pcap"]);
    let [communicator] = array(&report, "communicators") else { panic!("{:#}", report["communicators"]) };
    assert_eq!((&communicator["complete"], array(communicator, "ranks").len()), (&Value::Bool(true), 2));
}

/// The id of a real start, given by hand: its root is known where a stray alone reached it.
#[test]
fn an_id_given_by_hand_names_the_root() {
    let file = "testdata/nccl/2.26.2-stray-nmap-sT-then-2ranks.pcap";
    let id = truth("2.26.2-stray-nmap-sT-then-2ranks")["uid"].as_str().unwrap().to_string();
    let (report, status) = report(&["--nccl-id", &id, file]);
    assert_eq!(status, 1);
    let [root] = array(&report, "listeners") else { panic!("{:#}", report["listeners"]) };
    assert_eq!((text(&root["role"]), root["port"].as_u64()), ("bootstrap-root", Some(54083)));
    assert!(text(&root["learned_from"]).contains("--nccl-id"), "{root:#}");
    assert!(array(&report, "findings").iter().any(|f| f["rule"] == "nccl-root-died"));
    let out = run(&["analyze", "--nccl-id", "0123", file]);
    assert_eq!(out.status.code(), Some(2));
}

/// With `-x` the fields of a message follow each other and take all of it.
#[test]
fn messages_show_their_fields() {
    for file in
        ["2.26.2-real-4ranks-netsocket", "2.16.2-realroot-4pyranks", "2.7.8src-4ranks", "2.32.3-realroot-4pyranks"]
    {
        let path = format!("testdata/nccl/{file}.pcap");
        let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for m in lines(&stdout(&["messages", "-x", "--format", "jsonl", &path], 0)) {
            let fields = m["fields"].as_array().cloned().unwrap_or_default();
            let query = text(&m["query"]).to_string();
            assert!(!fields.is_empty() || query == "bulk", "{m:#}");
            let mut at = m["stream_offset"].as_u64().unwrap();
            for f in &fields {
                assert_eq!(f["offset"].as_u64(), Some(at), "{m:#}");
                at += f["length"].as_u64().unwrap();
                seen.entry(query.clone()).or_default().insert(text(&f["name"]).to_string());
                // Payloads are data of the job.
                assert!(f["name"] != "payload" || f["hex"] == "", "{m:#}");
            }
            assert!(query == "bulk" || at == m["stream_offset"].as_u64().unwrap() + m["length"].as_u64().unwrap());
            if query == "check-in" {
                let rank = fields.iter().find(|f| f["name"] == "rank").unwrap();
                let hex: String =
                    (m["number"].as_i64().unwrap() as i32).to_le_bytes().map(|b| format!("{b:02x}")).concat();
                assert_eq!(text(&rank["hex"]), hex);
            }
        }
        let roots = !file.starts_with("2.7") && !file.starts_with("2.16");
        assert_eq!(seen["check-in"].contains("nroots"), roots, "{file}");
        assert_eq!(seen["check-in"].contains("offset"), file.starts_with("2.32"), "{file}");
        assert!(seen["reply"].contains("next address"), "{file}");
    }
    let file = "testdata/nccl/2.26.2-real-4ranks-netsocket.pcap";
    let plain = stdout(&["messages", "-x", "--query", "check-in", file], 0);
    assert!(plain.contains("reply address") && plain.contains("offset 12, 4 bytes"), "{plain}");
}
