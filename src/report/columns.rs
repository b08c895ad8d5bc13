//! Rows of text in columns, written as they come.

use std::io::{self, Write};

use crate::escape::columns;

/// Rows that decide how wide columns are; later ones can only widen them.
const SAMPLE: usize = 4096;

/// Where the text of a column stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of aligned columns. Memory: a sample of rows, however many come.
pub struct Columns<W: Write> {
    out: W,
    heads: Vec<(&'static str, Align)>,
    widths: Vec<usize>,
    waiting: Vec<(Vec<String>, Vec<String>)>,
    begun: bool,
    gap: &'static str,
}

impl<W: Write> Columns<W> {
    /// Columns with these headings, and `gap` between them.
    pub fn new(out: W, gap: &'static str, heads: &[(&'static str, Align)]) -> Self {
        let widths = heads.iter().map(|h| columns(h.0)).collect();
        Columns { out, heads: heads.to_vec(), widths, waiting: Vec::new(), begun: false, gap }
    }

    /// A row, and lines that stand below it, indented. All of it must be safe to show.
    pub fn row(&mut self, cells: Vec<String>, below: Vec<String>) -> io::Result<()> {
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(columns(cell));
        }
        self.waiting.push((cells, below));
        if self.begun || self.waiting.len() >= SAMPLE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.begun && !self.waiting.is_empty() {
            self.begun = true;
            let heads: Vec<String> = self.heads.iter().map(|h| h.0.to_string()).collect();
            self.line(&heads)?;
        }
        for (cells, below) in std::mem::take(&mut self.waiting) {
            self.line(&cells)?;
            for line in below {
                writeln!(self.out, "  {line}")?;
            }
        }
        Ok(())
    }

    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.iter().zip(&self.widths).zip(&self.heads) {
            if !line.is_empty() {
                line.push_str(self.gap);
            }
            let pad = " ".repeat(width.saturating_sub(columns(cell)));
            match align {
                Align::Left => line.extend([cell.as_str(), &pad]),
                Align::Right => line.extend([pad.as_str(), cell]),
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    /// Writes what waits and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table =
            Columns::new(Vec::new(), " ", &[("N", Align::Right), ("NAME", Align::Left), ("X", Align::Left)]);
        table.row(vec!["1".into(), "键".into(), "a".into()], vec!["below".into()]).unwrap();
        table.row(vec!["100".into(), "name".into(), "b".into()], vec![]).unwrap();
        let text = String::from_utf8(table.finish().unwrap()).unwrap();
        assert_eq!(text, "  N NAME X\n  1 键   a\n  below\n100 name b\n");
    }
}
