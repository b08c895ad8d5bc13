//! Forms in which lists of hosts and their addresses arrive, all read into [`Names`].
//!
//! A text is sniffed as a whole: `/etc/hosts`, `ip -br addr`, `ip -j addr`, `kubectl get nodes,pods -A -o json`,
//! `scontrol show node`, Ansible inventories, and what `contrib/collect.sh` prints.

mod ansible;
mod ip;
mod kubernetes;
mod read;
mod slurm;

use crate::names::Names;
pub use read::LineError;
use read::MAX_ERRORS;
use read::names_a_host;
pub use read::{ListFormat, Read};

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
