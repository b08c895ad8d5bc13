//! Captures that tcpdump and Wireshark's tools wrote; the numbers are what `capinfos` and `tshark` 4 say of them.

use std::path::Path;

use super::*;

fn open(name: &str) -> (Vec<Seen>, Summary) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/links").join(name);
    let (seen, summary, error) = drain(std::fs::File::open(path).expect("testdata"));
    assert!(error.is_none() && summary.warnings.is_empty(), "{error:?} {:?}", summary.warnings);
    (seen, summary)
}

#[test]
fn three_interfaces() {
    let (seen, summary) = open("three-interfaces.pcapng");
    assert_eq!(summary.packets, 2579);
    let told: Vec<_> = summary.interfaces.iter().map(|i| (i.link_type.0, i.snaplen, i.packets)).collect();
    assert_eq!(told, [(1, Some(262_144), 548), (276, Some(262_144), 1483), (1, Some(96), 548)]);
    assert_eq!(summary.first().map(|t| t.to_string()).as_deref(), Some("2026-11-29T11:19:33.677053000Z"));
    assert_eq!(summary.last().map(|t| t.to_string()).as_deref(), Some("2026-11-29T11:21:11.985087000Z"));
    for (index, number, nanos, interface, original) in [
        (0, 1, 1_795_951_173_677_053_000, 1, 76),
        (2, 3, 1_795_951_175_725_082_000, 0, 70),
        (2578, 2579, 1_795_951_271_985_087_000, 1, 76),
    ] {
        let p = &seen[index];
        assert_eq!((p.number, p.nanos, p.interface, p.original), (number, nanos, interface, original));
    }
    assert_eq!(summary.cut_packets, CUT_OF_THREE);
}

/// `tshark -Y 'frame.cap_len < frame.len'`.
const CUT_OF_THREE: u64 = 69;

#[test]
fn node_c_in_two_wrappings() {
    let (plain, summary) = open("node-c.pcapng");
    let (packed, other) = open("node-c.pcap.gz");
    assert_eq!((summary.packets, other.packets), (571, 571));
    assert_eq!(plain, packed);
    assert_eq!(summary.first().map(|t| t.to_string()).as_deref(), Some("2026-11-29T11:19:35.725116000Z"));
    assert_eq!(summary.last().map(|t| t.to_string()).as_deref(), Some("2026-11-29T11:21:11.985086000Z"));
    assert_eq!(
        (other.interfaces[0].snaplen, other.form.to_string().as_str()),
        (Some(262_144), "pcap, little-endian, 1e-6 s, gzip")
    );
}

#[test]
fn nanoseconds_and_a_snaplen() {
    let (seen, summary) = open("node-a-snaplen96-nanosecond.pcap");
    assert_eq!((summary.packets, summary.interfaces[0].snaplen), (548, Some(96)));
    assert_eq!((seen[0].nanos, seen[547].nanos), (1_795_951_175_725_082_690, 1_795_951_271_985_075_923));
    assert_eq!(summary.cut_packets, CUT_OF_NANOSECOND);
    assert_eq!(summary.form.to_string(), "pcap, little-endian, 1e-9 s");
}

/// `tshark -Y 'frame.cap_len < frame.len'`.
const CUT_OF_NANOSECOND: u64 = 69;
