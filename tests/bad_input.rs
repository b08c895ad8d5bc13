//! Input that is missing, cut, empty or of another kind: the right message and status, and the rest still analyzed.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

use common::{LOGS, NODES, analyze, args, checked, command, data, joined, records, table};
use serde_json::{Value, json};

/// Flagged by itself.
const FLAGGED: &str = "scans/netcat.pcap";
/// Nothing to flag.
const CLEAN: &str = "api/store-api-2.15.0.pcap";

fn in_dir(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> String {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_analyzed() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.pcap").to_str().unwrap().to_string();
    let text = in_dir(&dir, "text.txt", b"A note about lunch.\nNothing else.\n");
    let binary = in_dir(&dir, "binary", &[0x7f, b'E', b'L', b'F', 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    for (path, words) in
        [(&missing, "No such file"), (&text, "not understood: text that is no log"), (&binary, "not understood")]
    {
        // Alone it is trouble, beside something flagged it is not, beside something clean it is.
        for (rest, flags, status) in [
            (None, [].as_slice(), 2),
            (Some(FLAGGED), &[], 1),
            (Some(CLEAN), &[], 2),
            (Some(FLAGGED), &["--strict"], 2),
            (Some(FLAGGED), &["--exit-zero"], 0),
        ] {
            let mut all = vec![path.as_str()];
            all.extend(rest);
            all.extend(flags);
            let run = analyze(&all);
            assert_eq!(run.status, status, "{all:?}: {}", run.stderr);
            let error = run.input(path)["error"].as_str().unwrap_or_else(|| panic!("{all:?}: {:#}", run.input(path)));
            assert!(error.contains(words), "{error}");
            assert!(run.stderr.contains(path.as_str()) && run.stderr.contains(error), "{all:?}: {}", run.stderr);
            assert_eq!(run.json["totals"]["unread"], 1);
            if rest == Some(FLAGGED) {
                assert_eq!(run.of_rule("store-claim")[0]["packet"], 4, "the rest is analyzed");
            }
        }
        let (status, shown) = table(&[path.as_str(), FLAGGED]);
        assert_eq!(status, 1);
        assert!(common::unwrapped(&shown).contains(Path::new(path).file_name().unwrap().to_str().unwrap()), "{shown}");
    }
}

#[test]
fn a_damaged_record_is_stepped_over() {
    // A record header that no packet can have: 4 GiB long.
    let mut bytes = fs::read(data(FLAGGED)).unwrap();
    let second = records(&bytes)[1].0;
    bytes.splice(second..second, [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let dir = tempfile::tempdir().unwrap();
    let run = analyze(&[in_dir(&dir, "damaged.pcap", &bytes)]);
    assert_eq!((run.status, &run.json["captures"][0]["packets"]), (1, &json!(8)));
    assert!(joined(&run.json["captures"][0]["warnings"]).contains(&format!("damaged at byte {second}")));
}

#[test]
fn empty_files_are_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let empty = in_dir(&dir, "empty.pcap", b"");
    let header = in_dir(&dir, "header.pcap", &fs::read(data(FLAGGED)).unwrap()[..24]);
    for (path, words) in [(&empty, "empty: 0 bytes"), (&header, "holds a file header and no packet")] {
        for (rest, status) in [(FLAGGED, 1), (CLEAN, 0)] {
            let run = analyze(&[path.as_str(), rest, "--strict"]);
            assert_eq!((run.status, run.stderr.as_str()), (status, ""), "{path}");
            assert_eq!((&run.input(path)["error"], &run.json["totals"]["unread"]), (&Value::Null, &json!(0)));
            assert!(joined(&run.input(path)["warnings"]).contains(words));
        }
    }
    let run = analyze(&[&header]);
    assert_eq!(run.status, 0, "a header alone is no trouble: {}", run.stderr);
    let run = analyze(&[&empty]);
    assert_eq!(run.status, 0, "an empty file is no trouble: {}", run.stderr);
}

#[test]
fn a_directory_may_hold_anything() {
    let dir = tempfile::tempdir().unwrap();
    let sub = dir.path().join("deep/er");
    fs::create_dir_all(&sub).unwrap();
    fs::copy(data(CLEAN), sub.join("store.log")).unwrap();
    in_dir(&dir, "README.txt", b"A note about lunch.\n");
    in_dir(&dir, "empty.pcap", b"");
    let path = dir.path().to_str().unwrap();
    let run = analyze(&[path]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert_eq!(run.input("store.log")["kind"], "capture", "by its magic, not its name");
    assert!(joined(&run.input("README.txt")["warnings"]).contains("passed over"));
    assert_eq!(run.input("README.txt")["error"], Value::Null);
    fs::copy(data(FLAGGED), sub.join("netcat")).unwrap();
    assert_eq!(analyze(&[path]).status, 1);

    let nothing = tempfile::tempdir().unwrap();
    let run = analyze(&[nothing.path()]);
    assert_eq!(run.status, 2, "nothing could be read");
}

#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_listed_is_named() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let round = dir.path().join("round");
    symlink("round", &round).unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let mut paths = vec![round];
    // Root reads it all the same.
    if fs::read_dir(&closed).is_err() {
        paths.push(closed.clone());
    }
    for path in paths {
        let run = analyze(&[path.to_str().unwrap(), FLAGGED]);
        assert_eq!(run.status, 1);
        assert!(run.input(path.to_str().unwrap())["error"].as_str().unwrap().contains("cannot"));
        assert_eq!(analyze(&[path.to_str().unwrap()]).status, 2);
    }
    // A link to the directory above it is not followed round and round.
    symlink("..", dir.path().join("closed-not")).unwrap();
    fs::copy(data(FLAGGED), dir.path().join("netcat.pcap")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let run = analyze(&[dir.path()]);
    assert_eq!((run.status, run.json["captures"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn a_capture_cut_anywhere_yields_its_whole_records() {
    let whole = fs::read(data(NODES[0])).unwrap();
    let ends: Vec<usize> = records(&whole).iter().map(|r| r.1).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut truncated = 0;
    for cut in (whole.len() - 200)..=whole.len() {
        let path = in_dir(&dir, "node-a.pcap", &whole[..cut]);
        let run = analyze(&[&path]);
        assert_eq!((run.status, run.stderr.as_str()), (1, ""), "cut at {cut}");
        let capture = &run.json["captures"][0];
        assert_eq!(capture["packets"], ends.iter().filter(|e| **e <= cut).count(), "cut at {cut}");
        let is_whole = ends.contains(&cut);
        assert_eq!(capture["truncated"], !is_whole, "cut at {cut}");
        assert_eq!(joined(&capture["warnings"]).is_empty(), is_whole, "cut at {cut}");
        assert_eq!(capture["error"], Value::Null);
        assert!(run.of_rule("store-claim").iter().any(|f| f["packet"] == 411), "cut at {cut}");
        truncated += usize::from(!is_whole);
    }
    assert!(truncated > 190, "{truncated}");
}

#[test]
fn a_compressed_capture_cut_short_still_tells() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["links/node-c.pcap.gz", "incident-torch1.13/node-b-unfiltered.pcap.zst"] {
        let whole = fs::read(data(name)).unwrap();
        let path = in_dir(&dir, name.rsplit('/').next().unwrap(), &whole[..whole.len() - 300]);
        let run = analyze(&[&path]);
        assert!(run.json["captures"][0]["packets"].as_u64().unwrap() > 100, "{name}");
        assert!(!joined(&run.json["captures"][0]["warnings"]).is_empty(), "{name}");
        assert_eq!((run.status, run.json["captures"][0]["truncated"].as_bool()), (1, Some(true)), "{name}");
    }
}

#[test]
fn logs_say_what_they_lack() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = in_dir(&dir, "node-a.log", b"2026-11-29T11:20:05,000000+00:00 eth0: link becomes ready\n");
    let run = analyze(&["--oom", &quiet, CLEAN]);
    assert_eq!(run.status, 0);
    assert!(joined(&run.input("node-a.log")["warnings"]).contains("tells of an OOM kill"));
    let (_, shown) = table(&["--oom", &quiet, CLEAN]);
    assert!(common::unwrapped(&shown).contains("tells of an OOM kill"), "{shown}");

    // A host that nothing else knows: its kill is told, and so is what would join it.
    let run = analyze(&args(&[&NODES, &["--oom", "stranger=incident-torch1.13/logs/node-c.dmesg-iso"]]));
    let host = &run.json["coverage"]["hosts"][0];
    assert_eq!((&host["host"], &host["coverage"]), (&json!("stranger"), &json!("not-observed")));
    assert!(host["reason"].as_str().unwrap().contains("--hosts"), "{host}");

    // A raw dmesg without the boot time: the message names the flag.
    let run = analyze(&[CLEAN, "--oom", "incident-torch1.13/logs/node-a.dmesg"]);
    let kills = run.json["oom_events"].as_array().unwrap();
    assert_eq!(
        (run.status, kills.len(), &kills[0]["time"], &kills[0]["time_source"]),
        (0, 1, &json!(null), &json!("none"))
    );
    assert_eq!(kills[0]["boot_seconds"], 521.653666);
    assert!(
        joined(&run.input("node-a.dmesg")["warnings"]).contains("--boot node-a="),
        "{:#}",
        run.input("node-a.dmesg")
    );
}

#[test]
fn a_flag_about_a_host_that_no_input_has_is_pointed_out() {
    let run = analyze(&[CLEAN, "--oom", LOGS[1], "--boot", "nod-a=2026-11-29T11:12:08Z"]);
    assert!(run.notes().contains("nod-a"), "--boot of an unknown host passes in silence: {}", run.notes());
}

#[test]
fn bad_arguments_say_what_is_accepted() {
    for (arguments, words) in [
        (["--boot", "node-a=yesterday"], ["RFC 3339", "yesterday"]),
        (["--boot", "node-a"], ["HOST=TIME", "2026-11-29T11:12:08Z"]),
        (["--port", "99999"], ["1 to 65535", "99999"]),
        (["--port", "0"], ["1 to 65535", "29500-29510"]),
        (["--port", "300-200"], ["300-200", "ends before it begins"]),
        (["--port", "rendezvous"], ["1 to 65535", "rendezvous"]),
        (["--log-tz", "Mars/Olympus"], ["Asia/Shanghai", "Mars/Olympus"]),
        (["--window", "soon"], ["15m", "soon"]),
        (["--memory", "lots"], ["256M", "lots"]),
        (["--fail-on", "bad"], ["critical", "bad"]),
        (["--format", "xml"], ["jsonl", "xml"]),
    ] {
        let output = command().args(["analyze", FLAGGED]).args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
        assert!(words.iter().all(|w| stderr.contains(w)), "{arguments:?}: {stderr}");
    }
    let output = command().arg(FLAGGED).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains(&format!("rdzvscope analyze {FLAGGED}")), "{stderr}");
    assert_eq!(command().output().unwrap().status.code(), Some(2));
    assert_eq!(command().arg("analyze").output().unwrap().status.code(), Some(2));
}

#[test]
fn the_threshold_is_the_users() {
    for (flags, status) in [
        (&["scans/curl.pcap"] as &[&str], 0),
        (&["scans/curl.pcap", "--fail-on", "notice"], 1),
        (&["scans/syn-only.pcap", "--fail-on", "notice"], 0),
        (&["scans/syn-only.pcap", "--fail-on", "info"], 1),
        (&[CLEAN, "--fail-on", "info"], 0),
        (&[FLAGGED, "--fail-on", "critical"], 1),
        (&[FLAGGED, "--exit-zero"], 0),
    ] {
        assert_eq!(analyze(flags).status, status, "{flags:?}");
    }
}

#[test]
fn pipes_work_both_ways() {
    let pipe = |bytes: &[u8]| {
        let mut child = command()
            .args(["analyze", "-", "--hosts", "hosts", "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        checked(child.wait_with_output().unwrap())
    };
    for name in
        [NODES[0], "links/node-c.pcap.gz", "links/node-c.pcapng", "incident-torch1.13/node-b-unfiltered.pcap.zst"]
    {
        let run = pipe(&fs::read(data(name)).unwrap());
        let same = analyze(&[name, "--hosts", "hosts"]);
        let key =
            |r: &common::Run| r.findings().iter().map(|f| (f["id"].clone(), f["packet"].clone())).collect::<Vec<_>>();
        assert_eq!((run.status, key(&run)), (same.status, key(&same)), "{name}");
    }
    // A reader that goes after a line is no error.
    for format in ["table", "json", "jsonl"] {
        let mut child = command()
            .args(["analyze", NODES[0], NODES[1], NODES[2], "--verbose", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let status = child.wait().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(!line.is_empty());
        // What fits into the pipe's buffer is written, and the findings tell.
        assert!(matches!(status.code(), Some(0 | 1)) && stderr.is_empty(), "{format}: {status}: {stderr}");
    }
}

#[test]
fn what_could_not_be_read_is_not_called_quiet() {
    let first = |arguments: &[&str]| {
        let output = common::command().arg("analyze").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap().lines().next().unwrap_or_default().to_string())
    };
    let nothing = "Nothing could be read, so nothing can be said.";
    assert_eq!(first(&["nosuch.pcap"]), (Some(2), nothing.to_string()));
    let quiet = "No incident, and nothing flagged at warning or above.";
    assert_eq!(first(&["nosuch.pcap", "torchrun/node-a.pcap"]).1, quiet);
    assert_eq!(first(&["torchrun/node-a.pcap"]), (Some(0), quiet.to_string()));
}
