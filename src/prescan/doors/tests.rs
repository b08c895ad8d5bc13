use super::super::fleet::Fleet;
use super::super::host::Host;
use super::super::matrix::{Case, Matrix};
use super::super::row::Grade;
use super::*;
use page::page;
use std::collections::BTreeSet;

mod page;

/// The recorded rows: product, version, listener, probe, outcome, effect on the job, how it was seen.
fn recorded() -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/outcomes/other-listeners.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|l| l.split('\t').map(str::to_string).collect()).collect()
}

/// What a scan does that was recorded under this name; none of what is no scan, or is part of others.
fn act(probe: &str) -> Option<Act> {
    Some(match probe {
        "connect+close" => Act::Close,
        _ if probe.starts_with("nmap -sS") => Act::Syn,
        _ if probe.starts_with("NULL") => Act::Silence(4.5),
        "nmap -sC" => Act::Untested,
        _ if probe.starts_with("nmap")
            || probe.starts_with("none")
            || probe.contains("held")
            || probe.contains("all") =>
        {
            return None;
        }
        _ => Act::Segments(vec![vec![0x5a; 3]]),
    })
}

#[test]
fn every_recorded_row_is_the_verdict() {
    let rows = recorded();
    assert_eq!(rows.len(), 1444);
    let mut asked = 0;
    for r in &rows {
        let [product, version, listener, probe, _, job, _] = &r[..] else { panic!("{r:?}") };
        let whole = listener.contains(" + ") || listener.starts_with("all listeners");
        let of: Vec<&Door> = doors()
            .iter()
            .filter(|d| (d.product, d.version) == (product, version) && (d.listener == listener || whole))
            .collect();
        assert!(!of.is_empty(), "{r:?}");
        // What the job suffered, which is told apart from the outcome.
        let suffered = match job.as_str() {
            "none" => Grade::Safe,
            j if j.starts_with("unclear") => Grade::Unknown,
            j if ["pauses", "output", "application"].iter().any(|w| j.starts_with(w)) => Grade::Degrades,
            "see outcome" if r[4].contains("survives") => Grade::Safe,
            _ => Grade::Kills,
        };
        // No row is lost on the way.
        let held = of
            .iter()
            .flat_map(|d| &d.rows)
            .any(|m| m.probe == probe.replace('|', "/") && m.outcome == r[4] && m.job == *job);
        assert!(held, "{r:?}");
        let Some(act) = act(probe).filter(|_| !whole) else { continue };
        let name = if matches!(act, Act::Untested) { "-sC (default scripts)" } else { probe };
        let worst = of[0].row(name, &act, blank()).grade();
        // One listener was tried twice under one name: the worse of both is told.
        let twin = rows.iter().filter(|o| o[..4] == r[..4]).count() > 1;
        assert!(worst == suffered || twin && worst > suffered, "{r:?}: {worst:?}");
        asked += 1;
    }
    assert!(asked > 1250, "{asked}");
}

fn blank() -> Row {
    Row {
        probe: String::new(),
        protocol: "mpi",
        version: String::new(),
        backend: None,
        outcome: "unknown",
        allocates_bytes: None,
        blocks_server: false,
        kills: false,
        explanation: String::new(),
        role: "control",
    }
}

#[test]
fn scans_of_a_whole_node_are_told_by_its_doors() {
    for r in recorded().iter().filter(|r| r[2].contains(" + ") || r[2].starts_with("all listeners")) {
        if !matches!(r[3].as_str(), "nmap -sT" | "nmap -sT all") || r[5] == "none" {
            continue;
        }
        let of = doors().iter().filter(|d| d.product == r[0] && d.version == r[1]);
        let worst = of.map(|d| d.row("port scan (-sT)", &Act::Close, blank()).grade()).max();
        assert_eq!(worst, Some(Grade::Kills), "{r:?}");
    }
}

#[test]
fn nodes_are_named_by_kind_and_release() {
    let names = |text: &str| node(text).unwrap().iter().map(|(d, _)| (d.family.key, d.version)).collect::<Vec<_>>();
    assert!(names("mpich:4.0").iter().all(|(k, v)| *k == "mpich" && v.contains("4.0")));
    assert!(names("openmpi:5").iter().all(|(_, v)| v.starts_with("5.0.11")));
    assert!(names("tensorpipe:1.13,gloo:1.13").iter().all(|(_, v)| v.contains("1.13.1")));
    assert!(names("slurm").len() > names("srun").len() && names("zmq").len() > 5 && names("ray").len() > 8);
    assert!(matches!(node("mpich:4.1"), Err(FleetError::Unmeasured(_, r)) if r.contains("5.0.2")));
    assert!(matches!(node("nope"), Err(FleetError::Node(_, k)) if k.contains("tensorpipe")));
    assert!(node("").is_err());
    assert!(is_release("22.05.8 (Debian 12)", "22.05") && !is_release("22.05.8 (Debian 12)", "12"));
    // As reports name what they saw: a range takes in the releases of its last one.
    let gloo = |told: &str| of_listener("gloo", "pair", told).iter().map(|d| d.version).collect::<BTreeSet<_>>();
    assert!(gloo("PyTorch 1.4–2.0").iter().all(|v| v.contains("1.13.1")), "{:?}", gloo("PyTorch 1.4–2.0"));
    assert!(gloo("PyTorch 2.1–2.7").iter().all(|v| v.contains("2.4.1")) && gloo("2.8 and later").len() == 1);
    assert!(is_within("torch 2.0.1", "PyTorch 1.4–2.0") && !is_within("2.1.0", "1.4–2.0") && is_within("9.9", ""));
}

/// A connect scan ends MPICH's mpiexec up to 4.0, a half-open one hurts nobody.
#[test]
fn half_open_scans_hurt_nobody() {
    let mut fleet = Fleet::default();
    fleet.doors(&node(&keys().join(",")).unwrap());
    let ask = |act| Matrix::ask(vec![Case { name: "x".into(), act }], &fleet, Host::default(), |_, _| true);
    assert_eq!(ask(Act::Syn).worst(), Some(Grade::Safe));
    assert_eq!(ask(Act::Close).worst(), Some(Grade::Kills));
    assert_eq!(ask(Act::Segments(vec![vec![0xde, 0xad]])).rows().filter(|r| r.grade() == Grade::Kills).count(), 0);
}

/// `docs/doors.md` is made from the rows; `UPDATE_DOCS=1 cargo test` writes it anew.
#[test]
fn the_page_is_that_of_the_rows() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/doors.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page());
}
