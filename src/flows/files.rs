//! The bytes of streams, a file each, and where in them bytes are missing.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::net::Endpoint;
use crate::stream::GapCause;

/// Bytes that wait before a file is opened for them: so no number of streams needs more than one open file.
const BUFFER: usize = 64 << 10;
/// Gaps that are listed of a stream; all are counted.
const LISTED_GAPS: usize = 256;

/// Why streams cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The directory holds something.
    #[error("{0}: an empty or a new directory was required, it holds files")]
    NotEmpty(PathBuf),
    /// The system refused.
    #[error("{}: {error}{}", path.display(), full(error))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

/// Said of an error that a full file system causes, in plain words.
fn full(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::StorageFull { ": full disk" } else { "" }
}

/// A directory for the bytes of streams.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    failed: Option<FilesError>,
}

/// The file of one stream.
#[derive(Clone, Debug, Default)]
pub struct FileStream {
    /// Its name in the directory.
    pub name: String,
    /// Where bytes of the stream are missing: offset in the stream, length, why. The file leaves them out.
    pub gaps: Vec<(u64, u64, GapCause)>,
    /// How many such places there are.
    pub gap_count: u64,
    begun: bool,
    waiting: Vec<u8>,
}

impl FileStream {
    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.capacity() + self.gaps.len() * size_of::<(u64, u64, GapCause)>()
    }

    pub(super) fn gap(&mut self, offset: u64, length: u64, cause: GapCause) {
        self.gap_count += 1;
        if self.gaps.len() < LISTED_GAPS {
            self.gaps.push((offset, length, cause));
        }
    }
}

impl Files {
    /// Makes the directory, or takes one that is empty: nothing is ever overwritten.
    pub fn create(directory: &Path) -> Result<Files, FilesError> {
        let failed = |error| FilesError::Io { path: directory.to_path_buf(), error };
        crate::disk::create_dir_all(directory).map_err(failed)?;
        if fs::read_dir(directory).map_err(failed)?.next().is_some() {
            return Err(FilesError::NotEmpty(directory.to_path_buf()));
        }
        Ok(Files { directory: directory.to_path_buf(), failed: None })
    }

    /// What went wrong first.
    pub fn failure(self) -> Result<(), FilesError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// The file for a stream from `sender` to `receiver`; it is made with its first byte.
    pub(super) fn stream(&self, number: u64, sender: Endpoint, receiver: Endpoint) -> FileStream {
        let end = |e: Endpoint| e.to_string().replace(':', "_");
        FileStream { name: format!("{number:06}-{}-to-{}.bin", end(sender), end(receiver)), ..FileStream::default() }
    }

    /// Adds bytes; false once something has gone wrong.
    pub(super) fn write(&mut self, stream: &mut FileStream, bytes: &[u8]) -> bool {
        stream.waiting.extend_from_slice(bytes);
        stream.waiting.len() < BUFFER || self.flush(stream)
    }

    /// Writes what waits; false once something has gone wrong.
    pub(super) fn finish(&mut self, stream: &mut FileStream) -> bool {
        let done = stream.waiting.is_empty() || self.flush(stream);
        stream.waiting = Vec::new();
        done
    }

    fn flush(&mut self, stream: &mut FileStream) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let path = self.directory.join(&stream.name);
        let mut options = crate::disk::private();
        // The first time the name must be free, also of links.
        let options = if stream.begun { options.append(true) } else { options.create_new(true) };
        stream.begun = true;
        let written = options.open(&path).and_then(|mut f| f.write_all(&stream.waiting));
        stream.waiting.clear();
        if let Err(error) = written {
            self.failed = Some(FilesError::Io { path, error });
        }
        self.failed.is_none()
    }
}
