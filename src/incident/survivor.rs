//! Hosts that got the same and lived, and why.

use std::collections::{BTreeMap, BTreeSet};

use super::by_source::BySource;
use super::{Evidence, HostPart};
use crate::finding::{Finding, is_open_claim, largest_claim};
use crate::net::{Address, Endpoint};
use crate::size::bytes;
use crate::vocabulary::Severity;

/// A host that got the same and lived.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivor {
    /// Its name, or its address when it has none.
    pub host: String,
    /// Its address.
    pub address: Address,
    /// Its listener.
    pub listener: Endpoint,
    /// Why it lived.
    pub reason: String,
}

/// The listeners, on other hosts than the failed ones, that the same sources sent something to.
pub(crate) fn survivors(
    e: &Evidence<'_>,
    sent: &BySource<'_>,
    failed: &[HostPart],
    sources: &BTreeSet<Address>,
) -> Vec<Survivor> {
    if sources.is_empty() {
        return Vec::new();
    }
    let dead: BTreeSet<&str> = failed.iter().map(|h| h.host.as_str()).collect();
    let mut by_listener: BTreeMap<Endpoint, Vec<&Finding>> = BTreeMap::new();
    for f in sent.by(sources) {
        if !dead.contains(e.host_of(f.target.address).as_str()) {
            by_listener.entry(f.target).or_default().push(f);
        }
    }
    by_listener
        .into_iter()
        .map(|(endpoint, findings)| Survivor {
            host: e.host_of(endpoint.address),
            address: endpoint.address,
            listener: endpoint,
            reason: reason(e, endpoint, &findings),
        })
        .collect()
}

fn reason(e: &Evidence<'_>, endpoint: Endpoint, findings: &[&Finding]) -> String {
    let listener = e.listener(endpoint);
    if listener.is_some_and(|l| l.accepted == 0) {
        return "its listener accepted no connection".to_string();
    }
    if listener.and_then(|l| l.validates()) == Some(true) {
        return "its store asks for the validate magic first (PyTorch 2.2 or later)".to_string();
    }
    if findings.iter().any(|f| f.rule == "store-claim-refused") {
        return "its kernel refused the allocation: the connection was closed at once".to_string();
    }
    let claim = findings.iter().filter(|f| is_open_claim(f)).map(|f| largest_claim(f)).max().unwrap_or(0);
    if claim > 0 && findings.iter().any(|f| f.severity == Severity::Critical) {
        return format!("alive as far as the captures reach; it may hold {} until that connection ends", bytes(claim));
    }
    if claim > 0 {
        return format!("the largest claim it was sent is {}", bytes(claim));
    }
    "it was sent no claim".to_string()
}
