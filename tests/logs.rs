//! `rdzvscope oom` on logs as people have them. The files under `testdata/logs/forms` are built by hand after public reports; what
//! is true of each stands here.

mod common;

use std::io::Write;
use std::process::Stdio;

use common::{command, data};
use serde_json::Value;

/// Host, second (or seconds since boot), pid, who tells.
type Kill = (&'static str, &'static str, Option<u64>, &'static str);

fn oom(arguments: &[&str]) -> (Value, i32) {
    let output = command().arg("oom").args(arguments).args(["--format", "json"]).output().unwrap();
    let json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(common::complaints(&json), Vec::<String>::new());
    (json, output.status.code().unwrap())
}

fn told(json: &Value) -> Vec<(String, String, Option<u64>, String)> {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let when = |e: &Value| match (e["time"].as_str(), e["boot_seconds"].as_f64()) {
        (Some(t), _) => t.get(..19).unwrap_or(t).to_owned(),
        (None, Some(s)) => format!("{s}"),
        (None, None) => "-".to_owned(),
    };
    let events = json["oom_events"].as_array().unwrap();
    events.iter().map(|e| (text(&e["host"]), when(e), e["pid"].as_u64(), text(&e["told_by"]))).collect()
}

const FORMS: [(&str, &[Kill]); 24] = [
    ("compose.txt", &[("host", "2026-09-21T14:13:20", Some(2345), "process")]),
    ("dev-kmsg.txt", &[("dev-kmsg", "152.700479", Some(2345), "kernel")]),
    ("dmesg-colour.txt", &[("dmesg-colour", "2026-09-21T14:13:20", Some(2345), "kernel")]),
    ("docker-events.txt", &[("docker-events", "2024-11-02T10:11:12", None, "container")]),
    ("grep-rn.txt", &[("gpu-1", "2026-09-21T14:13:20", Some(2345), "kernel")]),
    ("journal-short-full.txt", &[("gpu-017", "2026-09-21T14:13:20", Some(26), "kernel")]),
    ("journal-short-monotonic.txt", &[("gpu-017", "123.456789", Some(28), "kernel")]),
    (
        "journal.json-sse",
        &[("n1", "2026-09-21T14:13:20", Some(11), "kernel"), ("n2", "2026-09-21T14:13:20", Some(12), "kernel")],
    ),
    (
        "kubectl-describe-node.txt",
        &[
            ("gpu-017", "", Some(470521), "kubernetes"),
            ("gpu-017", "", Some(470522), "kubernetes"),
            ("gpu-017", "", Some(25169), "kubernetes"),
        ],
    ),
    ("kubectl-describe-pod.txt", &[("gpu-017", "2023-06-13T14:35:38", None, "kubernetes")]),
    (
        "kubectl-watch-events.json",
        &[
            ("gpu-017", "2023-06-13T14:35:38", Some(2345), "kubernetes"),
            ("gpu-018", "2023-06-13T14:36:38", Some(470521), "kubernetes"),
        ],
    ),
    (
        "panic-on-oom.txt",
        &[
            ("gpu-1", "2026-09-21T14:13:20", None, "kernel"),
            ("gpu-2", "2026-09-21T14:14:20", None, "kernel"),
            ("gpu-3", "2026-09-21T14:15:20", None, "kernel"),
        ],
    ),
    ("sacct-P.txt", &[("gpu-003", "2024-11-02T10:11:12", None, "slurm")]),
    (
        "salt.txt",
        &[("gpu-1", "2026-09-21T14:13:20", Some(2345), "kernel"), ("gpu-2", "2026-09-21T14:13:21", Some(99), "kernel")],
    ),
    (
        "syslog-no-year",
        &[("node-7", "-05-15T23:01:53", Some(4254), "kernel"), ("node-7", "-05-15T23:01:53", Some(4255), "kernel")],
    ),
    ("syslog-zh.txt", &[("gpu-001", "-05-29T23:06:21", Some(2345), "kernel")]),
    (
        "systemd-oomd-units.txt",
        &[
            ("gpu-001", "2024-09-10T14:59:49", None, "systemd"),
            ("gpu-002", "2024-09-10T15:10:00", None, "systemd"),
            ("gpu-003", "2024-09-10T15:20:00", None, "systemd"),
            ("gpu-004", "2024-09-10T15:30:00", None, "systemd"),
        ],
    ),
    ("systemd-unit-killed.txt", &[("web2", "2026-02-08T00:40:07", None, "systemd")]),
    (
        "talos-kern.txt",
        &[
            ("10.1.1.2", "2022-01-25T10:35:59", Some(2345), "kernel"),
            ("10.1.1.3", "2022-01-25T10:36:09", Some(3345), "kernel"),
        ],
    ),
    (
        "two-kills-one-host.log",
        &[
            ("node-7", "2026-11-30T00:53:40", Some(4254), "kernel"),
            ("node-7", "2026-11-30T00:53:41", Some(4255), "kernel"),
        ],
    ),
    ("utf16.txt", &[("utf16", "2026-09-21T14:13:20", Some(2345), "kernel")]),
    ("logger.json", &[("h", "2023-11-14T22:14:25", Some(7), "process")]),
    (
        "kubectl-events.yaml",
        &[
            ("gpu-017", "2023-06-13T14:35:38", Some(470521), "kubernetes"),
            ("gpu-018", "2023-06-13T14:36:38", Some(7), "kubernetes"),
        ],
    ),
    ("pbs-accounting", &[("gpu-9", "2024-11-02T10:11:12", None, "pbs")]),
];

#[test]
fn every_form_gives_its_kills() {
    for (file, want) in FORMS {
        let (json, status) = oom(&[&format!("logs/forms/{file}")]);
        assert_eq!(status, 0);
        let got = told(&json);
        assert_eq!(got.len(), want.len(), "{file}: {got:#?}");
        for (got, (host, time, pid, teller)) in got.iter().zip(want) {
            assert_eq!((got.0.as_str(), got.2, got.3.as_str()), (*host, *pid, *teller), "{file}");
            assert!(
                got.1.ends_with(time) || got.1.starts_with(time) && !time.is_empty(),
                "{file}: {} for {time}",
                got.1
            );
        }
        assert_eq!(json["inputs"][0]["not_understood"], 0, "{file}: {}", json["inputs"]);
    }
}

#[test]
fn what_is_derived_is_marked_and_no_kill_is_dropped() {
    let (json, _) = oom(&["logs/forms/syslog-no-year"]);
    for e in json["oom_events"].as_array().unwrap() {
        assert_eq!(e["time_source"], "derived-year");
        assert!(
            e["uncertainty_seconds"].as_f64().unwrap() > 31_000_000.0
                && e["time_basis"].as_str().unwrap().contains("guessed"),
            "{e}"
        );
    }
    let (json, _) = oom(&["logs/forms/kubectl-describe-node.txt"]);
    for e in json["oom_events"].as_array().unwrap() {
        assert!(e["uncertainty_seconds"].as_f64().unwrap() >= 60.0, "{e}");
    }
    let (json, _) = oom(&["incident-torch1.13/logs/node-a.dmesg"]);
    assert_eq!(told(&json), [("node-a".to_owned(), "521.653666".to_owned(), Some(10267), "kernel".to_owned())]);
    let output = command().args(["oom", "incident-torch1.13/logs/node-a.dmesg"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("521.653666 s since boot") && text.contains("--boot node-a=TIME") && !text.contains("--since"),
        "{text}"
    );
    // A line of the same log with a year dates those without.
    let log = "May 15 23:01:53 node-7 kernel: Out of memory: Killed process 7 (py) total-vm:9kB, anon-rss:8kB\n2019-05-16T01:00:00+00:00 node-7 systemd[1]: x\n";
    let (json, _) = oom_of(log.as_bytes());
    assert_eq!(json["oom_events"][0]["time"], "2019-05-15T23:01:53.000000000Z");
    assert_eq!(json["oom_events"][0]["time_source"], "derived-year");
}

fn oom_of(text: &[u8]) -> (Value, String) {
    let mut child =
        command().args(["oom", "-", "--format", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn rows_in_every_format_and_standard_input() {
    let text = std::fs::read(data("logs/forms/talos-kern.txt")).unwrap();
    assert_eq!(told(&oom_of(&text).0).len(), 2);
    let rows = |format: &str| {
        let output = command().args(["oom", "logs/forms/talos-kern.txt", "--format", format]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let csv = rows("csv");
    let header = csv.lines().next().unwrap();
    assert!(
        header.starts_with("host,time,time_source,uncertainty_seconds,process,pid,total_vm_bytes,workload,path,line"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.contains("10.1.1.2,2022-01-25T10:35:59.118934566Z,line,"), "{csv}");
    let jsonl = rows("jsonl");
    let kills: Vec<Value> =
        jsonl.lines().map(|l| serde_json::from_str(l).unwrap()).filter(|v: &Value| v["type"] == "oom_event").collect();
    assert_eq!(kills.len(), 2);
    assert_eq!((&kills[0]["line"], &kills[0]["time_source"]), (&Value::from(3), &Value::from("line")));
    assert!(rows("markdown").contains("| 10.1.1.3 |"));
    assert!(rows("table").lines().next().unwrap().contains("Told by"));
}

#[test]
fn what_is_refused_and_what_is_not_understood_is_said_with_the_reason() {
    let text =
        oom_of(b"{\"meta\":{\"plugin\":{}},\"jobs\":[{\"job_id\":7,\"state\":{\"current\":[\"OUT_OF_MEMORY\"]}}]}\n").0;
    assert!(text["inputs"][0]["warnings"].to_string().contains("sacct -P"), "{text:#}");
    let json = oom_of(b"Nov 14 22:14:25 h kernel: Out of memory: gave up\n").0;
    assert_eq!(json["inputs"][0]["not_understood"], 1);
    assert!(json["inputs"][0]["warnings"].to_string().contains("nearest:"), "{json:#}");
}

const KILL: &str = "Killed process 2345 (py thon) total-vm:1774336kB, anon-rss:1174336kB, file-rss:0kB, shmem-rss:0kB";

/// Headers that a line can have: text, whether it names the host, whether it tells the time (the instant is always the same),
/// and whether other headers may stand before it.
const HEADERS: [(&str, bool, bool); 22] = [
    ("2026-09-21T14:13:20.123456+00:00 HOST kernel: ", true, true),
    ("2026-09-21T22:13:20+08:00 HOST kernel: [  99.500000] ", true, true),
    ("Sep 21 14:13:20 HOST kernel: ", true, true),
    ("Sep 21 14:13:20.123456 HOST kernel: [  99.500000] [T48260] ", true, true),
    ("9月 21 14:13:20 HOST kernel: ", true, true),
    ("сен 21 14:13:20 HOST kernel: ", true, true),
    ("sept. 21 14:13:20 HOST kernel: ", true, true),
    ("21. Sep 14:13:20 HOST kernel: ", true, true),
    ("Mon 2026-09-21 14:13:20 UTC HOST kernel: ", true, true),
    ("1790000000.123456 HOST kernel: ", true, true),
    ("<3>1 2026-09-21T14:13:20Z HOST kernel - - - ", true, true),
    ("<3>Sep 21 14:13:20 HOST kernel: ", true, true),
    ("[Mon Sep 21 14:13:20 2026] ", false, true),
    ("2026-09-21T14:13:20,123456+00:00 ", false, true),
    ("kern  :err   : [Mon Sep 21 14:13:20 2026] ", false, true),
    ("kern:     err: [2026-09-21T14:13:20.118934566Z]: ", false, true),
    ("[Mon Sep 21 14:13:20 2026 <    0.000123>] ", false, true),
    ("Mon Sep 21 14:13:20 UTC 2026 HOST kernel: ", true, true),
    ("\u{1b}[32m[Mon Sep 21 14:13:20 2026] \u{1b}[0m\u{1b}[31m", false, true),
    ("[  99.500000] HOST kernel: ", true, false),
    ("[  99.500000] ", false, false),
    ("3,1234,99500000,-;", false, false),
];

/// What a collecting tool makes of a line; whether it names the host.
const ENVELOPES: [(&str, bool); 14] = [
    ("LINE", false),
    ("HOST: LINE", true),
    ("[HOST] out: LINE", true),
    ("/var/log/kern.log:13:LINE", false),
    ("logs/HOST.log:LINE", true),
    ("> > LINE", false),
    ("  LINE", false),
    ("==> HOST.log <==\nLINE", true),
    ("HOST | CHANGED | rc=0 >>\nLINE", true),
    ("----------------\nHOST\n----------------\nLINE", true),
    ("=== HOST ===\nLINE", true),
    ("HOST:\n    LINE", true),
    ("{\"host\":\"HOST\",\"message\":\"LINE\"}", true),
    ("{\"labels\":{\"hostname\":\"HOST\"},\"line\":\"LINE\"}", true),
];

const FORMS_OF_KILLS: [&str; 4] = [
    "Out of memory: KILL, UID:0 pgtables:2600kB oom_score_adj:987",
    "Memory cgroup out of memory: KILL",
    "KILL",
    "Out of memory (oom_kill_allocating_task): KILL",
];

fn encoded(text: &str, encoding: usize) -> Vec<u8> {
    let wide = |big: bool, mark: bool| {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    };
    match encoding {
        0 => text.as_bytes().to_vec(),
        1 => text.replace('\n', "\r\n").into_bytes(),
        2 => ["\u{feff}", text].concat().into_bytes(),
        3 => wide(false, true),
        4 => wide(true, true),
        _ => wide(false, false),
    }
}

/// Every kill, time and host of message forms × headers × envelopes × encodings × hosts. Each has its own pid: nothing else tells
/// one combination from another.
#[test]
fn the_matrix_of_forms_comes_out_right() {
    let folder = tempfile::tempdir().unwrap();
    let (mut pid, mut wrong) = (0, Vec::new());
    for (n, form) in FORMS_OF_KILLS.iter().enumerate() {
        for encoding in if n == 0 { 0..6 } else { 0..1 } {
            // One run reads a directory of logs, one a combination.
            let dir = folder.path().join(format!("{n}-{encoding}"));
            std::fs::create_dir(&dir).unwrap();
            let mut want = std::collections::BTreeMap::new();
            for (header, own, timed) in HEADERS {
                for (envelope, outer) in ENVELOPES {
                    for host in ["gpu-017", "10.1.2.3"] {
                        if envelope.starts_with('{') && header.contains('\u{1b}') {
                            continue;
                        }
                        pid += 1;
                        let kill = form.replace("KILL", &KILL.replace("2345", &pid.to_string()));
                        let text = envelope.replace("LINE", &format!("{header}{kill}")).replace("HOST", host);
                        std::fs::write(dir.join(format!("{pid}.txt")), encoded(&format!("{text}\n"), encoding))
                            .unwrap();
                        want.insert(pid, ((own || outer).then_some(host), timed, text));
                    }
                }
            }
            let (json, _) = oom(&[dir.to_str().unwrap()]);
            let mut seen = told(&json);
            for (pid, (host, timed, text)) in &want {
                let at = seen.iter().position(|(_, _, p, _)| *p == Some(*pid));
                let got = at.map(|at| seen.swap_remove(at));
                let fits = got.as_ref().is_some_and(|(h, t, ..)| {
                    let time = if *timed { t.ends_with("-09-21T14:13:20") } else { t == "99.5" };
                    time && host.is_none_or(|host| h == host)
                });
                if !fits {
                    wrong.push(format!("form {n}, encoding {encoding}: {got:?} of {text:?}"));
                }
            }
            wrong.extend(seen.iter().map(|s| format!("one too many: {s:?}")));
        }
    }
    assert!(pid >= 3000, "{pid}");
    assert!(wrong.is_empty(), "{} of {pid} wrong, the first: {:#?}", wrong.len(), &wrong[..wrong.len().min(12)]);
}

/// What stores and shippers of logs export, and Latin-1: the host, the time and the kill come out.
#[test]
fn exports_of_log_stores_come_out_right() {
    let kill = format!("Out of memory: {KILL}");
    let csv = format!("\"_time\",\"host\",\"_raw\"\n\"2026-09-21T14:13:20.123+00:00\",\"gpu-017\",\"{kill}\"\n");
    let record = format!("[1790000000.123456, {{\"hostname\":\"gpu-017\",\"msg\":\"{kill}\"}}]\n");
    let ruby = format!("[0] kmsg: [[1790000000.123456, {{}}], {{\"host\"=>\"gpu-017\", \"log\"=>\"{kill}\"}}]\n");
    for text in [csv, record, ruby] {
        let (json, _) = oom_of(text.as_bytes());
        let e = &json["oom_events"][0];
        assert_eq!((&e["host"], &e["pid"]), (&Value::from("gpu-017"), &Value::from(2345)), "{text}");
        assert!(e["time"].as_str().unwrap().starts_with("2026-09-21T14:13:20.123"), "{text}: {e:#}");
    }
    let latin = [b"M\xe4r 21 14:13:20 gpu-017 kernel: ", kill.as_bytes(), b"\n"].concat();
    let (json, _) = oom_of(&latin);
    assert_eq!(json["oom_events"][0]["host"], "gpu-017");
    assert!(json["oom_events"][0]["time"].as_str().unwrap().ends_with("-03-21T14:13:20.000000000Z"), "{json:#}");
    let (json, _) = oom_of(format!("{{\"dmesg\":[{{\"pri\":3,\"time\":99.5,\"msg\":\"{kill}\"}}]}}\n").as_bytes());
    assert_eq!(json["oom_events"][0]["boot_seconds"], 99.5);
}
