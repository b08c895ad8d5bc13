//! Arguments that `streams` and `messages` have in common: which captures, which flows of them.

use std::path::PathBuf;

use super::args;
use super::flags::{CaptureArgs, MemoryArgs};
use super::output::{Sink, by_name, complain};
use super::redact::RedactArgs;
use super::stdin_file::StdinFile;
use super::terminal::PagerArgs;
use crate::analysis::{Knowledge, Options, Totals, learn};
use crate::flows::Selection;
use crate::report::Pseudonyms;

/// Which captures, and which of their flows.
#[derive(clap::Args, Debug)]
pub(super) struct SelectArgs {
    /// Captures, or directories of these; - is standard input
    #[arg(value_name = "CAPTURE", required_unless_present = "read")]
    captures: Vec<PathBuf>,
    /// Only flows to or from these ports, whatever their listeners; ranges allowed
    #[arg(long, value_name = "LIST", value_parser = args::ports)]
    port: Vec<std::vec::Vec<u16>>,
    /// Only flows to or from this host (may repeat)
    #[arg(long, value_name = "ADDRESS|NAME")]
    host: Vec<String>,
    /// Names of addresses, in the form of /etc/hosts (may repeat)
    #[arg(long, value_name = "FILE")]
    hosts: Vec<PathBuf>,
    /// Write there instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format", hide_short_help = true)]
    json: bool,
    /// End after so many
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    source: CaptureArgs,
    #[command(flatten)]
    pager: PagerArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    pub(super) redact: RedactArgs,
}

/// Captures, read once, and the flows of them that are meant.
pub(super) struct Selected {
    pub(super) known: Knowledge,
    pub(super) selection: Selection,
    pub(super) options: Options,
    /// What makes tokens of names, when none must be shown.
    pub(super) veil: Option<Pseudonyms>,
    _spool: StdinFile,
}

impl SelectArgs {
    /// Reads the captures a first time.
    pub(super) fn read(&self, all: bool) -> anyhow::Result<Selected> {
        let mut paths: Vec<PathBuf> = self.captures.iter().chain(&self.source.read).cloned().collect();
        let spool = StdinFile::of(&mut paths, &self.source.label)?;
        let mut options =
            Options { paths, hosts: self.hosts.clone(), memory: self.memory.memory, ..Options::default() };
        options.filter.clone_from(&self.source.filter);
        let mut selection = Selection { all, ..Selection::default() };
        if !self.port.is_empty() {
            self.port.iter().flatten().for_each(|p| options.ports.insert(*p));
            selection.ports = Some(self.port.iter().flatten().copied().collect());
        }
        let mut known = learn(&options);
        spool.rename(&mut known);
        for host in &self.host {
            if !selection.add_host(host, &known.names) {
                let host = crate::escape::clean(host.as_bytes(), 80);
                anyhow::bail!("--host {host}: no address of that host is known (--hosts FILE names hosts)");
            }
        }
        let veil = self.redact.veil()?.map(|veil| veil.with_names(known.host_names()));
        if let Some(veil) = &veil {
            known.labels.iter_mut().for_each(|label| *label = veil.text(label));
        }
        Ok(Selected { known, selection, options, veil, _spool: spool })
    }

    /// The form of the list: what was asked for, else what the name of the output says, else a table.
    pub(super) fn form<F: clap::ValueEnum>(&self, format: Option<F>) -> Option<F> {
        let json = self.json.then(|| F::from_str("json", false).ok()).flatten();
        format.or(json).or_else(|| by_name(self.output.as_deref()))
    }

    /// Whether `n` is as many as were asked for.
    pub(super) fn enough(&self, n: u64) -> bool {
        self.count.is_some_and(|count| n >= count)
    }

    /// Where output goes, and whether that is a terminal.
    pub(super) fn out(&self) -> anyhow::Result<(Sink, bool)> {
        Sink::new(self.output.as_deref(), self.pager)
    }
}

impl Selected {
    /// Says what was not read, and what was given up.
    pub(super) fn complain(&self, totals: &Totals) {
        for (path, error) in &self.known.errors {
            match &self.veil {
                Some(veil) => complain(&veil.text(&format!("{path}: {error}"))),
                None => complain(&format!("{path}: {error}")),
            }
        }
        if totals.evicted_flows > 0 || totals.evicted_bytes > 0 {
            complain(&format!(
                "{} flows were given up to stay below the memory limit, {} bytes came after that (--memory raises it)",
                totals.evicted_flows, totals.evicted_bytes
            ));
        }
    }
}
