//! A page of text under a width: headings, paragraphs, bullets, tables.
//!
//! Colour is kept out of the layout: [`ink`] puts invisible characters around a word, which take no column and which
//! foreign text cannot hold (it is cleaned of them), and [`Page::finish`] turns them into ANSI sequences or into nothing.

use std::borrow::Cow;

use comfy_table::{ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthChar;

use super::Style;
use crate::report::escape::{clean_text, columns as columns_of, is_unsafe, visible};
use crate::report::model::{Report, Severity, Verdict};
use crate::report::size::{Times, Zone};
use crate::report::view;

/// A space at which no line is broken, until the page is finished.
pub(crate) const HARD_SPACE: char = '\u{a0}';

/// What colours mean here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    /// Harm.
    Red,
    /// Perhaps harm.
    Yellow,
    /// A heading.
    Bold,
}

const END: char = '\u{2064}';

impl Ink {
    fn mark(self) -> char {
        match self {
            Ink::Red => '\u{2061}',
            Ink::Yellow => '\u{2062}',
            Ink::Bold => '\u{2063}',
        }
    }

    fn ansi(mark: char) -> Option<&'static str> {
        match mark {
            '\u{2061}' => Some("\x1b[1;31m"),
            '\u{2062}' => Some("\x1b[33m"),
            '\u{2063}' => Some("\x1b[1m"),
            END => Some("\x1b[0m"),
            _ => None,
        }
    }
}

/// `text` in a colour.
pub(super) fn ink(ink: Ink, text: &str) -> String {
    format!("{}{text}{END}", ink.mark())
}

/// A severity in its colour.
pub(super) fn severity(severity: Severity) -> String {
    match severity {
        Severity::Critical => ink(Ink::Red, severity.text()),
        Severity::Warning => ink(Ink::Yellow, severity.text()),
        _ => severity.text().to_string(),
    }
}

/// A verdict in its colour.
pub(super) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Confirmed => ink(Ink::Red, verdict.text()),
        Verdict::Probable | Verdict::Possible => ink(Ink::Yellow, verdict.text()),
        Verdict::Unexplained => ink(Ink::Bold, verdict.text()),
    }
}

/// Foreign text made safe.
pub(super) fn t(text: &str) -> Cow<'_, str> {
    clean_text(text)
}

/// Text at whose spaces no line is broken: numbers with their units.
pub(super) fn hard(text: &str) -> String {
    text.replace(' ', HARD_SPACE.encode_utf8(&mut [0; 4]))
}

/// `1 host`, `3 hosts`.
pub(in crate::report) fn count(n: usize, one: &str, many: &str) -> String {
    let number = crate::report::size::grouped(n as u64);
    hard(&format!("{number} {}", if n == 1 { one } else { many }))
}

/// Lines of a report in the making.
pub(super) struct Page {
    lines: Vec<String>,
    width: usize,
    style: Style,
    /// The flag that shows what is left out.
    flag: &'static str,
    /// How instants are shown.
    pub(super) times: Times,
}

/// A column of a list without borders.
pub(super) struct Column {
    pub(super) head: &'static str,
    /// The lightest columns go first where the page is too narrow for all.
    pub(super) weight: u8,
    pub(super) cells: Vec<String>,
}

impl Page {
    pub(super) fn new(report: &Report, style: &Style) -> Self {
        let times = view::times(report, style.zone);
        Page { lines: Vec::new(), width: style.width.clamp(60, 200), style: *style, flag: "-v", times }
    }

    /// The same page, on which `flag` is named as what shows more.
    pub(super) fn with_flag(self, flag: &'static str) -> Self {
        Page { flag, ..self }
    }

    /// Lines so far.
    pub(super) fn height(&self) -> usize {
        self.lines.len()
    }

    /// Columns that the name of a file gets before it is cut in the middle.
    pub(super) fn name_width(&self) -> usize {
        (self.width / 4).max(24)
    }

    /// In which zone times are shown, in words.
    pub(super) fn zone(&self) -> String {
        match self.times.zone {
            Zone::Utc => "UTC".to_string(),
            Zone::Local => "in the local zone".to_string(),
            Zone::Fixed(offset) => format!("at UTC{offset}"),
        }
    }

    /// `-v shows them`.
    pub(super) fn shows(&self) -> String {
        format!("{} shows them", self.flag)
    }

    /// Says that `hidden` entries of a list are left out; nothing where there are none.
    pub(super) fn rest(&mut self, hidden: usize, one: &str, many: &str, indent: usize) {
        if hidden > 0 {
            let text = format!("and {} ({})", count(hidden, one, many), self.shows());
            self.hang(&text, indent, indent + usize::from(indent > 0) * 2);
        }
    }

    /// A list in aligned columns, a line an entry. Columns that are empty, and the lightest of those that do not fit
    /// beside the others, are left out.
    pub(super) fn columns(&mut self, columns: Vec<Column>) {
        let mut all: Vec<(usize, Column)> = Vec::new();
        for mut column in columns.into_iter().filter(|c| c.cells.iter().any(|cell| !cell.is_empty())) {
            column.cells.iter_mut().for_each(|cell| *cell = self.fit(cell).replace(['\n', ' '], "\u{a0}"));
            let wide = column.cells.iter().map(|cell| columns_of(cell)).max().unwrap_or(0);
            all.push((wide.max(column.head.len()), column));
        }
        while all.len() > 1 && all.iter().map(|(wide, _)| wide + 2).sum::<usize>() > self.width + 2 {
            let lightest = all.iter().map(|(_, c)| c.weight).min();
            all.retain(|(_, c)| Some(c.weight) != lightest);
        }
        let rows = all.iter().map(|(_, c)| c.cells.len()).max().unwrap_or(0);
        let pad =
            |text: &str, wide: usize| format!("{text}{}", "\u{a0}".repeat((wide + 2).saturating_sub(columns_of(text))));
        let line =
            |cell: &dyn Fn(&Column) -> String| all.iter().map(|(wide, c)| pad(&cell(c), *wide)).collect::<String>();
        let mut lines = vec![line(&|c| ink(Ink::Bold, c.head))];
        lines.extend((0..rows).map(|row| line(&|c| c.cells.get(row).cloned().unwrap_or_default())));
        for line in lines {
            self.exactly(line.trim_end_matches('\u{a0}'));
        }
    }

    pub(super) fn verbose(&self) -> bool {
        self.style.verbose
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Whether tables must make do with fewer columns.
    pub(super) fn narrow(&self) -> bool {
        self.width < 98
    }

    /// At most `most` of a long list, all of it when verbose.
    pub(super) fn at_most(&self, most: usize) -> usize {
        if self.style.verbose { usize::MAX } else { most }
    }

    /// A heading, with an empty line before it.
    pub(super) fn heading(&mut self, text: &str) {
        self.gap();
        self.hang(&ink(Ink::Bold, text), 0, 2);
    }

    /// An empty line, unless there is one.
    pub(super) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// A paragraph.
    pub(super) fn paragraph(&mut self, text: &str) {
        self.hang(text, 0, 0);
    }

    /// A bullet, `depth` steps in.
    pub(super) fn bullet(&mut self, depth: usize, text: &str) {
        let indent = depth * 2;
        self.hang(&format!("-{HARD_SPACE}{text}"), indent, indent + 2);
    }

    /// Text wrapped at spaces, its first line indented by `first` columns and the others by `rest`.
    pub(super) fn hang(&mut self, text: &str, first: usize, rest: usize) {
        let text = self.fit(text);
        let mut line = " ".repeat(first);
        let mut used = first;
        let mut indent = first;
        for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
            let need = columns_of(word);
            let space = usize::from(used > indent);
            if used + space + need <= self.width {
                if space == 1 {
                    line.push(' ');
                }
                line.push_str(word);
                used += space + need;
                continue;
            }
            if used > indent {
                let next = continued(&line, rest);
                self.push(std::mem::replace(&mut line, next));
                (used, indent) = (rest, rest);
            }
            // A word wider than the line is cut where the line ends.
            for c in word.chars() {
                let need = c.width().unwrap_or(0);
                if used + need > self.width {
                    let next = continued(&line, rest);
                    self.push(std::mem::replace(&mut line, next));
                    (used, indent) = (rest, rest);
                }
                line.push(c);
                used += need;
            }
        }
        self.push(line);
    }

    /// A line that is never broken, for bytes in columns and commands; the caller keeps it within the width.
    pub(super) fn exactly(&mut self, text: &str) {
        let text = self.fit(text);
        if columns_of(&text) <= self.width {
            self.push(text);
        } else {
            self.hang(&text, 0, 2);
        }
    }

    /// A table. Cells may hold newlines; `lines` draws a line between rows.
    pub(super) fn table(&mut self, header: &[&str], rows: &[Vec<String>], lines: bool) {
        let mut table = Table::new();
        table.load_style(match (self.style.unicode, lines) {
            (true, true) => presets::UTF8_FULL,
            (true, false) => presets::UTF8_FULL_CONDENSED,
            (false, true) => presets::ASCII_FULL,
            (false, false) => presets::ASCII_FULL_CONDENSED,
        });
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(self.width as u16);
        table.set_header(header.iter().map(|cell| cell.to_string()).collect::<Vec<_>>());
        for row in rows {
            table.add_row(row.iter().map(|cell| self.fit(cell)).collect::<Vec<_>>());
        }
        for line in table.lines() {
            self.push(line.trim_end().to_string());
        }
    }

    fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// The last net: nothing unsafe gets through but ink and newlines, and nothing but ASCII on an ASCII page.
    fn fit(&self, text: &str) -> String {
        let mut fitted = String::with_capacity(text.len());
        let mut chars = text.chars();
        let mut digit = false;
        while let Some(c) = chars.next() {
            let after_digit = std::mem::replace(&mut digit, c.is_ascii_digit());
            match c {
                // `962 696 183 808` stays on one line, whoever wrote it.
                ' ' if after_digit && thousand(chars.as_str()) => fitted.push(HARD_SPACE),
                '\n' | HARD_SPACE => fitted.push(c),
                c if Ink::ansi(c).is_some() => fitted.push(c),
                c if is_unsafe(c) => fitted.push_str(&visible(c)),
                c if c.is_ascii() || self.style.unicode => fitted.push(c),
                c => match ascii(c) {
                    Some(text) => fitted.push_str(text),
                    None => fitted.push_str(&visible(c)),
                },
            }
        }
        fitted
    }

    /// The text, with colour or without.
    pub(super) fn finish(self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let mut open = false;
            for c in line.chars() {
                match Ink::ansi(c) {
                    Some(_) if !self.style.colour => {}
                    Some(ansi) => {
                        open = c != END;
                        text.push_str(ansi);
                    }
                    None if c == HARD_SPACE => text.push(' '),
                    None => text.push(c),
                }
            }
            if open {
                text.push_str("\x1b[0m");
            }
            text.push('\n');
        }
        text
    }
}

/// How a line begins that goes on where `line` was broken: indented, and in the same colour.
fn continued(line: &str, indent: usize) -> String {
    let mut next = " ".repeat(indent);
    next.extend(line.chars().rfind(|c| Ink::ansi(*c).is_some()).filter(|c| *c != END));
    next
}

/// Whether `text` begins with exactly three digits.
fn thousand(text: &str) -> bool {
    match text.as_bytes() {
        [a, b, c, rest @ ..] => {
            [a, b, c].iter().all(|d| d.is_ascii_digit()) && !rest.first().is_some_and(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// How an ASCII page writes what our own texts use.
fn ascii(c: char) -> Option<&'static str> {
    Some(match c {
        '±' => "+/-",
        '…' => "...",
        'µ' => "u",
        '–' | '—' | '−' | '‐' | '‑' => "-",
        '→' => "->",
        '←' => "<-",
        '≥' => ">=",
        '≤' => "<=",
        '≈' => "~",
        '×' => "x",
        '·' | '•' => "*",
        '‘' | '’' => "'",
        '“' | '”' | '«' | '»' => "\"",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_broken_goes_on_in_its_colour() {
        let style = Style { width: 80, unicode: false, colour: true, verbose: false, zone: Zone::Utc };
        let mut page = Page::new(&Report::default(), &style);
        page.hang(&ink(Ink::Red, &"word ".repeat(30)), 0, 2);
        page.hang("plain", 0, 2);
        let text = page.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 3 && lines[1].starts_with("  \x1b[1;31mword"), "{lines:?}");
        assert!(lines[1].ends_with("\x1b[0m") && lines[2] == "plain", "{lines:?}");
    }
}
