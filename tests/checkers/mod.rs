//! Programs that nobody here wrote and that read what this one writes: found in the path or in `target/tools`, where
//! `tools/checkers.sh` puts them.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[allow(unused_imports)]
pub(crate) use crate::common::skipped;

/// The project's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program; says plainly that something is skipped where it is not there.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/lib/systemd"].map(PathBuf::from);
    let own = ["usr/bin", "usr/sbin"].map(|d| root().join("target/tools").join(d));
    let found = std::env::split_paths(&path).chain(more).chain(own).map(|d| d.join(name)).find(|p| p.is_file());
    if found.is_none() {
        skipped(&format!("{name} is not installed (tools/setup.sh test)"));
    }
    found
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout == b"0\n")
}

/// All that a run printed.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program that must end well; what it said.
pub(crate) fn well(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
    said(&output)
}
