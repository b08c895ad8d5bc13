//! Which packets belong to the flows of findings.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;

use super::carve::Kept;
use super::carve_redacted::{Masks, StandIn};
use super::model::Finding;
use super::pseudonym::Pseudonyms;
use crate::capture::Packet;
use crate::frame::{Decoder, Frame, Limits, Segment, Skip};
use crate::net::{Address, Endpoint};

/// Fragments that are held until their datagram is complete, and the most bytes of them.
const FRAGMENTS: usize = 4096;
const FRAGMENT_BYTES: usize = 8 << 20;

/// Flows to be taken out of one capture.
pub(super) struct Flows<'v> {
    /// Both endpoints, the lesser first.
    wanted: HashSet<(Endpoint, Endpoint)>,
    decoder: Decoder,
    waiting: VecDeque<Kept>,
    waiting_bytes: usize,
    /// What makes packets anew, where they must name nobody.
    masks: Option<Masks<'v>>,
}

/// What becomes of one packet.
pub(super) struct CarvedFlows {
    /// It belongs to a wanted flow.
    pub(super) wanted: bool,
    /// Earlier fragments of the datagram that it completes.
    pub(super) fragments: Vec<Kept>,
    /// What stands in for it.
    pub(super) stand_in: Option<StandIn>,
}

/// Source and target of a finding.
pub(super) fn pair(f: &Finding) -> Option<(Endpoint, Endpoint)> {
    let end = |address: &str, port: Option<u16>| {
        let ip: IpAddr = address.parse().ok()?;
        Some(Endpoint::new(Address::from(ip), port?))
    };
    let source = f.source.as_ref().and_then(|s| end(&s.address, s.port))?;
    let target = f.target.as_ref().and_then(|t| end(&t.address, t.port))?;
    Some((source, target))
}

impl<'v> Flows<'v> {
    /// Flows of these findings; with a veil their packets are made anew.
    pub(super) fn of(findings: &[&Finding], veil: Option<&'v Pseudonyms>) -> Self {
        Flows {
            wanted: findings.iter().filter_map(|f| pair(f)).map(|(a, b)| ordered(a, b)).collect(),
            masks: veil.map(|v| Masks::new(v, findings)),
            decoder: Decoder::new(Limits::default()),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Looks at the next packet of the capture.
    pub(super) fn take(&mut self, packet: &Packet<'_>) -> CarvedFlows {
        let mut taken = CarvedFlows { wanted: false, fragments: Vec::new(), stand_in: None };
        match self.decoder.decode(packet) {
            Frame::Tcp(segment) if self.wanted.contains(&ordered(segment.src, segment.dst)) => {
                taken.wanted = true;
                taken.stand_in = self.masks.as_mut().map(|m| m.segment(&segment));
                if taken.stand_in.is_none() && is_reassembled(&segment, packet) && !self.waiting.is_empty() {
                    let addresses = addresses(&segment);
                    taken.fragments.extend(self.waiting.extract_of(&addresses));
                    self.waiting_bytes = self.waiting.iter().map(|k| k.data.len()).sum();
                }
            }
            Frame::Skipped(Skip::FragmentWaiting) if self.masks.is_none() && packet.data.len() <= FRAGMENT_BYTES => {
                self.waiting_bytes += packet.data.len();
                self.waiting.push_back(Kept::of(packet));
                while self.waiting.len() > FRAGMENTS || self.waiting_bytes > FRAGMENT_BYTES {
                    let Some(oldest) = self.waiting.pop_front() else { break };
                    self.waiting_bytes = self.waiting_bytes.saturating_sub(oldest.data.len());
                }
            }
            _ => {}
        }
        taken
    }
}

fn ordered(a: Endpoint, b: Endpoint) -> (Endpoint, Endpoint) {
    if a <= b { (a, b) } else { (b, a) }
}

/// Whether the segment's bytes are not those of the packet at hand, but of a datagram put together from several.
fn is_reassembled(segment: &Segment<'_>, packet: &Packet<'_>) -> bool {
    !packet.data.as_ptr_range().contains(&segment.tcp.as_ptr())
}

/// Source and destination as they stand side by side in an IP header of either version.
fn addresses(segment: &Segment<'_>) -> Vec<u8> {
    [segment.src.address.ip(), segment.dst.address.ip()]
        .into_iter()
        .flat_map(|ip| match ip {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        })
        .collect()
}

/// Takes out what was sent between these addresses; the others stay.
trait ExtractOf {
    fn extract_of(&mut self, addresses: &[u8]) -> Vec<Kept>;
}

impl ExtractOf for VecDeque<Kept> {
    fn extract_of(&mut self, addresses: &[u8]) -> Vec<Kept> {
        // Headers stand in the first few hundred bytes, whatever is around them.
        let of_pair = |k: &Kept| {
            let head = k.data.get(..512).unwrap_or(&k.data);
            memchr::memmem::find(head, addresses).is_some()
        };
        let (taken, others): (Vec<Kept>, Vec<Kept>) = self.drain(..).partition(of_pair);
        self.extend(others);
        taken
    }
}
