//! `rdzvscope report` and `rdzvscope merge`: reports from case files.

use std::ffi::OsString;
use std::path::PathBuf;

use super::analyze::severity;
use super::exit::Exit;
use super::output::OutputArgs;
use super::setup::{Setup, SetupArgs};
use crate::analysis::{Analysis, Options, Stored, analyze_stored};
use crate::case::{Case, Mode};
use crate::report::model::Report;
use crate::time::Timestamp;
use crate::words::Severity;

/// Arguments of `report`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Any report from a case file",
    after_help = "Examples:
  rdzvscope report --case case.db
  rdzvscope report --case case.db --since 2026-11-29T00:00:00Z --format html -o night.html

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct Args {
    /// The case file
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// Only what happened at this time or later
    #[arg(long, value_name = "TIME", value_parser = instant)]
    since: Option<Timestamp>,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `merge`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Case files of many hosts joined into one report",
    after_help = "Examples:
  rdzvscope merge node-a.db node-b.db node-c.db
  rdzvscope merge cases/*.db --format json -o report.json

The order of the files does not matter, nor whether one is given twice: the report is that of analyze over all their
captures and logs.

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct MergeArgs {
    /// Case files
    #[arg(value_name = "EVIDENCE", required = true)]
    cases: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Debug)]
struct Common {
    /// Lowest severity that makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = severity)]
    fail_on: Severity,
    /// Exit with 0 whatever was found
    #[arg(long)]
    exit_zero: bool,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    output: OutputArgs,
}

fn instant(text: &str) -> Result<Timestamp, String> {
    crate::oom::parse_instant(text).map_err(|e| e.to_string())
}

/// Runs `report`.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let (stored, options) = join(std::slice::from_ref(&a.case), &a.common, arguments)?;
    let mut analysis = analyze_stored(&options, stored).analysis;
    if let Some(since) = a.since {
        keep_since(&mut analysis.report, since);
    }
    tell_of_withheld(std::slice::from_ref(&a.case), &mut analysis.report)?;
    finish(&a.common, &analysis)
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

/// Runs `merge`.
pub(super) fn merge(a: MergeArgs, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let (stored, options) = join(&a.cases, &a.common, arguments)?;
    finish(&a.common, &analyze_stored(&options, stored).analysis)
}

/// All that several cases hold, with what is known of all their hosts.
fn join(paths: &[PathBuf], common: &Common, arguments: &[OsString]) -> anyhow::Result<(Stored, Options)> {
    let mut stored = Stored::default();
    let mut setups = Vec::new();
    for path in paths {
        let case = Case::open(path, Mode::Read)?;
        let more = case.load()?;
        setups.push(Setup::of_case(&case)?);
        stored.sets.extend(more.sets);
        stored.logs.extend(more.logs);
        stored.hosts.extend(more.hosts);
    }
    // Whatever the order in which they are given.
    setups.sort_by_key(|s| serde_json::to_string(s).unwrap_or_default());
    let setup = setups.into_iter().fold(Setup::default(), Setup::join).join(common.setup.setup());
    for path in &common.setup.hosts {
        let content = std::fs::read(path).map_err(|e| anyhow::anyhow!("{}: cannot read: {e}", path.display()))?;
        stored.hosts.push((path.clone(), content));
    }
    stored.hosts.sort();
    Ok((stored, common.setup.options(&setup, arguments)?))
}

fn finish(common: &Common, analysis: &Analysis) -> anyhow::Result<Exit> {
    common.output.write(&analysis.report)?;
    let flagged = analysis.report.findings.iter().any(|f| f.severity >= common.fail_on)
        || analysis.report.incidents.iter().any(|i| i.hosts.iter().any(|h| h.trigger.is_some()));
    Ok(Exit::of(flagged, analysis.trouble, false, false, common.exit_zero))
}

/// Leaves out what happened earlier, but for what an incident that is told rests on.
fn keep_since(report: &mut Report, since: Timestamp) {
    report.incidents.retain(|i| i.end.or(i.start).is_none_or(|t| t >= since));
    let hosts = || report.incidents.iter().flat_map(|i| &i.hosts);
    let triggers: std::collections::BTreeSet<String> = hosts().filter_map(|h| h.trigger.clone()).collect();
    let kills: std::collections::BTreeSet<String> = hosts().filter_map(|h| h.oom_event.clone()).collect();
    report.findings.retain(|f| f.time.is_none_or(|t| t >= since) || triggers.contains(&f.id));
    report.oom_events.retain(|e| e.time.is_none_or(|t| t >= since) || kills.contains(&e.id));
    let findings: std::collections::BTreeSet<&str> = report.findings.iter().map(|f| f.id.as_str()).collect();
    for s in &mut report.scans {
        s.findings.retain(|f| findings.contains(f.as_str()));
    }
    report.scans.retain(|s| s.last.is_none_or(|t| t >= since));
    report.notes.push(format!("what happened before {since} is left out (--since)"));
}
