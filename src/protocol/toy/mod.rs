//! A protocol for tests alone: the smallest that recognises, decodes, judges and explains. Whoever adds a real one may begin
//! with a copy (`docs/ARCHITECTURE.md` has the recipe).
//!
//! A client sends `TOY!` and a length (u32, big-endian); the server answers as many bytes.

use std::sync::Arc;

use super::named::prefix;
use super::observation::FlowObservation;
use super::seam::{
    Decoded, Decoder, Dissector, Evidence, Given, ListenerView, Match, Opening, Study, client_speaks_first,
};
use crate::finding::{Declared, Finding, Rule, finding_id, rules};
use crate::stream::{Chunk, Direction, PacketRef};
use crate::time::Timestamp;
use crate::vocabulary::{Protocol, Severity};

const MAGIC: &[u8; 4] = b"TOY!";
/// Bytes of a request.
const REQUEST: usize = 8;
/// The longest answer that an honest client asks for, in bytes.
const HONEST: u32 = 1 << 20;

rules! {
    /// The rules of the toy.
    ToyRule

    ToyClaim {
        id: "toy-claim",
        severity: Severity::Warning,
        title: "a toy that is asked for too much",
        meaning: "A client asked a toy for more bytes than any honest client does, and the toy makes them all.",
        remedy: "Keep toys away from scanners.",
    }
}

pub(super) struct Toy;

/// The first request of a connection.
#[derive(Debug, Default)]
struct Request {
    bytes: Vec<u8>,
    complete: Option<(Timestamp, PacketRef)>,
}

impl Request {
    fn length(&self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes.get(MAGIC.len()..REQUEST)?.first_chunk()?))
    }
}

impl Decoded for Request {}

impl Decoder for Request {
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        if direction == Direction::ToServer && self.bytes.len() as u64 == chunk.offset {
            self.bytes.extend(chunk.bytes.iter().take(REQUEST - self.bytes.len()));
            self.complete = self.complete.or((self.bytes.len() == REQUEST).then_some((chunk.time, chunk.packet)));
        }
    }

    fn gap(&mut self, _direction: Direction, _offset: u64, _length: u64) {}

    fn has_enough(&self) -> bool {
        self.complete.is_some()
    }

    fn end(self: Box<Self>) -> Arc<dyn Decoded> {
        Arc::new(*self)
    }
}

impl Dissector for Toy {
    fn protocol(&self) -> Protocol {
        Protocol::Unknown
    }

    fn recognise(&self, opening: &Opening<'_>) -> Match {
        client_speaks_first(opening).unwrap_or_else(|| prefix(opening.client, MAGIC))
    }

    fn decoder(&self, _midstream: bool) -> Box<dyn Decoder> {
        Box::new(Request::default())
    }

    fn study(&self, given: &Given<'_>) -> Study {
        let mut study = Study::default();
        for (endpoint, flows) in given.connections {
            let by = Evidence { text: "its first bytes".to_string(), packet: None };
            let toy = Some("toy 1.0".to_string());
            study.listeners.push(ListenerView { version: toy, ..ListenerView::new(*endpoint, None, by) });
            for flow in flows {
                let Some(request) = flow.connection.observation.and_then(FlowObservation::decoded::<Request>) else {
                    continue;
                };
                let (Some(length), Some((time, packet))) = (request.length(), request.complete) else { continue };
                if length <= HONEST {
                    continue;
                }
                let (rule, record) = (ToyRule::ToyClaim.text(), flow.connection.record);
                let sequence = record.isn(Direction::ToServer).unwrap_or(0);
                let id = finding_id(rule.id, record.client(), record.server(), sequence, &request.bytes);
                study.findings.push(Finding {
                    declared: Some(Declared { bytes: Some(length.into()), count: None, field: "length" }),
                    bytes: request.bytes.clone(),
                    explanation: format!("{} asks the toy {endpoint} for {length} bytes.", record.client().address),
                    ..Finding::new(rule, id, time, Some(packet), record.client(), record.server())
                });
            }
        }
        study
    }

    fn rules(&self) -> &'static [Rule] {
        ToyRule::ALL
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;
    use crate::analysis::{Options, analyze};
    use crate::capture::{LinkType, Packet, Writer};

    /// A connection to a toy on a port that nobody named: handshake, request, the first byte of the answer.
    fn capture(request: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), "a test").unwrap();
        for (number, (from, flags, payload)) in
            [('c', "S", &b""[..]), ('s', "SA", b""), ('c', "A", b""), ('c', "A", request), ('s', "A", b"x")]
                .into_iter()
                .enumerate()
        {
            let (a, b) = if from == 'c' { ([192, 0, 2, 1], [192, 0, 2, 2]) } else { ([192, 0, 2, 2], [192, 0, 2, 1]) };
            let (sport, dport) = if from == 'c' { (40_000, 7777) } else { (7777, 40_000) };
            let seq = 1000 + u32::from(!flags.contains('S'));
            let tcp = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(a, b, 64).tcp(sport, dport, seq, 64_000);
            let tcp = if flags.contains('S') { tcp.syn() } else { tcp };
            let ack = if number < 4 { 1001 } else { 1001 + request.len() as u32 };
            let tcp = if flags.contains('A') { tcp.ack(ack) } else { tcp };
            let mut data = Vec::new();
            tcp.write(&mut data, payload).unwrap();
            let packet = Packet {
                number: number as u64 + 1,
                time: Timestamp::new(1_700_000_000 + number as i64, 0),
                link_type: LinkType::ETHERNET,
                interface: 0,
                original_length: data.len() as u32,
                data: &data,
            };
            writer.write(&packet, 0, "", None).unwrap();
        }
        writer.finish().unwrap()
    }

    /// The report of one such capture, as JSON.
    fn report(request: &[u8]) -> serde_json::Value {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("toy.pcapng");
        std::fs::write(&path, capture(request)).unwrap();
        let analysis = analyze(&Options { paths: vec![path], ..Options::default() });
        serde_json::to_value(&analysis.report).unwrap()
    }

    #[test]
    fn a_protocol_in_its_own_folder_is_listed_and_judged() {
        let told = report(b"TOY!\x40\0\0\0");
        assert_eq!(told.pointer("/listeners/0/version").unwrap(), "toy 1.0", "{told:#}");
        assert_eq!(told.pointer("/listeners/0/port").unwrap(), 7777);
        assert_eq!(told.pointer("/findings/0/rule").unwrap(), "toy-claim");
        assert_eq!(told.pointer("/findings/0/packet").unwrap(), 4);
        assert_eq!(told.pointer("/findings/0/declared/bytes").unwrap(), 1 << 30);
        assert_eq!(report(b"TOY!\0\0\0\x10").pointer("/findings").unwrap(), &serde_json::json!([]));
        assert_eq!(report(b"GAME\0\0\0\x10").pointer("/listeners").unwrap(), &serde_json::json!([]));
    }
}
