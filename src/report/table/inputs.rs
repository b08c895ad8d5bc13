//! What was read, what was not, and what was wrong with it: nothing is lost silently.

use std::collections::{BTreeMap, BTreeSet};

use super::page::{Ink, Page, count, hard, ink, t};
use crate::report::escape::clean;
use crate::report::model::{InputKind, Report, Totals};
use crate::report::size;
use crate::report::view;

/// Different messages shown unless verbose.
const MESSAGES: usize = 40;

/// Errors and warnings of every input, then the totals.
pub(super) fn inputs(page: &mut Page, report: &Report) {
    page.heading("Inputs");
    page.hang(&read(report), 0, 2);
    let (errors, warnings) = messages(report);
    errors.show(page, &ink(Ink::Red, "error"));
    warnings.show(page, &ink(Ink::Yellow, "warning"));
    totals(page, &report.totals);
    let tool = &report.tool;
    if !tool.name.is_empty() {
        let commit = tool.commit.as_deref().map_or(String::new(), |c| format!(" ({})", clean(c.as_bytes(), 16)));
        let models = clean(tool.model_version.as_bytes(), 40);
        page.hang(&format!("{} {}{commit}, server models {models}", t(&tool.name), t(&tool.version)), 0, 2);
    }
}

/// What went wrong with inputs, and what is odd about them.
fn messages(report: &Report) -> (Messages, Messages) {
    let mut errors = Messages::default();
    let mut warnings = Messages::default();
    for input in &report.inputs {
        if let Some(error) = &input.error {
            errors.add(error.clone(), &input.path);
        }
        for warning in &input.warnings {
            warnings.add(warning.clone(), &input.path);
        }
        if let Some(lines) = input.not_understood.filter(|lines| *lines > 0) {
            warnings.add(format!("{} not understood", view::many(lines, "line", "lines")), &input.path);
        }
    }
    for capture in &report.captures {
        if let Some(error) = &capture.error {
            errors.add(error.clone(), &capture.path);
        }
        for warning in &capture.warnings {
            warnings.add(warning.clone(), &capture.path);
        }
        view::losses(capture).into_iter().for_each(|text| warnings.add(text, &capture.path));
    }
    (errors, warnings)
}

/// What is odd about inputs, each thing once with the first path that it holds for.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let said = |(text, paths): (String, BTreeSet<String>)| {
        let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
        format!("{}{more}: {}", t(paths.first().map_or("", String::as_str)), t(&text))
    };
    messages(report).1.by_text.into_iter().map(said).collect()
}

fn read(report: &Report) -> String {
    let mut parts = Vec::new();
    for (kind, one, many) in [
        (InputKind::Log, "log", "logs"),
        (InputKind::Hosts, "hosts list", "hosts lists"),
        (InputKind::Kubernetes, "Kubernetes list", "Kubernetes lists"),
        (InputKind::Facts, "file of facts", "files of facts"),
    ] {
        let n = report.inputs.iter().filter(|i| i.kind == Some(kind) && i.error.is_none()).count();
        if n > 0 {
            parts.push(count(n, one, many));
        }
    }
    parts.insert(0, count(report.captures.len(), "capture", "captures"));
    format!("Read: {}.", parts.join(", "))
}

/// Messages with the paths they hold for: the same one about a path is said once, though input and capture both have it.
#[derive(Default)]
struct Messages {
    by_text: BTreeMap<String, BTreeSet<String>>,
}

impl Messages {
    fn add(&mut self, text: String, path: &str) {
        self.by_text.entry(text).or_default().insert(path.to_string());
    }

    fn show(&self, page: &mut Page, label: &str) {
        for (text, paths) in self.by_text.iter().take(page.at_most(MESSAGES)) {
            let most = page.at_most(4);
            let mut names: Vec<_> = paths.iter().take(most).map(|path| t(path).into_owned()).collect();
            if paths.len() > most {
                names.push(format!("and {} more", paths.len() - most));
            }
            page.bullet(1, &format!("{label}: {}: {}", names.join(", "), t(text)));
        }
        let hidden = self.by_text.len().saturating_sub(page.at_most(MESSAGES));
        if hidden > 0 {
            let more = format!("different {}", if hidden == 1 { "one" } else { "ones" });
            page.bullet(1, &format!("{label}: and {hidden} more {more} ({})", page.shows()));
        }
    }
}

fn totals(page: &mut Page, totals: &Totals) {
    let parts: Vec<_> = view::totals(totals).iter().map(|part| hard(part)).collect();
    page.hang(&format!("Totals: {}.", parts.join(", ")), 0, 2);
    let skipped: Vec<_> = totals.skipped.iter().filter(|(_, n)| **n > 0).collect();
    if !skipped.is_empty() {
        let reasons: Vec<_> =
            skipped.iter().map(|(reason, n)| format!("{} {}", hard(&size::grouped(**n)), t(reason))).collect();
        page.hang(&format!("Packets not looked into: {}.", reasons.join(", ")), 0, 2);
    }
}
