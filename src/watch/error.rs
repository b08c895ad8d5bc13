//! Why a pass cannot go on.

use std::path::PathBuf;

use crate::case::CaseError;

/// Why a pass cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The case file.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Evidence that cannot be taken.
    #[error(transparent)]
    Evidence(#[from] crate::evidence::EvidenceError),
    /// What evidence says of flags means nothing.
    #[error("evidence: {0}")]
    SiteFacts(String),
    /// Another process has the case.
    #[error("{}: another process is at work on this case{}", path.display(), pid.as_deref().map(|p| format!(" (process {p})")).unwrap_or_default())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// What the lock file says.
        pid: Option<String>,
    },
    /// The lock file.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}
