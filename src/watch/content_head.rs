//! By what a file that is read again and again is known: its first bytes of content, not its name.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::capture::{Limits, unpacked};

/// Bytes of content that are hashed: file header and some hundred packets with their times.
const HEAD: u64 = 64 << 10;

/// The first bytes of a file's content, after decompression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head(Vec<u8>);

impl Head {
    pub(super) fn read(path: &Path) -> std::io::Result<Head> {
        let mut bytes = Vec::new();
        let mut input = unpacked(path, &Limits::default())?.take(HEAD);
        match input.read_to_end(&mut bytes) {
            // A compressed file that is still written ends too early: what there is will do.
            Err(e) if e.kind() != std::io::ErrorKind::UnexpectedEof && bytes.is_empty() => Err(e),
            _ => Ok(Head(bytes)),
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.0.len() as u64
    }

    /// The hash of the first `length` bytes; `None` when there are fewer.
    pub(super) fn hash(&self, length: u64) -> Option<[u8; 32]> {
        let bytes = self.0.get(..usize::try_from(length).ok()?)?;
        Some(Sha256::digest(bytes).into())
    }

    /// Whether a file of which `length` bytes had `hash` may be this one.
    pub(super) fn is(&self, length: u64, hash: &[u8; 32]) -> bool {
        length > 0 && self.hash(length).as_ref() == Some(hash)
    }
}

/// Whether two files hold the same, after decompression, as far as the shorter one goes.
pub(super) fn same_content(a: &Path, b: &Path) -> std::io::Result<bool> {
    let mut files = [unpacked(a, &Limits::default())?, unpacked(b, &Limits::default())?];
    let mut buffers = [vec![0u8; HEAD as usize], vec![0u8; HEAD as usize]];
    loop {
        let mut lengths = [0; 2];
        for ((file, buffer), length) in files.iter_mut().zip(&mut buffers).zip(&mut lengths) {
            *length = fill(file, buffer)?;
        }
        let [a, b] = &buffers;
        let n = lengths[0].min(lengths[1]);
        if a.get(..n) != b.get(..n) {
            return Ok(false);
        }
        if n < HEAD as usize {
            return Ok(true);
        }
    }
}

/// Fills a buffer as far as the content goes; a compressed file that is still written may end too early.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut n = 0;
    while let Some(free) = buffer.get_mut(n..).filter(|f| !f.is_empty()) {
        match input.read(free) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

/// How a file lies in its file system: enough to see that it has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) inode: (u64, u64),
    pub(super) size: u64,
    /// Nanoseconds since the epoch.
    pub(super) modified: i64,
}

impl Stat {
    pub(super) fn of(path: &Path) -> std::io::Result<Stat> {
        let m = std::fs::metadata(path)?;
        let modified = m.mtime().saturating_mul(1_000_000_000).saturating_add(m.mtime_nsec());
        Ok(Stat { inode: (m.dev(), m.ino()), size: m.len(), modified })
    }
}
