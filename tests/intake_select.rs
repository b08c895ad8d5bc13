//! Which evidence is read and what of it counts: pruning, selection, lists, curves, sources.

mod common;

use std::fs;
use std::path::Path;

use common::{LOGS, NODES, Run, analyze, args, command, data, joined, records};
use serde_json::{Value, json};

/// A classic pcap of so many packets of UDP from `first` (seconds) on.
fn filler(first: u32, packets: u32, spacing: u32) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    frame.extend([0x30, 0x39, 0x30, 0x3a, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut pcap = header();
    for n in 0..packets {
        for word in [first + n * spacing, 7, frame.len() as u32, frame.len() as u32] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(&frame);
    }
    pcap
}

fn header() -> Vec<u8> {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        pcap.extend(word.to_le_bytes());
    }
    pcap
}

/// 2,000 files of ten minutes, node-a's capture of the incident among them.
fn rotated(to: &Path) -> usize {
    const PERIOD: u32 = 600;
    let incident = fs::read(data(NODES[0])).unwrap();
    let begin = 1_795_951_200 - 1900 * PERIOD; // file 1900 begins at 11:20:00
    for n in 0..2000u32 {
        let first = begin + n * PERIOD;
        let mut pcap = filler(first, 20, 20);
        for (start, end) in records(&incident) {
            let seconds = u32::from_le_bytes(incident[start..start + 4].try_into().unwrap());
            if (first..first + PERIOD).contains(&seconds) {
                pcap.extend(&incident[start..end]);
            }
        }
        fs::write(to.join(format!("node-a-{n:05}.pcap")), pcap).unwrap();
    }
    2000
}

fn warned(run: &Run, what: &str) -> Vec<String> {
    let captures = run.json["captures"].as_array().unwrap();
    let with = captures.iter().filter(|c| joined(&c["warnings"]).contains(what));
    with.map(|c| c["path"].as_str().unwrap().rsplit('/').next().unwrap().to_string()).collect()
}

#[test]
fn of_two_thousand_rotated_files_those_around_the_kill_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let all = rotated(folder.path());
    let path = folder.path().to_str().unwrap();
    let log = ["--oom", "incident-torch1.13/logs/node-a.dmesg-iso", "--hosts", "hosts"];
    let run = analyze(&args(&[&[path], &log]));
    assert_eq!(run.host("node-a")["verdict"], "confirmed");
    assert_eq!(run.host("node-a")["coverage"], "observed");
    let read: Vec<&str> = run.json["captures"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["packets"].as_u64() > Some(0))
        .map(|c| c["path"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(read, ["node-a-01898.pcap", "node-a-01899.pcap", "node-a-01900.pcap"]);
    assert_eq!(warned(&run, "skipped: ").len(), all - 3);
    assert_eq!(warned(&run, "ends before").len(), 1898);
    assert_eq!(warned(&run, "begins after").len(), 99);
    assert!(run.notes().contains("1997 of 2000 captures were skipped") && run.notes().contains("node-a-01899.pcap"));
    let whole = analyze(&args(&[&[path, "--all-time"], &log]));
    assert!(warned(&whole, "skipped").is_empty());
    assert_eq!(whole.json["totals"]["packets"], 2000 * 20 + records(&fs::read(data(NODES[0])).unwrap()).len());
    assert_eq!(whole.host("node-a")["trigger"], run.host("node-a")["trigger"]);
}

#[test]
fn captures_of_several_hosts_under_like_names_are_no_rotation() {
    let folder = tempfile::tempdir().unwrap();
    // host2 begins a minute after host1, and both last an hour: host1 does not end where host2 begins.
    for (n, first) in [(1, 1_795_948_000), (2, 1_795_948_060), (3, 1_795_948_120)] {
        let mut pcap = filler(first, 360, 10);
        if n == 1 {
            let incident = fs::read(data(NODES[0])).unwrap();
            pcap.extend(&incident[24..]);
        }
        fs::write(folder.path().join(format!("host{n}.pcap")), pcap).unwrap();
    }
    let log = ["--oom", "incident-torch1.13/logs/node-a.dmesg-iso", "--hosts", "hosts"];
    let run = analyze(&args(&[&[folder.path().to_str().unwrap()], &log]));
    assert!(warned(&run, "skipped").is_empty());
    assert_ne!(run.host("node-a")["verdict"], "unexplained");
}

#[test]
fn since_until_host_net_and_source_select() {
    let events = |more: &[&str]| {
        let run = analyze(&args(&[&NODES, &LOGS, more]));
        let hosts: Vec<String> = run.json["oom_events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["host"].as_str().unwrap().to_string())
            .collect();
        (hosts, run)
    };
    let (hosts, run) = events(&["--host", "node-b"]);
    assert_eq!(
        (hosts.as_slice(), run.host("node-b")["verdict"].as_str()),
        (&["node-b".to_string()][..], Some("confirmed"))
    );
    assert!(run.findings().iter().all(|f| f["target"]["host"] == "node-b" || f["source"]["address"] == "192.0.2.12"));
    assert_eq!(events(&["--net", "192.0.2.13/32"]).0, ["node-c"]);
    assert_eq!(events(&["--host", "192.0.2.13"]).0, ["node-c"]);
    assert_eq!(events(&["--until", "2026-11-29T11:20:45Z"]).0, ["node-b"]);
    let (hosts, run) = events(&["--since", "2026-11-29T11:21:00Z"]);
    assert_eq!(hosts, ["node-c"]);
    assert_eq!(run.host("node-c")["verdict"], "unexplained", "the claim lies before --since");
    let none = command().args(args(&[&["analyze"], &NODES, &["--source", "198.51.100.0/24"]])).output().unwrap();
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(none.status.code() == Some(2) && said.contains("198.51.100.0/24"), "{said}");
    let (_, run) = events(&["--source", "192.0.2.250"]);
    assert_eq!(run.incident()["verdict"], "confirmed");
    let bad = command().args(["analyze", "x", "--net", "192.0.2.0/99"]).output().unwrap();
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn approved_sources_have_their_label_and_nodes_may_stand_for_others() {
    let label = ["--known-source", "192.0.2.240/28=security team"];
    let run = analyze(&args(&[&NODES, &LOGS, &label]));
    assert_eq!(run.incident()["source"]["label"], "security team");
    assert_eq!(run.incident()["source"]["may_be_nat"], false);
    assert_eq!(run.json["scans"][0]["source"]["label"], "security team");
    // The same address as a bridge of a node, told by the node itself.
    let folder = tempfile::tempdir().unwrap();
    let facts = "rdzvscope/1 node-x address 192.0.2.250/24 cni0\nrdzvscope/1 node-x end 1\n";
    fs::write(folder.path().join("facts.txt"), facts).unwrap();
    let run = analyze(&args(&[&NODES, &LOGS[..2], &LOGS[4..], &["--hosts", "hosts", folder.path().to_str().unwrap()]]));
    assert_eq!(run.incident()["source"]["may_be_nat"], true);
    assert_eq!(run.json["scans"][0]["source"]["may_be_nat"], true);
    assert_eq!(run.incident()["hosts"].as_array().unwrap().len(), 3, "payload joins what the address does not");
    assert_eq!(run.input("facts.txt")["kind"], "facts");
}

#[test]
fn lists_of_all_forms_name_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let list = |name: &str, text: &str| {
        for old in fs::read_dir(folder.path()).unwrap() {
            fs::remove_file(old.unwrap().path()).unwrap();
        }
        fs::write(folder.path().join(name), text).unwrap();
        let captures = [NODES[0], "incident-torch1.13/scanner.pcap"];
        let log = ["--oom", "node-a=incident-torch1.13/logs/node-a.dmesg-iso", folder.path().to_str().unwrap()];
        let run = analyze(&args(&[&captures, &log]));
        assert_eq!(run.host("node-a")["verdict"], "confirmed", "{name}");
        let input = run.input(name);
        (input["kind"].as_str().unwrap().to_string(), input["format"].as_str().unwrap().to_string())
    };
    let node = r#"{"apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a"},
        "status":{"addresses":[{"type":"InternalIP","address":"192.0.2.11"}]}}],"kind":"List"}"#;
    assert_eq!(list("cluster.json", node), ("kubernetes".into(), "kubernetes".into()));
    assert_eq!(list("node-a.ip", "lo UNKNOWN 127.0.0.1/8\neth0 UP 192.0.2.11/24\n").0, "hosts");
    assert_eq!(list("nodes.txt", "NodeName=node-a NodeAddr=192.0.2.11 NodeHostName=node-a\n").1, "scontrol");
    assert_eq!(list("inventory", "[gpu]\nnode-a ansible_host=192.0.2.11\n").1, "ansible-inventory");
    assert_eq!(
        list("facts.txt", "rdzvscope/1 node-a address 192.0.2.11/24 eth0\n"),
        ("facts".into(), "collected".into())
    );
    let node = r#"[{"ifname":"eth0","addr_info":[{"family":"inet","local":"192.0.2.11","prefixlen":24}]}]"#;
    assert_eq!(list("node-a.json", node).1, "ip-json");
}

#[test]
fn collected_blocks_are_facts_and_log_at_once() {
    let run = analyze(&["logs/collected/node-a-pdsh.txt", NODES[0], NODES[1], NODES[2]]);
    let input = run.input("node-a-pdsh.txt");
    assert_eq!((&input["kind"], &input["format"]), (&json!("facts"), &json!("collected")));
    assert!(input["boot_time"].is_string() || !run.json["oom_events"].as_array().unwrap().is_empty());
    let paths = run.json["inputs"].as_array().unwrap().iter().filter(|i| i["path"] == input["path"]).count();
    assert_eq!(paths, 1, "one path is one input");
}

/// Memory of node-a in percent, read each five seconds, climbing from `begin` (seconds after 11:19:00) in 39 s.
fn curve(begin: f64) -> String {
    let mut text = "host,time,used_percent\n".to_string();
    for n in 0..30 {
        let t = f64::from(n) * 5.0;
        let percent = (10.0 + 80.0 * (t - begin) / 39.0).clamp(10.0, 90.0);
        let (minute, second) = (19 + n * 5 / 60, n * 5 % 60);
        let percent = if t > 110.0 { 8.0 } else { percent };
        text += &format!("node-a,2026-11-29T11:{minute}:{second:02}Z,{percent}\n");
    }
    text
}

#[test]
fn the_climb_of_memory_stands_beside_the_claim() {
    let folder = tempfile::tempdir().unwrap();
    let told = |begin: f64, log: &str| -> (Value, Value) {
        fs::write(folder.path().join("memory.csv"), curve(begin)).unwrap();
        let logs = ["--oom", log, "--hosts", "hosts", folder.path().to_str().unwrap()];
        let run = analyze(&args(&[&[NODES[0]], &logs]));
        (run.host("node-a").clone(), run.input("memory.csv").clone())
    };
    // The claim came at 11:20:10.65.
    let iso = "incident-torch1.13/logs/node-a.dmesg-iso";
    let (part, input) = told(71.0, iso);
    assert_eq!((&input["kind"], &input["format"]), (&json!("facts"), &json!("memory-csv")));
    let reasons = joined(&part["reasons"]);
    assert!(reasons.contains("memory began to climb") && reasons.contains("with the claim"), "{reasons}");
    assert!(reasons.contains("% a second"), "{reasons}");
    assert_eq!(part["verdict"], "confirmed");
    let (part, _) = told(5.0, iso);
    let reasons = joined(&part["reasons"]);
    assert!(reasons.contains("speaks against it"), "{reasons}");
    assert_eq!(part["verdict"], "probable");
}

#[test]
fn lines_that_were_not_understood_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("odd.log");
    fs::write(
        &log,
        "Nov 29 11:20:39 node-a kernel: Out of memory: gave up on \x1b[31mpid 7\nNov 29 11:20:40 node-a x: y\n",
    )
    .unwrap();
    let output = command().arg("oom").arg(&log).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("line 1 looks like an OOM and was not understood") && text.contains("gave up on"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn what_is_none_of_ours_is_counted_and_a_named_path_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("recipe.txt"), "Two eggs\nA little milk\n").unwrap();
    let run = analyze(&[NODES[0], folder.path().to_str().unwrap()]);
    assert!(run.notes().contains("1 file(s)"), "{}", run.notes());
    let named = analyze(&[NODES[0], folder.path().join("recipe.txt").to_str().unwrap()]);
    assert!(named.input("recipe.txt")["error"].as_str().unwrap().starts_with("not understood"));
}

#[test]
fn an_hour_lived_twice_is_settled_by_the_claim() {
    // At 03:00 in Berlin clocks went back to 02:00 on 2026-10-25: the captures are moved to 01:20Z, the second 02:20.
    let folder = tempfile::tempdir().unwrap();
    let mut captures = Vec::new();
    for node in NODES {
        let mut pcap = fs::read(data(node)).unwrap();
        for (start, _) in records(&pcap) {
            let seconds = i64::from(u32::from_le_bytes(pcap[start..start + 4].try_into().unwrap())) + SHIFT;
            pcap[start..start + 4].copy_from_slice(&u32::try_from(seconds).unwrap().to_le_bytes());
        }
        let path = folder.path().join(Path::new(node).file_name().unwrap());
        fs::write(&path, pcap).unwrap();
        captures.push(path.to_str().unwrap().to_string());
    }
    let log = folder.path().join("node-b.log");
    let kill = "Out of memory: Killed process 10273 (python3) total-vm:941138648kB, anon-rss:8203356kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:47596kB oom_score_adj:0";
    fs::write(&log, format!("[Sun Oct 25 02:20:39 2026] {kill}\n")).unwrap();
    captures.extend(args(&[&["--oom", log.to_str().unwrap(), "--hosts", "hosts", "--log-tz", "Europe/Berlin"]]));
    let run = analyze(&captures);
    let event = &run.json["oom_events"][0];
    assert_eq!(event["time"], "2026-10-25T01:20:39.000000000Z");
    assert!(event["time_basis"].as_str().unwrap().contains("the later taken"), "{event}");
    assert_ne!(run.host("node-b")["verdict"], "unexplained");
    assert!(joined(&run.host("node-b")["reasons"]).contains("lived twice"));
}

/// From 2026-11-29T11:20:00Z to 2026-10-25T01:20:00Z, in seconds.
const SHIFT: i64 = -(35 * 86_400 + 10 * 3600);
