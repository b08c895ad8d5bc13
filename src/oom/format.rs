//! The names of the shapes in which logs arrive.

/// The shape of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// `[  521.653666] …`
    DmesgRaw,
    /// `dmesg -T`
    DmesgTime,
    /// `dmesg --time-format iso`
    DmesgIso,
    /// `Nov 14 22:14:25 host kernel: …`
    Rfc3164,
    /// `2023-11-14T22:14:25.512040+00:00 host kernel: …` (rsyslog, `journalctl -o short-iso`)
    SyslogIso,
    /// `<3>1 2023-11-14T22:14:25.512040Z host kernel - - - …`
    Rfc5424,
    /// `journalctl -o json`
    JournalJson,
    /// `journalctl -o export`
    JournalExport,
    /// Kubernetes objects as JSON: events, pods, their lists.
    Kubernetes,
    /// `docker inspect`
    Docker,
    /// `[2023-11-14T22:14:25.512] …` (slurmd)
    Slurm,
    /// `host,time[,process]`
    Csv,
    /// `2023-11-14T22:14:25.512040123Z stderr F …` (containerd, CRI-O)
    Cri,
    /// `{"log":…,"stream":…,"time":…}` (Docker's json-file)
    DockerLog,
    /// `E1129 11:20:39.123456    1234 kubelet.go:1234] …`
    Klog,
    /// `oom_kill 2` of `memory.events`, and other counters
    Counters,
    /// What `contrib/collect.sh` prints.
    Collected,
    /// JSON of a log store or shipper, by its message, time and host.
    Json,
    /// `sacct`, `scontrol show job`, `jobcomp`
    SlurmRecord,
    /// `kubectl describe` and `kubectl get` as text
    Kubectl,
    /// Text without a time.
    Plain,
}

impl Format {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Format::DmesgRaw => "dmesg",
            Format::DmesgTime => "dmesg-T",
            Format::DmesgIso => "dmesg-iso",
            Format::Rfc3164 => "syslog-rfc3164",
            Format::SyslogIso => "syslog-iso",
            Format::Rfc5424 => "syslog-rfc5424",
            Format::JournalJson => "journal-json",
            Format::JournalExport => "journal-export",
            Format::Kubernetes => "kubernetes",
            Format::Docker => "docker-inspect",
            Format::Slurm => "slurm",
            Format::Csv => "csv",
            Format::Cri => "cri",
            Format::DockerLog => "docker-json",
            Format::Klog => "klog",
            Format::Counters => "counters",
            Format::Collected => "collected",
            Format::Json => "json",
            Format::SlurmRecord => "slurm-accounting",
            Format::Kubectl => "kubectl",
            Format::Plain => "plain",
        }
    }
}
