//! The one buffer between a source and its records.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::error::CaptureError;
use super::kind::Compression;
use super::limits::Limits;
use super::summary::Identity;

/// Bytes asked of the source at a time. Sequential aligned reads of this size beat both smaller ones and mmap.
const READ: usize = 1 << 20;
/// A page: what reads are aligned to.
const PAGE: usize = 4096;
/// Room for the beginning of a record whose end the next read brings; doubled when a record needs more.
const ROOM: usize = 64 << 10;

/// How a source came to its end.
#[derive(Debug)]
pub(super) enum End {
    /// As a file ends.
    Plain,
    /// Compressed data that stops before its own end.
    Cut(Compression),
    /// Not at all: reading failed. Taken by whoever reports it.
    Failed(Option<CaptureError>),
}

/// The compression around a source, with the limits that hold for it.
pub(super) struct Packed {
    pub(super) compression: Compression,
    pub(super) input: Arc<AtomicU64>,
    pub(super) limits: Limits,
}

/// Bytes of a source: `storage[start..end]` are read and not yet consumed.
///
/// Reads go to `storage[mark..]`, where `mark` is page-aligned in memory; what is left of a record is moved to end
/// there first. So a file is read in aligned pieces of [`READ`] bytes, and only partial records are ever copied.
/// Invariant: `start <= end <= storage.len()`, `mark + READ == storage.len()`.
pub(super) struct Buffer {
    storage: Vec<u8>,
    mark: usize,
    start: usize,
    end: usize,
    source: Box<dyn Read + Send>,
    name: String,
    packed: Option<Packed>,
    /// Content bytes read so far.
    total: u64,
    ended: Option<End>,
    head: Sha256,
}

impl Buffer {
    pub(super) fn new(name: &str, source: Box<dyn Read + Send>, packed: Option<Packed>) -> Self {
        let (storage, mark) = allocate(ROOM);
        let (start, end) = (mark, mark);
        let name = name.to_owned();
        Buffer { storage, mark, start, end, source, name, packed, total: 0, ended: None, head: Sha256::new() }
    }

    /// What is read and not consumed.
    #[inline]
    pub(super) fn held(&self) -> &[u8] {
        self.storage.get(self.start..self.end).unwrap_or_default()
    }

    /// Where `held` begins in the content.
    pub(super) fn offset(&self) -> u64 {
        self.total - (self.end - self.start) as u64
    }

    /// Content bytes read so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Takes `n` bytes (at most those held) off the front, and gives their slice.
    #[inline]
    pub(super) fn consume(&mut self, n: usize) -> &[u8] {
        let from = self.start;
        self.start = self.end.min(from + n);
        self.storage.get(from..self.start).unwrap_or_default()
    }

    /// Reads until `need` bytes are held; false when the source ends before.
    #[inline]
    pub(super) fn fill(&mut self, need: usize) -> bool {
        while self.end - self.start < need {
            if !self.read_more() {
                return false;
            }
        }
        true
    }

    /// How the source ended, once it has.
    pub(super) fn ended(&mut self) -> Option<&mut End> {
        self.ended.as_mut()
    }

    /// The identity of the content, as far as it was read.
    pub(super) fn identity(&self) -> Identity {
        let mut hash = self.head.clone();
        hash.update(self.total.to_le_bytes());
        Identity(hash.finalize().into())
    }

    /// The source and the bytes held, for a decoder to sit on. Only before anything was consumed.
    pub(super) fn into_source(self) -> Box<dyn Read + Send> {
        let held = self.held().to_vec();
        Box::new(io::Cursor::new(held).chain(self.source))
    }

    /// One read. False when there is nothing more.
    #[cold]
    fn read_more(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        if self.start == self.end {
            (self.start, self.end) = (self.mark, self.mark);
        } else if self.end == self.storage.len() {
            self.make_room();
        }
        let n = loop {
            let Some(free) = self.storage.get_mut(self.end..) else { return false };
            match self.source.read(free) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(n) => break n.min(free.len()),
                Err(e) => {
                    self.ended = Some(self.failure(e));
                    return false;
                }
            }
        };
        if n == 0 {
            self.ended = Some(End::Plain);
            return false;
        }
        // The head is hashed as it arrives: a pipe must not be waited for on account of its identity.
        if let Some(wanted) = Identity::HEAD.checked_sub(self.total).filter(|w| *w > 0) {
            let take = n.min(usize::try_from(wanted).unwrap_or(n));
            self.head.update(self.storage.get(self.end..self.end + take).unwrap_or_default());
        }
        self.end += n;
        self.total += n as u64;
        self.check_expansion();
        true
    }

    /// Moves what is held so that it ends at `mark`; grows the room before it when it is longer than that.
    fn make_room(&mut self) {
        let held = self.end - self.start;
        if held <= self.mark {
            let to = self.mark - held;
            self.storage.copy_within(self.start..self.end, to);
            self.start = to;
        } else {
            // As many bytes have arrived: growing by what is held follows the data, not a number in it.
            let (mut storage, mark) = allocate(held.next_power_of_two());
            if let Some(place) = storage.get_mut(mark - held..mark) {
                place.copy_from_slice(self.held());
            }
            (self.storage, self.mark, self.start) = (storage, mark, mark - held);
        }
        self.end = self.mark;
    }

    fn failure(&self, source: io::Error) -> End {
        let name = self.name.clone();
        let Some(packed) = &self.packed else {
            return End::Failed(Some(CaptureError::Read { name, offset: self.total, source }));
        };
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return End::Cut(packed.compression);
        }
        let input = packed.input.load(Ordering::Relaxed);
        let compression = packed.compression;
        End::Failed(Some(CaptureError::Decompress { name, compression, input, offset: self.total, source }))
    }

    fn check_expansion(&mut self) {
        let Some(packed) = &self.packed else { return };
        let input = packed.input.load(Ordering::Relaxed);
        let ratio = packed.limits.max_expansion_ratio;
        let limit = if self.total > packed.limits.max_output {
            format!("{} bytes of content", packed.limits.max_output)
        } else if self.total > packed.limits.ratio_from && self.total / ratio.max(1) > input {
            format!("{ratio} bytes out for one in")
        } else {
            return;
        };
        let (name, compression) = (self.name.clone(), packed.compression);
        let error = CaptureError::Expansion { name, compression, input, offset: self.total, limit };
        self.ended = Some(End::Failed(Some(error)));
    }
}

/// Zeroed storage with at least `room` bytes before a page-aligned place with [`READ`] bytes after it.
fn allocate(room: usize) -> (Vec<u8>, usize) {
    let mut storage = vec![0; room + PAGE + READ];
    let misaligned = (storage.as_ptr() as usize + room) % PAGE;
    let mark = room + (PAGE - misaligned) % PAGE;
    storage.truncate(mark + READ);
    (storage, mark)
}
