//! Where output goes, and how.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::redact::RedactArgs;
use crate::evidence::{FactSet, write_lines};
use crate::report::Pseudonyms;
use crate::report::model::Report;
use crate::report::size::Zone;
use crate::report::table::{Style, write_table};
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

/// When to use colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(super) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

/// The flags of everything that prints a report.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Report")]
pub(super) struct OutputArgs {
    /// Form of the report
    #[arg(long, value_enum, default_value = "table", value_name = "FORM")]
    pub(super) format: Format,
    /// Write the report there instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Colour
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN", hide_short_help = true)]
    pub(super) color: Colour,
    /// Show what is otherwise only counted
    #[arg(short, long)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) redact: RedactArgs,
    /// Print nothing; only the exit status tells
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
}

impl OutputArgs {
    /// Whether the output is evidence for `merge` besides being a report.
    pub(super) fn is_evidence(&self) -> bool {
        self.format == Format::Jsonl && !self.redact.asked() && !(self.quiet && self.output.is_none())
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
                let file = File::create(path).with_context(|| format!("{}: cannot create", shown(path)))?;
                let mut out = BufWriter::new(file);
                self.write_to(report, &mut out, false)?;
                self.write_facts(facts, &mut out).with_context(|| format!("{}: cannot write", shown(path)))?;
                out.flush().with_context(|| format!("{}: cannot write", shown(path)))
            }
            None => {
                let stdout = io::stdout();
                let terminal = stdout.is_terminal();
                let mut out = BufWriter::new(stdout.lock());
                self.write_to(report, &mut out, terminal)?;
                self.write_facts(facts, &mut out)?;
                Ok(out.flush()?)
            }
        }
    }

    fn write_facts(&self, facts: &FactSet, out: &mut impl Write) -> io::Result<()> {
        if self.is_evidence() { write_lines(facts, 1, out) } else { Ok(()) }
    }

    fn write_to(&self, report: &Report, out: &mut impl Write, terminal: bool) -> io::Result<()> {
        match self.format {
            Format::Json => json::write_json(report, out),
            Format::Jsonl => json::write_jsonl(report, out),
            Format::Csv => csv::write_csv(report, out),
            Format::Html => html::write_html(report, out),
            Format::Markdown => markdown::write_markdown(report, out),
            Format::Table => write_table(report, &self.style(terminal), out),
        }
    }

    fn style(&self, terminal: bool) -> Style {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        Style {
            width: 100,
            unicode: utf8_locale(),
            colour: match self.color {
                Colour::Always => true,
                Colour::Never => false,
                Colour::Auto => terminal && !plain,
            },
            verbose: self.verbose,
            zone: Zone::Utc,
        }
    }
}

/// Whether the locale's character set is UTF-8, by the rules of setlocale(3).
fn utf8_locale() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// A path as it may be printed.
pub(super) fn shown(path: &Path) -> String {
    escape::clean(path.to_string_lossy().as_bytes(), 400)
}

/// A line for standard error.
#[allow(clippy::print_stderr)]
pub(super) fn complain(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "rdzvscope: {}", escape::clean(text.as_bytes(), 2000));
}

/// What clap says of bad arguments. It repeats them; what they hold must not reach the terminal raw.
pub(super) fn complain_clap(e: &clap::Error) {
    let text = e.render().to_string();
    let mut err = io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(err, "{}", escape::clean(line.as_bytes(), 400));
    }
}

/// Whether the reader of our output has gone: no error, as every tool in a pipe has it.
pub(super) fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().filter_map(|c| c.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
