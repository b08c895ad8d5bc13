//! What some bytes are, by their magic number.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::block;
use super::limits::Limits;
use super::reader::Reader;
use super::source;

/// How many bytes [`sniff`] likes to see; fewer will do.
pub const SNIFF_LENGTH: usize = 4096;

/// A layer of compression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compression {
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
    /// The LZ4 frame format.
    Lz4,
    /// The .xz format.
    Xz,
    /// bzip2.
    Bzip2,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bzip2",
        })
    }
}

/// A capture file format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CaptureFormat {
    /// Classic pcap.
    Pcap,
    /// pcapng.
    Pcapng,
}

impl fmt::Display for CaptureFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == CaptureFormat::Pcap { "pcap" } else { "pcapng" })
    }
}

/// What some bytes are, by their beginning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// No byte at all.
    Empty,
    /// A capture with records, or with too many bytes to say that it has none.
    Capture(CaptureFormat),
    /// A capture that holds its header and no packet. Only [`sniff_path`] says this.
    HeaderOnly(CaptureFormat),
    /// Compressed data.
    Compressed(Compression),
    /// Text: a log, a list of hosts, JSON.
    Text,
    /// Something known by name that is not read: another capture format, an archive.
    Foreign(&'static str),
    /// None of these.
    Unknown,
}

impl Kind {
    /// Whether a [`Reader`] makes something of it, be it only a warning.
    pub fn is_capture(self) -> bool {
        matches!(self, Kind::Capture(_) | Kind::HeaderOnly(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Empty => f.write_str("nothing"),
            Kind::Capture(format) => write!(f, "a {format} capture"),
            Kind::HeaderOnly(format) => write!(f, "a {format} capture without packets"),
            Kind::Compressed(compression) => write!(f, "{compression} data"),
            Kind::Text => f.write_str("text"),
            Kind::Foreign(name) => f.write_str(name),
            Kind::Unknown => f.write_str("unknown binary data"),
        }
    }
}

/// Magic numbers as they stand in the file. Most specific first.
const MAGICS: &[(&[u8], Kind)] = &[
    (b"\xa1\xb2\xc3\xd4", Kind::Capture(CaptureFormat::Pcap)),
    (b"\xd4\xc3\xb2\xa1", Kind::Capture(CaptureFormat::Pcap)),
    (b"\xa1\xb2\x3c\x4d", Kind::Capture(CaptureFormat::Pcap)),
    (b"\x4d\x3c\xb2\xa1", Kind::Capture(CaptureFormat::Pcap)),
    (b"\xa1\xb2\xcd\x34", Kind::Capture(CaptureFormat::Pcap)),
    (b"\x34\xcd\xb2\xa1", Kind::Capture(CaptureFormat::Pcap)),
    (b"\x0a\x0d\x0d\x0a", Kind::Capture(CaptureFormat::Pcapng)),
    (b"\x1f\x8b", Kind::Compressed(Compression::Gzip)),
    (b"\x28\xb5\x2f\xfd", Kind::Compressed(Compression::Zstd)),
    (b"\x04\x22\x4d\x18", Kind::Compressed(Compression::Lz4)),
    (b"\xfd7zXZ\0", Kind::Compressed(Compression::Xz)),
    (b"BZh", Kind::Compressed(Compression::Bzip2)),
    (b"snoop\0\0\0", Kind::Foreign("a snoop capture")),
    (b"\xa1\xb2\xc3\xcd", Kind::Foreign("a navtel pcap capture")),
    (b"\x1c\x00\x01\xac", Kind::Foreign("an IXIA lcap capture")),
    (b"\xac\x01\x00\x1c", Kind::Foreign("an IXIA lcap capture")),
    (b"\x1c\x00\x01\xab", Kind::Foreign("an IXIA lcap capture")),
    (b"\xab\x01\x00\x1c", Kind::Foreign("an IXIA lcap capture")),
    (b"GMBU", Kind::Foreign("a Network Monitor capture")),
    (b"RTSS", Kind::Foreign("a Network Monitor capture")),
    (b"PK\x03\x04", Kind::Foreign("a zip archive")),
    (b"7z\xbc\xaf\x27\x1c", Kind::Foreign("a 7z archive")),
    (b"\x1f\x9d", Kind::Foreign("compress (.Z) data")),
    (b"SQLite format 3\0", Kind::Foreign("a SQLite database")),
    (b"\x7fELF", Kind::Foreign("an ELF file")),
];

/// What `first_bytes` begin, by magic number; text is what has no other magic and no binary control characters.
///
/// Give it [`SNIFF_LENGTH`] bytes where there are so many.
pub fn sniff(first_bytes: &[u8]) -> Kind {
    if first_bytes.is_empty() {
        return Kind::Empty;
    }
    for (magic, kind) in MAGICS {
        if first_bytes.starts_with(magic) {
            // "BZh" alone may begin a text; bzip2 has a block size and the digits of pi (or of its root) after it.
            if *kind == Kind::Compressed(Compression::Bzip2) && !bzip2(first_bytes) {
                continue;
            }
            // Two line ends may begin a text; pcapng has its byte order magic after the block length.
            let pcapng = *kind == Kind::Capture(CaptureFormat::Pcapng);
            if pcapng && first_bytes.len() >= 12 && block::section_order(first_bytes).is_none() {
                continue;
            }
            return *kind;
        }
    }
    // Skippable frames (pzstd and the seekable format begin with one) share numbers between zstd and lz4; the zstd
    // tools are the ones that write them first.
    if let Some([0x50..=0x5f, 0x2a, 0x4d, 0x18]) = first_bytes.first_chunk::<4>() {
        return Kind::Compressed(Compression::Zstd);
    }
    if first_bytes.get(257..262) == Some(b"ustar") {
        return Kind::Foreign("a tar archive");
    }
    if first_bytes.starts_with(b"\xff\xfe") || first_bytes.starts_with(b"\xfe\xff") {
        return Kind::Text; // UTF-16 by its byte order mark
    }
    let binary = |b: &u8| matches!(b, 0..=7 | 0x0e..=0x1a | 0x1c..=0x1f);
    if first_bytes.iter().any(binary) { Kind::Unknown } else { Kind::Text }
}

fn bzip2(bytes: &[u8]) -> bool {
    let level = bytes.get(3).is_none_or(|b| (b'1'..=b'9').contains(b));
    let block = bytes.get(4).is_none_or(|b| matches!(b, 0x31 | 0x17));
    level && block
}

/// What [`sniff_path`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sniffed {
    /// What the content is; looked at through the compression, if there is one.
    pub kind: Kind,
    /// The layer of compression around it. Compressed data whose beginning cannot be unpacked keeps
    /// [`Kind::Compressed`] as its kind.
    pub compression: Option<Compression>,
}

/// What the regular file at `path` is, through one layer of compression. Whatever is no regular file is
/// [`Kind::Foreign`] and is not opened: opening a FIFO could wait forever.
///
/// # Errors
/// The system's, from looking up, opening or reading the file.
pub fn sniff_path(path: &Path) -> io::Result<Sniffed> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Sniffed { kind: Kind::Foreign("no regular file"), compression: None });
    }
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(SNIFF_LENGTH as u64).read_to_end(&mut head)?;
    match sniff(&head) {
        Kind::Compressed(compression) => {
            let whole = io::Cursor::new(head).chain(file);
            let limits = Limits::default();
            let mut content = Vec::new();
            let decoder = source::decoder(compression, Box::new(whole), &limits);
            // A decoder's error is no trouble here: what came before it is judged, and the reader will say it.
            let _ = decoder.and_then(|d| d.take(SNIFF_LENGTH as u64).read_to_end(&mut content));
            let kind = if content.is_empty() { Kind::Compressed(compression) } else { judge(&content) };
            Ok(Sniffed { kind, compression: Some(compression) })
        }
        _ => Ok(Sniffed { kind: judge(&head), compression: None }),
    }
}

/// [`sniff`], and whether a short capture holds a packet.
fn judge(head: &[u8]) -> Kind {
    match sniff(head) {
        Kind::Capture(format) if head.len() < SNIFF_LENGTH => {
            let bytes = io::Cursor::new(head.to_vec());
            let mut reader = match Reader::from_read("", Box::new(bytes), &Limits::default()) {
                Ok(reader) => reader,
                Err(_) => return Kind::Capture(format),
            };
            if matches!(reader.next(), Ok(None)) && !reader.summary().truncated && reader.summary().damaged_bytes == 0 {
                Kind::HeaderOnly(format)
            } else {
                Kind::Capture(format)
            }
        }
        kind => kind,
    }
}
