//! One connection: what it sent, what is still to be sent to it, what the server would have done.

use std::collections::VecDeque;
use std::net::SocketAddr;

use mio::net::TcpStream;

use super::entry::{Ended, Entry, WouldHave};
use super::listener_role::ListenerRole;
use crate::prescan::{Act, Case, Fleet, Host, Matrix};
use crate::protocol::tcpstore::server::How;
use crate::time::Timestamp;

/// Bytes kept of what a connection sends: enough to say what it is.
const KEPT: usize = 16 << 10;
/// Segments kept: more are joined.
const KEPT_SEGMENTS: usize = 256;
/// A connection that says nothing for longer than this is held, not only opened, in seconds.
const SILENT: f64 = 1.0;

/// An open connection.
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) listener: usize,
    pub(super) stream: TcpStream,
    pub(super) client: SocketAddr,
    pub(super) opened: Timestamp,
    /// Answers that the client has not taken yet.
    pub(super) out: VecDeque<u8>,
    /// Whether the loop is told when it can be written to.
    pub(super) wants_writing: bool,
    /// The server has closed it, once `out` is empty.
    pub(super) closing: Option<How>,
    /// The client has closed its end.
    pub(super) ended: Option<Ended>,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) reads: u64,
    segments: Vec<Vec<u8>>,
    kept: usize,
    /// Somebody else held the thread when bytes came.
    pub(super) queued: bool,
    pub(super) claims: Vec<u64>,
    pub(super) holds: bool,
    pub(super) lost: bool,
}

impl Link {
    pub(super) fn new(number: u64, listener: usize, stream: TcpStream, client: SocketAddr, opened: Timestamp) -> Link {
        Link {
            number,
            listener,
            stream,
            client,
            opened,
            out: VecDeque::new(),
            wants_writing: false,
            closing: None,
            ended: None,
            received: 0,
            sent: 0,
            reads: 0,
            segments: Vec::new(),
            kept: 0,
            queued: false,
            claims: Vec::new(),
            holds: false,
            lost: false,
        }
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.kept.saturating_add(self.out.len())
    }

    /// A segment came.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        self.received = self.received.saturating_add(bytes.len() as u64);
        self.reads += 1;
        let room = KEPT.saturating_sub(self.kept).min(bytes.len());
        let kept = bytes.get(..room).unwrap_or_default();
        self.kept += kept.len();
        let full = self.segments.len() >= KEPT_SEGMENTS;
        match self.segments.last_mut() {
            Some(last) if full => last.extend_from_slice(kept),
            _ if kept.is_empty() => {}
            _ => self.segments.push(kept.to_vec()),
        }
    }

    fn whole(&self) -> bool {
        self.kept as u64 == self.received && self.segments.len() < KEPT_SEGMENTS
    }

    /// What is reported of it.
    pub(super) fn entry(&self, part: &ListenerRole, listen: &str, host: Host, now: Timestamp, ended: Ended) -> Entry {
        let first: Vec<u8> = self.segments.iter().flatten().take(4096).copied().collect();
        let stray = crate::protocol::stray::identify(&first, self.received);
        Entry {
            r#type: "connection",
            number: self.number,
            r#as: part.name.clone(),
            listen: listen.to_owned(),
            client: endpoint(self.client),
            opened: self.opened,
            closed: now,
            ended,
            received_bytes: self.received,
            segments: self.reads,
            sent_bytes: self.sent,
            first_bytes_hex: first.iter().take(64).map(|b| format!("{b:02x}")).collect(),
            stray: stray.protocol,
            nmap_probe: stray.nmap_probe,
            would_have: self.would_have(part, host, now, ended),
        }
    }

    fn would_have(&self, part: &ListenerRole, host: Host, now: Timestamp, ended: Ended) -> WouldHave {
        let act = if !self.segments.is_empty() {
            Act::Segments(self.segments.clone())
        } else if now.seconds_since(self.opened) >= SILENT {
            Act::Hold((now.seconds_since(self.opened) * 10.0).round() / 10.0)
        } else {
            Act::Close
        };
        let fleet = Fleet { targets: vec![part.target.clone()], notes: Vec::new() };
        let board = Matrix::ask(vec![Case { name: String::new(), act }], &fleet, host, |_, _| true);
        let alone = board.rows().next().map(WouldHave::from);
        let Some(mut alone) = alone else {
            return WouldHave {
                outcome: "unknown",
                allocates_bytes: None,
                blocks_server: false,
                kills: false,
                grade: "unknown",
                explanation: String::new(),
            };
        };
        if part.role().is_some() || self.segments.is_empty() {
            return alone;
        }
        // Alone, on a store as rank 0 leaves it, it may end otherwise than here, where other clients have set keys.
        let here = self.outcome(ended);
        if (here != alone.outcome && !self.queued) || !self.whole() {
            let largest = self.claims.iter().copied().max();
            let total: u64 = self.claims.iter().fold(0, |a, b| a.saturating_add(*b));
            let kills = largest.is_some() && total >= host.deadly();
            let blocks = self.holds || largest.is_some();
            alone = WouldHave {
                outcome: here,
                allocates_bytes: largest,
                blocks_server: blocks,
                kills,
                grade: match here {
                    _ if kills => "kills",
                    _ if blocks => "degrades",
                    "unknown" => "unknown",
                    _ => "safe",
                },
                explanation: format!(
                    "With the keys that the store held: {} bytes of requests, {} bytes of answers.",
                    self.received, self.sent
                ),
            };
        }
        alone
    }

    /// In the contract's words, what happened here.
    fn outcome(&self, ended: Ended) -> &'static str {
        match ended {
            _ if !self.claims.is_empty() => "allocates",
            _ if self.lost => "unknown",
            Ended::ServerReset | Ended::ServerClose => "closes",
            _ if self.sent > 0 => "replies",
            _ => "waits",
        }
    }
}

/// `address:port`, as everywhere in reports.
pub(super) fn endpoint(address: SocketAddr) -> String {
    crate::net::Endpoint::new(address.ip().into(), address.port()).to_string()
}
