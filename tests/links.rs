//! The same traffic in other wrappings.

mod common;

use common::{COOKIE_CLAIM, LOGS, NODES, analyze, args};
use serde_json::json;

struct Link {
    capture: &'static str,
    packet: u64,
    target: &'static str,
    link_types: &'static [&'static str],
    format: &'static str,
}

const LINKS: [Link; 9] = [
    Link {
        capture: "node-b-any-sll2.pcap",
        packet: 1356,
        target: "192.0.2.12",
        link_types: &["LINUX_SLL2"],
        format: "pcap",
    },
    Link { capture: "vlan100.pcap", packet: 369, target: "192.0.2.11", link_types: &["EN10MB"], format: "pcap" },
    Link { capture: "qinq.pcap", packet: 369, target: "192.0.2.11", link_types: &["EN10MB"], format: "pcap" },
    Link {
        capture: "node-a-snaplen96-nanosecond.pcap",
        packet: 411,
        target: "192.0.2.11",
        link_types: &["EN10MB"],
        format: "pcap",
    },
    Link {
        capture: "vxlan-underlay.pcap",
        packet: 194,
        target: "198.51.100.11",
        link_types: &["EN10MB"],
        format: "pcap",
    },
    Link {
        capture: "three-interfaces.pcapng",
        packet: 2178,
        target: "192.0.2.11",
        link_types: &["EN10MB", "LINUX_SLL2"],
        format: "pcapng",
    },
    Link {
        capture: "three-interfaces.pcapng",
        packet: 2150,
        target: "192.0.2.12",
        link_types: &["EN10MB", "LINUX_SLL2"],
        format: "pcapng",
    },
    Link { capture: "node-c.pcapng", packet: 410, target: "192.0.2.13", link_types: &["EN10MB"], format: "pcapng" },
    Link { capture: "node-c.pcap.gz", packet: 410, target: "192.0.2.13", link_types: &["EN10MB"], format: "pcap+gzip" },
];

#[test]
fn the_trigger_is_found_in_each() {
    for link in LINKS {
        let run = analyze(&[format!("links/{}", link.capture)]);
        let what = link.capture;
        assert_eq!(run.status, 1, "{what}");
        let claims = run.of_rule("store-claim");
        let f = claims.iter().find(|f| f["packet"] == link.packet).unwrap_or_else(|| panic!("{what}: {claims:#?}"));
        assert_eq!((&f["target"]["address"], &f["target"]["port"]), (&json!(link.target), &json!(29500)), "{what}");
        assert_eq!((&f["query"], &f["declared"]["bytes"]), (&json!("ADD"), &json!(COOKIE_CLAIM)), "{what}");
        assert_eq!(f["capture"], format!("links/{what}"));
        let capture = &run.json["captures"][0];
        assert_eq!(
            (&capture["link_types"], &capture["format"]),
            (&json!(link.link_types), &json!(link.format)),
            "{what}"
        );
        assert_eq!(capture["truncated"], false);
    }
}

#[test]
fn what_a_wrapping_says_is_reported() {
    let run = analyze(&["links/vxlan-underlay.pcap"]);
    let f = run.of_rule("store-claim")[0];
    assert_eq!(f["source"]["address"], "198.51.100.12");
    assert_eq!(f["outer"], json!([{"kind": "vxlan", "source": "192.0.2.12", "target": "192.0.2.11", "id": 42}]));

    let run = analyze(&["links/node-a-snaplen96-nanosecond.pcap", "--hosts", "hosts"]);
    assert!(run.json["captures"][0]["cut_packets"].as_u64().unwrap() > 0, "packets cut by the snaplen are counted");
    assert_eq!(run.of_rule("store-claim")[0]["time"], "2026-11-29T11:20:10.652448788Z");

    let run = analyze(&["links/three-interfaces.pcapng"]);
    assert_eq!(run.json["captures"][0]["interfaces"].as_array().unwrap().len(), 3);
    assert!(run.json["totals"]["duplicates"].as_u64().unwrap() > 0, "two interfaces saw the same packets");
}

#[test]
fn the_same_flow_has_the_same_identity_in_every_wrapping() {
    let id = |capture: &str| analyze(&[capture]).of_rule("store-claim")[0]["id"].as_str().unwrap().to_string();
    let node_c = id(NODES[2]);
    assert_eq!(id("links/node-c.pcapng"), node_c);
    assert_eq!(id("links/node-c.pcap.gz"), node_c);
    assert_eq!(id("links/vlan100.pcap"), id(NODES[0]));
    assert_eq!(id("links/qinq.pcap"), id(NODES[0]));
    assert_eq!(id("links/node-b-any-sll2.pcap"), id(NODES[1]));
}

#[test]
fn a_copy_of_a_capture_changes_no_conclusion() {
    let alone = analyze(&args(&[&NODES, &LOGS]));
    for more in ["links/node-c.pcap.gz", "links/node-b-any-sll2.pcap", "links/three-interfaces.pcapng"] {
        let run = analyze(&args(&[&NODES, &[more], &LOGS]));
        assert_eq!(run.status, 1);
        assert_eq!(
            (&run.incident()["verdict"], &run.incident()["id"]),
            (&json!("confirmed"), &alone.incident()["id"]),
            "{more}"
        );
        for (host, packet) in [("node-a", 411), ("node-b", 412), ("node-c", 410)] {
            assert_eq!(run.host(host)["trigger"], alone.host(host)["trigger"], "{more}: {host}");
            assert_eq!(run.host(host)["verdict"], "confirmed", "{more}: {host}");
            let f = run.trigger(host);
            let seen = f["sightings"].as_array().unwrap();
            let all: Vec<_> = std::iter::once(&f["packet"]).chain(seen.iter().map(|s| &s["packet"])).collect();
            assert!(all.contains(&&json!(packet)), "{more}: {host}: {all:?}");
            assert_eq!(f["dialect"], "B", "{more}: {host}");
        }
    }
}

#[test]
fn a_path_named_twice_is_one_capture() {
    let once = analyze(&["links/node-c.pcapng"]);
    for twice in
        [["links/node-c.pcapng", "links/node-c.pcapng"], ["links/node-c.pcapng", "./links/../links/node-c.pcapng"]]
    {
        let run = analyze(&twice);
        let sightings =
            |r: &common::Run| r.of_rule("store-claim").iter().map(|f| f["sightings"].clone()).collect::<Vec<_>>();
        assert_eq!(sightings(&run), sightings(&once), "{twice:?}: a second reading is no second vantage point");
        assert_eq!(run.json["totals"]["packets"], once.json["totals"]["packets"], "{twice:?}");
    }
}
