//! Which files an output must leave alone: inputs of the command, and captures, cases and evidence wherever they lie.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::capture::{Kind, Limits, sniff_path, unpacked};

/// How a file of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// How SQLite's write-ahead log begins, but for the last bit of the fourth byte.
const WAL: [u8; 3] = [0x37, 0x7f, 0x06];
/// How every line of evidence begins, behind the host that `pdsh` may have put in front.
const EVIDENCE: &[u8] = b"{\"type\":\"evidence";
/// Bytes of a text that are searched for evidence, once unpacked: it may stand behind a long report.
const SEARCHED: u64 = 4 << 30;
/// Names that SQLite and the lock of a case add to the name of the case.
const BESIDE: [&str; 4] = ["-wal", "-shm", "-journal", ".lock"];

/// An output would overwrite what must stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{output}: refused, for it would overwrite {what}: name another file, or remove that one yourself")]
pub struct Overwrites {
    /// The flag and its path, as they were given.
    pub output: String,
    /// What stands there.
    pub what: String,
}

/// What is at a path that an output must not overwrite, whoever asks: `None` where the path holds nothing of the kind.
/// Only regular files are looked at; a terminal, `/dev/null` or a pipe keeps nothing.
///
/// Errors of reading count as nothing found: what cannot be read cannot be told apart, and writing will fail by itself.
pub fn what_must_stay(path: &Path) -> Option<&'static str> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let sniffed = sniff_path(path).ok()?;
    match sniffed.kind {
        Kind::Capture(_) | Kind::HeaderOnly(_) => return Some("a capture"),
        Kind::Foreign(name) if name.contains("capture") => return Some("a capture"),
        Kind::Empty => return None,
        _ => {}
    }
    let mut head = [0u8; 72];
    let mut file = File::open(path).ok()?;
    let read = read_up_to(&mut file, &mut head);
    if head.starts_with(SQLITE) {
        return Some(if head.get(68..72) == Some(b"rdzv") { "a case file" } else { "a database" });
    }
    if read >= 4 && head.starts_with(&WAL) && head[3] & 0xfe == 0x82 {
        return Some("the journal of a case file");
    }
    let text = matches!(sniffed.kind, Kind::Text | Kind::Unknown);
    (text && holds_evidence(path)).then_some("evidence")
}

fn read_up_to(file: &mut File, head: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|r| !r.is_empty()) {
        match file.read(rest) {
            Ok(n) if n > 0 => filled += n,
            _ => break,
        }
    }
    filled
}

/// Whether a text, through its compression, holds a line of evidence.
fn holds_evidence(path: &Path) -> bool {
    let Ok(input) = unpacked(path, &Limits::default()) else { return false };
    let mut input = input.take(SEARCHED);
    let mut buffer = vec![0u8; 1 << 16];
    let mut held = 0;
    loop {
        let Some(free) = buffer.get_mut(held..) else { return false };
        let Ok(n @ 1..) = input.read(free) else { return false };
        let filled = held + n;
        if memchr::memmem::find(&buffer[..filled], EVIDENCE).is_some() {
            return true;
        }
        // The beginning of a match may stand at the end of what was read.
        held = filled.min(EVIDENCE.len() - 1);
        buffer.copy_within(filled - held..filled, 0);
    }
}

/// Device and inode: one file under whatever name.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Inputs of a command, and its outputs so far: what a further output must not overwrite.
#[derive(Debug, Default)]
pub struct Protected {
    files: Vec<(Identity, PathBuf)>,
    directories: Vec<PathBuf>,
    outputs: Vec<(PathBuf, String)>,
}

impl Protected {
    /// Adds an input: a file, or a directory with all that lies in it. One that is not there protects nothing.
    pub fn input(&mut self, path: &Path) {
        let Ok(meta) = fs::metadata(path) else { return };
        if meta.is_dir() {
            self.directories.extend(fs::canonicalize(path));
            return;
        }
        if !meta.is_file() {
            return;
        }
        self.files.push(((meta.dev(), meta.ino()), path.to_owned()));
        for ending in BESIDE {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            let beside = PathBuf::from(name);
            self.files.extend(identity(&beside).map(|id| (id, beside)));
        }
    }

    /// Checks an output and adds it. `flag` is how it was asked for; `read_as` says what a file of an input directory
    /// would be read as (a log, a list of hosts), `None` where it would be passed over.
    ///
    /// # Errors
    /// That it would overwrite an input, another output, a case, evidence or a capture.
    pub fn output(
        &mut self,
        flag: &str,
        path: &Path,
        read_as: &dyn Fn(&Path) -> Option<&'static str>,
    ) -> Result<(), Overwrites> {
        let shown = crate::escape::clean(path.to_string_lossy().as_bytes(), 400);
        let output = format!("{flag} {shown}");
        let refused = |what: String| Err(Overwrites { output: output.clone(), what });
        let place = place_of(path);
        if let Some((_, other)) = self.outputs.iter().find(|(p, _)| *p == place) {
            return refused(format!("another output, {other}"));
        }
        if fs::metadata(path).is_ok_and(|m| m.is_file()) {
            let own = identity(path);
            if let Some((_, input)) = self.files.iter().find(|(id, _)| Some(*id) == own) {
                let input = crate::escape::clean(input.to_string_lossy().as_bytes(), 400);
                return refused(format!("an input, {input}"));
            }
            if let Some(what) = what_must_stay(path) {
                return refused(what.to_string());
            }
            let beside = |file: &PathBuf| place_of(file).parent() == place.parent();
            let among =
                self.directories.iter().any(|d| place.starts_with(d)) || self.files.iter().any(|f| beside(&f.1));
            if let Some(what) = read_as(path).filter(|_| among) {
                return refused(format!("{what} that lies among the inputs"));
            }
        }
        self.outputs.push((place, output));
        Ok(())
    }
}

/// Where a path leads: links resolved, as far as it is there.
fn place_of(path: &Path) -> PathBuf {
    if let Ok(whole) = fs::canonicalize(path) {
        return whole;
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(parent), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn testdata(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
    }

    #[test]
    fn captures_cases_and_evidence_are_known_by_what_they_hold() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = place.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        for name in ["links/node-c.pcap.gz", "links/node-c.pcapng", "incident-torch1.13/node-a.pcap"] {
            let copy = write("x.txt", &fs::read(testdata(name)).unwrap());
            assert_eq!(what_must_stay(&copy), Some("a capture"), "{name}");
        }
        let mut database = b"SQLite format 3\0".to_vec();
        database.resize(100, 0);
        assert_eq!(what_must_stay(&write("d", &database)), Some("a database"));
        database[68..72].copy_from_slice(b"rdzv");
        assert_eq!(what_must_stay(&write("c", &database)), Some("a case file"));
        assert_eq!(what_must_stay(&write("w", &[0x37, 0x7f, 0x06, 0x83, 0, 0])), Some("the journal of a case file"));
        // Behind a long report, across the borders of what is read at once, and packed.
        for before in [0, 65_519, 65_520, 65_530, 200_000] {
            let mut text = vec![b'x'; before];
            text.extend_from_slice(b"\n{\"type\":\"evidence\",\"origin\":\"o\"}\n");
            assert_eq!(what_must_stay(&write("e", &text)), Some("evidence"), "{before}");
            let packed = zstd::bulk::compress(&text, 1).unwrap();
            assert_eq!(what_must_stay(&write("e.zst", &packed)), Some("evidence"), "{before}");
        }
        for harmless in [&b""[..], b"{\"type\":\"report\"}\n", b"# markdown", b"\x00\x01binary"] {
            assert_eq!(what_must_stay(&write("h", harmless)), None);
        }
        assert_eq!(what_must_stay(Path::new("/dev/null")), None);
        assert_eq!(what_must_stay(&place.path().join("none")), None);
    }

    #[test]
    fn one_file_is_one_file_under_whatever_name() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("log"), "text").unwrap();
        fs::hard_link(at("log"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("log"), at("soft")).unwrap();
        fs::write(at("case.db-wal"), "text").unwrap();
        fs::write(at("case.db"), "text").unwrap();
        let nothing = |_: &Path| None;
        for name in ["log", "hard", "soft", "./log", "case.db-wal"] {
            let mut protected = Protected::default();
            protected.input(&at("log"));
            protected.input(&at("case.db"));
            let e = protected.output("-o", &at(name), &nothing).unwrap_err();
            assert!(e.to_string().contains("an input"), "{name}: {e}");
        }
        let mut protected = Protected::default();
        protected.input(place.path());
        let log = |_: &Path| Some("a log");
        assert!(protected.output("-o", &at("log"), &log).is_err());
        assert!(protected.output("-o", &at("log"), &nothing).is_ok());
        assert!(protected.output("-o", &at("new"), &log).is_ok());
        assert!(protected.output("--carve", &at("new"), &nothing).unwrap_err().what.contains("another output"));
        assert!(protected.output("--carve", Path::new("/dev/null"), &nothing).is_ok());
    }
}
