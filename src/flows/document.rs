//! Flows and streams as JSON values, their keys in a fixed order.

use serde::Serialize;

use super::summary::FlowSummary;
use crate::finding::hex;
use crate::stream::{Direction, GapCause};
use crate::time::Timestamp;

/// One direction of a flow that carried data.
#[derive(Clone, Debug, Serialize)]
pub struct StreamDocument {
    r#type: &'static str,
    src: String,
    dst: String,
    length: u64,
    gap_bytes: u64,
    cut_bytes: u64,
    sha256: Option<String>,
    packets: u32,
    flow: u64,
    direction: &'static str,
    tail_missed_bytes: u64,
    duplicates: u64,
    retransmitted_bytes: u64,
    conflicts: u64,
    community_id: String,
    out_of_window: u64,
    before_start: u64,
    given_up: u64,
    refused: u64,
    urgent: u64,
}

/// A stream and the file that holds its bytes.
#[derive(Clone, Debug, Serialize)]
pub struct FileDocument {
    file: String,
    #[serde(flatten)]
    stream: StreamDocument,
    protocol: &'static str,
    first: Timestamp,
    last: Timestamp,
    gaps: Vec<GapDocument>,
    gap_count: u64,
}

#[derive(Clone, Debug, Serialize)]
struct GapDocument {
    offset: u64,
    length: u64,
    cause: GapCause,
}

/// One flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowDocument<'a> {
    number: u64,
    client: String,
    server: String,
    direction_known: bool,
    capture: Option<&'a str>,
    first_packet: u64,
    first: Timestamp,
    last: Timestamp,
    duration_seconds: f64,
    protocol: &'static str,
    dialects: Vec<&'static str>,
    community_id: String,
    streams: Vec<StreamDocument>,
}

const DIRECTIONS: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

impl FlowSummary {
    fn sender_text(&self, d: Direction) -> String {
        match d {
            Direction::ToServer => self.client_text(),
            Direction::ToClient => self.server_text(),
        }
    }

    fn stream(&self, d: Direction) -> Option<StreamDocument> {
        let stream = self.streams.get(d.index())?;
        let c = &stream.counters;
        (c.delivered > 0).then(|| StreamDocument {
            r#type: "stream",
            src: self.sender_text(d),
            dst: self.sender_text(d.reverse()),
            length: c.delivered,
            gap_bytes: c.gap_bytes,
            cut_bytes: c.cut_bytes,
            sha256: self.tokens.is_none().then(|| hex(&stream.sha256)),
            packets: self.packets[d.index()],
            flow: self.number,
            direction: d.name(),
            tail_missed_bytes: c.tail_missed,
            duplicates: stream.duplicates,
            retransmitted_bytes: c.retransmitted_bytes,
            conflicts: c.conflicts,
            community_id: self.id_text(),
            out_of_window: c.out_of_window,
            before_start: c.before_start,
            given_up: c.given_up,
            refused: c.refused,
            urgent: c.urgent_bytes,
        })
    }

    /// Its directions of which bytes were captured.
    pub fn stream_documents(&self) -> impl Iterator<Item = StreamDocument> {
        DIRECTIONS.iter().filter_map(|d| self.stream(*d))
    }

    /// The same, with their files.
    pub fn file_documents(&self) -> impl Iterator<Item = FileDocument> {
        DIRECTIONS.iter().filter_map(|d| {
            let file = self.streams.get(d.index())?.file.as_ref()?;
            let gap = |(offset, length, cause): &(u64, u64, GapCause)| GapDocument {
                offset: *offset,
                length: *length,
                cause: *cause,
            };
            Some(FileDocument {
                file: file.name.clone(),
                stream: self.stream(*d)?,
                protocol: self.speech.protocol,
                first: self.first,
                last: self.last,
                gaps: file.gaps.iter().map(gap).collect(),
                gap_count: file.gap_count,
            })
        })
    }

    /// All of it; `labels` names captures by index.
    pub fn document<'a>(&self, labels: &'a [String]) -> FlowDocument<'a> {
        FlowDocument {
            number: self.number,
            client: self.client_text(),
            server: self.server_text(),
            direction_known: self.direction_known,
            capture: labels.get(self.first_packet.capture as usize).map(String::as_str),
            first_packet: self.first_packet.number,
            first: self.first,
            last: self.last,
            duration_seconds: self.seconds(),
            protocol: self.speech.protocol,
            dialects: self.speech.dialects.iter().map(|d| d.name()).collect(),
            community_id: self.id_text(),
            streams: self.stream_documents().collect(),
        }
    }
}
