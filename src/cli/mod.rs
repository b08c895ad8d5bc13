//! The command line: one file a subcommand, its arguments and the few lines that join the rooms.

mod alerts;
mod analyze;
mod args;
mod attest;
mod case;
mod complete;
mod decoy;
mod doctor;
mod exit;
mod explain;
mod flags;
mod help;
mod hint;
mod inventory;
mod job;
#[cfg(feature = "live")]
mod live;
mod merge;
mod messages;
mod oom;
mod output;
mod policy;
mod prescan;
mod protect;
mod redact;
mod report;
mod select;
mod site_facts;
mod stdin_file;
mod stop;
mod streams;
mod terminal;
mod version;
mod watch;
mod whose_word;
mod window;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use exit::Exit;

/// Which bytes, from whom, to which rendezvous or NCCL listener, took these hosts down?
#[derive(Parser, Debug)]
#[command(
    name = "rdzvscope",
    version,
    about = "Packet-capture forensics for training clusters",
    long_about = "Reads packet captures and OOM logs, decodes PyTorch TCPStore and NCCL bootstrap traffic, flags frames whose \
declared lengths, counts or query types are malformed, and joins them to per-host OOM kills.",
    after_help = "Examples:\n  rdzvscope analyze captures/ --oom logs/ --hosts hosts\n  rdzvscope explain store-claim",
    subcommand_required = true,
    arg_required_else_help = true,
    propagate_version = false
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Permissions of files that hold observations, in octal; a directory lets in whoever may read its files
    #[arg(long, global = true, value_name = "MODE", default_value = "600", value_parser = args::mode, hide_short_help = true)]
    mode: u32,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// From a folder of captures and logs to a verdict
    Analyze(Box<analyze::Args>),
    /// Every decoded message
    Messages(messages::Args),
    /// The flows of captures, and their bytes
    Streams(streams::Args),
    /// The OOM events in logs, and what was not understood
    Oom(oom::Args),
    /// What is missing here, and the fix: rights, disk, clocks, libpcap, Landlock, seccomp
    Doctor(doctor::Args),
    /// What a scan would do to each server, before it is run
    Prescan(prescan::Args),
    /// A listener that answers as a server of a release would, and never allocates
    Decoy(decoy::Args),
    /// The same analysis on interfaces, findings at once
    #[cfg(feature = "live")]
    Live(live::Args),
    /// A directory that tcpdump rotates through, read into a case file
    Watch(watch::Args),
    /// Any report from a case file
    Report(report::Args),
    /// Evidence and case files of many hosts joined into one report
    Merge(merge::Args),
    /// The case file itself: check, backup, compact, info
    Case(case::Args),
    /// What a rule means, why it matters, what to do
    Explain(explain::Args),
    /// Shell completions
    Completions(complete::CompletionsArgs),
    /// Man pages, one a command
    Man(complete::ManArgs),
}

/// Runs the program with these arguments (the first is its own name).
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    if let Some(told) = version::verbose(&arguments) {
        return match std::io::Write::write_all(&mut std::io::stdout(), told.as_bytes()) {
            Ok(()) => Exit::Clean.into(),
            Err(_) => Exit::Trouble.into(),
        };
    }
    let mut command = command();
    let arguments = prescan::own_flags_first(&command, prescan::profile_of_word(arguments));
    let parsed = command.try_get_matches_from_mut(&arguments);
    let parsed = parsed.and_then(|m| Ok((Cli::from_arg_matches(&m)?, m)));
    let (cli, matches) = match parsed.map_err(|e| e.format(&mut command)) {
        Ok(parsed) => parsed,
        Err(e) => return refuse(&e, &arguments),
    };
    crate::disk::set_mode(cli.mode);
    if let Err(e) = protect::check(&command, &matches) {
        output::complain(&e.to_string());
        return Exit::Trouble.into();
    }
    let result = match cli.command {
        Command::Analyze(a) => analyze::run(*a, &arguments),
        Command::Messages(a) => messages::run(a),
        Command::Streams(a) => streams::run(a),
        Command::Oom(a) => oom::run(a),
        Command::Doctor(a) => doctor::run(&a),
        Command::Prescan(a) => prescan::run(a),
        Command::Decoy(a) => decoy::run(a),
        #[cfg(feature = "live")]
        Command::Live(a) => live::run(a, &arguments),
        Command::Watch(a) => watch::run(a, &arguments),
        Command::Report(a) => report::run(a, &arguments),
        Command::Merge(a) => merge::run(a, &arguments),
        Command::Case(a) => case::run(a),
        Command::Explain(a) => explain::run(a),
        Command::Completions(a) => complete::completions(a, &mut command),
        Command::Man(a) => complete::man(a, plain()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(e) if output::is_broken_pipe(&e) => Exit::Clean.into(),
        Err(e) => {
            output::complain(&hint::told(&e));
            if let Some(next) = hint::next(&e) {
                output::complain(&format!("next: {next}"));
            }
            Exit::Trouble.into()
        }
    }
}

/// Bad arguments: clap's words, and a suggestion where a path stands in the command's place.
fn refuse(e: &clap::Error, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind;
    match e.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = e.print();
            Exit::Clean.into()
        }
        ErrorKind::InvalidSubcommand => {
            let first = arguments.get(1).map(PathBuf::from).unwrap_or_default();
            if first.exists() {
                let shown = output::shown(&first);
                output::complain(&format!("{shown} is a path, not a command; did you mean: rdzvscope analyze {shown}"));
            } else {
                output::complain_clap(e);
            }
            Exit::Trouble.into()
        }
        _ => {
            output::complain_clap(e);
            if let Some(hint) = hint::of_foreign_flag(e) {
                output::complain(hint);
            }
            let example = hint::example(arguments).filter(|_| e.kind() == ErrorKind::MissingRequiredArgument);
            if let Some(example) = example {
                output::complain(&format!("for example: {example}"));
            }
            Exit::Trouble.into()
        }
    }
}

/// The command line as its parts are written, before [`help`] puts them where they belong.
fn plain() -> clap::Command {
    Cli::command()
}

/// The command line as clap knows it: for tests and documentation.
pub fn command() -> clap::Command {
    help::arranged(plain())
}
