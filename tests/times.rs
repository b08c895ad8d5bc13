//! Times of corrupt records: whatever they are, every command that reads ends in the usual time.

mod wire;

use std::path::Path;
use std::time::{Duration, Instant};

use wire::run;

/// What each run may take, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(30);

/// Real recordings: a store that is scanned and killed, NCCL ranks that retry, an elastic job, NCCL's listeners.
const CAPTURES: [&str; 4] = [
    "testdata/incident-torch1.13/node-a.pcap",
    "testdata/nccl/2.26.2-stray-nmap-sT-then-2ranks.pcap",
    "testdata/torchrun/node-a.pcap",
    "testdata/nccl/2.26.2-strays-at-root.pcap",
];

/// The packets of a classic little-endian capture and its link type.
fn packets(path: &str) -> (u16, Vec<Vec<u8>>) {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (24, Vec::new());
    while at + 16 <= bytes.len() {
        let length = word(at + 8) as usize;
        let Some(packet) = bytes.get(at + 16..at + 16 + length) else { break };
        all.push(packet.to_vec());
        at += 16 + length;
    }
    (word(20) as u16, all)
}

/// A pcapng file with these packets, in units of nanoseconds, at the times that `time` gives.
fn pcapng((link, packets): &(u16, Vec<Vec<u8>>), time: impl Fn(u64) -> u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len()) as u32;
        out.extend([kind.to_le_bytes(), length.to_le_bytes()].concat());
        out.extend(body);
        out.extend(length.to_le_bytes());
    };
    block(0x0a0d_0d0a, &[&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    // Options: if_tsresol of 10^-9, end.
    let interface = [&link.to_le_bytes()[..], &[0; 6], &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
    block(1, &interface);
    for (i, p) in packets.iter().enumerate() {
        let t = time(i as u64);
        let head = [0, (t >> 32) as u32, t as u32, p.len() as u32, p.len() as u32];
        let mut body: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
        body.extend(p);
        body.resize(body.len().next_multiple_of(4), 0);
        block(6, &body);
    }
    out
}

/// The same as a classic capture, whose fractions are no fractions.
fn pcap((link, packets): &(u16, Vec<Vec<u8>>), time: impl Fn(u64) -> (u32, u32)) -> Vec<u8> {
    let mut out: Vec<u8> =
        [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, u32::from(*link)].iter().flat_map(|w| w.to_le_bytes()).collect();
    for (i, p) in packets.iter().enumerate() {
        let (seconds, fraction) = time(i as u64);
        for word in [seconds, fraction, p.len() as u32, p.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(p);
    }
    out
}

fn within(limit: Duration, arguments: &[&str]) {
    let start = Instant::now();
    let out = run(arguments);
    let took = start.elapsed();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code().is_some_and(|c| (0..=2).contains(&c)), "{arguments:?} {error}");
    assert!(took < limit, "{arguments:?}: {took:?}");
}

fn every_command(path: &Path, directory: &Path) {
    let path = path.to_str().unwrap();
    let log = "testdata/incident-torch1.13/logs/node-a.dmesg-iso";
    for format in ["table", "json", "html"] {
        within(LIMIT, &["analyze", "--format", format, path, "--oom", log]);
    }
    within(LIMIT, &["messages", path]);
    within(LIMIT, &["streams", "--all", path]);
    let case = directory.join("case.db");
    within(LIMIT, &["watch", directory.to_str().unwrap(), "--once", "--case", case.to_str().unwrap()]);
    within(LIMIT, &["report", "--case", case.to_str().unwrap()]);
}

#[test]
fn the_ends_of_time_end() {
    const NOW: u64 = 1_795_951_210_000_000_000;
    let times: [(&str, fn(u64) -> u64); 4] = [
        ("all-latest", |_| u64::MAX),
        ("all-most-signed", |_| i64::MAX as u64),
        ("least-signed", |i| if i % 3 == 0 { i64::MIN as u64 } else { NOW + i * 1_000_000 }),
        ("mixed", |i| [NOW + i, 0, u64::MAX, i64::MAX as u64, i64::MIN as u64][i as usize % 5]),
    ];
    for capture in CAPTURES {
        let packets = packets(capture);
        for (name, time) in times {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(format!("{name}.pcapng"));
            std::fs::write(&path, pcapng(&packets, time)).unwrap();
            // One capture goes through every command, the others through the one that reads most.
            if capture == CAPTURES[0] || name == "mixed" {
                every_command(&path, directory.path());
            } else {
                within(LIMIT, &["analyze", "--format", "json", path.to_str().unwrap()]);
            }
        }
    }
}

#[test]
fn fractions_that_are_none_end() {
    let times: [fn(u64) -> (u32, u32); 3] = [
        |_| (u32::MAX, u32::MAX),
        |i| (1_795_951_210, u32::MAX - i as u32),
        |i| (i as u32 % 2 * u32::MAX, 0xffff_fffe),
    ];
    let packets = packets(CAPTURES[1]);
    for time in times {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fractions.pcap");
        std::fs::write(&path, pcap(&packets, time)).unwrap();
        every_command(&path, directory.path());
    }
}
