//! HTML under construction: markup is ours, text is escaped, and the types keep them apart.
//!
//! Tags, attribute names and raw pieces are `&'static str`, that is, literals of this program; whatever is built at run
//! time can enter as text or as an attribute's value alone, and both are escaped. (A template engine would bring a macro
//! language and promise no more.)

use std::borrow::Cow;

use crate::report::escape::{is_unsafe, visible};

/// Attributes of an element.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A piece of a page.
#[derive(Debug, Default)]
pub(super) struct Html {
    text: String,
}

impl Html {
    /// Literal markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Text.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(&escaped(text));
        self
    }

    /// Text to be read: numbers such as `962 696 183 808` are not broken over lines. (Not for commands: they are copied.)
    pub(super) fn prose(&mut self, text: &str) -> &mut Self {
        let mut out = String::with_capacity(text.len());
        let mut digit = false;
        for (at, c) in text.char_indices() {
            let joined = c == ' ' && digit && thousand(text.get(at + 1..).unwrap_or_default());
            out.push(if joined { '\u{a0}' } else { c });
            digit = c.is_ascii_digit();
        }
        self.text(&out)
    }

    /// A start tag.
    pub(super) fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text.push_str(&escaped(value));
            self.text.push('"');
        }
        self.text.push('>');
        self
    }

    /// An end tag.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
        self
    }

    /// An element that holds text alone.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// An element of SVG that holds nothing but a tooltip.
    pub(super) fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>, title: &str) -> &mut Self {
        self.open(tag, attributes);
        if !title.is_empty() {
            self.leaf("title", &[], title);
        }
        self.close(tag)
    }

    /// The end of a line, for those who read the source.
    pub(super) fn line(&mut self) -> &mut Self {
        self.raw("\n")
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Whether `text` begins with exactly three digits.
fn thousand(text: &str) -> bool {
    let digits = text.bytes().take(4).take_while(u8::is_ascii_digit).count();
    digits == 3
}

/// `text` as it may stand between tags and between quotes. Unsafe characters come out visible, and no URL comes out as
/// one: `://` is broken by a character reference, so that neither a browser nor a mail program finds an address in it.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b) && !b"&<>\"'`:".contains(&b)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' => out.push_str("&#96;"),
            ':' if rest.peek() == Some(&'/') => out.push_str("&#58;"),
            c if is_unsafe(c) => out.push_str(&visible(c)),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_whole() {
        let mut html = Html::default();
        html.prose("claim of 962 696 bytes, pid 10273 28.7 s, 5 1234");
        assert_eq!(html.finish(), "claim of 962\u{a0}696 bytes, pid 10273 28.7 s, 5 1234");
    }

    #[test]
    fn nothing_breaks_out() {
        let bad = "</script><img src=x onerror=\"a()\" title='b'>`\u{202e}\x1b&amp; https://a.example\n";
        let mut html = Html::default();
        html.leaf("td", &[("title", bad)], bad);
        let text = html.finish();
        assert_eq!(text.matches('<').count(), 2);
        assert_eq!(text.matches('>').count(), 2);
        assert_eq!(text.matches('"').count(), 2);
        assert!(!text.contains("://") && text.contains("\\u{202e}\\x1b&amp;amp; https&#58;//a.example\\n"), "{text}");
    }
}
