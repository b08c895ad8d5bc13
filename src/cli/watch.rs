//! `rdzvscope watch`: a directory that a capturing program rotates through.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::alerts::{AlertArgs, DeliveryResult, Metrics, give_up_calls};
use super::args;
use super::exit::Exit;
use super::flags::{JoinArgs, StatusArgs};
use super::output::complain;
use super::site_facts::SiteFacts;
use crate::analysis::Named;
use crate::case::{Case, Delivered, Limits, Mode, is_network_filesystem};
use crate::evidence::Segments;
use crate::report::model::Report;
use crate::time::Timestamp;
use crate::vocabulary::Severity;
use crate::watch::{Lock, Pass, Watcher, Wish};

/// Arguments of `watch`.
#[derive(clap::Args, Debug)]
#[command(
    about = "A directory that tcpdump rotates through, read into a case file",
    after_help = "Examples:
  rdzvscope watch /var/lib/pcap --case /var/lib/rdzvscope/case.db --oom journal --alert-exec 'notify-oncall'
  */5 * * * * rdzvscope watch /var/lib/pcap --case /var/lib/rdzvscope/case.db --once --alert-file /var/log/rdzvscope.jsonl

Exit status with --once: 0 nothing new, 1 something new was flagged in this pass or alerts wait undelivered, 2 trouble."
)]
pub(super) struct Args {
    /// Directories (or files) of captures; logs in them are read too
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<PathBuf>,
    /// The case file; made where it is not there
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// One pass, then end: for cron
    #[arg(long)]
    once: bool,
    /// Time between two passes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = args::duration)]
    interval: f64,
    /// A log that is followed alongside, "journal" or "kmsg"; HOST= names the host it is of (may repeat)
    #[arg(long, value_name = "[HOST=]PATH|journal|kmsg", value_parser = args::named)]
    oom: Vec<Named>,
    #[command(flatten)]
    status: StatusArgs,
    /// A capture that gains nothing for this long is said to have stopped; 0: never [default: 10m, with --once 0]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    stall: Option<f64>,
    /// How long observations are kept
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = args::duration)]
    keep: f64,
    /// How large the case file may grow
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = args::size)]
    case_max: u64,
    /// Say nothing but what goes wrong
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    evidence: EvidenceArgs,
    #[command(flatten)]
    join: JoinArgs,
    #[command(flatten)]
    alerts: AlertArgs,
}

/// Where evidence for others goes.
#[derive(clap::Args, Debug)]
struct EvidenceArgs {
    /// Write what was observed there too, in files that can be fetched as soon as they are there (for merge)
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// How much lies there at most: the oldest go
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = args::size, requires = "evidence")]
    evidence_max: u64,
    /// Evidence counts ordinary connections instead of listing them, and goes every three hours where nothing happens
    #[arg(long, requires = "evidence", hide_short_help = true)]
    lean: bool,
}

/// Runs it.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    if a.alerts.alert_test {
        return a.alerts.test();
    }
    let _lock = Lock::take(&a.case)?;
    let case = Case::open(&a.case, Mode::Create)?;
    if is_network_filesystem(&a.case) {
        complain("the case lies on a network file system: slower, and only one host may write it");
    }
    let kept = SiteFacts::of_case(&case)?;
    let setup = kept.clone().join(a.join.setup());
    let options = a.join.options(&setup, arguments)?;
    if setup != kept {
        setup.keep(&case)?;
    }
    let named = |o: &Named, name: &str| o.host.is_none() && o.path.as_os_str() == name;
    let [journal, kmsg] = ["journal", "kmsg"].map(|name| a.oom.iter().any(|o| named(o, name)));
    let alerting = a.alerts.alerting(Severity::Warning)?;
    let alerting_any = alerting.alerts.is_any();
    let mut metrics = Metrics::begin(&alerting, &case)?;
    let wish = Wish {
        paths: a.paths,
        oom: a.oom.into_iter().filter(|o| !named(o, "journal") && !named(o, "kmsg")).collect(),
        journal,
        kmsg,
        evidence: a.evidence.evidence.map(|d| Segments::new(&d, a.evidence.evidence_max).lean(a.evidence.lean)),
        hosts: a.join.clocks.hosts.clone(),
        alerts: alerting.alerts,
        alert_on: alerting.on,
        stall: a.stall.or((!a.once).then_some(600.0)).filter(|s| *s > 0.0),
        limits: Limits { age: a.keep, size: a.case_max },
        paced: !a.once,
    };
    let stop = stop_flag()?;
    let stopped = || stop.load(Ordering::Relaxed);
    give_up_calls(alerting.no_seccomp, journal || wish.alerts.exec.is_some());
    let mut watcher = Watcher::new(case, options, wish)?;
    let mut said = std::collections::BTreeSet::new();
    loop {
        let begun = Instant::now();
        let pass = watcher.pass(now(), &stopped)?;
        let went = DeliveryResult { well: !pass.trouble && pass.lag == 0, lag: pass.lag, problems: pass.wrong.len() };
        metrics.after(watcher.case(), went)?;
        let wrong: std::collections::BTreeSet<String> = pass.wrong.iter().cloned().collect();
        wrong.difference(&said).for_each(|w| complain(w));
        if !a.quiet {
            print(&pass)?;
        }
        if a.once {
            let last = watcher.finish(now())?;
            last.wrong.iter().filter(|w| !wrong.contains(*w)).for_each(|w| complain(w));
            let waiting = alerting_any && watcher.case().undelivered()? > 0;
            return Ok(exit(&pass, &a.status, waiting));
        }
        said = wrong;
        if pass.lag > 0 {
            let unreadable = match pass.unreadable {
                0 => String::new(),
                n => format!(" ({n} paths cannot be read; they are tried again)"),
            };
            complain(&format!("lag: {} bytes of captures are not analyzed{unreadable}", pass.lag));
        }
        // A pass that takes long is not begun again at once: the training host has other things to do.
        let pause = begun.elapsed().min(Duration::from_secs(1));
        let until = begun + Duration::from_secs_f64(a.interval).max(begun.elapsed() + pause);
        while Instant::now() < until && !stopped() {
            std::thread::sleep(Duration::from_millis(100).min(until.saturating_duration_since(Instant::now())));
        }
        if stopped() {
            let last = watcher.finish(now())?;
            last.wrong.iter().filter(|w| !said.contains(*w)).for_each(|w| complain(w));
            if !a.quiet {
                print(&last)?;
            }
            return Ok(Exit::Clean);
        }
    }
}

/// Set by SIGTERM and SIGINT; a second one ends the process at once.
pub(super) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("cannot take signals")?;
    }
    Ok(flag)
}

/// The clock of this host.
pub(super) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

fn print(pass: &Pass) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for told in pass.fresh.iter().filter(|t| !pass.is_withheld(t)) {
        writeln!(out, "{}", told.document)?;
    }
    for (w, count) in pass.withheld_counts() {
        let (entry, reason) = (&w.entry, &w.reason);
        let line = serde_json::json!({"type": "withheld", "entry": entry, "reason": reason, "count": count});
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// Whether something new is flagged, or alerts wait that nobody took yet.
fn exit(pass: &Pass, status: &StatusArgs, waiting: bool) -> Exit {
    let report = pass.analysis.as_ref().map(|a| &a.report);
    let flagged =
        report.is_some_and(|r| pass.fresh.iter().any(|t| !pass.is_withheld(t) && is_flagged(t, r, status.fail_on)));
    Exit::of(flagged || waiting, pass.trouble, false, false, status.exit_zero)
}

pub(super) fn is_flagged(told: &Delivered, report: &Report, fail_on: Severity) -> bool {
    match told.kind {
        "finding" => report.findings.iter().any(|f| f.id == told.id && f.severity >= fail_on),
        "incident" => report.incidents.iter().any(|i| i.id == told.id && i.hosts.iter().any(|h| h.trigger.is_some())),
        _ => false,
    }
}
