//! Flows of NCCL's data end early.

use super::*;
use crate::capture::{Limits, Reader};

/// Flows of NET/Socket end early, and are known with all that came later: their ends, and every byte.
#[test]
fn net_flows_end_early_and_lose_nothing() {
    let options = ScanOptions {
        ports: PortSet::default(),
        named: NamedPorts::default(),
        only: None,
        max_flows: 4096,
        max_tracked_bytes: 1 << 24,
        keep_heads: false,
    };
    let mut scan = SetScan::new(0, options);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/nccl/2.26.2-real-4ranks-netsocket.pcap");
    let mut reader = Reader::open(std::path::Path::new(path), &Limits::default()).unwrap();
    let mut open = 0;
    while let Some(packet) = reader.next().unwrap() {
        scan.packet(0, &packet);
        open = open.max(scan.flows.early.len());
    }
    assert_eq!(open, 24);
    let seen = scan.finish();
    let net: Vec<&FlowObservation> =
        seen.flows.iter().filter(|f| f.nccl().is_some_and(|n| n.net_index.is_some())).collect();
    assert_eq!(net.len(), 24);
    for f in net {
        let record = seen.records.iter().find(|r| r.first_packet == f.record.first_packet).unwrap();
        assert_eq!((f.record.packets, f.record.last), (record.packets, record.last));
        assert!(f.record.client_closed().is_some() && f.record.state == FlowState::Dismissed);
        let nccl = f.nccl().unwrap();
        assert_eq!((nccl.bytes, nccl.bulk[0]), (f.record.bytes, f.record.bytes[0] - 13));
    }
}
