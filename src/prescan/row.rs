//! One probe at one server.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Grade {
    /// Answered, closed or kept waiting, at nobody's cost.
    Safe,
    /// Nothing can be said.
    Unknown,
    /// It costs memory or a core, or others wait.
    Degrades,
    /// The process or the start of the job ends.
    Kills,
}

impl Grade {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Safe => "safe",
            Grade::Unknown => "unknown",
            Grade::Degrades => "degrades",
            Grade::Kills => "kills",
        }
    }
}

/// What one server does about one probe. Keys as the contract has them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The probe's name.
    pub probe: String,
    /// `tcpstore`, `nccl`, or another that a report names.
    pub protocol: &'static str,
    /// The release, as it was asked for.
    pub version: String,
    /// `poll` or `libuv`, of a store.
    pub backend: Option<&'static str>,
    /// One of the contract's outcomes.
    pub outcome: &'static str,
    /// Bytes of the largest container made for data that never comes.
    pub allocates_bytes: Option<u64>,
    /// Whether others wait meanwhile.
    pub blocks_server: bool,
    /// Whether it ends the process, or what the listener is for.
    pub kills: bool,
    /// In words.
    pub explanation: String,
    /// What the listener is for.
    pub role: &'static str,
}

impl Row {
    /// How bad it is.
    pub fn grade(&self) -> Grade {
        match self.outcome {
            _ if self.kills => Grade::Kills,
            "allocates" | "dies" | "spins" => Grade::Degrades,
            _ if self.blocks_server => Grade::Degrades,
            "unknown" => Grade::Unknown,
            _ => Grade::Safe,
        }
    }
}
