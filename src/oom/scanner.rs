//! One log, line by line.

use super::assembly::Assembly;
use super::envelope::{Envelope, Whose, ansible};
use super::event::{OomKind, OomSighting, Role, Source, ToldBy};
use super::facts::{self, Collected, FactsLineError};
use super::format::Format;
use super::object::{self, Context, Found, Record, document};
use super::options::Options;
use super::prefix::{self, Peeled, Writer};
use super::sheet::{Sheets, Told, counter, export, list, spreadsheet};
use super::stamp::Stamp;
use super::summary::{ConnectionError, LogSummary, NotUnderstood};
use super::teller::{self, Saying};
use super::time_range::{LogSpan, year_of};
use super::{decode, prefilter, reason, text};
use crate::names::Names;
use memchr::memmem;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest line of text that is read, in bytes; the rest of a longer one is cut off and counted. (JSON, and a whole
/// output in one line as `ansible -o` prints it, may be longer.)
pub const MAX_LINE: usize = 64 << 10;
/// Sightings kept of one log.
pub(super) const MAX_SIGHTINGS: usize = 100_000;
/// Errors on connections that are kept of one log.
const MAX_ERRORS: usize = 400;
/// Lines kept that were not understood.
const MAX_EXAMPLES: usize = 100;
/// Lines looked at for the format of a log, whether or not they speak of an OOM.
pub(super) const SAMPLE: u64 = 64;
/// Sightings made of lines that stand for several hosts: a nodeset of thousands over a log of millions is an attack.
const MAX_COPIES: u64 = 1 << 20;
/// Documents, blocks and counters that may be open at once, of as many hosts.
const MAX_OPEN: usize = 4096;

/// Whether a text whose beginning is `head` is a log that a [`Scanner`] can read: a line of it has the header of a known
/// format, or says something of an OOM.
pub fn looks_like_a_log(head: &[u8]) -> bool {
    let mut scanner = Scanner::new("", &Options { year: Some(2000), ..Options::default() });
    let head = super::feed::decoded(head);
    for (number, line) in (1..).zip(head.split(|b| *b == b'\n').take(400)) {
        let bare = decode::plain(line);
        if prefix::peel(bare.trim_ascii(), &scanner.envelope.labels).format.is_some() {
            return true;
        }
        scanner.line(number, line);
    }
    let summary = scanner.finish();
    summary.format.is_some_and(|f| f != Format::Plain)
        || !summary.sightings.is_empty()
        || !summary.facts.is_empty()
        || summary.not_understood > 0
}

/// How the lines of a log are to be read.
enum Mode {
    Lines,
    List(list::Columns),
    /// A log store's export as CSV, by the names of its columns.
    Spreadsheet(Vec<String>),
    /// What kubectl prints as YAML.
    Yaml(object::yaml::Objects),
    /// By whose they are: lines of several hosts may come mixed.
    Export(BTreeMap<Whose, export::Export>),
}

/// A JSON document over several lines.
struct Document {
    /// What was read of it; `None`: too long, skipped.
    text: Option<Vec<u8>>,
    /// The number of its first line.
    number: u64,
}

/// An object of JSON that ends a line of text; also as Fluent Bit prints records: `[TIME, {…}]`, with `=>` behind names.
fn embedded(message: &[u8]) -> Option<Cow<'_, [u8]>> {
    let message = message.trim_ascii_end();
    let inner = message.strip_suffix(b"]").filter(|m| m.ends_with(b"}")).unwrap_or(message);
    let at = text::find(inner, b"{\"").filter(|_| inner.ends_with(b"}"))?;
    let before = at.checked_sub(1).and_then(|i| inner.get(i));
    let object = before.is_none_or(u8::is_ascii_whitespace).then(|| inner.get(at..)).flatten()?;
    if text::find(object, b"\"=>").is_none() {
        return Some(object.into());
    }
    Some(String::from_utf8_lossy(object).replace("\"=>", "\":").into_bytes().into())
}

/// The time before a record of Fluent Bit: `[1790000000.123456, {…`, `[0] kmsg: [[1790000000.123456, {}], {…`.
fn record_time(line: &[u8]) -> Option<Stamp> {
    let head = line.get(..text::find(line, b"{\"")?)?;
    let number = head.split(|b| !b.is_ascii_digit() && *b != b'.').rfind(|n| n.contains(&b'.'))?;
    match super::stamp::any(number)? {
        (stamp, []) => Some(stamp),
        _ => None,
    }
}

/// Reads one log.
pub struct Scanner {
    pub(super) label: Arc<str>,
    pub(super) options: Options,
    pub(super) envelope: Envelope,
    mode: Mode,
    pub(super) span: LogSpan,
    sheets: Sheets,
    /// JSON documents over several lines that have not ended, by whose they are.
    documents: BTreeMap<Whose, Document>,
    /// Bytes in them.
    in_documents: usize,
    /// The lines being read were quoted in a document.
    quoted: bool,
    pub(super) collected: Collected,
    pub(super) facts_not_understood: u64,
    /// Kills counted so far, by whose counter and its scope.
    counters: BTreeMap<(Whose, String), u64>,
    /// The time of the last `[Sep21 14:13]` of `dmesg -e`: of the lines behind it only their seconds are told.
    minute: Option<Stamp>,
    copies: u64,
    begun: bool,
    assembly: Assembly,
    pub(super) summary: LogSummary,
    pub(super) formats: BTreeMap<Format, u64>,
    hosts: BTreeSet<String>,
    pub(super) without_boot: BTreeMap<String, u64>,
    pub(super) without_year: u64,
    pub(super) without_time: u64,
    pub(super) out_of_range: u64,
    pub(super) year_guessed: bool,
    pub(super) ambiguous: u64,
    pub(super) cut: u64,
    pub(super) dropped: u64,
    pub(super) documents_lost: u64,
    /// Forms that are not read, with what to give instead.
    pub(super) refused: BTreeMap<&'static str, u64>,
}

impl Scanner {
    /// A scanner for the log that reports call `label`.
    pub fn new(label: &str, options: &Options) -> Self {
        Scanner {
            label: label.into(),
            options: options.clone(),
            envelope: Envelope::default(),
            mode: Mode::Lines,
            span: LogSpan::default(),
            sheets: Sheets::default(),
            documents: BTreeMap::new(),
            in_documents: 0,
            quoted: false,
            collected: Collected::default(),
            facts_not_understood: 0,
            counters: BTreeMap::new(),
            minute: None,
            copies: 0,
            begun: false,
            assembly: Assembly::default(),
            summary: LogSummary { path: label.into(), ..LogSummary::default() },
            formats: BTreeMap::new(),
            hosts: BTreeSet::new(),
            without_boot: BTreeMap::new(),
            without_year: 0,
            without_time: 0,
            out_of_range: 0,
            year_guessed: false,
            ambiguous: 0,
            cut: 0,
            dropped: 0,
            documents_lost: 0,
            refused: BTreeMap::new(),
        }
    }

    /// Names that help to tell hosts from the names of files (`==> gpu-017.dmesg <==`).
    pub fn knowing(mut self, names: Arc<Names>) -> Self {
        self.envelope.knowing(names);
        self
    }

    /// Whether lines may be passed over that hold none of the words of `prefilter`.
    pub(super) fn may_skip(&self) -> bool {
        matches!(self.mode, Mode::Lines)
            && self.summary.lines >= SAMPLE
            && self.documents.is_empty()
            && self.minute.is_none()
            && !self.sheets.is_open()
            && !self.envelope.is_open()
    }

    /// Lines that hold nothing that matters were passed over.
    pub(super) fn passed(&mut self, count: u64, lines: &[u8]) {
        self.summary.lines += count;
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        let last = memchr::memrchr(b'\n', lines).map_or(lines, |at| lines.get(at + 1..).unwrap_or_default());
        self.span.note(last, &self.options);
    }

    /// Takes the next line, `number` counted from 1; its line end may be there or not.
    pub fn line(&mut self, number: u64, bytes: &[u8]) {
        self.summary.lines += 1;
        let bytes = &*decode::plain(bytes);
        let long =
            matches!(bytes.first(), Some(b'{' | b'[')) || !self.documents.is_empty() || ansible::is_one_line(bytes);
        let bytes = match bytes.get(..MAX_LINE) {
            Some(head) if !long && bytes.len() > MAX_LINE => {
                self.cut += 1;
                head
            }
            _ => bytes,
        };
        let Some(enclosed) = self.envelope.peel(bytes) else { return };
        self.span.note(enclosed.line, &self.options);
        if !enclosed.escaped {
            return self.inside(number, &enclosed.whose, enclosed.line);
        }
        let mut rest = enclosed.line;
        while let Some((line, after)) = text::cut(rest, b"\\n") {
            self.inside(number, &enclosed.whose, line);
            rest = after;
        }
        self.inside(number, &enclosed.whose, rest);
    }

    fn inside(&mut self, number: u64, whose: &Whose, line: &[u8]) {
        let errors = &mut self.summary.connection_errors;
        if errors.len() < MAX_ERRORS && memmem::find(line, prefilter::CONNECTION_ERROR.as_bytes()).is_some() {
            errors.push(ConnectionError { line: number, text: text::lossy(line, 300) });
        }
        let labelled = if whose.hosts.is_empty() || whose.weak { self.envelope.label(line) } else { None };
        let (whose, line) = match &labelled {
            Some((label, rest)) => (label, *rest),
            None => (whose, line),
        };
        if !self.documents.is_empty() && !self.quoted && self.documents.contains_key(whose) {
            return self.document_line(whose, line);
        }
        if let Some(rest) = facts::marked(line) {
            return self.fact(number, rest);
        }
        if !self.begun && !line.is_empty() && !self.quoted {
            self.begun = true;
            if let Some(columns) = list::names(line) {
                self.mode = Mode::List(columns);
                return;
            }
            if let Some(names) = spreadsheet::heading(line) {
                self.mode = Mode::Spreadsheet(names);
                return;
            }
            if list::opens(line) {
                self.mode = Mode::List(list::USUAL);
            } else if object::yaml::opens(line) {
                self.mode = Mode::Yaml(object::yaml::Objects::default());
            } else if export::opens(line) {
                self.mode = Mode::Export(BTreeMap::new());
            }
        }
        match &mut self.mode {
            Mode::List(columns) => match list::row(line, *columns) {
                Some((peeled, saying)) => self.add(number, whose, &peeled, saying),
                None if line.trim_ascii().is_empty() || line.starts_with(b"#") => {}
                None => self.not_understood(number, line, reason::LIST),
            },
            Mode::Spreadsheet(names) => {
                if prefilter::may_matter(line) {
                    let value = spreadsheet::row(names, line);
                    self.object(number, whose, &value);
                }
            }
            Mode::Yaml(objects) => {
                if let Some((value, at)) = objects.line(number, line) {
                    self.object(at, whose, &value);
                }
            }
            Mode::Export(exports) => {
                if exports.len() >= MAX_OPEN && !exports.contains_key(whose) {
                    return self.not_understood(number, line, reason::TOO_MANY);
                }
                if let Some((record, at)) = exports.entry(whose.clone()).or_default().line(number, line) {
                    self.record(at, whose, &record, Format::JournalExport);
                }
            }
            Mode::Lines => match line.first() {
                Some(b'{') if line.len() > 1 => self.json(number, whose, line, None),
                Some(b'{' | b'[') if line.len() == 1 && !self.quoted => self.open_document(number, whose, line),
                Some(b'[') if matches!(line.get(1), Some(b'{' | b'[')) => self.json(number, whose, line, None),
                _ => self.text(number, whose, line, None),
            },
        }
    }

    /// A line of the collector's.
    fn fact(&mut self, number: u64, rest: &[u8]) {
        *self.formats.entry(Format::Collected).or_default() += 1;
        match self.collected.line(rest) {
            facts::Line::Fact => {}
            facts::Line::Kernel(host, line) => {
                let whose = Whose::one(host);
                self.text(number, &whose, line, None);
            }
            facts::Line::Bad => {
                self.facts_not_understood += 1;
                if self.summary.facts_errors.len() < MAX_EXAMPLES {
                    self.summary.facts_errors.push(FactsLineError { line: number, found: text::lossy(rest, 120) });
                }
            }
        }
    }

    /// A line of text; `around` is what is known from a document that holds it.
    fn text(&mut self, number: u64, whose: &Whose, line: &[u8], around: Option<&Context>) {
        if around.is_none() {
            let mut told = Vec::new();
            let ours = self.sheets.line(number, line, self.options.written, &mut told);
            told.into_iter().for_each(|t| self.told(whose, t));
            if ours {
                return;
            }
        }
        if !prefilter::may_matter(line) && self.summary.lines > SAMPLE && self.minute.is_none() {
            return;
        }
        let mut peeled = prefix::peel(line, &self.envelope.labels);
        if let Some(around) = around {
            around.surround(&mut peeled);
        }
        self.relative(line, &mut peeled);
        if let Some(reading) = counter::reading(&peeled.message, whose.file.as_deref()) {
            return self.counted(number, whose, &peeled, &reading);
        }
        if let Some(object) = embedded(&peeled.message).filter(|_| around.is_none()) {
            let (object, mut head) = (object.into_owned(), peeled.clone().owned());
            head.stamp = head.stamp.or_else(|| Some((record_time(line)?, object::LOGGED)));
            if self.objects(number, whose, &object, Some(&head)) == Some(true) {
                return;
            }
        }
        match teller::understand(&peeled) {
            Some(saying) => self.add(number, whose, &peeled, saying),
            None if prefilter::must_matter(&peeled.message) => {
                let why = reason::of(&peeled.message);
                self.not_understood(number, line, why);
            }
            None if peeled.format.is_some() || self.summary.lines <= SAMPLE => {
                *self.formats.entry(peeled.format.unwrap_or(Format::Plain)).or_default() += 1;
            }
            None => {}
        }
    }

    /// `dmesg -e` prints the minute once, and seconds since the line before behind it: they lie within that minute.
    fn relative(&mut self, line: &[u8], peeled: &mut Peeled<'_>) {
        match peeled.stamp {
            Some((stamp @ Stamp::Yearless { unit, .. }, _))
                if unit > super::stamp::SECOND && line.starts_with(b"[") =>
            {
                self.minute = Some(stamp);
            }
            None if line.starts_with(b"[") && line.trim_ascii_start().get(..8).is_some_and(|h| h.contains(&b'+')) => {
                peeled.stamp = self.minute.map(|stamp| (stamp, prefix::KERNEL));
                peeled.format = Some(Format::DmesgTime);
            }
            _ => {}
        }
    }

    fn told(&mut self, whose: &Whose, told: Told) {
        let Some((first, more)) = told.lines.split_first() else { return };
        self.add(*first, whose, &told.peeled, told.saying.clone());
        if let Some(last) = self.assembly.last() {
            let role = told.saying.role;
            let time = last.time;
            last.sources.extend(more.iter().map(|line| Source {
                path: Arc::clone(&self.label),
                line: *line,
                role,
                time,
            }));
        }
    }

    fn counted(&mut self, number: u64, whose: &Whose, peeled: &Peeled<'_>, reading: &counter::Reading) {
        *self.formats.entry(Format::Counters).or_default() += 1;
        let Some(kills) = reading.kills else { return };
        let key = (whose.clone(), reading.scope.clone());
        if self.counters.len() >= MAX_OPEN && !self.counters.contains_key(&key) {
            self.dropped += 1;
            return;
        }
        let before = self.counters.insert(key, kills).unwrap_or(0);
        if kills > before {
            self.add(number, whose, peeled, reading.saying(kills - before));
        }
    }

    fn record(&mut self, number: u64, whose: &Whose, record: &Record, format: Format) {
        *self.formats.entry(format).or_default() += 1;
        if !prefilter::may_matter(&record.message) {
            return;
        }
        for line in record.message.split(|b| *b == b'\n') {
            let mut peeled = record.peeled(format);
            // What was printed before the message may stand in it again.
            let inner = prefix::peel(line, &self.envelope.labels);
            peeled.boot = inner.boot;
            peeled.message = inner.message;
            match teller::understand(&peeled) {
                Some(saying) => self.add(number, whose, &peeled, saying),
                None if prefilter::must_matter(line) => self.not_understood(number, line, reason::of(line)),
                None => {}
            }
        }
    }

    /// A line of JSON, or a whole document. `head`: what stood before it on its line.
    fn json(&mut self, number: u64, whose: &Whose, text: &[u8], head: Option<&Peeled<'static>>) {
        if !prefilter::may_matter(text) && self.summary.lines > SAMPLE {
            return;
        }
        if text.len() > document::MAX_DOCUMENT {
            self.documents_lost += 1;
            return;
        }
        match self.objects(number, whose, text, head) {
            None if prefilter::must_matter(text) => self.not_understood(number, text, reason::BAD_JSON),
            // An object of another program's log that quotes the kernel; `"OOMKilled":false` is none.
            Some(false) if prefilter::quotes_kernel(text) => self.not_understood(number, text, reason::UNKNOWN_JSON),
            _ => {}
        }
    }

    /// Reads the objects of a text: whether any was of a known form; `None` where the text is no JSON.
    fn objects(&mut self, number: u64, whose: &Whose, text: &[u8], head: Option<&Peeled<'static>>) -> Option<bool> {
        let mut known = false;
        let fields = self.options.fields.clone();
        let read = document::objects(text, &mut |object| {
            // Output of commands, which may be JSON itself, but not Ansible's again.
            if !self.quoted {
                self.quoted = true;
                let outputs = ansible::outputs(object, &mut |host, line| match host {
                    Some(host) => self.inside(number, &Whose::one(host), line.as_bytes()),
                    None => self.inside(number, whose, line.as_bytes()),
                });
                self.quoted = false;
                if outputs {
                    known = true;
                    return;
                }
            }
            known |= object::walk(object, &fields, &mut |found| self.found(number, whose, found, head));
        });
        read.is_ok().then_some(known)
    }

    /// An object of YAML.
    fn object(&mut self, number: u64, whose: &Whose, value: &serde_json::Value) {
        let fields = self.options.fields.clone();
        object::walk(value, &fields, &mut |found| self.found(number, whose, found, None));
    }

    fn found(&mut self, number: u64, whose: &Whose, found: Found<'_>, head: Option<&Peeled<'static>>) {
        match found {
            Found::Refused(why) => *self.refused.entry(why).or_default() += 1,
            Found::Entry(record) => self.record(number, whose, &record, Format::JournalJson),
            Found::Kill(mut peeled, saying) => {
                peeled.label = peeled.label.or_else(|| head.and_then(|h| h.label.clone().or_else(|| h.host.clone())));
                self.add(number, whose, &peeled, saying);
            }
            Found::Text(text, context) => {
                let mut context = context.clone();
                if let Some(head) = head {
                    let name = |n: &Option<std::borrow::Cow<'_, [u8]>>| n.as_ref().and_then(|n| text::name(n));
                    context.host = context.host.or_else(|| name(&head.host)).or_else(|| name(&head.label));
                    context.weak = context.weak.or_else(|| name(&head.weak));
                    context.stamp = context.stamp.or(head.stamp);
                    context.contained |= head.contained;
                }
                for line in text.split('\n').filter(|l| !l.trim().is_empty()) {
                    let bytes = decode::plain(line.as_bytes());
                    match bytes.trim_ascii().first() {
                        Some(b'{') if !self.quoted && bytes.trim_ascii().ends_with(b"}") => {
                            self.quoted = true;
                            let outer =
                                Peeled { stamp: context.stamp, contained: context.contained, ..Peeled::default() };
                            let host = context.host.clone().map(|h| h.into_bytes().into());
                            let weak = context.weak.clone().map(|h| h.into_bytes().into());
                            let inner = bytes.trim_ascii().to_vec();
                            self.json(number, whose, &inner, Some(&Peeled { label: host, weak, ..outer }));
                            self.quoted = false;
                        }
                        _ => self.text(number, whose, &bytes, Some(&context)),
                    }
                }
            }
        }
    }

    fn open_document(&mut self, number: u64, whose: &Whose, line: &[u8]) {
        if self.documents.len() >= MAX_OPEN {
            self.documents_lost += 1;
            return;
        }
        self.in_documents += line.len();
        self.documents.insert(whose.clone(), Document { text: Some(line.to_vec()), number });
    }

    fn document_line(&mut self, whose: &Whose, line: &[u8]) {
        let Some(document) = self.documents.get_mut(whose) else { return };
        if let Some(so_far) = &mut document.text {
            // All that are open share one bound.
            if self.in_documents + line.len() >= document::MAX_DOCUMENT {
                self.in_documents -= so_far.len().min(self.in_documents);
                document.text = None;
                self.documents_lost += 1;
            } else {
                self.in_documents += line.len() + 1;
                so_far.push(b'\n');
                so_far.extend_from_slice(line);
            }
        }
        if matches!(line, b"}" | b"]")
            && let Some(document) = self.documents.remove(whose)
            && let Some(text) = document.text
        {
            self.in_documents -= text.len().min(self.in_documents);
            self.json(document.number, whose, &text, None);
        }
    }

    fn add(&mut self, number: u64, whose: &Whose, peeled: &Peeled<'_>, saying: Saying) {
        *self.formats.entry(peeled.format.unwrap_or(Format::Plain)).or_default() += 1;
        if self.span.dated.is_none() && peeled.stamp.is_some_and(|(s, _)| s.is_dated()) {
            self.span.dated = peeled.stamp.and_then(|(s, c)| self.instant(s, c));
        }
        let named = saying.host.is_some() || peeled.own_host().is_some();
        if self.options.explicit_host.is_some() || named || whose.hosts.len() < 2 {
            return self.add_one(number, whose.hosts.first(), whose.weak, peeled, saying);
        }
        for host in whose.hosts.iter() {
            self.copies += 1;
            if self.copies > MAX_COPIES {
                self.dropped += 1;
                return;
            }
            self.add_one(number, Some(host), whose.weak, peeled, saying.clone());
        }
    }

    /// The host that the line names wins over the collector's, that over a pod or a file's name.
    fn add_one(&mut self, number: u64, block: Option<&Arc<str>>, weak: bool, peeled: &Peeled<'_>, saying: Saying) {
        let name = |part: &Option<std::borrow::Cow<'_, [u8]>>| part.as_deref().and_then(text::name);
        let block = |strong: bool| block.filter(|_| weak != strong).map(|h| h.to_string());
        let host = (self.options.explicit_host.clone())
            .or_else(|| saying.host.clone())
            .or_else(|| peeled.own_host())
            .or_else(|| name(&peeled.label))
            .or_else(|| block(true))
            .or_else(|| name(&peeled.weak))
            .or_else(|| block(false))
            .or_else(|| self.options.file_host.clone());
        if let Some(host) = &host
            && self.hosts.len() < 2
        {
            self.hosts.insert(host.clone());
        }
        let time = self.time(host.as_deref(), peeled, &saying);
        let reaped_at = (saying.role == Role::Reaped).then_some(time).flatten();
        if self.assembly.done() >= MAX_SIGHTINGS {
            self.dropped += 1;
            return;
        }
        let writer = match &peeled.writer {
            Writer::Program(p) if saying.told_by == Some(ToldBy::Process) => text::name(p),
            _ if peeled.contained && saying.told_by == Some(ToldBy::Process) => Some("a container's output".to_owned()),
            _ => None,
        };
        self.assembly.push(OomSighting {
            host,
            time,
            boot_nanos: peeled.boot,
            role: saying.role,
            told_by: saying.told_by,
            writer,
            reaped_at,
            reaped_boot_nanos: (saying.role == Role::Reaped).then_some(peeled.boot).flatten(),
            facts: saying.facts,
            sources: vec![Source { path: Arc::clone(&self.label), line: number, role: saying.role, time }],
        });
    }

    fn not_understood(&mut self, number: u64, line: &[u8], reason: &'static str) {
        self.summary.not_understood += 1;
        if self.summary.examples.len() < MAX_EXAMPLES {
            self.summary.examples.push(NotUnderstood { line: number, text: text::lossy(line, 200), reason });
        }
    }

    /// Ends the log.
    pub fn finish(mut self) -> LogSummary {
        for (whose, document) in std::mem::take(&mut self.documents) {
            if let Some(text) = document.text {
                self.json(document.number, &whose, &text, None);
            }
        }
        if let Mode::Yaml(objects) = &mut self.mode
            && let Some((value, at)) = objects.finish()
        {
            self.object(at, &Whose::default(), &value);
        }
        if let Mode::Export(exports) = &mut self.mode {
            for (whose, mut export) in std::mem::take(exports) {
                if let Some((record, at)) = export.finish() {
                    self.record(at, &whose, &record, Format::JournalExport);
                }
            }
        }
        let mut told = Vec::new();
        self.sheets.finish(&mut told);
        told.into_iter().for_each(|t| self.told(&Whose::default(), t));
        self.span.dated = self.span.dated.or_else(|| year_of(self.span.last_line(), &self.options));
        (self.summary.first, self.summary.last) = self.span.settle(&self.options);
        let mut sightings = std::mem::take(&mut self.assembly).finish();
        self.date_again(&mut sightings);
        self.warn();
        let mut summary = self.summary;
        // Of formats seen equally often the first in order is taken.
        summary.format = self.formats.iter().rev().max_by_key(|(_, n)| **n).map(|(f, _)| *f);
        summary.host = match (self.hosts.len(), self.hosts.pop_first()) {
            (1, host) => host,
            (0, _) => self.options.explicit_host.or(self.options.file_host),
            _ => None,
        };
        summary.sightings = sightings;
        summary.facts = self.collected.finish();
        summary
    }

    /// Whether what a kill tells is of GPU memory: printed to a job's output, which seldom has times.
    pub(super) fn is_gpu(saying: &Saying) -> bool {
        saying.facts.kind == Some(OomKind::Gpu)
    }
}
