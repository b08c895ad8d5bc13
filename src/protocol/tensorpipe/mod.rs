//! TensorPipe, the transport of PyTorch's RPC: an eight-byte length (little-endian), then a message in nop encoding.
//!
//! A peer begins with its transport and session; each of its lanes with a message of five bytes. Seen in PyTorch 1.13.

use super::named::{Harm, Name, Named, any, prefix};
use crate::finding::Rule;
use crate::vocabulary::{Protocol, Role, Severity};

/// What a peer and what a lane begins with: the length, then the kind of message.
const PEER: &[u8] = &[8, 0, 0, 0, 0, 0, 0, 0, 0xb8, 0, 0xb9, 1];
const LANE: &[u8] = &[5, 0, 0, 0, 0, 0, 0, 0, 0xb8, 1, 0xb9, 1];

const KEEP_OUT: &str = "Leave the hosts out of connect and version scans while jobs use torch.distributed.rpc; a \
half-open scan (nmap -sS) does not reach the process. The ports are chosen by the kernel, 17 a process.";

/// The protocol.
pub static TENSORPIPE: Named = Named {
    protocol: Protocol::Tensorpipe,
    begins: |s| {
        any([prefix(s.client, PEER), prefix(s.client, LANE)]
            .map(|m| if s.client.is_empty() { super::seam::Match::Undecided } else { m }))
    },
    name: |s| own(s.client).then(|| Name::new(Role::Rpc, "TensorPipe (torch.distributed.rpc)")),
    own,
    usual: None,
    harm: Harm::BelievesLength,
    rules: &[
        Rule {
            id: "tensorpipe-claim",
            severity: Severity::Critical,
            title: "a length that TensorPipe believes",
            meaning: "TensorPipe reads the first eight bytes of a connection as a length and makes a buffer of it, filled \
with zeros, before anything else has come. Where the kernel grants it the process grows until the host runs out of memory, \
where not it aborts (std::bad_alloc), and the job with it.",
            remedy: KEEP_OUT,
        },
        Rule {
            id: "tensorpipe-listener-closed",
            severity: Severity::Warning,
            title: "a TensorPipe listener that a stray closed for good",
            meaning: "A connection that closes, or sends fewer than eight bytes, makes TensorPipe stop listening on that \
port. Peers that are connected go on; whoever comes later is refused for as long as the process lives.",
            remedy: KEEP_OUT,
        },
    ],
};

fn own(client: &[u8]) -> bool {
    client.starts_with(PEER) || client.starts_with(LANE)
}
