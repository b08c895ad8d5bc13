//! `rdzvscope oom`: the kills in logs, without captures.

use std::io::Write;

use super::args;
use super::exit::Exit;
use super::flags::ClockArgs;
use super::output::{Format, OutputArgs, complain};
use crate::analysis::{Named, Options, analyze};

/// Lines that were not understood, shown of each log.
const EXAMPLES: usize = 100;

/// Arguments of `oom`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  rdzvscope oom /var/log/kern.log\n  dmesg --time-format iso > n1.dmesg; rdzvscope oom n1=n1.dmesg"
)]
pub(super) struct Args {
    /// Logs, or directories of logs; HOST= names the host it is of
    #[arg(value_name = "[HOST=]LOG", required = true, value_parser = args::named)]
    logs: Vec<Named>,
    #[command(flatten)]
    clocks: ClockArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    let options =
        Options { oom: a.logs, hosts: a.clocks.hosts.clone(), examples: EXAMPLES, ..a.clocks.setup().options()? };
    let analysis = analyze(&options);
    let report = &analysis.report;
    if a.output.form() == Format::Table && a.output.output.is_none() && !a.output.quiet {
        let mut out = std::io::stdout().lock();
        for e in &report.oom_events {
            writeln!(
                out,
                "{}  {:<16} {:<9} {} pid {} total-vm {}  {}",
                e.time.map_or_else(|| "(no time)".to_string(), |t| t.to_rfc3339()),
                e.host.as_deref().unwrap_or("(host unknown)"),
                e.kind,
                e.process.as_deref().unwrap_or("?"),
                e.pid.map_or_else(|| "?".to_string(), |p| p.to_string()),
                e.total_vm_bytes.map_or_else(|| "?".to_string(), |b| format!("{} kB", b / 1024)),
                e.sources.iter().map(|s| format!("{}:{}", s.path, s.line.unwrap_or(0))).collect::<Vec<_>>().join(" ")
            )?;
        }
        for input in &report.inputs {
            for w in &input.warnings {
                writeln!(out, "{}: {w}", input.path)?;
            }
            if input.not_understood.unwrap_or(0) > 0 {
                writeln!(
                    out,
                    "{}: {} lines look like an OOM and were not understood",
                    input.path,
                    input.not_understood.unwrap_or(0)
                )?;
            }
        }
        for note in &report.notes {
            writeln!(out, "{note}")?;
        }
    } else {
        a.output.write(report)?;
    }
    for input in report.inputs.iter() {
        if let Some(error) = &input.error {
            complain(&format!("{}: {error}", input.path));
        }
    }
    Ok(Exit::of(false, analysis.trouble, analysis.nothing_read, false, false))
}
