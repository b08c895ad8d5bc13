//! The terminal report: the verdict and what was watched first, then the evidence, then what else was seen.
//!
//! Nothing here reads a clock, a terminal or an environment: the caller decides on width, charset, colour and zone.

mod brief;
mod evidence;
mod hosts;
mod inputs;
mod inventory;
mod page;
mod proof;
mod verdict;

pub use brief::{LINES, brief};
pub(super) use evidence::{claim, dialect_words, effect, effect_that_holds, endpoint, place, place_of};
pub(crate) use page::HARD_SPACE;
pub(super) use page::count;
pub(super) use proof::{decoded, quoted};
pub(crate) use verdict::by_weight;
pub(super) use verdict::quiet;
pub use verdict::{cause, headline};

use super::model::Report;
use super::size::Zone;
use page::Page;

/// How the report is to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Columns; held between 60 and 200.
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
    long(report, Page::new(report, style))
}

/// The same for a page on which `flag` shows what is only counted.
pub fn render_with(report: &Report, style: &Style, flag: &'static str) -> String {
    long(report, Page::new(report, style).with_flag(flag))
}

fn long(report: &Report, mut page: Page) -> String {
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
