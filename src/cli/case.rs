//! `rdzvscope case`: the case file itself.

use std::io::Write;
use std::path::PathBuf;

use super::exit::Exit;
use super::output::{complain, shown};
use crate::case::{Case, Mode};
use crate::watch::Lock;

/// Arguments of `case`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  rdzvscope case info case.db
  rdzvscope case backup case.db /backup/case-$(date +%F).db")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Whether the file is sound: status 2 when it is not
    Check {
        /// The case file
        #[arg(value_name = "FILE")]
        case: PathBuf,
    },
    /// Write a copy, taken at one moment; the case may be in use
    Backup {
        /// The case file
        #[arg(value_name = "FILE")]
        case: PathBuf,
        /// The copy; it must not be there yet
        #[arg(value_name = "COPY")]
        to: PathBuf,
    },
    /// Give the space of what was let go back to the file system
    Compact {
        /// The case file
        #[arg(value_name = "FILE")]
        case: PathBuf,
    },
    /// What it holds
    Info {
        /// The case file
        #[arg(value_name = "FILE")]
        case: PathBuf,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    match a.what {
        What::Check { case } => {
            let wrong = Case::open(&case, Mode::Read)?.check()?;
            for w in &wrong {
                writeln!(out, "{}: {w}", shown(&case))?;
            }
            if !wrong.is_empty() {
                return Ok(Exit::Trouble);
            }
            writeln!(out, "{}: sound", shown(&case))?;
        }
        What::Backup { case, to } => Case::open(&case, Mode::Read)?.backup(&to)?,
        What::Compact { case } => {
            let _lock = Lock::take(&case)?;
            let mut open = Case::open(&case, Mode::Write)?;
            for removed in open.remove_oversize()? {
                complain(&format!("{}: removed: {removed}", case.display()));
            }
            open.compact()?;
        }
        What::Info { case, json } => {
            let info = Case::open(&case, Mode::Read)?.info()?;
            if json {
                serde_json::to_writer(&mut out, &info)?;
                writeln!(out)?;
            } else {
                writeln!(
                    out,
                    "schema {}\n{} bytes, {} of them free\n{} capture sets, {} captures, {} packets read\n{} flow records, \
                     {} bytes of segments\n{} logs\n{} findings and {} incidents told, {} alerts undelivered",
                    info.schema,
                    info.bytes,
                    info.free_bytes,
                    info.sets,
                    info.captures,
                    info.packets,
                    info.flows,
                    info.segment_bytes,
                    info.logs,
                    info.findings,
                    info.incidents,
                    info.undelivered
                )?;
                for w in &info.withheld {
                    let (last, entry) = (w.last, &w.entry);
                    writeln!(out, "{} alerts withheld by {entry} ({}), the last at {last}", w.count, w.reason)?;
                }
                if info.network_filesystem {
                    writeln!(out, "lies on a network file system")?;
                }
            }
        }
    }
    Ok(Exit::Clean)
}
