//! What one connection to a store taught.

use crate::names::Names;
use crate::net::{Address, Endpoint};
use crate::protocol::tcpstore::Learned;
use crate::time::Timestamp;
use std::sync::Arc;

/// What one connection taught, and the connection.
#[derive(Clone, Debug)]
pub(super) struct StoreTalk {
    pub(super) client: Endpoint,
    pub(super) server: Endpoint,
    /// Its last packet.
    pub(super) last: Timestamp,
    /// When the client's side closed it.
    pub(super) closed: Option<Timestamp>,
    pub(super) learned: Arc<Learned>,
}

/// An address as text, or the name of a host.
pub(super) fn resolve(text: &str, names: &Names) -> Option<Address> {
    text.parse::<std::net::IpAddr>().ok().map(Address::from).or_else(|| names.addresses(text).first().copied())
}
