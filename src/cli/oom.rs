//! `rdzvscope oom`: the kills in logs, without captures.

use std::io::{BufWriter, Write};

use super::args;
use super::exit::Exit;
use super::flags::ClockArgs;
use super::output::{Format, OutputArgs, complain, shown};
use crate::analysis::{Named, Options, analyze};
use crate::disk::NewFile;
use crate::report::kills;
use crate::report::model::Report;
use anyhow::Context;

/// Lines that were not understood, shown of each log.
const EXAMPLES: usize = 100;

/// Arguments of `oom`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  rdzvscope oom /var/log/kern.log\n  journalctl -k -o json | rdzvscope oom -\n  dmesg --time-format iso > n1.dmesg; rdzvscope oom n1=n1.dmesg"
)]
pub(super) struct Args {
    /// Logs, or directories of logs; HOST= names the host it is of; - is standard input
    #[arg(value_name = "[HOST=]LOG", required = true, value_parser = args::named)]
    logs: Vec<Named>,
    #[command(flatten)]
    clocks: ClockArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    let options = Options {
        oom: a.logs,
        hosts: a.clocks.hosts.clone(),
        examples: EXAMPLES,
        kills_only: true,
        ..a.clocks.setup().options()?
    };
    let mut analysis = analyze(&options);
    // A log is named for its host by its argument here.
    for warning in analysis.report.inputs.iter_mut().flat_map(|i| &mut i.warnings) {
        *warning = warning.replace("--oom HOST=PATH", "HOST=PATH");
    }
    let report = &analysis.report;
    match a.output.form() {
        _ if a.output.quiet && a.output.output.is_none() => {}
        Format::Json | Format::Jsonl | Format::Html => a.output.write(report)?,
        form => rows(report, form, &a.output)?,
    }
    for input in report.inputs.iter() {
        if let Some(error) = &input.error {
            complain(&format!("{}: {error}", input.path));
        }
    }
    Ok(Exit::of(false, analysis.trouble, analysis.nothing_read, false, false))
}

/// Writes a row a kill.
fn rows(report: &Report, form: Format, output: &OutputArgs) -> anyhow::Result<()> {
    let redacted = output.redact.veil()?.map(|veil| crate::report::redacted(report, &veil));
    let report = redacted.as_ref().unwrap_or(report);
    let write = |out: &mut dyn Write| match form {
        Format::Csv => kills::write_csv(report, out),
        Format::Markdown => kills::write_markdown(report, out),
        _ => kills::write_table(report, out),
    };
    let Some(path) = &output.output else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        write(&mut out)?;
        return Ok(out.flush()?);
    };
    let mut out = NewFile::create(path).with_context(|| format!("{}: cannot create", shown(path)))?;
    write(&mut out).and_then(|()| out.finish()).with_context(|| format!("{}: cannot write", shown(path)))
}
