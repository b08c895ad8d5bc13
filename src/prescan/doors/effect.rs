//! What a measured outcome means, in the contract's words.

use super::super::row::{Grade, Row};

/// What a probe does to a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect {
    outcome: &'static str,
    blocks: bool,
    kills: bool,
}

impl Effect {
    pub(super) const WAITS: Effect = Effect { outcome: "waits", blocks: false, kills: false };
    const CLOSES: Effect = Effect { outcome: "closes", ..Effect::WAITS };
    const PAUSES: Effect = Effect { blocks: true, ..Effect::WAITS };
    const HANGS: Effect = Effect { kills: true, ..Effect::PAUSES };
    const DIES: Effect = Effect { outcome: "dies", blocks: false, kills: true };
    pub(super) const ALLOCATES: Effect = Effect { outcome: "allocates", ..Effect::DIES };
    /// What it costs is memory or a descriptor.
    const COSTS: Effect = Effect { outcome: "allocates", ..Effect::WAITS };
    /// The application gets a stranger's bytes as a message, and may end of it.
    const DELIVERED: Effect = Effect { outcome: "dies", ..Effect::WAITS };
    const UNKNOWN: Effect = Effect { outcome: "unknown", ..Effect::WAITS };

    /// How bad it is.
    pub fn grade(self) -> Grade {
        let blank = Row {
            probe: String::new(),
            protocol: "",
            version: String::new(),
            backend: None,
            outcome: "",
            allocates_bytes: None,
            blocks_server: false,
            kills: false,
            explanation: String::new(),
            role: "",
        };
        self.row(blank, String::new()).grade()
    }

    /// As a row.
    pub(super) fn row(self, blank: Row, explanation: String) -> Row {
        Row { outcome: self.outcome, blocks_server: self.blocks, kills: self.kills, explanation, ..blank }
    }
}

/// From what was recorded of the listener and of its job.
pub fn effect(outcome: &str, job: &str) -> Effect {
    let says = |words: &[&str]| words.iter().any(|w| outcome.contains(w));
    match job {
        "none" if says(&["keeps connection open", "pause", "gap"]) => Effect::WAITS,
        "none" => Effect::CLOSES,
        _ if job.starts_with("unclear") => Effect::UNKNOWN,
        _ if job.starts_with("costs a descriptor") => Effect::COSTS,
        _ if job.starts_with("application decides") && says(&["hangs"]) => Effect::PAUSES,
        _ if job.starts_with("application decides") => Effect::DELIVERED,
        _ if job.starts_with("pauses") || job.starts_with("output and I/O stop") => Effect::PAUSES,
        _ if job.starts_with("hangs") => Effect::HANGS,
        "see outcome" if says(&["survives"]) => Effect::CLOSES,
        _ if says(&["memory grows", "memory cgroup OOM"]) => Effect::ALLOCATES,
        // The process or the job fails, or the listener takes nobody any more.
        _ => Effect::DIES,
    }
}
