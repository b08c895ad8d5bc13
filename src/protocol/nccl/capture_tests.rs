//! Real traffic of real libraries; what it holds is recorded in `testdata/nccl/truth.json`.

use super::test_support::{Seen, capture, decoding, events, truth, truth_listeners};
use super::*;

const CLEAN: &[&str] = &[
    "nccl/2.16.2-real-4ranks-netsocket.pcap",
    "nccl/2.26.2-real-4ranks-netsocket.pcap",
    "nccl/2.16.2-realroot-4pyranks.pcap",
    "nccl/2.32.3-realroot-4pyranks.pcap",
    "nccl/2.7.8src-4ranks.pcap",
    "nccl/2.14.3src-4ranks.pcap",
    "nccl/2.26.2-real-2ranks-NCCL_COMM_ID.pcap",
    "nccl/2.26.2-2realroots-4pyranks.pcap",
];

#[test]
fn every_byte_of_a_clean_start_is_accounted_for() {
    for name in CLEAN {
        for seen in capture(name) {
            let f = &seen.facts;
            let at = format!("{name} {} → {}: {f:?}", seen.record.client(), seen.record.server());
            assert_eq!(f.undecoded, [0, 0], "{at}");
            assert!(f.faults.is_empty() && f.unfinished.is_none(), "{at}");
            // Records count retransmissions too.
            assert!(
                (0..2).all(|i| f.bytes[i] <= seen.record.bytes[i] && (f.bytes[i] > 0) == (seen.record.bytes[i] > 0)),
                "{at}"
            );
        }
    }
}

#[test]
fn where_chunks_are_cut_does_not_matter() {
    for name in CLEAN {
        for seen in capture(name) {
            assert_eq!(events(&seen.held, false), events(&seen.held, true), "{name}");
            let f = decoding(&seen.held, Framing::Auto, true);
            assert_eq!(f.undecoded, [0, 0]);
        }
    }
}

fn network(seen: &[Seen], knowledge: &Knowledge) -> Network {
    let flows: Vec<Flow<'_>> = seen.iter().map(Seen::flow).collect();
    study(knowledge, &flows)
}

fn hex(magic: Option<u64>) -> String {
    magic.map(magic_text).unwrap_or_default()
}

/// Every complete start, with its version.
const STARTS: &[&str] = &[
    "2.16.2-real-4ranks-netsocket",
    "2.26.2-real-4ranks-netsocket",
    "2.16.2-realroot-4pyranks",
    "2.32.3-realroot-4pyranks",
    "2.7.8src-4ranks",
    "2.14.3src-4ranks",
    "2.26.2-real-2ranks-NCCL_COMM_ID",
    "2.26.2-split-after-nmap-sT",
    "2.26.2-stray-nmap-sS-then-2ranks",
    "2.16.2-stray-http-then-2ranks",
    "2.16.2-livejob-http-at-every-listener",
    "2.26.2-livejob-all-ports-scanned",
];

#[test]
fn roots_magics_and_sizes_are_those_of_the_truth() {
    for name in STARTS {
        let truth = truth(name);
        let seen = capture(&format!("nccl/{name}.pcap"));
        let n = network(&seen, &Knowledge::default());
        assert_eq!(n.communicators.len(), 1, "{name}");
        let c = &n.communicators[0];
        let root = format!("{}:{}", truth["root"][0].as_str().unwrap(), truth["root"][1]);
        assert_eq!(c.roots.iter().map(|r| r.to_string()).collect::<Vec<_>>(), [root], "{name}");
        assert_eq!(hex(c.magic), truth["magic"].as_str().unwrap_or(""), "{name}");
        assert_eq!(i64::from(c.nranks), truth["nranks"].as_i64().unwrap(), "{name}");
        assert!(c.is_complete() && c.duplicates.is_empty() && c.ring_closed.is_some(), "{name} {c:?}");
        let version: Vec<u32> = name.split(['-', 's']).next().unwrap().split('.').map(|n| n.parse().unwrap()).collect();
        let version = Version(version[0] * 10000 + version[1] * 100 + version[2]);
        assert!(c.versions.contains(version), "{name} {}", c.versions);
        let listed = truth_listeners(&truth);
        for l in n.listeners.values() {
            assert!(l.versions.contains(version), "{name} {l:?}");
            let lasting = matches!(l.role, Some(Role::Ring | Role::Peer | Role::Proxy | Role::Ras));
            assert!(l.role.is_some(), "{name} {l:?}");
            if lasting && !listed.is_empty() {
                assert!(listed.contains(&l.endpoint.to_string()), "{name} {l:?}");
            }
            if l.role == Some(Role::Ras) && l.endpoint.port != 28028 && !name.contains("COMM_ID") {
                assert_eq!(l.versions, Versions::exactly(Version(22602)), "{l:?}");
            }
        }
        // Listed ones that were connected to by NCCL are known, all of them.
        for s in seen.iter().filter(|s| s.facts.handshake.is_some_and(|(_, k, _)| !matches!(k, SocketType::Other(_)))) {
            let role = n.listeners.get(&s.record.server()).and_then(|l| l.role);
            assert!(role.is_some(), "{name} {} {:?}", s.record.server(), s.facts);
        }
    }
}

#[test]
fn two_roots_make_one_communicator() {
    let truth = truth("2.26.2-2realroots-4pyranks");
    let n = network(&capture("nccl/2.26.2-2realroots-4pyranks.pcap"), &Knowledge::default());
    assert_eq!(n.communicators.len(), 1);
    let c = &n.communicators[0];
    let roots: Vec<String> = c.roots.iter().map(|r| r.to_string()).collect();
    let told: Vec<String> = (0..2).map(|i| format!("127.0.0.1:{}", truth["roots"][i][1])).collect();
    assert_eq!((roots, c.nranks, c.is_complete()), (told, 4, true));
    assert_eq!(hex(c.magic), truth["magics"][0].as_str().unwrap());
    for r in &c.ranks {
        let port = truth["ranks"][r.rank.to_string()]["ring_port"].as_u64();
        assert_eq!(r.ring.map(|e| u64::from(e.port)), port);
    }
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    for name in ["2.26.2-real-4ranks-netsocket", "2.16.2-real-4ranks-netsocket", "2.26.2-2realroots-4pyranks"] {
        let seen = capture(&format!("nccl/{name}.pcap"));
        let mut flows: Vec<Flow<'_>> = seen.iter().map(Seen::flow).collect();
        let forward = format!("{:?}", study(&Knowledge::default(), &flows));
        flows.reverse();
        assert_eq!(forward, format!("{:?}", study(&Knowledge::default(), &flows)));
    }
}

#[test]
fn no_listener_is_invented_in_other_traffic() {
    for dir in ["scans", "incident-torch1.13", "gloo", "api"] {
        for entry in std::fs::read_dir(test_support::path(dir)).unwrap().flatten() {
            let name = entry.path();
            if name.extension().is_some_and(|e| e == "pcap") {
                let n = network(&capture(name.to_str().unwrap()), &Knowledge::default());
                assert!(n.listeners.is_empty() && n.communicators.is_empty(), "{name:?} {n:?}");
            }
        }
    }
}
