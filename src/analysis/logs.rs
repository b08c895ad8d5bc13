//! Logs, line by line.

use std::path::Path;
use std::sync::Arc;

use super::from_store::StoredLog;
use super::inputs::{Inputs, Shape, Source, host_of_file, plain_stem};
use super::options::Options;
use super::progress::Progress;
use super::{curves, reporting};
use crate::capture::{Limits, unpacked};
use crate::curve::Series;
use crate::escape::clean;
use crate::names::Names;
use crate::oom::{self, LogSummary, Scanner};
use crate::report::model::Input;
use crate::time::Timestamp;
use crate::vocabulary::InputKind;

/// All logs and curves, read.
#[derive(Default)]
pub(super) struct Logs {
    /// Log by log.
    pub(super) summaries: Vec<LogSummary>,
    /// As a report names them.
    pub(super) inputs: Vec<Input>,
    /// Memory curves.
    pub(super) curves: Vec<Series>,
}

/// Reads all logs and curves. `near`: an instant that they are about, for times without a year.
pub(super) fn read_all(
    options: &Options,
    inputs: &Inputs,
    names: &Names,
    near: Option<Timestamp>,
    progress: &Progress,
) -> Logs {
    let mut logs = Logs::default();
    let known = Arc::new(names.clone());
    let general = oom::Options {
        boot: options.boot.clone(),
        zone: options.log_zone,
        host_zones: options.host_zones.clone(),
        near: near.or(options.since).or(options.until),
        fields: options.log_fields.clone(),
        ..oom::Options::default()
    };
    for s in &inputs.sources {
        if progress.stopped() {
            break;
        }
        if s.shape == Shape::Curve {
            let (series, input) = curves::read(s, options, names, &general);
            logs.curves.extend(series);
            logs.inputs.push(input);
        } else if s.shape.is_log() {
            logs.read(s, options, &known, &general);
        }
    }
    logs
}

/// Reads lines that were kept of logs.
pub(super) fn read_kept(options: &Options, kept: &[StoredLog], names: &Names, near: Option<Timestamp>) -> Logs {
    let mut logs = Logs::default();
    let known = Arc::new(names.clone());
    for StoredLog { path, host, from, lines } in kept {
        let of_name = host_of_file(path, names, options.host_pattern.as_ref()).or_else(|| from.clone());
        let guessed = of_name.is_none();
        let own = oom::Options {
            boot: options.boot.clone(),
            zone: options.log_zone,
            host_zones: options.host_zones.clone(),
            near: near.or(options.since).or(options.until),
            fields: options.log_fields.clone(),
            explicit_host: host.clone(),
            file_host: of_name.or_else(|| plain_stem(path)),
            ..oom::Options::default()
        };
        let label = path.to_string_lossy();
        let mut scanner = Scanner::new(&label, &own).knowing(Arc::clone(&known));
        for (number, line) in lines {
            scanner.line(*number, line);
        }
        let summary = scanner.finish();
        logs.inputs.push(reporting::log_input(&label, &summary, None, guessed && host.is_none(), false));
        logs.summaries.push(summary);
    }
    logs
}

impl Logs {
    fn read(&mut self, s: &Source, options: &Options, names: &Arc<Names>, general: &oom::Options) {
        let of_name = host_of_file(&s.path, names, options.host_pattern.as_ref());
        let guessed = of_name.is_none();
        let own = oom::Options {
            explicit_host: s.host.clone(),
            file_host: of_name.or_else(|| plain_stem(&s.path)),
            written: written(&s.path),
            ..general.clone()
        };
        // A list that is a log at once was reported as a list; as a log it is reported if it tells of kills.
        let list = s.shape != Shape::Log;
        match read_log(&s.path, &s.label, &own, names) {
            Ok((summary, trouble)) => {
                let mut input =
                    reporting::log_input(&s.label, &summary, trouble, guessed && s.host.is_none(), s.named && !list);
                input.warnings.extend(summary.examples.iter().take(options.examples).map(|e| {
                    let text = clean(e.text.as_bytes(), 200);
                    format!("line {} looks like an OOM and was not understood ({}): {text}", e.line, e.reason)
                }));
                if list {
                    input.kind = Some(s.shape.kind());
                    input.warnings.retain(|w| !w.starts_with("no line of "));
                }
                self.inputs.push(input);
                self.summaries.push(summary);
            }
            Err(e) => self.inputs.push(Input {
                path: clean(s.label.as_bytes(), 256),
                kind: Some(InputKind::Log),
                error: Some(format!("cannot read: {e}")),
                ..Input::default()
            }),
        }
    }
}

/// When a log was written last; a pipe is written now.
fn written(path: &Path) -> Option<Timestamp> {
    let modified = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).and_then(|m| m.modified().ok());
    let since = modified.unwrap_or_else(std::time::SystemTime::now).duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(i64::try_from(since.as_nanos()).ok()?))
}

/// Reads one log; `-` is standard input.
///
/// # Errors
/// The system's, from opening the file; a failure while reading ends the log and is said in the second value.
fn read_log(
    path: &Path,
    label: &str,
    options: &oom::Options,
    names: &Arc<Names>,
) -> std::io::Result<(LogSummary, Option<String>)> {
    let mut scanner = Scanner::new(label, options).knowing(Arc::clone(names));
    let read = match path == Path::new("-") {
        true => scanner.read(std::io::stdin().lock()),
        false => scanner.read(unpacked(path, &Limits::default())?),
    };
    let trouble = read.err().map(|(number, e)| format!("read failed after line {number}: {e}"));
    Ok((scanner.finish(), trouble))
}

/// Two entries of one path, as a list and as a log, are one input.
pub(super) fn joined(lists: Vec<Input>, logs: Vec<Input>) -> Vec<Input> {
    let mut all = lists;
    for log in logs {
        match all.iter_mut().find(|l| l.path == log.path && log.kind != Some(InputKind::Log) && l.kind == log.kind) {
            Some(list) => {
                list.not_understood = Some(list.not_understood.unwrap_or(0).max(log.not_understood.unwrap_or(0)));
                list.host = list.host.take().or(log.host);
                list.timezone = list.timezone.take().or(log.timezone);
                list.boot_time = list.boot_time.or(log.boot_time);
                list.error = list.error.take().or(log.error);
                let known = list.warnings.clone();
                list.warnings.extend(log.warnings.into_iter().filter(|w| !known.contains(w)));
            }
            None => all.push(log),
        }
    }
    all
}
