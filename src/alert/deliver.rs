//! Where alerts go: a command, a file of JSON lines, syslog, the journal.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::fields::Fields;
use super::notices::TEST;
use super::suppress::SuppressFile;
use super::{journal, syslog};
use crate::case::{Alert, Case, CaseError, Delivered, Withheld};
use crate::report::model::Report;
use crate::time::{NANOS, Timestamp};

/// A command that takes longer is ended: one that hangs must not hold up the next pass.
const PATIENCE: Duration = Duration::from_secs(30);
/// Alerts looked at in one pass; the rest waits for the next.
const AT_ONCE: usize = 1000;
/// A receiver that failed so often in a pass is left alone for a while.
const FAILURES: u32 = 3;
/// How long a receiver that failed is left alone, in nanoseconds; twice as long each time that it fails again.
const FIRST_REST: i64 = 5 * NANOS;
const LONGEST_REST: i64 = 600 * NANOS;

/// A log that takes alerts as fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A syslog daemon at this socket (RFC 5424).
    Syslog(PathBuf),
    /// The journal at this socket (its native protocol).
    Journal(PathBuf),
}

/// Where alerts go, and which are withheld.
#[derive(Clone, Debug, Default)]
pub struct Alerts {
    /// A command line for the shell; it gets one JSON object on standard input, and the id as `RDZVSCOPE_ID`.
    pub exec: Option<String>,
    /// A file that gets one JSON object a line.
    pub file: Option<PathBuf>,
    /// Logs.
    pub logs: Vec<Receiver>,
    /// What is withheld.
    pub suppress: Option<SuppressFile>,
    /// Receivers that are out of order, by name.
    pub broken: BTreeMap<String, Broken>,
}

/// A receiver that did not take an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    since: Timestamp,
    again: Timestamp,
    times: u32,
}

enum Output<'a> {
    File(&'a Path),
    Exec(&'a str),
    Log(&'a Receiver),
}

impl Output<'_> {
    /// By this an alert remembers who has it already; no two outputs share it.
    fn name(&self) -> String {
        match self {
            Output::File(path) => format!("file {}", path.display()),
            Output::Exec(command) => format!("exec {command}"),
            Output::Log(Receiver::Syslog(path)) => format!("syslog {}", path.display()),
            Output::Log(Receiver::Journal(path)) => format!("journald {}", path.display()),
        }
    }

    fn deliver(&self, letter: &Alert, now: Timestamp) -> std::io::Result<()> {
        match self {
            Output::File(path) => append(path, &letter.document),
            Output::Exec(command) => execute(command, letter),
            Output::Log(Receiver::Syslog(path)) => syslog::send(path, &Fields::of(letter), &letter.kind, now),
            Output::Log(Receiver::Journal(path)) => journal::send(path, &Fields::of(letter), &letter.document),
        }
    }
}

impl Alerts {
    /// Whether alerts go anywhere.
    pub fn is_any(&self) -> bool {
        self.exec.is_some() || self.file.is_some() || !self.logs.is_empty()
    }

    /// What of a report is withheld, by id and kind. The list is read again where it has changed; what is wrong with it
    /// goes to `wrong`, and the list as it was before stays in force.
    pub fn withheld(&mut self, report: &Report, wrong: &mut Vec<String>) -> BTreeMap<(String, String), Withheld> {
        let Some(file) = &mut self.suppress else { return BTreeMap::new() };
        if let Err(e) = file.refresh() {
            wrong.push(format!("{e}; the list as it was before stays in force"));
        }
        file.list().withheld(report)
    }

    /// What of `notices` is withheld, by id and kind.
    pub fn withheld_notices(&self, notices: &[Delivered], now: Timestamp) -> BTreeMap<(String, String), Withheld> {
        self.suppress.as_ref().map_or_else(BTreeMap::new, |file| file.list().withheld_notices(notices, now))
    }

    fn outputs(&self) -> Vec<(String, Output<'_>)> {
        (self.file.as_deref().map(Output::File).into_iter())
            .chain(self.exec.as_deref().map(Output::Exec))
            .chain(self.logs.iter().map(Output::Log))
            .map(|o| (o.name(), o))
            .collect()
    }

    /// Sends one alert that says that it is a test to every receiver; what came of it, by receiver.
    pub fn test(&self, now: Timestamp) -> Vec<(String, std::io::Result<()>)> {
        let document = serde_json::json!({
            "type": "notice", "id": TEST, "rule": TEST, "severity": "notice", "time": now.to_rfc3339(), "path": null,
            "explanation": "a test: nothing happened on the wire (--alert-test)",
        });
        let (id, kind, document) = (TEST.to_string(), "notice".to_string(), document.to_string());
        let letter = Alert { sequence: 0, id, kind, document, attempts: 0, done: Vec::new() };
        self.outputs().into_iter().map(|(name, output)| (name, output.deliver(&letter, now))).collect()
    }

    /// Delivers what waits in the outbox, the gravest first; what went wrong, in words, once for each receiver until it
    /// works again. What a receiver did not take waits there for it; a receiver that is out of order is tried again
    /// after a while that doubles, and holds up no other.
    ///
    /// # Errors
    /// The case's.
    pub fn deliver(&mut self, case: &mut Case, now: Timestamp) -> Result<Vec<String>, CaseError> {
        let mut wrong = Vec::new();
        let mut broken = std::mem::take(&mut self.broken);
        let outputs = self.outputs();
        // A clock that was set back must not hold a receiver up for ever.
        let rests = |name: &String| broken.get(name).is_some_and(|b| (b.since.0..b.again.0).contains(&now.0));
        let mut failures: Vec<u32> = outputs.iter().map(|(name, _)| if rests(name) { FAILURES } else { 0 }).collect();
        let mut errors: Vec<Option<String>> = vec![None; outputs.len()];
        let mut worked = vec![false; outputs.len()];
        let mut looked_at = 0;
        for sequence in case.waiting()? {
            if looked_at >= AT_ONCE || failures.iter().all(|n| *n >= FAILURES) {
                break;
            }
            let Some(mut letter) = case.letter(sequence)? else { continue };
            let (mut tried, mut whole) = (false, true);
            for (i, (name, output)) in outputs.iter().enumerate() {
                if letter.done.contains(name) {
                    continue;
                }
                let (Some(failed), Some(error)) = (failures.get_mut(i), errors.get_mut(i)) else { continue };
                if *failed >= FAILURES {
                    whole = false;
                    continue;
                }
                tried = true;
                match output.deliver(&letter, now) {
                    Ok(()) => {
                        letter.done.push(name.clone());
                        worked.iter_mut().skip(i).take(1).for_each(|w| *w = true);
                    }
                    Err(e) => {
                        whole = false;
                        *failed += 1;
                        let attempt = letter.attempts + 1;
                        error.get_or_insert_with(|| {
                            let id = &letter.id;
                            format!("alert {id} was not delivered to {name} (attempt {attempt}, it will be tried again): {e}")
                        });
                    }
                }
            }
            looked_at += usize::from(tried);
            if tried || whole {
                case.tried(&letter, whole, now)?;
            }
        }
        for (((name, _), error), worked) in outputs.iter().zip(errors).zip(worked) {
            match error {
                Some(error) => {
                    let times = broken.get(name).map_or(0, |b| b.times);
                    let rest = FIRST_REST.saturating_mul(1 << times.min(10)).min(LONGEST_REST);
                    broken.insert(name.clone(), Broken { since: now, again: now.plus_nanos(rest), times: times + 1 });
                    if times == 0 {
                        wrong.push(error);
                    }
                }
                None if worked && broken.remove(name).is_some() => {
                    wrong.push(format!("{name} takes alerts again"));
                }
                None => {}
            }
        }
        drop(outputs);
        self.broken = broken;
        Ok(wrong)
    }
}

/// Appends a line. One that a process killed in the middle left half is ended first.
fn append(path: &Path, document: &str) -> std::io::Result<()> {
    let mut file = crate::disk::private().read(true).append(true).create(true).open(path)?;
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

fn execute(command: &str, letter: &Alert) -> std::io::Result<()> {
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
