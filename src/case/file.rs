//! The file itself: opened, created, brought up to date.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction};

use super::error::CaseError;
use super::schema::{APPLICATION_ID, MIGRATIONS, SCHEMA};

/// What a case is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// To be read; it must be there.
    Read,
    /// To be read and written; it must be there.
    Write,
    /// To be read and written; made where it is not there.
    Create,
}

/// A case file, open.
#[derive(Debug)]
pub struct Case {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    /// Where the case is read from, if not from its own place.
    _copy: Option<PrivateCopy>,
}

/// A copy of a case and its journal that is removed with the value.
#[derive(Debug)]
struct PrivateCopy(PathBuf);

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl PrivateCopy {
    fn of(case: &Path, journal: &Path) -> std::io::Result<(PrivateCopy, PathBuf)> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let directory = std::env::temp_dir().join(format!("rdzvscope-case-{}-{now:x}", std::process::id()));
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&directory)?;
        let copy = PrivateCopy(directory);
        let (place, beside) = (copy.0.join("case.db"), copy.0.join("case.db-wal"));
        std::fs::copy(case, &place)?;
        std::fs::copy(journal, &beside)?;
        Ok((copy, place))
    }
}

/// Whether SQLite could not make or write the files that it wants beside a case.
fn is_read_only(e: &CaseError) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    let CaseError::Sqlite { source, .. } = e else { return false };
    matches!(source.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

impl Case {
    /// Opens the case at `path`. An older schema is brought up to date after a copy was made beside the file
    /// (`FILE.schema-N`).
    ///
    /// # Errors
    /// When it is not there, is no case, is a later version's, or cannot be read, written or copied.
    pub fn open(path: &Path, mode: Mode) -> Result<Case, CaseError> {
        let there = path.metadata().is_ok_and(|m| m.len() > 0);
        if !there && mode != Mode::Create {
            return Err(CaseError::Missing { path: path.to_owned() });
        }
        let flags = match mode {
            Mode::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Mode::Write | Mode::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        if mode == Mode::Create && !path.exists() {
            // SQLite would let everybody read it; what it puts beside it gets the same permissions.
            let made = crate::disk::private().create_new(true).open(path);
            made.map_err(|source| CaseError::Io { path: path.to_owned(), doing: "cannot make the case", source })?;
        }
        let failed = |doing| move |source| CaseError::Sqlite { path: path.to_owned(), doing, source };
        let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(failed("cannot open the case"))?;
        let mut case = Case { db, path: path.to_owned(), _copy: None };
        match case.prepare(mode, there) {
            Err(e) if mode == Mode::Read && is_read_only(&e) => Case::open_read_only(path),
            prepared => prepared.map(|()| case),
        }
    }

    /// Opens a case to be read where nothing can be written beside it: on a read-only file system, or in somebody else's
    /// directory. Without a journal the file alone is the case; with one, a private copy of both is read.
    fn open_read_only(path: &Path) -> Result<Case, CaseError> {
        let failed = |source| CaseError::Sqlite { path: path.to_owned(), doing: "cannot open the case", source };
        let mut journal = path.as_os_str().to_owned();
        journal.push("-wal");
        let journal = PathBuf::from(journal);
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let (db, copy) = if journal.metadata().is_ok_and(|m| m.len() > 0) {
            let doing = "cannot copy the case, to be read with its journal";
            let io = |source| CaseError::Io { path: path.to_owned(), doing, source };
            let (copy, place) = PrivateCopy::of(path, &journal).map_err(io)?;
            (Connection::open_with_flags(place, flags | OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?, Some(copy))
        } else {
            let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let uri = format!("file:{escaped}?immutable=1");
            (Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?, None)
        };
        let mut case = Case { db, path: path.to_owned(), _copy: copy };
        case.prepare(Mode::Read, true)?;
        Ok(case)
    }

    /// A case that is in memory alone.
    ///
    /// # Errors
    /// SQLite's (memory).
    pub fn in_memory() -> Result<Case, CaseError> {
        let path = PathBuf::from(":memory:");
        let db = Connection::open_in_memory().map_err(|source| CaseError::Sqlite {
            path: path.clone(),
            doing: "cannot make a case",
            source,
        })?;
        let mut case = Case { db, path, _copy: None };
        case.prepare(Mode::Create, false)?;
        Ok(case)
    }

    fn prepare(&mut self, mode: Mode, there: bool) -> Result<(), CaseError> {
        self.db.busy_timeout(Duration::from_secs(10)).map_err(self.failed("cannot set a timeout"))?;
        let id: i32 = self.pragma("application_id")?;
        let schema: i32 = self.pragma("user_version")?;
        if there && id != APPLICATION_ID && !(id == 0 && schema == 0 && self.is_blank()?) {
            return Err(CaseError::Foreign { path: self.path.clone(), expected: APPLICATION_ID, found: id });
        }
        if schema > SCHEMA {
            return Err(CaseError::Newer { path: self.path.clone(), known: SCHEMA, found: schema });
        }
        if mode == Mode::Read {
            if schema == 0 && id == 0 {
                let what = "it holds nothing; what was written may stand in its -wal, which was not copied along \
                            (rdzvscope case backup makes a whole copy)";
                return Err(CaseError::Damaged { path: self.path.clone(), what: what.into() });
            }
            if schema < SCHEMA {
                return Err(CaseError::Older { path: self.path.clone(), known: SCHEMA, found: schema });
            }
            return Ok(());
        }
        // A shared memory file, as a write-ahead log needs one, does not work across hosts.
        let journal = if is_network_filesystem(&self.path) { "DELETE" } else { "WAL" };
        let set = format!(
            "PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; \
             PRAGMA journal_size_limit=16777216;"
        );
        self.db.execute_batch(&set).map_err(self.failed("cannot write the case"))?;
        if schema < SCHEMA {
            if schema > 0 {
                self.copy_before_migration(schema)?;
            }
            self.migrate(schema, &MIGRATIONS)?;
            // Whoever copies the file alone has its tables at least.
            let settled = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            settled.map_err(self.failed("cannot write the case"))?;
        }
        Ok(())
    }

    /// Nothing was ever put in: a process was killed between making the file and making its tables.
    fn is_blank(&self) -> Result<bool, CaseError> {
        self.db
            .query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |r| r.get(0))
            .map_err(self.failed("cannot read the case"))
    }

    fn copy_before_migration(&self, schema: i32) -> Result<(), CaseError> {
        let mut copy = self.path.clone().into_os_string();
        copy.push(format!(".schema-{schema}"));
        let copy = PathBuf::from(copy);
        if copy.exists() {
            return Ok(());
        }
        self.backup(&copy)
    }

    pub(super) fn migrate(&mut self, from: i32, migrations: &[&str]) -> Result<(), CaseError> {
        let path = self.path.clone();
        let failed =
            |source| CaseError::Sqlite { path: path.clone(), doing: "cannot bring the case up to date", source };
        let tx = self.db.transaction().map_err(failed)?;
        for step in migrations.iter().skip(usize::try_from(from).unwrap_or(0)) {
            tx.execute_batch(step).map_err(failed)?;
        }
        let mark = format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={};", migrations.len());
        tx.execute_batch(&mark).map_err(failed)?;
        tx.commit().map_err(failed)
    }

    /// Writes a whole copy of the case, taken at one moment, to a file that must not be there yet.
    ///
    /// # Errors
    /// When the file is there, or cannot be written.
    pub fn backup(&self, to: &Path) -> Result<(), CaseError> {
        if to.exists() {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(CaseError::Io { path: to.to_owned(), doing: "cannot write a copy of the case", source });
        }
        let made = crate::disk::private().create_new(true).open(to);
        made.map_err(|source| CaseError::Io { path: to.to_owned(), doing: "cannot write a copy of the case", source })?;
        let name = to.to_string_lossy();
        self.db.execute("VACUUM INTO ?1", [&*name]).map_err(self.failed("cannot write a copy of the case"))?;
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` as one transaction: all of it is there afterwards, or nothing.
    ///
    /// # Errors
    /// SQLite's.
    pub fn transaction<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, CaseError> {
        let path = self.path.clone();
        let failed = |source| CaseError::Sqlite { path: path.clone(), doing, source };
        let tx = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
        let value = work(&tx).map_err(failed)?;
        tx.commit().map_err(failed)?;
        Ok(value)
    }

    pub(super) fn failed(&self, doing: &'static str) -> impl Fn(rusqlite::Error) -> CaseError + use<> {
        let path = self.path.clone();
        move |source| CaseError::Sqlite { path: path.clone(), doing, source }
    }

    /// An error of the system's, with what was tried.
    pub fn io(&self, doing: &'static str, source: std::io::Error) -> CaseError {
        CaseError::Io { path: self.path.clone(), doing, source }
    }

    pub(super) fn pragma<T: rusqlite::types::FromSql>(&self, name: &str) -> Result<T, CaseError> {
        self.db.pragma_query_value(None, name, |r| r.get(0)).map_err(self.failed("cannot read the case"))
    }

    /// A value that was kept under `key`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn meta(&self, key: &str) -> Result<Option<String>, CaseError> {
        self.db
            .query_row("SELECT value FROM meta WHERE key = ?1", [key], |r| r.get(0))
            .optional()
            .map_err(self.failed("cannot read the case"))
    }

    /// Keeps a value under `key`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn set_meta(&self, key: &str, value: &str) -> Result<(), CaseError> {
        set_meta(&self.db, key, value).map_err(self.failed("cannot write the case"))
    }
}

/// Keeps a value under `key`.
pub(super) fn set_meta(db: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
        [key, value],
    )?;
    Ok(())
}

/// Whether a path lies on a file system that several hosts share.
pub fn is_network_filesystem(path: &Path) -> bool {
    const SHARED: [&str; 14] = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "lustre",
        "beegfs",
        "gpfs",
        "ceph",
        "glusterfs",
        "afs",
        "9p",
        "ocfs2",
        "gfs2",
    ];
    let whole = path.canonicalize().or_else(|_| match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(parent) => parent.canonicalize(),
        None => std::env::current_dir(),
    });
    let (Ok(whole), Ok(mounts)) = (whole, std::fs::read_to_string("/proc/mounts")) else { return false };
    kind_of(&whole, &mounts).is_some_and(|k| SHARED.contains(&k) || k.starts_with("fuse.") && k != "fuse.overlayfs")
}

/// The kind of the file system that a path lies on, by the lines of `/proc/mounts`.
pub(super) fn kind_of<'a>(path: &Path, mounts: &'a str) -> Option<&'a str> {
    let of = mounts.lines().filter_map(|l| {
        let mut words = l.split(' ').skip(1);
        let (point, kind) = (words.next()?.replace("\\040", " "), words.next()?);
        path.starts_with(&point).then_some((point.len(), kind))
    });
    // Of several mounts at one point the last one is seen.
    of.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_latest_mount_says_what_a_path_lies_on() {
        let mounts = "/dev/sda1 / ext4 rw 0 0\nserver:/x /srv/case\\040files nfs4 rw 0 0\n/dev/sdb1 /srv/case\\040files/local xfs rw 0 0\n\
                      /dev/sdc1 /data ext4 rw 0 0\nhost@tcp:/l /data lustre rw 0 0\n";
        let kind = |p: &str| kind_of(Path::new(p), mounts).unwrap();
        assert_eq!(kind("/var/lib/case.db"), "ext4");
        assert_eq!(kind("/srv/case files/case.db"), "nfs4");
        assert_eq!(kind("/srv/case files/local/case.db"), "xfs");
        assert_eq!(kind("/srv/case filesystem/case.db"), "ext4");
        assert_eq!(kind("/data/case.db"), "lustre");
        assert!(!is_network_filesystem(Path::new("/proc/self/status")));
    }
}
