use std::io::Write;

use super::*;
use crate::capture::kind::{CaptureFormat, Compression, Sniffed};
use crate::capture::{Kind, sniff, sniff_path};

pub(super) const ALL: [Compression; 5] =
    [Compression::Gzip, Compression::Zstd, Compression::Lz4, Compression::Xz, Compression::Bzip2];

pub(super) fn pack(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Gzip => {
            let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            w.write_all(bytes).and_then(|()| w.finish()).expect("packs")
        }
        Compression::Zstd => {
            let mut w = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("packs");
            w.include_checksum(true).and_then(|()| w.write_all(bytes)).and_then(|()| w.finish()).expect("packs")
        }
        Compression::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_size(lz4_flex::frame::BlockSize::Max64KB)
                .content_checksum(true);
            let mut w = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            w.write_all(bytes).expect("packs");
            w.finish().expect("packs")
        }
        Compression::Xz => {
            let mut w = liblzma::write::XzEncoder::new(Vec::new(), 1);
            w.write_all(bytes).and_then(|()| w.finish()).expect("packs")
        }
        Compression::Bzip2 => {
            let mut w = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            w.write_all(bytes).and_then(|()| w.finish()).expect("packs")
        }
    }
}

/// 2000 packets that do not pack well.
fn noise() -> Vec<u8> {
    let order = Order(false);
    let mut out = order.pcap(0xa1b2_c3d4, 262_144, 1);
    let mut state = 1u32;
    for i in 0..2000 {
        let data: Vec<u8> = (0..300)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        out.extend(order.record(1_795_951_173, i, 300, &data));
    }
    out
}

#[test]
fn each_compression_reads_as_the_plain_file() {
    let plain = noise();
    let (all, known) = read(&plain);
    assert_eq!(all.len(), 2000);
    for compression in ALL {
        let packed = pack(compression, &plain);
        assert_eq!(sniff(&packed), Kind::Compressed(compression));
        let (seen, summary) = read(&packed);
        assert!(seen == all, "{compression}");
        assert_eq!(summary.identity, known.identity, "{compression}");
        assert_eq!((summary.bytes, summary.form.compression), (plain.len() as u64, Some(compression)));
        assert!(summary.warnings.is_empty(), "{compression}: {:?}", summary.warnings);

        // Several members, frames or streams one after the other are one content.
        let (left, right) = plain.split_at(plain.len() / 3);
        let (seen, summary) = read(&[pack(compression, left), pack(compression, right)].concat());
        assert!(seen == all && summary.warnings.is_empty(), "{compression}: {:?}", summary.warnings);
    }
    assert_ne!(read(&plain[..plain.len() - 1]).1.identity, known.identity);
}

#[test]
fn compressed_data_cut_short_gives_what_it_can() {
    let plain = noise();
    let (all, _) = read(&plain);
    for compression in ALL {
        let packed = pack(compression, &plain);
        for part in [0.25, 0.5, 0.9] {
            let length = (packed.len() as f64 * part) as usize;
            let (seen, summary, error) = drain(Cursor::new(packed[..length].to_vec()));
            assert!(error.is_none(), "{compression}: {error:?}");
            assert!(summary.truncated, "{compression}");
            let words = format!("the {compression} data ends before its end");
            assert!(summary.warnings.iter().any(|w| w.contains(&words)), "{compression}: {:?}", summary.warnings);
            assert!(seen == all[..seen.len()], "{compression}");
            // bzip2 gives nothing of a block (here 100 kB) before its end, lz4 nothing of one of 64 KiB.
            let least = 2000.0 * part - 700.0;
            assert!(seen.len() as f64 > least, "{compression}: {} of {part}", seen.len());
        }
        // The data whole, the trailer not.
        let (seen, summary, error) = drain(Cursor::new(packed[..packed.len() - 3].to_vec()));
        assert!(error.is_none(), "{compression}: {error:?}");
        assert!(seen.len() >= 1500 && summary.truncated, "{compression}: {} {:?}", seen.len(), summary.warnings);
    }
}

#[test]
fn corrupt_data_is_an_error_after_what_was_whole() {
    let plain = noise();
    for compression in ALL {
        let mut packed = pack(compression, &plain);
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0x55);
        let (seen, _, error) = drain(Cursor::new(packed));
        assert!(seen.len() <= 2000);
        let error = error.expect("corrupt").to_string();
        assert!(error.starts_with(&format!("test: {compression} data fails near compressed byte ")), "{error}");
    }
}

#[test]
fn zeros_after_a_gzip_member_are_its_end() {
    let mut packed = pack(Compression::Gzip, &thirty());
    packed.extend([0; 1000]);
    let (seen, summary) = read(&packed);
    assert_eq!((seen.len(), summary.warnings.len()), (30, 0));
}

#[test]
fn a_bomb_ends_in_an_error_and_keeps_what_was_read() {
    let mut plain = thirty();
    plain.resize(8 << 20, 0);
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Xz] {
        let packed = pack(compression, &plain);
        assert!(packed.len() < 40_000, "{compression}: {}", packed.len());
        let by_ratio = Limits { max_expansion_ratio: 100, ratio_from: 1 << 20, ..Limits::default() };
        let by_output = Limits { max_output: 2 << 20, ..Limits::default() };
        for limits in [by_ratio, by_output] {
            let (seen, summary, error) = drain_within(Cursor::new(packed.clone()), &limits);
            assert_eq!(seen.len(), 30);
            assert!(summary.bytes < 6 << 20, "{}", summary.bytes);
            assert!(matches!(error, Some(CaptureError::Expansion { .. })), "{error:?}");
        }
        let (seen, summary, error) = drain(Cursor::new(packed));
        assert!(error.is_none(), "{error:?}");
        assert_eq!((seen.len(), summary.damaged_regions), (30, 1));
    }
}

#[test]
fn a_text_inside_is_no_capture() {
    let (_, _, error) = drain(Cursor::new(pack(Compression::Zstd, b"Nov 29 11:20:39 node-b kernel: oom")));
    let error = error.expect("no capture").to_string();
    assert_eq!(
        error,
        "test: not a capture: a pcap or pcapng magic number was required at byte 0 of the unpacked zstd data, text was there"
    );
}

#[test]
fn paths_are_sniffed_through_the_compression() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x");
    let header = Order(false).pcap(0xa1b2_c3d4, 0, 1);
    let pcap = CaptureFormat::Pcap;
    let cases = [
        (Vec::new(), Kind::Empty),
        (header.clone(), Kind::HeaderOnly(pcap)),
        (header[..20].to_vec(), Kind::Capture(pcap)),
        (thirty(), Kind::Capture(pcap)),
        (noise(), Kind::Capture(pcap)),
        (Order(true).section(&[]), Kind::HeaderOnly(CaptureFormat::Pcapng)),
        (b"192.0.2.11 node-a\n".to_vec(), Kind::Text),
        (b"\x7fELF\x02\x01\x01".to_vec(), Kind::Foreign("an ELF file")),
        (vec![0, 1, 2, 3], Kind::Unknown),
    ];
    for (bytes, kind) in cases {
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(sniff_path(&path).expect("sniffed"), Sniffed { kind, compression: None });
        for compression in ALL.into_iter().filter(|_| !bytes.is_empty()) {
            std::fs::write(&path, pack(compression, &bytes)).expect("written");
            assert_eq!(sniff_path(&path).expect("sniffed"), Sniffed { kind, compression: Some(compression) });
        }
    }
    assert_eq!(sniff_path(dir.path()).expect("sniffed").kind, Kind::Foreign("no regular file"));
    assert!(sniff_path(&dir.path().join("none")).is_err());
    assert_eq!(sniff(b"BZh is how this text begins"), Kind::Text);
}
