//! What the rules of named listeners mean.

use crate::finding::{Rule, rules};
use crate::vocabulary::Severity;

const KEEP_OUT: &str = "Leave the hosts out of connect and version scans while jobs use torch.distributed.rpc; a \
half-open scan (nmap -sS) does not reach the process. The ports are chosen by the kernel, 17 a process.";

rules! {
    /// The rules of every named listener.
    DoorRule

    DoorJobDied {
        id: "door-job-died",
        severity: Severity::Critical,
        title: "a listener of a job that closed everything after a stray",
        meaning: "The listener had connections of the job's own. A stranger connected, and within two seconds the \
listener's side ended all of them and took nobody any more: the process behind it is gone, and with it, as a rule, the job.",
        remedy: "See docs/doors.md for what ends which listener, and keep scanners and health checks off it: a half-open \
scan (nmap -sS) hurts none.",
    }
}

rules! {
    /// The rules of TensorPipe's listeners.
    TensorpipeRule

    TensorpipeClaim {
        id: "tensorpipe-claim",
        severity: Severity::Critical,
        title: "a length that TensorPipe believes",
        meaning: "TensorPipe reads the first eight bytes of a connection as a length and makes a buffer of it, filled \
with zeros, before anything else has come. Where the kernel grants it the process grows until the host runs out of memory, \
where not it aborts (std::bad_alloc), and the job with it.",
        remedy: KEEP_OUT,
    }
    TensorpipeListenerClosed {
        id: "tensorpipe-listener-closed",
        severity: Severity::Warning,
        title: "a TensorPipe listener that a stray closed for good",
        meaning: "A connection that closes, or sends fewer than eight bytes, makes TensorPipe stop listening on that \
port. Peers that are connected go on; whoever comes later is refused for as long as the process lives.",
        remedy: KEEP_OUT,
    }
}
