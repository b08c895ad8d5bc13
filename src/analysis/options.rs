//! What an analysis is asked to do, in meanings rather than flags.

use std::path::PathBuf;

use crate::oom::Zone;
use crate::stream::PortSet;
use crate::time::Timestamp;

/// The ports that rendezvous stores use by default: `torch.distributed` and `torchrun --master_port`, torchrun's c10d
/// rendezvous, and the examples of many frameworks.
pub(super) const DEFAULT_PORTS: [u16; 3] = [29500, 29400, 23456];

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
    /// Ports whose listeners are taken for stores until they show otherwise.
    pub ports: PortSet,
    /// Ports of NCCL bootstrap roots.
    pub nccl_ports: PortSet,
    /// Kills this close are one incident even without a common trigger, in seconds.
    pub window: f64,
    /// A trigger comes at most this long before its kill, in seconds.
    pub max_lag: f64,
    /// Memory for flows and streams, in bytes, all sets together.
    pub memory: u64,
    /// Threads.
    pub threads: usize,
    /// Findings kept.
    pub max_findings: usize,
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
            ports: DEFAULT_PORTS.into_iter().collect(),
            nccl_ports: PortSet::default(),
            window: 120.0,
            max_lag: 900.0,
            memory: 256 << 20,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_findings: 10_000,
        }
    }
}
