//! One log, line by line.

use super::assembly::Assembly;
use super::envelope::{Envelope, Whose, ansible};
use super::event::{EventTime, OomKind, OomSighting, Role, Source};
use super::facts::{self, Collected, FactsLineError};
use super::format::{self, Format, Peeled, container, counter, csv, document, export, journal};
use super::kernel::Saying;
use super::options::{Options, Resolved};
use super::stamp::Stamp;
use super::summary::{LogSummary, NotUnderstood};
use super::time_range::LogSpan;
use super::{prefilter, text};
use crate::names::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest line of text that is read, in bytes; the rest of a longer one is cut off and counted. (An object of JSON
/// may be 32 MiB long.)
pub const MAX_LINE: usize = 64 << 10;
/// Sightings kept of one log.
pub(super) const MAX_SIGHTINGS: usize = 100_000;
/// Lines kept that were not understood.
const MAX_EXAMPLES: usize = 100;
/// Lines looked at for the format of a log, whether or not they speak of an OOM.
const SAMPLE: u64 = 32;
/// Sightings made of lines that stand for several hosts: a nodeset of thousands over a log of millions is an attack.
const MAX_COPIES: u64 = 1 << 20;
/// Documents, blocks and counters that may be open at once, of as many hosts.
const MAX_OPEN: usize = 4096;

/// Whether a text whose beginning is `head` is a log that a [`Scanner`] can read: a line of it has the header of a known
/// format, or says something of an OOM.
pub fn looks_like_a_log(head: &[u8]) -> bool {
    let mut scanner = Scanner::new("", &Options { year: Some(2000), ..Options::default() });
    for (number, line) in (1..).zip(head.split(|b| *b == b'\n').take(400)) {
        let bare = line.trim_ascii();
        if !bare.is_empty() && super::format::peel(bare).format != Format::Plain {
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
    Csv(csv::Columns),
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

/// Reads one log.
pub struct Scanner {
    label: Arc<str>,
    options: Options,
    pub(super) envelope: Envelope,
    mode: Mode,
    span: LogSpan,
    /// JSON documents over several lines that have not ended, by whose they are.
    documents: BTreeMap<Whose, Document>,
    /// Bytes in them.
    in_documents: usize,
    /// The lines being read were quoted in a document.
    quoted: bool,
    collected: Collected,
    pub(super) facts_not_understood: u64,
    /// Kills counted so far, by whose counter and its scope.
    counters: BTreeMap<(Whose, String), u64>,
    copies: u64,
    begun: bool,
    assembly: Assembly,
    pub(super) summary: LogSummary,
    formats: BTreeMap<Format, u64>,
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
            documents: BTreeMap::new(),
            in_documents: 0,
            quoted: false,
            collected: Collected::default(),
            facts_not_understood: 0,
            counters: BTreeMap::new(),
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
        }
    }

    /// Names that help to tell hosts from the names of files (`==> gpu-017.dmesg <==`).
    pub fn knowing(mut self, names: Arc<Names>) -> Self {
        self.envelope.knowing(names);
        self
    }

    /// Takes the next line, `number` counted from 1; its line end may be there or not.
    pub fn line(&mut self, number: u64, bytes: &[u8]) {
        self.summary.lines += 1;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let json = matches!(bytes.first(), Some(b'{' | b'[')) || !self.documents.is_empty();
        let bytes = match bytes.get(..MAX_LINE) {
            Some(head) if !json => {
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
        if !self.documents.is_empty() && !self.quoted && self.documents.contains_key(whose) {
            return self.document_line(whose, line);
        }
        if let Some(rest) = facts::marked(line) {
            return self.fact(number, rest);
        }
        if !self.begun && !line.is_empty() && !self.quoted {
            self.begun = true;
            if let Some(columns) = csv::names(line) {
                self.mode = Mode::Csv(columns);
                return;
            }
            if csv::opens(line) {
                self.mode = Mode::Csv(csv::USUAL);
            } else if export::opens(line) {
                self.mode = Mode::Export(BTreeMap::new());
            }
        }
        match &mut self.mode {
            Mode::Csv(columns) => match csv::row(line, *columns) {
                Some((peeled, saying)) => self.add(number, whose, &peeled, saying),
                None if line.trim_ascii().is_empty() || line.starts_with(b"#") => {}
                None => self.not_understood(number, line),
            },
            Mode::Export(exports) => {
                if exports.len() >= MAX_OPEN && !exports.contains_key(whose) {
                    return self.not_understood(number, line);
                }
                if let Some((record, at)) = exports.entry(whose.clone()).or_default().line(number, line) {
                    self.record(at, whose, &record, Format::JournalExport);
                }
            }
            Mode::Lines => match line.first() {
                Some(b'{') if line.len() > 1 => self.json(number, whose, line),
                Some(b'{' | b'[') if line.len() == 1 && !self.quoted => self.open_document(number, whose, line),
                Some(b'[') if line.get(1) == Some(&b'{') => self.json(number, whose, line),
                _ => self.text(number, whose, line),
            },
        }
    }

    /// A line of the collector's.
    fn fact(&mut self, number: u64, rest: &[u8]) {
        *self.formats.entry(Format::Collected).or_default() += 1;
        match self.collected.line(rest) {
            facts::Line::Fact => {}
            facts::Line::Kernel(host, line) => self.text(number, &Whose::one(host), line),
            facts::Line::Bad => {
                self.facts_not_understood += 1;
                if self.summary.facts_errors.len() < MAX_EXAMPLES {
                    self.summary.facts_errors.push(FactsLineError { line: number, found: text::lossy(rest, 80) });
                }
            }
        }
    }

    fn counter(&mut self, number: u64, whose: &Whose, reading: &counter::Reading) {
        *self.formats.entry(Format::Counters).or_default() += 1;
        let Some(kills) = reading.kills else { return };
        let key = (whose.clone(), reading.scope.clone());
        if self.counters.len() >= MAX_OPEN && !self.counters.contains_key(&key) {
            self.dropped += 1;
            return;
        }
        // A counter that fell began anew.
        let before = self.counters.insert(key, kills).filter(|b| *b <= kills).unwrap_or(0);
        if kills > before {
            let peeled = Peeled {
                format: Format::Counters,
                stamp: None,
                boot: None,
                host: None,
                message: b"".as_slice().into(),
            };
            self.add(number, whose, &peeled, reading.saying(kills - before));
        }
    }

    fn text(&mut self, number: u64, whose: &Whose, line: &[u8]) {
        if let Some(reading) = counter::reading(line, whose.file.as_deref()) {
            return self.counter(number, whose, &reading);
        }
        if !prefilter::may_matter(line) {
            if self.summary.lines <= SAMPLE && !line.is_empty() {
                *self.formats.entry(format::peel(line).format).or_default() += 1;
            }
            return;
        }
        self.peeled(number, whose, &format::peel(line), line);
    }

    /// A line that may speak of an OOM, its header taken off.
    fn peeled(&mut self, number: u64, whose: &Whose, peeled: &Peeled<'_>, line: &[u8]) {
        match format::understand(&peeled.message) {
            Some(saying) => self.add(number, whose, peeled, saying),
            None if prefilter::must_matter(&peeled.message) => self.not_understood(number, line),
            None => *self.formats.entry(peeled.format).or_default() += 1,
        }
    }

    fn record(&mut self, number: u64, whose: &Whose, record: &journal::Record, format: Format) {
        *self.formats.entry(format).or_default() += 1;
        if !prefilter::may_matter(&record.message) {
            return;
        }
        let peeled = record.peeled(format);
        match format::understand(&record.message) {
            Some(saying) => self.add(number, whose, &peeled, saying),
            None if prefilter::must_matter(&record.message) => self.not_understood(number, &record.message),
            None => {}
        }
    }

    /// A line of JSON, or a whole document.
    fn json(&mut self, number: u64, whose: &Whose, text: &[u8]) {
        let unseen =
            text::has(text, b"\"MESSAGE\":[") || text::has(text, b"\"MESSAGE\" : [") || text::has(text, facts::MARK);
        if !unseen && !prefilter::may_matter(text) && self.summary.lines > SAMPLE {
            return;
        }
        if text.len() > document::MAX_DOCUMENT {
            self.documents_lost += 1;
            return;
        }
        let mut known = false;
        let read = document::objects(text, &mut |object| {
            if let Some(record) = journal::Record::of(object) {
                known = true;
                return self.record(number, whose, &record, Format::JournalJson);
            }
            if let Some(peeled) = container::docker(object) {
                known = true;
                return self.peeled(number, whose, &peeled, &peeled.message);
            }
            let found = format::kubernetes::event(object).or_else(|| format::docker::container(object));
            for (peeled, saying) in found.into_iter().chain(format::kubernetes::containers(object)) {
                known = true;
                self.add(number, whose, &peeled, saying);
            }
            // Output of commands, which may be JSON itself, but not Ansible's again.
            if !self.quoted {
                self.quoted = true;
                known |= ansible::outputs(object, &mut |host, line| match host {
                    Some(host) => self.inside(number, &Whose::one(host), line.as_bytes()),
                    None => self.inside(number, whose, line.as_bytes()),
                });
                self.quoted = false;
            }
        });
        // An object of another program's log that quotes the kernel; `"OOMKilled":false` is none.
        if (read.is_err() && prefilter::must_matter(text)) || (!known && prefilter::quotes_kernel(text)) {
            self.not_understood(number, text);
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
            self.json(document.number, whose, &text);
        }
    }

    fn add(&mut self, number: u64, whose: &Whose, peeled: &Peeled<'_>, saying: Saying) {
        *self.formats.entry(peeled.format).or_default() += 1;
        if self.options.explicit_host.is_some() || whose.hosts.len() < 2 {
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

    fn add_one(&mut self, number: u64, enclosing: Option<&Arc<str>>, weak: bool, peeled: &Peeled<'_>, saying: Saying) {
        let own = || saying.host.clone().or_else(|| peeled.host.as_deref().and_then(text::name));
        let enclosing = || enclosing.map(|h| h.to_string());
        let named = || if weak { own().or_else(enclosing) } else { enclosing().or_else(own) };
        let host = (self.options.explicit_host.clone()).or_else(named).or_else(|| self.options.file_host.clone());
        if let Some(host) = &host
            && self.hosts.len() < 2
        {
            self.hosts.insert(host.clone());
        }
        let time = self.time(host.as_deref(), peeled, saying.facts.kind);
        let reaped_at = (saying.role == Role::Reaped).then_some(time).flatten();
        if self.assembly.done() >= MAX_SIGHTINGS {
            self.dropped += 1;
            return;
        }
        self.assembly.push(OomSighting {
            host,
            time,
            boot_nanos: peeled.boot,
            role: saying.role,
            reaped_at,
            reaped_boot_nanos: (saying.role == Role::Reaped).then_some(peeled.boot).flatten(),
            facts: saying.facts,
            sources: vec![Source { path: Arc::clone(&self.label), line: number, role: saying.role, time }],
        });
    }

    /// The best time that the line gives; what is missing is noted for the warnings.
    fn time(&mut self, host: Option<&str>, peeled: &Peeled<'_>, kind: Option<OomKind>) -> Option<EventTime> {
        let given = peeled.boot.and(self.options.boot_of(host));
        let collected = if given.is_none() { host.and_then(|h| self.collected.kernel_epoch(h)) } else { None };
        if let Some((boot, source)) = given.map(|b| (b, "--boot")).or(collected.map(|b| (b, "collected"))) {
            self.summary.boot_time = Some(boot);
            self.summary.boot_source = Some(source);
        }
        if let (Some(boot), Some(nanos)) = (collected, peeled.boot)
            && matches!(peeled.stamp, Some((Stamp::Boot { .. }, _)))
        {
            return Some(EventTime {
                at: boot.plus_nanos(nanos),
                uncertainty_nanos: facts::BOOT_UNCERTAINTY_NANOS,
                from: "boot-relative + boot time collected on the host",
                assumed: false,
                alternative: None,
            });
        }
        let Some((stamp, clock)) = peeled.stamp else {
            // CUDA's own message is printed to a job's output, which seldom has times: nothing is missed.
            self.without_time += u64::from(kind != Some(OomKind::Gpu));
            return None;
        };
        if matches!(stamp, Stamp::Local { .. } | Stamp::Yearless { .. }) {
            let (zone, assumed) = self.options.zone_of(host);
            self.summary.timezone = Some(zone.to_string());
            self.summary.timezone_assumed |= assumed;
        }
        let printed = self.options.resolve(stamp, clock, host);
        let counted = peeled.boot.map(|nanos| self.options.resolve(Stamp::Boot { nanos }, clock, host));
        match printed {
            Resolved::NoBoot => {
                let host = host.unwrap_or("HOST");
                if self.without_boot.len() < 100 || self.without_boot.contains_key(host) {
                    *self.without_boot.entry(host.to_owned()).or_default() += 1;
                }
            }
            Resolved::NoYear => self.without_year += 1,
            Resolved::OutOfRange => self.out_of_range += 1,
            Resolved::Time(t) => {
                self.ambiguous += u64::from(t.alternative.is_some());
                self.year_guessed |= matches!(stamp, Stamp::Yearless { .. });
            }
        }
        [Some(printed), counted]
            .into_iter()
            .flatten()
            .filter_map(|r| if let Resolved::Time(t) = r { Some(t) } else { None })
            .min_by_key(|t| (t.assumed, t.uncertainty_nanos))
    }

    fn not_understood(&mut self, number: u64, line: &[u8]) {
        self.summary.not_understood += 1;
        if self.summary.examples.len() < MAX_EXAMPLES {
            self.summary.examples.push(NotUnderstood { line: number, text: text::lossy(line, 200) });
        }
    }

    /// Ends the log.
    pub fn finish(mut self) -> LogSummary {
        (self.summary.first, self.summary.last) = self.span.settle(&self.options);
        for (whose, document) in std::mem::take(&mut self.documents) {
            if let Some(text) = document.text {
                self.json(document.number, &whose, &text);
            }
        }
        if let Mode::Export(exports) = &mut self.mode {
            for (whose, mut export) in std::mem::take(exports) {
                if let Some((record, at)) = export.finish() {
                    self.record(at, &whose, &record, Format::JournalExport);
                }
            }
        }
        self.warn();
        let mut summary = self.summary;
        // Of formats seen equally often the first in order is taken.
        summary.format = self.formats.iter().rev().max_by_key(|(_, n)| **n).map(|(f, _)| *f);
        summary.host = match (self.hosts.len(), self.hosts.pop_first()) {
            (1, host) => host,
            (0, _) => self.options.explicit_host.or(self.options.file_host),
            _ => None,
        };
        summary.sightings = self.assembly.finish();
        summary.facts = self.collected.finish();
        summary
    }
}
