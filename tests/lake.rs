//! `--rows`, and the schemas and questions of `contrib/lake` asked of a real incident.

mod checkers;
mod common;

use std::collections::BTreeMap;
use std::process::Command;

use checkers::{root, skipped};
use common::command;
use serde_json::Value;
use tempfile::TempDir;

/// The rows of the incident on three hosts, by way of evidence.
fn rows(place: &TempDir) -> std::path::PathBuf {
    let incident = root().join("testdata/incident-torch1.13");
    let evidence = place.path().join("evidence.jsonl");
    let ok = |out: std::process::Output| assert!(out.status.success(), "{}", checkers::said(&out));
    let captures = ["node-a", "node-b", "node-c"].map(|n| incident.join(format!("{n}.pcap")));
    let mut analyze = command();
    analyze.arg("analyze").args(captures).arg("--oom").arg(incident.join("logs"));
    analyze.arg("--hosts").arg(root().join("testdata/hosts")).args(["--format", "jsonl", "--exit-zero", "-o"]);
    ok(analyze.arg(&evidence).output().unwrap());
    let rows = place.path().join("rows");
    let mut merge = command();
    merge
        .arg("merge")
        .arg(&evidence)
        .args(["--format", "json", "--exit-zero", "-o"])
        .arg(place.path().join("report.json"));
    ok(merge.arg("--rows").arg(&rows).output().unwrap());
    // Rows go nowhere where something is.
    let mut again = command();
    again.arg("merge").arg(&evidence).args(["--exit-zero", "-o"]).arg(place.path().join("again.txt"));
    assert_eq!(again.arg("--rows").arg(&rows).output().unwrap().status.code(), Some(2));
    rows
}

#[test]
fn rows_are_flat_of_stable_types_and_those_of_the_report() {
    let place = TempDir::new().unwrap();
    let rows = rows(&place);
    let report: Value = serde_json::from_slice(&std::fs::read(place.path().join("report.json")).unwrap()).unwrap();
    for (file, list) in [
        ("findings", "findings"),
        ("oom_events", "oom_events"),
        ("incidents", "incidents"),
        ("listeners", "listeners"),
        ("scans", "scans"),
        ("incident_hosts", ""),
    ] {
        let text = std::fs::read_to_string(rows.join(format!("{file}.jsonl"))).unwrap();
        let all: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let wanted = match list {
            "" => report["incidents"].as_array().unwrap().iter().map(|i| i["hosts"].as_array().unwrap().len()).sum(),
            list => report[list].as_array().unwrap().len(),
        };
        assert!(wanted > 0 && all.len() == wanted, "{file}: {} of {wanted}", all.len());
        let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
        let columns: Vec<&String> = all[0].as_object().unwrap().keys().collect();
        for row in &all {
            let row = row.as_object().unwrap();
            assert_eq!(row.keys().collect::<Vec<_>>(), columns, "{file}");
            for (name, value) in row {
                let kind = match value {
                    Value::Null => continue,
                    Value::Bool(_) => "bool",
                    Value::Number(n) if n.is_f64() => "real",
                    Value::Number(_) => "integer",
                    Value::String(_) => "text",
                    other => panic!("{file}.{name} is {other}"),
                };
                assert_eq!(*kinds.entry(name).or_insert(kind), kind, "{file}.{name}");
            }
        }
    }
}

#[test]
fn duckdb_answers_the_questions() {
    let libraries = root().join("target/tools/python");
    let python = |script: &str| {
        Command::new("python3").args(["-c", script]).env("PYTHONPATH", &libraries).current_dir(root()).output().unwrap()
    };
    if !python("import duckdb").status.success() {
        return skipped("DuckDB's Python package is not there (tools/checkers.sh fetches it)");
    }
    let place = TempDir::new().unwrap();
    let rows = rows(&place);
    let script = format!(
        r#"
import duckdb, json, re
c = duckdb.connect()
c.execute("SET VARIABLE rows = '{}'")
c.execute(open("contrib/lake/duckdb.sql").read())
text = open("contrib/lake/questions.sql").read()
for name, query in re.findall(r"-- question: (.*)\n([^;]*);", text):
    print(json.dumps([name, [[str(v) for v in row] for row in c.execute(query).fetchall()]]))
"#,
        rows.display()
    );
    let out = python(&script);
    assert!(out.status.success(), "{}", checkers::said(&out));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let answers: BTreeMap<String, Vec<Vec<String>>> =
        text.lines().map(|l| serde_json::from_str::<(String, Vec<Vec<String>>)>(l).unwrap()).collect();
    let answer = |start: &str| answers.iter().find(|(k, _)| k.starts_with(start)).unwrap().1;
    let hosts: Vec<&str> = answer("which hosts").iter().map(|r| r[0].as_str()).collect();
    assert_eq!(hosts, ["node-a", "node-b", "node-c"], "{text}");
    // The largest is a length that no allocation can have; it does not fit a signed number.
    assert!(answer("which hosts").iter().all(|r| r[2] == "9309061931890442240"), "{text}");
    assert!(answer("kills without").is_empty(), "{text}");
    assert_eq!(answer("listeners that").len(), 3, "{text}");
    // 29, 39 and 58 s.
    let mean = &answer("mean time")[0];
    assert!((40.0..45.0).contains(&mean[0].parse::<f64>().unwrap()) && mean[1] == "3", "{text}");
    assert_eq!(answer("scans that")[0][..2], ["192.0.2.250".to_owned(), "nmap".to_owned()], "{text}");
    assert!(!answer("claims a week").is_empty(), "{text}");
}
