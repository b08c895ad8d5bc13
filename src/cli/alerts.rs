//! Flags of the commands that alert: where alerts go, which are withheld, what is counted.

use std::path::{Path, PathBuf};

use super::exit::Exit;
use super::output::{complain, shown};
use super::watch::now;
use crate::alert::{Alerts, Gauges, JOURNAL_SOCKET, Receiver, SYSLOG_SOCKET, SuppressFile, render, write_metrics};
use crate::case::Case;
use crate::syscalls::confine_calls;
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// Under which key a case keeps the end of the last pass in which all went well.
const LAST_SUCCESS: &str = "last-success";

/// The flags.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Alerts")]
pub(super) struct AlertArgs {
    /// A command that gets each alert as one JSON object on standard input
    ///
    /// It runs in /bin/sh, with RDZVSCOPE_ID and RDZVSCOPE_KIND in its environment, for at most 30 s. Where it fails the
    /// alert is tried again in the next pass.
    #[arg(long, alias = "exec", value_name = "CMD")]
    alert_exec: Option<String>,
    /// A file that gets each alert as one line of JSON
    #[arg(long, value_name = "FILE")]
    alert_file: Option<PathBuf>,
    /// A log that gets each alert with its fields: syslog or journald, or syslog:SOCKET (may repeat)
    ///
    /// syslog: RFC 5424 with structured data to /dev/log. journald: the journal's native protocol to
    /// /run/systemd/journal/socket, with fields RDZVSCOPE_RULE, RDZVSCOPE_SOURCE, …
    #[arg(long, value_name = "LOG", value_parser = receiver, hide_short_help = true)]
    alert_to: Vec<Receiver>,
    /// Lowest severity of a finding that is an alert [default: warning; of merge: critical]
    #[arg(long, value_name = "SEVERITY", value_parser = super::args::severity)]
    alert_on: Option<Severity>,
    /// A list of what is no alert: by source, rule, listener and time, with the reason
    ///
    /// One entry a line: source=192.0.2.250 rule=syn-scan until=2027-01-01 reason="approved scanner, ticket 4711".
    /// Keys: source, rule, listener, incident, from, until, hours, days, reason. What is withheld is counted and stands in
    /// reports. An incident with a kill is withheld by incident=ID alone. The list is read again when it changes.
    #[arg(long, value_name = "FILE")]
    suppress: Option<PathBuf>,
    /// Send one alert that says that it is a test, say whether it arrived, and end
    #[arg(long, hide_short_help = true)]
    pub(super) alert_test: bool,
    /// Counters and gauges for Prometheus: a file for node_exporter's textfile collector
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    metrics: Option<PathBuf>,
    /// Do not give up system calls that are not needed
    ///
    /// After the start all but those that are needed are refused (seccomp), also to commands of alerts, which cannot take
    /// other rights by setuid then.
    #[arg(long, hide_short_help = true)]
    pub(super) no_seccomp: bool,
}

/// `syslog[:SOCKET]`, `journald[:SOCKET]`.
fn receiver(text: &str) -> Result<Receiver, String> {
    let (kind, socket) = text.split_once(':').map_or((text, None), |(kind, socket)| (kind, Some(socket)));
    if socket.is_some_and(|s| !s.starts_with('/')) {
        return Err(format!(
            "the path of a socket was required after {kind}:, {:?} was there",
            socket.unwrap_or_default()
        ));
    }
    let at = |usual: &str| PathBuf::from(socket.unwrap_or(usual));
    match kind {
        "syslog" => Ok(Receiver::Syslog(at(SYSLOG_SOCKET))),
        "journald" | "journal" => Ok(Receiver::Journal(at(JOURNAL_SOCKET))),
        _ => Err(format!("syslog, journald, syslog:SOCKET or journald:SOCKET was required, {text:?} was there")),
    }
}

/// What the flags mean.
#[derive(Debug)]
pub(super) struct Alerting {
    pub(super) alerts: Alerts,
    /// Findings of at least this severity are alerts.
    pub(super) on: Severity,
    metrics: Option<PathBuf>,
    /// All system calls are kept.
    pub(super) no_seccomp: bool,
}

impl AlertArgs {
    /// Whether any of them is there.
    pub(super) fn asked(&self) -> bool {
        let receivers = self.alert_exec.is_some() || self.alert_file.is_some() || !self.alert_to.is_empty();
        receivers || self.alert_test || self.alert_on.is_some() || self.suppress.is_some() || self.metrics.is_some()
    }

    /// Sends a test to every receiver.
    pub(super) fn test(self) -> anyhow::Result<Exit> {
        let alerting = self.alerting(Severity::Warning)?;
        anyhow::ensure!(
            alerting.alerts.is_any(),
            "--alert-test: a receiver was required (--alert-exec, --alert-file, --alert-to)"
        );
        let mut exit = Exit::Clean;
        for (name, came) in alerting.alerts.test(now()) {
            match came {
                Ok(()) => complain(&format!("the test was delivered to {name}")),
                Err(e) => {
                    exit = Exit::Trouble;
                    complain(&format!("the test was not delivered to {name}: {e}"));
                }
            }
        }
        Ok(exit)
    }

    /// Reads the list of what is withheld, and says of it what should be known. Findings are alerts from `usual` on.
    pub(super) fn alerting(self, usual: Severity) -> anyhow::Result<Alerting> {
        let suppress = self.suppress.as_deref().map(SuppressFile::open).transpose()?;
        if let Some(file) = &suppress {
            for (line, ended) in file.list().expired(now()) {
                complain(&format!("{}:{line}: ended {ended}: it withholds nothing any more", shown(file.path())));
            }
        }
        let (exec, file, logs) = (self.alert_exec, self.alert_file, self.alert_to);
        let alerts = Alerts { exec, file, logs, suppress, ..Alerts::default() };
        let on = self.alert_on.unwrap_or(usual);
        Ok(Alerting { alerts, on, metrics: self.metrics, no_seccomp: self.no_seccomp })
    }
}

/// Gives up the system calls that are not needed, unless `kept`; that the kernel has no means for it is said. `runs`: other
/// programs are started.
pub(super) fn give_up_calls(kept: bool, runs: bool) {
    if let Some(e) = (!kept).then(|| confine_calls(runs)).and_then(Result::err) {
        complain(&format!("no system call is refused to this process: {e}"));
    }
}

impl Alerting {
    /// Directories that must stay writable for it.
    #[cfg_attr(not(feature = "live"), allow(dead_code))]
    pub(super) fn writable(&self) -> impl Iterator<Item = &Path> {
        self.alerts.file.as_deref().into_iter().chain(self.metrics.as_deref())
    }

    /// Directories that must stay readable.
    #[cfg_attr(not(feature = "live"), allow(dead_code))]
    pub(super) fn readable(&self) -> impl Iterator<Item = &Path> {
        self.alerts.suppress.iter().map(SuppressFile::path)
    }
}

/// The file of counters and gauges, written after every pass.
#[derive(Debug)]
pub(super) struct Metrics {
    path: Option<PathBuf>,
    last_success: Option<Timestamp>,
    said: bool,
}

/// How a pass went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeliveryResult {
    /// All went well.
    pub(super) well: bool,
    pub(super) lag: u64,
    pub(super) problems: usize,
}

impl Metrics {
    /// Writes the file before the first pass: a zero must be there before there is a one.
    pub(super) fn begin(alerting: &Alerting, case: &Case) -> anyhow::Result<Metrics> {
        let last_success = case.meta(LAST_SUCCESS)?.and_then(|t| t.parse().ok()).map(Timestamp);
        let mut metrics = Metrics { path: alerting.metrics.clone(), last_success, said: false };
        metrics.write(case, &Gauges::default())?;
        Ok(metrics)
    }

    /// Writes it after a pass. That it cannot be written is said, and stops nothing.
    pub(super) fn after(&mut self, case: &Case, went: DeliveryResult) -> anyhow::Result<()> {
        if self.path.is_none() {
            return Ok(());
        }
        if went.well {
            self.last_success = Some(now());
            case.set_meta(LAST_SUCCESS, &now().0.to_string())?;
        }
        self.write(case, &Gauges { lag_bytes: went.lag, problems: went.problems as u64, ..Gauges::default() })
    }

    fn write(&mut self, case: &Case, gauges: &Gauges) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let gauges = Gauges {
            last_success: self.last_success,
            last_packet: case.newest()?,
            pending: case.undelivered()?,
            case_bytes: case.bytes()?,
            ..gauges.clone()
        };
        match write_metrics(path, &render(&case.counters()?, &gauges)) {
            Ok(()) => self.said = false,
            Err(e) if !self.said => {
                self.said = true;
                complain(&format!("{}: metrics cannot be written: {e}", shown(path)));
            }
            Err(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_named_with_or_without_their_socket() {
        assert_eq!(receiver("syslog"), Ok(Receiver::Syslog("/dev/log".into())));
        assert_eq!(receiver("journald:/x"), Ok(Receiver::Journal("/x".into())));
        assert!(receiver("syslog:loghost:514").unwrap_err().contains("the path of a socket"));
        assert!(receiver("mail").is_err());
    }
}
