//! Packets of a capture, one after the other.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::buffer::{Buffer, End, Packed};
use super::error::CaptureError;
use super::kind::{CaptureFormat, Compression, Kind, SNIFF_LENGTH, sniff};
use super::limits::Limits;
use super::packet::Packet;
use super::pcap::Pcap;
use super::pcapng::Pcapng;
use super::source::{Counted, decoder};
use super::summary::Summary;
use crate::time::Timestamp;

/// Reads packets from a capture file or a pipe, compressed or not.
///
/// Packets are lent from the reader's one buffer; nothing is copied or allocated for a packet. A pipe is never
/// waited for longer than the next whole record needs.
pub struct Reader {
    buffer: Buffer,
    format: Format,
    summary: Summary,
    /// Time of the packet before, for those that have none.
    before: i64,
}

/// The format, with the byte order of classic pcap settled once.
enum Format {
    Little(Pcap<false>),
    Big(Pcap<true>),
    Blocks(Pcapng),
    /// Nothing more to come.
    Done,
}

impl Reader {
    /// Opens the file (or FIFO) at `path`. An empty file and one that holds only a header open well and have no
    /// packets.
    ///
    /// # Errors
    /// When the file cannot be opened or read, is no capture, or unpacks to none.
    pub fn open(path: &Path, limits: &Limits) -> Result<Reader, CaptureError> {
        let file = File::open(path).map_err(|source| CaptureError::Open { path: path.to_owned(), source })?;
        Reader::from_read(&path.to_string_lossy(), Box::new(file), limits)
    }

    /// Reads a capture from `source`, which errors call `name`.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn from_read(name: &str, source: Box<dyn Read + Send>, limits: &Limits) -> Result<Reader, CaptureError> {
        let mut buffer = Buffer::new(name, source, None);
        buffer.fill(12);
        let mut kind = sniff(first(&buffer));
        let mut compression = None;
        if let Kind::Compressed(found) = kind {
            compression = Some(found);
            buffer = unpack(name, buffer, found, limits)?;
            buffer.fill(12);
            kind = sniff(first(&buffer));
        }
        let mut summary = Summary::default();
        summary.form.compression = compression;
        let max_record = limits.record();
        let format = match kind {
            Kind::Capture(CaptureFormat::Pcapng) => Format::Blocks(Pcapng::new(&mut summary, max_record)),
            Kind::Capture(CaptureFormat::Pcap) if buffer.held().starts_with(&[0xa1]) => {
                Pcap::open(&mut buffer, &mut summary, max_record).map_or(Format::Done, Format::Big)
            }
            Kind::Capture(CaptureFormat::Pcap) => {
                Pcap::open(&mut buffer, &mut summary, max_record).map_or(Format::Done, Format::Little)
            }
            Kind::Empty => Format::Done,
            kind => {
                if let Some(End::Failed(error)) = buffer.ended()
                    && let Some(error) = error.take()
                {
                    return Err(error);
                }
                return Err(CaptureError::NotACapture { name: name.to_owned(), kind, compression });
            }
        };
        let mut reader = Reader { buffer, format, summary, before: 0 };
        if matches!(reader.format, Format::Done) {
            reader.finish()?;
        }
        Ok(reader)
    }

    /// The next packet; `None` at the end of the capture, which is also where a cut or damaged one ends
    /// ([`Summary::warnings`] says why).
    ///
    /// # Errors
    /// When reading or unpacking fails, or a limit is met: once, after the last whole record before that. Then `None`.
    // Not an Iterator: the packet is lent.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        let record = match &mut self.format {
            Format::Little(pcap) => pcap.next(&mut self.buffer, &mut self.summary),
            Format::Big(pcap) => pcap.next(&mut self.buffer, &mut self.summary),
            Format::Blocks(pcapng) => pcapng.next(&mut self.buffer, &mut self.summary),
            Format::Done => return Ok(None),
        };
        let Some(record) = record else {
            self.finish()?;
            return Ok(None);
        };
        let summary = &mut self.summary;
        summary.packets += 1;
        summary.number += 1;
        summary.cut_packets += u64::from(record.captured < record.original as usize);
        if let Some(interface) = summary.interfaces.get_mut(record.interface as usize) {
            interface.packets += 1;
        }
        if let Some(time) = record.time {
            self.before = time;
            let time = Timestamp(time);
            if summary.earliest.is_none_or(|t| time < t) {
                summary.earliest = Some(time);
            }
            if summary.latest.is_none_or(|t| time > t) {
                summary.latest = Some(time);
            }
        }
        let number = summary.number;
        let bytes = self.buffer.consume(record.total);
        Ok(Some(Packet {
            number,
            time: Timestamp(self.before),
            link_type: record.link_type,
            interface: record.interface,
            original_length: record.original,
            data: bytes.get(record.header..record.header + record.captured).unwrap_or_default(),
        }))
    }

    /// What the capture was so far; all of it once [`Reader::next`] gave `None`.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The summary, when nothing more is to be read.
    pub fn into_summary(self) -> Summary {
        self.summary
    }

    /// How many bytes of content (after decompression) the records handed on so far, and the headers before them, take.
    pub fn offset(&self) -> u64 {
        self.buffer.offset()
    }

    #[cold]
    fn finish(&mut self) -> Result<(), CaptureError> {
        self.format = Format::Done;
        let summary = &mut self.summary;
        summary.bytes = self.buffer.total();
        summary.identity = Some(self.buffer.identity());
        match self.buffer.ended() {
            Some(End::Failed(error)) => {
                if let Some(error) = error.take() {
                    return Err(error);
                }
            }
            Some(End::Cut(compression)) => {
                summary.truncated = true;
                let bytes = summary.bytes;
                summary.warn(format!("the {compression} data ends before its end, after {bytes} bytes of content"));
            }
            Some(End::Plain) | None => {}
        }
        if summary.bytes == 0 && !summary.truncated {
            summary.warn("empty: 0 bytes".to_owned());
        } else if summary.packets == 0 && !summary.truncated && summary.damaged_regions == 0 {
            summary.warn("holds a file header and no packet".to_owned());
        }
        Ok(())
    }
}

fn first(buffer: &Buffer) -> &[u8] {
    let held = buffer.held();
    held.get(..SNIFF_LENGTH).unwrap_or(held)
}

/// A buffer over what `buffer` and its source unpack to.
fn unpack(name: &str, buffer: Buffer, compression: Compression, limits: &Limits) -> Result<Buffer, CaptureError> {
    let (counted, input) = Counted::new(buffer.into_source());
    let source = decoder(compression, Box::new(counted), limits).map_err(|source| CaptureError::Decompress {
        name: name.to_owned(),
        compression,
        input: 0,
        offset: 0,
        source,
    })?;
    Ok(Buffer::new(name, source, Some(Packed { compression, input, limits: limits.clone() })))
}
