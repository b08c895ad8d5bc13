//! Captures of a directory, told apart by their content and read as far as they go.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::content_head::{self, Head, Stat};
use super::error::WatchError;
use crate::analysis::{CONTINUES_NANOS, GrowingSet, Options, capture_stem};
use crate::capture::{Limits, Reader};
use crate::case::{self, CaptureRow, CaptureState, Case, new_set, save_batch, save_capture};
use crate::time::Timestamp;

/// Bytes of segments after which a batch is written.
const BATCH_BYTES: usize = 8 << 20;
/// Packets after which a batch is written.
const BATCH_PACKETS: u64 = 1 << 20;

/// Whether the file at a capture's path still is that capture.
pub(super) fn still_there(row: &CaptureRow) -> bool {
    Head::read(Path::new(&row.path)).is_ok_and(|h| h.is(row.head_length, &row.head_hash))
}

/// What happened to a capture.
#[derive(Debug)]
pub(super) enum Event {
    /// Another capture has taken the name of one that was still growing when it was read last.
    Overwritten(PathBuf),
    /// It changed while it was read.
    Changed(PathBuf),
    /// It cannot be read; bytes that wait.
    Unreadable(PathBuf, String, u64),
}

/// The captures of a case, and the engines of the sets that grow.
#[derive(Debug, Default)]
pub(super) struct CaptureIndex {
    pub(super) rows: BTreeMap<u32, CaptureRow>,
    /// Latest capture by path.
    by_path: HashMap<String, u32>,
    intakes: BTreeMap<i64, GrowingSet>,
    pub(super) events: Vec<Event>,
    /// Files that begin as a capture does that lies elsewhere, and whether they are copies of it.
    copies: HashMap<(PathBuf, u32), ((Stat, Stat), bool)>,
    /// Packets taken in this pass.
    pub(super) packets: u64,
    /// Reading ended early: the case has no room for more.
    pub(super) full: bool,
}

/// A file with something to read.
struct Work {
    first: Timestamp,
    path: PathBuf,
    head: Head,
    stat: Stat,
    row: Option<u32>,
}

impl CaptureIndex {
    pub(super) fn load(case: &Case) -> Result<CaptureIndex, WatchError> {
        let mut shelf = CaptureIndex::default();
        for row in case.captures()? {
            shelf.by_path.insert(row.path.clone(), row.id);
            shelf.rows.insert(row.id, row);
        }
        Ok(shelf)
    }

    /// Forgets the engine of a set: the next packet finds it as the case has it.
    pub(super) fn forget(&mut self, set: i64) {
        self.intakes.remove(&set);
    }

    /// Reads all that is new in these files, in order of time.
    pub(super) fn read(
        &mut self,
        case: &mut Case,
        options: &Options,
        paths: &[PathBuf],
        limits: &case::Limits,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), WatchError> {
        self.packets = 0;
        self.full = false;
        let mut work: Vec<Work> = Vec::new();
        for path in paths {
            match self.look(case, path) {
                Ok(found) => work.extend(found),
                Err(Looked::Io(e)) => {
                    let size = std::fs::metadata(path).map_or(0, |m| m.len());
                    self.events.push(Event::Unreadable(path.clone(), e.to_string(), size));
                }
                Err(Looked::Watch(e)) => return Err(e),
            }
        }
        work.sort_by(|a, b| (a.first, &a.path).cmp(&(b.first, &b.path)));
        for w in work {
            self.full |= case.is_full(limits)?;
            if self.full || stop() {
                break;
            }
            if let Err(e) = self.take(case, options, &w, limits, stop) {
                // What is in memory may be ahead of the case now.
                *self = CaptureIndex {
                    events: std::mem::take(&mut self.events),
                    packets: self.packets,
                    ..CaptureIndex::load(case)?
                };
                return Err(e);
            }
        }
        self.settle(case, paths)
    }

    /// What there is to read in a file.
    fn look(&mut self, case: &mut Case, path: &Path) -> Result<Option<Work>, Looked> {
        let name = path.to_string_lossy().into_owned();
        let stat = Stat::of(path)?;
        let known = self.by_path.get(&name).and_then(|id| self.rows.get(id)).cloned();
        if let Some(row) = &known
            && (row.inode, row.size, row.modified) == (stat.inode, stat.size, stat.modified)
        {
            return Ok(None);
        }
        let head = Head::read(path)?;
        if let Some(row) = &known {
            if head.is(row.head_length, &row.head_hash) {
                let first = row.first.unwrap_or(Timestamp::MIN);
                return Ok(Some(Work { first, path: path.to_owned(), head, stat, row: Some(row.id) }));
            }
            if row.state != CaptureState::Gone {
                if row.state == CaptureState::Growing {
                    self.events.push(Event::Overwritten(path.to_owned()));
                }
                self.save(case, row.id, |r| r.state = CaptureState::Gone)?;
            }
        }
        let mut hashes: HashMap<u64, Option<[u8; 32]>> = HashMap::new();
        let same = self.rows.values().filter(|r| {
            let hash = hashes.entry(r.head_length).or_insert_with(|| head.hash(r.head_length));
            r.head_length > 0 && *hash == Some(r.head_hash)
        });
        for row in same.cloned().collect::<Vec<_>>() {
            if row.path != name && still_there(&row) {
                // A copy beside it says nothing new. Two captures of one interface may begin alike: that is another one.
                if self.is_copy(path, stat, &row)? {
                    return Ok(None);
                }
                continue;
            }
            // Renamed, or compressed and the original removed: the same capture.
            let first = row.first.unwrap_or(Timestamp::MIN);
            return Ok(Some(Work { first, path: path.to_owned(), head, stat, row: Some(row.id) }));
        }
        let Ok(mut reader) = Reader::open(path, &Limits::default()) else { return Ok(None) };
        match reader.next() {
            Ok(Some(packet)) => {
                let first = packet.time;
                Ok(Some(Work { first, path: path.to_owned(), head, stat, row: None }))
            }
            // No packet yet.
            _ => Ok(None),
        }
    }

    /// Whether a file holds what the capture of `row` holds, as far as both go. Compared once, until one of them changes.
    fn is_copy(&mut self, path: &Path, stat: Stat, row: &CaptureRow) -> std::io::Result<bool> {
        let key = (path.to_owned(), row.id);
        let states = (stat, Stat::of(Path::new(&row.path))?);
        if let Some((known, copy)) = self.copies.get(&key)
            && *known == states
        {
            return Ok(*copy);
        }
        let copy = content_head::same_content(path, Path::new(&row.path))?;
        self.copies.insert(key, (states, copy));
        Ok(copy)
    }

    fn save(&mut self, case: &mut Case, id: u32, change: impl FnOnce(&mut CaptureRow)) -> Result<(), WatchError> {
        if let Some(row) = self.rows.get_mut(&id) {
            change(row);
            case.transaction("cannot keep a capture", |tx| save_capture(tx, row))?;
        }
        Ok(())
    }

    /// Reads one file from where it was read to.
    fn take(
        &mut self,
        case: &mut Case,
        options: &Options,
        w: &Work,
        limits: &case::Limits,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), WatchError> {
        let id = match w.row {
            Some(id) => id,
            None => self.begin(case, w)?,
        };
        let Some(row) = self.rows.get(&id) else { return Ok(()) };
        let mut row = row.clone();
        let set = row.set;
        let mut reader = match Reader::open(&w.path, &Limits::default()) {
            Ok(reader) => reader,
            Err(e) => {
                self.events.push(Event::Unreadable(w.path.clone(), e.to_string(), w.stat.size));
                return Ok(());
            }
        };
        if let std::collections::btree_map::Entry::Vacant(free) = self.intakes.entry(set) {
            free.insert(GrowingSet::new(options, &case.load_set(set)?));
        }
        let Some(intake) = self.intakes.get_mut(&set) else { return Ok(()) };
        let (already, mut consumed, mut fresh, mut ended) = (row.consumed, row.consumed, 0u64, None);
        let mut stopped = false;
        let whole = loop {
            match reader.next() {
                Ok(Some(packet)) if packet.number <= already => continue,
                Ok(Some(packet)) => {
                    intake.packet(id, &packet);
                    consumed = packet.number;
                    row.first = Some(row.first.map_or(packet.time, |t| t.min(packet.time)));
                    row.last = Some(row.last.map_or(packet.time, |t| t.max(packet.time)));
                    fresh += 1;
                }
                Ok(None) => break true,
                Err(e) => {
                    ended = Some(e.to_string());
                    break true;
                }
            }
            if intake.pending() > BATCH_BYTES || fresh.is_multiple_of(BATCH_PACKETS) {
                if !unchanged(&w.path, &w.head) {
                    break false;
                }
                row.consumed = consumed;
                row.offset = reader.offset();
                row.summary = Some(reader.summary().clone());
                // Not all of it: the file is looked at again.
                row.size = 0;
                write(case, &mut row, intake)?;
                self.full |= case.is_full(limits)?;
                if self.full || stop() {
                    stopped = true;
                    break true;
                }
            }
        };
        if !whole || !unchanged(&w.path, &w.head) {
            self.intakes.remove(&set);
            self.events.push(Event::Changed(w.path.clone()));
            return Ok(());
        }
        self.packets += fresh;
        if !stopped {
            row.consumed = consumed;
            row.offset = reader.offset();
            row.summary = Some(reader.into_summary());
            row.error = ended;
            row.path = w.path.to_string_lossy().into_owned();
            (row.inode, row.size, row.modified) = (w.stat.inode, w.stat.size, w.stat.modified);
            row.head_length = w.head.length();
            row.head_hash = w.head.hash(w.head.length()).unwrap_or_default();
            if row.state == CaptureState::Gone {
                row.state = CaptureState::Growing;
            }
            write(case, &mut row, intake)?;
        }
        self.by_path.insert(row.path.clone(), id);
        self.rows.insert(id, row);
        Ok(())
    }

    /// Gives a capture that was never seen its row, and its set: the latest of its name, unless it begins before that
    /// one has ended.
    fn begin(&mut self, case: &mut Case, w: &Work) -> Result<u32, WatchError> {
        let stem = capture_stem(&w.path);
        let set = case
            .latest_set(&stem)?
            .filter(|s| s.last.is_none_or(|last| w.first.0 >= last.0.saturating_sub(CONTINUES_NANOS)));
        let mut row = CaptureRow {
            id: 0,
            set: 0,
            path: w.path.to_string_lossy().into_owned(),
            inode: w.stat.inode,
            size: 0,
            modified: 0,
            head_length: w.head.length(),
            head_hash: w.head.hash(w.head.length()).unwrap_or_default(),
            consumed: 0,
            offset: 0,
            state: CaptureState::Growing,
            first: Some(w.first),
            last: None,
            summary: None,
            error: None,
        };
        case.transaction("cannot keep a capture", |tx| {
            row.set = match &set {
                Some(set) => set.id,
                None => new_set(tx, &stem)?,
            };
            save_capture(tx, &mut row)
        })?;
        let id = row.id;
        self.by_path.insert(row.path.clone(), id);
        self.rows.insert(id, row);
        Ok(id)
    }

    /// What came before another of its name is finished; what is not there any more is gone.
    fn settle(&mut self, case: &mut Case, paths: &[PathBuf]) -> Result<(), WatchError> {
        let there: std::collections::HashSet<String> = paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let mut newest: HashMap<i64, (Option<Timestamp>, u32)> = HashMap::new();
        for row in self.rows.values() {
            let place = newest.entry(row.set).or_insert((row.first, row.id));
            *place = (*place).max((row.first, row.id));
        }
        let mut changes: Vec<(u32, CaptureState)> = Vec::new();
        for row in self.rows.values() {
            let followed = newest.get(&row.set).is_some_and(|n| n.1 != row.id);
            let state = match row.state {
                CaptureState::Growing if followed => CaptureState::Finished,
                state => state,
            };
            let latest = self.by_path.get(&row.path) == Some(&row.id);
            let state = if !there.contains(&row.path) || !latest { CaptureState::Gone } else { state };
            if state != row.state {
                changes.push((row.id, state));
            }
        }
        for (id, state) in changes {
            self.save(case, id, |r| r.state = state)?;
        }
        Ok(())
    }

    /// What is known of the latest capture at a path.
    pub(super) fn row_of(&self, path: &Path) -> Option<&CaptureRow> {
        self.by_path.get(&*path.to_string_lossy()).and_then(|id| self.rows.get(id))
    }
}

/// Whether what was read is what was looked at before. A file that was packed or removed meanwhile was read from the
/// handle that was open: that is what it held.
fn unchanged(path: &Path, head: &Head) -> bool {
    match Head::read(path) {
        Ok(now) => head.hash(head.length()).is_some_and(|hash| now.is(head.length(), &hash)),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

fn write(case: &mut Case, row: &mut CaptureRow, intake: &mut GrowingSet) -> Result<(), WatchError> {
    let failed = |source| WatchError::Io { path: row.path.clone().into(), doing: "cannot pack segments", source };
    let batch = intake.take().map_err(failed)?;
    let doing = "cannot keep what was read";
    Ok(case.transaction(doing, |tx| {
        save_batch(tx, row.set, row.id, &batch)?;
        save_capture(tx, row)
    })?)
}

/// Why a file was not looked at.
enum Looked {
    Io(std::io::Error),
    Watch(WatchError),
}

impl From<std::io::Error> for Looked {
    fn from(e: std::io::Error) -> Self {
        Looked::Io(e)
    }
}

impl From<WatchError> for Looked {
    fn from(e: WatchError) -> Self {
        Looked::Watch(e)
    }
}
