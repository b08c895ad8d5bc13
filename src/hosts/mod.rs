//! Forms in which lists of hosts and their addresses arrive, all read into [`Names`].
//!
//! A text is sniffed as a whole: `/etc/hosts`, `ip -br addr`, `ip -j addr`, `kubectl get nodes,pods -A -o json`,
//! `scontrol show node`, Ansible inventories, and what `contrib/collect.sh` prints.

mod ansible;
mod ip;
mod kubernetes;
mod slurm;

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
    fn new(line: usize, required: &'static str, found: &str) -> Self {
        LineError { line: line as u64 + 1, required, found: found.trim().chars().take(80).collect() }
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

/// Errors kept of one text.
const MAX_ERRORS: usize = 100;

impl Read {
    fn new(form: ListFormat) -> Self {
        Read { form, pairs: 0, errors: Vec::new(), not_understood: 0 }
    }

    fn bad(&mut self, line: usize, required: &'static str, found: &str) {
        self.not_understood += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(LineError::new(line, required, found));
        }
    }

    /// Notes a pair, unless the address names no host on a network.
    fn pair(&mut self, names: &mut Names, host: &str, ip: std::net::IpAddr) {
        if names_a_host(ip) {
            names.add(host, ip.into());
            self.pairs += 1;
        }
    }
}

/// Whether an address can tell a host from others: no loopback, multicast, unspecified or link-local one.
fn names_a_host(ip: std::net::IpAddr) -> bool {
    let local = match ip {
        std::net::IpAddr::V4(a) => a.is_link_local(),
        std::net::IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    !(ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || local)
}

/// The form of a text, or `None` if it is none of them. `head` may be its beginning only.
pub fn sniff(head: &str) -> Option<ListFormat> {
    let lines: Vec<&str> =
        head.lines().map(str::trim_end).filter(|l| !l.trim().is_empty() && !l.starts_with('#')).take(64).collect();
    let most = |n: usize| n * 2 > lines.len() && n > 0;
    let count = |is: &dyn Fn(&str) -> bool| lines.iter().filter(|l| is(l)).count();
    let first = lines.first()?.trim_start();
    if count(&|l| crate::oom::is_collected(l)) > 0 {
        return Some(ListFormat::Collected);
    }
    let json = ip::label(first).1;
    if json.starts_with('[') && (head.contains("\"ifname\"") || head.contains("\"addr_info\"")) {
        return Some(ListFormat::IpJson);
    }
    if json.starts_with('{') {
        let kind = ["\"List\"", "\"NodeList\"", "\"PodList\"", "\"Node\"", "\"Pod\""].iter().any(|k| head.contains(k));
        return (kind && head.contains("\"kind\"")).then_some(ListFormat::Kubernetes);
    }
    if count(&|l| l.starts_with("NodeName=")) > 0 {
        return Some(ListFormat::Slurm);
    }
    if most(count(&|l| ip::brief(ip::label(l).1).is_some() || ip::is_rule(l))) {
        return Some(ListFormat::IpBrief);
    }
    if most(count(&is_hosts_line)) {
        return Some(ListFormat::EtcHosts);
    }
    ansible::opens(&lines).then_some(ListFormat::Ansible)
}

fn is_hosts_line(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let address = words.next().and_then(|w| w.split('%').next());
    let name = words.next();
    address.is_some_and(|a| a.parse::<std::net::IpAddr>().is_ok())
        && name.is_some_and(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)))
}

/// Reads a list of whatever form into `names`. `host` is the host that the file's name suggests, for forms that name
/// none. What no form fits is read as `/etc/hosts`, whose errors then say what was required.
pub fn read(text: &str, host: Option<&str>, names: &mut Names) -> Read {
    match sniff(text) {
        Some(ListFormat::IpBrief) => ip::read_brief(text, host, names),
        Some(ListFormat::IpJson) => ip::read_json(text, host, names),
        Some(ListFormat::Kubernetes) => kubernetes::read(text, names),
        Some(ListFormat::Slurm) => slurm::read(text, names),
        Some(ListFormat::Ansible) => ansible::read(text, names),
        Some(ListFormat::Collected) => collected(text, names),
        Some(ListFormat::EtcHosts) | None => {
            let mut read = Read::new(ListFormat::EtcHosts);
            let errors = names.read_hosts(text);
            let lines = text.lines().filter(|l| !l.split('#').next().unwrap_or_default().trim().is_empty()).count();
            read.pairs = (lines.saturating_sub(errors.len())) as u64;
            read.not_understood = errors.len() as u64;
            read.errors = errors
                .into_iter()
                .take(MAX_ERRORS)
                .map(|e| LineError { line: e.line, required: "an address and a name", found: e.found })
                .collect();
            read
        }
    }
}

fn collected(text: &str, names: &mut Names) -> Read {
    let mut read = Read::new(ListFormat::Collected);
    let (facts, errors) = crate::oom::read_facts(text);
    for f in facts {
        for address in &f.addresses {
            read.pair(names, &f.host, address.ip());
        }
    }
    read.not_understood = errors.len() as u64;
    read.errors = errors
        .into_iter()
        .take(MAX_ERRORS)
        .map(|e| LineError { line: e.line, required: "`rdzvscope/1 HOST KEY VALUE`", found: e.found })
        .collect();
    read
}

#[cfg(test)]
mod tests;
