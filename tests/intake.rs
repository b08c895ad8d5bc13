//! Evidence as it is really collected: one folder of odd shapes, wrong zones and wrong clocks.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{NODES, Run, analyze, args, data, joined, records};
use serde_json::{Value, json};

const BOOT: [&str; 2] = ["--boot", "node-a=2026-11-29T11:12:08Z"];
const HOSTS: [&str; 2] = ["--hosts", "hosts"];

/// Host, time of its kill, seconds from the claim.
const TRUTH: [(&str, &str, f64); 3] = [
    ("node-a", "2026-11-29T11:20:49.653666Z", 39.0),
    ("node-b", "2026-11-29T11:20:39.381744Z", 28.7),
    ("node-c", "2026-11-29T11:21:08.153166Z", 57.5),
];

fn at(time: &Value) -> chrono::DateTime<chrono::Utc> {
    time.as_str().unwrap().parse().unwrap()
}

fn seconds_off(event: &Value, truth: &str) -> f64 {
    let off = at(&event["time"]) - truth.parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    off.num_microseconds().unwrap() as f64 / 1e6
}

fn event<'a>(run: &'a Run, host: &str) -> &'a Value {
    let all = run.json["oom_events"].as_array().unwrap();
    let mut own = all.iter().filter(|e| e["host"] == host && e["total_vm_bytes"] == 941_138_648_u64 * 1024);
    let found = own.next().unwrap_or_else(|| panic!("no kill on {host}: {all:#?}"));
    assert!(own.next().is_none(), "one kill on {host}");
    found
}

/// The three kills, each within `within` seconds of the truth, and the verdicts on the three hosts.
fn is_told(run: &Run, within: f64, verdict: &str, hosts: [&str; 3]) {
    assert_eq!(run.status, 1, "{}", run.stderr);
    for ((host, truth, lag), expected) in TRUTH.iter().zip(hosts) {
        let off = seconds_off(event(run, host), truth);
        assert!(off.abs() <= within, "{host} is {off} s off");
        let part = run.host(host);
        assert_eq!(part["verdict"], expected, "{host}: {}", joined(&part["reasons"]));
        assert!(
            (part["lag_seconds"].as_f64().unwrap() - lag).abs() <= within + 0.05,
            "{host}: {}",
            part["lag_seconds"]
        );
    }
    assert_eq!(run.incident()["verdict"], verdict);
    assert_eq!(run.json["oom_events"].as_array().unwrap().len(), 3);
}

fn clock<'a>(run: &'a Run, host: &str, method: &str) -> &'a Value {
    let all = run.json["clocks"].as_array().unwrap();
    let mut own = all.iter().filter(|c| c["host"] == host && c["method"].as_str().unwrap().contains(method));
    own.next().unwrap_or_else(|| panic!("no clock of {host} by {method}: {all:#?}"))
}

/// A line of `dmesg --time-format iso`: its instant and the rest.
fn iso(line: &str) -> Option<(chrono::NaiveDateTime, &str)> {
    let (stamp, rest) = line.split_once("+00:00 ")?;
    Some((chrono::NaiveDateTime::parse_from_str(stamp, "%Y-%m-%dT%H:%M:%S,%6f").ok()?, rest))
}

/// The logs of the three hosts with their times moved, in the form of `dmesg -T` or as they are.
fn moved_logs(to: &Path, moved: [i64; 3], without_zone: bool) {
    for (host, by) in ["node-a", "node-b", "node-c"].iter().zip(moved) {
        let text = fs::read_to_string(data(&format!("incident-torch1.13/logs/{host}.dmesg-iso"))).unwrap();
        let lines = text.lines().map(|l| match iso(l) {
            Some((t, rest)) => {
                let t = t + chrono::TimeDelta::seconds(by);
                let form = if without_zone { "[%a %b %e %H:%M:%S %Y] " } else { "%Y-%m-%dT%H:%M:%S,%6f+00:00 " };
                format!("{}{rest}\n", t.format(form))
            }
            None => format!("{l}\n"),
        });
        fs::write(to.join(format!("{host}.log")), lines.collect::<String>()).unwrap();
    }
}

fn shifted(capture: &str, seconds: f64, to: &Path) -> PathBuf {
    let mut pcap = fs::read(data(capture)).unwrap();
    for (start, _) in records(&pcap) {
        let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
        let micros = i64::from(word(start)) * 1_000_000 + i64::from(word(start + 4)) + (seconds * 1e6) as i64;
        pcap[start..start + 4].copy_from_slice(&u32::try_from(micros / 1_000_000).unwrap().to_le_bytes());
        pcap[start + 4..start + 8].copy_from_slice(&u32::try_from(micros % 1_000_000).unwrap().to_le_bytes());
    }
    let path = to.join(Path::new(capture).file_name().unwrap());
    fs::write(&path, pcap).unwrap();
    path
}

#[test]
fn logs_of_all_hosts_in_one_file_tell_the_same() {
    let mut kinds = Vec::new();
    for file in [
        "pdsh.txt",
        "dshbak.txt",
        "dshbak-c.txt",
        "clush.txt",
        "clush-b.txt",
        "ansible.txt",
        "ansible-playbook.txt",
        "tail.txt",
    ] {
        let run = analyze(&args(&[&NODES, &[&format!("logs/envelopes/{file}")], &HOSTS, &BOOT]));
        is_told(&run, 1.0, "confirmed", ["confirmed"; 3]);
        kinds.push(run.input(file)["kind"].clone());
    }
    let run = analyze(&args(&[&NODES, &["logs/envelopes/ansible-callback.json"], &HOSTS, &BOOT]));
    is_told(&run, 1.0, "confirmed", ["confirmed"; 3]);
    assert!(kinds.iter().all(|k| k == "log"), "{kinds:?}");
}

#[test]
fn a_callback_on_one_line_of_a_megabyte_and_gzipped_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(data("logs/envelopes/ansible-callback.json")).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["zz_padding"] = json!("x".repeat(1 << 20));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, value.to_string().as_bytes()).unwrap();
    fs::write(folder.path().join("callback.json.gz"), packed.finish().unwrap()).unwrap();
    let run = analyze(&args(&[&NODES, &[folder.path().to_str().unwrap()], &HOSTS, &BOOT]));
    is_told(&run, 1.0, "confirmed", ["confirmed"; 3]);
}

#[test]
fn all_logs_eight_hours_off_are_said_first_with_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    moved_logs(folder.path(), [8 * 3600; 3], true);
    let path = folder.path().to_str().unwrap();
    let run = analyze(&args(&[&NODES, &[path], &HOSTS]));
    is_told(&run, 1.0, "probable", ["probable"; 3]);
    let first = run.json["notes"][0].as_str().unwrap();
    assert!(first.contains("--log-tz +08:00") && first.contains("+8 h"), "{first}");
    let zone = clock(&run, "node-a", "15 minutes");
    assert_eq!((&zone["offset_seconds"], &zone["applied"]), (&json!(28800.0), &json!(true)));
    assert!(joined(&run.incident()["settled_by"]).contains("--log-tz node-b="));
    let told = analyze(&args(&[&NODES, &[path, "--log-tz", "+08:00"], &HOSTS]));
    is_told(&told, 1.0, "confirmed", ["confirmed"; 3]);
    assert!(!told.notes().contains("--log-tz"), "{}", told.notes());
    // A zone that is no multiple of an hour; and lines that name their zone, wrongly.
    moved_logs(folder.path(), [20_700; 3], true);
    let run = analyze(&args(&[&NODES, &[path], &HOSTS]));
    assert!(run.json["notes"][0].as_str().unwrap().contains("--log-tz +05:45"));
    moved_logs(folder.path(), [-5 * 3600; 3], false);
    let run = analyze(&args(&[&NODES, &[path], &HOSTS]));
    is_told(&run, 1.0, "probable", ["probable"; 3]);
    assert!(run.json["notes"][0].as_str().unwrap().contains("that zone seems wrong"));
}

#[test]
fn one_log_forty_seconds_off_is_found_and_caps_its_host() {
    let folder = tempfile::tempdir().unwrap();
    moved_logs(folder.path(), [0, 40, 0], false);
    let path = folder.path().to_str().unwrap();
    let run = analyze(&args(&[&NODES, &[path], &HOSTS]));
    is_told(&run, 0.5, "confirmed", ["confirmed", "probable", "confirmed"]);
    let found = clock(&run, "node-b", "death against");
    assert_eq!(found["applied"], true);
    let (offset, unsure) = (found["offset_seconds"].as_f64().unwrap(), found["uncertainty_seconds"].as_f64().unwrap());
    assert!((offset - 40.0).abs() <= unsure && unsure <= 1.0, "{found}");
    assert_eq!(clock(&run, "node-a", "death against")["applied"], false);
    assert!(joined(&run.host("node-b")["reasons"]).contains("the clock of its log is +40.0 s off"));
    // Three hosts of one wrong clock agree on it.
    moved_logs(folder.path(), [40; 3], false);
    let run = analyze(&args(&[&NODES, &[path], &HOSTS]));
    is_told(&run, 0.5, "confirmed", ["confirmed"; 3]);
}

#[test]
fn one_capture_off_by_its_clock_is_found_and_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let b = shifted("incident-torch1.13/node-b.pcap", 37.5, folder.path());
    let logs = ["--oom", "incident-torch1.13/logs"];
    let captures = [NODES[0], b.to_str().unwrap(), NODES[2]];
    let run = analyze(&args(&[&captures, &logs, &HOSTS, &BOOT]));
    is_told(&run, 0.01, "confirmed", ["confirmed"; 3]);
    let found = clock(&run, "node-b", "packets both ways");
    assert_eq!(found["applied"], true);
    assert!((found["offset_seconds"].as_f64().unwrap() - 37.5).abs() < 0.001, "{found}");
    assert!(found["uncertainty_seconds"].as_f64().unwrap() < 0.001);
    let reasons = joined(&run.host("node-b")["reasons"]);
    assert!(reasons.contains("+37.500 s off") && reasons.contains("death agrees"), "{reasons}");
    assert_eq!(run.trigger("node-b")["packet"], 412);
    assert_eq!(run.json["coverage"]["observed"], 3);
    // Nobody's log: the death and the packets alone.
    let run = analyze(&args(&[&captures, &HOSTS]));
    assert_eq!(clock(&run, "node-b", "packets both ways")["applied"], true);
    let died = at(&run.listener(("192.0.2.12", 29500))["died_at"]);
    let off = died - "2026-11-29T11:20:41.440967Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    assert!(off.num_milliseconds().abs() <= 1, "{died}");
}

#[test]
fn a_raw_kernel_log_is_aligned_by_the_death_of_the_listener() {
    let logs = [
        "incident-torch1.13/logs/node-a.dmesg",
        "incident-torch1.13/logs/node-b.dmesg-iso",
        "incident-torch1.13/logs/node-c.dmesg-iso",
    ];
    let run = analyze(&args(&[&NODES, &logs, &HOSTS]));
    is_told(&run, 3.0, "confirmed", ["probable", "confirmed", "confirmed"]);
    assert!(
        seconds_off(event(&run, "node-a"), TRUTH[0].1).abs() < 0.2,
        "the reaper's line is better than three seconds"
    );
    assert!(run.notes().contains("--boot node-a=TIME"), "{}", run.notes());
    assert!(joined(&run.host("node-a")["reasons"]).contains("the listener died on the wire"));
    assert!(joined(&run.incident()["settled_by"]).contains("--boot node-a="));
    assert!(
        clock(&run, "node-a", "death against")["method"].as_str().unwrap().contains("boot time 2026-11-29T11:12:08")
    );
    assert!(run.input("node-a.dmesg")["boot_time"].as_str().unwrap().starts_with("2026-11-29T11:12:08"));
}

#[test]
fn a_week_of_ordinary_kills_stays_unexplained() {
    let folder = tempfile::tempdir().unwrap();
    let begin = chrono::NaiveDate::from_ymd_opt(2026, 11, 25).unwrap().and_hms_opt(0, 17, 3).unwrap();
    let mut text = String::new();
    for n in 0..84 {
        let t = begin + chrono::TimeDelta::minutes(120 * n);
        text += &format!(
            "{}+00:00 node-{} kernel: Out of memory: Killed process {} (python) total-vm:98765432kB, anon-rss:4194304kB, \
             file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0\n",
            t.format("%Y-%m-%dT%H:%M:%S"),
            ["a", "b", "c"][n as usize % 3],
            3000 + n
        );
    }
    fs::write(folder.path().join("week.log"), text).unwrap();
    let logs = ["--oom", "incident-torch1.13/logs", folder.path().to_str().unwrap()];
    let run = analyze(&args(&[&NODES, &logs, &HOSTS, &BOOT]));
    assert_eq!(run.status, 1);
    let all = run.json["incidents"].as_array().unwrap();
    let explained: Vec<&Value> = all.iter().filter(|i| i["verdict"] != "unexplained").collect();
    assert_eq!(explained.len(), 1, "{explained:#?}");
    assert_eq!(explained[0]["verdict"], "confirmed");
    assert_eq!(explained[0]["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(all.len(), 85);
    assert_eq!(run.json["oom_events"].as_array().unwrap().len(), 87);
    assert!(run.json["clocks"].as_array().unwrap().iter().all(|c| c["applied"] == false));
}
