//! What came of one connection, and of all.

use serde::Serialize;

use crate::prescan::Row;
use crate::time::Timestamp;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The client closed it.
    ClientClose,
    /// The client reset it.
    ClientReset,
    /// The server closed it.
    ServerClose,
    /// The server reset it.
    ServerReset,
    /// It was still open at the end.
    StillOpen,
    /// There were too many; it was reset unheard.
    TurnedAway,
    /// It was reset to stay within bounds: more to answer than is held.
    GivenUp,
}

/// One connection. A line of JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Entry {
    /// `connection`.
    pub r#type: &'static str,
    /// Its number, in the order of arrival.
    pub number: u64,
    /// The part that was played: `tcpstore:1.13/poll`.
    pub r#as: String,
    /// Where the decoy listened, as `address:port`.
    pub listen: String,
    /// The client, as `address:port`.
    pub client: String,
    /// When it was accepted.
    pub opened: Timestamp,
    /// When it ended.
    pub closed: Timestamp,
    /// How it ended.
    pub ended: Ended,
    /// Bytes received.
    pub received_bytes: u64,
    /// Reads that they came in.
    pub segments: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// The first 64 bytes received.
    pub first_bytes_hex: String,
    /// The protocol that they look like.
    pub stray: &'static str,
    /// The nmap service probe that they are.
    pub nmap_probe: Option<&'static str>,
    /// What the real server would have done; see the contract of `prescan`.
    #[serde(flatten)]
    pub would_have: WouldHave,
}

/// What the real server would have done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WouldHave {
    /// One of the contract's outcomes.
    pub outcome: &'static str,
    /// Bytes of the largest container made for data that never comes.
    pub allocates_bytes: Option<u64>,
    /// Whether others wait meanwhile.
    pub blocks_server: bool,
    /// Whether it ends the process, or what the listener is for.
    pub kills: bool,
    /// `safe`, `unknown`, `degrades` or `kills`.
    pub grade: &'static str,
    /// In words.
    pub explanation: String,
}

impl From<&Row> for WouldHave {
    fn from(row: &Row) -> Self {
        WouldHave {
            outcome: row.outcome,
            allocates_bytes: row.allocates_bytes,
            blocks_server: row.blocks_server,
            kills: row.kills,
            grade: row.grade().name(),
            explanation: row.explanation.clone(),
        }
    }
}

/// All connections together. The last line of JSON.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// `summary`.
    pub r#type: &'static str,
    /// Connections accepted.
    pub connections: u64,
    /// Of these, by grade.
    pub kills: u64,
    /// Held up, or made to allocate.
    pub degrades: u64,
    /// Of which the model says nothing.
    pub unknown: u64,
    /// Harmless.
    pub safe: u64,
    /// The largest claim, in bytes.
    pub largest_claim_bytes: Option<u64>,
    /// nmap's probes that were recognised, in the order of their first arrival.
    pub nmap_probes: Vec<&'static str>,
    /// Connections that were turned away because too many were open.
    pub turned_away: u64,
    /// Connections given up to stay within bounds.
    pub given_up: u64,
    /// The most that were open at once.
    pub most_open: usize,
    /// How often a listener would have been gone.
    pub deaths: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets that were not recorded any more, because the recording had reached its bound.
    pub unrecorded: u64,
}

impl Summary {
    /// Counts one.
    pub(super) fn add(&mut self, entry: &Entry) {
        self.received_bytes = self.received_bytes.saturating_add(entry.received_bytes);
        match entry.ended {
            Ended::TurnedAway => {
                self.turned_away += 1;
                return;
            }
            Ended::GivenUp => self.given_up += 1,
            _ => {}
        }
        match entry.would_have.grade {
            "kills" => self.kills += 1,
            "degrades" => self.degrades += 1,
            "unknown" => self.unknown += 1,
            _ => self.safe += 1,
        }
        self.largest_claim_bytes = self.largest_claim_bytes.max(entry.would_have.allocates_bytes);
        if let Some(probe) = entry.nmap_probe.filter(|p| !self.nmap_probes.contains(p)) {
            self.nmap_probes.push(probe);
        }
    }
}
