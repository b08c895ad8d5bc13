//! What this machine is called, and which addresses it has.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

/// Addresses that are told; a node has a few dozen at most.
const MAX: usize = 256;

/// Name and addresses, as a fact of evidence; `None` where the system does not tell its name.
pub(super) fn machine() -> Option<Value> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    if name.is_empty() {
        return None;
    }
    let mut all = of_fib_trie(&std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default());
    all.extend(of_if_inet6(&std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default()));
    let told = |a: &IpAddr| !a.is_loopback() && !a.is_unspecified() && !a.is_multicast();
    let all: BTreeSet<IpAddr> = all.into_iter().filter(told).collect();
    let addresses: Vec<String> = all.iter().take(MAX).map(ToString::to_string).collect();
    Some(json!({ "host": name, "addresses": addresses }))
}

/// Local addresses in the kernel's routing trie: a leaf `|-- 192.0.2.1`, and `/32 host LOCAL` below it.
fn of_fib_trie(text: &str) -> BTreeSet<IpAddr> {
    let mut leaf: Option<Ipv4Addr> = None;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(leaf.map(IpAddr::from));
        }
    }
    found
}

/// Addresses of `/proc/net/if_inet6`: 32 hexadecimal digits, then index, length and scope; link-local ones name no host.
fn of_if_inet6(text: &str) -> BTreeSet<IpAddr> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        (words.nth(2)? == "00").then(|| IpAddr::from(Ipv6Addr::from(address)))
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_lists_them() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 192.0.2.0/24 2 0 2\n        \
                    |-- 192.0.2.0\n           /24 link UNICAST\n        |-- 192.0.2.11\n           /32 host LOCAL\n        \
                    |-- 192.0.2.255\n           /32 link BROADCAST\n";
        assert_eq!(of_fib_trie(trie).into_iter().collect::<Vec<_>>(), ["192.0.2.11".parse::<IpAddr>().unwrap()]);
        let six = "20010db8000000000000000000000011 02 40 00 80     eth0\nfe800000000000000000000000000001 02 40 20 80 eth0\nx\n";
        assert_eq!(of_if_inet6(six).into_iter().collect::<Vec<_>>(), ["2001:db8::11".parse::<IpAddr>().unwrap()]);
    }
}
