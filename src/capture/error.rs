//! Why a capture could not be read, or not further.

use std::io;
use std::path::PathBuf;

use super::kind::{Compression, Kind};

/// Why a capture could not be read, or not further. What was handed on before stays good.
///
/// A capture that is empty, ends in mid-packet or is damaged in places is none of these: the reader goes on and
/// says so in [`Summary::warnings`](super::Summary::warnings).
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file could not be opened.
    #[error("{}: cannot open: {source}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system failed while reading.
    #[error("{name}: read failed after {offset} bytes: {source}")]
    Read {
        /// The capture's name.
        name: String,
        /// Bytes of content (after decompression) read before.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The first bytes are not those of a capture.
    #[error("{name}: not a capture: a pcap or pcapng magic number was required at byte 0{}, {kind} was there", within(*.compression))]
    NotACapture {
        /// The capture's name.
        name: String,
        /// What the first bytes are instead.
        kind: Kind,
        /// The compression that was looked through.
        compression: Option<Compression>,
    },
    /// The compressed data is corrupt or needs more than the limits allow.
    #[error("{name}: {compression} data fails near compressed byte {input}, after {offset} bytes of content: {source}")]
    Decompress {
        /// The capture's name.
        name: String,
        /// The compression.
        compression: Compression,
        /// Compressed bytes taken in so far (read ahead included).
        input: u64,
        /// Bytes of content unpacked before.
        offset: u64,
        /// The decoder's reason.
        source: io::Error,
    },
    /// The compressed data unpacks to more than the limits allow.
    #[error("{name}: {compression} data unpacks to too much: {offset} bytes from {input}; {limit} is the limit")]
    Expansion {
        /// The capture's name.
        name: String,
        /// The compression.
        compression: Compression,
        /// Compressed bytes taken in so far.
        input: u64,
        /// Bytes of content unpacked so far.
        offset: u64,
        /// The limit that was met, in words.
        limit: String,
    },
}

fn within(compression: Option<Compression>) -> String {
    compression.map_or_else(String::new, |c| format!(" of the unpacked {c} data"))
}
