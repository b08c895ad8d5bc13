//! Tests that cannot be run here say so where a person sees it.

use std::path::Path;

/// Says that the running test, or a part of it, could not be run here, and why: on standard error, which the test harness
/// hides, and in `target/skipped-tests.txt`, which `make test` prints at its end.
#[allow(clippy::print_stderr)]
pub(crate) fn skipped(reason: &str) {
    use std::io::Write;
    let thread = std::thread::current();
    let line = format!("{}: {}", thread.name().unwrap_or("a thread of a test"), reason.trim().replace('\n', " "));
    eprintln!("SKIPPED {line}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/skipped-tests.txt");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut f| f.write_all(format!("{line}\n").as_bytes())).unwrap();
}
