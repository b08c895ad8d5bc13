//! TensorPipe, the transport of PyTorch's RPC: an eight-byte length (little-endian), then a message in nop encoding.
//!
//! A peer begins with its transport and session; each of its lanes with a message of five bytes. Seen in PyTorch 1.13.

use super::named::{Harm, Name, Named, TensorpipeRule, any, prefix};
use crate::vocabulary::{Protocol, Role};

/// What a peer and what a lane begins with: the length, then the kind of message.
const PEER: &[u8] = &[8, 0, 0, 0, 0, 0, 0, 0, 0xb8, 0, 0xb9, 1];
const LANE: &[u8] = &[5, 0, 0, 0, 0, 0, 0, 0, 0xb8, 1, 0xb9, 1];

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
    rules: TensorpipeRule::ALL,
};

fn own(client: &[u8]) -> bool {
    client.starts_with(PEER) || client.starts_with(LANE)
}
