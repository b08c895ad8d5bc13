//! Case files: reports from them are those of the captures and logs themselves, joined in any order.

mod common;

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use common::{checked, command, data};

/// One pass of `watch` over `paths` into `case`, and its status.
fn pass(case: &Path, arguments: &[&str]) -> i32 {
    let output = command().arg("watch").args(arguments).args(["--once", "--case"]).arg(case).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    output.status.code().unwrap()
}

/// The document of `report` or `merge`.
fn told(arguments: &[&str]) -> (i32, Value) {
    let run = checked(command().args(arguments).args(["--format", "json"]).output().unwrap());
    (run.status, run.json)
}

/// What two reports must have in common: all but the command line, and what lies in a directory and is not read.
fn assert_same(mut a: Value, mut b: Value) {
    for document in [&mut a, &mut b] {
        let fields = document.as_object_mut().unwrap();
        fields.remove("arguments");
        let inputs = fields["inputs"].as_array_mut().unwrap();
        inputs.retain(|i| !i["warnings"].to_string().contains("passed over"));
        let notes = fields["notes"].as_array_mut().unwrap();
        notes.retain(|n| !n.to_string().contains("passed over"));
    }
    for (name, value) in a.as_object().unwrap() {
        assert_eq!(value, &b[name], "{name}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const HOSTS: [&str; 2] = ["--hosts", "hosts"];

#[test]
fn a_report_from_a_case_is_that_of_the_captures() {
    let directory = TempDir::new().unwrap();
    for (name, status) in [
        ("torchrun", 0),
        ("silence-torch1.12", 0),
        ("links", 1),
        ("scans", 1),
        ("frames", 1),
        ("other-strangers", 1),
        ("store-and-nccl", 1),
        ("survivors-torch2.15", 0),
    ] {
        let case = directory.path().join(name);
        assert_eq!(pass(&case, &[&[name], &HOSTS[..]].concat()), status, "{name}");
        assert_eq!(pass(&case, &[name]), 0, "{name}: nothing is new in a second pass");
        let (_, report) = told(&["report", "--case", text(&case)]);
        let (_, analysis) = told(&[&["analyze", name], &HOSTS[..]].concat());
        assert_same(report, analysis);
    }
}

#[test]
fn cases_of_three_hosts_in_any_order_are_one_analysis() {
    let directory = TempDir::new().unwrap();
    let known = ["--hosts", "hosts", "--boot", "node-a=2026-11-29T11:12:08Z"];
    let mut inputs = Vec::new();
    let mut cases = Vec::new();
    for node in ["node-a", "node-b", "node-c"] {
        let case = directory.path().join(format!("{node}.db"));
        let capture = format!("incident-torch1.13/{node}.pcap");
        let logs: Vec<String> = std::fs::read_dir(data("incident-torch1.13/logs"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n.starts_with(node))
            .map(|n| format!("incident-torch1.13/logs/{n}"))
            .collect();
        let mut arguments = vec![capture.as_str()];
        arguments.extend(logs.iter().flat_map(|l| ["--oom", l]));
        arguments.extend(known);
        assert_eq!(pass(&case, &arguments), 1, "{node}");
        inputs.push(capture);
        cases.push(case);
    }
    let mut arguments = vec!["analyze"];
    arguments.extend(inputs.iter().map(String::as_str));
    arguments.extend(["--oom", "incident-torch1.13/logs"]);
    arguments.extend(known);
    let (status, analysis) = told(&arguments);
    let [a, b, c] = [text(&cases[0]), text(&cases[1]), text(&cases[2])];
    let orders: [&[&str]; 3] = [&["merge", a, b, c], &["merge", c, a, b], &["merge", b, a, b, c, a]];
    for order in orders {
        let (merged_status, merged) = told(order);
        assert_eq!(merged_status, status, "{order:?}");
        let incident = &merged["incidents"][0];
        assert_eq!(
            (incident["scope"].as_str(), incident["verdict"].as_str()),
            (Some("synchronized"), Some("confirmed"))
        );
        assert_same(merged, analysis.clone());
    }
}

#[test]
fn a_case_can_be_checked_copied_and_looked_at() {
    let directory = TempDir::new().unwrap();
    let case = directory.path().join("case.db");
    pass(&case, &["scans/netcat.pcap"]);
    let copy = directory.path().join("copy.db");
    let run = |arguments: &[&str]| {
        let output = command().arg("case").args(arguments).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    assert_eq!(run(&["check", text(&case)]).0, 0);
    assert_eq!(run(&["backup", text(&case), text(&copy)]).0, 0);
    assert_eq!(run(&["backup", text(&case), text(&copy)]).0, 2, "a copy overwrites nothing");
    assert_eq!(run(&["compact", text(&case)]).0, 0);
    let (status, info) = run(&["info", "--json", text(&copy)]);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!((status, &info["captures"], &info["schema"]), (0, &Value::from(1), &Value::from(3)));
    assert_eq!(told(&["report", "--case", text(&copy)]).0, 1);

    let missing = directory.path().join("missing.db");
    assert_eq!(run(&["info", text(&missing)]).0, 2);
    assert!(!missing.exists(), "looking at a case does not make one");
    // Damage in the middle of the file.
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xaa);
    std::fs::write(&copy, &bytes).unwrap();
    let (status, text) = run(&["check", text(&copy)]);
    assert_eq!(status, 2, "{text}");
}

#[test]
fn since_leaves_out_what_came_before() {
    let directory = TempDir::new().unwrap();
    let case = directory.path().join("case.db");
    pass(&case, &["scans/netcat.pcap", "incident-torch1.13/node-a.pcap"]);
    let (_, all) = told(&["report", "--case", text(&case)]);
    let times: Vec<&str> = all["findings"].as_array().unwrap().iter().map(|f| f["time"].as_str().unwrap()).collect();
    let since = times[times.len() / 2];
    let (_, some) = told(&["report", "--case", text(&case), "--since", since]);
    let kept = some["findings"].as_array().unwrap();
    assert_eq!(kept.len(), times.iter().filter(|t| **t >= since).count());
    assert!(kept.len() < times.len() && !kept.is_empty());
}

#[test]
fn earlier_nights_of_a_source_are_told() {
    let directory = TempDir::new().unwrap();
    let (captures, case, alerts) =
        (directory.path().join("pcap"), directory.path().join("case.db"), directory.path().join("alerts"));
    std::fs::create_dir(&captures).unwrap();
    let notes = || told(&["report", "--case", text(&case)]).1["notes"].to_string();
    std::fs::copy(data("incident-torch1.13/node-a.pcap"), captures.join("node-a.pcap")).unwrap();
    assert_eq!(pass(&case, &[text(&captures)]), 1);
    assert!(!notes().contains("earlier night"), "{}", notes());
    // The same scan of another host at the same hour, two days later.
    let mut bytes = std::fs::read(data("incident-torch1.13/node-c.pcap")).unwrap();
    for (start, _) in common::records(&bytes) {
        let seconds = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap()) + 2 * 86_400;
        bytes[start..start + 4].copy_from_slice(&seconds.to_le_bytes());
    }
    std::fs::write(captures.join("node-c.pcap"), bytes).unwrap();
    assert_eq!(pass(&case, &[text(&captures), "--alert-file", text(&alerts)]), 1);
    let told: Vec<Value> =
        std::fs::read_to_string(&alerts).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let claim = told.iter().find(|a| a["rule"] == "store-claim").unwrap();
    assert_eq!(claim["history"], serde_json::json!({"nights": 1, "dates": ["2026-11-29"]}));
    assert!(
        notes().contains("192.0.2.250 came with nmap at this hour on an earlier night too: 2026-11-29."),
        "{}",
        notes()
    );
}
