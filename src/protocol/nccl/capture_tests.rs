//! Real traffic of real libraries; what it holds is recorded in `testdata/nccl/truth.json`.

use super::trial::{capture, decoding, events};
use super::*;

const CLEAN: &[&str] = &[
    "nccl/2.16.2-real-4ranks-netsocket.pcap",
    "nccl/2.26.2-real-4ranks-netsocket.pcap",
    "nccl/2.16.2-realroot-4pyranks.pcap",
    "nccl/2.32.3-realroot-4pyranks.pcap",
    "nccl/2.7.8src-4ranks.pcap",
    "nccl/2.14.3src-4ranks.pcap",
    "nccl/2.26.2-real-2ranks-NCCL_COMM_ID.pcap",
    "nccl/2.26.2-2realroots-4pyranks.pcap",
];

#[test]
fn every_byte_of_a_clean_start_is_accounted_for() {
    for name in CLEAN {
        for seen in capture(name) {
            let f = &seen.facts;
            let at = format!("{name} {} → {}: {f:?}", seen.record.client(), seen.record.server());
            assert_eq!(f.undecoded, [0, 0], "{at}");
            assert!(f.faults.is_empty() && f.unfinished.is_none(), "{at}");
            // Records count retransmissions too.
            assert!((0..2).all(|i| f.bytes[i] <= seen.record.bytes[i] && (f.bytes[i] > 0) == (seen.record.bytes[i] > 0)), "{at}");
        }
    }
}

#[test]
fn where_chunks_are_cut_does_not_matter() {
    for name in CLEAN {
        for seen in capture(name) {
            assert_eq!(events(&seen.held, false), events(&seen.held, true), "{name}");
            let f = decoding(&seen.held, Framing::Auto, true);
            assert_eq!(f.undecoded, [0, 0]);
        }
    }
}
