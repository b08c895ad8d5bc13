//! ZeroMQ: ZMTP's greeting, which either side sends at once.

use super::named::{Harm, Name, Named, any, prefix};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

/// The signature of ZMTP 2 and later.
const SIGNATURE: &[u8] = &[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f];

/// The protocol.
pub static ZMQ: Named = Named {
    protocol: Protocol::Zmq,
    begins: |s| any([s.client, s.server].into_iter().filter(|b| !b.is_empty()).map(|b| prefix(b, SIGNATURE))),
    name: |s| {
        let major = s.server.get(SIGNATURE.len()).map_or(String::new(), |v| format!(", ZMTP {v}"));
        s.server.starts_with(SIGNATURE).then(|| Name::new(Role::Rpc, &format!("ZeroMQ{major}")))
    },
    own: |client| prefix(client, SIGNATURE) == Match::Yes,
    usual: None,
    harm: Harm::Dies,
    rules: &[],
};
