//! `prescan` against what real servers did, and its command line.

#[path = "common/recorded.rs"]
mod outcomes;
#[path = "common/skip.rs"]
mod skip;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output};

use assert_cmd::cargo::CommandCargoExt;
use outcomes::{load, unhex};
use rdzvscope::api::prescan::{Act, Case, Fleet, Grade, Host, Matrix, Plan, ProbeFile, Profile, advise, pytorch};
use rdzvscope::api::protocol::tcpstore::server::Backend;
use serde_json::Value;

fn prescan(arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("rdzvscope").unwrap();
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"))
        .arg("prescan")
        .args(arguments)
        .output()
        .unwrap()
}

fn status(arguments: &[&str]) -> i32 {
    prescan(arguments).status.code().unwrap()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = prescan(&[arguments, &["--format", "jsonl"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn recorded() -> Value {
    load("store-server-outcomes.json")
}

/// nmap's probes; a test that needs them says so when they are not there.
fn probes() -> Option<ProbeFile> {
    let path = ProbeFile::installed();
    if path.is_none() {
        skip::skipped("nmap is not installed, and its probes are read from its file");
    }
    path.map(|p| ProbeFile::read(&p).unwrap())
}

/// Eight real servers, each in a memory cgroup of 1.2 GiB with vm.overcommit_memory=1: the memory that is half of what they
/// may have to be given here, because a claim is taken as deadly above half of a host's memory.
const CGROUP: u64 = (12 << 30) / 10;

#[test]
fn every_recorded_outcome_is_predicted() {
    let Some(file) = probes() else { return };
    let by_name: BTreeMap<&str, &[u8]> = file.probes.iter().map(|p| (p.name.as_str(), &p.payload[..])).collect();
    let host = Host { memory: Some(2 * CGROUP), overcommit: Some(1) };
    let mut compared = 0;
    for server in recorded().as_array().unwrap() {
        let (version, backend) = (server["pytorch"].as_str().unwrap(), server["backend"].as_str().unwrap());
        let mut fleet = Fleet::default();
        let backend_of = if backend == "poll" { Backend::Poll } else { Backend::Libuv };
        fleet.stores(&pytorch(version).unwrap(), Some(backend_of), &[29_500]).unwrap();
        for probe in server["outcomes"].as_array().unwrap() {
            let (name, was) = (probe["probe"].as_str().unwrap(), probe["outcome"].as_str().unwrap());
            let bytes = match name.strip_prefix("EXTRA:") {
                Some(_) => unhex(probe["first_bytes"].as_str().unwrap()),
                None => by_name[name].to_vec(),
            };
            let case = Case { name: name.to_owned(), act: Act::Segments(vec![bytes]) };
            let board = Matrix::ask(vec![case], &fleet, host, |_, _| true);
            let row = board.rows().next().unwrap();
            let bytes = row.allocates_bytes.unwrap_or(0);
            let says = match row.outcome {
                _ if row.kills => "killed",
                // The recorder saw memory from 200 MiB on.
                "allocates" if bytes >= 200 << 20 => "allocated",
                "allocates" | "waits" => "waits",
                "closes" => "closed",
                "replies" => "replied",
                other => other,
            };
            assert_eq!(says, was, "{version}/{backend} {name}: {row:?}");
            if ["waits", "allocated", "killed"].contains(&was) {
                assert_eq!(row.blocks_server, backend == "poll", "{version}/{backend} {name}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 8 * 107);
}

fn stores(releases: &str) -> Fleet {
    let mut fleet = Fleet::default();
    fleet.stores(&pytorch(releases).unwrap(), None, &[29_500]).unwrap();
    fleet
}

fn killing(plan: &Plan, fleet: &Fleet) -> BTreeSet<String> {
    let board = plan.board(fleet, Host::default());
    board.rows().filter(|r| r.kills).map(|r| r.probe.clone()).collect()
}

#[test]
fn two_probes_kill_stores_up_to_2_1_and_none_kills_later_ones() {
    let Some(file) = probes() else { return };
    let both: BTreeSet<String> = ["TerminalServer".to_owned(), "TerminalServerCookie".to_owned()].into();
    for release in ["1.4", "1.8", "1.9", "1.13", "2.0", "2.1"] {
        let fleet = stores(release);
        let plan = Plan::new(file.clone(), None, &fleet);
        assert_eq!(killing(&plan, &fleet), both, "{release}");
        let board = plan.board(&fleet, Host::default());
        let row = board.rows().find(|r| r.probe == "TerminalServer").unwrap();
        let query = if ["1.4", "1.8"].contains(&release) { "CHECK" } else { "ADD" };
        assert!(row.explanation.starts_with(query), "{release}: {}", row.explanation);
        let lesser = board.rows().find(|r| r.probe == "DNSStatusRequestTCP").unwrap();
        assert_eq!((lesser.allocates_bytes, lesser.grade()), (Some(268_435_468), Grade::Degrades));
    }
    let fleet = stores("2.2-");
    let plan = Plan::new(file, None, &fleet);
    assert_eq!(killing(&plan, &fleet), BTreeSet::new());
}

#[test]
fn the_intensity_decides_and_the_advice_names_it() {
    let Some(file) = probes() else { return };
    let fleet = stores("1.13");
    for (intensity, want) in
        [(5, vec![]), (6, vec!["TerminalServer"]), (7, vec!["TerminalServer", "TerminalServerCookie"])]
    {
        let profile = Profile::parse(&format!("nmap -sV --version-intensity {intensity} -p 29500 x")).unwrap();
        let plan = Plan::new(file.clone(), Some(profile), &fleet);
        let board = plan.board(&fleet, Host::default());
        let kills: Vec<String> = killing(&plan, &fleet).into_iter().collect();
        assert_eq!(kills, want, "{intensity}");
        let advice = advise(Some(&plan), &board, &fleet, Host::default());
        assert_eq!(advice.highest_intensity[0], (!want.is_empty()).then_some(5));
    }
}

#[test]
fn each_change_leaves_what_it_says() {
    let Some(_) = probes() else { return };
    let directory = tempfile::tempdir().unwrap();
    let written = directory.path().join("probes");
    let written = written.to_str().unwrap();
    let kills = ["--pytorch", "1.13", "--port", "29500", "--profile"];
    let with = |profile: &str| status(&[&kills[..], &[profile]].concat());
    assert_eq!(with("nmap -sS -sV -p 29500 x"), 1);
    assert_eq!(with("nmap -sS -sV -p 29500 --version-intensity 5 x"), 0);
    assert_eq!(with("nmap -sS -sV -p 29500 --exclude-ports 29500 x"), 0);
    assert_eq!(with("nmap -sS -p 29500 x"), 0);
    let output =
        prescan(&[&kills[..], &["nmap -sS -sV -p 29500 x", "--write-probes", written, "--format", "json"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["verdict"], "kills");
    assert_eq!(document["advice"]["killing"], serde_json::json!(["TerminalServerCookie", "TerminalServer"]));
    let again = rows(&[&kills[..], &["nmap -sS -sV -p 29500 x", "--probes", written]].concat());
    assert!(again.len() > 20 && again.iter().all(|r| r["kills"] == false));
    // It is not written over.
    assert_eq!(status(&[&kills[..], &["nmap -sV x", "--write-probes", written]].concat()), 2);
}

#[test]
fn lines_and_status_are_those_of_the_contract() {
    let lines = rows(&["--payload", "0300000b06e0000000000000", "--pytorch", "1.13.0,2.1.2,2.2.2"]);
    let short = |r: &Value| {
        format!("{} {} {} {} {}", r["version"], r["backend"], r["outcome"], r["allocates_bytes"], r["kills"])
            .replace('"', "")
    };
    assert_eq!(
        lines.iter().map(short).collect::<Vec<_>>(),
        [
            "1.13.0 poll allocates 962174058496 true",
            "2.1.2 poll allocates 962174058496 true",
            "2.2.2 poll closes null false",
            "2.2.2 libuv waits null false",
        ]
    );
    let keys = [
        "probe",
        "protocol",
        "version",
        "backend",
        "outcome",
        "allocates_bytes",
        "blocks_server",
        "kills",
        "explanation",
    ];
    assert!(lines.iter().all(|l| keys.iter().all(|k| l.get(k).is_some())));
    // In segments: VALIDATE first, then a claim that the poll server of 2.2 honours, and its libuv server refuses.
    let split = rows(&["--payload", "00cef7853c,020000000080000000", "--pytorch", "2.2"]);
    assert_eq!(split.iter().map(|r| r["outcome"].as_str().unwrap()).collect::<Vec<_>>(), ["allocates", "closes"]);
    assert_eq!(status(&["--payload", "0300000b06e0000000000000", "--pytorch", "2.2-"]), 0);
    assert_eq!(status(&["--payload", "00", "--pytorch", "2.15", "--backend", "poll"]), 1);
    for bad in [
        &["--payload", "xyz"][..],
        &["--pytorch", "9.9"],
        &["--pytorch", "1.13", "--backend", "libuv", "--payload", "00"],
        &["--nccl", "boot:2.26", "--payload", "00"],
        &["--probes", "README.md"],
        &["--profile", "masscan -p1", "--pytorch", "1.13"],
        &["--behaviour", "telepathy"],
        &["--inventory", "README.md", "--payload", "00"],
    ] {
        assert_eq!(status(bad), 2, "{bad:?}");
    }
}

#[test]
fn no_probes_at_hand_is_trouble_with_the_ways_out() {
    let mut command = Command::cargo_bin("rdzvscope").unwrap();
    let output = command.arg("prescan").env("NMAPDIR", "/nonexistent").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    for way in ["No probes at hand", "--probes", "--capture", "--payload", "--behaviour", "decoy"] {
        assert!(said.contains(way), "{said}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn scanners_without_probes() {
    let root = ["--pytorch", "2.15", "--nccl", "root:2.26", "--behaviour"];
    let with = |more: &[&str]| status(&[&root[..], more].concat());
    assert_eq!(with(&["masscan"]), 0);
    assert_eq!(with(&["naabu"]), 1);
    assert_eq!(status(&["--nccl", "root:2.27.3", "--behaviour", "connect-close"]), 0);
    assert_eq!(status(&["--nccl", "root:2.27.3", "--behaviour", "connect-hold:10"]), 1);
    // Payloads that nobody tried are unknown, and count unless they are accepted.
    assert_eq!(status(&["--pytorch", "2.15", "--behaviour", "nessus"]), 1);
    assert_eq!(status(&["--pytorch", "2.15", "--behaviour", "nessus", "--accept-unknown"]), 0);
    let unknown = rows(&["--pytorch", "2.15", "--behaviour", "qualys"]);
    assert!(unknown.iter().any(|r| r["outcome"] == "unknown"));
}

#[test]
fn a_recorded_scan_and_an_inventory() {
    let capture = ["--capture", "incident-torch1.13/scanner.pcap", "--source", "192.0.2.250", "--pytorch", "1.13"];
    let kills: Vec<String> =
        rows(&capture).iter().filter(|r| r["kills"] == true).map(|r| r["probe"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        kills,
        ["TerminalServerCookie from 192.0.2.250 (packet 208)", "TerminalServer from 192.0.2.250 (packet 435)"]
    );
    // masscan --banners against stores on 13 ports: it greets on port 3389 alone what it takes for RDP, and there it kills.
    let masscan = ["--capture", "scanners/masscan-banners.pcap", "--source", "192.0.2.251", "--pytorch", "1.13"];
    let kills: Vec<u64> =
        rows(&masscan).iter().filter(|r| r["kills"] == true).filter_map(|r| r["allocates_bytes"].as_u64()).collect();
    assert_eq!(kills, [962_746_712_064]);
    let directory = tempfile::tempdir().unwrap();
    let report: PathBuf = directory.path().join("report.json");
    let report = report.to_str().unwrap();
    for (captures, want) in [("incident-torch1.13/node-a.pcap", 1), ("survivors-torch2.15", 0)] {
        let mut command = Command::cargo_bin("rdzvscope").unwrap();
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
        command.current_dir(data).args(["analyze", captures, "--format", "json", "-o", report]).output().unwrap();
        let payload = "0300000b06e0000000000000";
        // The stores of 2.15 were seen to validate: neither of their servers is hurt. What their Gloo listeners do with
        // these bytes nobody has tried.
        assert_eq!(status(&["--inventory", report, "--payload", payload, "--accept-unknown"]), want, "{captures}");
        assert_eq!(status(&["--inventory", report, "--payload", payload]), 1, "{captures}");
    }
}

#[test]
fn the_page_says_what_kills_and_what_to_change() {
    let Some(_) = probes() else { return };
    let output = prescan(&["--pytorch", "1.13,2.15", "--nccl", "root:2.26", "--profile", "nmap -sT -sV -p- x"]);
    let page = String::from_utf8(output.stdout).unwrap();
    for part in [
        "KILLS: 2 of 4 kinds of server",
        "PyTorch 1.13 store, poll",
        "TerminalServerCookie: allocates 962 696 183 808 bytes (0.96 TB, 0.876 TiB)",
        "port scan (-sT)",
        "--exclude the training hosts",
        "-sS alone",
        "2.27.3 or later",
        "WHAT REMAINS",
    ] {
        assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "{part}\n{page}");
    }
    assert!(page.lines().all(|l| l.chars().count() <= 110), "{page}");
    let markdown = prescan(&["--pytorch", "1.13", "--profile", "nmap -sV -p 29500 x", "--format", "markdown"]);
    assert!(String::from_utf8(markdown.stdout).unwrap().starts_with("**KILLS"));
}
