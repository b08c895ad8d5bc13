//! What can go wrong with a case file.

use std::path::PathBuf;

/// Why a case file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It is not there.
    #[error("{}: no such case file", path.display())]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// It is a file of something else.
    #[error("{}: not a case file: application id {expected:#010x} was required, {found:#010x} was there", path.display())]
    Foreign {
        /// Its path.
        path: PathBuf,
        /// The id of case files.
        expected: i32,
        /// The id it has.
        found: i32,
    },
    /// A later version of the program wrote it.
    #[error("{}: written by a later version: schema {known} or older was required, {found} was there", path.display())]
    Newer {
        /// Its path.
        path: PathBuf,
        /// The latest schema that is known.
        known: i32,
        /// The schema it has.
        found: i32,
    },
    /// An older schema, and it was opened to be read only.
    #[error("{}: schema {found} is older than {known}: rdzvscope case compact {} brings it up to date, and keeps a copy", path.display(), path.display())]
    Older {
        /// Its path.
        path: PathBuf,
        /// The schema that is needed.
        known: i32,
        /// The schema it has.
        found: i32,
    },
    /// A file beside it could not be made or read.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite's own: a full disk, a damaged file, another process that holds it.
    #[error("{}: {doing}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A value in it is none that was ever written there.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}
