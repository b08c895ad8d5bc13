//! Dask: both sides send, at once, two frames whose lengths come first, and how they compress in MessagePack.

use super::named::{Harm, Name, Named, Speech, any, contains};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

/// The length of all, below 256; one; the length of the second frame.
const HEAD: usize = 24;

/// The protocol.
pub static DASK: Named = Named {
    protocol: Protocol::Dask,
    begins: |s| any([s.client, s.server].into_iter().filter(|b| !b.is_empty()).map(greeting)),
    name: |s| (greeting(s.server) == Match::Yes).then(|| named(s)),
    own: |client| greeting(client) == Match::Yes,
    usual: None,
    harm: Harm::Nothing,
    rules: &[],
};

fn greeting(bytes: &[u8]) -> Match {
    let counts = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15];
    let fits = counts.iter().all(|i| bytes.get(*i).is_none_or(|b| *b == 0)) && bytes.get(8).is_none_or(|n| *n == 1);
    match (fits, bytes.len()) {
        (false, _) => Match::No,
        (true, n) if n < HEAD + 24 => Match::Undecided,
        _ if contains(bytes, b"compression") => Match::Yes,
        _ => Match::No,
    }
}

fn named(s: &Speech<'_>) -> Name {
    let what = if s.port == 8786 { "Dask, scheduler" } else { "Dask, worker or nanny" };
    Name::new(if s.port == 8786 { Role::Control } else { Role::Rpc }, what)
}
