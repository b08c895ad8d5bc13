//! Outside text as Markdown takes it: as text.

use super::escape::clean_text;

/// `text` inside a sentence: nothing in it is markup, a link, a reference or a mention.
///
/// What no backslash stops in GitHub's and GitLab's Markdown (`@name`, `https://…`, `www.…`) is broken up by a code span
/// around one of its characters, which stays readable.
pub(super) fn md(text: &str) -> String {
    let text = clean_text(text);
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{a0}' => out.push(' '),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            // A backslash before it would leave a backtick that opens a code span in some dialects.
            '`' => out.push_str("&#96;"),
            '@' => out.push_str("`@`"),
            ':' if rest.peek() == Some(&'/') => out.push_str("`:`"),
            '.' if out.to_ascii_lowercase().ends_with("www") => out.push_str("`.`"),
            // `#12`, `!12`, `$12`, `%12` and `~name` are references in one ticket system or another.
            '\\' | '*' | '_' | '[' | ']' | '>' | '~' | '#' | '!' | '$' | '%' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// `text` as a code span.
pub(super) fn code(text: &str) -> String {
    let text = clean_text(text);
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    // Within a span of backticks, a space at both ends belongs to the fence.
    if longest > 0 || text.starts_with(' ') || text.ends_with(' ') || text.is_empty() {
        format!("{fence} {text} {fence}")
    } else {
        format!("{fence}{text}{fence}")
    }
}

/// Markdown as a cell of a table: a `|` in it, also within a code span, is no border.
pub(super) fn cell(markdown: &str) -> String {
    markdown.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        assert_eq!(md("*a* _b_ [c](d) <b> `e` &lt;"), "\\*a\\* \\_b\\_ \\[c\\](d) &lt;b\\> &#96;e&#96; &amp;lt;");
        assert_eq!(md("closes #12, @all"), "closes \\#12, `@`all");
        assert_eq!(md("https://a.example www.a.example"), "https`:`//a.example www`.`a.example");
        assert_eq!(md("\u{202e}x\x1b[31m\n| y"), "\\\\u{202e}x\\\\x1b\\[31m\\\\n| y");
        assert_eq!(md("192.0.2.11:29500 node-b.pcap"), "192.0.2.11:29500 node-b.pcap");
    }

    #[test]
    fn code_is_fenced_by_more_than_it_holds() {
        assert_eq!(code("node-a"), "`node-a`");
        assert_eq!(code("a``b`"), "``` a``b` ```");
        assert_eq!(code(""), "`  `");
        assert_eq!(cell(&code("a|b")), "`a\\|b`");
    }
}
