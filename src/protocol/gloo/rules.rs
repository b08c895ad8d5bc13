//! What the rules of Gloo mean.

use crate::finding::{Rule, rules};
use crate::vocabulary::Severity;

const KEEP_OUT: &str = "Keep scanners and health checks off the training network's ephemeral ports (firewall, scan \
exclusions), most of all while groups form. A half-open scan (nmap -sS without -sV) never reaches the process.";

rules! {
    /// Every rule, in order of id.
    GlooRule

    GlooDescriptorsLost {
        id: "gloo-descriptors-lost",
        severity: Severity::Warning,
        title: "file descriptors that strays cost a Gloo listener",
        meaning: "A Gloo listener keeps strangers' connections until its process group is destroyed: from PyTorch 2.8 on \
every one that completed its handshake, in 2.1–2.7 one for each number (the first eight bytes) that nobody waits for. Each \
is a file descriptor; a rank that runs out of them (1024 by default) aborts, and its group with it.",
        remedy: KEEP_OUT,
    }
    GlooNumberByStranger {
        id: "gloo-number-by-stranger",
        severity: Severity::Critical,
        title: "a stranger that sent a member's number to a Gloo listener",
        meaning: "A Gloo listener (PyTorch 2.1 and later) knows its peers by a number alone, and takes whoever sends it \
first. Where the member had not come yet, the stranger is taken for it: the group forms, and its next collective hangs \
until its timeout.",
        remedy: KEEP_OUT,
    }
    GlooStrayTookPair {
        id: "gloo-stray-took-pair",
        severity: Severity::Critical,
        title: "a stranger in the place of a Gloo pair",
        meaning: "Up to PyTorch 2.0 a rank opens a listener for each peer, takes the first connection that completes its \
handshake, and closes the listener. A stranger that comes before the peer takes its place: the peer is refused, and the \
group fails on all ranks.",
        remedy: KEEP_OUT,
    }
}
