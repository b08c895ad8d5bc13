//! Text from a wire or a log, made safe to show.
//!
//! What comes out holds no control character, no escape sequence, no bidirectional control and no invisible character,
//! so it cannot move a terminal's cursor, reorder a line, hide in an HTML page or forge a second log line. Backslashes
//! stay as they are, so cleaning twice changes nothing; whoever must tell `\x1b` the text from ESC the byte looks at
//! the hexadecimal bytes of the finding.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

/// Columns that a text of the report gets unless a place has its own limit.
pub const MAX_TEXT: usize = 4096;

/// Combining marks on one base character beyond which they are escaped: more is decoration that climbs into other lines.
const MAX_MARKS: u8 = 2;

/// `bytes` as visible text of at most `max` columns.
///
/// Control characters become `\n`, `\t`, `\r`, `\x1b`; bytes that are no UTF-8 become `\xff`; bidirectional controls and
/// invisible characters become `\u{202e}`. Text that is longer ends in `…`. Reads no more of `bytes` than it shows.
pub fn clean(bytes: &[u8], max: usize) -> String {
    let mut text = Bounded::new(max);
    // An invalid or invisible byte takes at least a column, a mark rides on one: so this much is enough to fill `max`.
    let window = max.saturating_add(1).saturating_mul(4 * (usize::from(MAX_MARKS) + 1));
    let (head, cut) = match bytes.get(..window) {
        Some(head) if head.len() < bytes.len() => (head, true),
        _ => (bytes, false),
    };
    for chunk in head.utf8_chunks() {
        if !text.push_text(chunk.valid()) {
            return text.finish(true);
        }
        for byte in chunk.invalid() {
            if !text.push_piece(&format!("\\x{byte:02x}")) {
                return text.finish(true);
            }
        }
    }
    text.finish(cut)
}

/// [`clean`] for text, borrowed when there is nothing to do; at most [`MAX_TEXT`] columns.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT && text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(clean(text.as_bytes(), MAX_TEXT))
    }
}

/// Whether `c` must never reach a reader as it is: a control, a bidirectional control, an invisible character.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
            | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb
            | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

/// The visible form of a character that [`is_unsafe`]: `\n`, `\x1b`, `\u{202e}`.
pub fn visible(c: char) -> String {
    match c {
        '\n' => "\\n".to_string(),
        '\r' => "\\r".to_string(),
        '\t' => "\\t".to_string(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    }
}

/// JSON in which no character that [`is_unsafe`] stands as it is: each becomes the escape `\\u…` of JSON, so that whoever
/// reads the JSON gets the same strings. Such characters can stand inside strings only.
pub fn json(text: String) -> String {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_unsafe(c) {
            let mut units = [0u16; 2];
            c.encode_utf16(&mut units).iter().for_each(|u| {
                let _ = write!(safe, "\\u{u:04x}");
            });
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The columns that `text` takes on a terminal; never fewer than it takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Text under a limit of columns, which keeps room for the ellipsis.
struct Bounded {
    text: String,
    columns: usize,
    max: usize,
    /// Length in bytes and columns of the text before the last column, where an ellipsis would stand.
    fallback: (usize, usize),
    marks: u8,
}

impl Bounded {
    fn new(max: usize) -> Self {
        Bounded { text: String::new(), columns: 0, max, fallback: (0, 0), marks: MAX_MARKS }
    }

    /// Adds a piece that may not be split; false when it does not fit.
    fn push_piece(&mut self, piece: &str) -> bool {
        let columns = columns(piece);
        if self.columns + columns > self.max {
            return false;
        }
        self.text.push_str(piece);
        self.columns += columns;
        if self.columns < self.max {
            self.fallback = (self.text.len(), self.columns);
        }
        true
    }

    fn push_text(&mut self, text: &str) -> bool {
        for c in text.chars() {
            let mark = c.width() == Some(0);
            let escape = is_unsafe(c) || (mark && self.marks >= MAX_MARKS);
            self.marks = match (escape, mark) {
                (true, _) => MAX_MARKS,
                (false, true) => self.marks + 1,
                (false, false) => 0,
            };
            let fits = if escape { self.push_piece(&visible(c)) } else { self.push_piece(c.encode_utf8(&mut [0; 4])) };
            if !fits {
                return false;
            }
        }
        true
    }

    fn finish(mut self, cut: bool) -> String {
        if cut && self.max > 0 {
            self.text.truncate(self.fallback.0);
            self.text.push('…');
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_bidi_and_invisible_characters_become_visible() {
        assert_eq!(clean(b"\x1b[2Jrm\r\n\t\0", 99), "\\x1b[2Jrm\\r\\n\\t\\x00");
        assert_eq!(clean("a\u{202e}b\u{2066}\u{200f}\u{61c}\u{200b}\u{feff}".as_bytes(), 99), {
            "a\\u{202e}b\\u{2066}\\u{200f}\\u{61c}\\u{200b}\\u{feff}"
        });
        assert_eq!(clean("\u{85}\u{2028}".as_bytes(), 99), "\\u{85}\\u{2028}");
        assert_eq!(clean(b"\xff\xc3ok\xf0\x9f", 99), "\\xff\\xc3ok\\xf0\\x9f");
    }

    #[test]
    fn plain_text_of_any_script_stays() {
        for text in ["store_based_barrier_key:1", "键/名", "naïve", "C:\\temp", "e\u{301}", ""] {
            assert_eq!(clean(text.as_bytes(), 99), text);
            assert_eq!(clean_text(text), text);
        }
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        for bytes in [&b"\x1b[0m\xff"[..], "\u{202e}a\u{301}\u{301}\u{301}".as_bytes()] {
            let once = clean(bytes, 99);
            assert_eq!(clean(once.as_bytes(), 99), once);
        }
    }

    #[test]
    fn marks_do_not_pile_up() {
        assert_eq!(clean("a\u{301}\u{301}\u{301}".as_bytes(), 99), "a\u{301}\u{301}\\u{301}");
        assert_eq!(clean("\u{301}".as_bytes(), 99), "\\u{301}");
    }

    #[test]
    fn width_is_bounded_and_the_cut_is_shown() {
        assert_eq!(clean(b"abcdef", 6), "abcdef");
        assert_eq!(clean(b"abcdefg", 6), "abcde…");
        assert_eq!(clean("键键键键".as_bytes(), 5), "键键…");
        assert_eq!(clean(b"ab\x1b", 5), "ab…");
        assert_eq!(clean(b"abc", 0), "");
        assert_eq!(clean(&vec![b'a'; 1 << 20], 10), "aaaaaaaaa…");
        for max in 0..40 {
            let text = "a\u{202e}键\u{301}\u{301}\x07é".repeat(9);
            assert!(columns(&clean(text.as_bytes(), max)) <= max, "{max}");
        }
    }

    #[test]
    fn every_unsafe_character_is_escaped_to_ascii() {
        for c in (0..=0x10ffff).filter_map(char::from_u32).filter(|c| is_unsafe(*c)) {
            let shown = clean(c.encode_utf8(&mut [0; 4]).as_bytes(), 20);
            assert!(shown.is_ascii() && shown.starts_with('\\'), "{c:?}");
        }
    }
}
