//! Outputs: written beside their place under a hidden name, renamed when they are whole, readable by nobody else.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::guard::what_must_stay;

/// Permissions of files that hold observations; read and written by their owner alone, unless the user said otherwise.
static MODE: AtomicU32 = AtomicU32::new(0o600);

/// Sets the permissions of files that are made from here on; directories let in whoever may read the files.
pub fn set_mode(mode: u32) {
    MODE.store(mode & 0o777, Ordering::Relaxed);
}

fn file_mode() -> u32 {
    MODE.load(Ordering::Relaxed)
}

/// How a file that holds observations is opened to be written: one that is made is private.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(file_mode());
    options
}

/// Makes a directory for observations, and those above it. One that is there stays as it is.
///
/// # Errors
/// The system's.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    let mode = file_mode();
    // Whoever may read a file may look into its directory.
    DirBuilder::new().recursive(true).mode(mode | (mode & 0o444) >> 2).create(path)
}

/// An output in the making. It stands beside its place under a hidden name until [`NewFile::finish`]; where that does not
/// come, nothing is left of it and what stood in its place stays.
#[derive(Debug)]
pub struct NewFile {
    out: BufWriter<File>,
    /// The hidden name, and the place it will take; `None` where the output is written to at once, as a terminal is.
    moves: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Begins an output at `path`. A link is followed: the file that it leads to is replaced. A device, a pipe, and a file
    /// in a directory that may not be written, are written to directly.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> io::Result<NewFile> {
        let there = fs::metadata(path).ok();
        let special =
            there.as_ref().is_some_and(|m| !m.is_file()) || path.starts_with("/dev") || path.starts_with("/proc");
        if special {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            return Ok(NewFile { out: BufWriter::new(file), moves: None });
        }
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = place.file_name().ok_or_else(|| io::Error::other("the name of a file was required"))?;
        let hidden = (0..64).map(|i| {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{i}.part", std::process::id()));
            place.with_file_name(hidden)
        });
        for hidden in hidden {
            match private().create_new(true).open(&hidden) {
                Ok(file) => {
                    if let Some(there) = &there {
                        // Who may read it was decided when it was made.
                        file.set_permissions(fs::Permissions::from_mode(there.mode() & 0o777))?;
                    }
                    return Ok(NewFile { out: BufWriter::new(file), moves: Some((hidden, place)) });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied && there.is_some() => {
                    let file = private().truncate(true).open(&place)?;
                    return Ok(NewFile { out: BufWriter::new(file), moves: None });
                }
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Puts the output in its place, whole. What must not be overwritten may have come there in the meantime.
    ///
    /// # Errors
    /// The system's: a full disk, for one; or that a capture, a case or evidence stands there now.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some((hidden, place)) = &self.moves else { return Ok(()) };
        self.out.get_ref().sync_all()?;
        if let Some(what) = what_must_stay(place) {
            return Err(io::Error::other(format!("refused, for it would overwrite {what}")));
        }
        fs::rename(hidden, place)?;
        self.moves = None;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((hidden, _)) = &self.moves {
            let _ = fs::remove_file(hidden);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn an_output_is_there_whole_or_not_at_all_and_private() {
        let place = tempfile::tempdir().unwrap();
        let (path, link) = (place.path().join("report"), place.path().join("link"));
        let write = |path: &Path, text: &str| {
            let mut new = NewFile::create(path).unwrap();
            new.write_all(text.as_bytes()).unwrap();
            new
        };
        drop(write(&path, "half"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        write(&path, "one").finish().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("one", 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, "two").finish().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("two", 0o640));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // A capture took the place while the report was made.
        let new = write(&path, "three");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/incident-torch1.13/node-a.pcap"), &path).unwrap();
        assert!(new.finish().unwrap_err().to_string().contains("a capture"));
        assert!(fs::metadata(&path).unwrap().len() > 1000);
        write(Path::new("/dev/null"), "four").finish().unwrap();
        let directory = place.path().join("a/b");
        create_dir_all(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    }
}
