//! What to do about an error: its causes, each said once, and the next step where there is one.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;

use super::help::Parts;
use super::output::{complain, shown};
use crate::case::CaseError;

/// The error and its causes. A cause that the text before it already holds is left out: libraries repeat theirs.
pub(super) fn told(e: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in e.chain().map(ToString::to_string) {
        // SQLite's has a code before it.
        let core = cause.rsplit(": ").next().unwrap_or(&cause);
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) && !text.contains(core) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The next step.
pub(super) fn next(e: &anyhow::Error) -> Option<&'static str> {
    if let Some(e) = e.chain().find_map(|c| c.downcast_ref::<CaseError>()) {
        return match e {
            CaseError::Missing { .. } => Some("a case is made by: rdzvscope watch DIR --case FILE"),
            CaseError::Foreign { .. } => {
                Some("a case is what watch and live write; captures and logs are read by: rdzvscope analyze PATH")
            }
            CaseError::Sqlite { source, .. } if source.to_string().contains("not a database") => {
                Some("a case is what watch and live write; captures and logs are read by: rdzvscope analyze PATH")
            }
            CaseError::Newer { .. } => Some("install the release that wrote it, or a later one"),
            _ => None,
        };
    }
    #[cfg(feature = "live")]
    if let Some(crate::live::LiveError::Open { source, .. }) = e.chain().find_map(|c| c.downcast_ref())
        && source.to_string().contains("No such device")
    {
        return Some("ip -br link lists interfaces; -i any listens to all of them");
    }
    let kind = e.chain().find_map(|c| c.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    match kind {
        Some(ErrorKind::PermissionDenied) => Some("rdzvscope doctor says what this user may do here"),
        Some(ErrorKind::StorageFull) => Some("free some space, or name another file system"),
        _ => None,
    }
}

/// A path as the first argument is taken for what `analyze` reads, and that is said.
pub(super) fn with_command(command: &clap::Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = arguments.get(1).cloned() else { return arguments };
    let known = first.to_str().is_some_and(|f| f.starts_with('-') || command.find_subcommand(f).is_some());
    if !known && Path::new(&first).exists() {
        let shown = shown(Path::new(&first));
        complain(&format!("{shown} is a path, not a command; taken as: rdzvscope analyze {shown}"));
        arguments.insert(1, "analyze".into());
    }
    arguments
}

/// What flags of other programs mean here.
const FOREIGN: [(&[&str], &str); 12] = [
    (
        &["-Y", "-2", "-R"],
        "display filters are tshark's; here: messages --query ADD --key TEXT, --host ADDRESS, --port LIST, or --filter BPF",
    ),
    (&["-w"], "packets are written by: analyze --carve FILE; the bytes of streams by: streams --write DIR"),
    (&["-i"], "interfaces are listened to by: rdzvscope live -i IFACE"),
    (&["-n", "-nn", "-N"], "addresses are never looked up anywhere: leave it out; --hosts FILE gives names"),
    (&["-A", "-X", "-xx"], "bytes are shown by: messages -x, and streams --follow N --as hex"),
    (&["-T", "-e", "-E"], "fields come as JSON: --format jsonl, and jq takes them from there"),
    (&["-z"], "flows are listed by: rdzvscope streams; one is printed by: streams --follow N"),
    (&["-d"], "ports of stores are named by --port LIST, those of NCCL roots by --nccl-port LIST"),
    (&["-s"], "captures are read as they are; the snaplen of live is --snaplen BYTES"),
    (&["-t", "-tttt"], "times are UTC with their date; JSON has nine digits"),
    (&["-sV", "-sS", "-sT", "-p"], "a scan is tried by: rdzvscope prescan nmap -sS -sV -p 1-65535"),
    (&["--sort", "-S", "--stats"], "order and counting are for jq, DuckDB or sort, on --format jsonl or csv"),
];

/// What to type instead of a flag of tshark, tcpdump or nmap.
pub(super) fn of_foreign_flag(e: &clap::Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(flag)) = e.get(ContextKind::InvalidArg) else { return None };
    let unknown = e.kind() == ErrorKind::UnknownArgument;
    FOREIGN.iter().find(|(flags, _)| unknown && flags.contains(&flag.as_str())).map(|(_, hint)| *hint)
}

/// After bad arguments: a command line of this command that works.
pub(super) fn example(arguments: &[OsString]) -> Option<String> {
    let name = arguments.get(1)?.to_str()?;
    let command = super::plain();
    let examples = Parts::of(command.find_subcommand(name)?).examples?;
    examples.lines().map(str::trim).find(|l| l.starts_with("rdzvscope ")).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_cause_is_said_once() {
        let inner = std::io::Error::other("no such device");
        let e = Err::<(), _>(inner).context("eth9: cannot listen: no such device").unwrap_err();
        assert_eq!(told(&e), "eth9: cannot listen: no such device");
        let e = Err::<(), _>(std::io::Error::other("full")).context("x: cannot write").unwrap_err();
        assert_eq!(told(&e), "x: cannot write: full");
    }

    #[test]
    fn every_command_has_an_example_to_give() {
        for command in crate::cli::command().get_subcommands().filter(|c| c.get_name() != "help") {
            let example = example(&["rdzvscope".into(), command.get_name().into()]);
            assert!(example.is_some(), "{}", command.get_name());
        }
    }

    #[test]
    fn a_missing_case_has_a_next_step() {
        let e = anyhow::Error::from(CaseError::Missing { path: "x".into() });
        assert!(next(&e).unwrap().contains("watch"));
    }
}
