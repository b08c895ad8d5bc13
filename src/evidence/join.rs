//! Evidence of many files, joined origin by origin: a fleet's is more than memory holds at once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::facts::FactSet;
use super::gather::{gather_part, settle};
use super::read::{EvidenceError, LineReader};
use crate::analysis::Stored;
use crate::capture::{Limits, unpacked};

/// What evidence came to.
#[derive(Debug, Default)]
pub struct JoinedEvidence {
    /// All that it holds, but for ordinary connections, which are counted.
    pub stored: Stored,
    /// What is lost, in words.
    pub wrong: Vec<String>,
    /// What was passed over and is no loss, in words.
    pub remarks: Vec<String>,
}

/// What is said of a file, by its number: what is lost, and what was passed over.
type Said = Vec<(usize, (Vec<String>, Vec<String>))>;

/// Reads one file.
///
/// # Errors
/// The system's, and that a later version wrote it.
pub fn read_file(path: &Path) -> Result<LineReader, EvidenceError> {
    let name = path.to_string_lossy();
    let failed =
        |source| EvidenceError::Io { name: crate::escape::clean(name.as_bytes(), 400), doing: "cannot read", source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    let input = unpacked(path, &Limits::default()).map_err(failed)?;
    LineReader::new(&name).of_size(size).read(&mut BufReader::new(input))
}

/// Joins files with what came from elsewhere. Those that speak of one origin are read together, and let go once its facts are
/// put together.
///
/// # Errors
/// That a later version wrote one of them, or the system's.
pub fn join_files(files: &[PathBuf], mut elsewhere: FactSet) -> Result<JoinedEvidence, EvidenceError> {
    let groups = groups(files, &elsewhere);
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Result<(Stored, Said), EvidenceError>>> = Mutex::default();
    let with_base = groups.first().is_some_and(|g| g.0);
    let base = Mutex::new(if with_base { Some(std::mem::take(&mut elsewhere)) } else { None });
    let work = || {
        while let Some((i, (based, group))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, groups.get(i)?)))
        {
            let begin = if *based { base.lock().ok().and_then(|mut b| b.take()) } else { None };
            let read = read_group(files, group, begin.unwrap_or_default());
            if let Ok(mut done) = done.lock() {
                done.insert(i, read);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, groups.len().max(1));
    std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
    let mut all = JoinedEvidence { stored: gather_part(elsewhere), ..JoinedEvidence::default() };
    let mut said = BTreeMap::new();
    for group in done.into_inner().unwrap_or_default().into_values() {
        let (stored, own) = group?;
        all.stored.join(stored);
        said.extend(own);
    }
    for (wrong, remarks) in said.into_values() {
        all.wrong.extend(wrong);
        all.remarks.extend(remarks);
    }
    settle(&mut all.stored);
    Ok(all)
}

fn read_group(files: &[PathBuf], group: &[usize], mut facts: FactSet) -> Result<(Stored, Said), EvidenceError> {
    let mut said = Vec::new();
    for i in group {
        let Some(path) = files.get(*i) else { continue };
        let reader = read_file(path)?;
        facts.join(reader.facts);
        said.push((*i, (reader.wrong, reader.remarks)));
    }
    Ok((gather_part(facts), said))
}

/// Files that speak of the same origins together, by their numbers; first, where there are any, those that speak of origins in
/// `elsewhere`.
fn groups(files: &[PathBuf], elsewhere: &FactSet) -> Vec<(bool, Vec<usize>)> {
    // Place 0 stands for what came from elsewhere.
    let mut parents: Vec<usize> = (0..=files.len()).collect();
    fn root(parents: &mut [usize], mut at: usize) -> usize {
        while let Some(up) = parents.get(at).copied().filter(|up| *up != at) {
            let above = parents.get(up).copied().unwrap_or(up);
            if let Some(slot) = parents.get_mut(at) {
                *slot = above;
            }
            at = up;
        }
        at
    }
    let mut first: BTreeMap<String, usize> = elsewhere.origins().into_iter().map(|o| (o, 0)).collect();
    for (i, path) in files.iter().enumerate() {
        for origin in origins_of(path) {
            let other = *first.entry(origin).or_insert(i + 1);
            let (a, b) = (root(&mut parents, other), root(&mut parents, i + 1));
            if let Some(slot) = parents.get_mut(a.max(b)) {
                *slot = a.min(b);
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for i in 0..files.len() {
        groups.entry(root(&mut parents, i + 1)).or_default().push(i);
    }
    groups.into_iter().map(|(root, group)| (root == 0, group)).collect()
}

/// The origins that the lines of a file name, as far as it can be read.
fn origins_of(path: &Path) -> Vec<String> {
    const NAME: &[u8] = b"\"origin\":\"";
    let mut origins: Vec<String> = Vec::new();
    let Ok(input) = unpacked(path, &Limits::default()) else { return origins };
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut begun = true;
    while let Ok(buffer) = input.fill_buf() {
        if buffer.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', buffer);
        let line = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        // Our own lines name it first; behind a host's name it may stand a little later.
        let head = line.get(..line.len().min(512)).filter(|_| begun).unwrap_or_default();
        if let Some(at) = memchr::memmem::find(head, NAME) {
            let rest = head.get(at + NAME.len()..).unwrap_or_default();
            let origin = rest.split(|b| *b == b'"').next().unwrap_or_default();
            if origins.last().is_none_or(|o| o.as_bytes() != origin) {
                let origin = String::from_utf8_lossy(origin).into_owned();
                if !origins.contains(&origin) {
                    origins.push(origin);
                }
            }
        }
        begun = end.is_some();
        let used = line.len() + usize::from(begun);
        input.consume(used);
    }
    origins
}
