//! What is read of one list of hosts.

use crate::names::Names;

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListFormat {
    /// An address and names a line.
    EtcHosts,
    /// `ip -br addr`: `eth0 UP 192.0.2.11/24`; the host from elsewhere, or from a label or block around the lines.
    IpBrief,
    /// `ip -j addr`.
    IpJson,
    /// Nodes and pods as JSON.
    Kubernetes,
    /// `scontrol show node`.
    Slurm,
    /// An Ansible inventory, INI or YAML.
    Ansible,
    /// Facts that `contrib/collect.sh` printed.
    Collected,
}

impl ListFormat {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ListFormat::EtcHosts => "hosts",
            ListFormat::IpBrief => "ip-brief",
            ListFormat::IpJson => "ip-json",
            ListFormat::Kubernetes => "kubernetes",
            ListFormat::Slurm => "scontrol",
            ListFormat::Ansible => "ansible-inventory",
            ListFormat::Collected => "collected",
        }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The form it was taken for.
    pub form: ListFormat,
    /// Pairs of host and address in it.
    pub pairs: u64,
    /// The first lines that were not understood.
    pub errors: Vec<LineError>,
    /// How many there were.
    pub not_understood: u64,
}

impl Read {
    pub(super) fn new(form: ListFormat) -> Self {
        Read { form, pairs: 0, errors: Vec::new(), not_understood: 0 }
    }

    pub(super) fn bad(&mut self, line: usize, required: &'static str, found: &str) {
        self.not_understood += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(LineError::new(line, required, found));
        }
    }

    /// Notes a pair, unless the address names no host on a network.
    pub(super) fn pair(&mut self, names: &mut Names, host: &str, ip: std::net::IpAddr) {
        if names_a_host(ip) {
            names.add(host, ip.into());
            self.pairs += 1;
        }
    }
}

/// Whether an address can tell a host from others: no loopback, multicast, unspecified or link-local one.
pub(super) fn names_a_host(ip: std::net::IpAddr) -> bool {
    let local = match ip {
        std::net::IpAddr::V4(a) => a.is_link_local(),
        std::net::IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    !(ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || local)
}

/// A line that gave no host where one was required.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: required {required}, there was {found:?}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// What the form requires.
    pub required: &'static str,
    /// The line's beginning.
    pub found: String,
}

impl LineError {
    pub(super) fn new(line: usize, required: &'static str, found: &str) -> Self {
        LineError { line: line as u64 + 1, required, found: found.trim().chars().take(80).collect() }
    }
}

/// Errors kept of one text.
pub(super) const MAX_ERRORS: usize = 100;
