//! Facts as lines of JSON.

use std::io::{self, Write};

use data_encoding::BASE64;
use serde_json::{Map, Value};

use super::facts::{Entry, FactSet, Kind, hosts_of, numbers_of};
use crate::analysis::flow_row;
use crate::time::Timestamp;

/// Name and version of the format. Fields and kinds of lines may come with the number after the point; the number before
/// it changes when an older reader would misunderstand.
pub const SCHEMA: &str = "rdzvscope.evidence/1.1";
/// The name before the version.
pub(super) const NAME: &str = "rdzvscope.evidence/";
/// The major version that is read and written.
pub(super) const MAJOR: u64 = 1;
/// Bytes of data in one line, before base64: `pdsh` breaks lines longer than 128 KiB.
pub(super) const PIECE: usize = 64 << 10;

/// Writes a pile as lines: a header for each origin, its facts, and an end that counts them.
///
/// # Errors
/// Whatever `out` fails with.
pub fn write_lines(pile: &FactSet, segment: u64, out: &mut impl Write) -> io::Result<()> {
    for origin in pile.origins() {
        let mut writer = Lines { origin: &origin, out, count: 0 };
        let host = pile.entries.get(&(origin.clone(), Kind::Origin, String::new()));
        let host = host.and_then(|e| serde_json::from_slice::<Map<String, Value>>(&e.data).ok());
        let mut head = Map::new();
        head.insert("schema".into(), SCHEMA.into());
        head.insert("segment".into(), segment.into());
        head.insert("host".into(), host.and_then(|h| h.get("host").cloned()).unwrap_or(Value::Null));
        head.insert("tool".into(), concat!("rdzvscope ", env!("CARGO_PKG_VERSION")).into());
        writer.line("evidence", head)?;
        let from = (origin.clone(), Kind::Origin, String::new());
        for ((_, kind, key), entry) in pile.entries.range(from..).take_while(|((o, ..), _)| *o == origin) {
            writer.fact(*kind, key, entry)?;
        }
        // Records of one set share lines: packed together they take a quarter of the room.
        let mut flows: Option<(u64, Option<Timestamp>, Vec<u8>)> = None;
        for ((set, ..), fact) in pile.flows.get(&origin).into_iter().flatten() {
            let data = flow_row(&fact.record).1;
            if flows.as_ref().is_some_and(|(s, _, b)| s != set || b.len() + data.len() > PIECE) {
                writer.flows(flows.take())?;
            }
            let (_, last, bytes) = flows.get_or_insert((*set, None, Vec::new()));
            *last = (*last).max(Some(fact.record.last));
            bytes.extend_from_slice(&data);
        }
        writer.flows(flows.take())?;
        let mut end = Map::new();
        end.insert("segment".into(), segment.into());
        end.insert("lines".into(), (writer.count + 1).into());
        writer.line("evidence-end", end)?;
    }
    Ok(())
}

struct Lines<'a, W: Write> {
    origin: &'a str,
    out: &'a mut W,
    count: u64,
}

impl<W: Write> Lines<'_, W> {
    fn line(&mut self, kind: &str, body: Map<String, Value>) -> io::Result<()> {
        // The type first, for whoever looks at the lines with grep.
        let body = serde_json::to_string(&body)?;
        let rest = body.strip_prefix('{').unwrap_or(&body);
        let comma = if rest == "}" { "" } else { "," };
        self.count += 1;
        let line = format!("{{\"type\":\"{kind}\",\"origin\":{}{comma}{rest}", Value::from(self.origin));
        writeln!(self.out, "{}", crate::escape::json(line))
    }

    fn flows(&mut self, flows: Option<(u64, Option<Timestamp>, Vec<u8>)>) -> io::Result<()> {
        let Some((set, last, bytes)) = flows else { return Ok(()) };
        let mut body = Map::new();
        body.insert("set".into(), set.into());
        body.insert("last".into(), last.map_or(Value::Null, |t| t.to_rfc3339().into()));
        body.insert("data".into(), BASE64.encode(&zstd::bulk::compress(&bytes, 3)?).into());
        self.line("evidence-flows", body)
    }

    fn fact(&mut self, kind: Kind, key: &str, entry: &Entry) -> io::Result<()> {
        let mut body = match kind {
            // The header and the end of this segment say it.
            Kind::Origin | Kind::Segment => return Ok(()),
            _ if kind.is_bytes() => Map::new(),
            _ => serde_json::from_slice(&entry.data)?,
        };
        let names = kind.numbers();
        for (name, n) in names.iter().zip(numbers_of(key).unwrap_or_default()) {
            body.insert((*name).into(), n.into());
        }
        if kind == Kind::Refused {
            body.insert("path".into(), key.into());
        }
        if kind == Kind::Hosts
            && let Some((content, part, parts, path)) = hosts_of(key)
        {
            body.insert("path".into(), path.into());
            body.insert("content".into(), content.into());
            body.insert("part".into(), part.into());
            body.insert("parts".into(), parts.into());
        }
        if kind == Kind::Ordinary {
            body.insert("connections".into(), entry.rank.into());
        }
        if entry.last.is_some() {
            body.insert("last".into(), entry.last.map_or(Value::Null, |t| t.to_rfc3339().into()));
        }
        if kind.is_bytes() {
            body.insert("data".into(), BASE64.encode(&entry.data).into());
        }
        self.line(&format!("evidence-{}", kind.text()), body)
    }
}

/// Cuts bytes into pieces that a line can hold.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    let parts = bytes.len().div_ceil(PIECE).max(1) as u64;
    (0..).zip(bytes.chunks(PIECE)).map(move |(i, piece)| (i, parts, piece))
}
