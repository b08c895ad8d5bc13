//! Writing pcapng: what `carve` keeps and `annotate` comments.

use std::io::{self, Write};

use super::block::{self, padded};
use super::packet::{LinkType, Packet};

/// Nanoseconds: the only resolution written.
const TSRESOL: u8 = 9;
/// `if_tsoffset` (seconds) of interfaces for times before 1970: the whole second below the earliest [`Timestamp`].
///
/// [`Timestamp`]: crate::time::Timestamp
const BEFORE_EPOCH: i64 = i64::MIN.div_euclid(1_000_000_000);
/// The most bytes that an option holds.
const MAX_OPTION: usize = 65_535;

/// Writes one pcapng section, little-endian, with nanosecond times. Each combination of link type, snaplen and name
/// that comes along becomes an interface of its own. Give it a buffered output: it writes in small pieces.
pub struct Writer<W: Write> {
    out: W,
    interfaces: Vec<(LinkType, u32, String, bool)>,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section that names `application` as its writer.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let mut writer = Writer { out, interfaces: Vec::new(), block: Vec::new() };
        writer.block.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        writer.block.extend_from_slice(&(-1_i64).to_le_bytes());
        writer.option(4, application.as_bytes());
        writer.end_options();
        writer.put(block::SECTION_HEADER)?;
        Ok(writer)
    }

    /// Writes `packet` as seen on an interface called `name` (empty: no name) with a bound of `snaplen` bytes a packet
    /// (0: none), with a comment where there is one. `packet.interface` and `packet.number` are not kept.
    ///
    /// # Errors
    /// Those of the output, and `InvalidInput` for more than 2^31 bytes or a link type over 65535, which pcapng cannot say.
    pub fn write(&mut self, packet: &Packet<'_>, snaplen: u32, name: &str, comment: Option<&str>) -> io::Result<()> {
        let early = packet.time.0 < 0;
        let interface = match self.interfaces.iter().position(|(link, snap, known, before)| {
            (*link, *snap, known.as_str(), *before) == (packet.link_type, snaplen, name, early)
        }) {
            Some(index) => index,
            None => self.interface(packet.link_type, snaplen, name, early)?,
        };
        let offset = if early { i128::from(BEFORE_EPOCH) * 1_000_000_000 } else { 0 };
        // Not negative, and at most 2^63 + 10^9.
        let ticks = (i128::from(packet.time.0) - offset) as u64;
        let captured = u32::try_from(packet.data.len()).ok().filter(|n| *n <= 1 << 31).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("a packet of {} bytes", packet.data.len()))
        })?;
        for field in [interface as u32, (ticks >> 32) as u32, ticks as u32, captured, packet.original_length] {
            self.block.extend_from_slice(&field.to_le_bytes());
        }
        self.block.extend_from_slice(packet.data);
        self.pad();
        if let Some(comment) = comment {
            self.option(block::OPT_COMMENT, comment.as_bytes());
            self.end_options();
        }
        self.put(block::ENHANCED_PACKET)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file; what it was written to.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn interface(&mut self, link_type: LinkType, snaplen: u32, name: &str, early: bool) -> io::Result<usize> {
        let Ok(link) = u16::try_from(link_type.0) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("link type {}", link_type.0)));
        };
        self.block.extend_from_slice(&link.to_le_bytes());
        self.block.extend_from_slice(&[0, 0]);
        self.block.extend_from_slice(&snaplen.to_le_bytes());
        if !name.is_empty() {
            self.option(block::IF_NAME, name.as_bytes());
        }
        self.option(block::IF_TSRESOL, &[TSRESOL]);
        if early {
            self.option(block::IF_TSOFFSET, &BEFORE_EPOCH.to_le_bytes());
        }
        self.end_options();
        self.put(block::INTERFACE)?;
        self.interfaces.push((link_type, snaplen, name.to_owned(), early));
        Ok(self.interfaces.len() - 1)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Cut where a character begins, so that the text stays UTF-8.
        let mut length = value.len().min(MAX_OPTION);
        while length < value.len() && value.get(length).is_some_and(|b| b & 0xc0 == 0x80) {
            length -= 1;
        }
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(length as u16).to_le_bytes());
        self.block.extend_from_slice(value.get(..length).unwrap_or_default());
        self.pad();
    }

    fn end_options(&mut self) {
        self.block.extend_from_slice(&[0; 4]);
    }

    fn pad(&mut self) {
        self.block.resize(padded(self.block.len()), 0);
    }

    /// Writes the block whose body has been gathered.
    fn put(&mut self, kind: u32) -> io::Result<()> {
        let total = (self.block.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&total)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&total)?;
        self.block.clear();
        Ok(())
    }
}
