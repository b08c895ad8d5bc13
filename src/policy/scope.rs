//! What a policy has to keep a scanner away from.

use serde::Serialize;
use serde_json::Value;

use super::nets::{aggregate, covers};
use crate::net::{Address, Network};
use crate::prescan::{EPHEMERAL, Fleet, Kind, Place, Ports};

/// One listener to be left alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct ProtectedListener {
    /// Its address, where one is known.
    pub address: Option<Address>,
    /// Its port; of one that the kernel chose, the port of that day.
    pub port: Option<u16>,
    /// What it is for.
    pub role: String,
    /// Whether the kernel chose its port: the next one will be on another.
    pub ephemeral: bool,
}

impl ProtectedListener {
    /// `192.0.2.11:29500 (store)`.
    pub fn text(&self) -> String {
        let address = self.address.map_or("any host".to_owned(), |a| a.to_string());
        match self.port {
            Some(port) if !self.ephemeral => format!("{address}:{port} ({})", self.role),
            Some(port) => format!("{address}:{port} ({}, port chosen by the kernel)", self.role),
            None => format!("{address} ({}, port chosen by the kernel)", self.role),
        }
    }
}

/// All that a policy is made of.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Listeners.
    pub listeners: Vec<ProtectedListener>,
    /// Fixed ports.
    pub ports: Ports,
    /// Hosts, or networks of hosts, that are left alone whole: they have listeners on ports that the kernel chose.
    pub hosts: Vec<Network>,
    /// Who belongs to the jobs: listeners' hosts, participants, ranks, networks that were named.
    pub members: Vec<Network>,
    /// The scanner.
    pub scanners: Vec<Network>,
    /// The networks that were named.
    pub named: Vec<Network>,
    /// Ports that nmap's file of probes leaves alone already.
    pub excluded_by_nmap: Ports,
    /// Whether each store asks for no magic number: what a newer client sends is then a claim.
    pub old_stores_only: bool,
    /// When it was made, `2026-11-29`.
    pub date: String,
    /// What it was made from.
    pub source: String,
    /// When the newest of the fleet was last seen.
    pub last_seen: Option<String>,
    /// Listeners of an inventory on loopback addresses: no scan reaches them.
    pub on_loopback: usize,
}

impl Scope {
    /// From servers that were named; from the document of an inventory, and the ports in it that are known to be fixed though the kernel
    /// could have chosen them; and from networks.
    pub fn new(
        fleet: &Fleet,
        inventory: Option<(&Value, &[u16])>,
        networks: &[Network],
        scanners: &[Network],
    ) -> Scope {
        let mut scope = Scope { scanners: aggregate(scanners.iter().copied()), ..Scope::default() };
        scope.named = aggregate(networks.iter().copied());
        let mut members: Vec<Network> = networks.to_vec();
        for target in fleet.targets.iter().filter(|t| t.endpoints.is_empty()) {
            let of =
                |port, ephemeral| ProtectedListener { address: None, port, role: target.role().to_owned(), ephemeral };
            match &target.place {
                Place::Ports(ports) => scope.listeners.extend(ports.iter().map(|p| of(Some(*p), false))),
                Place::Ephemeral => scope.listeners.push(of(None, true)),
            }
        }
        if let Some((document, fixed)) = inventory {
            scope.inventory(document, fixed, &mut members);
        }
        scope.listeners.sort();
        scope.listeners.dedup();
        let stores = |t: &crate::prescan::Target| match t.kind {
            Kind::Store(server) => Some(server.release.dialect.validates()),
            Kind::Nccl(..) | Kind::Door(_) => None,
        };
        let mut validates = fleet.targets.iter().filter_map(stores).peekable();
        scope.old_stores_only = validates.peek().is_some() && validates.all(|v| !v);
        let fixed: Vec<u16> = scope.listeners.iter().filter(|l| !l.ephemeral).filter_map(|l| l.port).collect();
        scope.ports = Ports::of(&fixed);
        let moving = scope.listeners.iter().filter(|l| l.ephemeral);
        let mut hosts: Vec<Network> = moving.clone().filter_map(|l| l.address).map(Network::of).collect();
        if moving.count() > 0 {
            // The next job may run on any host of the networks that were named.
            hosts.extend(networks);
        }
        scope.hosts = aggregate(hosts);
        scope.members = aggregate(members);
        scope
    }

    fn inventory(&mut self, document: &Value, fixed: &[u16], members: &mut Vec<Network>) {
        let address = |text: &Value| -> Option<Address> {
            let text = text.as_str()?;
            let ip: std::net::IpAddr = text.parse().ok()?;
            Some(ip.into())
        };
        let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
        for l in list(&document["listeners"]) {
            let protocol = l["protocol"].as_str().unwrap_or_default();
            if matches!(protocol, "" | "unknown") {
                continue;
            }
            let (Some(address), Some(port)) = (address(&l["address"]), l["port"].as_u64()) else { continue };
            let Ok(port) = u16::try_from(port) else { continue };
            if address.is_loopback() {
                self.on_loopback += 1;
                continue;
            }
            let role = crate::escape::clean(l["role"].as_str().unwrap_or("listener").as_bytes(), 24);
            let role = match protocol {
                "tcpstore" | "nccl" => role,
                protocol => crate::escape::clean(format!("{protocol} {role}").as_bytes(), 36),
            };
            let moves = chosen(port) || (protocol != "tcpstore" && port >= EPHEMERAL.0);
            let ephemeral = moves && !fixed.contains(&port);
            self.listeners.push(ProtectedListener { address: Some(address), port: Some(port), role, ephemeral });
            members.push(Network::of(address));
            let seen = l["last_seen"].as_str().map(whole_seconds);
            self.last_seen = self.last_seen.take().max(seen);
        }
        for job in list(&document["jobs"]) {
            members.extend(list(&job["participants"]).iter().filter_map(|p| address(&p["address"])).map(Network::of));
        }
        for communicator in list(&document["communicators"]) {
            let host = |r: &Value| {
                let (host, _) = r["address"].as_str()?.rsplit_once(':')?;
                host.parse::<std::net::IpAddr>().ok()
            };
            members.extend(list(&communicator["ranks"]).iter().filter_map(host).map(|ip| Network::of(ip.into())));
        }
        members.retain(|n| !n.ends().0.is_loopback());
    }

    /// Whether a listener is on a port that the kernel chose.
    pub fn has_ephemeral(&self) -> bool {
        self.listeners.iter().any(|l| l.ephemeral)
    }

    /// The ports that a rule about ports has to speak of: the fixed ones, and all from which the kernel chooses.
    pub fn all_ports(&self) -> Ports {
        let mut all = self.ports.clone();
        if self.has_ephemeral() {
            all.extend(&Ports::range(EPHEMERAL.0, EPHEMERAL.1));
        }
        all
    }

    /// Listeners on ports that the kernel chose, of which no address is known and no network was named.
    pub fn nowhere(&self) -> Vec<&ProtectedListener> {
        let lost = |l: &&ProtectedListener| l.ephemeral && l.address.is_none() && self.named.is_empty();
        self.listeners.iter().filter(lost).collect()
    }

    /// Hosts of listeners with fixed ports alone.
    pub fn fixed_hosts(&self) -> Vec<Network> {
        let of = self.listeners.iter().filter_map(|l| l.address).map(Network::of);
        aggregate(of.filter(|n| !covers(&self.hosts, n)))
    }
}

/// A time without its fraction.
fn whole_seconds(time: &str) -> String {
    let whole = time.split_once('.').map_or(time.to_owned(), |(whole, _)| format!("{whole}Z"));
    crate::escape::clean(whole.as_bytes(), 40)
}

/// Whether the kernel hands out this port by itself.
fn chosen(port: u16) -> bool {
    (EPHEMERAL.0..=EPHEMERAL.1).contains(&port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::nets::list;
    use crate::prescan::{nccl, pytorch};

    #[test]
    fn an_inventory_parts_fixed_ports_from_hosts() {
        let document = serde_json::json!({"listeners": [
            {"address": "192.0.2.11", "port": 29500, "protocol": "tcpstore", "role": "store", "last_seen": "2026-11-29T11:20:00Z"},
            {"address": "192.0.2.12", "port": 33281, "protocol": "tcpstore", "role": "store", "last_seen": "2026-11-29T11:21:00Z"},
            {"address": "192.0.2.13", "port": 45999, "protocol": "nccl", "role": "bootstrap-root"},
            {"address": "127.0.0.1", "port": 29400, "protocol": "tcpstore", "role": "store"},
            {"address": "192.0.2.99", "port": 22, "protocol": "unknown"}],
            "jobs": [{"participants": [{"address": "192.0.2.14"}]}],
            "communicators": [{"ranks": [{"address": "192.0.2.15:4444"}]}]});
        let scope = Scope::new(&Fleet::default(), Some((&document, &[])), &[], &[]);
        assert_eq!(scope.ports.text(), "29500");
        assert_eq!(list(&scope.hosts, " "), "192.0.2.12/31");
        assert_eq!(list(&scope.members, " "), "192.0.2.11 192.0.2.12/30");
        assert_eq!(list(&scope.fixed_hosts(), " "), "192.0.2.11");
        assert_eq!((scope.on_loopback, scope.last_seen.as_deref()), (1, Some("2026-11-29T11:21:00Z")));
        assert!(scope.nowhere().is_empty() && scope.has_ephemeral());
        // A port that somebody has set is none that the kernel chose.
        let set = Scope::new(&Fleet::default(), Some((&document, &[33281, 45999])), &[], &[]);
        assert_eq!((set.ports.text().as_str(), set.hosts.len()), ("29500,33281,45999", 0));
    }

    #[test]
    fn servers_without_addresses_need_networks() {
        let mut fleet = Fleet::default();
        fleet.stores(&pytorch("1.13").unwrap(), None, &[29500]).unwrap();
        fleet.nccl(&nccl("root:2.26").unwrap());
        let lost = Scope::new(&fleet, None, &[], &[]);
        assert_eq!((lost.nowhere().len(), lost.ports.text().as_str(), lost.old_stores_only), (1, "29500", true));
        let net = ["192.0.2.0/24".parse().unwrap()];
        let named = Scope::new(&fleet, None, &net, &[]);
        assert_eq!((named.nowhere().len(), list(&named.hosts, " ").as_str()), (0, "192.0.2.0/24"));
        assert_eq!(named.all_ports().text(), "29500,32768-60999");
    }
}
