//! Cases and evidence that earlier versions wrote are read for ever; a case is read wherever it lies, and what is lost of
//! it is said.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use common::{checked, command, data};

/// What the stored files are of, as `analyze` takes it.
const INPUTS: [&str; 11] = [
    "--all-time",
    "incident-torch1.13/node-a.pcap",
    "store-and-nccl",
    "links/vxlan-underlay.pcap",
    "links/node-b-any-sll2.pcap",
    "--oom",
    "incident-torch1.13/logs/node-a.dmesg",
    "--hosts",
    "hosts",
    "--boot",
    "node-a=2026-11-29T11:12:08Z",
];

fn told(arguments: &[&str]) -> Value {
    checked(command().args(arguments).args(["--format", "json"]).output().unwrap()).json
}

/// A file of `testdata/stored`, unpacked.
fn unpacked(place: &Path, name: &str) -> PathBuf {
    let bytes = fs::read(data(&format!("stored/{name}.zst"))).unwrap();
    let path = place.join(name);
    fs::write(&path, zstd::bulk::decompress(&bytes, 64 << 20).unwrap()).unwrap();
    path
}

/// What is told, without what records of the first layout do not hold: the packet with which a client closed.
fn assert_tells_the_same(report: &Value, analysis: &Value, name: &str) {
    let findings = |v: &Value| -> Vec<Value> {
        let of = |f: &Value| {
            ["id", "rule", "severity", "time", "source", "target", "declared"].map(|k| f[k].clone()).to_vec()
        };
        v["findings"].as_array().unwrap().iter().map(|f| Value::from(of(f))).collect()
    };
    assert_eq!(findings(report), findings(analysis), "{name}: findings");
    let incidents = |v: &Value| -> Vec<Value> {
        let host = |h: &Value| {
            Value::from(["host", "address", "trigger", "oom_event", "verdict"].map(|k| h[k].clone()).to_vec())
        };
        let hosts = |i: &Value| Value::from(i["hosts"].as_array().unwrap().iter().map(host).collect::<Vec<_>>());
        let one = |i: &Value| Value::from(vec![i["id"].clone(), i["verdict"].clone(), hosts(i)]);
        v["incidents"].as_array().unwrap().iter().map(one).collect()
    };
    assert_eq!(incidents(report), incidents(analysis), "{name}: incidents");
    for part in ["oom_events", "coverage"] {
        assert_eq!(report[part], analysis[part], "{name}: {part}");
    }
}

#[test]
fn cases_and_evidence_of_the_first_version_tell_what_analyze_tells() {
    let place = TempDir::new().unwrap();
    let analysis = told(&[&["analyze"], &INPUTS[..]].concat());
    assert!(analysis["findings"].as_array().unwrap().len() > 20);
    let case = unpacked(place.path(), "case-schema-3.db");
    let case = case.to_str().unwrap();
    assert_tells_the_same(&told(&["report", "--case", case]), &analysis, "case");
    assert_tells_the_same(&told(&["merge", case]), &analysis, "merge of a case");
    assert_tells_the_same(&told(&["merge", "stored/evidence-1.0.jsonl"]), &analysis, "segment");
    let central = unpacked(place.path(), "central-schema-3.db");
    assert_tells_the_same(&told(&["report", "--case", central.to_str().unwrap()]), &analysis, "central case");
    // Written on by this version, it stays what it was.
    let watch =
        command().args(["watch", "incident-torch1.13/node-a.pcap", "--once", "-q", "--case", case]).output().unwrap();
    // What that version did not know yet is new.
    assert!(watch.status.code() < Some(2), "{}", String::from_utf8_lossy(&watch.stderr));
    assert_tells_the_same(&told(&["report", "--case", case]), &analysis, "case, used");
    let lines = told(&["merge", "stored/analyze-evidence-1.0.jsonl"]);
    let analysis =
        ["--all-time", "incident-torch1.13/node-b.pcap", "scans", "--oom", "incident-torch1.13/logs/node-b.dmesg-iso"];
    let analysis = told(&[&["analyze", "--hosts", "hosts"], &analysis[..]].concat());
    assert_tells_the_same(&lines, &analysis, "lines of analyze");
}

#[test]
fn a_case_is_read_where_nothing_can_be_written() {
    let place = TempDir::new().unwrap();
    let case = unpacked(place.path(), "case-schema-3.db");
    let whole = told(&["report", "--case", case.to_str().unwrap()]);
    // A copy of the file alone, in a folder that nobody may write; a user who is not root runs the program there.
    let closed = place.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let copy = closed.join("case.db");
    fs::copy(&case, &copy).unwrap();
    let as_other = |arguments: &[&str]| {
        let program = command().get_program().to_owned();
        let mut all = vec!["--reuid=65534", "--regid=65534", "--clear-groups", "--"]
            .into_iter()
            .map(Into::into)
            .collect::<Vec<std::ffi::OsString>>();
        all.push(program);
        all.extend(arguments.iter().map(Into::into));
        std::process::Command::new("setpriv").args(all).env("TMPDIR", "/tmp").output().unwrap()
    };
    for path in [place.path(), &closed] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    if !as_other(&["--version"]).status.success() {
        return common::skipped("a case in a folder of another user: another user cannot run the program here");
    }
    let name = copy.to_str().unwrap();
    let output = as_other(&["report", "--case", name, "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_tells_the_same(&report, &whole, "another user");
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 1, "nothing was written beside it");
    for line in [&["case", "check", name][..], &["case", "info", name], &["merge", name]] {
        let output = as_other(line);
        assert_ne!(output.status.code(), Some(2), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // With a journal that holds what the file does not.
    let db = rusqlite::Connection::open(&case).unwrap();
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; UPDATE told SET rank=rank+1;").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    let journal = place.path().join("case-schema-3.db-wal");
    assert!(fs::metadata(&journal).unwrap().len() > 0);
    fs::copy(&case, closed.join("with.db")).unwrap();
    fs::copy(&journal, closed.join("with.db-wal")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let with = closed.join("with.db");
    let output = as_other(&["report", "--case", with.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_tells_the_same(&report, &whole, "with a journal");
    drop(db);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_lost_of_a_case_makes_status_2_in_every_format() {
    let place = TempDir::new().unwrap();
    for (what, sql) in [
        (
            "batches of kept segments",
            "UPDATE segment SET data=substr(data, 1, length(data)/2) WHERE id=(SELECT min(id) FROM segment)",
        ),
        (
            "kept flow records",
            "UPDATE flow SET data=x'01' WHERE (set_id, capture_id, packet)=(SELECT set_id, capture_id, packet FROM flow LIMIT 1)",
        ),
        ("kept lines", "UPDATE log_part SET data=x'0102'"),
    ] {
        let case = unpacked(place.path(), "case-schema-3.db");
        let db = rusqlite::Connection::open(&case).unwrap();
        assert!(db.execute(sql, []).unwrap() > 0, "{what}");
        drop(db);
        let case = case.to_str().unwrap();
        for format in ["table", "markdown", "json", "jsonl", "csv", "html"] {
            let output = command().args(["report", "--case", case, "--format", format]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{what}, {format}: {said}");
            assert!(said.contains(what) && said.contains("is lost"), "{what}, {format}: {said}");
            assert!(!output.stdout.is_empty(), "{what}, {format}");
        }
        let check = command().args(["case", "check", case]).output().unwrap();
        assert_eq!(check.status.code(), Some(2), "{what}");
    }
}

#[test]
fn json_lines_escape_names_of_files_as_the_document_does() {
    let place = TempDir::new().unwrap();
    let name = place.path().join("a\u{9b}31m\u{202e}b\u{200b}c\u{7f}.pcap");
    fs::copy(data("incident-torch1.13/node-a.pcap"), &name).unwrap();
    let name = name.to_str().unwrap();
    let unsafe_in = |text: &str| text.chars().find(|c| *c != '\n' && rdzvscope::api::report::escape::is_unsafe(*c));
    let document = told(&["analyze", name]);
    let path = document["captures"][0]["path"].as_str().unwrap();
    let case = place.path().join("case.db");
    let segments = place.path().join("segments");
    let watch = ["watch", name, "--once", "--case", case.to_str().unwrap(), "--evidence", segments.to_str().unwrap()];
    for line in [
        &["analyze", name, "--format", "jsonl"][..],
        &["messages", name, "--format", "jsonl"],
        &["streams", name, "--format", "jsonl"],
        &["streams", name, "--format", "json"],
        &watch,
        &["report", "--case", case.to_str().unwrap(), "--format", "jsonl"],
    ] {
        let output = command().args(line).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(unsafe_in(&text), None, "{line:?}");
        assert!(!text.is_empty(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        for one in text.lines().filter(|l| l.starts_with("{\"type\":\"message\"")) {
            let message: Value = serde_json::from_str(one).unwrap();
            assert_eq!(message["capture"], path);
        }
    }
    for entry in fs::read_dir(segments).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(unsafe_in(&text), None, "{}", path.display());
        assert_tells_the_same(&told(&["merge", path.to_str().unwrap()]), &document, "merge");
    }
}
