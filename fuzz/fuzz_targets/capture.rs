//! Any bytes as a capture: reading ends, in order, within the file, and is the same one byte at a time.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::capture::{Limits, Reader};

struct Drip(std::io::Cursor<Vec<u8>>);

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = into.len().min(1);
        self.0.read(&mut into[..n])
    }
}

/// Number, time and length of every packet, and how it ended.
fn packets(source: Box<dyn Read + Send>) -> Option<(Vec<(u64, i64, usize)>, bool, u64)> {
    let limits = Limits { max_output: 1 << 24, ..Limits::default() };
    let mut reader = Reader::from_read("fuzz", source, &limits).ok()?;
    let mut seen = Vec::new();
    let mut failed = false;
    loop {
        match reader.next() {
            Ok(Some(p)) => {
                assert!(seen.last().is_none_or(|(n, _, _)| *n < p.number), "numbers ascend");
                seen.push((p.number, p.time.0, p.data.len()));
            }
            Ok(None) => break,
            Err(_) => {
                failed = true;
                break;
            }
        }
    }
    assert!(matches!(reader.next(), Ok(None)), "an end is an end");
    let summary = reader.into_summary();
    assert_eq!(summary.packets, seen.len() as u64);
    if !failed && summary.form.compression.is_none() {
        let held: u64 = seen.iter().map(|s| s.2 as u64).sum();
        assert!(held + summary.damaged_bytes <= summary.bytes, "packets and damage lie within the file");
    }
    Some((seen, failed, summary.bytes))
}

fuzz_target!(|data: &[u8]| {
    let whole = packets(Box::new(std::io::Cursor::new(data.to_vec())));
    if data.len() < 4096 {
        let drip = packets(Box::new(Drip(std::io::Cursor::new(data.to_vec()))));
        if let (Some(a), Some(b)) = (&whole, &drip) {
            assert_eq!(a.0, b.0, "a pipe of single bytes holds the same packets");
        }
    }
});
