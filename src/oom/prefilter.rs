//! Whether a line may speak of an OOM at all: logs are gigabytes, OOM lines a handful.

use super::text;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Words of which one is in every line that a parser here understands. Searchers are made once: making one costs as
/// much as running it over a line.
static WORDS: LazyLock<[Finder<'static>; 6]> =
    LazyLock::new(|| ["oom", "OOM", "emory", "ill", "pages RAM", "Total swap"].map(|w| Finder::new(w).into_owned()));

/// Whether the line has any wording that a parser here looks at.
pub(crate) fn may_matter(line: &[u8]) -> bool {
    WORDS.iter().any(|w| w.find(line).is_some())
}

/// Whether the line holds the kernel's own words for a kill.
pub(crate) fn quotes_kernel(line: &[u8]) -> bool {
    text::has(line, b"Killed process ") || text::has(line, b"invoked oom-killer") || text::has(line, b"oom-kill:")
}

/// Whether the line surely speaks of an OOM: what of these is not understood, is reported.
pub(crate) fn must_matter(line: &[u8]) -> bool {
    const SURE: [&[u8]; 9] = [
        b"Killed process ",
        b"Kill process ",
        b"Out of memory",
        b"out of memory: Kill",
        b"oom-kill",
        b"oom_reaper: reaped",
        b"OOMKill",
        b"SystemOOM",
        b"Out Of Memory",
    ];
    SURE.iter().any(|s| text::has(line, s))
}
