//! `prescan --attest`: what is filed before a scan is let loose.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::output::shown;
use super::policy::{Staged, write_all, write_new};
use crate::policy::{ApprovalForm, PolicyError, Product, Scope, sign_off};
use crate::prescan::{Advice, Fleet, Matrix};

/// What is filed.
pub(super) struct Paper<'a> {
    /// As JSON and as Markdown.
    pub(super) report: [Vec<u8>; 2],
    pub(super) tried: &'a str,
    pub(super) hosts: String,
    pub(super) fleet: &'a Fleet,
    pub(super) scope: &'a Scope,
    pub(super) board: &'a Matrix,
    pub(super) advice: &'a Advice,
    pub(super) notes: Vec<&'a str>,
}

/// Writes it whole, or not at all.
pub(super) fn write(directory: &Path, paper: &Paper<'_>) -> anyhow::Result<()> {
    let staged = Staged::new(directory)?;
    let at = |name: &str| staged.path.join(name);
    let [json, markdown] = &paper.report;
    write_new(&at("report.json"), json)?;
    write_new(&at("report.md"), markdown)?;
    let policies = at("policies");
    std::fs::create_dir(&policies).with_context(|| format!("{}: cannot create", shown(&policies)))?;
    let without = match write_all(&policies, paper.scope) {
        Ok(without) => without,
        // A fleet that nobody gave a place to: the form says so.
        Err(e) if e.downcast_ref::<PolicyError>() == Some(&PolicyError::Nothing) => {
            Product::ALL.into_iter().map(|p| (p, PolicyError::Nothing)).collect()
        }
        Err(e) => return Err(e),
    };
    let form = sign_off(&ApprovalForm {
        tried: paper.tried,
        hosts: &paper.hosts,
        fleet: paper.fleet,
        scope: paper.scope,
        board: paper.board,
        advice: paper.advice,
        notes: &paper.notes,
        without: &without,
    });
    write_new(&at("sign-off.md"), form.as_bytes())?;
    let sums = sums(&staged.path)?;
    write_new(&at("SHA256SUMS"), sums.as_bytes())?;
    staged.keep()
}

/// Lines for `sha256sum -c`, by name.
fn sums(base: &Path) -> anyhow::Result<String> {
    let mut names: Vec<PathBuf> = Vec::new();
    for folder in ["", "policies"] {
        let path = base.join(folder);
        let entries = std::fs::read_dir(&path).with_context(|| format!("{}: cannot read", shown(&path)))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(Path::new(folder).join(entry.file_name()));
            }
        }
    }
    names.sort();
    let mut out = String::new();
    for name in names {
        let bytes = std::fs::read(base.join(&name)).with_context(|| format!("{}: cannot read", shown(&name)))?;
        let hash = Sha256::digest(&bytes);
        hash.iter().for_each(|b| {
            let _ = write!(out, "{b:02x}");
        });
        let _ = writeln!(out, "  {}", name.display());
    }
    Ok(out)
}
