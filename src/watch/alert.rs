//! Where alerts go: a command, a file of JSON lines.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::case::{Case, CaseError, Letter};
use crate::time::Timestamp;

/// A command that takes longer is ended: one that hangs must not hold up the next pass.
const PATIENCE: Duration = Duration::from_secs(30);
/// Alerts delivered in one pass; the rest waits for the next.
const AT_ONCE: u32 = 1000;

/// Where alerts go.
#[derive(Clone, Debug, Default)]
pub struct Alerts {
    /// A command line for the shell; it gets one JSON object on standard input, and the id as `RDZVSCOPE_ID`.
    pub exec: Option<String>,
    /// A file that gets one JSON object a line.
    pub file: Option<PathBuf>,
}

impl Alerts {
    /// Whether alerts go anywhere.
    pub fn is_any(&self) -> bool {
        self.exec.is_some() || self.file.is_some()
    }

    /// Delivers what waits in the outbox; what went wrong, in words. What was not delivered stays there.
    ///
    /// # Errors
    /// The case's.
    pub fn deliver(&self, case: &mut Case, now: Timestamp) -> Result<Vec<String>, CaseError> {
        let mut wrong = Vec::new();
        if !self.is_any() {
            return Ok(wrong);
        }
        for letter in case.letters(AT_ONCE)? {
            let done = self
                .file
                .as_deref()
                .map_or(Ok(()), |f| append(f, &letter.document))
                .and_then(|()| self.exec.as_deref().map_or(Ok(()), |command| execute(command, &letter)));
            if let Err(e) = &done {
                wrong.push(format!("alert {} was not delivered (attempt {}): {e}", letter.id, letter.attempts + 1));
            }
            case.tried(letter.sequence, done.is_ok(), now)?;
            if wrong.len() >= 3 {
                // The receiver is out of order; the next pass tries again.
                break;
            }
        }
        Ok(wrong)
    }
}

/// Appends a line. One that a process killed in the middle left half is ended first.
fn append(path: &Path, document: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut line = String::with_capacity(document.len() + 2);
    if file.metadata()?.len() > 0 {
        let mut last = [0u8];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            line.push('\n');
        }
    }
    line.push_str(document);
    line.push('\n');
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

fn execute(command: &str, letter: &Letter) -> std::io::Result<()> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env("RDZVSCOPE_ID", &letter.id)
        .env("RDZVSCOPE_KIND", &letter.kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        let text = format!("{}\n", letter.document);
        // It need not read what it is given. In a thread of its own: one that does not must not hold us up.
        std::thread::spawn(move || input.write_all(text.as_bytes()));
    }
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() {
                Ok(())
            } else {
                Err(std::io::Error::other(format!("the command ended with {status}")))
            };
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(std::io::Error::other(format!("the command took longer than {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
