//! The terminal report: the verdict and what was watched first, then the evidence, then what else was seen.
//!
//! Nothing here reads a clock, a terminal or an environment: the caller decides on width, charset, colour and zone.

mod evidence;
mod hosts;
mod inputs;
mod inventory;
mod page;
mod proof;
mod verdict;

use std::io::{self, Write};

pub(super) use evidence::{claim, dialect_words, effect, endpoint, place, place_of};
pub(super) use page::count;
pub(super) use proof::{decoded, quoted};
pub use verdict::headline;
pub(super) use verdict::{by_weight, quiet};

use super::model::Report;
use super::size::Zone;
use page::Page;

/// How the report is to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Columns; held between 80 and 100.
    pub width: usize,
    /// Whether borders and text may use more than ASCII.
    pub unicode: bool,
    /// Whether to colour with ANSI sequences.
    pub colour: bool,
    /// Whether to show what is otherwise counted only: lower severities, long lists, every proof.
    pub verbose: bool,
    /// The zone times are shown in.
    pub zone: Zone,
}

impl Default for Style {
    fn default() -> Self {
        Style { width: 100, unicode: false, colour: false, verbose: false, zone: Zone::Utc }
    }
}

/// The report as text, every line at most `style.width` columns, ending in a newline.
///
/// Without colour it holds no control character but the newline, whatever the report holds.
pub fn render(report: &Report, style: &Style) -> String {
    let mut page = Page::new(report, style);
    verdict::lead(&mut page, report);
    for (at, incident) in verdict::by_weight(report).into_iter().enumerate() {
        hosts::incident(&mut page, report, incident, at);
    }
    hosts::remedies(&mut page, report);
    evidence::findings(&mut page, report);
    proof::proofs(&mut page, report);
    inventory::oom_events(&mut page, report);
    inventory::listeners(&mut page, report);
    inventory::scans(&mut page, report);
    inventory::groups(&mut page, report);
    inputs::inputs(&mut page, report);
    page.finish()
}

/// Writes [`render`]'s text.
///
/// # Errors
/// Whatever `out` fails with; a broken pipe is the caller's to forgive.
pub fn write_table(report: &Report, style: &Style, out: &mut impl Write) -> io::Result<()> {
    out.write_all(render(report, style).as_bytes())
}
