//! What a capture was, as far as it was read.

use std::fmt;

use super::kind::{CaptureFormat, Compression};
use super::packet::LinkType;
use crate::net::Address;
use crate::time::Timestamp;

/// Which capture this is, wherever it lies and however it is packed: SHA-256 over the first 64 KiB of the content
/// after decompression (the file header included) and the content's length (eight bytes, little-endian).
///
/// Hashing all of a capture would cost more than reading it; two captures that agree in their first 64 KiB (some
/// hundred packets with their times) and in their length are taken for one. A file that still grows changes its
/// identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub [u8; 32]);

impl Identity {
    /// How many bytes of content are hashed.
    pub const HEAD: u64 = 64 << 10;
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The byte order of a capture's headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// The form of a capture file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileLayout {
    /// File format; `None` for an empty file.
    pub format: Option<CaptureFormat>,
    /// Byte order of the header (pcapng: of the first section).
    pub byte_order: Option<ByteOrder>,
    /// Unit of the time stamps of the first interface, as `1e-6 s`, `1e-9 s`, `2^-20 s`.
    pub resolution: Option<String>,
    /// The compression around it.
    pub compression: Option<Compression>,
}

/// As `pcapng, little-endian, 1e-9 s, gzip`.
impl fmt::Display for FileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            Some(format) => write!(f, "{format}")?,
            None => f.write_str("empty")?,
        }
        match self.byte_order {
            Some(ByteOrder::Little) => f.write_str(", little-endian")?,
            Some(ByteOrder::Big) => f.write_str(", big-endian")?,
            None => {}
        }
        if let Some(resolution) = &self.resolution {
            write!(f, ", {resolution}")?;
        }
        self.compression.map_or(Ok(()), |c| write!(f, ", {c}"))
    }
}

/// One interface of a capture; classic pcap has one without a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name (pcapng `if_name`, or else `if_description`); empty when the capture names none. Not sanitized.
    pub name: String,
    /// Its link type.
    pub link_type: LinkType,
    /// The most bytes kept of a packet; `None` when the capture sets no bound (0 or 0xffffffff).
    pub snaplen: Option<u32>,
    /// Packets that the capturing program says it dropped (pcapng `isb_ifdrop`, the last one told).
    pub drops: Option<u64>,
    /// Packets read from it.
    pub packets: u64,
}

/// What a capture was, as far as it was read. Counts are right at any time; [`Summary::bytes`] and
/// [`Summary::identity`] once the reader has come to the end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Format, byte order, resolution and compression.
    pub form: FileLayout,
    /// Link types of the interfaces, in order of appearance.
    pub link_types: Vec<LinkType>,
    /// The interfaces, of all sections; [`Packet::interface`](super::Packet::interface) is an index here.
    pub interfaces: Vec<Interface>,
    /// Packets handed on.
    pub packets: u64,
    /// Bytes of content, after decompression.
    pub bytes: u64,
    /// The file ends inside a record, a header or its compressed data: it was being written, or was cut.
    pub truncated: bool,
    /// Packets of which fewer bytes were captured than were on the wire.
    pub cut_packets: u64,
    /// Damaged regions that were skipped.
    pub damaged_regions: u64,
    /// Bytes in them.
    pub damaged_bytes: u64,
    /// What went wrong, with place and length, for people. At most [`Summary::MAX_TEXTS`]; see `warnings_left_out`.
    pub warnings: Vec<String>,
    /// Warnings beyond those kept.
    pub warnings_left_out: u64,
    /// Steps of the clock: the packet's number, its time, and by how many nanoseconds that is later than the time of the packet
    /// before (negative: earlier). At most [`Summary::MAX_TEXTS`].
    pub clock_steps: Vec<(u64, i64, i64)>,
    /// Names for addresses that the capture carries (pcapng name resolution blocks). Not sanitized.
    pub names: Vec<(Address, String)>,
    /// Comments on sections, interfaces and packets, in order; bounded in number and length. Not sanitized.
    pub comments: Vec<String>,
    /// Which capture this is; set at its end.
    pub identity: Option<Identity>,
    /// Number of the last record, counted as Wireshark does.
    pub(super) number: u64,
    pub(super) earliest: Option<Timestamp>,
    pub(super) latest: Option<Timestamp>,
}

impl Summary {
    /// The most warnings, and the most comments, that are kept.
    pub const MAX_TEXTS: usize = 256;
    /// The most bytes of one comment that are kept.
    pub const MAX_COMMENT: usize = 1024;
    /// The most names that are kept.
    pub const MAX_NAMES: usize = 65_536;
    /// The most interfaces that are taken.
    pub const MAX_INTERFACES: usize = 65_536;

    /// The time of the earliest packet.
    pub fn first(&self) -> Option<Timestamp> {
        self.earliest
    }

    /// The time of the latest packet.
    pub fn last(&self) -> Option<Timestamp> {
        self.latest
    }

    pub(super) fn warn(&mut self, text: String) {
        if self.warnings.len() < Self::MAX_TEXTS {
            self.warnings.push(text);
        } else {
            self.warnings_left_out += 1;
        }
    }

    /// Notes `length` bytes at `offset` that could not be read as records.
    pub(super) fn damage(&mut self, offset: u64, length: u64, what: &str) {
        self.damaged_regions += 1;
        self.damaged_bytes += length;
        self.warn(format!("damaged at byte {offset}: {what}; {length} bytes skipped"));
    }

    /// Notes that the content ends inside `what`, which begins at `offset`.
    pub(super) fn cut(&mut self, what: &str, offset: u64, required: u64, held: usize) {
        self.truncated = true;
        self.warn(format!("ends inside {what} at byte {offset}: {required} bytes required, {held} there"));
    }

    pub(super) fn comment(&mut self, text: &[u8]) {
        if self.comments.len() < Self::MAX_TEXTS {
            let kept = text.get(..Self::MAX_COMMENT).unwrap_or(text);
            self.comments.push(String::from_utf8_lossy(kept).into_owned());
        }
    }

    /// Adds an interface and gives its index; `None` when there are too many.
    pub(super) fn add_interface(&mut self, name: String, link_type: LinkType, snaplen: u32) -> Option<u32> {
        if self.interfaces.len() >= Self::MAX_INTERFACES {
            return None;
        }
        let snaplen = Some(snaplen).filter(|s| !matches!(*s, 0 | u32::MAX));
        self.interfaces.push(Interface { name, link_type, snaplen, drops: None, packets: 0 });
        if self.link_types.len() < Self::MAX_TEXTS && !self.link_types.contains(&link_type) {
            self.link_types.push(link_type);
        }
        u32::try_from(self.interfaces.len() - 1).ok()
    }
}
