//! UCX over TCP (1.8 and later): a magic number comes first.

use super::named::{Harm, Name, Named, prefix};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

/// 0xCAFEBABE12345678, little-endian.
const MAGIC: &[u8] = &[0x78, 0x56, 0x34, 0x12, 0xbe, 0xba, 0xfe, 0xca];

/// The protocol.
pub static UCX: Named = Named {
    protocol: Protocol::Ucx,
    begins: |s| if s.client.is_empty() { Match::Undecided } else { prefix(s.client, MAGIC) },
    name: |s| s.client.starts_with(MAGIC).then(|| Name::new(Role::Peer, "UCX 1.8 or later, tcp")),
    own: |client| client.starts_with(MAGIC),
    usual: None,
    harm: Harm::Nothing,
    rules: &[],
};
