//! What a host's memory did around a kill, held against the claim.

use super::Evidence;
use crate::curve::{Climb, Series, onset};
use crate::incident::summary::clock;
use crate::size::bytes;
use crate::time::Timestamp;

/// A climb that begins within this many seconds after a claim began with it: a store fills what it allocates at once.
const WITH_SECONDS: f64 = 15.0;
/// A monitor's clock may be off by this much.
const CLOCK_SECONDS: f64 = 2.0;

/// What a climb says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// It began with the claim.
    For,
    /// It began before it.
    Against,
    /// It tells nothing.
    Nothing,
}

/// The climb of `host` that ended with a kill.
fn of(e: &Evidence<'_>, host: &str, killed: Timestamp) -> Option<(Climb, bool)> {
    let own = |s: &&Series| e.names.same(&s.host, host) || by_address(e, s, host);
    e.curves.iter().filter(own).find_map(|s| Some((onset(s, killed)?, s.time_is_assumed)))
}

/// Monitoring names hosts by their addresses, with a port or without.
fn by_address(e: &Evidence<'_>, s: &Series, host: &str) -> bool {
    let ip = s.host.parse().ok().or_else(|| s.host.rsplit_once(':')?.0.trim_matches(['[', ']']).parse().ok());
    let bare = s
        .host
        .rsplit_once(':')
        .is_some_and(|(h, port)| port.bytes().all(|b| b.is_ascii_digit()) && !h.contains(':') && e.names.same(h, host));
    bare || ip.is_some_and(|ip: std::net::IpAddr| e.names.host(ip.into()).is_some_and(|h| e.names.same(h, host)))
}

/// In words, and what it says of a claim at `claim`.
pub(super) fn weighed(
    e: &Evidence<'_>,
    host: &str,
    killed: Timestamp,
    claim: Option<Timestamp>,
    beside: f64,
) -> Option<(String, Says)> {
    let (climb, assumed) = of(e, host, killed)?;
    let mut text =
        format!("its memory began to climb between {} and {}", clock(climb.start), clock(climb.start_latest));
    let slack = CLOCK_SECONDS + beside;
    let says = match claim {
        None => Says::Nothing,
        Some(at) => {
            let (early, late) = (climb.start.seconds_since(at), climb.start_latest.seconds_since(at));
            if late < -slack {
                text.push_str(&format!(", {:.0} s or more before the claim: that speaks against it", -late));
                Says::Against
            } else if early <= WITH_SECONDS + slack {
                text.push_str(&format!(", with the claim ({early:+.1} to {late:+.1} s from it)"));
                Says::For
            } else {
                text.push_str(&format!(", {early:.0} s after the claim"));
                Says::Nothing
            }
        }
    };
    if let (Some(a), Some(b)) = (climb.from.used_percent, climb.to.used_percent) {
        text.push_str(&format!(": from {a:.0} % to {b:.0} % in {:.0} s", climb.seconds()));
    } else if let (Some(a), Some(b)) = (climb.from.used_bytes, climb.to.used_bytes) {
        text.push_str(&format!(": from {:.1} GB to {:.1} GB in {:.0} s", a / 1e9, b / 1e9, climb.seconds()));
    }
    if let Some(rate) = climb.rate_bytes_per_second.filter(|r| *r >= 0.0) {
        text.push_str(&format!(", {} a second", bytes(rate as u64)));
    } else if let Some(rate) = climb.rate_percent_per_second {
        text.push_str(&format!(", {rate:.2} % a second"));
    }
    if assumed {
        text.push_str(" (its times have no zone: UTC is assumed, so it counts for nothing)");
        return Some((text, Says::Nothing));
    }
    Some((text, says))
}
