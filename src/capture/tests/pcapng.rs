use super::*;
use crate::capture::summary::ByteOrder;
use crate::capture::{LinkType, Packet, Writer};
use crate::net::Address;
use crate::time::Timestamp;

#[test]
fn every_block_in_both_byte_orders() {
    for big in [false, true] {
        let o = Order(big);
        let mut bytes = o.section(&[(1, b"a comment on the section"), (4, b"dumpcap")]);
        bytes.extend(o.interface(1, 0, &[(2, b"eth0\0")]));
        bytes.extend(o.interface(276, 96, &[(3, b"described"), (9, &[9])]));
        bytes.extend(o.enhanced(1, 1_795_951_173_000_000_007, 1400, &[7; 96], &[(2, &[0; 4]), (1, b"on a packet")]));
        bytes.extend(o.enhanced(0, 1_795_951_173_000_008, 5, b"hello", &[]));
        // Obsolete packet block: 16-bit interface, drops, time, lengths.
        let mut body = o.u16(0).to_vec();
        body.extend(o.u16(3));
        let ticks = 1_795_951_174_000_000u64;
        for field in [(ticks >> 32) as u32, ticks as u32, 3, 60] {
            body.extend(o.u32(field));
        }
        body.extend(b"old");
        bytes.extend(o.block(2, &body));
        // Name resolution: IPv4, IPv6 with two names, an unknown record.
        let mut body = Vec::new();
        for (kind, value) in [
            (1u16, [&[192, 0, 2, 11], b"node-a\0".as_slice()].concat()),
            (2, [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12], b"node-b\0b6\0".as_slice()].concat()),
            (77, vec![1, 2, 3]),
        ] {
            body.extend(o.u16(kind));
            body.extend(o.u16(value.len() as u16));
            body.extend(&value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        body.extend([0; 4]);
        bytes.extend(o.block(4, &body));
        bytes.extend(o.block(0x0bad, &[0; 8]));
        bytes.extend(o.block(0x7777, &[0; 8]));
        for drops in [3u64, 12] {
            let mut body = o.u32(1).to_vec();
            body.extend([0; 8]);
            body.extend(o.options(&[(4, &o.u64(99)), (5, &o.u64(drops))]));
            bytes.extend(o.block(5, &body));
        }
        let (seen, summary) = read(&bytes);
        assert_eq!(seen.len(), 3);
        assert_eq!((seen[0].nanos, seen[0].link, seen[0].interface), (1_795_951_173_000_000_007, 276, 1));
        assert_eq!((seen[0].original, seen[0].data.len()), (1400, 96));
        assert_eq!((seen[1].nanos, seen[1].data.as_slice()), (1_795_951_173_000_008_000, b"hello".as_slice()));
        assert_eq!((seen[2].nanos, seen[2].data.as_slice()), (1_795_951_174_000_000_000, b"old".as_slice()));
        assert_eq!((seen[2].original, seen[2].number), (60, 3));
        let [eth0, other] = summary.interfaces.as_slice() else { panic!("two interfaces") };
        assert_eq!((eth0.name.as_str(), eth0.snaplen, eth0.drops, eth0.packets), ("eth0", None, None, 2));
        assert_eq!(
            (other.name.as_str(), other.snaplen, other.drops, other.packets),
            ("described", Some(96), Some(12), 1)
        );
        assert_eq!(summary.link_types, [LinkType::ETHERNET, LinkType::LINUX_SLL2]);
        assert_eq!(summary.comments, ["a comment on the section", "on a packet"]);
        let names: Vec<_> = summary.names.iter().map(|(a, n)| (a.to_string(), n.as_str())).collect();
        assert_eq!(
            names,
            [("192.0.2.11", "node-a"), ("2001:db8::12", "node-b"), ("2001:db8::12", "b6")]
                .map(|(a, n)| (a.to_owned(), n))
        );
        assert_eq!(summary.names[0].0, Address::v4([192, 0, 2, 11]));
        assert_eq!(summary.form.byte_order, Some(if big { ByteOrder::Big } else { ByteOrder::Little }));
        assert_eq!(summary.warnings, ["1 blocks of unknown types left out"]);
    }
}

#[test]
fn simple_packets_are_cut_to_the_snaplen_and_carry_no_time() {
    let o = Order(true);
    for (snaplen, captured) in [(0, 8), (u32::MAX, 8), (5, 5)] {
        let mut bytes = o.section(&[]);
        bytes.extend(o.interface(1, snaplen, &[]));
        bytes.extend(o.enhanced(0, 1_000_000, 1, b"x", &[]));
        let mut body = o.u32(8).to_vec();
        body.extend(&b"abcdefgh"[..captured]);
        bytes.extend(o.block(3, &body));
        let (seen, summary) = read(&bytes);
        assert_eq!((seen[1].data.as_slice(), seen[1].original), (&b"abcdefgh"[..captured], 8));
        assert_eq!(seen[1].nanos, 1_000_000_000);
        assert_eq!(summary.cut_packets, u64::from(captured < 8));
        assert!(summary.warnings[0].starts_with("1 packets carry no time"), "{:?}", summary.warnings);
    }
}

#[test]
fn resolutions_and_offsets() {
    for big in [false, true] {
        let o = Order(big);
        let mut bytes = o.section(&[]);
        let cases: [(u8, i64, u64, i64); 6] = [
            (6, 0, 1, 1_000),
            (0x80 | 20, 0, 3 << 19, 1_500_000_000),
            (12, 0, 5_999, 5),
            (6, -3600, 7_200_000_000, 3_600_000_000_000),
            (9, 1_795_951_173, 7, 1_795_951_173_000_000_007),
            (0, i64::MAX, u64::MAX, i64::MAX),
        ];
        for (resolution, offset, _, _) in cases {
            bytes.extend(o.interface(1, 0, &[(9, &[resolution]), (14, &o.u64(offset as u64))]));
        }
        for (i, (_, _, ticks, _)) in cases.iter().enumerate() {
            bytes.extend(o.enhanced(i as u32, *ticks, 0, b"", &[]));
        }
        let (seen, _) = read(&bytes);
        assert_eq!(seen.iter().map(|p| p.nanos).collect::<Vec<_>>(), cases.map(|c| c.3), "big-endian: {big}");
    }
}

#[test]
fn sections_bring_their_own_order_and_interfaces() {
    let mut bytes = Vec::new();
    for (i, big) in [false, true, true, false].into_iter().enumerate() {
        let o = Order(big);
        bytes.extend(o.section(&[]));
        bytes.extend(o.interface(1 + 100 * (i as u16 % 2), 0, &[(2, format!("if{i}").as_bytes())]));
        bytes.extend(o.enhanced(0, i as u64, 4, b"data", &[]));
        bytes.extend(o.enhanced(1, i as u64, 4, b"lost", &[]));
    }
    let (seen, summary) = read(&bytes);
    assert_eq!(
        seen.iter().map(|p| (p.interface, p.link, p.nanos)).collect::<Vec<_>>(),
        [(0, 1, 0), (1, 101, 1000), (2, 1, 2000), (3, 101, 3000)]
    );
    assert_eq!(summary.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["if0", "if1", "if2", "if3"]);
    assert_eq!(summary.link_types, [LinkType::ETHERNET, LinkType::RAW]);
    assert!(summary.warnings[0].starts_with("4 packets left out"), "{:?}", summary.warnings);
}

fn twenty() -> Vec<u8> {
    let o = Order(false);
    let mut bytes = o.section(&[]);
    bytes.extend(o.interface(1, 0, &[]));
    for i in 0..20u64 {
        bytes.extend(o.enhanced(0, 1_795_951_173_000_000 + i, 61, &[i as u8; 61], &[])); // 96 bytes each
    }
    bytes
}

#[test]
fn a_damaged_middle_is_skipped_and_counted() {
    let whole = twenty();
    let begin = whole.len() - 10 * 96;
    for (from, length, lost) in [(0, 4, 1), (4, 4, 1), (92, 4, 1), (20, 4, 1), (50, 100, 2)] {
        for fill in [0u8, 0xff, 1, 6] {
            let mut bytes = whole.clone();
            bytes[begin + from..begin + from + length].fill(fill);
            let (seen, summary) = read(&bytes);
            if from == 0 && fill != 0 {
                // Lengths that agree around an unknown type: a block to skip, as readers must.
                assert_eq!((seen.len(), summary.damaged_regions), (19, 0));
                assert_eq!(summary.warnings, ["1 blocks of unknown types left out"]);
                continue;
            }
            if from == 20 && fill < 0xff && u32::from_le_bytes([fill; 4]) <= 61 {
                assert_eq!(seen.len(), 20); // a captured length of 0 is no damage that can be seen
                continue;
            }
            assert_eq!(seen.len(), 20 - lost, "{from} {length} {fill}: {:?}", summary.warnings);
            assert_eq!(seen.last().map(|p| p.data[0]), Some(19));
            assert_eq!((summary.damaged_regions, summary.damaged_bytes), (1, 96 * lost as u64));
            assert!(summary.warnings[0].starts_with(&format!("damaged at byte {begin}: ")), "{:?}", summary.warnings);
        }
    }
    // A hole that breaks the alignment to four bytes.
    let mut bytes = whole.clone();
    bytes.drain(begin + 40..begin + 51);
    let (seen, summary) = read(&bytes);
    assert_eq!((seen.len(), summary.damaged_bytes, summary.truncated), (19, 85, false));
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_packets() {
    let whole = twenty();
    for cut in 0..200 {
        let (seen, summary) = read(&whole[..whole.len() - cut]);
        assert_eq!(seen.len(), 20 - cut.div_ceil(96), "cut {cut}");
        assert_eq!((summary.truncated, summary.damaged_regions), (cut % 96 != 0, 0), "cut {cut}");
    }
    let (_, summary) = read(&whole[..whole.len() - 10]);
    let at = whole.len() - 96;
    assert_eq!(summary.warnings, [format!("ends inside a block at byte {at}: 96 bytes required, 86 there")]);
}

#[test]
fn what_is_written_reads_back() {
    let packet = |nanos, link, data| Packet {
        number: 0,
        time: Timestamp(nanos),
        link_type: LinkType(link),
        interface: 9,
        original_length: 1500,
        data,
    };
    let mut writer = Writer::new(Vec::new(), "rdzvscope").expect("a Vec takes all");
    let long = "é".repeat(40_000);
    for (nanos, link, data, comment) in [
        (1_795_951_173_000_000_007, 1, b"one".as_slice(), Some("the trigger: 0.96 TB")),
        (i64::MAX, 276, b"", None),
        (-1, 1, b"four", Some(long.as_str())),
        (i64::MIN, 1, b"fives", Some("")),
    ] {
        writer.write(&packet(nanos, link, data), 96, "eth0", comment).expect("a Vec takes all");
    }
    let bytes = writer.finish().expect("a Vec takes all");
    let (seen, summary) = read(&bytes);
    assert_eq!(
        seen.iter().map(|p| (p.nanos, p.link, p.interface, p.data.len())).collect::<Vec<_>>(),
        [(1_795_951_173_000_000_007, 1, 0, 3), (i64::MAX, 276, 1, 0), (-1, 1, 2, 4), (i64::MIN, 1, 2, 5)]
    );
    assert_eq!(summary.interfaces[1].name, "eth0");
    assert_eq!(summary.interfaces[1].snaplen, Some(96));
    assert_eq!(summary.comments, ["the trigger: 0.96 TB", &"é".repeat(512), ""]);
    let steps = summary.warnings.iter().filter(|w| w.contains("the clock was set")).count();
    assert_eq!((steps, summary.warnings.len()), (3, 3));
}

#[test]
fn packets_are_numbered_as_wireshark_does() {
    let o = Order(false);
    // The number that tshark 4.0.17 gives to the packet after a block of this type.
    for (kind, number) in [
        (9, 3),
        (0x0bad, 3),
        (0x4000_0bad, 3),
        (0x201, 2),
        (0x204, 3),
        (0x208, 2),
        (0x216, 3),
        (0x217, 2),
        (0x221, 3),
        (0x222, 2),
        (0x7777, 2),
        (10, 2),
    ] {
        let mut bytes = [o.section(&[]), o.interface(1, 0, &[]), o.enhanced(0, 1, 4, b"data", &[])].concat();
        bytes.extend(o.block(kind, &[0; 48]));
        bytes.extend(o.enhanced(0, 2, 4, b"data", &[]));
        let (seen, summary) = read(&bytes);
        assert_eq!((seen[1].number, summary.packets), (number, 2), "block type {kind:#x}");
    }
}
