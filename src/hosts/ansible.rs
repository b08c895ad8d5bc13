//! Ansible inventories: the addresses that `ansible_host` gives.

use super::read::{ListFormat, Read};
use crate::names::Names;
use crate::oom::is_host;

/// Whether lines are of an inventory that gives addresses.
pub(super) fn opens(lines: &[&str]) -> bool {
    lines.iter().any(|l| l.contains("ansible_host=") || l.trim_start().starts_with("ansible_host:"))
}

pub(super) fn read(text: &str, names: &mut Names) -> Read {
    const REQUIRED: &str = "HOST ansible_host=ADDRESS, or ansible_host: ADDRESS below HOST:";
    let mut read = Read::new(ListFormat::Ansible);
    // YAML: the key above, by its indentation.
    let mut above: Option<(usize, &str)> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let content = line.split(" #").next().unwrap_or_default().trim();
        if content.is_empty() || content.starts_with(['#', ';', '[']) {
            continue;
        }
        let (host, address) = if let Some((host, address)) = ini(content) {
            (Some(host), address)
        } else if let Some(address) = content.strip_prefix("ansible_host:") {
            (above.filter(|(at, _)| *at < indent).map(|(_, name)| name), address)
        } else {
            let key = content.strip_suffix(':').map(unquoted);
            if let Some(key) = key.filter(|k| is_host(k)) {
                above = Some((indent, key));
            }
            continue;
        };
        let address = unquoted(address);
        match (host.filter(|h| is_host(h)), address.parse()) {
            (Some(host), Ok(ip)) => read.pair(names, host, ip),
            (Some(host), Err(_)) if is_host(address) => names.add_alias(address, host),
            _ => read.bad(number, REQUIRED, line),
        }
    }
    read
}

/// `HOST … ansible_host=ADDRESS …`
fn ini(content: &str) -> Option<(&str, &str)> {
    let mut words = content.split_whitespace();
    let host = words.next().filter(|h| !h.contains('='))?;
    words.find_map(|w| w.strip_prefix("ansible_host=")).map(|address| (host, address))
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}
