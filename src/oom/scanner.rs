//! One log, line by line.

use super::assembly::Assembly;
use super::envelope::Envelope;
use super::event::{EventTime, OomKind, OomSighting, Role, Source};
use super::format::{self, Format, Peeled, csv, document, export, journal};
use super::kernel::Saying;
use super::options::{Options, Resolved};
use super::stamp::Stamp;
use super::{prefilter, text};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest line of text that is read, in bytes; the rest of a longer one is cut off and counted. (An object of JSON
/// may be 32 MiB long.)
pub const MAX_LINE: usize = 64 << 10;
/// Sightings kept of one log.
const MAX_SIGHTINGS: usize = 100_000;
/// Lines kept that were not understood.
const MAX_EXAMPLES: usize = 100;
/// Lines looked at for the format of a log, whether or not they speak of an OOM.
const SAMPLE: u64 = 32;

/// A line that speaks of an OOM in words that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning, decoded lossily, not escaped.
    pub text: String,
}

/// What a log held.
#[derive(Clone, Debug, Default)]
pub struct LogSummary {
    /// The label given to the scanner.
    pub path: String,
    /// The shape of most lines looked at.
    pub format: Option<Format>,
    /// The host, if the log is of one.
    pub host: Option<String>,
    /// Lines read.
    pub lines: u64,
    /// Lines that speak of an OOM and were not understood.
    pub not_understood: u64,
    /// The first of them.
    pub examples: Vec<NotUnderstood>,
    /// The zone used for local times; `None` if no line had one.
    pub timezone: Option<String>,
    /// That zone is a guess.
    pub timezone_assumed: bool,
    /// The boot time that was used.
    pub boot_time: Option<Timestamp>,
    /// Where it comes from.
    pub boot_source: Option<&'static str>,
    /// What the reader should know, each with the flag that would settle it.
    pub warnings: Vec<String>,
    /// What was seen.
    pub sightings: Vec<OomSighting>,
}

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
    summary.format.is_some_and(|f| f != Format::Plain) || !summary.sightings.is_empty() || summary.not_understood > 0
}

/// How the lines of a log are to be read.
enum Mode {
    Lines,
    Csv(csv::Columns),
    Export(export::Export),
}

/// Reads one log.
pub struct Scanner {
    label: Arc<str>,
    options: Options,
    envelope: Envelope,
    mode: Mode,
    /// A JSON document over several lines, and the number of its first. `None` inside: too long, skipped.
    document: Option<(Option<Vec<u8>>, u64)>,
    begun: bool,
    assembly: Assembly,
    summary: LogSummary,
    formats: BTreeMap<Format, u64>,
    hosts: BTreeSet<String>,
    without_boot: BTreeMap<String, u64>,
    without_year: u64,
    without_time: u64,
    out_of_range: u64,
    year_guessed: bool,
    ambiguous: u64,
    cut: u64,
    dropped: u64,
    documents_lost: u64,
}

impl Scanner {
    /// A scanner for the log that reports call `label`.
    pub fn new(label: &str, options: &Options) -> Self {
        Scanner {
            label: label.into(),
            options: options.clone(),
            envelope: Envelope::default(),
            mode: Mode::Lines,
            document: None,
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

    /// Takes the next line, `number` counted from 1; its line end may be there or not.
    pub fn line(&mut self, number: u64, bytes: &[u8]) {
        self.summary.lines += 1;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if self.document.is_some() {
            return self.document_line(bytes);
        }
        let json = matches!(bytes.first(), Some(b'{' | b'['));
        let bytes = match bytes.get(..MAX_LINE) {
            Some(head) if !json => {
                self.cut += 1;
                head
            }
            _ => bytes,
        };
        let Some(enclosed) = self.envelope.peel(bytes) else { return };
        if enclosed.hosts.is_empty() {
            self.inside(number, None, enclosed.line);
        }
        for host in &enclosed.hosts {
            self.inside(number, Some(host), enclosed.line);
        }
    }

    fn inside(&mut self, number: u64, host: Option<&str>, line: &[u8]) {
        if !self.begun && !line.is_empty() {
            self.begun = true;
            if let Some(columns) = csv::names(line) {
                self.mode = Mode::Csv(columns);
                return;
            }
            if csv::opens(line) {
                self.mode = Mode::Csv(csv::USUAL);
            } else if export::opens(line) {
                self.mode = Mode::Export(export::Export::default());
            }
        }
        match &mut self.mode {
            Mode::Csv(columns) => match csv::row(line, *columns) {
                Some((peeled, saying)) => self.add(number, host, &peeled, saying),
                None if line.trim_ascii().is_empty() || line.starts_with(b"#") => {}
                None => self.not_understood(number, line),
            },
            Mode::Export(export) => {
                if let Some((record, at)) = export.line(number, line) {
                    self.record(at, host, &record, Format::JournalExport);
                }
            }
            Mode::Lines => match line.first() {
                Some(b'{') if line.len() > 1 => self.json(number, host, line),
                Some(b'{' | b'[') if line.len() == 1 => self.document = Some((Some(line.to_vec()), number)),
                Some(b'[') if line.get(1) == Some(&b'{') => self.json(number, host, line),
                _ => self.text(number, host, line),
            },
        }
    }

    fn text(&mut self, number: u64, host: Option<&str>, line: &[u8]) {
        if !prefilter::may_matter(line) {
            if self.summary.lines <= SAMPLE && !line.is_empty() {
                *self.formats.entry(format::peel(line).format).or_default() += 1;
            }
            return;
        }
        let peeled = format::peel(line);
        match format::understand(&peeled.message) {
            Some(saying) => self.add(number, host, &peeled, saying),
            None if prefilter::must_matter(&peeled.message) => self.not_understood(number, line),
            None => *self.formats.entry(peeled.format).or_default() += 1,
        }
    }

    fn record(&mut self, number: u64, host: Option<&str>, record: &journal::Record, format: Format) {
        *self.formats.entry(format).or_default() += 1;
        if !prefilter::may_matter(&record.message) {
            return;
        }
        let peeled = record.peeled(format);
        match format::understand(&record.message) {
            Some(saying) => self.add(number, host, &peeled, saying),
            None if prefilter::must_matter(&record.message) => self.not_understood(number, &record.message),
            None => {}
        }
    }

    /// A line of JSON, or a whole document.
    fn json(&mut self, number: u64, host: Option<&str>, text: &[u8]) {
        let bytes = text::has(text, b"\"MESSAGE\":[") || text::has(text, b"\"MESSAGE\" : [");
        if !bytes && !prefilter::may_matter(text) && self.summary.lines > SAMPLE {
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
                return self.record(number, host, &record, Format::JournalJson);
            }
            let found = format::kubernetes::event(object).or_else(|| format::docker::container(object));
            for (peeled, saying) in found.into_iter().chain(format::kubernetes::containers(object)) {
                known = true;
                self.add(number, host, &peeled, saying);
            }
        });
        // An object of another program's log that quotes the kernel; `"OOMKilled":false` is none.
        if (read.is_err() && prefilter::must_matter(text)) || (!known && prefilter::quotes_kernel(text)) {
            self.not_understood(number, text);
        }
    }

    fn document_line(&mut self, line: &[u8]) {
        let Some((text, number)) = &mut self.document else { return };
        let number = *number;
        if let Some(so_far) = text {
            if so_far.len() + line.len() >= document::MAX_DOCUMENT {
                *text = None;
                self.documents_lost += 1;
            } else {
                so_far.push(b'\n');
                so_far.extend_from_slice(line);
            }
        }
        if matches!(line, b"}" | b"]")
            && let Some((Some(text), _)) = self.document.take()
        {
            self.json(number, None, &text);
        }
    }

    fn add(&mut self, number: u64, enclosing: Option<&str>, peeled: &Peeled<'_>, saying: Saying) {
        *self.formats.entry(peeled.format).or_default() += 1;
        let own = || peeled.host.as_deref().and_then(text::name);
        let host = (self.options.explicit_host.clone())
            .or_else(|| enclosing.map(str::to_owned))
            .or_else(|| saying.host.clone())
            .or_else(own)
            .or_else(|| self.options.file_host.clone());
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
            facts: saying.facts,
            sources: vec![Source { path: Arc::clone(&self.label), line: number, role: saying.role, time }],
        });
    }

    /// The best time that the line gives; what is missing is noted for the warnings.
    fn time(&mut self, host: Option<&str>, peeled: &Peeled<'_>, kind: Option<OomKind>) -> Option<EventTime> {
        let from_boot = peeled.boot.and(self.options.boot_of(host));
        if let Some(boot) = from_boot {
            self.summary.boot_time = Some(boot);
            self.summary.boot_source = Some("--boot");
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
        if let Some((Some(text), number)) = self.document.take() {
            self.json(number, None, &text);
        }
        if let Mode::Export(export) = &mut self.mode
            && let Some((record, at)) = export.finish()
        {
            self.record(at, None, &record, Format::JournalExport);
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
        summary
    }

    fn warn(&mut self) {
        let mut say = |n: u64, text: String| {
            if n > 0 {
                self.summary.warnings.push(text);
            }
        };
        for (host, n) in &self.without_boot {
            say(
                *n,
                format!(
                    "{n} OOM lines have only seconds since boot: --boot {host}=TIME gives them a time (`uptime -s` on the host)"
                ),
            );
        }
        let n = self.without_year;
        say(n, format!("{n} OOM lines have no year, and no capture or --since says which"));
        let n = self.without_time;
        say(n, format!("{n} OOM lines have no time at all"));
        let n = self.out_of_range;
        say(n, format!("{n} OOM lines have a time that cannot be (outside 1678 to 2261, or no date of its year)"));
        let n = self.ambiguous;
        say(n, format!("{n} OOM lines lie in an hour that the zone lives twice: the earlier instant is taken"));
        say(u64::from(self.year_guessed), "times have no year: the year nearest to the captures is taken".to_owned());
        say(
            u64::from(self.summary.timezone_assumed),
            "local times without a zone are taken as UTC: --log-tz [HOST=]ZONE names it".to_owned(),
        );
        let n = self.cut;
        say(n, format!("{n} lines are longer than {MAX_LINE} bytes: only their beginning was read"));
        let n = self.documents_lost;
        say(n, format!("{n} JSON documents are longer than {} bytes and were not read", document::MAX_DOCUMENT));
        let n = self.dropped;
        say(n, format!("{n} OOM lines beyond the first {MAX_SIGHTINGS} kills were not kept"));
    }
}
