//! Which flows are meant.

use std::collections::HashSet;

use crate::analysis::Knowledge;
use crate::names::Names;
use crate::net::Address;
use crate::stream::{FlowRecord, PortSet};

/// Which flows are wanted. What is `None` does not restrict.
#[derive(Clone, Default)]
pub struct Selection {
    /// Flows of any listener; otherwise of those that are stores, or may be, of NCCL's and Gloo's, and of the ports
    /// named.
    pub all: bool,
    /// Flows to or from one of these ports.
    pub ports: Option<PortSet>,
    /// Flows to or from one of these addresses.
    pub hosts: Option<HashSet<Address>>,
}

impl Selection {
    /// Whether it takes this flow.
    pub fn takes(&self, record: &FlowRecord, known: &Knowledge) -> bool {
        let ends = [record.client(), record.server()];
        if let Some(ports) = &self.ports
            && !ends.iter().any(|e| ports.contains(e.port))
        {
            return false;
        }
        if let Some(hosts) = &self.hosts
            && !ends.iter().any(|e| hosts.contains(&e.address))
        {
            return false;
        }
        let server = record.server();
        let known = known.listeners.contains_key(&server)
            || known.nccl.listeners.contains_key(&server)
            || known.pairs.contains(&server);
        self.all || self.ports.is_some() || known
    }

    /// Restricts it to a host: an address, or a name that `names` knows. Returns whether it is known.
    pub fn add_host(&mut self, host: &str, names: &Names) -> bool {
        let found: Vec<Address> = match host.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
            Ok(ip) => vec![ip.into()],
            Err(_) => names.addresses(host).to_vec(),
        };
        self.hosts.get_or_insert_default().extend(&found);
        !found.is_empty()
    }
}

/// What is kept of messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Values, not only their lengths.
    pub values: bool,
    /// All fields as bytes.
    pub fields: bool,
}
