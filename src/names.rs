//! Hosts and their addresses: who is meant when a log says one thing and a packet another.

use std::collections::{BTreeMap, BTreeSet};

use crate::net::Address;
use crate::time::Timestamp;

/// Names and addresses of hosts. A host may have many addresses; names compare without case and domain.
#[derive(Clone, Debug, Default)]
pub struct Names {
    by_address: BTreeMap<Address, String>,
    /// Short lower-case name → the name as it was first given, and its addresses.
    by_name: BTreeMap<String, (String, Addresses)>,
    /// Addresses that were a host's for a while: those of pods.
    leases: BTreeMap<Address, Vec<Lease>>,
    /// Other short names → the host's; `None` where two hosts have one.
    aliases: BTreeMap<String, Option<String>>,
    /// Addresses of machines of the cluster, its gateways and bridges: others may send from behind them.
    nodes: BTreeSet<Address>,
}

/// An address that a host had for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    host: String,
    from: Timestamp,
    until: Timestamp,
}

/// Addresses of one host, in the order in which they were first given. A name that a list gives to all of a network is
/// found among them without a search.
#[derive(Clone, Debug, Default)]
struct Addresses {
    listed: Vec<Address>,
    known: BTreeSet<Address>,
}

impl Addresses {
    fn add(&mut self, address: Address) {
        if self.known.insert(address) {
            self.listed.push(address);
        }
    }
}

/// Leases of one address that are kept.
const MAX_LEASES: usize = 1024;

/// A line of a hosts list that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: required an address and a name, there was {found:?}")]
pub struct HostsLineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// The line, bounded.
    pub found: String,
}

/// The form in which names compare: lower case, without domain. Addresses written as names keep their dots.
pub fn short(name: &str) -> String {
    let name = name.trim().trim_end_matches('.').to_ascii_lowercase();
    if name.parse::<std::net::IpAddr>().is_ok() {
        return name;
    }
    name.split('.').next().unwrap_or_default().to_string()
}

impl Names {
    /// Notes that `name` has `address`. The first name of an address stays.
    pub fn add(&mut self, name: &str, address: Address) {
        let key = short(name);
        if key.is_empty() {
            return;
        }
        let (given, addresses) = self.by_name.entry(key).or_insert_with(|| (name.to_string(), Addresses::default()));
        addresses.add(address);
        let given = given.clone();
        self.by_address.entry(address).or_insert(given);
    }

    /// Notes that `name` had `address` from `from` until `until` (without them: since ever, for ever), as a pod's address
    /// is its node's while the pod lives. [`Names::host_at`] tells whose it was at an instant.
    pub fn add_between(&mut self, name: &str, address: Address, from: Option<Timestamp>, until: Option<Timestamp>) {
        let key = short(name);
        if key.is_empty() {
            return;
        }
        let (given, addresses) = self.by_name.entry(key).or_insert_with(|| (name.to_string(), Addresses::default()));
        addresses.add(address);
        let lease =
            Lease { host: given.clone(), from: from.unwrap_or(Timestamp::MIN), until: until.unwrap_or(Timestamp::MAX) };
        let leases = self.leases.entry(address).or_default();
        if leases.len() < MAX_LEASES && !leases.contains(&lease) {
            leases.push(lease);
        }
    }

    /// Notes that `alias` is another name of `name`: a pod on its node, a second name in a hosts list. A name that is a
    /// host's own is never taken for an alias; an alias of two hosts is none.
    pub fn add_alias(&mut self, alias: &str, name: &str) {
        let (alias, name) = (short(alias), short(name));
        if alias.is_empty() || name.is_empty() || alias == name {
            return;
        }
        let known = self.aliases.entry(alias).or_insert_with(|| Some(name.clone()));
        if known.as_ref() != Some(&name) {
            *known = None;
        }
    }

    /// The key under which a name or an alias is kept: of all names of one host the same.
    pub(crate) fn key(&self, name: &str) -> String {
        let key = short(name);
        if self.by_name.contains_key(&key) {
            return key;
        }
        self.aliases.get(&key).cloned().flatten().unwrap_or(key)
    }

    /// Reads a list in the form of /etc/hosts: an address, then names; `#` begins a comment. Loopback, multicast and
    /// unspecified addresses name no host. Returns the lines that were not understood.
    pub fn read_hosts(&mut self, text: &str) -> Vec<HostsLineError> {
        let mut errors = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or_default();
            let mut words = content.split_whitespace();
            let Some(first) = words.next() else { continue };
            let address = first.split('%').next().unwrap_or_default().parse::<std::net::IpAddr>();
            let name = words.next();
            match (address, name) {
                (Ok(ip), Some(name)) => {
                    if ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() {
                        continue;
                    }
                    self.add(name, ip.into());
                    for other in words.filter(|w| !w.starts_with("localhost")) {
                        self.add_alias(other, name);
                    }
                }
                _ => {
                    errors.push(HostsLineError { line: i as u64 + 1, found: content.trim().chars().take(80).collect() })
                }
            }
        }
        errors
    }

    /// The name of the host with this address. Of an address that was several hosts' in turn: none, ask
    /// [`Names::host_at`].
    pub fn host(&self, address: Address) -> Option<&str> {
        if let Some(name) = self.by_address.get(&address) {
            return Some(name);
        }
        let leases = self.leases.get(&address)?;
        let first = leases.first()?;
        leases.iter().all(|l| short(&l.host) == short(&first.host)).then_some(first.host.as_str())
    }

    /// The name of the host that had this address at an instant: by the latest of the leases that hold then, else for
    /// good.
    pub fn host_at(&self, address: Address, at: Timestamp) -> Option<&str> {
        let leases = self.leases.get(&address).into_iter().flatten();
        let then = leases.filter(|l| l.from <= at && at <= l.until).max_by_key(|l| l.from);
        then.map(|l| l.host.as_str()).or_else(|| self.by_address.get(&address).map(String::as_str))
    }

    /// Notes that an address is a node's of the cluster, or a gateway's or bridge's.
    pub fn add_node(&mut self, address: Address) {
        self.nodes.insert(address);
    }

    /// Whether an address is a node's of the cluster, or its name says that it is a gateway or bridge: what comes from it
    /// may come from a host behind it.
    pub fn is_node(&self, address: Address) -> bool {
        const GATES: [&str; 9] = ["gateway", "gw", "router", "nat", "bridge", "br", "docker0", "cni0", "egress"];
        let gate = |name: &str| {
            let name = short(name);
            let words = name.split(|c: char| !c.is_ascii_alphanumeric());
            words
                .map(|w| w.trim_end_matches(|c: char| c.is_ascii_digit()))
                .any(|w| GATES.iter().any(|g| w == g.trim_end_matches('0')))
        };
        self.nodes.contains(&address) || self.by_address.get(&address).is_some_and(|name| gate(name))
    }

    /// All addresses that are a host's for good.
    pub fn all_addresses(&self) -> impl Iterator<Item = Address> {
        self.by_address.keys().copied()
    }

    /// The addresses of a host.
    pub fn addresses(&self, name: &str) -> &[Address] {
        self.by_name.get(&self.key(name)).map(|(_, a)| a.listed.as_slice()).unwrap_or_default()
    }

    /// Whether the name is known.
    pub fn knows(&self, name: &str) -> bool {
        self.by_name.contains_key(&self.key(name))
    }

    /// The host's name as it was first given, else `name` itself.
    pub fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        self.by_name.get(&self.key(name)).map_or(name, |(given, _)| given)
    }

    /// Whether two names mean one host.
    pub fn same(&self, a: &str, b: &str) -> bool {
        short(a) == short(b) || self.key(a) == self.key(b)
    }

    /// All names, in order.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.by_name.values().map(|(given, _)| given.as_str())
    }

    /// All aliases, in their short form.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.keys().map(String::as_str)
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The known name that is the longest leading part of a file's name, ending where a word of the name ends:
    /// `node-1` is no part of `node-10.pcap`.
    pub fn of_file(&self, file_name: &str) -> Option<&str> {
        let file = file_name.to_ascii_lowercase();
        self.by_name
            .iter()
            .flat_map(|(key, (given, _))| [(key.clone(), given), (given.to_ascii_lowercase(), given)])
            .filter(|(name, _)| {
                file.strip_prefix(name.as_str())
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
            })
            .max_by_key(|(name, _)| name.len())
            .map(|(_, given)| given.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut n = Names::default();
        let errors = n.read_hosts(
            "# the cluster\n192.0.2.11 node-a node-a.example.org\n2001:db8::11 node-a\n192.0.2.1\tnode-1 # rack 1\n\
             192.0.2.10 node-10\n127.0.0.1 localhost\nnot a host\n192.0.2.9\n",
        );
        assert_eq!(errors.iter().map(|e| e.line).collect::<Vec<_>>(), [7, 8]);
        n
    }

    #[test]
    fn a_host_may_have_many_addresses_and_forms_of_its_name() {
        let n = names();
        assert_eq!(n.addresses("NODE-A.example.org").len(), 2);
        assert_eq!(n.host(Address::v4([192, 0, 2, 11])), Some("node-a"));
        assert_eq!(n.host(Address::v4([127, 0, 0, 1])), None);
        assert!(n.same("Node-A", "node-a.local"));
    }

    #[test]
    fn an_address_may_be_a_hosts_for_a_while_and_a_name_anothers() {
        let mut n = names();
        let pod = Address::v4([10, 0, 0, 7]);
        n.add_between("node-a", pod, Some(Timestamp(10)), Some(Timestamp(20)));
        assert_eq!((n.host(pod), n.host_at(pod, Timestamp(9))), (Some("node-a"), None));
        n.add_between("node-b", pod, Some(Timestamp(21)), None);
        assert_eq!(n.host(pod), None);
        assert_eq!((n.host_at(pod, Timestamp(15)), n.host_at(pod, Timestamp(99))), (Some("node-a"), Some("node-b")));
        n.add_alias("job-0", "node-a");
        assert!(n.same("job-0", "node-a.example.org") && n.canonical("job-0") == "node-a" && n.knows("job-0"));
        n.add_alias("job-0", "node-b");
        assert!(!n.knows("job-0"));
        n.add_alias("node-1", "node-a");
        assert_eq!(n.canonical("node-1"), "node-1");
    }

    #[test]
    fn nodes_and_gateways_may_stand_for_others() {
        let mut n = names();
        let at = |d| Address::v4([192, 0, 2, d]);
        n.add("rack2-gw1", at(254));
        n.add("bright", at(253));
        n.add_node(at(11));
        assert!(n.is_node(at(254)) && n.is_node(at(11)));
        assert!(!n.is_node(at(253)) && !n.is_node(at(10)) && !n.is_node(at(99)));
    }

    #[test]
    fn a_files_name_names_the_longest_host_that_ends_with_a_word() {
        let n = names();
        assert_eq!(n.of_file("node-10.pcap"), Some("node-10"));
        assert_eq!(n.of_file("node-1-eth0.pcap"), Some("node-1"));
        assert_eq!(n.of_file("node-a.dmesg"), Some("node-a"));
        assert_eq!(n.of_file("node-abc.pcap"), None);
        assert_eq!(n.of_file("xnode-a.pcap"), None);
    }
}
