//! Flags that several commands have, each group declared once: hosts and clocks, joining, selection, limits, status.

use std::ffi::OsString;
use std::path::PathBuf;

use super::args;
use super::exit::Exit;
use super::site_facts::SiteFacts;
use crate::analysis::{Options, STANDARD_INPUT};
use crate::capture::PacketFilter;
use crate::net::Network;
use crate::report::model::Report;
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// A parser for clap that checks what was typed with `parse` and keeps the text, because a case file keeps it as typed.
fn checked<T>(parse: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| parse(text).map(|_| text.to_string())
}

/// Names of hosts, and the clocks of their logs.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Hosts, ports and clocks")]
pub(super) struct ClockArgs {
    /// Names of addresses: /etc/hosts, ip addr, kubectl or scontrol output, an inventory (may repeat)
    #[arg(long, value_name = "FILE")]
    pub(super) hosts: Vec<PathBuf>,
    /// The host that a path names: group "host", else the first group, else the match
    #[arg(long, value_name = "REGEX", value_parser = checked(args::pattern), hide_short_help = true)]
    host_pattern: Option<String>,
    /// When a host booted: the origin of the times in its raw dmesg; or a file of such lines (may repeat)
    #[arg(long, value_name = "HOST=TIME|FILE", value_parser = args::boots)]
    boot: Vec<std::vec::Vec<(String, Timestamp)>>,
    /// Zone of log times that name none: +08:00, Asia/Shanghai (may repeat)
    #[arg(long, value_name = "[HOST=]ZONE", value_parser = checked(args::zone))]
    log_tz: Vec<String>,
    /// Names of fields in logs that are JSON, tried before the usual ones: message=NAME,time=NAME,host=NAME
    #[arg(long, value_name = "WHAT=NAME,…", value_parser = checked(|t| t.parse::<crate::oom::LogFields>()), hide_short_help = true)]
    log_field: Option<String>,
}

/// What joins captures and logs: hosts, ports, and how far apart a cause and its kill may lie.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Hosts, ports and clocks")]
pub(super) struct JoinArgs {
    #[command(flatten)]
    pub(super) clocks: ClockArgs,
    /// Ports whose listeners are taken for stores, besides 29500, 29400 and 23456; ranges allowed
    #[arg(long, value_name = "LIST", value_parser = checked(args::ports))]
    port: Vec<String>,
    /// Ports of NCCL bootstrap roots; ranges allowed
    #[arg(long, value_name = "LIST", value_parser = checked(args::ports))]
    nccl_port: Vec<String>,
    /// An ncclUniqueId, as a log or a dump of the environment shows it: it names the bootstrap root (may repeat)
    #[arg(long, value_name = "HEX", value_parser = checked(args::nccl_id), hide_short_help = true)]
    nccl_id: Vec<String>,
    /// Kills this close are one incident even without a common trigger [default: 120s]
    #[arg(long, value_name = "TIME", value_parser = checked(args::duration), hide_short_help = true)]
    window: Option<String>,
    /// A trigger comes at most this long before its kill [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = checked(args::duration), hide_short_help = true)]
    max_lag: Option<String>,
    /// RAM and swap of a host (of all hosts, without HOST): with --overcommit it tells what the kernel grants
    #[arg(long, value_name = "[HOST=]SIZE", value_parser = checked(args::host_memory), hide_short_help = true)]
    host_memory: Vec<String>,
    /// vm.overcommit_memory of a host (of all hosts, without HOST): 0, 1 or 2
    #[arg(long, value_name = "[HOST=]MODE", value_parser = checked(args::overcommit), hide_short_help = true)]
    overcommit: Vec<String>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Captures as users of tshark and tcpdump name them, and which packets of them count.
#[derive(clap::Args, Debug, Clone)]
pub(super) struct CaptureArgs {
    /// The same as a path, as tshark and tcpdump have it (may repeat)
    #[arg(short = 'r', long = "read", value_name = "FILE", hide_short_help = true)]
    pub(super) read: Vec<PathBuf>,
    /// Only packets that this BPF expression passes, as tcpdump has it: 'host 192.0.2.250'
    #[arg(short = 'f', long, value_name = "BPF", value_parser = PacketFilter::new, hide_short_help = true)]
    pub(super) filter: Option<PacketFilter>,
    /// What standard input is called
    #[arg(long, value_name = "NAME", default_value = STANDARD_INPUT, hide_short_help = true)]
    pub(super) label: String,
}

/// What a run may use and keep.
#[derive(clap::Args, Debug, Clone)]
pub(super) struct LimitArgs {
    #[command(flatten)]
    memory: MemoryArgs,
    /// Threads
    #[arg(long, value_name = "N", hide_short_help = true)]
    threads: Option<usize>,
    /// Findings kept, the worst first
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    max_findings: u32,
}

/// What flows and streams may hold.
#[derive(clap::Args, Debug, Clone)]
pub(super) struct MemoryArgs {
    /// Memory for flows and streams
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = args::size, hide_short_help = true)]
    pub(super) memory: u64,
}

/// What of the captures and logs is meant.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Selection")]
pub(super) struct SelectionArgs {
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
}

/// What the exit status says.
#[derive(clap::Args, Debug, Clone)]
pub(super) struct StatusArgs {
    /// Lowest severity that makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "warning", value_parser = args::severity)]
    pub(super) fail_on: Severity,
    /// Exit with 0 whatever was found
    #[arg(long, hide_short_help = true)]
    pub(super) exit_zero: bool,
}

impl ClockArgs {
    /// What was typed, to be kept.
    pub(super) fn setup(&self) -> SiteFacts {
        let boot = self.boot.iter().flatten().map(|(host, time)| format!("{host}={}", time.to_rfc3339()));
        SiteFacts {
            host_pattern: self.host_pattern.clone(),
            boot: boot.collect(),
            log_tz: self.log_tz.clone(),
            log_field: self.log_field.clone(),
            ..SiteFacts::default()
        }
    }
}

impl JoinArgs {
    /// What was typed, to be kept.
    pub(super) fn setup(&self) -> SiteFacts {
        SiteFacts {
            port: self.port.clone(),
            nccl_port: self.nccl_port.clone(),
            nccl_id: self.nccl_id.clone(),
            window: self.window.clone(),
            max_lag: self.max_lag.clone(),
            host_memory: self.host_memory.clone(),
            overcommit: self.overcommit.clone(),
            ..self.clocks.setup()
        }
    }

    /// What `setup` means, with the limits of this run.
    pub(super) fn options(&self, setup: &SiteFacts, arguments: &[OsString]) -> anyhow::Result<Options> {
        let mut options = setup.options()?;
        options.arguments = arguments.iter().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
        options.memory = self.limits.memory.memory;
        options.max_findings = self.limits.max_findings as usize;
        options.threads = self.limits.threads.map_or(options.threads, |n| n.max(1));
        Ok(options)
    }
}

impl SelectionArgs {
    /// Puts the selection into `options`.
    pub(super) fn select(self, options: &mut Options) {
        options.since = self.since;
        options.until = self.until;
        options.only_hosts = self.host;
        options.nets = self.net;
        options.sources = self.source;
        options.all_time = self.all_time;
    }
}

impl StatusArgs {
    /// Whether a report flags something: a finding that is severe enough, or an incident with a trigger.
    fn flagged(&self, report: &Report) -> bool {
        report.findings.iter().any(|f| f.severity >= self.fail_on)
            || report.incidents.iter().any(|i| i.hosts.iter().any(|h| h.trigger.is_some()))
    }

    /// The exit status of a run that reports once.
    pub(super) fn exit(&self, report: &Report, trouble: bool, nothing_read: bool, strict: bool) -> Exit {
        Exit::of(self.flagged(report), trouble, nothing_read, strict, self.exit_zero)
    }
}
