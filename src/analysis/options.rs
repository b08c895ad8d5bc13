//! What an analysis is asked to do, in meanings rather than flags.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::capture::{Limits, PacketFilter};
use crate::names::short;
use crate::net::{Address, Network};
use crate::oom::{LogFields, Zone};
use crate::protocol::tcpstore::server::Policy;
use crate::stream::PortSet;
use crate::time::Timestamp;

/// The ports that rendezvous stores use by default: `torch.distributed` and `torchrun --master_port`, torchrun's c10d
/// rendezvous, and the examples of many frameworks.
pub(super) const DEFAULT_PORTS: [u16; 3] = [29500, 29400, 23456];

/// What standard input is called in reports.
pub const STANDARD_INPUT: &str = "standard input";

/// A path, with the host that it was named for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The host of `HOST=PATH`.
    pub host: Option<String>,
    /// The path.
    pub path: PathBuf,
}

/// An analysis.
#[derive(Clone)]
pub struct Options {
    /// The command line as it was given, without the program's name.
    pub arguments: Vec<String>,
    /// Files and directories of any kind; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// Logs.
    pub oom: Vec<Named>,
    /// Hosts lists.
    pub hosts: Vec<PathBuf>,
    /// The host that a path names: the group `host`, else the first group, else the whole match.
    pub host_pattern: Option<regex_lite::Regex>,
    /// When hosts booted.
    pub boot: Vec<(String, Timestamp)>,
    /// The zone of local times in logs.
    pub log_zone: Option<Zone>,
    /// The same for single hosts.
    pub host_zones: Vec<(String, Zone)>,
    /// Names of fields in logs that are JSON.
    pub log_fields: LogFields,
    /// Ports whose listeners are taken for stores until they show otherwise.
    pub ports: PortSet,
    /// Ports of NCCL bootstrap roots.
    pub nccl_ports: PortSet,
    /// `ncclUniqueId`s as hex.
    pub nccl_ids: Vec<String>,
    /// Kills this close are one incident even without a common trigger, in seconds.
    pub window: f64,
    /// A trigger comes at most this long before its kill, in seconds.
    pub max_lag: f64,
    /// Memory for flows and streams, in bytes, all sets together.
    pub memory: u64,
    /// Threads.
    pub threads: usize,
    /// RAM and swap, in bytes, of one host or of all.
    pub host_memory: Vec<(Option<String>, u64)>,
    /// `vm.overcommit_memory` (0, 1 or 2), of one host or of all.
    pub overcommit: Vec<(Option<String>, u8)>,
    /// Findings kept.
    pub max_findings: usize,
    /// Approved sources, and what they are called.
    pub known_sources: Vec<(Network, String)>,
    /// Every capture is read whole, whatever time it is of.
    pub all_time: bool,
    /// Nothing before this instant counts.
    pub since: Option<Timestamp>,
    /// Nothing after this instant counts.
    pub until: Option<Timestamp>,
    /// Only these hosts, by name or address; all if empty.
    pub only_hosts: Vec<String>,
    /// Only flows to or from these networks; all if empty.
    pub nets: Vec<Network>,
    /// Only findings whose source lies in these networks; all if empty.
    pub sources: Vec<Network>,
    /// Lines that look like an OOM and were not understood, shown of each log.
    pub examples: usize,
    /// List kills only: they are joined with nothing, and make no incidents.
    pub kills_only: bool,
    /// Whether to tell on standard error how far reading is.
    pub progress: bool,
    /// What standard input is called.
    pub label: String,
    /// Only packets that it passes are looked at.
    pub filter: Option<PacketFilter>,
    /// Set from outside: reading stops, and what was read is reported.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            arguments: Vec::new(),
            paths: Vec::new(),
            oom: Vec::new(),
            hosts: Vec::new(),
            host_pattern: None,
            boot: Vec::new(),
            log_zone: None,
            host_zones: Vec::new(),
            log_fields: LogFields::default(),
            ports: DEFAULT_PORTS.into_iter().collect(),
            nccl_ports: PortSet::default(),
            nccl_ids: Vec::new(),
            window: 120.0,
            max_lag: 900.0,
            memory: 256 << 20,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            host_memory: Vec::new(),
            overcommit: Vec::new(),
            max_findings: 10_000,
            known_sources: Vec::new(),
            all_time: false,
            since: None,
            until: None,
            only_hosts: Vec::new(),
            nets: Vec::new(),
            sources: Vec::new(),
            examples: 3,
            kills_only: false,
            progress: false,
            label: STANDARD_INPUT.to_string(),
            filter: None,
            stop: None,
        }
    }
}

impl Options {
    /// What a capture is called in a report: its path, or the name of standard input.
    pub(super) fn name_of(&self, capture: &Path) -> String {
        if capture == Path::new("-") { self.label.clone() } else { capture.to_string_lossy().into_owned() }
    }

    /// What the user calls a source: by the last `--known-source` that holds it.
    pub fn label_of(&self, source: Address) -> Option<&str> {
        self.known_sources.iter().rev().find(|(net, _)| net.contains(source)).map(|(_, label)| label.as_str())
    }

    /// The zone that was given for the log of a host (`--log-tz`).
    pub(super) fn zone_of_log(&self, host: Option<&str>, names: &crate::names::Names) -> Option<Zone> {
        let own = host.and_then(|h| self.host_zones.iter().find(|(name, _)| names.same(name, h)));
        own.map(|(_, zone)| *zone).or(self.log_zone)
    }

    /// How captures are read.
    pub fn limits(&self) -> Limits {
        Limits { filter: self.filter.clone(), ..Limits::default() }
    }

    /// Whether an instant lies between `since` and `until`.
    pub fn in_time(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|s| s <= at) && self.until.is_none_or(|u| at <= u)
    }

    /// What the kernel of a host grants, as far as it was told. What is said of one host wins over what is said of all.
    pub fn policy_of(&self, host: Option<&str>) -> Policy {
        fn of<T: Copy>(list: &[(Option<String>, T)], host: Option<&str>) -> Option<T> {
            let own =
                list.iter().rev().find(|(h, _)| h.as_deref().zip(host).is_some_and(|(a, b)| short(a) == short(b)));
            own.or_else(|| list.iter().rev().find(|(h, _)| h.is_none())).map(|(_, value)| *value)
        }
        match (of(&self.overcommit, host), of(&self.host_memory, host)) {
            (Some(1), _) => Policy::Always,
            (Some(0), Some(ram_and_swap)) => Policy::Heuristic { ram_and_swap },
            (Some(2), Some(available)) => Policy::Strict { available },
            _ => Policy::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_host_wins() {
        let options = Options {
            overcommit: vec![(None, 0), (Some("node-a".into()), 1)],
            host_memory: vec![(None, 1 << 30)],
            ..Options::default()
        };
        assert_eq!(options.policy_of(Some("node-a.example.org")), Policy::Always);
        assert_eq!(options.policy_of(Some("node-b")), Policy::Heuristic { ram_and_swap: 1 << 30 });
        assert_eq!(options.policy_of(None), Policy::Heuristic { ram_and_swap: 1 << 30 });
        assert_eq!(Options { overcommit: vec![(None, 0)], ..Options::default() }.policy_of(None), Policy::Unknown);
    }
}
