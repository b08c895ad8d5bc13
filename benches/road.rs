//! The road a packet takes, stage by stage: reading, framing, reassembly, and the whole.
//!
//! For ratios against other programs on captures of a gigabyte see `make bench`; this shows where a change made itself felt.

use std::hint::black_box;
use std::io::Cursor;
use std::path::PathBuf;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rdzvscope::api::analysis::{Options, analyze};
use rdzvscope::api::capture::{Limits, Packet, Reader};
use rdzvscope::api::frame::{Decoder, Frame, glance};
use rdzvscope::api::stream::{Assembler, AssemblerLimits, Event, PacketRef, Piece};
use rdzvscope::api::time::Timestamp;

/// A classic capture of `count` packets with `payload` bytes each, spread over 256 flows.
fn bulk(count: u32, payload: usize) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for n in 0..count {
        let flow = (n * 7 % 256) as u8;
        let length = (14 + 20 + 20 + payload) as u32;
        for word in [1_795_951_000 + n / 1_000_000, n % 1_000_000, length, length] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let total = (40 + payload) as u16;
        out.extend_from_slice(&[0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        out.extend_from_slice(&[10, 0, 0, flow, 10, 1, 0, flow]);
        out.extend_from_slice(&(32768 + u16::from(flow)).to_be_bytes());
        out.extend_from_slice(&(50000 + u16::from(flow)).to_be_bytes());
        out.extend_from_slice(&(n / 256 * payload as u32).to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        out.extend(std::iter::repeat_n(flow ^ 0x5a, payload));
    }
    out
}

fn each(bytes: &[u8], take: impl FnMut(&Packet<'_>)) {
    let source = Box::new(Cursor::new(bytes.to_vec()));
    if let Ok(mut reader) = Reader::from_read("bench", source, &Limits::default()) {
        let _ = reader.each(take);
    }
}

fn road(c: &mut Criterion) {
    for (name, payload) in [("large packets", 1400), ("small packets", 10)] {
        let bytes = bulk(20_000, payload);
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("read", |b| {
            b.iter(|| {
                each(&bytes, |p| {
                    black_box(p.number);
                })
            })
        });
        group.bench_function("glance", |b| {
            b.iter(|| {
                each(&bytes, |p| {
                    black_box(glance(p));
                })
            })
        });
        group.bench_function("frame", |b| {
            b.iter(|| {
                let mut decoder = Decoder::new(Default::default());
                each(&bytes, |p| {
                    if let Frame::Tcp(s) = decoder.decode(p) {
                        black_box(s.seq);
                    }
                });
            })
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("bulk.pcap");
        std::fs::write(&path, &bytes).expect("the capture");
        group.bench_function("analyze", |b| {
            let options = Options { paths: vec![path.clone()], threads: 1, ..Options::default() };
            b.iter(|| black_box(analyze(&options).report.totals.packets))
        });
        group.finish();
    }
    let payload = vec![7u8; 1400];
    let mut group = c.benchmark_group("reassembly");
    group.throughput(Throughput::Bytes(1400 * 1000));
    for (name, stride) in [("in order", 1u32), ("pairs swapped", 2)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut assembler = Assembler::new(AssemblerLimits::default());
                assembler.syn(u32::MAX);
                let mut seen = 0u64;
                let mut sink = |e: Event<'_>| {
                    if let Event::Chunk(c) = e {
                        seen += c.bytes.len() as u64;
                    }
                };
                for n in 0..1000u32 {
                    let at = if stride == 2 { n ^ 1 } else { n };
                    let piece = Piece {
                        seq: at * 1400,
                        payload: &payload,
                        wire_length: 1400,
                        time: Timestamp(i64::from(n)),
                        packet: PacketRef { capture: 0, number: u64::from(n) },
                    };
                    assembler.push(piece, &mut sink);
                }
                black_box(seen)
            })
        });
    }
    group.finish();
    let incident: Vec<PathBuf> = ["node-a.pcap", "node-b.pcap", "node-c.pcap", "logs"]
        .iter()
        .map(|f| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/incident-torch1.13").join(f))
        .collect();
    c.bench_function("the incident", |b| {
        let options = Options { paths: incident.clone(), threads: 1, ..Options::default() };
        b.iter(|| black_box(analyze(&options).report.findings.len()))
    });
}

criterion_group!(benches, road);
criterion_main!(benches);
