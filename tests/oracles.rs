//! Readers and makers of packets that nobody here wrote, held against ours.

use std::fs;
use std::path::{Path, PathBuf};

use etherparse::PacketBuilder;
use pcap_parser::{Block, PcapBlockOwned, PcapError};
use proptest::prelude::*;
use rdzvscope::api::capture::{Limits, LinkType, Packet, Reader};
use rdzvscope::api::frame::{Checksum, Decoder, Frame, glance, verify_checksum};
use rdzvscope::api::time::Timestamp;

fn captures(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            captures(&path, into);
        } else if path.extension().is_some_and(|e| e == "pcap" || e == "pcapng") {
            into.push(path);
        }
    }
}

/// Captured bytes of every packet, by pcap-parser.
fn by_pcap_parser(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = pcap_parser::create_reader(1 << 20, fs::File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::Legacy(b) => packets.push(b.data.to_vec()),
                    PcapBlockOwned::NG(Block::EnhancedPacket(b)) => packets.push(b.data[..b.caplen as usize].to_vec()),
                    PcapBlockOwned::NG(Block::SimplePacket(b)) => packets.push(b.data.to_vec()),
                    _ => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(e) => panic!("{}: {e:?}", path.display()),
        }
    }
}

#[test]
fn every_recorded_capture_reads_as_pcap_parser_reads_it() {
    let mut paths = Vec::new();
    captures(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").as_path(), &mut paths);
    assert!(paths.len() > 30, "{}", paths.len());
    for path in paths {
        let theirs = by_pcap_parser(&path);
        let mut reader = Reader::open(&path, &Limits::default()).unwrap();
        let mut ours = Vec::new();
        reader.each(|p| ours.push(p.data.to_vec())).unwrap();
        assert_eq!(ours.len(), theirs.len(), "{}", path.display());
        assert!(ours == theirs, "{}: other bytes", path.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn packets_made_by_etherparse_come_back(
        six in any::<bool>(), tags in 0usize..3, ports in any::<(u16, u16)>(), seq in any::<u32>(), ack in any::<u32>(),
        window in any::<u16>(), syn in any::<bool>(), fin in any::<bool>(), payload in prop::collection::vec(any::<u8>(), 0..300),
        padding in 0usize..20,
    ) {
        use etherparse::{SingleVlanHeader, VlanHeader, DoubleVlanHeader, VlanId, EtherType};
        let single = SingleVlanHeader { vlan_id: VlanId::try_new(100).unwrap(), ..Default::default() };
        let double = DoubleVlanHeader { outer: SingleVlanHeader { ether_type: EtherType::VLAN_TAGGED_FRAME, ..single.clone() }, inner: single.clone() };
        let vlan = match tags {
            0 => None,
            1 => Some(VlanHeader::Single(single)),
            _ => Some(VlanHeader::Double(double)),
        };
        let base = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let mut bytes = Vec::new();
        macro_rules! build { ($b:expr) => {{
            let tcp = if six { $b.ipv6([0x20; 16], [0x21; 16], 9) } else { $b.ipv4([192, 0, 2, 1], [192, 0, 2, 2], 9) };
            let mut tcp = tcp.tcp(ports.0, ports.1, seq, window).ack(ack);
            if syn { tcp = tcp.syn(); }
            if fin { tcp = tcp.fin(); }
            tcp.write(&mut bytes, &payload).unwrap();
        }} }
        match vlan { None => build!(base), Some(vlan) => build!(base.vlan(vlan)) }
        // Ethernet pads short frames; the padding is no payload.
        bytes.extend(std::iter::repeat_n(0u8, padding));
        let packet = Packet {
            number: 1, time: Timestamp(0), link_type: LinkType::ETHERNET, interface: 0,
            original_length: bytes.len() as u32, data: &bytes,
        };
        let mut decoder = Decoder::new(Default::default());
        let Frame::Tcp(s) = decoder.decode(&packet) else { panic!("no segment") };
        prop_assert_eq!((s.src.port, s.dst.port, s.seq, s.ack, s.window), (ports.0, ports.1, seq, ack, window));
        prop_assert_eq!((s.flags.syn(), s.flags.fin(), s.flags.ack(), s.flags.rst()), (syn, fin, true, false));
        prop_assert_eq!(s.payload, payload.as_slice());
        prop_assert_eq!(s.wire_length as usize, payload.len());
        prop_assert_eq!(verify_checksum(&s), Checksum::Ok);
        prop_assert_eq!(s.src.address.is_v4(), !six);
        if let Some(g) = glance(&packet) {
            prop_assert!(!six && tags < 2);
            prop_assert_eq!((g.src.1, g.dst.1, g.wire_length, g.flags), (s.src.port, s.dst.port, s.wire_length, s.flags));
        }
    }
}
