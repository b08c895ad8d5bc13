//! Segments of TCP, as they went; and the frames that a host's capture makes of them.

use std::net::IpAddr;

use etherparse::PacketBuilder;

pub(crate) const SYN: u8 = 2;
pub(crate) const FIN: u8 = 1;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// Both ends of a connection. Behind a gateway the server sees another client than the client itself.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The host of the cluster that the client is on, if it is on one.
    pub(crate) client_host: Option<usize>,
    /// The client as it sees itself.
    pub(crate) own: (IpAddr, u16),
    /// The client as the server sees it.
    pub(crate) seen: (IpAddr, u16),
    pub(crate) server_host: usize,
    pub(crate) server: (IpAddr, u16),
}

/// One segment. Times are seconds since the simulation began.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) flow: usize,
    pub(crate) to_server: bool,
    /// When it passed the client's interface.
    pub(crate) at_client: f64,
    /// When it passed the server's.
    pub(crate) at_server: f64,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

/// All that went over the network.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) flows: Vec<Flow>,
    pub(crate) segments: Vec<Segment>,
}

/// The Ethernet frame of a segment as one end's interface shows it.
pub(crate) fn frame(flow: &Flow, s: &Segment, at_server: bool) -> Vec<u8> {
    let client = if at_server { flow.seen } else { flow.own };
    let ((source, sport), (target, dport)) = if s.to_server { (client, flow.server) } else { (flow.server, client) };
    let base = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = match (source, target) {
        (IpAddr::V4(a), IpAddr::V4(b)) => base.ipv4(a.octets(), b.octets(), 64),
        (IpAddr::V6(a), IpAddr::V6(b)) => base.ipv6(a.octets(), b.octets(), 64),
        _ => unreachable!("both ends of a flow are of one family"),
    };
    let mut tcp = ip.tcp(sport, dport, s.seq, 64_000);
    if s.flags & ACK != 0 {
        tcp = tcp.ack(s.ack);
    }
    if s.flags & SYN != 0 {
        tcp = tcp.syn();
    }
    if s.flags & FIN != 0 {
        tcp = tcp.fin();
    }
    if s.flags & RST != 0 {
        tcp = tcp.rst();
    }
    if s.flags & PSH != 0 {
        tcp = tcp.psh();
    }
    let mut out = Vec::with_capacity(tcp.size(s.payload.len()));
    tcp.write(&mut out, &s.payload).expect("a vector takes it");
    out
}
