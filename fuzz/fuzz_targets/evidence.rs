//! Any bytes as lines of evidence, and as the packed bytes of a fact: nothing panics, what is refused is not taken, and
//! what is taken is concluded from.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::analysis::{Options, analyze_stored};
use rdzvscope::api::evidence::{LineReader, gather};

/// A segment with one fact of each kind whose bytes are `data`.
fn around(data: &[u8]) -> String {
    let packed = data_encoding::BASE64.encode(data);
    let mut text = String::from("{\"type\":\"evidence\",\"origin\":\"o\",\"schema\":\"rdzvscope.evidence/1.0\",\"segment\":1}\n");
    text.push_str("{\"type\":\"evidence-capture\",\"origin\":\"o\",\"set\":1,\"capture\":1,\"path\":\"x\",\"packets\":1}\n");
    text.push_str("{\"type\":\"evidence-log\",\"origin\":\"o\",\"log\":1,\"path\":\"l\",\"host\":null}\n");
    for fields in [
        "evidence-flows\",\"set\":1",
        "evidence-segments\",\"set\":1,\"batch\":1,\"capture\":1",
        "evidence-ordinary\",\"set\":1,\"batch\":1,\"connections\":1",
        "evidence-lines\",\"log\":1,\"batch\":1",
        "evidence-hosts\",\"path\":\"h\",\"content\":\"c\",\"part\":0,\"parts\":1",
    ] {
        text.push_str(&format!("{{\"type\":\"{fields},\"origin\":\"o\",\"data\":\"{packed}\"}}\n"));
    }
    text
}

fuzz_target!(|data: &[u8]| {
    let inside = around(data);
    let packed = zstd::bulk::compress(data, 1).map(|p| around(&p)).unwrap_or_default();
    for text in [data, inside.as_bytes(), packed.as_bytes()] {
        for reader in [LineReader::new("x"), LineReader::new("x").of_size(text.len() as u64)] {
            if let Ok(read) = reader.read(&mut Cursor::new(text)) {
                let report = analyze_stored(&Options::default(), gather(read.facts)).analysis.report;
                assert!(report.findings.len() <= 10_000);
            }
        }
    }
});
