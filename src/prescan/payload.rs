//! Bytes that are tried because somebody has them: in hex, in a file, in a capture.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::matrix::{Act, Case};
use crate::analysis::{Closed, FlowVisitor, Knowledge, Options, learn, walk};
use crate::net::Address;
use crate::stream::{Direction, Event, FlowRecord, PacketRef};

/// Bytes kept of one connection: no model needs more to decide.
const KEPT: usize = 64 << 10;
/// Different payloads kept of captures.
const DIFFERENT: usize = 10_000;

/// Reads `HEX[,HEX…]`: one segment each. `None` when it is something else.
pub fn hex(text: &str) -> Option<Vec<Vec<u8>>> {
    let segment = |part: &str| {
        let part: String = part.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
        let part = part.strip_prefix("0x").unwrap_or(&part);
        let pair = |pair: &[u8]| {
            let (high, low) = (char::from(*pair.first()?).to_digit(16)?, char::from(*pair.get(1)?).to_digit(16)?);
            Some((high * 16 + low) as u8)
        };
        part.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>().filter(|b| !b.is_empty())
    };
    text.split(',').map(segment).collect()
}

/// What clients sent in captures.
#[derive(Debug)]
pub struct Recorded {
    /// Each payload once, named by its first packet; and a silent connection, if there was one.
    pub cases: Vec<Case>,
    /// Connections that carried them.
    pub connections: u64,
    /// Connections whose bytes are not all in the capture: left out.
    pub cut: u64,
    /// What was not read.
    pub errors: Vec<(String, String)>,
    /// Captures that may still grow, a sentence each: what came later was not tried.
    pub growing: Vec<String>,
}

/// A file that was written this many seconds ago may be written still.
const FRESH: f64 = 10.0;

/// Whether a file grew since it had `before` bytes, or was written a moment ago.
fn growing(path: &Path, before: Option<u64>) -> Option<String> {
    let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let age = meta.modified().ok().and_then(|m| m.elapsed().ok()).map_or(f64::MAX, |age| age.as_secs_f64());
    let name = crate::escape::clean(path.to_string_lossy().as_bytes(), 200);
    let grew = before.is_some_and(|b| meta.len() != b);
    (grew || age < FRESH).then(|| {
        let why = if grew { "grew while it was read".to_owned() } else { format!("was written {age:.0} s ago") };
        format!("{name} {why}: it may be growing still, and what came later was not tried")
    })
}

/// Takes the payloads that clients sent out of captures, those from `source` only where one is named.
pub fn recorded(paths: Vec<PathBuf>, source: Option<Address>) -> Recorded {
    let before: Vec<(PathBuf, Option<u64>)> =
        paths.iter().map(|p| (p.clone(), std::fs::metadata(p).ok().map(|m| m.len()))).collect();
    let options = Options { paths, ..Options::default() };
    let known = learn(&options);
    let mut visitor = Payloads {
        known: &known,
        source,
        seen: BTreeSet::new(),
        cases: Vec::new(),
        connections: 0,
        cut: 0,
        silent: false,
    };
    walk(&known, &options.ports, options.memory, &mut visitor);
    let Payloads { mut cases, connections, cut, silent, .. } = visitor;
    if silent {
        cases.push(Case { name: "a connection without a byte".to_owned(), act: Act::Close });
    }
    let growing = before.iter().filter_map(|(path, before)| growing(path, *before)).collect();
    Recorded { cases, connections, cut, growing, errors: known.errors }
}

struct Payloads<'a> {
    known: &'a Knowledge,
    source: Option<Address>,
    seen: BTreeSet<Vec<Vec<u8>>>,
    cases: Vec<Case>,
    connections: u64,
    cut: u64,
    silent: bool,
}

/// Of one connection: its segments, and the packet of the first.
#[derive(Default)]
struct Sent {
    segments: Vec<Vec<u8>>,
    bytes: usize,
    packet: Option<PacketRef>,
    gap: bool,
}

impl Payloads<'_> {
    fn takes(&self, record: &FlowRecord) -> bool {
        self.source.is_none_or(|s| s == record.client().address)
    }
}

impl FlowVisitor for Payloads<'_> {
    type Flow = Sent;

    fn open(&mut self, _number: u64, record: &FlowRecord) -> Option<Sent> {
        (self.takes(record) && self.seen.len() < DIFFERENT).then(Sent::default)
    }

    fn event(&mut self, flow: &mut Sent, direction: Direction, event: Event<'_>, _packet: PacketRef) {
        if direction != Direction::ToServer {
            return;
        }
        match event {
            Event::Chunk(chunk) if !flow.gap && flow.bytes < KEPT => {
                flow.packet.get_or_insert(chunk.packet);
                let kept = chunk.bytes.get(..KEPT - flow.bytes).unwrap_or(chunk.bytes);
                flow.bytes += kept.len();
                flow.segments.push(kept.to_vec());
            }
            Event::Gap { .. } => flow.gap = true,
            _ => {}
        }
    }

    fn bytes(&self, flow: &Sent) -> usize {
        flow.bytes + flow.segments.len() * size_of::<Vec<u8>>()
    }

    fn close(&mut self, _number: u64, record: &FlowRecord, closed: Closed<Sent>) {
        let Sent { segments, packet, gap, .. } = closed.flow;
        self.cut += u64::from(gap);
        let Some(packet) = packet.filter(|_| !gap || !segments.is_empty()) else { return };
        self.connections += 1;
        let first = segments.concat();
        if !self.seen.insert(segments.clone()) {
            return;
        }
        let stray = crate::protocol::stray::identify(&first, first.len() as u64);
        let label = self.known.labels.get(packet.capture as usize).filter(|_| self.known.labels.len() > 1);
        let label = label.map_or(String::new(), |l| format!(" of {}", crate::escape::clean(l.as_bytes(), 60)));
        let what = stray.nmap_probe.unwrap_or(stray.protocol);
        let name = format!("{what} from {} (packet {}{label})", record.client().address, packet.number);
        self.cases.push(Case { name, act: Act::Segments(segments) });
    }

    fn silent(&mut self, _number: u64, record: &FlowRecord) {
        self.silent |= self.takes(record) && record.accepted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_in_segments() {
        assert_eq!(hex("0300000b,06e0"), Some(vec![vec![3, 0, 0, 11], vec![6, 0xe0]]));
        assert_eq!(hex("0x03 00:ff"), Some(vec![vec![3, 0, 255]]));
        for bad in ["", "0", "zz", "00,,01", "00,"] {
            assert_eq!(hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_recorded_scan_is_a_list_of_payloads() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/incident-torch1.13/node-a.pcap");
        let scanner: std::net::IpAddr = "192.0.2.250".parse().unwrap();
        let recorded = recorded(vec![path], Some(scanner.into()));
        let names: Vec<_> = recorded.cases.iter().map(|c| c.name.as_str()).collect();
        assert!(names.iter().any(|n| n.starts_with("TerminalServerCookie from 192.0.2.250 (packet 411)")), "{names:?}");
        assert!(recorded.cases.len() > 10 && recorded.connections >= recorded.cases.len() as u64 - 1);
    }
}
