//! Outputs of all commands, held against their inputs before anything is read: nothing is ever overwritten that was observed.

use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use crate::analysis::read_as;
use crate::disk::{Overwrites, Protected, what_must_stay};

/// Flags that name a file to be written, by their long names.
const FILES: [&str; 7] = ["output", "metrics", "alert-file", "carve", "annotate", "record", "write-probes"];
/// Flags that name a directory to be written into; what is in it is made anew, or the directory must be empty.
const DIRECTORIES: [&str; 5] = ["write", "evidence", "policy-dir", "attest", "rows"];
/// Commands that write the case that they name, and the flag that names it.
const CASES: [&str; 3] = ["watch", "live", "merge"];

/// Checks all outputs of a command line.
///
/// # Errors
/// The first output that would overwrite an input, a case, evidence or a capture.
pub(super) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Overwrites> {
    let Some((name, own)) = matches.subcommand() else { return Ok(()) };
    let Some(command) = command.find_subcommand(name) else { return Ok(()) };
    let mut protected = Protected::default();
    let mut outputs = Vec::new();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let typed = own.try_contains_id(id).unwrap_or(false) && own.value_source(id) == Some(ValueSource::CommandLine);
        if !typed {
            continue;
        }
        let long = argument.get_long().unwrap_or_default();
        for value in own.get_raw(id).into_iter().flatten() {
            let path = Path::new(value);
            if FILES.contains(&long) || long == "case" && CASES.contains(&name) {
                outputs.push((format!("--{long}"), path.to_owned()));
            } else if !DIRECTORIES.contains(&long) {
                protected.input(path);
                // HOST=PATH
                if let Some((_, path)) = value.to_str().and_then(|v| v.split_once('=')) {
                    protected.input(Path::new(path));
                }
            }
        }
    }
    for (flag, path) in outputs {
        // A case is written to, not over. One whose making was broken off is a database that says nothing yet; whoever opens a
        // foreign one leaves it as it is.
        if flag == "--case" && matches!(what_must_stay(&path), Some("a case file" | "a database")) {
            continue;
        }
        protected.output(&flag, &path, &read_as)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags with a path that are inputs, or name no file of their own.
    const INPUTS: [&str; 15] = [
        "probes",
        "oom",
        "read",
        "hosts",
        "boot",
        "suppress",
        "redact-key",
        "inventory",
        "versiondb",
        "check",
        "case",
        "follow",
        "payload",
        "job",
        "trust",
    ];

    #[test]
    fn every_flag_that_names_a_path_is_known_as_input_or_output() {
        let command = crate::cli::command();
        for sub in command.get_subcommands() {
            for argument in sub.get_arguments() {
                let value = argument.get_value_names().unwrap_or_default().join(" ");
                let names_path = ["FILE", "DIR", "PATH"].iter().any(|w| value.contains(w));
                let Some(long) = argument.get_long().filter(|_| names_path) else { continue };
                let known = FILES.contains(&long) || DIRECTORIES.contains(&long) || INPUTS.contains(&long);
                assert!(known, "{} --{long}: an input or an output?", sub.get_name());
            }
        }
    }
}
