//! Lines of evidence, from files and from what `pdsh` makes of many hosts' outputs.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};

use data_encoding::BASE64;
use serde_json::{Map, Value};

use super::facts::{Entry, FactSet, FlowFact, Kind, hosts_key, key_of};
use super::line::{MAJOR, NAME};
use super::prefix::{labelled, pass_over, peeled};
use super::weight::{FLOW, allowed, is_oversize, of_fact, refusal};
use crate::escape::clean;
use crate::stream::FlowRecord;

/// A line that is longer is no evidence: ours are a tenth of it.
const MAX_LINE: u64 = 1 << 20;
/// The records of one line unpack to at most so many bytes.
const MAX_RECORDS: u64 = 4 << 20;

/// Why evidence cannot be taken at all.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// A later version of the program wrote it, and an older one would misunderstand it.
    #[error("{name}, line {line}: evidence of a later version: {NAME}{MAJOR}.x was required, {found:?} was there")]
    Newer {
        /// What was read.
        name: String,
        /// The line.
        line: u64,
        /// The version it has.
        found: String,
    },
    /// The input cannot be read.
    #[error("{name}: {doing}: {source}")]
    Io {
        /// What was read.
        name: String,
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// What is known of one origin's lines in one input.
#[derive(Debug, Default)]
struct Open {
    segment: u64,
    lines: u64,
    ended: bool,
    /// Bytes of its lines, and the memory that they take.
    bytes: u64,
    weight: u64,
    /// It takes more than it may: nothing of it is taken.
    refused: bool,
}

/// Takes lines, and keeps the facts in them.
#[derive(Debug, Default)]
pub struct LineReader {
    /// The facts.
    pub facts: FactSet,
    /// What is lost, in words.
    pub wrong: Vec<String>,
    /// What was passed over and is no loss, in words.
    pub remarks: Vec<String>,
    name: String,
    /// Bytes of the file; `None` where lines of many hosts come through a pipe, and each origin is weighed by its own.
    size: Option<u64>,
    /// Memory that all facts take so far.
    weight: u64,
    number: u64,
    open: BTreeMap<String, Open>,
    /// Hosts in front of lines: whether evidence came from them, and whether a report did.
    prefixes: BTreeMap<String, [bool; 2]>,
    foreign: u64,
    first_foreign: u64,
    damaged: u64,
    unknown: BTreeMap<String, u64>,
    tasks: Tasks,
    /// Lines that hold the beginning of a line of evidence and are none.
    mixed: u64,
}

/// What `srun -l` makes of the lines of many tasks: pieces, each behind the number of its task, in any order.
#[derive(Debug, Default)]
struct Tasks {
    begun: BTreeMap<u64, Vec<u8>>,
    held: usize,
    /// Lines whose end did not come, or that were too long.
    broken: u64,
}

impl Tasks {
    /// Bytes of a line that `srun` passes on at once.
    const PIECE: usize = 1024;
    /// Bytes that are held of all tasks' lines.
    const MOST: usize = 64 << 20;

    /// Adds a piece; the line, where it is its last one. A piece may end where its line does.
    fn piece(&mut self, task: u64, piece: &[u8]) -> Option<Vec<u8>> {
        let mut whole = self.begun.remove(&task).unwrap_or_default();
        self.held -= whole.len();
        whole.extend_from_slice(piece);
        let ends = || whole.ends_with(b"}") && serde_json::from_slice::<serde::de::IgnoredAny>(&whole).is_ok();
        if piece.len() < Tasks::PIECE || ends() {
            return Some(whole);
        }
        if whole.len() as u64 > MAX_LINE || self.held + whole.len() > Tasks::MOST {
            self.broken += 1;
        } else {
            self.held += whole.len();
            self.begun.insert(task, whole);
        }
        None
    }
}

impl LineReader {
    /// A reader of an input that is called `name` in what it says.
    pub fn new(name: &str) -> LineReader {
        LineReader { name: clean(name.as_bytes(), 400), ..LineReader::default() }
    }

    /// The input is a file of so many bytes, as it lies on the disk: all that it holds together is bounded by them.
    pub fn of_size(self, size: u64) -> LineReader {
        LineReader { size: Some(size), ..self }
    }

    /// Reads to the end. What takes more memory than it may is refused, and said in `wrong`.
    ///
    /// # Errors
    /// The input's, and that a later version wrote it.
    pub fn read(mut self, input: &mut impl BufRead) -> Result<LineReader, EvidenceError> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let failed = |source| EvidenceError::Io { name: self.name.clone(), doing: "cannot read", source };
            let n = Read::by_ref(input).take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
            if n == 0 {
                break;
            }
            self.number += 1;
            if !line.ends_with(b"\n") && n as u64 == MAX_LINE {
                let failed = |source| EvidenceError::Io { name: self.name.clone(), doing: "cannot read", source };
                pass_over(input).map_err(failed)?;
                self.foreign();
                continue;
            }
            match labelled(&line) {
                Some((task, piece)) => {
                    if let Some(whole) = self.tasks.piece(task, piece.strip_suffix(b"\n").unwrap_or(piece)) {
                        self.line(&whole)?;
                    }
                }
                None => self.line(&line)?,
            }
            if self.size.is_some_and(|size| self.weight > allowed(size)) {
                return Ok(self.refuse_all());
            }
        }
        self.close();
        match self.size {
            Some(size) if is_oversize(&self.facts_of(None), self.flows_of(None), size) => Ok(self.refuse_all()),
            Some(_) => Ok(self),
            None => {
                let open: Vec<(String, u64)> = self.open.iter().map(|(o, open)| (o.clone(), open.bytes)).collect();
                for (origin, bytes) in open {
                    if is_oversize(&self.facts_of(Some(&origin)), self.flows_of(Some(&origin)), bytes) {
                        self.refuse(&origin);
                    }
                }
                Ok(self)
            }
        }
    }

    fn facts_of(&self, only: Option<&str>) -> Vec<(&str, Kind, &Entry)> {
        let own = self.facts.entries.iter().filter(|((origin, ..), _)| only.is_none_or(|o| o == origin));
        own.map(|((_, kind, key), entry)| (key.as_str(), *kind, entry)).collect()
    }

    fn flows_of(&self, only: Option<&str>) -> u64 {
        let own = self.facts.flows.iter().filter(|(origin, _)| only.is_none_or(|o| o == *origin));
        own.map(|(_, flows)| flows.len() as u64).sum()
    }

    /// The whole file takes more than it may. What remains of it is that it was refused.
    fn refuse_all(self) -> LineReader {
        let error = refusal(self.size.unwrap_or(0));
        let mut facts = FactSet::default();
        let origin = crate::finding::short_hash([b"refused".as_slice(), self.name.as_bytes()]);
        let data = serde_json::json!({ "error": error }).to_string().into_bytes();
        facts.put(&origin, Kind::Refused, self.name.clone(), Entry { data, ..Entry::default() });
        let wrong = vec![format!("{}: {error}", self.name)];
        LineReader { facts, wrong, name: self.name, ..LineReader::default() }
    }

    /// One origin takes more than it may.
    fn refuse(&mut self, origin: &str) {
        let Some(open) = self.open.get_mut(origin) else { return };
        if !std::mem::replace(&mut open.refused, true) {
            let shown = clean(origin.as_bytes(), 64);
            self.wrong.push(format!("{}: evidence {shown} {}", self.name, refusal(open.bytes)));
        }
        self.facts.forget(origin);
    }

    /// Adds to the memory that an origin takes; whether it may.
    fn weigh(&mut self, origin: &str, weight: u64) -> bool {
        self.weight += weight;
        let Some(open) = self.open.get_mut(origin) else { return true };
        open.weight += weight;
        let over = self.size.is_none() && open.weight > allowed(open.bytes);
        if over {
            self.refuse(origin);
        }
        !over
    }

    /// Takes one line, with what `pdsh` put in front of it.
    fn line(&mut self, line: &[u8]) -> Result<(), EvidenceError> {
        let text = line.trim_ascii();
        if text.is_empty() {
            return Ok(());
        }
        let (host, body) = peeled(text);
        let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(body) else {
            self.no_json(body);
            return Ok(());
        };
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_string();
        let seen = host.map(|h| self.prefixes.entry(h.to_string()).or_default());
        let Some(kind) = kind.strip_prefix("evidence") else {
            // The report that stands beside the evidence is concluded anew.
            if let Some(seen) = seen {
                seen[1] = true;
            }
            return Ok(());
        };
        if let Some(seen) = seen {
            seen[0] = true;
        }
        let Some(origin) = text_of(&fields, "origin").filter(|o| !o.is_empty() && o.len() <= 64) else {
            self.damaged += 1;
            return Ok(());
        };
        let kind_of = Kind::of(kind.trim_start_matches('-'));
        if let Some(open) = self.open.get_mut(&origin) {
            open.lines += 1;
        } else if kind_of.is_some() {
            // Its header did not come.
            self.open.insert(origin.clone(), Open { lines: 1, ..Open::default() });
        }
        if let Some(open) = self.open.get_mut(&origin) {
            open.bytes += line.len() as u64;
            if open.refused {
                return Ok(());
            }
        }
        match kind {
            "" => self.header(&origin, host, &fields),
            "-end" => {
                self.end(&origin, &fields);
                Ok(())
            }
            _ => {
                match kind_of {
                    Some(kind) => {
                        if self.fact(&origin, kind, fields).is_none() {
                            self.damaged += 1;
                        }
                    }
                    None => *self.unknown.entry(clean(kind.as_bytes(), 40)).or_default() += 1,
                }
                Ok(())
            }
        }
    }

    /// A line that is none. `srun -u` mixes the pieces of tasks without a mark.
    fn no_json(&mut self, line: &[u8]) {
        match memchr::memmem::find(line, b"{\"type\":\"evidence") {
            Some(_) => self.mixed += 1,
            None => self.foreign(),
        }
    }

    fn foreign(&mut self) {
        self.foreign += 1;
        if self.first_foreign == 0 {
            self.first_foreign = self.number;
        }
    }

    fn header(&mut self, origin: &str, host: Option<&str>, fields: &Map<String, Value>) -> Result<(), EvidenceError> {
        let schema = text_of(fields, "schema").unwrap_or_default();
        let major = schema.strip_prefix(NAME).and_then(|v| v.split('.').next()?.parse::<u64>().ok());
        if major.is_none_or(|m| m > MAJOR) {
            let found = clean(schema.as_bytes(), 60);
            return Err(EvidenceError::Newer { name: self.name.clone(), line: self.number, found });
        }
        let segment = number_of(fields, "segment").unwrap_or(0);
        // A second copy of it, one after the other.
        let open = self.open.entry(origin.to_string()).or_default();
        (open.segment, open.lines, open.ended) = (segment, 1, false);
        let host = text_of(fields, "host").or_else(|| host.map(str::to_string));
        let rank = u64::from(host.is_some());
        let data = serde_json::json!({ "host": host }).to_string().into_bytes();
        self.facts.put(origin, Kind::Origin, String::new(), Entry { rank, segment: 0, last: None, data });
        let begun = Entry { segment, ..Entry::default() };
        self.facts.put(origin, Kind::Segment, key_of(&[segment]), begun);
        Ok(())
    }

    fn end(&mut self, origin: &str, fields: &Map<String, Value>) {
        let Some(open) = self.open.get_mut(origin) else { return };
        open.ended = true;
        let told = number_of(fields, "lines").unwrap_or(open.lines);
        let segment = open.segment;
        // Lines that a `cat` put together may stand after the end of another copy.
        if told > open.lines {
            let missing = told - open.lines;
            self.wrong.push(format!("{}: {missing} of {told} lines of evidence {origin} did not come", self.name));
        } else {
            let whole = Entry { rank: 1, segment, last: None, data: Vec::new() };
            self.facts.put(origin, Kind::Segment, key_of(&[segment]), whole);
        }
    }

    /// Takes one fact; `None` when the line is none.
    fn fact(&mut self, origin: &str, kind: Kind, mut fields: Map<String, Value>) -> Option<()> {
        let segment = self.open.get(origin).map_or(0, |o| o.segment);
        let last = match fields.remove("last") {
            Some(Value::String(text)) => Some(crate::oom::parse_instant(&text).ok()?),
            _ => None,
        };
        let data = match fields.remove("data") {
            Some(Value::String(text)) => Some(BASE64.decode(text.as_bytes()).ok()?),
            _ => None,
        };
        if kind == Kind::Flow {
            return self.flows(origin, number_of(&fields, "set")?, segment, &data?);
        }
        // Whole blobs of streams that were decoded from the start are the usual case.
        let usual = |name: &str| match name {
            "late" | "part" => Some(0),
            "parts" => Some(1),
            _ => None,
        };
        let number =
            |name: &&str| number_of(&fields, name).or_else(|| usual(name).filter(|_| !fields.contains_key(*name)));
        let numbers: Option<Vec<u64>> = kind.numbers().iter().map(number).collect();
        let key = match kind {
            Kind::Origin | Kind::Segment => return None,
            Kind::Refused => text_of(&fields, "path")?,
            Kind::Hosts => {
                let (part, parts) = (number_of(&fields, "part")?, number_of(&fields, "parts")?);
                hosts_key(&text_of(&fields, "content")?, part, parts, &text_of(&fields, "path")?)
            }
            _ => key_of(&numbers?),
        };
        let rank = match kind {
            Kind::Set => rank_of_set(&fields),
            Kind::Capture => number_of(&fields, "packets").unwrap_or(0),
            Kind::Ordinary => number_of(&fields, "connections").unwrap_or(0),
            _ => 0,
        };
        let data = if kind.is_bytes() {
            data?
        } else {
            for name in ["type", "origin", "path"].iter().take(if kind == Kind::Refused { 3 } else { 2 }) {
                fields.remove(*name);
            }
            kind.numbers().iter().for_each(|n| {
                fields.remove(*n);
            });
            serde_json::to_vec(&fields).ok()?
        };
        let entry = Entry { rank, segment, last, data };
        if self.weigh(origin, of_fact(kind, &key, &entry)) {
            self.facts.put(origin, kind, key, entry);
        }
        Some(())
    }

    fn flows(&mut self, origin: &str, set: u64, segment: u64, packed: &[u8]) -> Option<()> {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).ok()?;
        decoder.window_log_max(23).ok()?;
        let mut input = BufReader::new(decoder.take(MAX_RECORDS));
        while !input.fill_buf().ok()?.is_empty() {
            let record = FlowRecord::read_from(&mut input)?;
            if !self.weigh(origin, FLOW) {
                break;
            }
            self.facts.put_flow(origin, set, FlowFact { segment, record });
        }
        Some(())
    }

    /// Says what was not whole.
    fn close(&mut self) {
        let name = &self.name;
        for (origin, open) in self.open.iter().filter(|(_, o)| !o.ended) {
            let lines = counted(open.lines, "line", "lines");
            let text = format!("evidence {origin} ends early: {lines} came and its end did not");
            self.wrong.push(format!("{name}: {text}"));
        }
        for (host, _) in self.prefixes.iter().filter(|(_, seen)| **seen == [false, true]) {
            let host = clean(host.as_bytes(), 100);
            let text = "its lines are a report without evidence (--redact, or an earlier version wrote them)";
            self.wrong.push(format!("{name}: {host}: {text}"));
        }
        let broken = self.tasks.broken + self.tasks.begun.len() as u64 + self.mixed;
        if broken > 0 {
            let lines = counted(broken, "line of evidence is", "lines of evidence are");
            let text =
                "cut or mixed with others: what was in them is lost (srun -l, or srun -o FILE-%t, keeps them apart)";
            self.wrong.push(format!("{name}: {lines} {text}"));
        }
        if self.damaged > 0 {
            let lines = counted(self.damaged, "line of evidence is", "lines of evidence are");
            self.wrong.push(format!("{name}: {lines} damaged: what was in them is lost"));
        }
        if self.foreign > 0 {
            let lines = counted(self.foreign, "line that is", "lines that are");
            self.remarks.push(format!("{name}: {lines} no JSON passed over, from line {} on", self.first_foreign));
        }
        let unknown: u64 = self.unknown.values().sum();
        if unknown > 0 {
            let kinds = self.unknown.keys().map(|k| format!("evidence{k}")).collect::<Vec<_>>().join(", ");
            let lines = counted(unknown, "line", "lines");
            self.remarks.push(format!("{name}: {lines} of kinds that only later versions know passed over ({kinds})"));
        }
        if self.open.is_empty() {
            self.wrong.push(format!("{name}: holds no evidence: lines of type \"evidence\" were required"));
        }
    }
}

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// How far a set had come: packets first, then listeners that became known late.
pub(crate) fn rank_of_set(fields: &Map<String, Value>) -> u64 {
    let packets = fields.get("counters").and_then(|c| c.get("packets")).and_then(Value::as_u64).unwrap_or(0);
    let promoted = fields.get("promoted").and_then(Value::as_array).map_or(0, |p| p.len() as u64);
    packets.saturating_mul(1 << 16).saturating_add(promoted.min(0xffff))
}

fn text_of(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().map(str::to_string)
}

fn number_of(fields: &Map<String, Value>, name: &str) -> Option<u64> {
    match fields.get(name)? {
        Value::Bool(b) => Some(u64::from(*b)),
        n => n.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LineReader, EvidenceError> {
        LineReader::new("input").read(&mut text.as_bytes())
    }

    #[test]
    fn later_minor_versions_are_read_and_later_major_ones_refused() {
        let lines = |version: &str| {
            format!(
                "{{\"type\":\"evidence\",\"origin\":\"o\",\"schema\":\"rdzvscope.evidence/{version}\",\"new\":[1],\"segment\":1}}\n\
                 {{\"type\":\"evidence-moon\",\"origin\":\"o\",\"phase\":3}}\n\
                 {{\"type\":\"evidence-refused\",\"origin\":\"o\",\"path\":\"p\",\"error\":\"e\",\"why\":\"new\"}}\n\
                 {{\"type\":\"evidence-end\",\"origin\":\"o\",\"lines\":4}}\n"
            )
        };
        for version in ["1.0", "1.1", "1.99"] {
            let reader = read(&lines(version)).unwrap();
            assert_eq!(reader.wrong, Vec::<String>::new());
            assert_eq!(
                reader.remarks,
                ["input: 1 line of kinds that only later versions know passed over (evidence-moon)"]
            );
            assert!(reader.facts.entries.contains_key(&("o".into(), Kind::Refused, "p".into())));
        }
        for version in ["2.0", "10.1", "x"] {
            let error = read(&lines(version)).unwrap_err().to_string();
            assert!(
                error.contains("line 1") && error.contains("1.x was required") && error.contains(version),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_whole_is_said() {
        let wrong = |text: &str| read(text).unwrap().wrong.join("\n");
        let head = "{\"type\":\"evidence\",\"origin\":\"o\",\"schema\":\"rdzvscope.evidence/1.0\",\"segment\":1}\n";
        assert!(wrong("").contains("holds no evidence"));
        assert!(wrong(head).contains("ends early"));
        let cut = format!("{head}{{\"type\":\"evidence-end\",\"origin\":\"o\",\"lines\":7}}\n");
        assert!(wrong(&cut).contains("5 of 7 lines"));
        let noise = format!("{head}hello\n{{\"type\":\"evidence-set\",\"origin\":\"o\"}}\n");
        let remarks = |text: &str| read(text).unwrap().remarks.join("\n");
        assert!(remarks(&noise).contains("1 line that is no JSON passed over, from line 2 on"));
        assert!(wrong(&noise).contains("1 line of evidence is damaged"));
        let report = "node-a: {\"type\":\"report\"}\nnode-a: {\"type\":\"finding\"}\n";
        assert!(wrong(report).contains("node-a: its lines are a report without evidence"));
        let long = format!("{head}{}\n", "x".repeat(3 << 20));
        assert!(remarks(&long).contains("1 line that is no JSON"));
    }
}
