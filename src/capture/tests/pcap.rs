use super::*;
use crate::capture::kind::CaptureFormat;
use crate::capture::summary::ByteOrder;

#[test]
fn both_byte_orders_and_both_units() {
    for big in [false, true] {
        for (magic, unit, told) in
            [(0xa1b2_c3d4, 1000, "1e-6 s"), (0xa1b2_3c4d, 1, "1e-9 s"), (0xa1b2_cd34, 1000, "1e-6 s")]
        {
            let order = Order(big);
            // FCS length and flag in the upper bits of the link type.
            let mut bytes = order.pcap(magic, 65_535, 0x2400_0000 | 113);
            for (i, data) in [b"first".as_slice(), b"", b"third one"].iter().enumerate() {
                let record = order.record(1_795_951_173, 123_456 + i as u32, 100 * i as u32 + 5, data);
                let (head, data) = record.split_at(16);
                bytes.extend(head);
                if magic == 0xa1b2_cd34 {
                    bytes.extend([0; 8]);
                }
                bytes.extend(data);
            }
            let (seen, summary) = read(&bytes);
            assert_eq!(seen.len(), 3, "{magic:x} {big}");
            assert_eq!(seen[0].nanos, 1_795_951_173_000_000_000 + 123_456 * unit);
            assert_eq!((seen[2].number, seen[2].original, seen[2].data.as_slice()), (3, 205, b"third one".as_slice()));
            assert_eq!((seen[0].link, seen[1].data.len()), (113, 0));
            assert_eq!(summary.cut_packets, 2);
            assert_eq!(summary.form.format, Some(CaptureFormat::Pcap));
            assert_eq!(summary.form.byte_order, Some(if big { ByteOrder::Big } else { ByteOrder::Little }));
            assert_eq!(summary.form.resolution.as_deref(), Some(told));
            assert_eq!(summary.interfaces[0].snaplen, Some(65_535));
            assert_eq!((summary.interfaces[0].packets, summary.bytes), (3, bytes.len() as u64));
            assert_eq!(summary.first().map(|t| t.0), Some(seen[0].nanos));
            assert_eq!(summary.last().map(|t| t.0), Some(seen[2].nanos));
            assert!(summary.warnings.is_empty() && !summary.truncated, "{:?}", summary.warnings);
        }
    }
}

#[test]
fn lengths_of_old_versions_stand_the_other_way_round() {
    let order = Order(false);
    let mut bytes = order.pcap(0xa1b2_c3d4, 0, 1);
    bytes[6] = 2;
    let mut record = order.record(1_000, 0, 0, b"abcd");
    record[8..16].copy_from_slice(&[9, 0, 0, 0, 4, 0, 0, 0]);
    bytes.extend(record);
    let (seen, summary) = read(&bytes);
    assert_eq!((seen[0].data.as_slice(), seen[0].original), (b"abcd".as_slice(), 9));
    assert_eq!((summary.warnings.len(), summary.interfaces[0].snaplen), (1, None));
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_records() {
    let whole = thirty();
    let (all, _) = read(&whole);
    assert_eq!(all.len(), 30);
    let ends: Vec<usize> = all.iter().scan(24, |at, p| (*at += 16 + p.data.len(), Some(*at)).1).collect();
    for length in whole.len() - 200..whole.len() {
        let (seen, summary) = read(&whole[..length]);
        let kept = ends.iter().filter(|e| **e <= length).count();
        assert_eq!(seen, all[..kept], "cut at {length}");
        let at_boundary = ends.contains(&length);
        assert_eq!(summary.truncated, !at_boundary, "cut at {length}");
        assert_eq!(summary.damaged_regions, 0);
        if !at_boundary {
            let begin = ends[kept - 1];
            let there = length - begin;
            let (what, required) =
                if there < 16 { ("a record header", 16) } else { ("a packet", 16 + all[kept].data.len()) };
            let text = format!("ends inside {what} at byte {begin}: {required} bytes required, {there} there");
            assert_eq!(summary.warnings, [text]);
        }
    }
}

#[test]
fn empty_and_header_only_files_are_warnings() {
    let (seen, summary) = read(b"");
    assert_eq!((seen.len(), summary.warnings.as_slice()), (0, ["empty: 0 bytes".to_owned()].as_slice()));
    let header = Order(true).pcap(0xa1b2_c3d4, 96, 1);
    let (seen, summary) = read(&header);
    assert_eq!((seen.len(), summary.truncated), (0, false));
    assert_eq!(summary.warnings, ["holds a file header and no packet"]);
    let (_, summary) = read(&header[..10]);
    assert!(summary.truncated);
    assert_eq!(summary.warnings, ["ends inside the file header at byte 0: 24 bytes required, 10 there"]);
}

#[test]
fn what_is_no_capture_is_said() {
    for (bytes, words) in [
        (b"Nov 29 11:20:39 node-b kernel: Out of memory".as_slice(), "text was there"),
        (b"\n\r\r\nNot a section header", "text was there"),
        (b"PK\x03\x04 and so on", "a zip archive was there"),
        (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b", "unknown binary data was there"),
    ] {
        let (_, _, error) = drain(Cursor::new(bytes.to_vec()));
        let error = error.expect("no capture").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn records_larger_than_snaplen_and_buffers_are_kept_whole() {
    let order = Order(false);
    let mut bytes = order.pcap(0xa1b2_c3d4, 96, 1);
    let sizes = [200usize, 300_000, 5_000_000, 60, 16 << 20, 70];
    for (i, size) in sizes.iter().enumerate() {
        let data: Vec<u8> = (0..*size).map(|b| (b % 251) as u8).collect();
        bytes.extend(order.record(1_795_951_173 + i as u32, 0, *size as u32, &data));
    }
    let (seen, summary) = read(&bytes);
    assert_eq!(seen.iter().map(|p| p.data.len()).collect::<Vec<_>>(), sizes);
    assert!(seen.iter().all(|p| p.data.iter().enumerate().all(|(i, b)| *b == (i % 251) as u8)));
    assert_eq!((summary.damaged_regions, summary.truncated), (0, false));
    let (_, summary) = read(&bytes[..bytes.len() - 16 - 70 - 1000]);
    assert!(summary.truncated && summary.damaged_regions == 0, "{:?}", summary.warnings);
}

#[test]
fn a_damaged_middle_is_skipped_and_counted() {
    let whole = thirty();
    let (all, _) = read(&whole);
    let begin = 24 + (0..10).map(|i| 16 + 60 + i).sum::<usize>(); // of record 11
    for fill in [0u8, 0xff, b'A'] {
        let mut bytes = whole.clone();
        bytes[begin..begin + 100].fill(fill);
        let (seen, summary) = read(&bytes);
        // Record 11 is 86 bytes long, so the damage takes 14 bytes of record 12 too.
        let kept: Vec<_> = all.iter().filter(|p| !(11..=12).contains(&p.number)).map(|p| p.nanos).collect();
        assert_eq!(seen.iter().map(|p| p.nanos).collect::<Vec<_>>(), kept, "filled with {fill}");
        assert_eq!((summary.damaged_regions, summary.damaged_bytes, summary.truncated), (1, 86 + 87, false));
        assert!(summary.warnings[0].starts_with(&format!("damaged at byte {begin}: ")), "{:?}", summary.warnings);
        assert!(summary.warnings[0].ends_with("; 173 bytes skipped"), "{:?}", summary.warnings);
    }
    // Bytes that are missing: the record around the hole ends in its neighbour, then reading goes on.
    let mut bytes = whole.clone();
    bytes.drain(begin + 30..begin + 60);
    let (seen, summary) = read(&bytes);
    assert_eq!((seen.len(), summary.damaged_regions), (29, 1));
    assert_eq!(seen.last(), all.last().map(|p| Seen { number: 29, ..p.clone() }).as_ref());
}

#[test]
fn damage_to_the_end_is_said() {
    let mut bytes = thirty();
    let whole = bytes.len();
    bytes.extend(vec![0; 5000]);
    let (seen, summary) = read(&bytes);
    assert_eq!((seen.len(), summary.damaged_bytes), (30, 5000));
    assert!(summary.warnings[0].starts_with(&format!("damaged at byte {whole}: ")));
}

#[test]
fn a_gap_of_years_and_odd_fractions_are_no_damage() {
    let order = Order(false);
    let mut bytes = order.pcap(0xa1b2_c3d4, 0, 1);
    for (seconds, fraction) in [(0, 0), (1_300_000_000, 999_999_999), (1_795_951_173, 5), (1_000, 1), (1_001, 1)] {
        bytes.extend(order.record(seconds, fraction, 4, b"abcd"));
    }
    let (seen, summary) = read(&bytes);
    assert_eq!((seen.len(), summary.damaged_regions), (5, 0), "{:?}", summary.warnings);
    assert_eq!(seen[1].nanos, 1_300_000_999_999_999_000);
    assert_eq!(summary.last().map(|t| t.0), Some(1_795_951_173_000_005_000));
}
