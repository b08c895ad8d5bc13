//! Classic pcap. Layout: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>, and libpcap's `sf-pcap.c`.
//!
//! The headers are read at fixed offsets here: pcap-parser hands out a parsed copy of each header through an enum
//! that its streaming reader makes per block, and asks for refills by shifting its buffer; that alone costs more
//! than the reading.

use super::buffer::Buffer;
use super::kind::CaptureFormat;
use super::packet::LinkType;
use super::record::{Record, u16_at, u32_at};
use super::summary::{ByteOrder, FileLayout, Summary};

/// Length of the file header in bytes.
pub(super) const FILE_HEADER: usize = 24;
/// The snaplen that libpcap itself takes for the largest one that makes sense. Records up to this length are believed
/// at once, whatever the file header says; longer ones are looked at twice.
const MAX_SNAPLEN: u32 = 262_144;
/// Two records that are further apart than this (in seconds) are looked at twice.
const YEAR: u32 = 366 * 86_400;
/// How many record headers in a row must make sense after a damaged region.
const CHAIN: usize = 3;

/// A classic pcap file whose headers are big-endian or not.
pub(super) struct Pcap<const BIG: bool> {
    /// 16, or 24 in Kuznetzov's modified format.
    header_length: usize,
    /// Nanoseconds in a unit of the fraction field: 1 or 1000.
    unit: i64,
    /// Before version 2.3 the two length fields stood the other way round.
    lengths_swapped: bool,
    /// Record length believed at once.
    plausible: u32,
    /// The longest record.
    max_record: u32,
    link_type: LinkType,
    /// Times believed at once: `low ..= low + window`, modulo 2^32 seconds.
    low: u32,
    window: u32,
}

struct Header {
    seconds: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

impl<const BIG: bool> Pcap<BIG> {
    /// Takes the file header off the buffer; `None` when the file ends inside it.
    pub(super) fn open(buffer: &mut Buffer, summary: &mut Summary, max_record: u32) -> Option<Self> {
        let whole = buffer.fill(FILE_HEADER);
        let head = buffer.held();
        let magic = u32_at::<BIG>(head, 0)?;
        let unit = if magic == 0xa1b2_3c4d { 1 } else { 1000 };
        summary.form = FileLayout {
            format: Some(CaptureFormat::Pcap),
            byte_order: Some(if BIG { ByteOrder::Big } else { ByteOrder::Little }),
            resolution: Some(if unit == 1 { "1e-9 s" } else { "1e-6 s" }.to_owned()),
            compression: summary.form.compression,
        };
        if !whole {
            let held = head.len();
            summary.cut("the file header", 0, FILE_HEADER as u64, held);
            return None;
        }
        let (major, minor) = (u16_at::<BIG>(head, 4)?, u16_at::<BIG>(head, 6)?);
        if (major, minor) != (2, 4) {
            summary.warn(format!("pcap version 2.4 required, {major}.{minor} there: read all the same"));
        }
        let zone = u32_at::<BIG>(head, 8)? as i32;
        if zone != 0 {
            summary
                .warn(format!("the file header asks for a zone correction of {zone} s: not applied, as nobody does"));
        }
        let snaplen = u32_at::<BIG>(head, 16)?;
        let link_type = link_type(u32_at::<BIG>(head, 20)?);
        summary.add_interface(String::new(), link_type, snaplen);
        buffer.consume(FILE_HEADER);
        Some(Pcap {
            header_length: if magic == 0xa1b2_cd34 { 24 } else { 16 },
            unit,
            lengths_swapped: major == 2 && minor < 3,
            plausible: snaplen.clamp(MAX_SNAPLEN.min(max_record), max_record),
            max_record,
            link_type,
            low: 0,
            window: u32::MAX,
        })
    }

    /// The next record, at the front of `buffer`; `None` at the end, with the reason in `summary`.
    #[inline]
    pub(super) fn next(&mut self, buffer: &mut Buffer, summary: &mut Summary) -> Option<Record> {
        let held = buffer.held();
        if let Some(header) = self.header(held)
            && self.sane(&header)
            && held.len() >= self.header_length + header.captured as usize
        {
            return Some(self.record(&header));
        }
        self.next_slowly(buffer, summary)
    }

    #[inline(always)]
    fn header(&self, bytes: &[u8]) -> Option<Header> {
        let head = bytes.first_chunk::<16>()?;
        let [seconds, fraction, mut captured, mut original] =
            [u32_at::<BIG>(head, 0)?, u32_at::<BIG>(head, 4)?, u32_at::<BIG>(head, 8)?, u32_at::<BIG>(head, 12)?];
        if self.lengths_swapped {
            (captured, original) = (original, captured);
        }
        Some(Header { seconds, fraction, captured, original })
    }

    /// Whether nothing about a header calls for a second look. A fraction of more than a second in microseconds does
    /// not: there are writers who put nanoseconds into files of microseconds.
    #[inline(always)]
    fn sane(&self, header: &Header) -> bool {
        let Header { seconds, fraction, captured, original } = *header;
        (captured <= self.plausible)
            & (seconds.wrapping_sub(self.low) <= self.window)
            & (fraction < 1_000_000_000)
            & ((seconds | fraction | captured | original) != 0)
    }

    #[inline(always)]
    fn record(&mut self, header: &Header) -> Record {
        (self.low, self.window) = (header.seconds.wrapping_sub(YEAR), 2 * YEAR);
        let captured = header.captured as usize;
        Record {
            header: self.header_length,
            captured,
            total: self.header_length + captured,
            original: header.original,
            // At most 2^32 * 10^9 + 2^32 * 10^3: no overflow.
            time: Some(i64::from(header.seconds) * 1_000_000_000 + i64::from(header.fraction) * self.unit),
            link_type: self.link_type,
            interface: 0,
        }
    }

    /// What the fast path leaves: refills, the end, and headers that look odd.
    #[cold]
    #[inline(never)]
    fn next_slowly(&mut self, buffer: &mut Buffer, summary: &mut Summary) -> Option<Record> {
        loop {
            if !buffer.fill(self.header_length) {
                let held = buffer.held().len();
                if held > 0 {
                    summary.cut("a record header", buffer.offset(), self.header_length as u64, held);
                }
                return None;
            }
            let header = self.header(buffer.held())?;
            let need = self.header_length + header.captured as usize;
            if self.sane(&header) {
                if buffer.fill(need) {
                    return Some(self.record(&header));
                }
                summary.cut("a packet", buffer.offset(), need as u64, buffer.held().len());
                return None;
            }
            let (mut cut, offset) = (None, buffer.offset());
            if header.captured <= self.max_record {
                // Odd, but it may be true. The header after it tells; so this one record waits for the next header.
                let next_too = buffer.fill(need + self.header_length);
                let held = buffer.held();
                if held.len() < need {
                    cut = Some((need as u64, held.len()));
                } else if !next_too || self.follows(&header, held.get(need..).unwrap_or_default()) {
                    return Some(self.record(&header));
                }
            }
            let found = self.resynchronize(buffer);
            match cut {
                // A large record of a sensible time with nothing after it: the file ends in it.
                Some((required, held)) if !found && header.seconds.wrapping_sub(self.low) <= self.window => {
                    summary.cut("a packet", offset, required, held);
                }
                _ => {
                    let what =
                        format!("a record header of {} captured bytes at second {}", header.captured, header.seconds);
                    summary.damage(offset, buffer.offset() - offset, &what);
                }
            }
            if !found {
                return None;
            }
        }
    }

    /// Whether `bytes` begin with a header that may come after `header`, odd as that is: one that needs no second look,
    /// or one that is odd in the same way (several very large records, or times years apart, in a row).
    fn follows(&self, header: &Header, bytes: &[u8]) -> bool {
        let near = Pcap::<BIG> { low: header.seconds.wrapping_sub(YEAR), window: 2 * YEAR, ..*self };
        let Some(next) = self.header(bytes) else { return false };
        let possible = |h: &Header| {
            h.captured > 0 && (h.captured..=self.max_record).contains(&h.original) && h.fraction < 1_000_000_000
        };
        let in_time = [self, &near].iter().any(|p| next.seconds.wrapping_sub(p.low) <= p.window);
        let in_size = header.captured.max(next.captured) <= self.plausible;
        self.sane(&next) || near.sane(&next) || (possible(header) && possible(&next) && (in_time || in_size))
    }

    /// Skips to the next place where [`CHAIN`] records follow one another, or as many as there are before the end;
    /// skips all when there is none. Linear: each byte is looked at as the beginning of one chain.
    fn resynchronize(&self, buffer: &mut Buffer) -> bool {
        let window = CHAIN * self.header_length + (CHAIN - 1) * MAX_SNAPLEN as usize;
        buffer.consume(1);
        loop {
            let more = buffer.fill(window);
            let held = buffer.held();
            let places = if more { held.len() - window + 1 } else { held.len() };
            let found = (0..places).find(|&at| self.chain(held.get(at..).unwrap_or_default(), !more));
            buffer.consume(found.unwrap_or(places));
            if found.is_some() || !more {
                return found.is_some();
            }
        }
    }

    fn chain(&self, bytes: &[u8], at_end: bool) -> bool {
        let mut rest = bytes;
        let mut before = None;
        for step in 0..CHAIN {
            let Some(header) = self.header(rest).filter(|_| rest.len() >= self.header_length) else {
                return at_end && step > 0;
            };
            let limit = if self.unit == 1 { 1_000_000_000 } else { 1_000_000 };
            let sound = (1..=MAX_SNAPLEN).contains(&header.captured)
                && (header.captured..=self.max_record).contains(&header.original)
                && header.fraction < limit
                && header.seconds.wrapping_sub(self.low) <= self.window
                && before.is_none_or(|b: u32| b.abs_diff(header.seconds) <= YEAR);
            if !sound {
                return false;
            }
            let Some(after) = rest.get(self.header_length + header.captured as usize..) else {
                return at_end && step > 0;
            };
            (rest, before) = (after, Some(header.seconds));
        }
        true
    }
}

/// The link type of a pcap file header's field, which keeps FCS length and flags in its upper six bits. Two numbers
/// that old systems wrote for raw IP are made one, as libpcap and Wireshark do.
pub(super) fn link_type(field: u32) -> LinkType {
    match field & 0x03ff_ffff {
        12 | 14 => LinkType::RAW,
        number => LinkType(number),
    }
}
