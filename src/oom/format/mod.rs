//! The shapes in which logs arrive: each gives a line its time, host and message.
//!
//! The first byte of a line decides which shapes are tried, so none has to be remembered from line to line and mixed
//! logs cost nothing.

pub(crate) mod container;
pub(crate) mod counter;
pub(crate) mod csv;
pub(crate) mod cuda;
pub(crate) mod dmesg;
pub(crate) mod docker;
pub(crate) mod document;
pub(crate) mod earlyoom;
pub(crate) mod export;
pub(crate) mod journal;
pub(crate) mod klog;
pub(crate) mod kubernetes;
pub(crate) mod oomd;
pub(crate) mod slurm;
pub(crate) mod syslog;

use super::kernel::{self, Saying};
use super::options::Clock;
use super::stamp::Stamp;
use std::borrow::Cow;

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
            Format::Plain => "plain",
        }
    }
}

/// A line without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peeled<'a> {
    pub(crate) format: Format,
    pub(crate) stamp: Option<(Stamp, Clock)>,
    /// Nanoseconds since boot, where printed.
    pub(crate) boot: Option<i64>,
    pub(crate) host: Option<Cow<'a, [u8]>>,
    pub(crate) message: Cow<'a, [u8]>,
}

/// Takes the header off a line of text. Never fails: what has no header is [`Format::Plain`].
pub(crate) fn peel(line: &[u8]) -> Peeled<'_> {
    let mut line = line.trim_ascii_start();
    let mut found = None;
    if let Some((_, rest)) = syslog::priority(line) {
        found = syslog::rfc5424(rest);
        line = rest;
    }
    found
        .or_else(|| match line.first()? {
            b'[' => dmesg::bracketed(line),
            b'0'..=b'9' => dmesg::iso(line)
                .or_else(|| container::cri(line))
                .or_else(|| syslog::iso(line))
                .or_else(|| syslog::rfc5424(line)),
            _ => klog::line(line).or_else(|| syslog::rfc3164(line)).or_else(|| dmesg::prefixed(line)),
        })
        .unwrap_or(Peeled { format: Format::Plain, stamp: None, boot: None, host: None, message: Cow::Borrowed(line) })
}

/// What a message says, by any of the known wordings.
pub(crate) fn understand(message: &[u8]) -> Option<Saying> {
    kernel::parse(message)
        .or_else(|| oomd::parse(message))
        .or_else(|| earlyoom::parse(message))
        .or_else(|| slurm::parse(message))
        .or_else(|| kubernetes::system_oom(message))
        .or_else(|| klog::kubelet(message))
        .or_else(|| cuda::parse(message))
}
