//! Packets of a capture, one after the other.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::buffer::{Buffer, End, Packed};
use super::error::CaptureError;
use super::filter::Matcher;
use super::kind::{CaptureFormat, Compression, Kind, SNIFF_LENGTH, sniff};
use super::limits::Limits;
use super::packet::Packet;
use super::pcap::Pcap;
use super::pcapng::Pcapng;
use super::record::Record;
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
    tally: Tally,
    filter: Option<Matcher>,
}

/// What is counted for every packet, apart from the summary: it is brought up to date when somebody asks for it.
struct Tally {
    packets: u64,
    cut_packets: u64,
    earliest: i64,
    latest: i64,
    /// Time of the packet before, for those that have none.
    before: i64,
    /// By how many nanoseconds the clock stepped at the last record, where it did.
    step: i64,
}

/// A record this much earlier than the one before, in nanoseconds, was not merely captured out of order: the clock was set.
const BACK: i64 = 1_000_000_000;
/// A record this much later is no idle time of a network, in nanoseconds: a day.
const FORWARD: i64 = 86_400_000_000_000;

impl Tally {
    const NONE: Tally = Tally { packets: 0, cut_packets: 0, earliest: i64::MAX, latest: i64::MIN, before: 0, step: 0 };

    /// Counts a record; its time, or that of the one before.
    #[inline(always)]
    fn note(&mut self, record: &Record) -> Timestamp {
        self.packets += 1;
        self.cut_packets += u64::from(record.captured < record.original as usize);
        if let Some(time) = record.time {
            let by = time.saturating_sub(self.before);
            // The first record has none before it.
            self.step = if !(-BACK..=FORWARD).contains(&by) && self.before != 0 { by } else { 0 };
            self.before = time;
            self.earliest = self.earliest.min(time);
            self.latest = self.latest.max(time);
        }
        Timestamp(self.before)
    }

    /// Warns of a step of the clock at packet `number`.
    #[cold]
    fn warn_of_step(&self, number: u64, summary: &mut Summary) {
        let seconds = self.step.unsigned_abs() as f64 / 1e9;
        let way = if self.step < 0 { "back" } else { "forward" };
        if summary.clock_steps.len() < Summary::MAX_TEXTS {
            summary.clock_steps.push((number, self.before, self.step));
        }
        summary.warn(format!(
            "packet {number}: its time is {seconds:.3} s {way} from that of the packet before: the clock was set, or the record is \
             damaged; packets stay in the order of the file, and times from there on are not those of the clock before"
        ));
    }

    /// Adds to `summary` what was counted since this was done last.
    fn settle(&mut self, summary: &mut Summary, one_interface: bool) {
        summary.packets += self.packets;
        summary.cut_packets += self.cut_packets;
        if one_interface {
            // Classic pcap: its numbers are its packets, and all of them are of its one interface.
            summary.number += self.packets;
            if let Some(interface) = summary.interfaces.first_mut() {
                interface.packets += self.packets;
            }
        }
        if self.earliest <= self.latest {
            let (earliest, latest) = (Timestamp(self.earliest), Timestamp(self.latest));
            summary.earliest = Some(summary.earliest.map_or(earliest, |t| t.min(earliest)));
            summary.latest = Some(summary.latest.map_or(latest, |t| t.max(latest)));
        }
        *self = Tally { before: self.before, step: self.step, ..Tally::NONE };
    }
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
        let filter = limits.filter.as_ref().map(Matcher::new);
        let mut reader = Reader { buffer, format, summary, tally: Tally::NONE, filter };
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
        let (record, time, number) = loop {
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
            let tally = &mut self.tally;
            let time = tally.note(&record);
            let number = if let Format::Blocks(_) = self.format {
                self.summary.number += 1;
                if let Some(interface) = self.summary.interfaces.get_mut(record.interface as usize) {
                    interface.packets += 1;
                }
                self.summary.number
            } else {
                self.summary.number + tally.packets
            };
            if self.tally.step != 0 {
                self.tally.warn_of_step(number, &mut self.summary);
            }
            let Some(filter) = &mut self.filter else { break (record, time, number) };
            let data = self.buffer.held().get(record.header..record.header + record.captured).unwrap_or_default();
            if filter.passes(record.link_type, data) {
                break (record, time, number);
            }
            self.buffer.consume(record.total);
        };
        let bytes = self.buffer.consume(record.total);
        Ok(Some(Packet {
            number,
            time,
            link_type: record.link_type,
            interface: record.interface,
            original_length: record.original,
            data: bytes.get(record.header..record.header + record.captured).unwrap_or_default(),
        }))
    }

    /// Hands every further packet to `take`; the same packets as [`Reader::next`], faster by a third on small ones,
    /// because the format is looked at once and not for every packet.
    ///
    /// # Errors
    /// As [`Reader::next`].
    #[inline]
    pub fn each(&mut self, mut take: impl FnMut(&Packet<'_>)) -> Result<(), CaptureError> {
        self.each_while(|packet| {
            take(packet);
            true
        })
    }

    /// As [`Reader::each`], until `take` says `false`; what was read until then is in the summary.
    ///
    /// # Errors
    /// As [`Reader::next`].
    #[inline]
    pub fn each_while(&mut self, mut take: impl FnMut(&Packet<'_>) -> bool) -> Result<(), CaptureError> {
        let filtered = self.filter.is_some();
        let whole = match &mut self.format {
            Format::Little(pcap) if !filtered => {
                all(pcap, &mut self.buffer, &mut self.summary, &mut self.tally, &mut take)
            }
            Format::Big(pcap) if !filtered => {
                all(pcap, &mut self.buffer, &mut self.summary, &mut self.tally, &mut take)
            }
            _ => {
                while let Some(packet) = self.next()? {
                    if !take(&packet) {
                        break;
                    }
                }
                return Ok(());
            }
        };
        if whole { self.finish() } else { Ok(()) }
    }

    fn settle(&mut self) {
        let classic = matches!(self.format, Format::Little(_) | Format::Big(_));
        self.tally.settle(&mut self.summary, classic);
    }

    /// What the capture was so far; all of it once [`Reader::next`] gave `None`.
    pub fn summary(&mut self) -> &Summary {
        self.settle();
        &self.summary
    }

    /// The summary, when nothing more is to be read.
    pub fn into_summary(mut self) -> Summary {
        self.settle();
        self.summary
    }

    /// How many bytes of content (after decompression) the records handed on so far, and the headers before them, take.
    pub fn offset(&self) -> u64 {
        self.buffer.offset()
    }

    #[cold]
    fn finish(&mut self) -> Result<(), CaptureError> {
        self.settle();
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

/// All packets of a classic capture, until `take` says `false`; whether it came to the end.
#[inline(always)]
fn all<const BIG: bool>(
    pcap: &mut Pcap<BIG>,
    buffer: &mut Buffer,
    summary: &mut Summary,
    tally: &mut Tally,
    take: &mut impl FnMut(&Packet<'_>) -> bool,
) -> bool {
    while let Some(record) = pcap.next(buffer, summary) {
        let time = tally.note(&record);
        let number = summary.number + tally.packets;
        if tally.step != 0 {
            tally.warn_of_step(number, summary);
        }
        let bytes = buffer.consume(record.total);
        let go_on = take(&Packet {
            number,
            time,
            link_type: record.link_type,
            interface: record.interface,
            original_length: record.original,
            data: bytes.get(record.header..record.header + record.captured).unwrap_or_default(),
        });
        if !go_on {
            return false;
        }
    }
    true
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
