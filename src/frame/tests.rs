//! The whole room against tshark, and against arbitrary bytes.

use proptest::prelude::*;

use super::fixture::{accounted, line, load, packet, packets};
use super::*;

/// The captures of `testdata/frames`, one or a few for each layer.
const LAYERS: [&str; 27] = [
    "ethernet",
    "llc",
    "vlan",
    "mpls",
    "pppoe",
    "null",
    "loop",
    "raw",
    "dlt12",
    "dlt14",
    "ipv4",
    "ipv6",
    "ppp",
    "ppp-hdlc",
    "ipoib",
    "sll",
    "sll2",
    "extension",
    "fragments",
    "vxlan",
    "vxlan-gpe",
    "geneve",
    "gre",
    "erspan",
    "ip-in-ip",
    "gtp",
    "nested",
];

/// Segments that this room reads and tshark 4.0, without being told more, does not: IPv6 payload length 0 (offload),
/// Ethernet over an MPLS pseudowire, TCP behind a mobility header, VXLAN on Linux's first port.
fn beyond_tshark(name: &str) -> Option<(u64, &'static str)> {
    match name {
        "ethernet" => Some((7, "2001:db8::11\t40006\t2001:db8::12\t29500\t270544966\t11\t0300000b06e00000000000\t1")),
        "mpls" => Some((3, "192.0.2.11\t40002\t192.0.2.12\t29500\t270544962\t11\t0300000b06e00000000000\t1")),
        "extension" => Some((11, "2001:db8::11\t40010\t2001:db8::12\t29500\t270544970\t11\t0300000b06e00000000000\t1")),
        "vxlan" => Some((2, "2001:db8::11\t40001\t2001:db8::12\t29500\t270544961\t11\t0300000b06e00000000000\t1")),
        _ => None,
    }
}

#[test]
fn every_layer_reads_as_tshark_reads_it() {
    for name in LAYERS {
        let file = load(&format!("frames/{name}.pcap"));
        let tsv = String::from_utf8(load(&format!("frames/{name}.tsv"))).unwrap();
        let mut want: Vec<String> = tsv.lines().map(str::to_owned).collect();
        if let Some((number, text)) = beyond_tshark(name) {
            let at = want.iter().position(|l| l.split('\t').next().unwrap().parse::<u64>().unwrap() > number);
            want.insert(at.unwrap_or(want.len()), format!("{number}\t{text}"));
        }
        let mut decoder = Decoder::new(Limits::default());
        let mut got = Vec::new();
        for p in packets(&file) {
            if let Frame::Tcp(s) = decoder.decode(&p) {
                got.push(line(p.number, &s));
            }
        }
        accounted(decoder.counters());
        assert_eq!(got, want, "{name}");
    }
}

/// Segments and payload bytes by
/// `tshark -o tcp.desegment_tcp_streams:FALSE -Y tcp -T fields -E occurrence=l -e tcp.len`.
#[test]
fn real_captures_hold_what_tshark_counts() {
    let all = [
        ("scans/frag-version-scan.pcap", 90, 292),
        ("scans/ipv6-version-scan.pcap", 95, 402),
        ("links/node-a-snaplen96-nanosecond.pcap", 515, 7064),
        ("links/node-b-any-sll2.pcap", 1449, 13497),
        ("links/qinq.pcap", 491, 7064),
        ("links/vlan100.pcap", 491, 7064),
        ("links/vxlan-underlay.pcap", 202, 434_730),
    ];
    for (name, segments, bytes) in all {
        let file = load(name);
        let mut decoder = Decoder::new(Limits::default());
        let mut sum = 0u64;
        for p in packets(&file) {
            if let Frame::Tcp(s) = decoder.decode(&p) {
                sum += u64::from(s.wire_length);
                let cut = s.payload.len() < s.wire_length as usize;
                assert!(!cut || p.data.len() < p.original_length as usize, "{name} {}", p.number);
                if name.contains("vxlan") {
                    assert_eq!((s.outer.len(), s.outer[0].kind, s.outer[0].id), (1, "vxlan", Some(42)));
                }
            }
        }
        accounted(decoder.counters());
        assert_eq!((decoder.counters().tcp, sum), (segments, bytes), "{name} {:?}", decoder.counters());
        assert!(decoder.counters().skipped().is_empty(), "{name} {:?}", decoder.counters().skipped());
    }
}

/// The encapsulations of the one segment of a packet: kind, outer addresses, identifier.
fn outer(name: &str, number: usize) -> Vec<String> {
    let file = load(&format!("frames/{name}.pcap"));
    let mut decoder = Decoder::new(Limits::default());
    let Frame::Tcp(s) = decoder.decode(&packets(&file)[number - 1]) else { panic!("{name} {number}") };
    s.outer.iter().map(|o| format!("{} {} {} {:?}", o.kind, o.source, o.target, o.id)).collect()
}

#[test]
fn encapsulations_are_told_outermost_first() {
    let one = |kind: &str, id: &str| vec![format!("{kind} 198.51.100.1 198.51.100.2 {id}")];
    assert!(outer("ethernet", 1).is_empty());
    assert_eq!(outer("vxlan", 1), one("vxlan", "Some(42)"));
    assert_eq!(outer("vxlan", 4), ["vxlan 2001:db8:1::1 2001:db8:1::2 Some(42)"]);
    assert_eq!(outer("vxlan-gpe", 1), one("vxlan-gpe", "Some(42)"));
    assert_eq!(outer("geneve", 2), one("geneve", "Some(42)"));
    assert_eq!(outer("gre", 1), one("gre", "None"));
    assert_eq!(outer("gre", 4), one("gre", "Some(42)"));
    assert_eq!(outer("gre", 7), one("nvgre", "Some(1193046)"));
    assert_eq!(outer("gre", 9), one("gre", "Some(42)"));
    assert_eq!(outer("erspan", 1), one("erspan", "None"));
    for number in [2, 3, 4] {
        assert_eq!(outer("erspan", number), one("erspan", "Some(42)"));
    }
    assert_eq!(outer("ip-in-ip", 1), one("ipip", "None"));
    assert_eq!(outer("ip-in-ip", 2), one("6in4", "None"));
    assert_eq!(outer("ip-in-ip", 5).len(), 3);
    assert_eq!(outer("gtp", 3), one("gtp", "Some(42)"));
    let nested = outer("nested", 1);
    assert_eq!(nested[..2], ["vxlan 198.51.100.1 198.51.100.2 Some(42)", "gre 192.0.2.11 192.0.2.12 None"]);
    assert_eq!(nested[2..], ["ipip 198.51.100.1 198.51.100.2 None"]);
}

/// An IPv4 header of this protocol around a payload, checksum left out.
fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut b = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    b[2..4].copy_from_slice(&total.to_be_bytes());
    [&b, payload].concat()
}

/// A TCP header of twenty bytes from port 1 to port 2, and a payload.
fn tcp(payload: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x50, 0x18, 0, 9, 0, 0, 0, 0], payload].concat()
}

fn ethernet(payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0], payload].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let (p, n) = (port.to_be_bytes(), (8 + payload.len() as u16).to_be_bytes());
    [&[0, 9, p[0], p[1], n[0], n[1], 0, 0], payload].concat()
}

fn end(link_type: u32, data: &[u8]) -> String {
    match Decoder::new(Limits::default()).decode(&packet(link_type, data)) {
        Frame::Tcp(s) => format!("tcp {} {}", s.payload.len(), s.wire_length),
        Frame::NotTcp(other) => other.name().to_owned(),
        Frame::Skipped(skip) => skip.to_string(),
    }
}

#[test]
fn each_reason_has_its_text() {
    let good = v4(6, &tcp(b"abc"));
    let with = |at: usize, byte: u8| {
        let mut b = good.clone();
        b[at] = byte;
        end(101, &b)
    };
    assert_eq!(end(101, &good), "tcp 3 3");
    assert_eq!(with(0, 0x44), "IPv4 header length under 20 bytes");
    assert_eq!(with(0, 0x35), "IP version neither 4 nor 6");
    assert_eq!(with(3, 19), "IPv4 total length shorter than its header");
    assert_eq!(with(3, 0), "tcp 3 3");
    assert_eq!(with(3, 41), "tcp 1 1");
    assert_eq!(with(32, 0x40), "TCP data offset under 20 bytes");
    assert_eq!(with(32, 0xf0), "TCP header longer than its datagram");
    assert_eq!(with(6, 0x20), "IP fragment of an incomplete datagram");
    assert_eq!(with(9, 50), "ESP (encrypted)");
    assert_eq!(with(9, 1), "ICMP");
    assert_eq!(with(9, 89), "other IP protocols");
    assert_eq!(end(147, &good), "unknown link type 147");
    assert_eq!(end(1, &[&[0; 12][..], &[0x12, 0x34], &good].concat()), "unknown EtherType 0x1234");
    assert_eq!(end(0, &[&[9, 0, 0, 0][..], &good].concat()), "unknown loopback protocol family 9");
    assert_eq!(end(101, &good[..33]), "truncated TCP header");
    assert_eq!(end(101, &good[..19]), "truncated IPv4 header");
    assert_eq!(end(113, &good[..9]), "truncated link-layer header");
    assert_eq!(end(1, &[&[0; 12][..], &[0x88, 0xcc], &good].concat()), "link control");
}

#[test]
fn tunnels_nest_no_deeper_than_the_limit() {
    let mut b = v4(6, &tcp(b""));
    for depth in 1..=9 {
        b = v4(4, &b);
        assert_eq!(end(101, &b), if depth <= 8 { "tcp 0 0" } else { "encapsulations nested too deeply" });
    }
    let deep = (0..3000).fold(v4(6, &tcp(b"")), |b, _| v4(4, &b));
    assert_eq!(end(101, &deep), "encapsulations nested too deeply");
}

#[test]
fn vxlan_is_known_on_any_port_by_its_content() {
    let inner = ethernet(&v4(6, &tcp(b"abc")));
    let mut vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0], &inner[..]].concat();
    assert_eq!(end(101, &v4(17, &udp(51234, &vxlan))), "tcp 3 3");
    vxlan[7] = 1;
    assert_eq!(end(101, &v4(17, &udp(51234, &vxlan))), "UDP");
    assert_eq!(end(101, &v4(17, &udp(4789, &vxlan))), "tcp 3 3");
    vxlan[7] = 0;
    vxlan[24] = 0xff; // a total length beyond the packet
    assert_eq!(end(101, &v4(17, &udp(51234, &vxlan))), "UDP");
    assert_eq!(end(101, &v4(17, &udp(4789, b"short"))), "UDP");
}

#[test]
fn a_claimed_packet_length_is_not_believed_without_end() {
    let mut offload = v4(6, &tcp(b"abc"));
    offload[2..4].fill(0);
    let mut p = packet(101, &offload);
    p.original_length = u32::MAX;
    let mut decoder = Decoder::new(Limits::default());
    let Frame::Tcp(s) = decoder.decode(&p) else { panic!() };
    assert_eq!((s.payload, s.wire_length), (&b"abc"[..], (1 << 20) - 40));
}

#[test]
fn the_fast_and_the_general_way_agree() {
    for payload in [&b""[..], b"a", &[7; 1400]] {
        let ip = v4(6, &tcp(payload));
        for trailer in [0, 1, 46] {
            let fast = [&ethernet(&ip)[..], &vec![0; trailer]].concat();
            let general = [&[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], &ip[..], &vec![0; trailer]].concat();
            let (mut a, mut b) = (Decoder::new(Limits::default()), Decoder::new(Limits::default()));
            let Frame::Tcp(a) = a.decode(&packet(1, &fast)) else { panic!() };
            let Frame::Tcp(b) = b.decode(&packet(113, &general)) else { panic!() };
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
            assert_eq!(a.payload, payload);
        }
    }
}

#[test]
fn checksums_are_judged_and_offload_is_not_called_bad() {
    let mut b = v4(6, &tcp(b"abc"));
    let verdict = |b: &[u8]| match Decoder::new(Limits::default()).decode(&packet(101, b)) {
        Frame::Tcp(s) => verify_checksum(&s),
        other => panic!("{other:?}"),
    };
    assert_eq!(verdict(&b), Checksum::Unfinished, "zero");
    // 192.0.2.1 + 192.0.2.2 + 6 + 23 = c000+0201+c000+0202+0006+0017 = 8421 after folding.
    b[36..38].copy_from_slice(&[0x84, 0x21]);
    assert_eq!(verdict(&b), Checksum::Unfinished, "pseudo-header alone");
    // By scapy: bytes(IP(src='192.0.2.1', dst='192.0.2.2')/TCP(sport=1, dport=2, seq=3, ack=4, flags='PA', window=9)/b'abc').
    b[36..38].copy_from_slice(&0x6750u16.to_be_bytes());
    assert_eq!(verdict(&b), Checksum::Ok);
    b[40] ^= 1;
    assert_eq!(verdict(&b), Checksum::Bad);
    let mut cut = packet(101, &b[..42]);
    cut.original_length = 43;
    let mut decoder = Decoder::new(Limits::default());
    let Frame::Tcp(s) = decoder.decode(&cut) else { panic!() };
    assert_eq!((s.payload, s.wire_length, verify_checksum(&s)), (&b"\x60b"[..], 3, Checksum::Unknown));
}

#[test]
fn every_cut_of_every_packet_leaves_a_prefix() {
    for name in LAYERS.iter().filter(|&&n| n != "fragments") {
        let file = load(&format!("frames/{name}.pcap"));
        for p in packets(&file) {
            let mut whole = Decoder::new(Limits::default());
            let whole = whole.decode(&p);
            for n in 0..p.data.len() {
                let mut decoder = Decoder::new(Limits::default());
                let cut = crate::capture::Packet { data: &p.data[..n], ..p };
                if let (Frame::Tcp(c), Frame::Tcp(w)) = (decoder.decode(&cut), whole) {
                    assert_eq!(
                        (c.src, c.dst, c.seq, c.wire_length),
                        (w.src, w.dst, w.seq, w.wire_length),
                        "{name} {n}"
                    );
                    assert!(w.payload.starts_with(c.payload));
                }
                accounted(decoder.counters());
            }
        }
    }
}

const LINKS: [u32; 20] = [0, 1, 9, 12, 14, 50, 51, 100, 101, 104, 108, 113, 204, 219, 228, 229, 239, 242, 276, 99999];

proptest! {
    #[test]
    fn arbitrary_bytes_are_counted_and_nothing_more(
        link in prop::sample::select(&LINKS[..]),
        list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
    ) {
        let mut decoder = Decoder::new(Limits::default());
        for data in &list {
            decoder.decode(&packet(link, data));
        }
        accounted(decoder.counters());
    }

    /// Real packets with bytes changed reach further than noise does.
    #[test]
    fn changed_bytes_are_counted_and_nothing_more(
        name in prop::sample::select(&LAYERS[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..120, any::<u8>()), 1..60),
    ) {
        let file = load(&format!("frames/{name}.pcap"));
        let list = packets(&file);
        let mut decoder = Decoder::new(Limits { fragment_bytes: 4000, fragment_datagrams: 3, ..Limits::default() });
        for (which, at, byte) in changes {
            let p = which.get(&list);
            let mut data = p.data.to_vec();
            if let Some(b) = data.get_mut(at) {
                *b = byte;
            }
            if let Frame::Tcp(s) = decoder.decode(&crate::capture::Packet { data: &data, ..*p }) {
                prop_assert!(s.payload.len() <= s.wire_length as usize);
                verify_checksum(&s);
            }
        }
        accounted(decoder.counters());
    }
}
