//! Redis: requests are arrays of strings.

use super::named::{Harm, Name, Named};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

/// Its usual port.
const PORT: u16 = 6379;

/// The protocol.
pub static REDIS: Named = Named {
    protocol: Protocol::Redis,
    begins: |s| if s.client.is_empty() { Match::Undecided } else { request(s.client) },
    name: |s| {
        let answers = matches!(s.server.first(), Some(b'+' | b'-' | b':' | b'$' | b'*')) && s.server.ends_with(b"\n");
        let refuses = s.server.starts_with(b"-ERR ");
        (answers && request(s.client) == Match::Yes || refuses && s.port == PORT)
            .then(|| Name::new(Role::Store, "Redis"))
    },
    own: |client| request(client) == Match::Yes,
    usual: Some(|port| port == PORT),
    harm: Harm::Nothing,
    rules: &[],
};

/// `*N\r\n$L\r\n` and so on.
fn request(bytes: &[u8]) -> Match {
    let Some((b'*', rest)) = bytes.split_first() else { return Match::No };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let expected = b"\r\n$";
    let after = rest.get(digits..).unwrap_or_default();
    let n = after.len().min(expected.len());
    match (digits, after.get(..n) == expected.get(..n)) {
        (0, _) if rest.is_empty() => Match::Undecided,
        (0, _) | (5.., _) | (_, false) => Match::No,
        (_, true) if n < expected.len() => Match::Undecided,
        _ => Match::Yes,
    }
}
