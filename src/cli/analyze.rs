//! `rdzvscope analyze`: the main job.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args;
use super::exit::Exit;
use super::flags::{CaptureArgs, JoinArgs, SelectionArgs, StatusArgs};
use super::job::JobArgs;
use super::output::{OutputArgs, complain, shown};
use super::site_facts::SiteFacts;
use crate::analysis::{Named, Options, analyze};
use crate::evidence::FactSet;
use crate::net::Network;
use crate::report::carve;
use crate::watch::evidence_of;

/// Arguments of `analyze`.
#[derive(clap::Args, Debug)]
#[command(
    about = "From a folder of captures and logs to a verdict",
    after_help = "Examples:
  rdzvscope analyze captures/ --oom logs/ --hosts hosts
  rdzvscope analyze node-*.pcap --oom node-a=dmesg.txt --boot node-a=2026-11-29T11:12:08Z
  tcpdump -i eth0 -w - | rdzvscope analyze - --port 29500-29510
  rdzvscope analyze incident/ --format html -o report.html
  rdzvscope analyze incident/ --format json -o report.json --carve flagged.pcapng
  pdsh -a 'rdzvscope analyze /var/lib/pcap --oom /var/log --format jsonl' | rdzvscope merge -

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct Args {
    /// Captures, logs, hosts lists, or directories of these; - is a capture on standard input
    #[arg(value_name = "PATH", required_unless_present_any = ["oom", "read"])]
    paths: Vec<PathBuf>,
    /// A log, or a directory of logs; HOST= names the host it is of (may repeat)
    #[arg(long, value_name = "[HOST=]PATH", value_parser = args::named)]
    oom: Vec<Named>,
    /// Write the flows of what was flagged at warning or above there, as pcapng with a comment on each flagged packet
    #[arg(long, value_name = "FILE")]
    carve: Option<PathBuf>,
    /// Write the whole capture there (there must be one alone), as pcapng with a comment on each packet of a finding
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    annotate: Option<PathBuf>,
    /// Any input that was named and not read makes the exit status 2
    #[arg(long, hide_short_help = true)]
    strict: bool,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    captures: CaptureArgs,
    #[command(flatten)]
    join: JoinArgs,
    /// A name for approved sources, such as your scanners (may repeat)
    #[arg(long, value_name = "CIDR=LABEL", value_parser = args::known_source)]
    known_source: Vec<(Network, String)>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    job: JobArgs,
    /// Evidence of --format jsonl counts ordinary connections instead of listing them (docs/evidence.md)
    #[arg(long, hide_short_help = true)]
    lean: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let veil = a.output.redact.veil()?;
    let setup = a.join.setup();
    let mut options = Options {
        paths: a.paths.into_iter().chain(a.captures.read).collect(),
        label: a.captures.label,
        filter: a.captures.filter,
        oom: a.oom,
        hosts: a.join.clocks.hosts.clone(),
        known_sources: a.known_source,
        progress: !a.output.quiet,
        stop: super::stop::on_interrupt(),
        ..a.join.options(&setup, arguments)?
    };
    a.selection.select(&mut options);
    let standard = |p: &PathBuf| p.as_os_str() == "-";
    anyhow::ensure!(
        !(options.paths.iter().any(standard) && a.job.job.as_ref().is_some_and(standard)),
        "standard input is a capture or accounting, not both: --job FILE was required"
    );
    let jobs = a.job.read(options.log_zone)?;
    let mut analysis = analyze(&options);
    if let Some(jobs) = jobs {
        jobs.keep(&mut analysis.report);
    }
    if let Some(text) = analysis.unmatched.first().filter(|_| !analysis.stopped && !analysis.nothing_read) {
        anyhow::bail!("{}", crate::escape::clean(text.as_bytes(), 200));
    }
    let facts = if a.output.is_evidence() && !analysis.stopped && options.filter.is_none() {
        evidence_of(&options, Some(&SiteFacts::of_options(&options).text()?), a.lean)?
    } else {
        FactSet::default()
    };
    a.output.write_with(&analysis.report, &facts, veil.as_ref())?;
    if let Some(path) = &a.carve {
        let written = carve::carve(&analysis.report, &analysis.captures, path, veil.as_ref())?;
        if written.packets == 0 {
            complain(&format!("{}: holds no packet, for none was flagged at warning or above", shown(path)));
        }
    }
    if let Some(path) = &a.annotate {
        carve::annotate(&analysis.report, &analysis.captures, path, veil.as_ref())?;
    }
    for input in analysis.report.inputs.iter() {
        if let Some(error) = &input.error {
            complain(&format!("{}: {error}", input.path));
        }
    }
    if analysis.stopped {
        complain("reading was stopped: the report is of what was read until then");
        return Ok(Exit::Trouble);
    }
    Ok(a.status.exit(&analysis.report, analysis.trouble, analysis.nothing_read, a.strict))
}
