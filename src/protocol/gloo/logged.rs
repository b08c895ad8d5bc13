//! What Gloo's own error texts in logs say of connections: `[./gloo/transport/tcp/pair.cc:799] connect [192.0.2.11]:64394:
//! Connection refused`. Gloo prints a port's two bytes in the order of the wire, so 64394 is 35579.

use crate::finding::Finding;
use crate::net::{Address, Endpoint};
use crate::protocol::seam::LoggedError;

/// Lines that one finding quotes.
const QUOTED: usize = 3;

/// The endpoints that an error names, with the numbers as printed, bytes of each port swapped.
fn named(text: &str) -> Vec<(Endpoint, u16)> {
    let one = |(at, _): (usize, &str)| {
        let (before, after) = (text.get(..at)?, text.get(at + 2..)?);
        let address: std::net::IpAddr = before.rsplit('[').next()?.parse().ok()?;
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let printed: u16 = after.get(..digits)?.parse().ok()?;
        Some((Endpoint { address: Address::from(address), port: printed.swap_bytes() }, printed))
    };
    text.match_indices("]:").filter_map(one).collect()
}

/// Adds to findings the errors that name their listener or the connection of their source.
pub(super) fn corroborate<'a>(findings: impl Iterator<Item = &'a mut Finding>, errors: &[LoggedError]) {
    let errors: Vec<(&LoggedError, Vec<(Endpoint, u16)>)> = errors.iter().map(|e| (e, named(&e.text))).collect();
    for f in findings {
        let of = |(e, named): &(&LoggedError, Vec<(Endpoint, u16)>)| {
            let (peer, printed) = named.iter().find(|(peer, _)| *peer == f.target || *peer == f.source)?;
            let (place, text) = (&e.place, &e.text);
            Some(format!(
                "{place} says: {text} (Gloo prints ports with their bytes swapped: {printed} is {})",
                peer.port
            ))
        };
        let told: Vec<String> = errors.iter().filter_map(of).take(QUOTED).collect();
        f.evidence.extend(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_errors_are_read_with_their_ports_swapped() {
        let of = |text: &str| named(text).into_iter().map(|(e, n)| (e.to_string(), n)).collect::<Vec<_>>();
        let refused = "1 failed: [./gloo/transport/tcp/pair.cc:799] connect [192.0.2.11]:64394: Connection refused";
        assert_eq!(of(refused), [("192.0.2.11:35579".to_string(), 64394)]);
        let v6 = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [2001:db8::11]:10381";
        assert_eq!(of(v6), [("2001:db8::11:36136".to_string(), 10381)]);
        assert!(of("[pair.cc:1] [x]:70000 ]: [192.0.2.1]:99999").is_empty());
    }
}
