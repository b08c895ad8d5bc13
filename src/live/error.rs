//! Why an interface cannot be listened to.

use std::path::PathBuf;

use crate::case::CaseError;

/// Why an interface cannot be listened to.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// libpcap refuses the interface.
    #[error("{interface}: cannot listen: {source}{}", hint(source))]
    Open {
        /// The interface.
        interface: String,
        /// libpcap's words.
        source: pcap::Error,
    },
    /// libpcap does not understand the filter.
    #[error("{interface}: the filter {filter:?} is none: {source}")]
    Filter {
        /// The interface.
        interface: String,
        /// The filter.
        filter: String,
        /// libpcap's words.
        source: pcap::Error,
    },
    /// The case.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Privileges cannot be given up.
    #[error("cannot become user {user}: {reason}")]
    User {
        /// The user.
        user: String,
        /// Why.
        reason: String,
    },
    /// A file or directory.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

impl LiveError {
    /// Whether the right to open an interface is missing.
    pub(super) fn is_permission(&self) -> bool {
        matches!(self, LiveError::Open { source, .. } if !hint(source).is_empty())
    }
}

fn hint(e: &pcap::Error) -> &'static str {
    let text = e.to_string();
    if text.contains("ermission") || text.contains("permitted") {
        " (it needs CAP_NET_RAW: root, or setcap cap_net_raw+ep on this program)"
    } else {
        ""
    }
}
