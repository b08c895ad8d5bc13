//! What the kernel is asked for: BPF from ports, and from what was learnt.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::analysis::Analysis;
use crate::net::Endpoint;
use crate::stream::PortSet;
use crate::vocabulary::{Protocol, Role};

/// Listeners that a filter is widened by, at most: a program of the kernel has 4096 instructions, a listener takes about
/// eight.
const MOST: usize = 128;

/// A filter for all segments from and to `ports`, and for those of any port that open and end connections: scans, deaths
/// and the records of all flows need no more. Fragments are let through, because they have no ports.
pub fn filter_of(ports: &PortSet) -> String {
    // tcp[13]: CWR ECE URG ACK PSH RST SYN FIN. libpcap reads tcp[] in IPv4 only.
    let mut terms = vec![
        "(tcp[13] & 7 != 0)".to_string(),
        "(ip6 and ip6[6] = 6 and ip6[53] & 7 != 0)".to_string(),
        "(ip[6:2] & 0x3fff != 0)".to_string(),
    ];
    let mut ports = ports.iter().peekable();
    while let Some(from) = ports.next() {
        let mut to = from;
        while let Some(next) = ports.next_if(|p| Some(*p) == to.checked_add(1)) {
            to = next;
        }
        terms.push(if from == to { format!("(tcp port {from})") } else { format!("(tcp portrange {from}-{to})") });
    }
    terms.join(" or ")
}

/// The filter of some ports, widened by the listeners that traffic itself names: a rendezvous names its workers' store, a
/// store the NCCL root, a root the ranks' own listeners.
pub struct Widening {
    ports: PortSet,
    learnt: BTreeSet<(IpAddr, u16)>,
    /// Listeners that found no room.
    left_out: usize,
}

impl std::fmt::Debug for Widening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Widening").field("learnt", &self.learnt).finish_non_exhaustive()
    }
}

/// A filter that is wider than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wider {
    /// The filter.
    pub filter: String,
    /// What it lets through besides, with how that became known.
    pub learnt: Vec<(Endpoint, String)>,
    /// Listeners that found no room in it, since the beginning.
    pub left_out: usize,
}

impl Widening {
    /// Nothing was learnt yet.
    pub fn new(ports: PortSet) -> Widening {
        Widening { ports, learnt: BTreeSet::new(), left_out: 0 }
    }

    /// The filter as of now.
    pub fn filter(&self) -> String {
        let mut filter = filter_of(&self.ports);
        for (address, port) in &self.learnt {
            filter.push_str(&format!(" or (host {address} and tcp port {port})"));
        }
        filter
    }

    /// A wider filter, where an analysis knows of listeners that the present one does not let through.
    pub fn learn(&mut self, analysis: &Analysis) -> Option<Wider> {
        let named = analysis.named.iter().map(|(e, how)| (*e, how.clone()));
        let seen = analysis.report.listeners.iter().filter_map(|l| {
            // What these carry are gradients, not requests: terabytes of them.
            let bulk = matches!(l.role, Some(Role::Net | Role::Pair)) || l.protocol == Protocol::Gloo;
            if bulk || l.protocol == Protocol::Unknown || l.died_at.is_some() {
                return None;
            }
            let how = l.learned_from.clone().unwrap_or_else(|| "its own traffic".to_string());
            Some((Endpoint::new(l.address.parse::<IpAddr>().ok()?.into(), l.port), how))
        });
        let (mut learnt, mut left_out) = (Vec::new(), 0);
        for (endpoint, how) in named.chain(seen) {
            let key = (endpoint.address.ip(), endpoint.port);
            if self.ports.contains(endpoint.port) || self.learnt.contains(&key) {
                continue;
            }
            if self.learnt.len() >= MOST {
                left_out += 1;
                continue;
            }
            self.learnt.insert(key);
            learnt.push((endpoint, how));
        }
        let fuller = left_out > self.left_out;
        self.left_out = self.left_out.max(left_out);
        (!learnt.is_empty() || fuller).then(|| Wider { filter: self.filter(), learnt, left_out })
    }
}

/// Whether libpcap understands a filter, as far as that can be said without an interface.
///
/// # Errors
/// libpcap's words.
pub fn compile_check(filter: &str) -> Result<(), String> {
    let capture = pcap::Capture::dead(pcap::Linktype::ETHERNET).map_err(|e| e.to_string())?;
    capture.compile(filter, true).map(drop).map_err(|e| e.to_string())
}

/// The interfaces that libpcap finds: name, state, addresses and description of each.
///
/// # Errors
/// libpcap's words.
pub fn interfaces() -> Result<Vec<String>, std::io::Error> {
    let devices = pcap::Device::list().map_err(|e| std::io::Error::other(e.to_string()))?;
    let told = |device: pcap::Device| {
        let flags = &device.flags;
        let state = [(flags.is_up(), "up"), (flags.is_running(), "running"), (flags.is_loopback(), "loopback")];
        let mut words: Vec<String> = state.iter().filter(|(on, _)| *on).map(|(_, word)| word.to_string()).collect();
        words.extend(device.addresses.iter().map(|a| a.addr.to_string()));
        words.extend(device.desc.clone());
        format!("{}  {}", device.name, words.join(", "))
    };
    Ok(devices.into_iter().map(told).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Listener, Report};

    #[test]
    fn ports_in_a_row_are_a_range_and_libpcap_understands_it() {
        let filter = filter_of(&[29400, 29500, 29501, 29502, 65535].into_iter().collect());
        assert!(filter.ends_with("(tcp port 29400) or (tcp portrange 29500-29502) or (tcp port 65535)"), "{filter}");
        compile_check(&filter).unwrap();
        let all: PortSet = (1..=u16::MAX).collect();
        compile_check(&filter_of(&all)).unwrap();
        assert!(compile_check("tcp prot 1").is_err());
    }

    fn listener(address: &str, port: u16, protocol: Protocol, role: Role) -> Listener {
        Listener { address: address.to_string(), port, protocol, role: Some(role), ..Listener::default() }
    }

    #[test]
    fn what_is_learnt_widens_the_filter_once_and_within_bounds() {
        let mut w = Widening::new([29500].into_iter().collect());
        let report = Report {
            listeners: vec![
                listener("192.0.2.11", 29500, Protocol::Tcpstore, Role::Store),
                listener("192.0.2.11", 41235, Protocol::Tcpstore, Role::Store),
                listener("2001:db8::11", 52001, Protocol::Nccl, Role::BootstrapRoot),
                listener("192.0.2.11", 52002, Protocol::Nccl, Role::Net),
                listener("192.0.2.11", 80, Protocol::Unknown, Role::Store),
            ],
            ..Report::default()
        };
        let named = [("192.0.2.13".parse::<IpAddr>().unwrap(), 41236)];
        let named = named.map(|(a, p)| (Endpoint::new(a.into(), p), "a rendezvous named it".to_string())).into();
        let (captures, lost) = (Vec::new(), Vec::new());
        let mut analysis = Analysis {
            report,
            named,
            captures,
            trouble: false,
            lost,
            nothing_read: false,
            stopped: false,
            unmatched: Vec::new(),
        };
        let wider = w.learn(&analysis).unwrap();
        assert_eq!(wider.learnt.iter().map(|(e, _)| e.port).collect::<Vec<_>>(), [41236, 41235, 52001]);
        assert!(wider.filter.contains("(host 2001:db8::11 and tcp port 52001)"), "{}", wider.filter);
        compile_check(&wider.filter).unwrap();
        assert_eq!(w.learn(&analysis), None);
        for i in 0..1000u16 {
            analysis.report.listeners.push(listener("192.0.2.12", 40_000 + i, Protocol::Nccl, Role::Peer));
        }
        let wider = w.learn(&analysis).unwrap();
        assert_eq!((wider.learnt.len(), wider.left_out), (MOST - 3, 1000 - (MOST - 3)));
        compile_check(&wider.filter).unwrap();
        assert_eq!(w.learn(&analysis), None);
    }
}
