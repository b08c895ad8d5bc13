//! `rdzvscope report`: reports from a case file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit::Exit;
use super::flags::{JoinArgs, StatusArgs};
use super::job::JobArgs;
use super::output::{OutputArgs, complain, shown};
use super::site_facts::SiteFacts;
use super::whose_word::accepted;
use super::window::WindowArgs;
use crate::analysis::{Analysis, Options, Stored, analyze_stored};
use crate::case::{Case, Mode};
use crate::disk::{SMALL_FILE, read_small};
use crate::evidence::FactSet;
use crate::report::model::Report;
use crate::report::rows::write_rows;

/// Arguments of `report`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Any report from a case file",
    after_help = "Examples:
  rdzvscope report case.db
  rdzvscope report --case case.db --since 2026-11-29T00:00:00Z --format html -o night.html

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct Args {
    /// The case file
    #[arg(value_name = "CASE", required_unless_present = "case", conflicts_with = "case")]
    file: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// The content of a hosts list.
pub(super) fn list(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_small(path, SMALL_FILE).with_context(|| format!("{}: cannot read", shown(path)))
}

#[derive(clap::Args, Debug)]
pub(super) struct Common {
    /// Write flat rows there too, a file of JSON lines a type (new or empty directory)
    #[arg(long, value_name = "DIR", conflicts_with = "redact", help_heading = "Report", hide_short_help = true)]
    rows: Option<PathBuf>,
    #[command(flatten)]
    pub(super) window: WindowArgs,
    #[command(flatten)]
    pub(super) job: JobArgs,
    #[command(flatten)]
    pub(super) status: StatusArgs,
    #[command(flatten)]
    pub(super) join: JoinArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Runs `report`.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let path = a.case.or(a.file).context("a case file was required")?;
    let case = Case::open(&path, Mode::Read)?;
    let mut stored = case.load()?;
    let (claimed, unused) = accepted(&stored.origins);
    stored.notes.extend(unused);
    let setup = claimed.join(SiteFacts::of_case(&case)?).join(a.common.join.setup());
    let options = a.common.join.options(&setup, arguments)?;
    a.common.add_hosts(&mut stored)?;
    let mut analysis = analyze_stored(&options, stored).analysis;
    a.common.keep(&options, &mut analysis.report)?;
    tell_of_withheld(std::slice::from_ref(&path), &mut analysis.report)?;
    earlier_nights(&case, &mut analysis.report)?;
    let facts = if a.common.is_whole() && a.common.output.is_evidence() { case.pile()? } else { FactSet::default() };
    let exit = a.common.finish(&analysis, &facts, false)?;
    // A case is the only copy of what it holds: what is lost of it is no input that somebody can give again.
    Ok(if analysis.lost.is_empty() { exit } else { Exit::Trouble })
}

/// What was no alert stands in the report all the same: it says so.
fn tell_of_withheld(cases: &[PathBuf], report: &mut Report) -> anyhow::Result<()> {
    for path in cases {
        for w in Case::open(path, Mode::Read)?.withheld()? {
            let plural = if w.count == 1 { "alert was" } else { "alerts were" };
            report.notes.push(format!("{} {plural} withheld by {} ({})", w.count, w.entry, w.reason));
        }
    }
    Ok(())
}

/// What the case remembers of a source's earlier nights.
fn earlier_nights(case: &Case, report: &mut Report) -> anyhow::Result<()> {
    for scan in &report.scans {
        let Some(time) = scan.last.or(scan.first) else { continue };
        let seen = case.earlier_nights(&scan.source.address, scan.tool.as_deref().unwrap_or_default(), time)?;
        if seen.nights > 0 {
            let label = scan.source.label.as_ref().map(|l| format!(" ({l})")).unwrap_or_default();
            let with = scan.tool.as_ref().map(|t| format!(" with {t}")).unwrap_or_default();
            let nights = if seen.nights == 1 { "an earlier night" } else { &format!("{} earlier nights", seen.nights) };
            let shown = seen.dates.join(", ");
            let last = if seen.nights > seen.dates.len() as u64 { "the last of them " } else { "" };
            let source = &scan.source.address;
            report.notes.push(format!("{source}{label} came{with} at this hour on {nights} too: {last}{shown}."));
        }
    }
    Ok(())
}

impl Common {
    /// Whether nothing narrows the report.
    pub(super) fn is_whole(&self) -> bool {
        !self.window.is_any() && self.job.job.is_none()
    }

    /// Leaves out of the report what is not asked for.
    pub(super) fn keep(&self, options: &Options, report: &mut Report) -> anyhow::Result<()> {
        self.window.keep(report);
        if let Some(jobs) = self.job.read(options.log_zone)? {
            jobs.keep(report);
        }
        Ok(())
    }

    /// Adds the lists that `--hosts` names.
    pub(super) fn add_hosts(&self, stored: &mut Stored) -> anyhow::Result<()> {
        for path in &self.join.clocks.hosts {
            let content = list(path)?;
            stored.hosts.push((path.clone(), content));
        }
        stored.hosts.sort();
        Ok(())
    }

    /// Writes the report; the exit status.
    pub(super) fn finish(&self, analysis: &Analysis, facts: &FactSet, trouble: bool) -> anyhow::Result<Exit> {
        if let Some(directory) = &self.rows {
            write_rows(&analysis.report, directory)
                .with_context(|| format!("{}: cannot write rows", shown(directory)))?;
        }
        self.output.write_with(&analysis.report, facts, self.output.redact.veil()?.as_ref())?;
        analysis.lost.iter().for_each(|lost| complain(lost));
        Ok(self.status.exit(&analysis.report, trouble || analysis.trouble, false, false))
    }
}
