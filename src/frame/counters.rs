//! What became of every packet that is not a segment.

use std::collections::BTreeMap;
use std::fmt;

/// A part of a packet whose bytes ended too early.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum NonTcp {
    /// The header of the link type itself.
    Link,
    /// Ethernet, of the capture or inside a tunnel.
    Ethernet,
    /// A VLAN or other tag between an Ethernet header and its payload.
    Tag,
    /// IEEE 802.2 LLC or SNAP.
    Llc,
    /// An MPLS label stack or pseudowire control word.
    Mpls,
    /// PPPoE or PPP.
    Ppp,
    /// IPv4, options included.
    Ipv4,
    /// IPv6, the fixed forty bytes.
    Ipv6,
    /// An IPv6 extension header.
    Extension,
    /// An IPsec authentication header.
    Authentication,
    /// UDP.
    Udp,
    /// GRE, with its optional fields.
    Gre,
    /// The header of a tunnel over UDP or GRE.
    Tunnel,
    /// TCP: fewer than the fourteen bytes that hold ports, numbers and flags.
    Tcp,
}

impl NonTcp {
    /// The part's name.
    pub fn name(self) -> &'static str {
        match self {
            NonTcp::Link => "link-layer",
            NonTcp::Ethernet => "Ethernet",
            NonTcp::Tag => "VLAN",
            NonTcp::Llc => "LLC",
            NonTcp::Mpls => "MPLS",
            NonTcp::Ppp => "PPP",
            NonTcp::Ipv4 => "IPv4",
            NonTcp::Ipv6 => "IPv6",
            NonTcp::Extension => "IPv6 extension",
            NonTcp::Authentication => "authentication",
            NonTcp::Udp => "UDP",
            NonTcp::Gre => "GRE",
            NonTcp::Tunnel => "tunnel",
            NonTcp::Tcp => "TCP",
        }
    }
}

/// Why a packet could not be read down to a segment, or to the certainty that it holds none.
///
/// The order of the variants is the order of [`Counters::skipped`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Skip {
    /// A link type this room does not read.
    LinkType(u32),
    /// An EtherType (or GRE or SLL protocol) this room does not know.
    EtherType(u16),
    /// A protocol family of a BSD loopback header that is neither IPv4 nor IPv6.
    Family(u32),
    /// A number of one of the three kinds above, after sixty-four different ones were counted by name.
    Unnamed,
    /// The captured bytes end inside this header.
    Truncated(NonTcp),
    /// An IP header whose version is neither 4 nor 6.
    IpVersion,
    /// An IPv4 header length under twenty bytes.
    Ihl,
    /// An IPv4 total length that does not cover the header.
    TotalLength,
    /// An IPv6 header with IPv4-mapped addresses (`::ffff:0:0/96`), which no wire may carry.
    MappedAddress,
    /// A TCP data offset under twenty bytes.
    TcpOffset,
    /// A TCP header longer than its datagram.
    TcpHeader,
    /// Encapsulations nested deeper than the limit.
    Depth,
    /// Encrypted: ESP.
    Esp,
    /// Compressed: IPComp.
    IpComp,
    /// Protected: MACsec.
    Macsec,
    /// A fragment that reaches beyond 65 535 bytes, the longest datagram.
    FragmentRange,
    /// A fragment too large for the whole reassembly budget, or one without any bytes.
    FragmentSize,
    /// A fragment kept until the rest of its datagram is seen. Counted only while that has not happened.
    FragmentWaiting,
}

impl Skip {
    fn is_numbered(self) -> bool {
        matches!(self, Skip::LinkType(_) | Skip::EtherType(_) | Skip::Family(_))
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Skip::LinkType(n) => write!(f, "unknown link type {n}"),
            Skip::EtherType(n) => write!(f, "unknown EtherType 0x{n:04x}"),
            Skip::Family(n) => write!(f, "unknown loopback protocol family {n}"),
            Skip::Unnamed => f.write_str("unknown link types, EtherTypes and families beyond the first 64"),
            Skip::Truncated(part) => write!(f, "truncated {} header", part.name()),
            Skip::IpVersion => f.write_str("IP version neither 4 nor 6"),
            Skip::Ihl => f.write_str("IPv4 header length under 20 bytes"),
            Skip::TotalLength => f.write_str("IPv4 total length shorter than its header"),
            Skip::MappedAddress => f.write_str("IPv4-mapped address in an IPv6 header"),
            Skip::TcpOffset => f.write_str("TCP data offset under 20 bytes"),
            Skip::TcpHeader => f.write_str("TCP header longer than its datagram"),
            Skip::Depth => f.write_str("encapsulations nested too deeply"),
            Skip::Esp => f.write_str("ESP (encrypted)"),
            Skip::IpComp => f.write_str("IPComp (compressed)"),
            Skip::Macsec => f.write_str("MACsec"),
            Skip::FragmentRange => f.write_str("IP fragment beyond 65535 bytes"),
            Skip::FragmentSize => f.write_str("IP fragment empty or over the reassembly budget"),
            Skip::FragmentWaiting => f.write_str("IP fragment of an incomplete datagram"),
        }
    }
}

/// What a packet is that was read and holds no segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Other {
    /// ARP or RARP.
    Arp,
    /// UDP with nothing known inside.
    Udp,
    /// ICMP or ICMPv6.
    Icmp,
    /// RDMA over Ethernet (RoCE version 1; version 2 is UDP).
    Roce,
    /// IGMP, OSPF, SCTP and every other IP protocol.
    IpProtocol,
    /// LLDP, LACP, spanning tree, PTP, EAPOL and their like.
    LinkControl,
    /// PPP control traffic.
    Ppp,
    /// Control messages of a tunnel, and what it carries besides IP and Ethernet.
    TunnelControl,
}

impl Other {
    const ALL: [Other; 8] = [
        Other::Arp,
        Other::Udp,
        Other::Icmp,
        Other::Roce,
        Other::IpProtocol,
        Other::LinkControl,
        Other::Ppp,
        Other::TunnelControl,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Other::Arp => "ARP",
            Other::Udp => "UDP",
            Other::Icmp => "ICMP",
            Other::Roce => "RoCE",
            Other::IpProtocol => "other IP protocols",
            Other::LinkControl => "link control",
            Other::Ppp => "PPP control",
            Other::TunnelControl => "tunnel control",
        }
    }
}

/// How many numbered reasons are kept by their number: a hostile capture may hold 65 536 EtherTypes.
const NAMED: usize = 64;

/// Every packet that went through a decoder, by what became of it.
///
/// `packets` = `tcp` + the sum of [`other`](Counters::other) + the sum of [`skipped`](Counters::skipped)
/// + `fragments_joined`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Packets seen.
    pub packets: u64,
    /// Packets that held a segment, or completed a datagram that did.
    pub tcp: u64,
    /// Fragments kept to wait for the rest of their datagram.
    pub fragments_held: u64,
    /// Those of them whose datagram another packet completed.
    pub fragments_joined: u64,
    /// Datagrams given up because their time was over.
    pub fragments_expired: u64,
    /// Datagrams given up to stay within the memory or number limit.
    pub fragments_evicted: u64,
    /// Fragments that disagree with bytes or an end already held; the first copy wins.
    pub fragment_conflicts: u64,
    /// IP headers that claim more bytes than the packet had on the wire (a cut mirror, or malformed).
    pub overlong: u64,
    other: [u64; Other::ALL.len()],
    skipped: BTreeMap<Skip, u64>,
}

impl Counters {
    /// Packets read that hold no segment: (name, count), in a fixed order, zero counts left out.
    pub fn other(&self) -> Vec<(&'static str, u64)> {
        Other::ALL.iter().zip(self.other).filter(|&(_, n)| n > 0).map(|(o, n)| (o.name(), n)).collect()
    }

    /// Packets that could not be read: (reason, count), in a fixed order, zero counts left out.
    pub fn skipped(&self) -> Vec<(String, u64)> {
        let waiting = self.fragments_held.saturating_sub(self.fragments_joined);
        let mut list: Vec<_> = self.skipped.iter().map(|(skip, &n)| (skip.to_string(), n)).collect();
        if waiting > 0 {
            list.push((Skip::FragmentWaiting.to_string(), waiting));
        }
        list
    }

    /// What was read all the same but ought to be known: (text, count), in a fixed order, zero counts left out.
    pub fn notes(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("IP fragments with conflicting overlaps", self.fragment_conflicts),
            ("IP datagrams never completed: timed out", self.fragments_expired),
            ("IP datagrams never completed: evicted", self.fragments_evicted),
            ("IP length beyond the packet", self.overlong),
        ];
        all.into_iter().filter(|&(_, n)| n > 0).collect()
    }

    /// Adds the counts of another decoder.
    pub fn merge(&mut self, more: &Counters) {
        self.packets += more.packets;
        self.tcp += more.tcp;
        self.fragments_held += more.fragments_held;
        self.fragments_joined += more.fragments_joined;
        self.fragments_expired += more.fragments_expired;
        self.fragments_evicted += more.fragments_evicted;
        self.fragment_conflicts += more.fragment_conflicts;
        self.overlong += more.overlong;
        for (sum, n) in self.other.iter_mut().zip(more.other) {
            *sum += n;
        }
        for (&skip, &n) in &more.skipped {
            self.add_skip(skip, n);
        }
    }

    pub(super) fn count_other(&mut self, other: Other) {
        if let Some(n) = self.other.get_mut(other as usize) {
            *n += 1;
        }
    }

    pub(super) fn count_skip(&mut self, skip: Skip) {
        if skip == Skip::FragmentWaiting {
            self.fragments_held += 1;
        } else {
            self.add_skip(skip, 1);
        }
    }

    fn add_skip(&mut self, skip: Skip, n: u64) {
        let full = skip.is_numbered() && self.skipped.len() >= NAMED && !self.skipped.contains_key(&skip);
        *self.skipped.entry(if full { Skip::Unnamed } else { skip }).or_insert(0) += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_other_traffic_has_its_own_place() {
        for (i, &other) in Other::ALL.iter().enumerate() {
            assert_eq!(other as usize, i);
        }
        let mut c = Counters::default();
        c.count_other(Other::TunnelControl);
        c.count_other(Other::Arp);
        assert_eq!(c.other(), [("ARP", 1), ("tunnel control", 1)]);
    }

    #[test]
    fn numbers_from_the_wire_cannot_grow_the_list_without_end() {
        let mut c = Counters::default();
        for n in 0..=u16::MAX {
            c.count_skip(Skip::EtherType(n));
        }
        c.count_skip(Skip::Truncated(NonTcp::Tcp));
        let list = c.skipped();
        assert_eq!(list.len(), NAMED + 2);
        assert_eq!(list.iter().map(|(_, n)| n).sum::<u64>(), 65537);
        assert_eq!(list[0], ("unknown EtherType 0x0000".to_owned(), 1));
        let mut twice = c.clone();
        twice.merge(&c);
        assert_eq!(twice.skipped().iter().map(|(_, n)| n).sum::<u64>(), 2 * 65537);
    }

    #[test]
    fn joined_fragments_are_no_longer_skipped() {
        let mut c = Counters::default();
        c.count_skip(Skip::FragmentWaiting);
        c.count_skip(Skip::FragmentWaiting);
        c.fragments_joined = 1;
        assert_eq!(c.skipped(), [("IP fragment of an incomplete datagram".to_owned(), 1)]);
    }
}
