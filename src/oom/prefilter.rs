//! Whether a line may speak of an OOM at all: logs are gigabytes, OOM lines a handful.

use super::text;

/// Whether the line has any wording that a parser here looks at.
pub(crate) fn may_matter(line: &[u8]) -> bool {
    // `oo` or `OO` is rare in logs and is in "oom", "OOM"; "illed"/"ill " in every kill; the others have neither.
    text::has(line, b"ill")
        || text::has(line, b"oom")
        || text::has(line, b"OOM")
        || text::has(line, b"emory")
        || text::has(line, b"pages RAM")
        || text::has(line, b"Total swap")
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
