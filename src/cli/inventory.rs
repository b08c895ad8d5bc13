//! The fleet of `prescan --inventory`: a report, or the case file that one can be made of.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::output::shown;
use super::site_facts::SiteFacts;
use crate::analysis::{Options, analyze_stored};
use crate::case::{Case, Mode};
use crate::disk::{SMALL_FILE, read_small, require_regular_file};

/// How a file of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The document of a report that was written with `--format json`, or that a case file gives.
pub(super) fn load(path: &Path) -> anyhow::Result<Value> {
    require_regular_file(path).with_context(|| format!("{}: cannot read", shown(path)))?;
    let head = head(path).with_context(|| format!("{}: cannot read", shown(path)))?;
    if head != SQLITE {
        let text = read_small(path, SMALL_FILE).with_context(|| format!("{}: cannot read", shown(path)))?;
        return serde_json::from_slice(&text)
            .with_context(|| format!("{}: a report (JSON) or a case file was required", shown(path)));
    }
    let case = Case::open(path, Mode::Read)?;
    let options: Options = SiteFacts::of_case(&case)?.options()?;
    let report = analyze_stored(&options, case.load()?).analysis.report;
    Ok(serde_json::to_value(&report)?)
}

fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut head)?;
    Ok(head)
}
