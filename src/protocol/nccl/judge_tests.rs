//! Real roots, and what became of them, as `testdata/nccl/truth.json` has it.

use std::collections::BTreeSet;

use super::fate::Outcome;
use super::judge::Judgement;
use super::network::LearnedFrom;
use super::test_support::{Seen, capture, truth};
use super::*;
use crate::net::Endpoint;
use crate::vocabulary::Severity;

fn judged(name: &str, ports: &[u16], ids: Vec<KnownId>) -> (Network, Vec<(Endpoint, Judgement)>) {
    let seen = capture(name);
    let knowledge = Knowledge { ids, ports: ports.iter().copied().collect(), ..Knowledge::default() };
    let flows: Vec<Flow<'_>> = seen.iter().map(Seen::flow).collect();
    let network = study(&knowledge, &flows);
    let judgements = network.judge(&flows).into_iter().collect();
    (network, judgements)
}

fn rules(all: &[(Endpoint, Judgement)]) -> BTreeSet<&'static str> {
    all.iter().flat_map(|(_, j)| j.conclusions.iter().map(|c| c.rule)).collect()
}

#[test]
fn every_stray_at_a_root_is_named_with_its_outcome() {
    let mut table = String::new();
    let mut wrong = String::new();
    for version in ["2.16.2", "2.26.2"] {
        let name = format!("{version}-strays-at-root");
        let truth = truth(&name);
        let scenarios = truth["scenarios"].as_array().unwrap();
        let ports: Vec<u16> = scenarios.iter().map(|s| s["root"][1].as_u64().unwrap() as u16).collect();
        let (network, judgements) = judged(&format!("nccl/{name}.pcap"), &ports, Vec::new());
        for s in scenarios.iter().filter(|s| s["stray_saw"] != "n/a") {
            let what = s["scenario"].as_str().unwrap();
            let port = s["root"][1].as_u64().unwrap() as u16;
            let (endpoint, j) = judgements.iter().find(|(e, _)| e.port == port).unwrap();
            let fate = j.fate.as_ref().unwrap();
            let told = match (s["root_process_exit"].as_i64(), s["two_ranks_ok_afterwards"].as_bool()) {
                (Some(_), _) => Outcome::Killed,
                (None, Some(true)) => Outcome::Completed,
                // Its log has no error: it waits for that many ranks until the experiment ends its process.
                (None, _) if what == "nranks_huge" && version == "2.26.2" => Outcome::Gone,
                (None, _) => Outcome::Died,
            };
            let l = &network.listeners[endpoint];
            let named: Vec<String> = j
                .conclusions
                .iter()
                .filter(|c| c.rule != "nccl-rank-refused")
                .map(|c| format!("{} {}", c.rule, c.explanation))
                .collect();
            let line = format!(
                "{version} {what}: {:?} (truth {told:?}) {:?} {} | {}\n",
                fate.outcome,
                l.role,
                l.versions,
                named.join(" | ")
            );
            if fate.outcome != told || named.is_empty() {
                wrong.push_str(&line);
            }
            table.push_str(&line);
        }
    }
    if std::env::var_os("NCCL_TABLE").is_some() {
        std::fs::write(std::env::temp_dir().join("nccl-table.txt"), &table).unwrap();
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn without_named_ports_nothing_false_is_said() {
    for version in ["2.16.2", "2.26.2"] {
        let name = format!("{version}-strays-at-root");
        let truth = truth(&name);
        let roots: Vec<u64> =
            truth["scenarios"].as_array().unwrap().iter().map(|s| s["root"][1].as_u64().unwrap()).collect();
        let (network, _) = judged(&format!("nccl/{name}.pcap"), &[], Vec::new());
        for l in network.listeners.values().filter(|l| l.role == Some(Role::Root)) {
            assert!(roots.contains(&u64::from(l.endpoint.port)), "{l:?}");
        }
    }
}

#[test]
fn clean_starts_say_nothing_at_warning_or_above() {
    for name in [
        "nccl/2.16.2-real-4ranks-netsocket.pcap",
        "nccl/2.26.2-real-4ranks-netsocket.pcap",
        "nccl/2.16.2-realroot-4pyranks.pcap",
        "nccl/2.32.3-realroot-4pyranks.pcap",
        "nccl/2.7.8src-4ranks.pcap",
        "nccl/2.14.3src-4ranks.pcap",
        "nccl/2.26.2-real-2ranks-NCCL_COMM_ID.pcap",
        "nccl/2.26.2-2realroots-4pyranks.pcap",
        "nccl/2.26.2-stray-nmap-sS-then-2ranks.pcap",
        "store-and-nccl/torch2.15-nccl2.26-node-a.pcap",
    ] {
        let (_, all) = judged(name, &[], Vec::new());
        assert!(all.iter().all(|(_, j)| j.conclusions.is_empty()), "{name} {all:#?}");
    }
}

#[test]
fn a_split_that_fails_is_joined_to_the_scan_before_it() {
    let (_, all) = judged("nccl/2.26.2-split-after-nmap-sT.pcap", &[], Vec::new());
    let splits: Vec<_> =
        all.iter().flat_map(|(_, j)| &j.conclusions).filter(|c| c.rule == "nccl-split-failed").collect();
    let targets: BTreeSet<u16> = splits.iter().map(|c| c.target.port).collect();
    assert_eq!(targets, [33585, 35861].into());
    assert!(
        splits.iter().all(|c| c.severity == Severity::Critical && c.explanation.contains("without a byte")),
        "{splits:#?}"
    );
    // Who is named is who scanned: the rank whose connection failed is the victim.
    let told: BTreeSet<_> = splits
        .iter()
        .map(|c| (c.source.port, Some(c.shown.packet.number), c.also.iter().map(|p| p.number).collect::<Vec<_>>()))
        .collect();
    assert_eq!(told, [(46992, Some(569), vec![625]), (58776, Some(565), vec![635])].into());
}

#[test]
fn a_proxy_spins_after_http_and_a_root_does_not() {
    let (_, all) = judged("nccl/2.16.2-livejob-http-at-every-listener.pcap", &[], Vec::new());
    let conclusions = || all.iter().flat_map(|(_, j)| &j.conclusions);
    let spins: BTreeSet<u16> = conclusions().filter(|c| c.rule == "nccl-proxy-spins").map(|c| c.target.port).collect();
    assert_eq!(spins, [47101, 34609].into());
    // Their own Stop released them at the end.
    assert!(conclusions().all(|c| c.rule != "nccl-proxy-spins" || c.explanation.contains("a valid connection came")));
    let (_, all) = judged("nccl/2.16.2-stray-http-then-2ranks.pcap", &[], Vec::new());
    assert_eq!(rules(&all), ["nccl-stray-wrong-magic"].into());
    assert!(all.iter().flat_map(|(_, j)| &j.conclusions).all(|c| c.severity == Severity::Notice));
}

#[test]
fn roots_that_died_before_any_rank() {
    for (name, port, refused) in
        [("2.26.2-stray-nmap-sT-then-2ranks", 54083, 70), ("2.16.2-stray-nmap-sT-then-2ranks", 36709, 2)]
    {
        let (network, all) = judged(&format!("nccl/{name}.pcap"), &[port], Vec::new());
        let (e, j) = &all[0];
        assert_eq!((all.len(), e.port), (1, port), "{name}");
        assert_eq!(j.fate.as_ref().map(|f| f.outcome), Some(Outcome::Died), "{name}");
        let of = |rule| j.conclusions.iter().find(|c| c.rule == rule);
        assert_eq!(of("nccl-rank-refused").map(|c| c.occurrences), Some(refused), "{name} {j:#?}");
        assert_eq!(of("nccl-root-died").map(|c| c.shown.packet.number), Some(4), "{name}");
        assert!(network.listeners.values().all(|l| l.role.is_none()));
    }
}

#[test]
fn a_silent_stray_blocks_the_root_and_ends_it() {
    let (_, all) = judged("nccl/2.26.2-stray-silent-12s-then-2ranks.pcap", &[], Vec::new());
    let found = rules(&all);
    assert!(["nccl-root-died", "nccl-stray-silent", "nccl-rank-waits"].iter().all(|r| found.contains(r)), "{found:?}");
    let (_, all) = judged("nccl/2.14.3src-stray-nmap-sSsV-then-2ranks.pcap", &[], Vec::new());
    assert!(rules(&all).contains("nccl-root-died"), "{all:#?}");
}

#[test]
fn a_store_names_the_root_that_a_scan_had_reached() {
    let id = UniqueId {
        magic: Some(u64::from_le_bytes([0xa0, 0x29, 0x80, 0xfd, 0x81, 0x33, 0x35, 0x65])),
        root: Endpoint::new(crate::net::Address::v4([192, 0, 2, 11]), 55225),
        grown_from: 0,
        versions: Versions::HANDSHAKE,
    };
    let packet = crate::stream::PacketRef { capture: 0, number: 43 };
    let ids = vec![KnownId { id, packet: Some(packet) }];
    let (network, all) = judged("store-and-nccl/torch2.15-nccl2.26-stray-node-a.pcap", &[], ids);
    let l = &network.listeners[&id.root];
    assert_eq!((l.role, l.learned_from), (Some(Role::Root), LearnedFrom::UniqueId));
    let j = &all.iter().find(|(e, _)| *e == id.root).unwrap().1;
    assert_eq!(j.fate.as_ref().unwrap().outcome, Outcome::Died);
    let packets = |rule: &str| -> Vec<u64> {
        j.conclusions.iter().filter(|c| c.rule == rule).map(|c| c.shown.packet.number).collect()
    };
    // The reset that ended it, not the SYN.
    assert_eq!(packets("nccl-root-died"), [38]);
    assert_eq!(packets("nccl-rank-refused"), [48, 50]);
}

#[test]
fn a_scan_of_a_running_job_says_what_each_listener_does() {
    let (network, all) = judged("nccl/2.26.2-livejob-all-ports-scanned.pcap", &[], Vec::new());
    let told = truth("2.26.2-livejob-all-ports-scanned");
    let listed = super::test_support::truth_listeners(&told);
    let text: Vec<u16> = network.listeners.values().filter(|l| l.text).map(|l| l.endpoint.port).collect();
    assert_eq!(text, [28028]);
    let spins = all.iter().flat_map(|(_, j)| &j.conclusions).filter(|c| c.rule == "nccl-proxy-spins");
    assert_eq!(spins.map(|c| c.target.port).collect::<BTreeSet<_>>(), [45883, 59775, 55829, 59817].into());
    for (endpoint, j) in &all {
        for c in &j.conclusions {
            assert!(listed.contains(&endpoint.to_string()), "{c:?}");
        }
        // The job lived through it: nothing is said to have failed.
        assert!(j.conclusions.iter().all(|c| !c.rule.ends_with("-failed") && c.rule != "nccl-root-died"), "{j:?}");
    }
}

#[test]
fn every_rule_is_told_in_full() {
    assert!(RULES.windows(2).all(|w| w[0].id < w[1].id));
    for version in ["2.16.2", "2.26.2"] {
        let seen: Vec<u16> = truth(&format!("{version}-strays-at-root"))["scenarios"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["root"][1].as_u64().unwrap() as u16)
            .collect();
        let (_, all) = judged(&format!("nccl/{version}-strays-at-root.pcap"), &seen, Vec::new());
        for rule in rules(&all) {
            assert!(RULES.iter().any(|r| r.id == rule), "{rule}");
        }
    }
}

#[test]
fn a_rank_out_of_sight_does_not_make_a_root_unfinished() {
    let (network, all) = judged("store-and-nccl/torch2.15-nccl2.26-node-a.pcap", &[], Vec::new());
    let c = &network.communicators[0];
    assert_eq!((c.nranks, c.missing.clone(), c.answered, c.ring_closed), (3, vec![0], 2, None));
    let fates: Vec<_> = all.iter().filter_map(|(_, j)| j.fate.as_ref()).map(|f| f.outcome).collect();
    assert_eq!(fates, [Outcome::Completed]);
}
