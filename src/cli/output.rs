//! Where output goes, and how.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::redact::RedactArgs;
use super::terminal::{self, Colour, PagerArgs, Screen};
use crate::disk::NewFile;
use crate::evidence::{FactSet, write_lines};
use crate::report::Pseudonyms;
use crate::report::model::Report;
use crate::report::size::Zone;
use crate::report::table::{self, Style};
use crate::report::{csv, escape, html, json, markdown};

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Format {
    /// For a terminal
    Table,
    /// For a ticket: at most 40 lines
    Markdown,
    /// One JSON document (schema rdzvscope.report/1)
    Json,
    /// JSON, one object a line
    Jsonl,
    /// The findings, a line each, for a spreadsheet
    Csv,
    /// One page with pictures, that loads nothing from elsewhere
    Html,
}

/// The form that a file's name asks for by its ending: `.html`, `.md`, `.json`, `.jsonl`, `.csv`, and their long names.
pub(super) fn by_name<F: clap::ValueEnum>(path: Option<&Path>) -> Option<F> {
    let ending = path?.extension()?.to_str()?.to_ascii_lowercase();
    let name = match ending.as_str() {
        "htm" => "html",
        "md" => "markdown",
        "ndjson" => "jsonl",
        "txt" => "table",
        other => other,
    };
    F::from_str(name, false).ok()
}

/// The flags of everything that prints a report.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Report")]
pub(super) struct OutputArgs {
    /// Form of the report [default: by -o, else table]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Format>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format", hide_short_help = true)]
    json: bool,
    /// Write it there; .html .md .json .jsonl .csv choose the form
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Colour
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", hide_short_help = true)]
    pub(super) color: Colour,
    /// More than one screen of it; -vv: also what is only counted
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    pager: PagerArgs,
    #[command(flatten)]
    pub(super) redact: RedactArgs,
    /// Print nothing; only the exit status tells
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
}

impl OutputArgs {
    /// The form of the report.
    pub(super) fn form(&self) -> Format {
        let asked = self.json.then_some(Format::Json).or(self.format);
        asked.or_else(|| by_name(self.output.as_deref())).unwrap_or(Format::Table)
    }

    /// Whether the output is evidence for `merge` besides being a report.
    pub(super) fn is_evidence(&self) -> bool {
        self.form() == Format::Jsonl && !self.redact.asked() && !(self.quiet && self.output.is_none())
    }

    /// Writes the report as asked.
    pub(super) fn write(&self, report: &Report) -> anyhow::Result<()> {
        self.write_with(report, &FactSet::default(), self.redact.veil()?.as_ref())
    }

    /// The same, and in JSON lines the facts that it rests on. Tokens were made before: a key can be read once where it
    /// comes through a pipe.
    pub(super) fn write_with(&self, report: &Report, facts: &FactSet, veil: Option<&Pseudonyms>) -> anyhow::Result<()> {
        if self.quiet && self.output.is_none() {
            return Ok(());
        }
        let redacted = veil.map(|veil| crate::report::redacted(report, veil));
        let report = redacted.as_ref().unwrap_or(report);
        match &self.output {
            Some(path) => {
                let mut out = NewFile::create(path).with_context(|| format!("{}: cannot create", shown(path)))?;
                self.write_to(report, &mut out, None)
                    .and_then(|()| self.write_facts(facts, &mut out))
                    .and_then(|()| out.finish())
                    .with_context(|| format!("{}: cannot write", shown(path)))
            }
            None => {
                let text = matches!(self.form(), Format::Table | Format::Markdown);
                let mut out = Screen::open(PagerArgs { no_pager: self.pager.no_pager || !text });
                let terminal = out.terminal;
                self.write_to(report, &mut out, Some(terminal))?;
                self.write_facts(facts, &mut out)?;
                Ok(out.flush()?)
            }
        }
    }

    fn write_facts(&self, facts: &FactSet, out: &mut impl Write) -> io::Result<()> {
        if self.is_evidence() { write_lines(facts, 1, out) } else { Ok(()) }
    }

    /// Writes it to a file, or (`Some`) to standard output, which may be a terminal.
    fn write_to(&self, report: &Report, out: &mut impl Write, stdout: Option<bool>) -> io::Result<()> {
        match self.form() {
            Format::Json => json::write_json(report, out),
            Format::Jsonl => json::write_jsonl(report, out),
            Format::Csv => csv::write_csv(report, out),
            Format::Html => html::write_html(report, out),
            Format::Markdown => markdown::write_markdown(report, out),
            Format::Table => out.write_all(self.table(report, stdout).as_bytes()),
        }
    }

    fn table(&self, report: &Report, stdout: Option<bool>) -> String {
        let style = Style {
            width: terminal::width(stdout == Some(true)),
            unicode: terminal::is_utf8(),
            colour: stdout.map_or(self.color == Colour::Always, |terminal| terminal::colours(self.color, terminal)),
            verbose: self.verbose > 1,
            zone: Zone::Utc,
        };
        match self.verbose {
            0 => table::brief(report, &style),
            _ => table::render_with(report, &style, "-vv"),
        }
    }
}

/// Where a list goes: standard output, or a file that takes its place once it is whole.
pub(super) enum Sink {
    /// Standard output, or the pager before it.
    Standard(Screen),
    /// A file.
    File(NewFile),
}

impl Sink {
    /// Standard output, or the file at `path`; and whether that is a terminal.
    pub(super) fn new(path: Option<&Path>, pager: PagerArgs) -> anyhow::Result<(Sink, bool)> {
        let Some(path) = path else {
            let screen = Screen::open(pager);
            let terminal = screen.terminal;
            return Ok((Sink::Standard(screen), terminal));
        };
        let file = NewFile::create(path).with_context(|| format!("{}: cannot create", shown(path)))?;
        Ok((Sink::File(file), false))
    }

    /// Writes what waits; a file takes its place.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Sink::Standard(mut out) => out.flush(),
            Sink::File(file) => file.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Standard(out) => out.write(bytes),
            Sink::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Standard(out) => out.flush(),
            Sink::File(out) => out.flush(),
        }
    }
}

/// A path as it may be printed.
pub(super) fn shown(path: &Path) -> String {
    escape::clean(path.to_string_lossy().as_bytes(), 400)
}

/// A line for standard error.
#[allow(clippy::print_stderr)]
pub(super) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    let full = text.contains("(os error 28)") && !text.contains("full disk");
    let _ =
        writeln!(err, "rdzvscope: {}{}", escape::clean(text.as_bytes(), 2000), if full { ": full disk" } else { "" });
}

/// What clap says of bad arguments. It repeats them; what they hold must not reach the terminal raw.
pub(super) fn complain_clap(e: &clap::Error) {
    let text = e.render().to_string();
    // That a flag could be passed as a value helps nobody who mistyped it or has it from another program.
    let tip = |line: &str| line.trim_start().starts_with("tip: to pass");
    let mut err = io::stderr().lock();
    let mut empty = false;
    for line in text.lines().filter(|line| !tip(line)) {
        if std::mem::replace(&mut empty, line.is_empty()) && empty {
            continue;
        }
        let _ = writeln!(err, "{}", escape::clean(line.as_bytes(), 400));
    }
}

/// Whether the reader of our output has gone: no error, as every tool in a pipe has it.
pub(super) fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().filter_map(|c| c.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
