//! pcapng: sections, interfaces and packets. <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>
//!
//! Read at fixed offsets, like classic pcap and for the same reason; see `resolution` for the times.

use super::block::{self, get16, get32, get64, options, padded};
use super::buffer::Buffer;
use super::kind::CaptureFormat;
use super::packet::LinkType;
use super::pcap::link_type;
use super::record::{Record, u32_at};
use super::resolution::Resolution;
use super::summary::{ByteOrder, Summary};

/// Blocks up to this length are believed at once, and looked for after damage; longer ones only up to the limit.
const PLAUSIBLE_BLOCK: usize = 512 << 10;
/// Room for options beside the largest record.
const MAX_OPTIONS: usize = 128 << 10;
/// Length of an enhanced packet block without data, padding and options.
const ENHANCED: usize = 32;

/// An interface of the current section.
struct Interface {
    link_type: LinkType,
    /// `u32::MAX` for none.
    snaplen: u32,
    resolution: Resolution,
    /// Its index in the summary.
    index: u32,
}

/// A pcapng file.
pub(super) struct Pcapng {
    /// Whether the current section is big-endian.
    big: bool,
    interfaces: Vec<Interface>,
    max_block: usize,
    /// Packets without a time (simple packet blocks).
    timeless: u64,
    /// Packets of interfaces that their section does not declare.
    orphans: u64,
    /// Blocks of types not known here.
    unknown: u64,
    /// Interfaces beyond the most that are taken.
    interfaces_left_out: u64,
}

/// What a whole block is.
enum Block {
    Packet(Record),
    Other,
    Damaged(&'static str),
}

impl Pcapng {
    pub(super) fn new(summary: &mut Summary, max_record: u32) -> Self {
        summary.form.format = Some(CaptureFormat::Pcapng);
        Pcapng {
            big: false,
            interfaces: Vec::new(),
            max_block: max_record as usize + MAX_OPTIONS,
            timeless: 0,
            orphans: 0,
            unknown: 0,
            interfaces_left_out: 0,
        }
    }

    /// The next packet's record, at the front of `buffer`; `None` at the end, with the reason in `summary`.
    #[inline]
    pub(super) fn next(&mut self, buffer: &mut Buffer, summary: &mut Summary) -> Option<Record> {
        let held = buffer.held();
        let record = if self.big { self.enhanced::<true>(held) } else { self.enhanced::<false>(held) };
        match record {
            Some(record) => {
                let data_end = record.header + padded(record.captured);
                if record.total >= data_end + 8 {
                    take_comments(self.big, held.get(data_end..record.total - 4).unwrap_or_default(), summary);
                }
                Some(record)
            }
            None => self.next_slowly(buffer, summary),
        }
    }

    /// The enhanced packet block that `bytes` begin with, if they do with a whole and sound one.
    #[inline(always)]
    fn enhanced<const BIG: bool>(&self, bytes: &[u8]) -> Option<Record> {
        let head = bytes.first_chunk::<28>()?;
        let total = u32_at::<BIG>(head, 4)? as usize;
        if u32_at::<BIG>(head, 0)? != block::ENHANCED_PACKET || total < ENHANCED || total > self.max_block {
            return None;
        }
        let interface = self.interfaces.get(u32_at::<BIG>(head, 8)? as usize)?;
        let captured = u32_at::<BIG>(head, 20)? as usize;
        if captured > total - ENHANCED || u32_at::<BIG>(bytes, total - 4)? as usize != total {
            return None;
        }
        let ticks = u64::from(u32_at::<BIG>(head, 12)?) << 32 | u64::from(u32_at::<BIG>(head, 16)?);
        Some(Record {
            header: 28,
            captured,
            total,
            original: u32_at::<BIG>(head, 24)?,
            time: Some(interface.resolution.nanos(ticks)),
            link_type: interface.link_type,
            interface: interface.index,
        })
    }

    /// What the fast path leaves: refills, other blocks, damage, the end.
    #[cold]
    #[inline(never)]
    fn next_slowly(&mut self, buffer: &mut Buffer, summary: &mut Summary) -> Option<Record> {
        loop {
            let offset = buffer.offset();
            if !buffer.fill(12) {
                let held = buffer.held().len();
                if held > 0 {
                    summary.cut("a block header", offset, 12, held);
                }
                self.close(summary);
                return None;
            }
            let Some((kind, total)) = self.block_head(buffer.held()) else {
                self.skip_damage(buffer, summary, "a block type and length that cannot be");
                continue;
            };
            if !buffer.fill(total) {
                let held = buffer.held().len();
                let likely = block::known(kind) && total <= PLAUSIBLE_BLOCK;
                if likely || !self.resynchronize(buffer) {
                    buffer.consume(buffer.held().len());
                    summary.cut("a block", offset, total as u64, held);
                } else {
                    summary.damage(offset, buffer.offset() - offset, "a block longer than the rest of the file");
                }
                continue;
            }
            let bytes = buffer.held().get(..total).unwrap_or_default();
            match self.block(kind, bytes, summary) {
                Block::Packet(record) => return Some(record),
                Block::Other => {
                    buffer.consume(total);
                }
                Block::Damaged(what) => self.skip_damage(buffer, summary, what),
            }
        }
    }

    /// Type and total length of the block that `bytes` begin with, when they can be true.
    fn block_head(&self, bytes: &[u8]) -> Option<(u32, usize)> {
        let kind = get32(self.big, bytes, 0)?;
        // A section header reads the same in both orders, and says its own.
        let big = if kind == block::SECTION_HEADER { block::section_order(bytes)? } else { self.big };
        let total = get32(big, bytes, 4)? as usize;
        (kind != 0 && (12..=self.max_block).contains(&total)).then_some((kind, total))
    }

    fn skip_damage(&mut self, buffer: &mut Buffer, summary: &mut Summary, what: &str) {
        let offset = buffer.offset();
        self.resynchronize(buffer);
        summary.damage(offset, buffer.offset() - offset, what);
    }

    /// Skips to the next block of a known type whose lengths agree; skips all when there is none. Linear: each byte is
    /// looked at as the beginning of one block.
    fn resynchronize(&self, buffer: &mut Buffer) -> bool {
        buffer.consume(1);
        loop {
            let more = buffer.fill(PLAUSIBLE_BLOCK);
            let held = buffer.held();
            let places = if more { held.len() - PLAUSIBLE_BLOCK + 1 } else { held.len() };
            let found = (0..places).find(|&at| self.plausible(held.get(at..).unwrap_or_default()));
            buffer.consume(found.unwrap_or(places));
            if found.is_some() || !more {
                return found.is_some();
            }
        }
    }

    fn plausible(&self, bytes: &[u8]) -> bool {
        let Some((kind, total)) = self.block_head(bytes) else { return false };
        if !block::known(kind) || total > PLAUSIBLE_BLOCK || total % 4 != 0 {
            return false;
        }
        let big = block::section_order(bytes).filter(|_| kind == block::SECTION_HEADER).unwrap_or(self.big);
        let packet = kind == block::ENHANCED_PACKET;
        let enhanced = |bytes| if big { self.enhanced::<true>(bytes) } else { self.enhanced::<false>(bytes) };
        get32(big, bytes, total - 4) == Some(total as u32) && (!packet || enhanced(bytes).is_some())
    }

    /// Takes in a whole block.
    fn block(&mut self, kind: u32, bytes: &[u8], summary: &mut Summary) -> Block {
        let big = match kind {
            block::SECTION_HEADER => block::section_order(bytes).unwrap_or(self.big),
            _ => self.big,
        };
        let body = bytes.get(8..bytes.len() - 4).unwrap_or_default();
        if get32(big, bytes, bytes.len() - 4) != Some(bytes.len() as u32) {
            return Block::Damaged("a block whose two lengths differ");
        }
        match kind {
            block::SECTION_HEADER => self.section(big, body, summary),
            block::INTERFACE => self.interface(body, summary),
            block::ENHANCED_PACKET => self.packet(bytes, summary),
            block::OBSOLETE_PACKET => self.obsolete_packet(body, summary),
            block::SIMPLE_PACKET => self.simple_packet(body),
            block::NAME_RESOLUTION => {
                block::take_names(big, body, summary);
                Block::Other
            }
            block::INTERFACE_STATISTICS => self.statistics(body, summary),
            kind => {
                if counted_by_wireshark(kind) {
                    summary.number += 1;
                }
                self.unknown += u64::from(!block::known(kind));
                Block::Other
            }
        }
    }

    fn section(&mut self, big: bool, body: &[u8], summary: &mut Summary) -> Block {
        let (Some(major), Some(minor)) = (get16(big, body, 4), get16(big, body, 6)) else {
            return Block::Damaged("a section header that is too short");
        };
        if major != 1 {
            summary.warn(format!("pcapng version 1.0 required, {major}.{minor} there: read all the same"));
        }
        self.big = big;
        self.interfaces.clear();
        summary.form.byte_order.get_or_insert(if big { ByteOrder::Big } else { ByteOrder::Little });
        take_comments(big, body.get(16..).unwrap_or_default(), summary);
        Block::Other
    }

    fn interface(&mut self, body: &[u8], summary: &mut Summary) -> Block {
        let (Some(link), Some(snaplen)) = (get16(self.big, body, 0), get32(self.big, body, 4)) else {
            return Block::Damaged("an interface description that is too short");
        };
        let (mut name, mut description) = (String::new(), String::new());
        let (mut tsresol, mut tsoffset) = (6, 0);
        for (code, value) in options(self.big, body.get(8..).unwrap_or_default()) {
            match code {
                block::OPT_COMMENT => summary.comment(value),
                block::IF_NAME => name = block::name(value),
                block::IF_DESCRIPTION => description = block::name(value),
                block::IF_TSRESOL => tsresol = value.first().copied().unwrap_or(tsresol),
                block::IF_TSOFFSET => tsoffset = get64(self.big, value).map_or(tsoffset, |v| v as i64),
                _ => {}
            }
        }
        let name = if name.is_empty() { description } else { name };
        let link_type = link_type(u32::from(link));
        let Some(index) = summary.add_interface(name, link_type, snaplen) else {
            self.interfaces_left_out += 1;
            return Block::Other;
        };
        summary.form.resolution.get_or_insert_with(|| Resolution::describe(tsresol));
        let snaplen = if snaplen == 0 { u32::MAX } else { snaplen };
        let resolution = Resolution::new(tsresol, tsoffset);
        self.interfaces.push(Interface { link_type, snaplen, resolution, index });
        Block::Other
    }

    fn packet(&mut self, bytes: &[u8], summary: &mut Summary) -> Block {
        let record = if self.big { self.enhanced::<true>(bytes) } else { self.enhanced::<false>(bytes) };
        match record {
            Some(record) => {
                let options = record.header + padded(record.captured)..bytes.len() - 4;
                take_comments(self.big, bytes.get(options).unwrap_or_default(), summary);
                Block::Packet(record)
            }
            None => match get32(self.big, bytes, 8) {
                Some(id) if bytes.len() >= ENHANCED && self.interfaces.get(id as usize).is_none() => {
                    self.orphans += 1;
                    Block::Other
                }
                _ => Block::Damaged("an enhanced packet block with more captured bytes than it has room for"),
            },
        }
    }

    fn obsolete_packet(&mut self, body: &[u8], summary: &mut Summary) -> Block {
        let field = |at| get32(self.big, body, at);
        let (Some(id), Some(high), Some(low), Some(captured), Some(original)) =
            (get16(self.big, body, 0), field(4), field(8), field(12), field(16))
        else {
            return Block::Damaged("a packet block that is too short");
        };
        let captured = captured as usize;
        if captured > body.len() - 20 {
            return Block::Damaged("a packet block with more captured bytes than it has room for");
        }
        let Some(interface) = self.interfaces.get(usize::from(id)) else {
            self.orphans += 1;
            return Block::Other;
        };
        take_comments(self.big, body.get(20 + padded(captured)..).unwrap_or_default(), summary);
        Block::Packet(Record {
            header: 28,
            captured,
            total: body.len() + 12,
            original,
            time: Some(interface.resolution.nanos(u64::from(high) << 32 | u64::from(low))),
            link_type: interface.link_type,
            interface: interface.index,
        })
    }

    fn simple_packet(&mut self, body: &[u8]) -> Block {
        let Some(original) = get32(self.big, body, 0) else {
            return Block::Damaged("a simple packet block that is too short");
        };
        let Some(interface) = self.interfaces.first() else {
            self.orphans += 1;
            return Block::Other;
        };
        let captured = original.min(interface.snaplen) as usize;
        if captured > body.len() - 4 {
            return Block::Damaged("a simple packet block with more captured bytes than it has room for");
        }
        self.timeless += 1;
        Block::Packet(Record {
            header: 12,
            captured,
            total: body.len() + 12,
            original,
            time: None,
            link_type: interface.link_type,
            interface: interface.index,
        })
    }

    fn statistics(&mut self, body: &[u8], summary: &mut Summary) -> Block {
        let interface = get32(self.big, body, 0).and_then(|id| self.interfaces.get(id as usize));
        for (code, value) in options(self.big, body.get(12..).unwrap_or_default()) {
            if code == block::ISB_IFDROP
                && let Some(drops) = get64(self.big, value)
                && let Some(known) = interface.and_then(|i| summary.interfaces.get_mut(i.index as usize))
            {
                known.drops = Some(drops);
            }
        }
        Block::Other
    }

    /// Says once, at the end, what happened often.
    fn close(&mut self, summary: &mut Summary) {
        let told = [
            (self.timeless, "packets carry no time (simple packet blocks): each is given that of the packet before it"),
            (self.orphans, "packets left out: they name an interface that their section does not declare"),
            (self.unknown, "blocks of unknown types left out"),
            (self.interfaces_left_out, "interfaces left out: too many"),
        ];
        for (count, what) in told {
            if count > 0 {
                summary.warn(format!("{count} {what}"));
            }
        }
    }
}

#[cold]
fn take_comments(big: bool, bytes: &[u8], summary: &mut Summary) {
    for (code, value) in options(big, bytes) {
        if code == block::OPT_COMMENT {
            summary.comment(value);
        }
    }
}

/// Whether Wireshark gives such a block a frame number though it is no packet (tried with tshark 4.0).
fn counted_by_wireshark(kind: u32) -> bool {
    matches!(kind, block::JOURNAL_EXPORT | block::CUSTOM | block::CUSTOM_NO_COPY)
        || block::SYSDIG_EVENTS.contains(&kind)
}
