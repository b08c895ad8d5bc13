//! `rdzvscope live`: the same analysis on interfaces.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::alerts::{AlertArgs, Alerting, DeliveryResult, Metrics, give_up_calls};
use super::args;
use super::exit::Exit;
use super::flags::{JoinArgs, StatusArgs};
use super::output::complain;
use super::site_facts::SiteFacts;
use super::watch::{now, stop_flag};
use crate::case::{Case, Delivered, Limits, Mode};
use crate::escape::clean;
use crate::live::{
    Budget, Confined, InterfaceReader, ListenOptions, Monitor, Ring, Tick, compile_check, confine, drop_privileges,
    filter_of, interfaces,
};
use crate::report::model::Report;
use crate::vocabulary::Severity;
use crate::watch::{Lock, withheld_counts};

/// Time from one look at what came to the next.
const TICK: Duration = Duration::from_millis(500);
/// Time between two writings of the metrics.
const METRICS: Duration = Duration::from_secs(10);

/// How findings are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum LiveFormat {
    /// A line for people
    Lines,
    /// A JSON object a line
    Jsonl,
}

/// Arguments of `live`.
#[derive(clap::Args, Debug)]
#[command(
    about = "The same analysis on interfaces, findings at once",
    after_help = "Examples:
  rdzvscope live -i eth0 --user rdzvscope
  rdzvscope live -i any --format jsonl --case case.db --alert-exec 'notify-oncall'
  rdzvscope live -i eth0 --write /var/lib/pcap --write-max 2G --min-free 10G

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct Args {
    /// An interface, or any (may repeat)
    #[arg(short, long, value_name = "IFACE", required_unless_present = "list_interfaces")]
    interface: Vec<String>,
    /// List the interfaces that can be listened to, and end
    #[arg(short = 'D', long)]
    list_interfaces: bool,
    /// A BPF filter in place of the one made from the ports
    #[arg(short = 'f', long, value_name = "BPF")]
    filter: Option<String>,
    /// LiveFormat of the output
    #[arg(long, value_enum, default_value = "lines", value_name = "FORM")]
    format: LiveFormat,
    /// Lowest severity that is printed
    #[arg(long, value_name = "SEVERITY", default_value = "notice", value_parser = args::severity)]
    show: Severity,
    /// Keep what was observed in this case file
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    #[command(flatten)]
    status: StatusArgs,
    /// Write packets to files there: the newest, and those around findings
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// How much is written, all files of all interfaces together
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = args::size, requires = "write")]
    write_max: u64,
    /// How much must stay free in that file system
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = args::size, requires = "write")]
    min_free: u64,
    /// Become this user once the interfaces are open: a name or numbers
    #[arg(long, value_name = "USER|UID[:GID]")]
    user: Option<String>,
    /// Do not confine the process with Landlock
    #[arg(long)]
    no_landlock: bool,
    /// Take packets for other hosts too (a mirror port)
    #[arg(long)]
    promiscuous: bool,
    /// Most bytes taken of a packet
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, hide_short_help = true)]
    snaplen: u32,
    /// The kernel's buffer for an interface
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = args::size, hide_short_help = true)]
    buffer: u64,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    duration: Option<f64>,
    /// How long observations are kept
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = args::duration)]
    keep: f64,
    /// How large the case may grow, in the file or in memory
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = args::size)]
    case_max: u64,
    #[command(flatten)]
    join: JoinArgs,
    #[command(flatten)]
    alerts: AlertArgs,
}

/// Runs it.
pub(super) fn run(mut a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    if a.alerts.alert_test {
        return a.alerts.test();
    }
    if a.list_interfaces {
        return list_interfaces();
    }
    let _lock = a.case.as_deref().map(Lock::take).transpose()?;
    let mut case = match &a.case {
        Some(path) => Case::open(path, Mode::Create)?,
        None => Case::in_memory()?,
    };
    // Before anything is opened: what is wrong with a list is no reason to have started.
    let alerting = std::mem::take(&mut a.alerts).alerting(Severity::Warning)?;
    let setup = SiteFacts::of_case(&case)?.join(a.join.setup());
    setup.keep(&case)?;
    let options = a.join.options(&setup, arguments)?;
    for path in &a.join.clocks.hosts {
        let content = super::report::list(path)?;
        case.save_hosts(path, &content)?;
    }
    let ports = options.ports.iter().chain(options.nccl_ports.iter()).collect();
    let filter = a.filter.clone().unwrap_or_else(|| filter_of(&ports));
    compile_check(&filter).map_err(|e| anyhow::anyhow!("--filter {filter:?}: {e}"))?;
    let listen = ListenOptions {
        snaplen: a.snaplen.max(64),
        buffer: u32::try_from(a.buffer).unwrap_or(u32::MAX),
        promiscuous: a.promiscuous,
        filter,
    };
    let mut open = Vec::new();
    for name in &a.interface {
        open.push(InterfaceReader::open(name, &listen)?);
    }
    give_up(&a, &alerting)?;
    let mut metrics = Metrics::begin(&alerting, &case)?;
    let budget = Budget { max: a.write_max / open.len().max(1) as u64, min_free: a.min_free };
    let mut listeners = Vec::new();
    for listener in open {
        let ring = match &a.write {
            Some(directory) => Some(
                Ring::new(directory, &listener.name, budget)
                    .map_err(|e| anyhow::anyhow!("{}: cannot write: {e}", directory.display()))?,
            ),
            None => None,
        };
        listeners.push((listener, ring));
    }
    let stop = stop_flag()?;
    let limits = Limits { age: a.keep, size: a.case_max };
    let mut station = Monitor::start(case, options, listeners, limits, (listen, a.filter.is_some()), now())?;
    complain(&format!("listening to {}", a.interface.join(", ")));
    let begun = Instant::now();
    let Alerting { mut alerts, on, .. } = alerting;
    let (mut flagged, mut trouble) = (false, false);
    let (mut already, mut measured) = (BTreeSet::new(), None);
    let (mut last, mut gone) = (false, false);
    loop {
        let from = Instant::now();
        let mut tick = station.tick(now(), on, &mut alerts)?;
        let delivered = alerts.deliver(station.case(), now())?;
        tick.wrong.extend(delivered);
        for said in tick.said.iter().chain(tick.wrong.iter().filter(|w| !already.contains(*w))) {
            complain(said);
        }
        // What goes wrong for hours is said once.
        already = tick.wrong.iter().cloned().collect();
        trouble |= tick.listening < a.interface.len() && !last;
        flagged |= print(&tick, a.format, a.show, a.status.fail_on)?;
        if last || measured.is_none_or(|m: Instant| m.elapsed() >= METRICS) {
            measured = Some(Instant::now());
            let well = tick.wrong.is_empty() && tick.listening == a.interface.len();
            metrics.after(station.case(), DeliveryResult { well, lag: 0, problems: tick.wrong.len() })?;
        }
        if last {
            // Whoever started it must start it again, whatever was flagged.
            if gone {
                complain("an interface went away, and this process may not open it again: it ends");
                return Ok(Exit::Trouble);
            }
            return Ok(Exit::of(flagged, trouble, false, false, a.status.exit_zero));
        }
        let until = from + TICK;
        let over = || a.duration.is_some_and(|d| begun.elapsed().as_secs_f64() >= d) || stop.load(Ordering::Relaxed);
        while Instant::now() < until && !over() {
            std::thread::sleep(Duration::from_millis(50));
        }
        gone = tick.gone;
        if over() || gone {
            station.stop();
            last = true;
        }
    }
}

/// A line for each interface, numbered as `tcpdump -D` has it: name, state, addresses, description.
fn list_interfaces() -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    for (number, device) in (1..).zip(interfaces()?) {
        writeln!(out, "{number}. {}", clean(device.as_bytes(), 400))?;
    }
    Ok(Exit::Clean)
}

/// Another user, Landlock, and system calls.
fn give_up(a: &Args, alerting: &Alerting) -> anyhow::Result<()> {
    if let Some(directory) = &a.write {
        crate::disk::create_dir_all(directory)
            .map_err(|e| anyhow::anyhow!("{}: cannot make: {e}", directory.display()))?;
    }
    if let Some(user) = &a.user {
        drop_privileges(user)?;
    }
    let runs = alerting.alerts.exec.is_some();
    if !a.no_landlock {
        give_up_paths(a, alerting, runs);
    }
    give_up_calls(alerting.no_seccomp, runs);
    Ok(())
}

/// All of the file system but what is written and read from now on.
fn give_up_paths(a: &Args, alerting: &Alerting, runs: bool) {
    let parent = |p: &Path| match p.parent() {
        Some(d) if !d.as_os_str().is_empty() => d.to_owned(),
        _ => PathBuf::from("."),
    };
    // SQLite makes files beside the case, and an alert file may have to be made.
    let mut writable: Vec<PathBuf> = a.write.iter().cloned().collect();
    writable.extend(a.case.as_deref().map(parent));
    writable.extend(alerting.writable().map(parent));
    let mut readable = vec![PathBuf::from("/proc")];
    readable.extend(alerting.readable().map(parent));
    match confine(&writable, &readable, runs) {
        Ok(Confined::Fully | Confined::Partly) => {}
        Ok(Confined::Not) => complain("this kernel has no Landlock: the process is not confined"),
        Err(e) => complain(&format!("the process is not confined: {e}")),
    }
}

/// Prints what is new; whether any of it is flagged.
fn print(tick: &Tick, form: LiveFormat, show: Severity, fail_on: Severity) -> anyhow::Result<bool> {
    let Some(report) = tick.analysis.as_ref().map(|a| &a.report) else { return Ok(false) };
    let mut out = std::io::stdout().lock();
    let mut flagged = false;
    for (w, count) in withheld_counts(&tick.fresh, &tick.withheld) {
        complain(&format!("{count} withheld by {}: {}", w.entry, w.reason));
    }
    for told in tick.fresh.iter().filter(|t| !tick.withheld.contains_key(&(t.id.clone(), t.kind.to_string()))) {
        let (severity, line) = line(told, report);
        let shown = severity.is_none_or(|s| s >= show);
        flagged |= severity.is_some_and(|s| s >= fail_on);
        flagged |= report.incidents.iter().any(|i| i.id == told.id && i.hosts.iter().any(|h| h.trigger.is_some()));
        match form {
            _ if !shown => {}
            LiveFormat::Jsonl => writeln!(out, "{}", told.document)?,
            LiveFormat::Lines => writeln!(out, "{}", clean(line.as_bytes(), 2000))?,
        }
    }
    out.flush()?;
    Ok(flagged)
}

/// Time, severity, rule, from whom, to whom, what.
fn line(told: &Delivered, report: &Report) -> (Option<Severity>, String) {
    let time = told.time.map_or_else(|| "-".to_string(), |t| t.to_rfc3339());
    if let Some(f) = report.findings.iter().find(|f| f.id == told.id) {
        let end = |address: &str, port: Option<u16>| port.map_or(address.to_string(), |p| format!("{address}:{p}"));
        let from = f.source.as_ref().map_or_else(|| "-".to_string(), |s| end(&s.address, s.port));
        let to = f.target.as_ref().map_or_else(|| "-".to_string(), |t| end(&t.address, t.port));
        let text = format!("{time} {:<8} {} {from} → {to} {} [{}]", f.severity.text(), f.rule, f.explanation, f.id);
        return (Some(f.severity), text);
    }
    match report.incidents.iter().find(|i| i.id == told.id) {
        Some(i) => (None, format!("{time} incident {} [{}]", i.summary, i.id)),
        None => (None, format!("{time} {} [{}]", told.kind, told.id)),
    }
}
