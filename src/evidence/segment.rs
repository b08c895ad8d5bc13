//! Segments of evidence as files: written beside their name, finished by renaming.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::facts::FactSet;
use super::line::write_lines;

/// How file names of segments end.
const ENDING: &str = ".jsonl";
/// Names of segments that are taken: whoever fetches them may pack them.
const ENDINGS: [&str; 3] = [ENDING, ".jsonl.gz", ".jsonl.zst"];
/// How deep directories of segments are followed.
const MAX_DEPTH: usize = 8;

/// Directories that cannot be listed, and why.
pub type Refused = Vec<(PathBuf, io::Error)>;

/// A directory that segments are written to.
#[derive(Clone, Debug)]
pub struct Segments {
    directory: PathBuf,
    max: u64,
    lean: bool,
}

impl Segments {
    /// Segments in `directory`, at most `max` bytes of one origin's.
    pub fn new(directory: &Path, max: u64) -> Segments {
        Segments { directory: directory.to_owned(), max, lean: false }
    }

    /// The same, of lean evidence.
    #[must_use]
    pub fn lean(self, lean: bool) -> Segments {
        Segments { lean, ..self }
    }

    /// Whether evidence is lean.
    pub fn is_lean(&self) -> bool {
        self.lean
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a segment. It has its name once all of it is on the disk, and is never changed from then on.
    ///
    /// # Errors
    /// The system's: a full disk, a directory that may not be written. Nothing is left behind then but a `.part` file,
    /// which the next attempt overwrites.
    pub fn write(&self, origin: &str, number: u64, pile: &FactSet) -> io::Result<PathBuf> {
        crate::disk::create_dir_all(&self.directory)?;
        let name = format!("evidence-{origin}-{number:08}{ENDING}");
        let (part, whole) = (self.directory.join(format!(".{name}.part")), self.directory.join(&name));
        let written = (|| {
            let mut out = BufWriter::new(crate::disk::private().create(true).truncate(true).open(&part)?);
            write_lines(pile, number, &mut out)?;
            out.flush()?;
            out.get_ref().sync_all()?;
            fs::rename(&part, &whole)?;
            File::open(&self.directory)?.sync_all()
        })();
        if written.is_err() {
            // It holds room that a full disk needs.
            let _ = fs::remove_file(&part);
        }
        written.map(|()| whole)
    }

    /// Removes the oldest segments of an origin beyond the budget; how many. The newest stays in any case.
    ///
    /// # Errors
    /// The system's.
    pub fn prune(&self, origin: &str) -> io::Result<u64> {
        let prefix = format!("evidence-{origin}-");
        let mut own: Vec<(String, u64)> = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&prefix) && name.ends_with(ENDING) {
                own.push((name, entry.metadata()?.len()));
            }
        }
        own.sort();
        let mut total: u64 = own.iter().map(|(_, size)| size).sum();
        let mut removed = 0;
        for (name, size) in own.iter().take(own.len().saturating_sub(1)) {
            if total <= self.max {
                break;
            }
            fs::remove_file(self.directory.join(name))?;
            total -= size;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Finished segments in a directory and below it, in order of their paths. A file is taken as it is.
///
/// # Errors
/// The system's, for `path` itself; what cannot be listed below it is given in the second list.
pub fn list_segments(path: &Path) -> io::Result<(Vec<PathBuf>, Refused)> {
    if !fs::metadata(path)?.is_dir() {
        return Ok((vec![path.to_owned()], Vec::new()));
    }
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    fs::read_dir(path)?;
    list(path, 0, &mut found, &mut refused);
    found.sort();
    Ok((found, refused))
}

fn list(directory: &Path, depth: usize, found: &mut Vec<PathBuf>, refused: &mut Refused) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) => return refused.push((directory.to_owned(), e)),
    };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // Those that are being written, and copies that `rsync` is making, begin with a dot.
        if name.starts_with('.') {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => list(&path, depth + 1, found, refused),
            Ok(kind) if kind.is_file() && ENDINGS.iter().any(|e| name.ends_with(e)) => found.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Entry, Kind};

    #[test]
    fn segments_are_whole_or_not_there_and_the_oldest_go() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("out");
        let mut pile = FactSet::default();
        let entry = Entry { data: br#"{"error":"e"}"#.to_vec(), ..Entry::default() };
        pile.put("o", Kind::Refused, "p".into(), entry);
        let segments = Segments::new(&directory, 1000);
        for n in 1..=5 {
            segments.write("o", n, &pile).unwrap();
        }
        fs::write(directory.join(".evidence-o-00000006.jsonl.part"), "half").unwrap();
        let names = |d: &Path| -> Vec<String> {
            let paths = list_segments(d).unwrap().0;
            paths.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&directory).len(), 5);
        assert!(segments.prune("o").unwrap() > 0);
        assert!(names(place.path()).contains(&"evidence-o-00000005.jsonl".to_string()));
        assert!(!names(place.path()).contains(&"evidence-o-00000001.jsonl".to_string()));
        assert!(list_segments(&place.path().join("none")).is_err());
    }
}
