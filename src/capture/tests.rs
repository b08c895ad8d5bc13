//! Tests of the room as a whole, and the builders of captures that they share.

mod arbitrary;
mod packed;
mod pcap;
mod pcapng;
mod pipe;
mod real;

use std::io::Cursor;

use super::{CaptureError, Limits, Reader, Summary};

/// What a test looks at in a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) number: u64,
    pub(super) nanos: i64,
    pub(super) link: u32,
    pub(super) interface: u32,
    pub(super) original: u32,
    pub(super) data: Vec<u8>,
}

/// All packets of a source, its summary, and the error if there was one.
pub(super) fn drain(source: impl std::io::Read + Send + 'static) -> (Vec<Seen>, Summary, Option<CaptureError>) {
    drain_within(source, &Limits::default())
}

pub(super) fn drain_within(
    source: impl std::io::Read + Send + 'static,
    limits: &Limits,
) -> (Vec<Seen>, Summary, Option<CaptureError>) {
    let mut reader = match Reader::from_read("test", Box::new(source), limits) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Summary::default(), Some(error)),
    };
    let mut seen = Vec::new();
    let mut error = None;
    loop {
        match reader.next() {
            Ok(Some(p)) => seen.push(Seen {
                number: p.number,
                nanos: p.time.0,
                link: p.link_type.0,
                interface: p.interface,
                original: p.original_length,
                data: p.data.to_vec(),
            }),
            Ok(None) => break,
            Err(e) => {
                assert!(error.is_none(), "an error is told once");
                error = Some(e);
            }
        }
    }
    assert!(matches!(reader.next(), Ok(None)), "the end stays the end");
    (seen, reader.into_summary(), error)
}

pub(super) fn read(bytes: &[u8]) -> (Vec<Seen>, Summary) {
    let (seen, summary, error) = drain(Cursor::new(bytes.to_vec()));
    assert!(error.is_none(), "{error:?}");
    (seen, summary)
}

/// 32-bit fields in one byte order or the other.
#[derive(Clone, Copy)]
pub(super) struct Order(pub(super) bool);

impl Order {
    pub(super) fn u16(self, v: u16) -> [u8; 2] {
        if self.0 { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    pub(super) fn u32(self, v: u32) -> [u8; 4] {
        if self.0 { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    pub(super) fn u64(self, v: u64) -> [u8; 8] {
        if self.0 { v.to_be_bytes() } else { v.to_le_bytes() }
    }

    /// A pcap file header.
    pub(super) fn pcap(self, magic: u32, snaplen: u32, link: u32) -> Vec<u8> {
        let mut out = self.u32(magic).to_vec();
        out.extend(self.u16(2));
        out.extend(self.u16(4));
        for field in [0, 0, snaplen, link] {
            out.extend(self.u32(field));
        }
        out
    }

    /// A pcap record.
    pub(super) fn record(self, seconds: u32, fraction: u32, original: u32, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for field in [seconds, fraction, data.len() as u32, original] {
            out.extend(self.u32(field));
        }
        out.extend(data);
        out
    }

    /// A pcapng block.
    pub(super) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = body.len().next_multiple_of(4);
        let mut out = self.u32(kind).to_vec();
        out.extend(self.u32(length as u32 + 12));
        out.extend(body);
        out.resize(8 + length, 0);
        out.extend(self.u32(length as u32 + 12));
        out
    }

    pub(super) fn options(self, list: &[(u16, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (code, value) in list {
            out.extend(self.u16(*code));
            out.extend(self.u16(value.len() as u16));
            out.extend(*value);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out.extend([0; 4]);
        out
    }

    pub(super) fn section(self, list: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = self.u32(0x1a2b_3c4d).to_vec();
        body.extend(self.u16(1));
        body.extend(self.u16(0));
        body.extend(self.u64(u64::MAX));
        body.extend(self.options(list));
        self.block(0x0a0d_0d0a, &body)
    }

    pub(super) fn interface(self, link: u16, snaplen: u32, list: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = self.u16(link).to_vec();
        body.extend([0, 0]);
        body.extend(self.u32(snaplen));
        body.extend(self.options(list));
        self.block(1, &body)
    }

    pub(super) fn enhanced(
        self,
        interface: u32,
        ticks: u64,
        original: u32,
        data: &[u8],
        list: &[(u16, &[u8])],
    ) -> Vec<u8> {
        let mut body = Vec::new();
        for field in [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, original] {
            body.extend(self.u32(field));
        }
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        if !list.is_empty() {
            body.extend(self.options(list));
        }
        self.block(6, &body)
    }
}

/// Thirty packets of differing lengths, a second apart, in a little-endian microsecond file.
pub(super) fn thirty() -> Vec<u8> {
    let order = Order(false);
    let mut out = order.pcap(0xa1b2_c3d4, 262_144, 1);
    for i in 0..30u32 {
        out.extend(order.record(1_795_951_173 + i, 999_000 + i, 60 + i, &vec![i as u8 ^ 0xa5; 60 + i as usize]));
    }
    out
}
