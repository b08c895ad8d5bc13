//! What people type who come from tshark, tcpdump, nmap and ripgrep; the report on one screen; widths, colours, pagers.

mod common;
mod samples;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{LOGS, NODES, args, command, data};
use rdzvscope::api::report::model::*;
use rdzvscope::api::report::table::{LINES, Style, brief};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

fn run(arguments: &[&str]) -> (i32, String, String) {
    told(command().args(arguments).output().unwrap())
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

fn incident() -> Vec<String> {
    args(&[&["analyze"], &NODES, &LOGS])
}

fn at_width(columns: &str, more: &[&str]) -> String {
    let output = command().args(incident()).args(more).env("COLUMNS", columns).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_incident_of_three_hosts_is_one_screen_that_answers() {
    let text = at_width("100", &[]);
    assert!(text.lines().count() <= 50, "{} lines:\n{text}", text.lines().count());
    assert!(text.lines().all(|l| l.width() <= 100), "{text}");
    let row =
        |host: &str| text.lines().find(|l| l.starts_with(host)).unwrap_or_else(|| panic!("{host}: {text}")).to_string();
    for (host, packet, lag) in
        [("node-a", "#411", "39.0 s"), ("node-b", "#412", "28.7 s"), ("node-c", "#410", "57.5 s")]
    {
        let row = row(host);
        for cell in [packet, lag, "0.96 TB", "confirmed", "11:20:10.6"] {
            assert!(row.contains(cell), "{cell}: {row}");
        }
    }
    for part in
        ["CONFIRMED", "3 of 3 OOM hosts observed", "Why", "To do", "Also seen", "-v ", "rdzvscope explain store-claim"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let common = "its total-vm of 941138648 kB is the claim";
    assert_eq!(text.matches(common).count(), 1, "what all hosts have in common stands once: {text}");
    let long = at_width("100", &["-v"]);
    for part in ["Findings", "Evidence, to be checked by hand", "Listeners", "Totals:", "-vv shows them"] {
        assert!(long.contains(part) && long.lines().count() > 200, "{part}: {long}");
    }
    assert!(at_width("100", &["-vv"]).lines().count() > long.lines().count());
}

#[test]
fn ten_hosts_are_one_screen_and_more_are_counted() {
    let mut report = samples::incident();
    let hosts = report.incidents[0].hosts.clone();
    for n in 3..10 {
        let host = IncidentHost { host: format!("gpu-rack-{n:02}.training"), ..hosts[n % 3].clone() };
        report.incidents[0].hosts.push(host);
    }
    report.notes = (0..30).map(|n| format!("note {n} of a report that has much to say")).collect();
    for (width, unicode) in [(100, true), (100, false), (160, true), (200, false)] {
        let text = brief(&report, &Style { width, unicode, ..Style::default() });
        assert!(text.lines().count() <= LINES, "{} lines at {width}:\n{text}", text.lines().count());
        assert!(text.lines().all(|l| l.width() <= width), "{text}");
        let rows = |word: &str| text.lines().filter(|l| l.starts_with(word)).count();
        assert_eq!((rows("gpu-rack-"), rows("node-")), (7, 3), "{text}");
        assert!(text.contains("more (-v shows them)"), "{text}");
    }
    report.incidents[0].hosts.push(IncidentHost { host: "one-too-many".into(), ..hosts[0].clone() });
    let text = brief(&report, &Style::default());
    assert!(text.contains("and 1 more host (-v shows them)") && !text.contains("\none-too-many"), "{text}");
}

#[test]
fn what_differs_between_hosts_stands_with_their_names() {
    let mut report = samples::incident();
    for host in &mut report.incidents[0].hosts {
        host.reasons = vec!["it died 1.5 s later".into()];
    }
    report.incidents[0].hosts[1].reasons = vec!["it died 2.5 s later".into(), "its clock was off".into()];
    let text = brief(&report, &Style::default());
    assert!(text.contains("Why (figures of node-a, those of the others are alike)"), "{text}");
    assert!(text.contains("- it died 1.5 s later") && !text.contains("2.5 s later"), "{text}");
    assert!(text.contains("- node-b: its clock was off"), "{text}");
}

#[test]
fn hostile_text_stays_text_on_one_screen_too() {
    let evil = "a\u{1b}[31m\u{202e}\n- b\u{a0}\u{2061}| c".to_string();
    let mut report = samples::full();
    for i in &mut report.incidents {
        (i.summary, i.settled_by) = (evil.clone(), vec![evil.clone()]);
        i.hosts.iter_mut().for_each(|h| (h.host, h.reasons) = (evil.clone(), vec![evil.clone(), evil.repeat(400)]));
    }
    report
        .findings
        .iter_mut()
        .for_each(|f| (f.rule, f.capture, f.explanation) = (evil.clone(), Some(evil.repeat(99)), evil.clone()));
    report.notes = vec![evil.clone()];
    for incidents in [true, false] {
        if !incidents {
            report.incidents.clear();
        }
        for (width, unicode) in [(60, false), (80, true), (100, false), (200, true)] {
            let text = brief(&report, &Style { width, unicode, ..Style::default() });
            let bad = |c: &char| rdzvscope::api::report::escape::is_unsafe(*c) && *c != '\n';
            assert_eq!(text.chars().find(bad), None, "{text}");
            assert!(unicode || text.is_ascii());
            assert!(text.lines().all(|l| l.width() <= width), "{text}");
        }
    }
}

#[test]
fn a_night_without_an_incident_says_what_was_watched() {
    let (status, text, _) = run(&["analyze", "survivors-torch2.15/node-a.pcap", "--hosts", "hosts"]);
    assert!(text.starts_with("No incident"), "{status} {text}");
    assert!(text.contains("No log was given") && text.contains("Known protocols seen: tcpstore"), "{text}");
    let (status, text, _) = run(&["analyze", NODES[0], "--until", "2026-11-29T11:20:12Z"]);
    assert_eq!(status, 1, "{text}");
    for part in ["critical", "store-claim", "192.0.2.250:54486", "192.0.2.11:29500", "#411", "To do"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().count() <= 50, "{text}");
}

#[test]
fn tables_use_the_width_that_there_is() {
    for (columns, width) in [("60", 60), ("80", 80), ("160", 160), ("200", 200), ("20", 60), ("999", 200)] {
        let text = at_width(columns, &[]);
        let widest = text.lines().map(|l| l.width()).max().unwrap();
        assert!(widest <= width && widest + 40 > width.min(170), "{widest} of {columns}: {text}");
    }
    let header = |columns: &str| {
        let text = at_width(columns, &[]);
        text.lines().find(|l| l.starts_with("Host")).unwrap().to_string()
    };
    for column in ["Host", "Trigger", "Declared", "OOM kill", "Lag", "Verdict"] {
        assert!(header("80").contains(column), "{column}: {}", header("80"));
    }
    for column in ["Address", "Frame", "Probe", "Query", "Process"] {
        assert!(header("160").contains(column), "{column}: {}", header("160"));
    }
}

#[test]
fn colour_is_as_people_expect() {
    let coloured = |variables: &[(&str, &str)], flags: &[&str]| {
        let output = command().args(incident()).args(flags).envs(variables.iter().copied()).output().unwrap();
        output.stdout.contains(&0x1b)
    };
    assert!(!coloured(&[], &[]), "a pipe gets none");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")], &[]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "0")], &[]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], &[]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1")], &["--color", "never"]));
    assert!(coloured(&[("NO_COLOR", "1")], &["--color", "always"]));
}

/// A line without its colours.
fn plain(line: &str) -> String {
    ["\x1b[1;31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"].iter().fold(line.to_string(), |l, ansi| l.replace(ansi, ""))
}

/// Runs the program on a terminal of 120 columns, as `script` of util-linux makes one.
#[cfg(unix)]
fn on_a_terminal(line: &str, variables: &[(&str, &str)]) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_rdzvscope");
    let line = format!("stty cols 120 rows 30; {program} {line}");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(data("")).env("LC_ALL", "C.UTF-8").env("TERM", "xterm");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "PAGER", "LESS"] {
        script.env_remove(name);
    }
    script.envs(variables.iter().copied()).stdin(std::process::Stdio::null());
    match script.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).replace('\r', "")),
        Err(e) => {
            common::skipped(&format!("script of util-linux cannot be run: {e}"));
            None
        }
    }
}

#[cfg(unix)]
#[test]
fn on_a_terminal_there_is_colour_its_width_and_a_pager() {
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("seen");
    let pager = format!("tee {}", seen.display());
    let line = args(&[&["analyze"], &NODES, &LOGS]).join(" ");
    let Some(text) = on_a_terminal(&line, &[("PAGER", "cat")]) else { return };
    assert!(text.contains("\x1b[1;31mCONFIRMED"), "{text}");
    let widest = text.lines().map(|l| plain(l).width()).max().unwrap();
    assert!((101..=120).contains(&widest), "{widest}: {text}");
    assert!(!on_a_terminal(&line, &[("PAGER", "cat"), ("TERM", "dumb")]).unwrap().contains('\x1b'));
    let paged = on_a_terminal(&line, &[("PAGER", &pager)]).unwrap();
    assert!(paged.contains("CONFIRMED") && std::fs::read_to_string(&seen).unwrap().contains("CONFIRMED"), "{paged}");
    std::fs::remove_file(&seen).unwrap();
    let plain = on_a_terminal(&format!("{line} --no-pager"), &[("PAGER", &pager)]).unwrap();
    assert!(plain.contains("CONFIRMED") && !seen.exists(), "{plain}");
    let output = command().args(incident()).env("PAGER", &pager).output().unwrap();
    assert!(!output.stdout.is_empty() && !seen.exists(), "never in a pipe");
}

#[test]
fn the_name_of_the_output_chooses_the_form() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let written = |name: &str, more: &[&str]| {
        let output = command().args(incident()).args(more).arg("-o").arg(path(name)).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{name}");
        std::fs::read_to_string(path(name)).unwrap()
    };
    for name in ["r.html", "r.htm", "R.HTML"] {
        assert!(written(name, &[]).starts_with("<!DOCTYPE html>"), "{name}");
    }
    for name in ["r.md", "r.markdown"] {
        assert!(written(name, &[]).starts_with("### CONFIRMED"), "{name}");
    }
    assert_eq!(serde_json::from_str::<Value>(&written("r.json", &[])).unwrap()["schema"], "rdzvscope.report/1");
    assert!(written("r.jsonl", &[]).starts_with("{\"type\":\"report\""));
    assert!(written("r.csv", &[]).starts_with("id,rule,"));
    for name in ["r.txt", "r", "r.out"] {
        assert!(written(name, &[]).starts_with("CONFIRMED"), "{name}");
    }
    assert!(written("x.html", &["--format", "csv"]).starts_with("id,rule,"), "--format says otherwise");
    let (_, list, _) = run(&["messages", NODES[0], "-o", path("m.jsonl").to_str().unwrap()]);
    assert!(list.is_empty() && std::fs::read_to_string(path("m.jsonl")).unwrap().starts_with("{\"type\":\"message\""));
    run(&["streams", NODES[0], "-o", path("s.json").to_str().unwrap()]);
    let document: Value = serde_json::from_slice(&std::fs::read(path("s.json")).unwrap()).unwrap();
    assert_eq!(document["schema"], "rdzvscope.streams/1");
}

#[test]
fn captures_are_named_as_tshark_has_it() {
    let (status, positional, _) = run(&["analyze", NODES[0], "--format", "csv"]);
    let (same, read, _) = run(&["analyze", "-r", NODES[0], "--format", "csv"]);
    assert_eq!((status, positional), (same, read));
    for command in ["messages", "streams"] {
        let (a, b) = (run(&[command, NODES[0]]), run(&[command, "-r", NODES[0]]));
        assert_eq!(a, b, "{command}");
        assert!(a.0 == 0 && a.1.lines().count() > 5, "{command}");
    }
    let (status, json, _) = run(&["analyze", NODES[0], "--json"]);
    assert_eq!(
        (status, serde_json::from_str::<Value>(&json).unwrap()["schema"].clone()),
        (1, "rdzvscope.report/1".into())
    );
    let (_, json, _) = run(&["messages", NODES[0], "--json", "-c", "7"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["messages"].as_array().unwrap().len()),
        (Some("rdzvscope.messages/1"), 7)
    );
    let (_, lines, _) = run(&["messages", NODES[0], "--format", "jsonl", "-c", "3"]);
    assert_eq!(lines.lines().count(), 3);
    let (status, json, errors) = run(&["streams", NODES[0], "--json", "-c", "2"]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, document["flows"].as_array().unwrap().len(), errors.as_str()), (0, 2, ""));
    let (status, _, errors) = run(&["streams", NODES[0], "--follow", "3"]);
    assert_eq!((status, errors.as_str()), (0, ""), "no memory limit was met");
    assert_eq!(run(&["messages", NODES[0], "-c", "0"]).0, 2);
}

#[cfg(feature = "live")]
#[test]
fn an_expression_of_bpf_chooses_packets() {
    let sources = |json: &str| -> Vec<String> {
        let document: Value = serde_json::from_str(json).unwrap();
        let all = document["findings"].as_array().unwrap().iter();
        all.filter_map(|f| f["source"]["address"].as_str().map(str::to_string)).collect()
    };
    let (status, json, _) = run(&["analyze", NODES[0], "--filter", "host 192.0.2.250", "--json"]);
    assert!(status == 1 && sources(&json).iter().all(|s| s == "192.0.2.250") && !sources(&json).is_empty(), "{json}");
    let document: Value = serde_json::from_str(&json).unwrap();
    let trigger = document["findings"].as_array().unwrap().iter().find(|f| f["packet"] == 411);
    assert!(trigger.is_some(), "packets keep the numbers that Wireshark gives them");
    let (status, json, _) = run(&["analyze", NODES[0], "-f", "not host 192.0.2.250", "--json"]);
    assert!(status == 0 && sources(&json).is_empty(), "{json}");
    // The same through pcapng, compression and another link type.
    for file in ["links/node-c.pcap.gz", "links/node-c.pcapng"] {
        let count = |filter: &str| {
            let (_, json, _) = run(&["streams", file, "--all", "--json", "--filter", filter]);
            serde_json::from_str::<Value>(&json).unwrap()["flows"].as_array().unwrap().len()
        };
        let (one, others, all) = (count("host 192.0.2.250"), count("not host 192.0.2.250"), count("tcp"));
        assert!(one > 0 && others > 0 && one + others == all, "{file}: {one} {others} {all}");
    }
    let (status, _, errors) = run(&["messages", NODES[0], "--filter", "tcp prot 1"]);
    assert!(status == 2 && errors.contains("--filter") && errors.contains("syntax error"), "{errors}");
    let (status, interfaces, _) = run(&["live", "-D"]);
    assert!(status == 0 && interfaces.contains("lo"), "{interfaces}");
}

#[test]
fn a_path_in_the_place_of_a_command_is_answered_with_the_command() {
    let (status, text, errors) = run(&[NODES[0], "--format", "csv"]);
    assert_eq!((status, text.as_str()), (2, ""), "{errors}");
    assert!(errors.contains(&format!("did you mean: rdzvscope analyze {}", NODES[0])), "{errors}");
    let (status, _, errors) = run(&["nowhere.pcap"]);
    assert!(status == 2 && errors.contains("nowhere.pcap"), "{errors}");
}

#[test]
fn a_case_file_may_stand_alone() {
    let directory = tempfile::tempdir().unwrap();
    let case: PathBuf = directory.path().join("case.db");
    let case = case.to_str().unwrap();
    let (_, _, errors) = run(&["watch", NODES[0], "--once", "--case", case, "--hosts", "hosts"]);
    let (a, b) = (run(&["report", case, "--format", "csv"]), run(&["report", "--case", case, "--format", "csv"]));
    assert_eq!(a, b, "{errors}");
    assert!(a.0 == 1 && a.1.contains("store-claim"), "{a:?}");
    assert_eq!(run(&["report"]).0, 2);
    assert_eq!(run(&["watch", NODES[0], "--once", "--case", case, "--exit-zero"]).0, 0);
}

#[test]
fn a_scan_is_tried_as_it_is_typed() {
    let ask = |flags: &[&str], scan: &[&str]| run(&[&["prescan"], flags, scan].concat());
    let scan = ["nmap", "-sS", "-sV", "-p", "1-65535", "--exclude-ports", "22"];
    let (status, text, errors) = ask(&["--pytorch", "1.13", "--json"], &scan);
    if errors.contains("No probes at hand") {
        common::skipped("nmap's probes are not installed");
        return;
    }
    let profile = scan.join(" ");
    let (same, quoted, _) = ask(&["--pytorch", "1.13", "--json", "--profile", &profile], &[]);
    assert_eq!((status, text), (same, quoted), "{errors}");
    assert_eq!(status, 1, "{errors}");
    // With no trial there is no verdict.
    for scan in [&["nmap", "-sS", "-sV"][..], &["nmap", "-sn"], &["nmap", "-sV", "-p", "40000-40100"]] {
        let (status, text, _) = ask(&["--pytorch", "1.13"], scan);
        assert!(status == 2 && text.starts_with("NOTHING TRIED") && !text.contains("SAFE:"), "{status} {text}");
        let (_, json, _) = ask(&["--pytorch", "1.13", "--json"], scan);
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["verdict"], "nothing-tried");
    }
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = flat(&ask(&["--pytorch", "1.13"], &["nmap", "-sS", "-sV"]).1);
    assert!(text.contains("29500 is not among nmap's 1,000 default ports"), "{text}");
    assert!(text.contains("the stores of torchrun lie on ports that the kernel chose"), "{text}");
    let text = flat(&ask(&["--pytorch", "1.13"], &["nmap", "-sV", "-p", "40000-40100"]).1);
    assert!(text.contains("(40000-40100): worker stores of torchrun"), "{text}");
    // What the scan itself leaves out was not tried either, but is left alone on purpose.
    let (status, text, _) =
        ask(&["--pytorch", "1.13", "--port", "29500"], &["nmap", "-sV", "--exclude-ports", "29500"]);
    assert!(status == 0 && text.starts_with("LEFT ALONE"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let approval = directory.path().join("approval");
    let (status, _, errors) =
        ask(&["--pytorch", "1.13", "--attest", approval.to_str().unwrap()], &["nmap", "-sS", "-sV"]);
    assert!(status == 2 && errors.contains("an approval of nothing is none") && !approval.exists(), "{errors}");
}

#[test]
fn a_recording_that_may_still_grow_is_said_to() {
    let directory = tempfile::tempdir().unwrap();
    let fresh = directory.path().join("scan.pcap");
    std::fs::copy(data(NODES[0]), &fresh).unwrap();
    let ask = |path: &std::path::Path| {
        let (_, text, _) =
            run(&["prescan", "--capture", path.to_str().unwrap(), "--source", "192.0.2.250", "--pytorch", "1.13"]);
        text.contains("may be growing still")
    };
    assert!(ask(&fresh));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&fresh).unwrap().set_modified(old).unwrap();
    assert!(!ask(&fresh));
}

#[test]
fn flags_of_other_programs_get_a_hint_that_helps() {
    for (arguments, hint) in [
        (&["analyze", "x.pcap", "-Y", "tcp"][..], "--query"),
        (&["messages", "x.pcap", "-w", "y.pcap"], "--carve"),
        (&["analyze", "-i", "eth0", "x.pcap"], "rdzvscope live -i"),
        (&["streams", "x.pcap", "-n"], "never looked up"),
        (&["messages", "x.pcap", "-T", "json"], "--format jsonl"),
        (&["analyze", "x.pcap", "-d", "tcp.port==1,http"], "--port LIST"),
    ] {
        let (status, _, errors) = run(arguments);
        assert!(status == 2 && errors.contains(hint) && !errors.contains("as a value"), "{arguments:?}: {errors}");
    }
}

#[test]
fn flags_of_prescan_may_stand_behind_the_scan() {
    let before = run(&["prescan", "--pytorch", "1.13", "--format=json", "nmap", "-sV", "-p", "29500"]);
    let behind = run(&["prescan", "nmap", "-sV", "--pytorch", "1.13", "-p", "29500", "--format=json"]);
    assert_eq!(before, behind);
    assert!(before.0 == 1 && before.1.contains("nmap -sV -p 29500"), "{before:?}");
}

#[test]
fn standard_input_has_a_name_and_is_no_host() {
    let capture = std::fs::File::open(data("incident-torch1.13/node-a.pcap")).unwrap();
    let output = command().args(["analyze", "-", "--exit-zero"]).stdin(capture).output().unwrap();
    let (_, text, _) = told(output);
    assert!(text.contains("standard input") && text.contains("192.0.2.11"), "{text}");
    assert!(!text.contains("on -,") && !text.contains("of - "), "{text}");
}

#[test]
fn completions_know_rules_products_and_forms() {
    for shell in ["bash", "zsh", "fish"] {
        let (status, script, _) = run(&["completions", shell]);
        assert_eq!(status, 0);
        for word in ["store-claim", "nccl-root-died", "kubernetes", "suricata", "markdown", "2.15", "critical"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let interfaces = if shell == "zsh" { "_net_interfaces" } else { "/sys/class/net" };
        assert!(cfg!(not(feature = "live")) || script.contains(interfaces), "{shell}");
        assert!(!script.contains("RDZVSCOPE_INTERFACES"), "{shell}");
    }
}

/// What `shell` prints of `script`, or `None` (and a line in the list of skipped tests) where it is not installed.
fn shell(shell: &str, flag: &str, script: &str, directory: &Path) -> Option<String> {
    match std::process::Command::new(shell).args([flag, "-c", script]).current_dir(directory).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && errors.is_empty(), "{shell}: {errors}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(_) => {
            common::skipped(&format!("{shell} is not installed"));
            None
        }
    }
}

#[test]
fn shells_load_their_completions() {
    let directory = tempfile::tempdir().unwrap();
    for (name, file) in [("zsh", "_rdzvscope"), ("fish", "rdzvscope.fish")] {
        std::fs::write(directory.path().join(file), run(&["completions", name]).1).unwrap();
    }
    let zsh = "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -d dump; autoload +X _rdzvscope; print $_comps[rdzvscope]";
    if let Some(said) = shell("zsh", "-f", zsh, directory.path()) {
        assert_eq!(said, "_rdzvscope\n");
    }
    let fish = "source rdzvscope.fish; complete -C 'rdzvscope explain nccl-root'; complete -C 'rdzvscope presc'";
    if let Some(said) = shell("fish", "-N", fish, directory.path()) {
        assert!(said.contains("nccl-root-died") && said.contains("prescan"), "{said}");
    }
}
