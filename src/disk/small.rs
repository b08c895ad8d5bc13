//! Files that are read as a whole: lists, boot times, suppressions.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Bytes of a file that is read as a whole, where its use sets no smaller bound: nodes and pods of a large cluster take
/// tens of megabytes.
pub const SMALL_FILE: u64 = 256 << 20;

/// Whether a path leads to a regular file, in the words of an error where it does not. Nothing is opened: a FIFO would
/// wait for a writer for ever, and a device never ends.
///
/// # Errors
/// The system's, and that something else is there.
pub fn require_regular_file(path: &Path) -> io::Result<u64> {
    let meta = fs::metadata(path)?;
    let kind = meta.file_type();
    let there = if kind.is_file() {
        return Ok(meta.len());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO or pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a regular file was required, {there} was there")))
}

/// The content of a file of at most `most` bytes; `-` is standard input.
///
/// # Errors
/// The system's, that it is no regular file, and that it is larger.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(most + 1).read_to_end(&mut bytes)?;
    } else {
        require_regular_file(path)?;
        File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > most {
        let text = format!("at most {most} bytes were expected, it is longer");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("list");
        fs::write(&path, "four").unwrap();
        assert_eq!(read_small(&path, 4).unwrap(), b"four");
        let error = |path: &Path| read_small(path, 3).unwrap_err().to_string();
        assert!(error(&path).contains("at most 3 bytes"));
        assert!(error(Path::new("/dev/zero")).contains("a device was there"));
        assert!(error(place.path()).contains("a directory was there"));
    }
}
