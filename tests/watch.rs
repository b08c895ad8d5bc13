//! `watch`: killed, restarted, overtaken by its ring; each finding once, and none lost.

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use common::{checked, command, data, records};

fn watch(directory: &Path, case: &Path, more: &[&str]) -> (i32, String, String) {
    let output =
        command().arg("watch").arg(directory).arg("--case").arg(case).arg("--once").args(more).output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn report(case: &Path) -> Value {
    let mut json =
        checked(command().arg("report").arg("--case").arg(case).args(["--format", "json"]).output().unwrap()).json;
    json.as_object_mut().unwrap().remove("arguments");
    json
}

/// The report as it is printed, to the byte, but for the name of the case.
fn printed(case: &Path, form: &str) -> String {
    let output = command().arg("report").arg("--case").arg(case).args(["--format", form]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace(case.to_str().unwrap(), "case.db")
}

fn analyze(directory: &Path) -> Value {
    checked(command().arg("analyze").arg(directory).args(["--format", "json"]).output().unwrap()).json
}

/// A host has the name of its capture, which differs here.
fn without_hosts(value: &Value) -> Value {
    match value {
        Value::Object(o) => {
            Value::Object(o.iter().filter(|(k, _)| *k != "host").map(|(k, v)| (k.clone(), without_hosts(v))).collect())
        }
        Value::Array(a) => Value::Array(a.iter().map(without_hosts).collect()),
        other => other.clone(),
    }
}

/// Words that are paths of captures, without what they are called: copies of a file have other names.
fn without_paths(value: &Value) -> Value {
    match value {
        Value::Object(o) => o.iter().map(|(k, v)| (k.clone(), without_paths(v))).collect(),
        Value::Array(a) => a.iter().map(without_paths).collect(),
        Value::String(s) => {
            let plain = |w: &str| if w.contains(".pcap") { "CAPTURE".to_string() } else { w.to_string() };
            s.split(' ').map(plain).collect::<Vec<_>>().join(" ").into()
        }
        other => other.clone(),
    }
}

fn ids(report: &Value) -> Vec<String> {
    let mut ids: Vec<String> =
        report["findings"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap().to_string()).collect();
    ids.sort();
    ids
}

/// How often each finding stands in a file of alerts.
fn alerts(file: &Path) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        // A line that a killed process left half is no alert; the next one follows on a line of its own.
        let Ok(alert) = serde_json::from_str::<Value>(line) else { continue };
        if alert["type"] == "finding" {
            *seen.entry(alert["id"].as_str().unwrap().to_string()).or_default() += 1;
        }
    }
    seen
}

fn fill(directory: &Path) {
    for name in ["incident-torch1.13", "torchrun"] {
        std::fs::create_dir_all(directory.join(name)).unwrap();
        for entry in std::fs::read_dir(data(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "pcap") {
                std::fs::copy(&path, directory.join(name).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

/// A small generator of numbers: the delays of each run of the test are others, and are said when it fails.
struct Numbers(u64);

impl Numbers {
    fn new() -> Numbers {
        Numbers(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64 | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[test]
fn killed_at_any_moment_it_holds_each_finding_once() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("captures");
    fill(&captures);
    let undisturbed = place.path().join("undisturbed.db");
    let begun = Instant::now();
    assert_eq!(watch(&captures, &undisturbed, &[]).0, 1);
    let whole = begun.elapsed();
    let expected = report(&undisturbed);
    let [json, table] = ["json", "table"].map(|form| printed(&undisturbed, form));

    let mut numbers = Numbers::new();
    let seed = numbers.0;
    let (mut kills, mut cases) = (0, 0);
    // A hundred where there is time for it; CI has less.
    let wanted = std::env::var("RDZVSCOPE_KILLS").ok().and_then(|k| k.parse().ok());
    let deadline = Instant::now() + Duration::from_secs(if wanted.is_some() { 3600 } else { 90 });
    let enough = wanted.unwrap_or(32);
    while kills < enough && Instant::now() < deadline {
        cases += 1;
        let case = place.path().join(format!("case-{cases}.db"));
        let file = place.path().join(format!("alerts-{cases}.jsonl"));
        let evidence = place.path().join(format!("evidence-{cases}"));
        // Some kills, then one pass that is left in peace.
        for _ in 0..8 {
            let mut child: Child = command()
                .args(["watch", "--once", "--alert-on", "info", "--alert-file"])
                .arg(&file)
                .arg("--evidence")
                .arg(&evidence)
                .arg("--case")
                .arg(&case)
                .arg(&captures)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(numbers.below(whole.as_micros() as u64)));
            child.kill().unwrap();
            kills += usize::from(child.wait().unwrap().code().is_none());
        }
        let (alert_file, out) = (file.to_str().unwrap(), evidence.to_str().unwrap());
        let (status, _, errors) =
            watch(&captures, &case, &["--alert-on", "info", "--alert-file", alert_file, "--evidence", out]);
        assert!(status < 2, "seed {seed}: {errors}");
        assert_eq!(watch(&captures, &case, &["--alert-file", file.to_str().unwrap()]).0, 0, "seed {seed}");
        assert_eq!(report(&case), expected, "seed {seed}");
        assert!(printed(&case, "json") == json && printed(&case, "table") == table, "seed {seed}: not the same bytes");
        // What was shipped in between says the same.
        let merged = command().arg("merge").arg(&evidence).args(["--format", "json"]).output().unwrap();
        let mut merged = checked(merged).json;
        merged.as_object_mut().unwrap().remove("arguments");
        assert_eq!(merged, expected, "seed {seed}");
        let told = alerts(&file);
        // Notices of one rule and source may be told as one flood.
        let notices: Vec<&Value> = expected["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["severity"] == "notice")
            .map(|f| &f["id"])
            .collect();
        for id in ids(&expected).into_iter().filter(|id| !notices.iter().any(|n| *n == id.as_str())) {
            // At least once; more only where the process was killed between delivery and its note.
            assert!(told.get(&id).is_some_and(|n| *n <= 9), "seed {seed}: {id} {:?}", told.get(&id));
        }
        assert_eq!(command().args(["case", "check"]).arg(&case).output().unwrap().status.code(), Some(0));
    }
    assert!(kills >= enough.min(8) && kills >= wanted.unwrap_or(0), "only {kills} runs were killed in time");
}

#[test]
fn a_growing_file_is_read_on_and_compression_makes_no_new_capture() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let case = place.path().join("case.db");
    let whole = std::fs::read(data("incident-torch1.13/node-a.pcap")).unwrap();
    let file = captures.join("node-a-1.pcap");
    let ends: Vec<usize> = records(&whole).iter().map(|r| r.1).collect();
    // In the file header, in the middle of records, in the middle of the scan.
    let mut cuts: Vec<usize> = (1..12).map(|i| ends[ends.len() * i / 12] + 7 * i).collect();
    cuts.insert(0, 10);
    cuts.push(whole.len());
    let mut fresh = Vec::new();
    for cut in cuts {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let (status, out, errors) = watch(&captures, &case, &[]);
        assert!(status < 2, "{errors}");
        for line in out.lines() {
            let told: Value = serde_json::from_str(line).unwrap();
            fresh.push((told["type"].to_string(), told["id"].as_str().unwrap().to_string()));
        }
    }
    let all = fresh.len();
    fresh.sort();
    fresh.dedup();
    let expected = analyze(&captures);
    let told: Vec<String> = fresh.iter().filter(|f| f.0 == "\"finding\"").map(|f| f.1.clone()).collect();
    assert!(ids(&expected).iter().all(|id| told.contains(id)), "none is lost");
    assert!(all - fresh.len() <= 3, "told again only when it became graver: {all} and {}", fresh.len());
    let kept = report(&case);
    assert_eq!((&kept["findings"], &kept["captures"]), (&expected["findings"], &expected["captures"]));

    // tcpdump -z gzip.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&whole).unwrap();
    std::fs::write(captures.join("node-a-1.pcap.gz"), packed.finish().unwrap()).unwrap();
    assert_eq!(watch(&captures, &case, &[]).0, 0);
    std::fs::remove_file(&file).unwrap();
    let (status, out, errors) = watch(&captures, &case, &[]);
    assert_eq!((status, out.as_str(), errors.as_str()), (0, "", ""));
    assert_eq!(ids(&report(&case)), ids(&expected));
    assert_eq!(report(&case)["captures"].as_array().unwrap().len(), 1);
}

#[test]
fn a_ring_that_uses_a_name_again_is_another_capture() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let case = place.path().join("case.db");
    let mut parts: Vec<_> = std::fs::read_dir(data("torchrun"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.to_string_lossy().contains("node-c-rot"))
        .collect();
    parts.sort();
    assert_eq!(parts.len(), 5);
    // A ring of two names over five files.
    for (i, part) in parts.iter().enumerate() {
        std::fs::copy(part, captures.join(format!("ring{}.pcap", i % 2))).unwrap();
        let (status, _, errors) = watch(&captures, &case, &[]);
        assert_eq!(status, 0, "{errors}");
        assert!(errors.is_empty(), "{errors}");
    }
    let kept = report(&case);
    let expected = checked(command().arg("analyze").args(&parts).args(["--format", "json"]).output().unwrap()).json;
    assert_eq!(kept["captures"].as_array().unwrap().len(), 5);
    let totals = |v: &Value| [v["totals"]["packets"].clone(), v["totals"]["flows"].clone()];
    assert_eq!(totals(&kept), totals(&expected), "flows go on from file to file");
    let jobs = |v: &Value| without_paths(&without_hosts(&v["jobs"]));
    assert!(jobs(&kept) == jobs(&expected), "other jobs");
    assert_eq!(kept["findings"], expected["findings"]);

    // The newest file is overwritten before another followed it: whether it was read to its end is not known.
    std::fs::copy(data("incident-torch1.13/node-b.pcap"), captures.join("ring0.pcap")).unwrap();
    let (status, out, errors) = watch(&captures, &case, &[]);
    assert!(errors.contains("another capture has taken its name"), "{errors}");
    assert!(out.contains("watch-overwritten"), "{out}");
    assert_eq!(status, 1, "and what the new one holds is found");
}

#[test]
fn two_captures_that_begin_alike_are_two_and_a_copy_is_none() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let case = place.path().join("case.db");
    // The same packets on the same interface; one was taken with a filter and begins as the other does.
    let names = ["node-b-unfiltered.pcap.zst", "node-b.pcap"];
    for (i, name) in names.iter().enumerate() {
        std::fs::copy(data("incident-torch1.13").join(name), captures.join(name)).unwrap();
        watch(&captures, &case, &[]);
        assert_eq!(report(&case)["captures"].as_array().unwrap().len(), i + 1);
    }
    assert_eq!(report(&case)["findings"], analyze(&captures)["findings"]);
    std::fs::copy(captures.join("node-b.pcap"), captures.join("copy.pcap")).unwrap();
    assert_eq!(watch(&captures, &case, &[]), (0, String::new(), String::new()));
    assert_eq!(report(&case)["captures"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_read_is_trouble_said_once_and_read_when_it_can_be() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let case = place.path().join("case.db");
    let alerts_file = place.path().join("alerts");
    let alert = ["--alert-file", alerts_file.to_str().unwrap()];
    // A link that points nowhere cannot be read by root either.
    let link = captures.join("node-a.pcap");
    std::os::unix::fs::symlink(place.path().join("later.pcap"), &link).unwrap();
    for _ in 0..2 {
        assert_eq!(watch(&captures, &case, &alert).0, 2);
    }
    let notices = std::fs::read_to_string(&alerts_file).unwrap();
    assert_eq!(notices.matches("watch-unreadable").count(), 1, "{notices}");
    std::fs::copy(data("scans/netcat.pcap"), place.path().join("later.pcap")).unwrap();
    assert_eq!(watch(&captures, &case, &alert).0, 1);
    assert_eq!(watch(&captures, &case, &alert).0, 0);
}

#[test]
fn alerts_wait_until_their_command_succeeds() {
    let place = TempDir::new().unwrap();
    let case = place.path().join("case.db");
    let capture = data("scans/netcat.pcap");
    let out = place.path().join("out");
    let (status, _, errors) = watch(&capture, &case, &["--alert-exec", "exit 7"]);
    assert_eq!(status, 1);
    assert!(errors.contains("was not delivered"), "{errors}");
    let receive = format!("cat >> {}", out.display());
    assert_eq!(watch(&capture, &case, &["--alert-exec", &receive]).0, 0, "nothing is new, but it is delivered");
    let alerts = alerts(&out);
    assert!(!alerts.is_empty() && alerts.values().all(|n| *n == 1), "{alerts:?}");
    let before = std::fs::read(&out).unwrap();
    watch(&capture, &case, &["--alert-exec", &receive]);
    assert_eq!(std::fs::read(&out).unwrap(), before);
}

#[test]
fn one_case_has_one_writer_and_a_later_schema_is_refused() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let case = place.path().join("case.db");
    let mut child = command()
        .args(["watch", "--interval", "50ms", "--case"])
        .arg(&case)
        .arg(&captures)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let ready = || command().args(["case", "info"]).arg(&case).output().unwrap().status.success();
    while !ready() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, _, errors) = watch(&captures, &case, &[]);
    assert_eq!(status, 2);
    assert!(errors.contains("another process is at work"), "{errors}");
    // A file that appears is read, and SIGTERM ends the work in order.
    std::fs::copy(data("scans/netcat.pcap"), captures.join("a.pcap")).unwrap();
    while ids(&report(&case)).is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(ids(&report(&case)), ids(&analyze(&captures)));

    let db = rusqlite::Connection::open(&case).unwrap();
    db.execute_batch("PRAGMA user_version=99").unwrap();
    drop(db);
    let (status, _, errors) = watch(&captures, &case, &[]);
    assert_eq!(status, 2);
    assert!(errors.contains("later version"), "{errors}");
}

#[test]
fn old_observations_are_let_go_and_nothing_is_told_again() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let case = place.path().join("case.db");
    std::fs::copy(data("incident-torch1.13/node-a.pcap"), captures.join("a1.pcap")).unwrap();
    assert_eq!(watch(&captures, &case, &["--keep", "30d"]).0, 1);
    let flows = |case: &Path| {
        let output = command().args(["case", "info", "--json"]).arg(case).output().unwrap();
        let info: Value = serde_json::from_slice(&output.stdout).unwrap();
        info["flows"].as_u64().unwrap()
    };
    let before = flows(&case);
    assert_eq!(watch(&captures, &case, &["--keep", "1s"]).0, 0);
    assert!(flows(&case) < before);
    assert_eq!(watch(&captures, &case, &["--keep", "1s"]).0, 0);
    assert_eq!(command().args(["case", "check"]).arg(&case).output().unwrap().status.code(), Some(0));
}

#[test]
fn logs_are_followed_alongside() {
    let place = TempDir::new().unwrap();
    let log = place.path().join("node-b.log");
    let case = place.path().join("case.db");
    let name = "incident-torch1.13/logs";
    let path = std::fs::read_dir(data(name)).unwrap().map(|e| e.unwrap().path()).find(|p| {
        p.file_name().unwrap().to_string_lossy().starts_with("node-b") && p.to_string_lossy().contains("iso")
    });
    let whole = std::fs::read(path.unwrap()).unwrap();
    let capture = data("incident-torch1.13/node-b.pcap");
    let oom = format!("node-b={}", log.display());
    let hosts = data("hosts");
    let more = ["--oom", &oom, "--hosts", hosts.to_str().unwrap()];
    let mut statuses = Vec::new();
    for part in 1..=4 {
        std::fs::write(&log, &whole[..whole.len() * part / 4]).unwrap();
        statuses.push(watch(&capture, &case, &more).0);
    }
    assert!(statuses.iter().all(|s| *s < 2), "{statuses:?}");
    let kept = report(&case);
    let output = command().arg("analyze").arg(&capture).args(more).args(["--format", "json"]).output().unwrap();
    let expected = checked(output).json;
    assert_eq!(kept["oom_events"], expected["oom_events"]);
    assert_eq!(kept["incidents"], expected["incidents"]);
    assert_eq!(kept["incidents"].as_array().unwrap().len(), 1);
}

#[test]
fn a_case_whose_making_was_broken_off_is_made_and_a_foreign_database_stays() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("captures");
    fill(&captures);
    let path = |name: &str| place.path().join(name);
    // What is on the disk between the first page and the tables.
    rusqlite::Connection::open(path("begun.db")).unwrap().execute_batch("PRAGMA journal_mode=WAL; VACUUM;").unwrap();
    assert!(std::fs::read(path("begun.db")).unwrap().starts_with(b"SQLite format 3\0"));
    let (status, _, errors) = watch(&captures, &path("begun.db"), &[]);
    assert_eq!((status, errors.as_str()), (1, ""));

    rusqlite::Connection::open(path("foreign.db")).unwrap().execute_batch("CREATE TABLE t (x); VACUUM;").unwrap();
    let before = std::fs::read(path("foreign.db")).unwrap();
    let (status, _, errors) = watch(&captures, &path("foreign.db"), &[]);
    assert!(status == 2 && errors.contains("foreign.db"), "{errors}");
    assert_eq!(std::fs::read(path("foreign.db")).unwrap(), before);
}
