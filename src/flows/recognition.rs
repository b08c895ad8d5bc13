//! What a flow speaks, from its first bytes and from what is known of its listener.

use crate::analysis::Knowledge;
use crate::protocol::tcpstore::{Candidates, Dialect, first_bytes};
use crate::protocol::{gloo, nccl, stray};
use crate::stream::{Direction, FlowRecord};

/// What a flow speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Speech {
    /// The protocol: `tcpstore`, `nccl`, `gloo`, or the name of another one; `unknown`, or `none` where no byte was sent.
    pub protocol: &'static str,
    /// Of a store: the dialects that fit, oldest first.
    pub dialects: Vec<Dialect>,
}

/// Bytes of each direction that it is told by.
pub(super) const HEAD: usize = 512;

impl Speech {
    /// From the first bytes each way and the lengths of both streams.
    pub(super) fn of(record: &FlowRecord, heads: [&[u8]; 2], lengths: [u64; 2], known: &Knowledge) -> Speech {
        let [client, server] = heads;
        let midstream = record.isn(Direction::ToServer).is_none();
        let own = first_bytes(client);
        if let Some(listener) = known.listeners.get(&record.server()) {
            let dialects = listener.listener.dialects();
            let fits = match own {
                Candidates::Store { dialects: own, .. } => midstream || dialects.iter().any(|d| own.contains(*d)),
                // Callbacks of PyTorch 1.9–2.0 have a connection of their own, on which the client may say nothing.
                Candidates::NotEnoughBytes => client.is_empty() && !server.is_empty(),
                Candidates::No => midstream,
            };
            if fits {
                return Speech { protocol: "tcpstore", dialects };
            }
        }
        if let Candidates::Store { dialects, .. } = own {
            return Speech { protocol: "tcpstore", dialects: dialects.iter().collect() };
        }
        let nccl = known.nccl.listeners.get(&record.server());
        let magic = |m: u64| client.get(..8).is_some_and(|head| head == m.to_le_bytes());
        let bare = matches!(nccl::first_bytes(client), nccl::FirstBytes::Nccl { .. })
            || client.get(2..4) == Some(&[0, 0]) && nccl.is_some_and(|l| l.handshake == Some(false));
        if nccl.is_some_and(|l| midstream || l.magic.map_or(bare, magic) || l.text && !server.is_empty()) {
            return Speech { protocol: "nccl", dialects: Vec::new() };
        }
        let pair = known.pairs.contains(&record.server());
        if pair && (midstream || gloo::first_bytes(client, server) == gloo::FirstBytes::Pair) {
            return Speech { protocol: "gloo", dialects: Vec::new() };
        }
        let named = |head: &[u8], length| Some(stray::identify(head, length).protocol).filter(|p| *p != "none");
        let of_client = named(client, lengths[0]);
        let vague = |p: &&'static str| matches!(*p, "unknown" | "text" | "constant bytes");
        let protocol = of_client.filter(|p| !vague(p)).or_else(|| named(server, lengths[1]).filter(|p| !vague(p)));
        let protocol = protocol.or(of_client).or_else(|| named(server, lengths[1])).unwrap_or("none");
        Speech { protocol, dialects: Vec::new() }
    }

    /// `tcpstore B`, `tcpstore B/C`, `HTTP`; `-` where no byte was sent.
    pub fn text(&self) -> String {
        if self.dialects.is_empty() {
            return if self.protocol == "none" { "-".to_string() } else { self.protocol.to_string() };
        }
        let dialects: Vec<&str> = self.dialects.iter().map(|d| d.name()).collect();
        format!("{} {}", self.protocol, if dialects.len() > 3 { "?".to_string() } else { dialects.join("/") })
    }
}
