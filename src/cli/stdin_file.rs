//! Captures on standard input: kept in a file for as long as they are needed, because they are read twice.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::analysis::Knowledge;

/// Standard input as a file; it is removed when this is dropped.
pub(super) struct StdinFile {
    path: Option<PathBuf>,
    label: String,
}

impl StdinFile {
    /// Reads standard input, which is called `label`, to its end if one of `paths` is `-`, and puts the file in its place.
    pub(super) fn of(paths: &mut [PathBuf], label: &str) -> anyhow::Result<StdinFile> {
        let Some(place) = paths.iter_mut().find(|p| p.as_path() == Path::new("-")) else {
            return Ok(StdinFile { path: None, label: label.to_string() });
        };
        let (path, mut file) = create().context("cannot make a temporary file for standard input")?;
        let spool = StdinFile { path: Some(path.clone()), label: label.to_string() };
        io::copy(&mut io::stdin().lock(), &mut file).context("cannot keep standard input in a temporary file")?;
        *place = path;
        Ok(spool)
    }

    /// Calls the file what standard input is called.
    pub(super) fn rename(&self, known: &mut Knowledge) {
        let Some(path) = &self.path else { return };
        for (label, capture) in known.labels.iter_mut().zip(&known.captures) {
            if capture == path {
                label.clone_from(&self.label);
            }
        }
        for (label, _) in &mut known.errors {
            if Path::new(label) == path {
                label.clone_from(&self.label);
            }
        }
    }
}

impl Drop for StdinFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A file that nobody else has, readable by nobody else.
fn create() -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    for i in 0..64 {
        let path = std::env::temp_dir().join(format!("rdzvscope-{}-{now:x}-{i}", std::process::id()));
        match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (path, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
