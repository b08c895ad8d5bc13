use proptest::prelude::*;

use super::*;
use crate::capture::{LinkType, Packet, Writer, sniff};
use crate::time::Timestamp;

/// Bytes that look more or less like a capture.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..400);
    let real = prop_oneof![
        prop::sample::select(packed::ALL.map(|c| packed::pack(c, &thirty())).to_vec()),
        Just(thirty()),
        Just({
            let o = Order(true);
            let mut bytes = [o.section(&[(1, b"c")]), o.interface(1, 0, &[(9, &[0x94])])].concat();
            (0..8).for_each(|i| bytes.extend(o.enhanced(0, i << 40, 9, b"123456789", &[(1, b"x")])));
            bytes
        }),
    ];
    let spoilt =
        (real, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12), any::<prop::sample::Index>())
            .prop_map(|(mut bytes, changes, end)| {
                for (at, byte) in changes {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
                bytes.truncate(end.index(bytes.len() * 4));
                bytes
            });
    let headed = (
        prop::sample::select(vec![
            b"\xd4\xc3\xb2\xa1\x02\0\x04\0".to_vec(),
            b"\xa1\xb2\xcd\x34\0\x02\0\x04".to_vec(),
            b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0".to_vec(),
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(),
            b"\x28\xb5\x2f\xfd".to_vec(),
            b"\x04\x22\x4d\x18\x64\x40\xa7".to_vec(),
            b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46".to_vec(),
            b"BZh91AY&SY".to_vec(),
        ]),
        noise.clone(),
    )
        .prop_map(|(head, noise)| [head, noise].concat());
    prop_oneof![noise, spoilt, headed]
}

proptest! {
    #[test]
    fn arbitrary_bytes_end(bytes in almost()) {
        sniff(&bytes);
        let length = bytes.len() as u64;
        let (seen, summary, error) = drain(Cursor::new(bytes));
        if summary.form.compression.is_none() {
            let data: usize = seen.iter().map(|p| p.data.len()).sum();
            prop_assert!(data as u64 + summary.damaged_bytes <= length);
            prop_assert!(error.is_some() || summary.bytes == length);
        }
        prop_assert!(seen.windows(2).all(|w| w[0].number < w[1].number));
    }

    #[test]
    fn packets_written_read_back(packets in prop::collection::vec(
        (any::<i64>(), any::<u16>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..200), prop::option::of(".{0,20}")),
        0..20,
    )) {
        let mut writer = Writer::new(Vec::new(), "test").expect("a Vec takes all");
        for (nanos, link, original, data, comment) in &packets {
            let link_type = LinkType(u32::from(*link));
            let packet = Packet { number: 0, time: Timestamp(*nanos), link_type, interface: 0, original_length: *original, data };
            writer.write(&packet, 0, "", comment.as_deref()).expect("a Vec takes all");
        }
        let (seen, summary) = read(&writer.finish().expect("a Vec takes all"));
        prop_assert_eq!(seen.len(), packets.len());
        for (seen, (nanos, link, original, data, _)) in seen.iter().zip(&packets) {
            // Two numbers for raw IP are read as one.
            let link = if matches!(*link, 12 | 14) { 101 } else { u32::from(*link) };
            prop_assert_eq!((seen.nanos, seen.link, seen.original), (*nanos, link, *original));
            prop_assert_eq!(&seen.data, data);
        }
        let comments: Vec<_> = packets.iter().filter_map(|p| p.4.clone()).collect();
        prop_assert_eq!(summary.comments, comments);
    }
}
