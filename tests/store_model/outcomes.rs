//! Eight real servers in a memory cgroup of 1.2 GiB, overcommit 1, each given every probe of nmap and some of ours.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rdzvscope::api::protocol::tcpstore::server::{Outcome, Policy, Store, Verdict, verdict_on};

use super::{load, nmap, server, text, unhex};

/// The word that the recorder would have written.
fn word(v: &Verdict) -> &'static str {
    const CGROUP: u64 = (12 << 30) / 10;
    match v.then {
        _ if v.outcome == Outcome::Allocates && v.total_bytes > CGROUP => "killed",
        _ if v.outcome == Outcome::Allocates && v.total_bytes >= 200 << 20 => "allocated",
        Outcome::Closes => "closed",
        Outcome::Replies => "replied",
        Outcome::Waits => "waits",
        other => other.name(),
    }
}

#[test]
fn every_probe_on_every_recorded_server() {
    let Some(probes) = nmap::probes() else {
        super::skip::skipped("nmap is not installed, and its probes are read from its file");
        return;
    };
    let mut differences = Vec::new();
    let mut table = String::new();
    let mut compared = 0;
    for recorded in load("store-server-outcomes.json").as_array().unwrap() {
        let name = format!("{}/{}", text(recorded, "pytorch"), text(recorded, "backend"));
        let server = server(text(recorded, "pytorch"), text(recorded, "backend")).on(Policy::Always);
        let mut confusion: BTreeMap<(String, &str), u32> = BTreeMap::new();
        for probe in recorded["outcomes"].as_array().unwrap() {
            let (label, was) = (text(probe, "probe"), text(probe, "outcome"));
            let bytes = match label.strip_prefix("EXTRA:") {
                Some(_) => unhex(text(probe, "first_bytes")),
                None => probes.get(label).unwrap_or_else(|| panic!("nmap has no probe {label} any more")).clone(),
            };
            assert_eq!(bytes.len() as u64, probe["length"].as_u64().unwrap(), "{label}: another version of nmap?");
            let verdict = verdict_on(&server, Store::with_init(), &[&bytes]);
            let says = word(&verdict);
            *confusion.entry((was.to_owned(), says)).or_default() += 1;
            compared += 1;
            if says != was {
                differences.push(format!("{name} {label}: was {was}, model says {says}"));
            }
            if was == "waits" || was == "allocated" {
                let blocks = server.backend == rdzvscope::api::protocol::tcpstore::server::Backend::Poll;
                assert_eq!(verdict.blocks_server, blocks, "{name} {label}");
            }
            assert!(!verdict.explanation.is_empty());
        }
        writeln!(table, "{name}: {confusion:?}").unwrap();
    }
    assert_eq!(compared, 8 * 107);
    super::assert_differences(&differences, &[], &table);
}
