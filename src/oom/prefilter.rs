//! Whether a line may speak of an OOM at all: logs are gigabytes, OOM lines a handful.

use super::text;
use aho_corasick::packed::Searcher;
use memchr::memmem;
use std::sync::LazyLock;

/// What stands in the error texts of a library that tells of its connections (where in its source they were made).
pub(super) const CONNECTION_ERROR: &str = "/transport/tcp/";

/// Words of which one is in every line that a teller understands.
const WORDS: [&str; 28] = [
    "oom",
    "OOM",
    "ut of memory",
    "ut Of Memory",
    "OUT_OF_ME",
    "illed process ",
    "Kill process ",
    "due to memory ",
    "pages RAM",
    "Total swap",
    "Task in /",
    "memory: usage ",
    "Memory cgroup stats",
    "deadlocked on memory",
    "sending SIG",
    "exceeded memory limit",
    "memory budget",
    "usage threshold",
    "TERM_MEMLIMIT",
    "TERM_SWAP",
    "PBS: job killed",
    "exceeded limit",
    "Exit_status=-2",
    "cudaErrorMemoryAll",
    CONNECTION_ERROR,
    "rdzvscope/1 ",
    "\"MESSAGE\":[",
    "\"MESSAGE\" : [",
];

/// Words of lines that other lines need: heads of blocks, tables, records and documents.
const HEADS: [&str; 30] = [
    "==> ",
    "-----------",
    " | CHANGED",
    " | SUCCESS",
    " | FAILED",
    " | UNREACH",
    "ok: [",
    "changed: [",
    "fatal: [",
    "failed: [",
    "TASK [",
    "PLAY [",
    "SUCCESS] ",
    "FAILURE] ",
    "Finished on ",
    "=== ",
    "### ",
    "*** ",
    ">>> ",
    "+++ ",
    ":\n    ",
    "JobID",
    "JobId=",
    "LAST SEEN",
    "RESTARTS",
    "\nName: ",
    "\nNode: ",
    "Reason  ",
    "\u{25cf} ",
    "\u{d7} ",
];

fn searcher(words: impl Iterator<Item = &'static str>) -> Option<Searcher> {
    Searcher::new(words)
}

static MATTERS: LazyLock<Option<Searcher>> = LazyLock::new(|| searcher(WORDS.into_iter()));
static WANTED: LazyLock<Option<Searcher>> = LazyLock::new(|| searcher(WORDS.into_iter().chain(HEADS)));

fn next(searcher: Option<&Searcher>, words: &[&str], text: &[u8]) -> Option<usize> {
    match searcher {
        Some(searcher) => searcher.find(text).map(|m| m.start()),
        // A machine without the vector instructions that the searcher needs.
        None => words.iter().filter_map(|w| memmem::find(text, w.as_bytes())).min(),
    }
}

/// Whether the line has any wording that a teller looks at.
pub(crate) fn may_matter(line: &[u8]) -> bool {
    next(MATTERS.as_ref(), &WORDS, line).is_some()
}

/// Where in a block of lines the next word stands that makes a line worth reading, for itself or for others.
pub(super) fn wanted(block: &[u8]) -> Option<usize> {
    let word = next(WANTED.as_ref(), &[], block);
    if WANTED.is_none() {
        return next(None, &WORDS, block).into_iter().chain(next(None, &HEADS, block)).min();
    }
    word
}

/// What the kernel's lines on a kill begin with.
const KERNEL: [&str; 7] = [
    "Out of memory: Kill",
    "Out of memory (oom_kill",
    "Memory cgroup out of memory: Kill",
    "Killed process ",
    "oom-kill:constraint=",
    "oom_reaper: reaped ",
    "Kernel panic - not syncing: Out of memory",
];
static KERNELS: LazyLock<Option<Searcher>> = LazyLock::new(|| searcher(KERNEL.into_iter()));

/// Where the kernel's own words for a kill begin.
pub(crate) fn kernel_words(text: &[u8]) -> Option<usize> {
    next(KERNELS.as_ref(), &KERNEL, text)
}

/// Whether the line holds the kernel's own words for a kill.
pub(crate) fn quotes_kernel(line: &[u8]) -> bool {
    text::has(line, b"Killed process ") || text::has(line, b"invoked oom-killer") || text::has(line, b"oom-kill:")
}

/// Whether the line surely speaks of an OOM: what of these is not understood, is reported.
pub(crate) fn must_matter(line: &[u8]) -> bool {
    const SURE: [&[u8]; 11] = [
        b"Killed process ",
        b"Kill process ",
        b"Out of memory",
        b"out of memory: Kill",
        b"oom-kill",
        b"oom_reaper: reaped",
        b"OOMKill",
        b"SystemOOM",
        b"Out Of Memory",
        b"OUT_OF_ME",
        b"OOM killer",
    ];
    SURE.iter().any(|s| text::has(line, s))
}
