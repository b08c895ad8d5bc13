//! Rows of a case, as values.

use crate::time::Timestamp;

/// A capture set: captures that are read as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRow {
    /// Its number.
    pub id: i64,
    /// Its last packet.
    pub last: Option<Timestamp>,
}

/// What became of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureState {
    /// It may grow.
    Growing,
    /// A newer one followed it, or it was compressed, or nobody writes it any more.
    Finished,
    /// Another one has taken its name, or it was removed, before it was known to be finished.
    Gone,
}

impl CaptureState {
    /// In a word, as the case holds it.
    pub fn text(self) -> &'static str {
        match self {
            CaptureState::Growing => "growing",
            CaptureState::Finished => "finished",
            CaptureState::Gone => "gone",
        }
    }

    pub(super) fn of(text: &str) -> CaptureState {
        match text {
            "growing" => CaptureState::Growing,
            "gone" => CaptureState::Gone,
            _ => CaptureState::Finished,
        }
    }
}

/// A capture, as far as it was read.
#[derive(Clone, Debug)]
pub struct CaptureRow {
    /// Its number; 0 before it has one.
    pub id: u32,
    /// The set it belongs to.
    pub set: i64,
    /// Its path, when it was read last.
    pub path: String,
    /// Device and inode.
    pub inode: (u64, u64),
    /// Bytes of the file, as it lay there when it was read last.
    pub size: u64,
    /// When it was changed last, nanoseconds since the epoch.
    pub modified: i64,
    /// How many bytes of content were hashed: it is known by them.
    pub head_length: u64,
    /// SHA-256 of these.
    pub head_hash: [u8; 32],
    /// Number of the last packet that was taken.
    pub consumed: u64,
    /// Bytes of content that were taken.
    pub offset: u64,
    /// What became of it.
    pub state: CaptureState,
    /// Its first packet.
    pub first: Option<Timestamp>,
    /// Its last packet so far.
    pub last: Option<Timestamp>,
    /// What it was, as far as it was read.
    pub summary: Option<crate::capture::Summary>,
    /// Why reading ended early.
    pub error: Option<String>,
}

/// A log, as far as it was read.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Its number; 0 before it has one.
    pub id: i64,
    /// Its path.
    pub path: String,
    /// The host of `HOST=PATH`.
    pub host: Option<String>,
    /// Device and inode.
    pub inode: (u64, u64),
    /// How many bytes were hashed.
    pub head_length: u64,
    /// SHA-256 of these.
    pub head_hash: [u8; 32],
    /// Bytes that were taken.
    pub offset: u64,
    /// Lines that were taken.
    pub lines: u64,
    /// Bytes of lines that were kept.
    pub kept: u64,
}
