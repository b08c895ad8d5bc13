//! A log as bytes: decoded, cut into lines, and passed over where no line can matter.

use super::decode::{Encoding, Utf16, sniff};
use super::prefilter;
use super::scanner::{MAX_LINE, Scanner};
use memchr::{memchr, memchr_iter, memrchr};
use std::borrow::Cow;
use std::io::Read;

/// Bytes read at once.
const BLOCK: usize = 1 << 20;
/// The longest line that is kept whole: JSON, or the whole output of a command.
const LONGEST: usize = 16 << 20;

/// A text's beginning as UTF-8.
pub(super) fn decoded(head: &[u8]) -> Cow<'_, [u8]> {
    match sniff(head) {
        Encoding::Bytes => Cow::Borrowed(head),
        kind => {
            let mut out = Vec::new();
            Utf16::default().push(head, kind == Encoding::Utf16Le, &mut out);
            Cow::Owned(out)
        }
    }
}

impl Scanner {
    /// Reads a whole log; how many lines it had. Memory does not depend on the log.
    ///
    /// # Errors
    /// Those of `reader`, with the number of lines read before.
    pub fn read(&mut self, mut reader: impl Read) -> Result<u64, (u64, std::io::Error)> {
        let mut lines = Lines::default();
        let mut block = vec![0; BLOCK];
        let mut utf16: Option<(Utf16, bool)> = None;
        let mut begun = false;
        loop {
            let mut held = 0;
            while held < BLOCK / 2 {
                match reader.read(block.get_mut(held..).unwrap_or_default()) {
                    Ok(0) => break,
                    Ok(n) => held += n,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => return Err((lines.number, e)),
                }
            }
            let read = block.get(..held).unwrap_or_default();
            if !std::mem::replace(&mut begun, true) {
                utf16 = match sniff(read) {
                    Encoding::Bytes => None,
                    kind => Some((Utf16::default(), kind == Encoding::Utf16Le)),
                };
            }
            match &mut utf16 {
                Some((decoder, little)) => decoder.push(read, *little, &mut lines.held),
                None => lines.held.extend_from_slice(read),
            }
            lines.take(self, held == 0);
            if held == 0 {
                return Ok(lines.number);
            }
        }
    }
}

/// Lines not yet handed on.
#[derive(Default)]
struct Lines {
    held: Vec<u8>,
    /// Lines handed on so far.
    number: u64,
    /// The rest of this line is passed over.
    skipping: bool,
}

impl Lines {
    /// Hands on all lines that have ended; at the end of the text all.
    fn take(&mut self, scanner: &mut Scanner, end: bool) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        if self.skipping {
            match memchr(b'\n', rest) {
                Some(at) => {
                    self.skipping = false;
                    rest = rest.get(at + 1..).unwrap_or_default();
                }
                None => return,
            }
        }
        let whole = if end { rest.len() } else { memrchr(b'\n', rest).map_or(0, |at| at + 1) };
        let (lines, left) = rest.split_at_checked(whole).unwrap_or((&[], rest));
        self.lines(scanner, lines);
        // A long line is kept only where it can be one document.
        let head = left.iter().copied().find(|b| !b.is_ascii_whitespace());
        let document = matches!(head, Some(b'{' | b'[')) || super::envelope::ansible::is_one_line(left);
        let bound = if document { LONGEST } else { MAX_LINE };
        if left.len() > bound {
            self.number += 1;
            scanner.line(self.number, left.get(..bound + 1).unwrap_or(left));
            self.skipping = true;
        } else {
            self.held = left.to_vec();
        }
    }

    fn lines(&mut self, scanner: &mut Scanner, mut rest: &[u8]) {
        while !rest.is_empty() {
            if scanner.may_skip() {
                let skip = skippable(rest);
                let (passed, after) = rest.split_at_checked(skip).unwrap_or((&[], rest));
                let count = memchr_iter(b'\n', passed).count() as u64;
                self.number += count;
                scanner.passed(count, passed);
                rest = after;
                if rest.is_empty() {
                    return;
                }
            }
            let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.number += 1;
            scanner.line(self.number, line);
            rest = after;
        }
    }
}

/// How many bytes at the start are lines that need not be read.
fn skippable(lines: &[u8]) -> usize {
    let word = prefilter::wanted(lines).unwrap_or(lines.len());
    let word = document(lines.get(..word).unwrap_or(lines)).unwrap_or(word);
    if word >= lines.len() {
        return lines.len();
    }
    // A word that begins with a line feed is of the line behind it or before it: both are read.
    memrchr(b'\n', lines.get(..word).unwrap_or_default()).map_or(0, |at| at + 1)
}

/// Where a line ends with an opening brace or bracket: a document may begin there.
fn document(lines: &[u8]) -> Option<usize> {
    use std::sync::LazyLock;
    static OPEN: LazyLock<[memchr::memmem::Finder<'static>; 2]> =
        LazyLock::new(|| [&b"{\n"[..], b"[\n"].map(memchr::memmem::Finder::new));
    OPEN.iter().filter_map(|f| f.find(lines)).min()
}
