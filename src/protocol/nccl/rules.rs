//! What each rule of this room means, for `explain`.

use crate::finding::Rule;
use crate::vocabulary::Severity;

const KEEP_OUT: &str = "Keep scanners and health checks off the training network's ephemeral ports (firewall, scan \
exclusions); NCCL 2.30.7 and later tolerate most strays. RCCL speaks the same protocol under NCCL's release numbers and \
takes over such fixes later (bad magic: rccl#2177, May 2026): there its build counts, not its number.";

/// Every rule that `judge` names, in order of id.
pub static RULES: &[Rule] = &[
    Rule {
        id: "nccl-accept-failed",
        severity: Severity::Critical,
        title: "a bootstrap exchange that an earlier stray broke",
        meaning: "A connection that was opened and closed earlier waited in a rank's listener; the next accept took it \
and failed (NCCL up to 2.26). The rank's own connection was reset unread.",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-listener-closed",
        severity: Severity::Warning,
        title: "a connection of NCCL's own that its listener cut off",
        meaning: "It began with the communicator's magic, and the listener's side sent the first FIN or RST before a \
first message was whole. The process behind the listener had ended, or its accept had failed before.",
        remedy: "Look for what happened to the listener's process just before: its log, its host's kernel log, strays.",
    },
    Rule {
        id: "nccl-malformed-frame",
        severity: Severity::Warning,
        title: "a message that no rank of NCCL sends",
        meaning: "A handshake, size, rank or count is outside what the protocol allows. Bootstrap roots end at most of \
these, some releases with their whole process.",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-proxy-spins",
        severity: Severity::Critical,
        title: "a service thread that accepts for ever",
        meaning: "After a wrong magic the proxy or RAS thread (up to 2.30.4) retries its accept on one core until a \
valid connection comes, and serves nobody meanwhile.",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-rank-mismatch",
        severity: Severity::Warning,
        title: "ranks that contradict each other",
        meaning: "Two check-ins disagree on the number of ranks, or one rank came twice. That is a launch gone wrong, \
not a scan; the root ends at it.",
        remedy: "Compare world size and rank variables of the nodes; look for a process of an earlier launch.",
    },
    Rule {
        id: "nccl-rank-refused",
        severity: Severity::Critical,
        title: "ranks refused by a bootstrap root that is gone",
        meaning: "The root's port refuses connections before all ranks have checked in: ncclCommInitRank fails there. \
2.24 and later try again for a minute, with pauses that grow by 100 ms.",
        remedy: "Restart the job; see what ended the root.",
    },
    Rule {
        id: "nccl-rank-waits",
        severity: Severity::Critical,
        title: "a rank that waits for a root that is gone",
        meaning: "It had checked in; the reply never comes, and the wait has no timeout.",
        remedy: "End the job: it will not go on by itself.",
    },
    Rule {
        id: "nccl-root-died",
        severity: Severity::Critical,
        title: "a bootstrap root that a stray ended",
        meaning: "The root serves one connection at a time and ends at the first error: up to 2.26 a connection that is \
opened and closed is one.",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-split-failed",
        severity: Severity::Critical,
        title: "a communicator split that an earlier stray broke",
        meaning: "A connection that was opened and closed long before waited in a rank's peer listener; the split's \
accept took it first and failed (NCCL up to 2.26).",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-stray-closed",
        severity: Severity::Warning,
        title: "a connection to NCCL that was closed before it said anything",
        meaning: "A connect scan, a TCP health check, or a short probe. Up to 2.26 it ends a bootstrap root at once, and \
at ring and peer listeners it makes the next accept fail, whenever that comes.",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-stray-silent",
        severity: Severity::Warning,
        title: "a connection to NCCL that stayed and said nothing",
        meaning: "The listener reads it without a timeout and serves nobody else while it stays, in every release.",
        remedy: KEEP_OUT,
    },
    Rule {
        id: "nccl-stray-wrong-magic",
        severity: Severity::Warning,
        title: "bytes of another protocol at an NCCL listener",
        meaning: "They do not begin with the communicator's magic. Bootstrap listeners close the connection and go on \
(2.16 and later); proxy and RAS threads up to 2.30.4 spin; up to 2.15 the bytes are read as a size and end the root.",
        remedy: KEEP_OUT,
    },
];
