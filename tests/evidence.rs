//! Evidence: in any order, given twice, cut, as `pdsh` prints it, it joins to what `analyze` says of all of it.

mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use common::{NODES, checked, command, data};

const KNOWN: [&str; 4] = ["--hosts", "hosts", "--boot", "node-a=2026-11-29T11:12:08Z"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The document of a command, without its command line.
fn document(output: Output) -> (i32, Value) {
    let run = checked(output);
    let mut json = run.json;
    json.as_object_mut().unwrap().remove("arguments");
    (run.status, json)
}

fn told(arguments: &[&str]) -> (i32, Value) {
    document(command().args(arguments).args(["--format", "json"]).output().unwrap())
}

/// `merge -` of these lines.
fn merged(lines: &[u8], more: &[&str]) -> Output {
    let mut child = command()
        .args(["merge", "-", "--format", "json"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = lines.to_vec();
    let writer = std::thread::spawn(move || drop(input.write_all(&lines)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// The logs of one node.
fn logs(node: &str) -> Vec<String> {
    let all = std::fs::read_dir(data("incident-torch1.13/logs")).unwrap();
    let mut names: Vec<String> = all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| n.starts_with(node));
    names.sort();
    names.into_iter().map(|n| format!("incident-torch1.13/logs/{n}")).collect()
}

/// What a node's command line names: its capture and its logs.
fn inputs(capture: &str) -> Vec<String> {
    let node = Path::new(capture).file_stem().unwrap().to_str().unwrap();
    let logs = logs(node).into_iter().flat_map(|l| ["--oom".to_string(), l]);
    std::iter::once(capture.to_string()).chain(logs).chain(KNOWN.map(str::to_string)).collect()
}

/// `analyze` over all three.
fn whole() -> (i32, Value) {
    let mut arguments = vec!["analyze"];
    arguments.extend(NODES);
    arguments.extend(["--oom", "incident-torch1.13/logs"]);
    arguments.extend(KNOWN);
    told(&arguments)
}

/// What `analyze --format jsonl` prints of one node.
fn lines(arguments: &[String]) -> Vec<u8> {
    command().arg("analyze").args(arguments).args(["--format", "jsonl"]).output().unwrap().stdout
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    assert!(all.iter().all(|p| p.extension().is_some_and(|e| e == "jsonl")), "{all:?}");
    all
}

/// One pass of `watch` that writes evidence.
fn watch(case: &Path, evidence: &Path, arguments: &[String]) -> Output {
    let mut watch = command();
    watch.arg("watch").args(arguments).args(["--once", "--quiet", "--case"]).arg(case).arg("--evidence").arg(evidence);
    watch.output().unwrap()
}

#[test]
fn evidence_of_three_hosts_in_any_order_is_one_analysis() {
    let place = TempDir::new().unwrap();
    let (status, expected) = whole();
    let incident = &expected["incidents"][0];
    assert_eq!((incident["scope"].as_str(), incident["verdict"].as_str()), (Some("synchronized"), Some("confirmed")));
    let (mut directories, mut files, mut cases) = (Vec::new(), Vec::new(), Vec::new());
    for capture in NODES {
        let name = Path::new(capture).file_stem().unwrap();
        let (directory, case) = (place.path().join(name), place.path().join(name).with_extension("db"));
        let output = watch(&case, &directory, &inputs(capture));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = place.path().join(name).with_extension("jsonl");
        std::fs::write(&file, lines(&inputs(capture))).unwrap();
        directories.push(directory);
        files.push(file);
        cases.push(case);
    }
    let [a, b, c] = [0, 1, 2].map(|i| text(&directories[i]));
    let [x, y, z] = [0, 1, 2].map(|i| text(&files[i]));
    let orders: [&[&str]; 8] = [
        &[a, b, c],
        &[c, a, b],
        &[b, a, b, c],
        &[x, y, z],
        &[z, y, x, y],
        // Of one host the segments, of one the lines of analyze, of one the case; and one in all three ways.
        &[a, y, text(&cases[2])],
        &[text(&cases[0]), a, x, b, c],
        &[text(place.path()), a],
    ];
    for order in orders {
        let (merged_status, merged) = told(&[&["merge"], order].concat());
        assert_eq!(merged_status, status, "{order:?}");
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(value, &merged[name], "{order:?}: {name}");
        }
    }
    // What merge prints as JSON lines is evidence as well.
    let all = command().args(["merge", a, y, z, "--format", "jsonl"]).output().unwrap().stdout;
    assert_eq!(document(merged(&all, &[])), (status, expected));
}

#[test]
fn jobs_that_no_host_saw_whole_are_put_together() {
    let place = TempDir::new().unwrap();
    let of = |directory: &str, parts: &[&[&str]]| {
        let mut files = Vec::new();
        for (i, captures) in parts.iter().rev().enumerate() {
            let captures: Vec<String> = captures
                .iter()
                .map(|c| format!("{directory}/{c}.pcap"))
                .chain(KNOWN[..2].iter().map(|k| k.to_string()))
                .collect();
            let file = place.path().join(format!("{directory}-{i}.jsonl"));
            std::fs::write(&file, lines(&captures)).unwrap();
            files.push(file.to_str().unwrap().to_string());
        }
        let merge: Vec<&str> = ["merge"].into_iter().chain(files.iter().map(String::as_str)).collect();
        let all: Vec<String> = parts.iter().flat_map(|p| p.iter()).map(|c| format!("{directory}/{c}.pcap")).collect();
        let analyze: Vec<&str> =
            ["analyze"].into_iter().chain(all.iter().map(String::as_str)).chain(KNOWN[..2].iter().copied()).collect();
        let (merged, whole) = (told(&merge), told(&analyze));
        for (name, value) in whole.1.as_object().unwrap() {
            assert_eq!(value, &merged.1[name], "{parts:?}: {name}");
        }
        assert_eq!(merged, whole);
    };
    // Rotated files of one host are one set; stores and roots are named in what other hosts saw.
    let rotated = ["112916", "112932", "112942", "112952", "113002"].map(|t| format!("node-c-rot-20261129-{t}"));
    let rotated: Vec<&str> = rotated.iter().map(String::as_str).collect();
    of("torchrun", &[&["node-a"], &["node-b"], &rotated]);
    of("store-and-nccl", &[&["torch2.15-nccl2.26-node-a"], &["torch2.15-nccl2.26-node-b"]]);
    of("store-and-nccl", &[&["torch2.15-nccl2.26-stray-node-a"], &["torch2.15-nccl2.26-stray-node-b"]]);
}

#[test]
fn lines_that_pdsh_gathers_are_one_analysis() {
    let (status, expected) = whole();
    // pdsh's rcmd module `exec` runs the command here, with %h for the host.
    let binary = env!("CARGO_BIN_EXE_rdzvscope");
    let script = format!(
        "exec {binary} analyze incident-torch1.13/$0.pcap $(for l in incident-torch1.13/logs/$0.*; do echo --oom $l; done) \
         --hosts hosts --boot node-a=2026-11-29T11:12:08Z --format jsonl"
    );
    let pdsh = Command::new("pdsh")
        .current_dir(data(""))
        .args(["-R", "exec", "-w", "node-a,node-b,node-c", "sh", "-c", &script, "%h"])
        .output();
    let Ok(pdsh) = pdsh else { panic!("pdsh is not installed: tools/setup.sh test installs it") };
    let out = pdsh.stdout;
    assert!(out.starts_with(b"node-"), "{}", String::from_utf8_lossy(&pdsh.stderr));
    assert_eq!(document(merged(&out, &[])), (status, expected.clone()));

    // Hosts' lines in any order among each other, and what a login prints between them.
    let mut by_host: Vec<Vec<&[u8]>> = ["node-a: ", "node-b: ", "node-c: "]
        .map(|p| out.split_inclusive(|b| *b == b'\n').filter(|l| l.starts_with(p.as_bytes())).collect())
        .to_vec();
    by_host.iter_mut().for_each(|l| l.reverse());
    let mut mixed = b"node-b: Welcome to node-b\n".to_vec();
    while let Some(host) = by_host.iter_mut().max_by_key(|l| l.len()).filter(|l| !l.is_empty()) {
        mixed.extend_from_slice(host.pop().unwrap());
    }
    let (mixed_status, mut document) = document(merged(&mixed, &[]));
    let notes = document["notes"].as_array_mut().unwrap();
    assert!(notes.iter().any(|n| n.as_str().unwrap().contains("1 line that is no JSON passed over, from line 1 on")));
    notes.retain(|n| !n.as_str().unwrap().contains("no JSON"));
    assert_eq!((mixed_status, document), (status, expected));
}

#[test]
fn hosts_that_each_saw_only_themselves_are_one_incident_by_the_names_in_front() {
    let place = TempDir::new().unwrap();
    let mut out = Vec::new();
    for capture in NODES {
        let node = Path::new(capture).file_stem().unwrap().to_str().unwrap();
        // The same path on each host, a kernel log that names nobody, and no list of hosts.
        let root = place.path().join(node);
        std::fs::create_dir(&root).unwrap();
        std::fs::copy(data(capture), root.join("eth0.pcap")).unwrap();
        std::fs::copy(data(&format!("incident-torch1.13/logs/{node}.dmesg-iso")), root.join("dmesg")).unwrap();
        let output = command()
            .current_dir(&root)
            .args(["analyze", "eth0.pcap", "--oom", "dmesg", "--format", "jsonl"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        for line in output.stdout.split_inclusive(|b| *b == b'\n') {
            out.extend([node.as_bytes(), b": ", line].concat());
        }
    }
    let (status, report) = document(merged(&out, &[]));
    assert_eq!(status, 1);
    let incidents = report["incidents"].as_array().unwrap();
    assert_eq!(incidents.len(), 1, "{incidents:#?}");
    let hosts: Vec<&str> =
        incidents[0]["hosts"].as_array().unwrap().iter().map(|h| h["host"].as_str().unwrap()).collect();
    assert_eq!(hosts.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from(["node-a", "node-b", "node-c"]));
    assert_eq!(incidents[0]["scope"], "synchronized");
    assert!(incidents[0]["hosts"].as_array().unwrap().iter().all(|h| !h["trigger"].is_null()), "{incidents:#?}");
    // Captures of one name are told apart.
    let paths: Vec<&str> = report["captures"].as_array().unwrap().iter().map(|c| c["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["node-a:eth0.pcap", "node-b:eth0.pcap", "node-c:eth0.pcap"]);
}

#[test]
fn evidence_of_a_file_that_grows_is_that_of_the_whole_file() {
    let place = TempDir::new().unwrap();
    let (captures, case, evidence) =
        (place.path().join("pcap"), place.path().join("case.db"), place.path().join("out"));
    std::fs::create_dir(&captures).unwrap();
    let whole = std::fs::read(data("incident-torch1.13/node-a.pcap")).unwrap();
    let file = captures.join("node-a.pcap");
    for part in 1..=9 {
        std::fs::write(&file, &whole[..whole.len() * part / 9]).unwrap();
        let output = watch(&case, &evidence, &[text(&captures).to_string()]);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let (_, merged) = told(&["merge", text(&evidence)]);
        assert_eq!(merged, told(&["report", "--case", text(&case)]).1, "after {part} parts");
        assert_eq!(merged["findings"], told(&["analyze", text(&captures)]).1["findings"], "after {part} parts");
    }
    let all = segments(&evidence);
    assert!(all.len() >= 8, "{all:?}");
    watch(&case, &evidence, &[text(&captures).to_string()]);
    assert_eq!(segments(&evidence), all, "nothing new, nothing shipped");

    // One that got lost on its way is missed, and said.
    std::fs::remove_file(&all[3]).unwrap();
    let (_, merged) = told(&["merge", text(&evidence)]);
    let notes = merged["notes"].to_string();
    assert!(notes.contains(&format!("1 of {} segments did not come (4)", all.len())), "{notes}");
    // So is one that was cut.
    let cut = std::fs::read(&all[4]).unwrap();
    std::fs::write(&all[4], &cut[..cut.len() / 2]).unwrap();
    let output = command().args(["merge", text(&evidence)]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("ends early"), "{errors}");
}

#[test]
fn a_central_case_takes_segments_as_they_arrive() {
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name);
    let (arriving, case, alerts) = (at("arriving"), at("central.db"), at("alerts"));
    std::fs::create_dir(&arriving).unwrap();
    let follow = || {
        let mut merge = command();
        merge.args(["merge", "--once", "--case"]).arg(&case).arg("--follow").arg(&arriving).args(&KNOWN[..2]);
        merge.arg("--alert-file").arg(&alerts).output().unwrap()
    };
    let output = follow();
    assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0));
    let mut hosts = Vec::new();
    for capture in NODES {
        let name = Path::new(capture).file_stem().unwrap().to_str().unwrap();
        watch(&at(name).with_extension("db"), &at(name), &inputs(capture));
        // Half of a copy that is still under way is none.
        std::fs::write(arriving.join(format!(".{name}.jsonl.Xy12")), "{\"type\"").unwrap();
        let to = arriving.join(name);
        std::fs::create_dir(&to).unwrap();
        for segment in segments(&at(name)) {
            std::fs::copy(&segment, to.join(segment.file_name().unwrap())).unwrap();
        }
        let output = follow();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{name}");
        let incidents: Vec<Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap())
            .filter(|v| v["type"] == "incident")
            .collect();
        assert_eq!(incidents.len(), 1, "it grows under one id");
        hosts.push(incidents[0]["hosts"].as_array().unwrap().len());
        assert_eq!(follow().status.code(), Some(0), "{name}: nothing is new");
    }
    assert_eq!(hosts, [1, 2, 3]);
    let (status, expected) = whole();
    assert_eq!(told(&["report", "--case", text(&case)]), (status, expected.clone()));
    assert_eq!(told(&["merge", text(&case), text(&at("node-b"))]), (status, expected));
    let alerts = std::fs::read_to_string(&alerts).unwrap();
    assert_eq!(alerts.matches("\"type\":\"incident\"").count(), 3, "{alerts}");
    // What comes under another name once more, or packed, says nothing new.
    let again = std::fs::read(&segments(&at("node-a"))[0]).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&again).unwrap();
    std::fs::write(arriving.join("again.jsonl.gz"), packed.finish().unwrap()).unwrap();
    let output = follow();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(0), 0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(command().args(["case", "check"]).arg(&case).output().unwrap().status.code(), Some(0));

    let later = String::from_utf8(again).unwrap().replace("rdzvscope.evidence/1.1", "rdzvscope.evidence/2.0");
    std::fs::write(arriving.join("later.jsonl"), &later).unwrap();
    let output = follow();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("later.jsonl, line 1: evidence of a later version"), "{errors}");
    // The next minor version has fields and kinds of lines that are not known here.
    let next = later.replace("evidence/2.0\"", "evidence/1.1\",\"moon\":[1]");
    let next = next.replacen('\n', "\n{\"type\":\"evidence-moon\",\"origin\":\"o\"}\n", 1);
    std::fs::write(arriving.join("later.jsonl"), next).unwrap();
    let output = follow();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(0), 0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_central_case_is_told_at_once_and_ends_in_order() {
    let place = TempDir::new().unwrap();
    let (arriving, case, out) = (place.path().join("in"), place.path().join("central.db"), place.path().join("out"));
    std::fs::create_dir(&arriving).unwrap();
    let mut child = command()
        .args(["merge", "--interval", "50ms", "--case"])
        .arg(&case)
        .arg("--follow")
        .arg(&arriving)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    watch(&place.path().join("a.db"), &out, &inputs(NODES[0]));
    for segment in segments(&out) {
        // As rsync does it.
        let name = segment.file_name().unwrap().to_str().unwrap();
        let part = arriving.join(format!(".{name}.Xy12"));
        std::fs::copy(&segment, &part).unwrap();
        std::fs::rename(&part, arriving.join(name)).unwrap();
    }
    let mut first = String::new();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut first).unwrap();
    assert!(serde_json::from_str::<Value>(&first).unwrap()["type"] == "finding", "{first}");
    let locked =
        command().args(["merge", "--once", "--case"]).arg(&case).arg("--follow").arg(&arriving).output().unwrap();
    assert_eq!(locked.status.code(), Some(2));
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    std::io::Read::read_to_string(&mut lines, &mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_an_earlier_version_did_not_write_has_its_usual_value() {
    let text = String::from_utf8(lines(&inputs(NODES[0]))).unwrap();
    let older: Vec<String> = text
        .lines()
        .map(|line| {
            let mut v: Value = serde_json::from_str(line).unwrap();
            if v["type"].as_str().unwrap().starts_with("evidence") {
                for name in ["tool", "host", "last", "skipped", "promoted", "error", "lines", "late"] {
                    v.as_object_mut().unwrap().remove(name);
                }
            }
            v.to_string()
        })
        .collect();
    let (status, merged) = document(merged(older.join("\n").as_bytes(), &[]));
    let whole = told(&["analyze", &inputs(NODES[0])[0], "--hosts", "hosts"]);
    assert_eq!(status, 1);
    assert_eq!(merged["captures"], whole.1["captures"]);
    assert_eq!(merged["findings"].as_array().unwrap().len(), whole.1["findings"].as_array().unwrap().len());
}

#[test]
fn what_is_no_evidence_is_trouble() {
    for (lines, text) in [
        (&b""[..], "holds no evidence"),
        (b"hello\n", "holds no evidence"),
        (b"node-a: {\"type\":\"report\"}\n", "node-a: its lines are a report without evidence"),
    ] {
        let output = merged(lines, &[]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(text), "{errors}");
    }
    // Redacted, a report is no evidence.
    let arguments = [NODES[0], "--redact", "--format", "jsonl"];
    let output = command().arg("analyze").args(arguments).output().unwrap().stdout;
    assert!(!String::from_utf8(output).unwrap().contains("evidence/"));
}

#[test]
fn evidence_that_cannot_be_written_is_kept_until_it_can_be() {
    let place = TempDir::new().unwrap();
    let (case, evidence) = (place.path().join("case.db"), place.path().join("out"));
    // A file is in the way of the directory.
    std::fs::write(&evidence, "").unwrap();
    let output = watch(&case, &evidence, &inputs(NODES[0]));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("cannot write evidence") && errors.contains("tried again"), "{errors}");
    assert_eq!(output.status.code(), Some(1), "what was found is flagged all the same");
    std::fs::remove_file(&evidence).unwrap();
    assert_eq!(watch(&case, &evidence, &inputs(NODES[0])).status.code(), Some(0));
    assert_eq!(told(&["merge", text(&evidence)]), told(&["report", "--case", text(&case)]));
}

#[test]
fn machines_name_themselves_by_their_addresses() {
    let place = TempDir::new().unwrap();
    for (capture, address) in NODES.iter().zip(["192.0.2.11", "192.0.2.12", "192.0.2.13"]) {
        let node = Path::new(capture).file_stem().unwrap().to_str().unwrap();
        let (root, out) = (place.path().join(format!("root-{node}")), place.path().join("out").join(node));
        std::fs::create_dir(&root).unwrap();
        std::fs::copy(data(capture), root.join("eth0.pcap")).unwrap();
        let output = command()
            .current_dir(&root)
            .args(["watch", "eth0.pcap", "--once", "--quiet", "--case", "case.db", "--evidence"])
            .arg(&out)
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        for segment in segments(&out) {
            // The machine that runs this test has another name, and a bridge that every machine has.
            let text = std::fs::read_to_string(&segment).unwrap();
            let mut machines = 0;
            let lines: Vec<String> = text
                .lines()
                .map(|line| {
                    let mut v: Value = serde_json::from_str(line).unwrap();
                    if v["type"] == "evidence-machine" {
                        machines += 1;
                        assert!(v["host"].as_str().is_some_and(|h| !h.is_empty()) && v["addresses"].is_array());
                        v["host"] = node.into();
                        v["addresses"] = vec![address, "172.17.0.1"].into();
                    }
                    v.to_string()
                })
                .collect();
            assert_eq!(machines, 1);
            std::fs::write(&segment, lines.join("\n")).unwrap();
        }
    }
    let (status, report) = told(&["merge", text(&place.path().join("out"))]);
    assert_eq!(status, 1);
    let targets: BTreeSet<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["rule"] == "store-claim")
        .map(|f| f["target"]["host"].as_str().unwrap())
        .collect();
    assert_eq!(targets, BTreeSet::from(["node-a", "node-b", "node-c"]));
    let paths: Vec<&str> = report["captures"].as_array().unwrap().iter().map(|c| c["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["node-a:eth0.pcap", "node-b:eth0.pcap", "node-c:eth0.pcap"]);
}

#[test]
fn damaged_and_hostile_lines_are_no_more_than_a_note() {
    use rdzvscope::api::analysis::{Options, analyze_stored};
    use rdzvscope::api::evidence::{LineReader, gather};
    let out = lines(&inputs(NODES[0]));
    let text = String::from_utf8(out).unwrap();
    let all: Vec<&str> = text.lines().filter(|l| l.contains("\"type\":\"evidence")).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let numbers = ["18446744073709551615", "-1", "0", "1e400", "null", "\"x\"", "[]", "65536"];
    for round in 0..150 {
        let mut lines: Vec<Vec<u8>> = all.iter().map(|l| l.as_bytes().to_vec()).collect();
        for _ in 0..1 + below(3) {
            let at = below(lines.len());
            let line = &mut lines[at];
            match below(5) {
                0 => line.truncate(below(line.len())),
                1 => {
                    let i = below(line.len());
                    line[i] = b"0aZ+/=\"{}:, \\"[below(13)];
                }
                2 => {
                    // A number becomes another one.
                    let digits: Vec<usize> =
                        (1..line.len()).filter(|i| line[i - 1] == b':' && line[*i].is_ascii_digit()).collect();
                    if !digits.is_empty() {
                        let from = digits[below(digits.len())];
                        let to = (from..line.len()).find(|i| !line[*i].is_ascii_digit()).unwrap_or(line.len());
                        let number = numbers[below(numbers.len())].bytes();
                        line.splice(from..to, number);
                    }
                }
                3 => drop(lines.remove(at)),
                _ => {
                    let copy = lines[below(lines.len())].clone();
                    lines.insert(at, copy);
                }
            }
            if lines.is_empty() {
                break;
            }
        }
        let bytes = lines.join(&b'\n');
        // A header with another version is refused; anything else is read as far as it goes.
        if let Ok(reader) = LineReader::new("input").read(&mut bytes.as_slice()) {
            let report = analyze_stored(&Options::default(), gather(reader.facts)).analysis.report;
            assert!(report.findings.len() < 1000, "round {round}");
        }
    }
}
