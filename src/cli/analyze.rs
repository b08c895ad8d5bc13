//! `rdzvscope analyze`: the main job.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args;
use super::exit::Exit;
use super::output::{OutputArgs, complain, shown};
use super::setup::Setup;
use crate::analysis::{Named, Options, analyze};
use crate::evidence::Pile;
use crate::net::Network;
use crate::oom::Zone;
use crate::report::carve;
use crate::time::Timestamp;
use crate::watch::evidence_of;
use crate::words::Severity;

/// Arguments of `analyze`.
#[derive(clap::Args, Debug)]
#[command(
    about = "From a folder of captures and logs to a verdict",
    after_help = "Examples:
  rdzvscope analyze captures/ --oom logs/ --hosts hosts
  rdzvscope analyze node-*.pcap --oom node-a=dmesg.txt --boot node-a=2026-11-29T11:12:08Z
  tcpdump -i eth0 -w - | rdzvscope analyze - --port 29500-29510
  rdzvscope analyze incident/ --format html -o report.html
  rdzvscope analyze incident/ --format json -o report.json --carve flagged.pcapng
  pdsh -a 'rdzvscope analyze /var/lib/pcap --oom /var/log --format jsonl' | rdzvscope merge -

Exit status: 0 nothing flagged, 1 flagged, 2 trouble."
)]
pub(super) struct Args {
    /// Captures, logs, hosts lists, or directories of these; - is a capture on standard input
    #[arg(value_name = "PATH", required_unless_present = "oom")]
    paths: Vec<PathBuf>,
    /// A log, or a directory of logs; HOST= names the host it is of (may repeat)
    #[arg(long, value_name = "[HOST=]PATH", value_parser = args::named)]
    oom: Vec<Named>,
    /// Names of addresses: /etc/hosts, ip addr, kubectl or scontrol output, an inventory (may repeat)
    #[arg(long, value_name = "FILE")]
    hosts: Vec<PathBuf>,
    /// The host that a path names: group "host", else the first group, else the match
    #[arg(long, value_name = "REGEX", value_parser = args::pattern, hide_short_help = true)]
    host_pattern: Option<regex_lite::Regex>,
    /// When a host booted: the origin of the times in its raw dmesg; or a file of such lines (may repeat)
    #[arg(long, value_name = "HOST=TIME|FILE", value_parser = args::boots)]
    boot: Vec<std::vec::Vec<(String, Timestamp)>>,
    /// Zone of log times that name none: +08:00, Asia/Shanghai (may repeat)
    #[arg(long, value_name = "[HOST=]ZONE", value_parser = args::zone)]
    log_tz: Vec<(Option<String>, Zone)>,
    /// Ports whose listeners are taken for stores, besides 29500, 29400 and 23456; ranges allowed
    #[arg(long, value_name = "LIST", value_parser = args::ports)]
    port: Vec<std::vec::Vec<u16>>,
    /// Ports of NCCL bootstrap roots; ranges allowed
    #[arg(long, value_name = "LIST", value_parser = args::ports)]
    nccl_port: Vec<std::vec::Vec<u16>>,
    /// Kills this close are one incident even without a common trigger
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = args::duration, hide_short_help = true)]
    window: f64,
    /// A trigger comes at most this long before its kill
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = args::duration, hide_short_help = true)]
    max_lag: f64,
    /// RAM and swap of a host (of all hosts, without HOST): with --overcommit it tells what the kernel grants
    #[arg(long, value_name = "[HOST=]SIZE", value_parser = args::host_memory, hide_short_help = true)]
    host_memory: Vec<(Option<String>, u64)>,
    /// vm.overcommit_memory of a host (of all hosts, without HOST): 0, 1 or 2
    #[arg(long, value_name = "[HOST=]MODE", value_parser = args::overcommit, hide_short_help = true)]
    overcommit: Vec<(Option<String>, u8)>,
    /// A name for approved sources, such as your scanners (may repeat)
    #[arg(long, value_name = "CIDR=LABEL", value_parser = args::known_source)]
    known_source: Vec<(Network, String)>,
    /// Nothing before this instant counts
    #[arg(long, value_name = "TIME", value_parser = args::instant)]
    since: Option<Timestamp>,
    /// Nothing after this instant counts
    #[arg(long, value_name = "TIME", value_parser = args::instant)]
    until: Option<Timestamp>,
    /// Only this host's flows and kills (may repeat)
    #[arg(long, value_name = "ADDRESS|NAME")]
    host: Vec<String>,
    /// Only flows to or from this network, and kills of its hosts (may repeat)
    #[arg(long, value_name = "CIDR", value_parser = args::network, hide_short_help = true)]
    net: Vec<Network>,
    /// Only findings whose source lies in this network (may repeat)
    #[arg(long, value_name = "CIDR", value_parser = args::network, hide_short_help = true)]
    source: Vec<Network>,
    /// Read all captures whole; by default, with logs, only those that can hold the time before a kill
    #[arg(long, hide_short_help = true)]
    all_time: bool,
    /// Lowest severity that makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = severity)]
    fail_on: Severity,
    /// Any input that was named and not read makes the exit status 2
    #[arg(long, hide_short_help = true)]
    strict: bool,
    /// Exit with 0 whatever was found
    #[arg(long)]
    exit_zero: bool,
    /// Threads
    #[arg(long, value_name = "N", hide_short_help = true)]
    threads: Option<usize>,
    /// Memory for flows and streams
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = args::size, hide_short_help = true)]
    memory: u64,
    /// Findings kept, the worst first
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    max_findings: u32,
    /// Write the flows of what was flagged at warning or above there, as pcapng with a comment on each flagged packet
    #[arg(long, value_name = "FILE")]
    carve: Option<PathBuf>,
    /// Write the whole capture there (there must be one alone), as pcapng with a comment on each packet of a finding
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    annotate: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_text(text).ok_or_else(|| {
        let all: Vec<&str> = Severity::ALL.iter().map(|s| s.text()).collect();
        format!("one of {} was required, {text:?} was there", all.join(", "))
    })
}

/// Runs it.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    let veil = a.output.redact.veil()?;
    let mut options = Options {
        arguments: arguments.iter().skip(1).map(|a| a.to_string_lossy().into_owned()).collect(),
        paths: a.paths,
        oom: a.oom,
        hosts: a.hosts,
        host_pattern: a.host_pattern,
        boot: a.boot.into_iter().flatten().collect(),
        known_sources: a.known_source,
        since: a.since,
        until: a.until,
        only_hosts: a.host,
        nets: a.net,
        sources: a.source,
        all_time: a.all_time,
        progress: !a.output.quiet,
        stop: super::stop::on_interrupt(),
        window: a.window,
        max_lag: a.max_lag,
        memory: a.memory,
        host_memory: a.host_memory,
        overcommit: a.overcommit,
        max_findings: a.max_findings as usize,
        ..Options::default()
    };
    a.port.iter().flatten().for_each(|p| options.ports.insert(*p));
    a.nccl_port.iter().flatten().for_each(|p| options.nccl_ports.insert(*p));
    for (host, zone) in a.log_tz {
        match host {
            Some(host) => options.host_zones.push((host, zone)),
            None => options.log_zone = Some(zone),
        }
    }
    if let Some(threads) = a.threads {
        options.threads = threads.max(1);
    }
    let analysis = analyze(&options);
    let facts = if a.output.is_evidence() && !analysis.stopped {
        evidence_of(&options, Some(&Setup::of_options(&options).text()?))?
    } else {
        Pile::default()
    };
    a.output.write_with(&analysis.report, &facts, veil.as_ref())?;
    if let Some(path) = &a.carve {
        let written = carve::carve(&analysis.report, &analysis.captures, path, veil.as_ref())?;
        if written.packets == 0 {
            complain(&format!("{}: holds no packet, for none was flagged at warning or above", shown(path)));
        }
    }
    if let Some(path) = &a.annotate {
        carve::annotate(&analysis.report, &analysis.captures, path, veil.as_ref())?;
    }
    for input in analysis.report.inputs.iter() {
        if let Some(error) = &input.error {
            complain(&format!("{}: {error}", input.path));
        }
    }
    if analysis.stopped {
        complain("reading was stopped: the report is of what was read until then");
        return Ok(Exit::Trouble);
    }
    let flagged = analysis.report.findings.iter().any(|f| f.severity >= a.fail_on)
        || analysis.report.incidents.iter().any(|i| i.hosts.iter().any(|h| h.trigger.is_some()));
    Ok(Exit::of(flagged, analysis.trouble, analysis.nothing_read, a.strict, a.exit_zero))
}
