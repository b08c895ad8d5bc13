//! Levels and dashes that loggers put between the parts: `INFO`, `WARNING -`, `- `.

use super::{Labels, Peeled, opens};

/// Whether a word is the name of a level.
pub(super) fn is_level(word: &[u8]) -> bool {
    const LEVELS: [&[u8]; 18] = [
        b"emerg",
        b"alert",
        b"crit",
        b"critical",
        b"err",
        b"error",
        b"warn",
        b"warning",
        b"notice",
        b"info",
        b"debug",
        b"trace",
        b"fatal",
        b"information",
        b"e",
        b"w",
        b"i",
        b"severe",
    ];
    LEVELS.iter().any(|l| l.eq_ignore_ascii_case(word))
}

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    let end = rest.iter().take(14).position(|b| *b == b' ')?;
    let (word, after) = (rest.get(..end)?, rest.get(end + 1..)?);
    let bare = word.strip_suffix(b":").unwrap_or(word);
    if bare == b"-" || bare == b"|" {
        return (head.stamp.is_some() || head.format.is_some()).then_some(after);
    }
    // One letter is a level only between other parts.
    (is_level(bare) && (head.stamp.is_some() || bare.len() > 1 && opens(after, labels))).then_some(after)
}
