//! SSH: the server says its version first.

use super::named::{Harm, Name, Named, any, prefix};
use super::seam::Match;
use crate::vocabulary::Protocol;

const BANNER: &[u8] = b"SSH-";
/// Bytes of the banner that are shown.
const SHOWN: usize = 40;

/// The protocol.
pub static SSH: Named = Named {
    protocol: Protocol::Ssh,
    begins: |s| any([s.client, s.server].into_iter().filter(|b| !b.is_empty()).map(|b| prefix(b, BANNER))),
    name: |s| {
        let line = s.server.split(|b| matches!(b, b'\r' | b'\n')).next().unwrap_or_default();
        s.server.starts_with(BANNER).then(|| Name { role: None, product: crate::escape::clean(line, SHOWN) })
    },
    own: |client| prefix(client, BANNER) == Match::Yes,
    usual: Some(|port| matches!(port, 22 | 2222)),
    harm: Harm::Nothing,
    rules: &[],
};
