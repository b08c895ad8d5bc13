//! Lines that hold nothing but a host: `=== gpu-1 ===` and the like of loops over ssh, `gpu-1:` of salt and of bolt,
//! `[1] 14:13:20 [SUCCESS] gpu-1` of pssh.

use super::super::prefix::can_be_host;
use super::super::text;

/// The head of a block.
pub(super) struct Banner<'a> {
    /// The host that it names.
    pub(super) host: &'a str,
    /// The block's lines are indented, and it ends where they end.
    pub(super) indented: bool,
}

fn host(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok().filter(|w| can_be_host(w))
}

/// A word that could be anything needs a digit, a dash or a point to be taken for a host.
fn telling(word: &str) -> bool {
    word.bytes().any(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'))
}

/// Reads a line that is a banner.
pub(super) fn read(line: &[u8]) -> Option<Banner<'_>> {
    if line.len() > 300 {
        return None;
    }
    if let Some(word) = line.strip_suffix(b":") {
        let word = word.strip_prefix(b"Finished on ").unwrap_or(word);
        let told = word.len() < line.len() - 1;
        return host(word).filter(|h| told || telling(h)).map(|host| Banner { host, indented: !told });
    }
    if let Some((_, after)) = line.strip_prefix(b"[").and_then(text::number) {
        let (_, after) = text::cut(after.strip_prefix(b"] ")?, b" [")?;
        let after = after.strip_prefix(b"SUCCESS] ").or_else(|| after.strip_prefix(b"FAILURE] "))?;
        return host(text::word(after).0).map(|host| Banner { host, indented: false });
    }
    const MARKS: &[u8] = b"=-#*>+~";
    let mark = line.iter().take_while(|b| MARKS.contains(b)).count();
    if mark < 2 {
        return None;
    }
    let rest = line.get(mark..)?;
    let end = rest.iter().rposition(|b| !MARKS.contains(b) && *b != b'<')? + 1;
    let inside = rest.get(..end)?.trim_ascii();
    let inside = [&b"host: "[..], b"HOST: ", b"Host: ", b"node: ", b"host ", b"node "]
        .iter()
        .find_map(|p| inside.strip_prefix(*p))
        .unwrap_or(inside);
    host(inside).filter(|h| telling(h)).map(|host| Banner { host, indented: false })
}
