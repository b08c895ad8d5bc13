//! Recorded incidents and clean recordings as other captures would hold them: doubled, cut, in part, wrapped, merged, by other
//! clocks. What the files still prove is told, and nothing is told louder than it is.

#[path = "transforms/capture.rs"]
mod capture;
mod common;

use std::path::PathBuf;

use capture::{Packet, Packets, each};
use common::{Run, analyze, data};
use serde_json::{Value, json};

const HOSTS: [&str; 3] = ["node-a", "node-b", "node-c"];
/// The packets that completed the claims, and the kills, in microseconds after 11:20 (testdata/README.md).
const CLAIMS: [i64; 3] = [10_652_448, 10_634_682, 10_617_957];
const KILLS: [i64; 3] = [49_653_666, 39_381_744, 68_153_166];
/// 2026-11-29T11:20:00Z.
const MINUTE: i64 = 1_795_951_200_000_000;
const SCANNER: [u8; 4] = [192, 0, 2, 250];

/// The captures of an incident's hosts, and what is made of them.
struct Incident {
    captures: [Packets; 3],
}

impl Incident {
    fn recorded() -> Incident {
        Incident { captures: HOSTS.map(|h| capture::read(&data(&format!("incident-torch1.13/{h}.pcap")))) }
    }

    fn each(&self, make: impl Fn(&Packet) -> Packets) -> Incident {
        Incident { captures: [0, 1, 2].map(|i| each(&self.captures[i], &make)) }
    }

    /// Those packets that `keep` takes, by the index of their host and their time after 11:20.
    fn kept(&self, keep: impl Fn(usize, i64, &Packet) -> bool) -> Incident {
        let of = |i: usize| self.captures[i].iter().filter(|p| keep(i, p.time - MINUTE, p)).cloned().collect();
        Incident { captures: [0, 1, 2].map(of) }
    }

    /// Analyzed with the hosts' kernel logs.
    fn told(&self) -> Run {
        let files = HOSTS.iter().zip(&self.captures).map(|(h, c)| (format!("{h}.pcap"), capture::pcap(c))).collect();
        told(files)
    }
}

/// Files of captures, analyzed with the logs of the incident.
fn told(files: Vec<(String, Vec<u8>)>) -> Run {
    let place = tempfile::tempdir().unwrap();
    let mut arguments: Vec<String> = Vec::new();
    for (name, bytes) in files {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        arguments.push(path.to_string_lossy().into_owned());
    }
    arguments.extend(["--hosts".to_string(), "hosts".to_string()]);
    for host in HOSTS {
        arguments.extend(["--oom".to_string(), format!("incident-torch1.13/logs/{host}.dmesg-iso")]);
    }
    analyze(&arguments)
}

/// For each host: the verdict, and the size and the source of its trigger.
fn verdicts(run: &Run) -> Vec<(String, Value, Value)> {
    let part = |host: &str| {
        let all = run.json["incidents"].as_array().unwrap().iter().flat_map(|i| i["hosts"].as_array().unwrap());
        let mine: Vec<&Value> = all.filter(|h| h["host"] == host).collect();
        assert_eq!(mine.len(), 1, "{host} is told once: {mine:#?}");
        let source =
            if mine[0]["trigger"].is_null() { json!(null) } else { run.finding(&mine[0]["trigger"])["source"].clone() };
        (mine[0]["verdict"].as_str().unwrap().to_string(), mine[0]["declared_bytes"].clone(), source["address"].clone())
    };
    HOSTS.iter().map(|h| part(h)).collect()
}

const ORDER: [&str; 4] = ["unexplained", "possible", "probable", "confirmed"];

fn rank(verdict: &str) -> usize {
    ORDER.iter().position(|v| *v == verdict).unwrap()
}

/// What must be true of a host: the least and the most that its verdict may be, and whether its trigger is there.
#[derive(Clone, Copy)]
struct Truth {
    least: &'static str,
    most: &'static str,
    trigger: bool,
}

const PROVED: Truth = Truth { least: "confirmed", most: "confirmed", trigger: true };
const SEEN: Truth = Truth { least: "probable", most: "confirmed", trigger: true };
const CAPPED: Truth = Truth { least: "possible", most: "probable", trigger: true };
const NOTHING: Truth = Truth { least: "unexplained", most: "possible", trigger: false };
/// No capture holds the trigger, those of the others do.
const INFERRED: Truth = Truth { least: "possible", most: "probable", trigger: false };

fn hold(what: &str, run: &Run, truth: [Truth; 3], source: &str) {
    for ((host, told), truth) in HOSTS.iter().zip(verdicts(run)).zip(truth) {
        let (verdict, declared, from) = told;
        let range = rank(truth.least)..=rank(truth.most);
        assert!(range.contains(&rank(&verdict)), "{what}: {host} is {verdict}: {:#}", run.json["incidents"]);
        let trigger =
            if truth.trigger { (json!(common::COOKIE_CLAIM), json!(source)) } else { (json!(null), json!(null)) };
        assert_eq!((declared, from), trigger, "{what}: {host}");
    }
}

#[test]
fn the_same_traffic_in_other_files_is_the_same_incident() {
    let whole = Incident::recorded();
    let pcaps =
        |i: &Incident| HOSTS.iter().zip(&i.captures).map(|(h, c)| (format!("{h}.pcap"), capture::pcap(c))).collect();
    let mut all: Vec<(&str, Vec<(String, Vec<u8>)>)> = vec![
        ("as it is", pcaps(&whole)),
        ("every packet twice", pcaps(&whole.each(capture::doubled))),
        ("sent again with another TTL and id", pcaps(&whole.each(capture::sent_again))),
        ("a byte a segment", pcaps(&whole.each(capture::bytewise))),
        ("in a VLAN", pcaps(&whole.each(capture::in_vlan))),
        ("in VXLAN", pcaps(&whole.each(capture::in_vxlan))),
        ("in GRE", pcaps(&whole.each(capture::in_gre))),
    ];
    let as_pcapng = |(h, c): (&&str, &Packets)| (format!("{h}.pcapng"), capture::pcapng(c));
    all.push(("pcapng", HOSTS.iter().zip(&whole.captures).map(as_pcapng).collect()));
    let mut ring = Vec::new();
    for (host, packets) in HOSTS.iter().zip(&whole.captures) {
        for (n, part) in packets.chunks(100).enumerate() {
            ring.push((format!("{host}/{host}.pcap{n}"), capture::pcap(part)));
        }
    }
    all.push(("a ring of files", ring));
    let mut merged: Packets = whole.captures.concat();
    merged.sort_by_key(|p| p.time);
    all.push(("merged into one file", vec![("all.pcap".to_string(), capture::pcap(&merged))]));
    for (what, files) in all {
        let run = told(files);
        hold(what, &run, [PROVED; 3], "192.0.2.250");
        assert_eq!(run.json["incidents"].as_array().unwrap().len(), 1, "{what}");
    }
}

#[test]
fn what_a_snaplen_leaves_is_told_and_what_it_cut_is_no_finding() {
    let whole = Incident::recorded();
    for snaplen in 40..=128 {
        let run = whole.each(|p| capture::cut(p, snaplen)).told();
        // The nine bytes of the claim stand behind 66 bytes of headers.
        let truth = if snaplen >= 75 { SEEN } else { NOTHING };
        hold(&format!("snaplen {snaplen}"), &run, [truth; 3], "192.0.2.250");
        for f in run.grave() {
            let (rule, declared) = (f["rule"].as_str().unwrap(), f["declared"]["bytes"].as_u64());
            let claim = rule.starts_with("store-") && declared.is_some() || rule.starts_with("listener-");
            assert!(claim && (snaplen >= 70 || rule.starts_with("listener-")), "snaplen {snaplen}: {f:#}");
        }
    }
}

#[test]
fn one_direction_is_no_proof_and_no_silence() {
    let whole = Incident::recorded();
    let to_store =
        |p: &Packet| capture::tcp_of(&p.frame).is_some_and(|(tcp, _)| p.frame[tcp + 2..tcp + 4] == [0x73, 0x3c]);
    let run = whole.kept(|_, _, p| to_store(p)).told();
    hold("to the stores only", &run, [CAPPED; 3], "192.0.2.250");
    assert!(run.notes().contains("One direction only"), "{}", run.notes());
    assert!(run.json["captures"].as_array().unwrap().iter().all(|c| c["one_direction"] == true));
    assert!(run.of_rule("listener-silent").is_empty() && run.of_rule("store-claim-refused").is_empty());
    let run = whole.kept(|_, _, p| !to_store(p)).told();
    hold("from the stores only", &run, [NOTHING; 3], "");
}

#[test]
fn what_no_capture_holds_is_inferred_at_most() {
    let whole = Incident::recorded();
    for (missing, name) in HOSTS.iter().enumerate() {
        let run = whole.kept(|host, _, _| host != missing).told();
        let truth = [0, 1, 2].map(|host| if host == missing { INFERRED } else { PROVED });
        hold(&format!("without {}", name), &run, truth, "192.0.2.250");
    }
    let run = whole.kept(|host, time, _| time > CLAIMS[host]).told();
    hold("from after the triggers", &run, [NOTHING; 3], "");
    let run = whole.kept(|host, time, _| time < KILLS[host] - 1_000_000).told();
    hold("to before the kills", &run, [SEEN; 3], "192.0.2.250");
}

#[test]
fn a_gateway_in_between_changes_the_name_of_the_source_only() {
    let run = Incident::recorded().each(|p| capture::translated(p, SCANNER, [198, 51, 100, 9])).told();
    hold("behind a gateway", &run, [PROVED; 3], "198.51.100.9");
}

#[test]
fn a_clock_that_is_off_accuses_nobody_else() {
    let whole = Incident::recorded();
    for seconds in [-3600, -90, -2, 2, 90, 3600] {
        let mut moved = Incident { captures: whole.captures.clone() };
        moved.captures[0].iter_mut().for_each(|p| p.time += seconds * 1_000_000);
        let run = moved.told();
        let told = verdicts(&run);
        for (host, (verdict, declared, _)) in HOSTS.iter().zip(&told) {
            assert!(declared.is_null() || *declared == common::COOKIE_CLAIM, "{seconds} s: {host} {declared}");
            assert!(*host == "node-a" || verdict == "confirmed", "{seconds} s: {host} {verdict}");
        }
        // Within what a kill takes, the size and the silence still fit; beyond it the clock is found, or nothing is sure.
        let late = (0..38).contains(&(-seconds)) || run.notes().contains("clock");
        assert!(told[0].0 != "confirmed" || late, "{seconds} s: {:#}\n{}", run.json["incidents"], run.notes());
    }
}

/// Clean recordings, and one of a scan that everybody survived.
const QUIET: [&str; 8] = [
    "survivors-torch2.15",
    "torchrun/node-c-rot-20261129-112952.pcap",
    "store-and-nccl/torch2.15-nccl2.26-node-a.pcap",
    "gloo",
    "api",
    "ordinary",
    "foreign-servers",
    "other-strangers/health-check.pcap",
];

fn captures_of(name: &str) -> Vec<PathBuf> {
    let path = data(name);
    let mut all: Vec<PathBuf> = match path.is_dir() {
        true => std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect(),
        false => vec![path],
    };
    all.retain(|p| p.extension().is_some_and(|e| e == "pcap"));
    all.sort();
    assert!(!all.is_empty(), "{name}");
    all
}

#[test]
fn clean_recordings_stay_quiet_whatever_is_done_to_them() {
    type Transform = (&'static str, fn(&Packet) -> Packets);
    const TRANSFORMS: [Transform; 6] = [
        ("every packet twice", capture::doubled),
        ("sent again", capture::sent_again),
        ("a byte a segment", capture::bytewise),
        ("in a VLAN", capture::in_vlan),
        ("in VXLAN", capture::in_vxlan),
        ("in GRE", capture::in_gre),
    ];
    for name in QUIET {
        let recorded: Vec<Packets> = captures_of(name).iter().map(|p| capture::read(p)).collect();
        if recorded.iter().flatten().any(|p| p.frame.len() < 14 || p.frame[12..14] == [0, 0]) {
            panic!("{name} holds no Ethernet");
        }
        let mut made: Vec<(String, Vec<Packets>)> = Vec::new();
        for (what, make) in TRANSFORMS {
            made.push((what.to_string(), recorded.iter().map(|c| each(c, make)).collect()));
        }
        for snaplen in [54, 58, 68, 75, 96] {
            made.push((
                format!("snaplen {snaplen}"),
                recorded.iter().map(|c| each(c, |p| capture::cut(p, snaplen))).collect(),
            ));
        }
        let part = |c: &Packets, low: bool| {
            let lower = |p: &Packet| p.frame.get(26..30) < p.frame.get(30..34);
            c.iter().filter(|p| lower(p) == low).cloned().collect::<Packets>()
        };
        for low in [false, true] {
            made.push(("one direction".to_string(), recorded.iter().map(|c| part(c, low)).collect()));
        }
        made.push(("second half".to_string(), recorded.iter().map(|c| c[c.len() / 2..].to_vec()).collect()));
        made.push(("first half".to_string(), recorded.iter().map(|c| c[..c.len() / 2].to_vec()).collect()));
        for (what, captures) in made {
            let place = tempfile::tempdir().unwrap();
            let mut paths = Vec::new();
            for (n, c) in captures.iter().enumerate() {
                let path = place.path().join(format!("{n}.pcap"));
                std::fs::write(&path, capture::pcap(c)).unwrap();
                paths.push(path.to_string_lossy().into_owned());
            }
            let run = analyze(&paths);
            // Without the clients' requests nobody knows the dialect, and without the store's side not that it closed: what a
            // store of another release would allocate is a claim then.
            let open = |f: &Value| what == "one direction" && f["dialect"].is_null() && f["acknowledged"] == "unknown";
            let loud: Vec<&Value> = run.grave().into_iter().filter(|f| !open(f)).collect();
            assert!(loud.is_empty(), "{name}, {what}: {loud:#?}");
            assert_eq!(run.json["incidents"], json!([]), "{name}, {what}");
        }
    }
}

/// What is told of a finding whatever its packets' numbers are.
fn told_of(f: &Value) -> String {
    json!([f["rule"], f["severity"], f["source"], f["target"]["address"], f["target"]["port"], f["declared"]])
        .to_string()
}

#[test]
fn findings_of_other_recordings_do_not_depend_on_what_wraps_or_doubles_packets() {
    let recordings =
        ["scans", "incidents-2/fast", "incidents-2/restart", "other-strangers", "scanners", "gloo-strays", "nccl"];
    for name in recordings {
        for path in captures_of(name) {
            let recorded = capture::read(&path);
            if recorded.iter().any(|p| p.frame.len() < 34 || p.frame[12..14] != [8, 0]) {
                continue;
            }
            let told = |packets: Vec<u8>, file: &str| {
                let place = tempfile::tempdir().unwrap();
                let path = place.path().join(file);
                std::fs::write(&path, packets).unwrap();
                let run = analyze(&[path]);
                let mut all: Vec<String> = run.findings().iter().map(told_of).collect();
                all.sort();
                all
            };
            let plain = told(capture::pcap(&recorded), "x.pcap");
            let made: [(&str, Vec<u8>, &str); 6] = [
                ("pcapng", capture::pcapng(&recorded), "x.pcapng"),
                ("twice", capture::pcap(&each(&recorded, capture::doubled)), "x.pcap"),
                ("sent again", capture::pcap(&each(&recorded, capture::sent_again)), "x.pcap"),
                ("VLAN", capture::pcap(&each(&recorded, capture::in_vlan)), "x.pcap"),
                ("VXLAN", capture::pcap(&each(&recorded, capture::in_vxlan)), "x.pcap"),
                ("GRE", capture::pcap(&each(&recorded, capture::in_gre)), "x.pcap"),
            ];
            for (what, bytes, file) in made {
                assert_eq!(told(bytes, file), plain, "{}, {what}", path.display());
            }
        }
    }
}
