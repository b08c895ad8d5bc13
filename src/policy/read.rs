//! The grammars of the products, as far as policies use them.

use super::coverage::{Coverage, CoverageError};
use crate::net::{Address, Network};
use crate::prescan::Ports;

/// Networks of one range at most.
const MAX_BLOCKS: usize = 256;

fn error(line: usize, what: &'static str, found: &str) -> CoverageError {
    CoverageError::Line { line, what, found: found.chars().take(60).collect() }
}

/// Lines that are no comments, with their numbers.
fn rules(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.split('#').next().unwrap_or_default().trim()));
    lines.filter(|(_, l)| !l.is_empty())
}

fn ports(line: usize, text: &str) -> Result<Ports, CoverageError> {
    Ports::parse(text).map_err(|part| error(line, "a list of ports", &part))
}

/// An address, a network, or a range of addresses.
fn network(line: usize, text: &str) -> Result<Vec<Network>, CoverageError> {
    if let Ok(network) = text.parse() {
        return Ok(vec![network]);
    }
    let wrong = || error(line, "an address or a network", text);
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let address = |t: &str| t.trim().parse::<std::net::IpAddr>().map(Address::from).map_err(|_| wrong());
    let (from, to) = (address(from)?, address(to)?);
    if from > to || from.is_v4() != to.is_v4() {
        return Err(wrong());
    }
    let mut all = Vec::new();
    let mut next = from;
    while all.len() < MAX_BLOCKS {
        let mut block = Network::of(next);
        while let Some(parent) = block.parent().filter(|p| p.ends().0 == next && p.ends().1 <= to) {
            block = parent;
        }
        all.push(block);
        let last = block.ends().1;
        if last >= to {
            return Ok(all);
        }
        next = Address(last.0.saturating_add(1));
    }
    Err(wrong())
}

/// All that is there, parted by spaces or commas.
pub(super) fn networks(text: &str) -> Result<Vec<Network>, CoverageError> {
    let mut all = Vec::new();
    for (i, line) in rules(text) {
        for part in line.split([',', ' ', '\t']).map(str::trim).filter(|p| !p.is_empty()) {
            all.extend(network(i, part)?);
        }
    }
    Ok(all)
}

pub(super) fn nmap(text: &str, coverage: &mut Coverage) -> Result<(), CoverageError> {
    for (i, line) in rules(text) {
        let line = line.replace("--exclude-ports=", "--exclude-ports ").replace("--exclude=", "--exclude ");
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "--exclude-ports" => coverage.ports.extend(&ports(i, words.next().unwrap_or_default())?),
                "--exclude" => {
                    for part in words.next().unwrap_or_default().split(',') {
                        coverage.hosts.extend(network(i, part)?);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

pub(super) fn exclude_directive(text: &str) -> Result<Ports, CoverageError> {
    let mut lines = rules(text).filter_map(|(i, l)| Some((i, l.strip_prefix("Exclude ")?)));
    let (i, list) = lines.next().ok_or(CoverageError::Missing("a line \"Exclude T:...\""))?;
    ports(i, list.trim())
}

/// `key = value` or `key: "value"`.
pub(super) fn settings(
    text: &str,
    sign: char,
    [for_ports, for_hosts]: [&str; 2],
    coverage: &mut Coverage,
) -> Result<(), CoverageError> {
    for (i, line) in rules(text) {
        let Some((key, value)) = line.split_once(sign) else { continue };
        let value = value.trim().trim_matches('"');
        if key.trim() == for_ports {
            coverage.ports.extend(&ports(i, value)?);
        } else if key.trim() == for_hosts {
            for part in value.split(',') {
                coverage.hosts.extend(network(i, part.trim())?);
            }
        }
    }
    Ok(())
}

pub(super) fn nessus(text: &str, coverage: &mut Coverage) -> Result<(), CoverageError> {
    for (i, line) in rules(text) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "reject" => {
                // An IPv6 address has colons of its own; a rule about ports is documented for IPv4 alone.
                let (address, list) = match rest.split_once(':') {
                    Some((address, list)) if !list.contains(':') => (address, Some(list)),
                    _ => (rest, None),
                };
                let all = network(i, address)?;
                match list {
                    None => coverage.hosts.extend(all),
                    Some(list) if address == "0.0.0.0/0" => coverage.ports.extend(&ports(i, list)?),
                    Some(_) => {}
                }
            }
            "default" | "plugin-reject" => {}
            // The first rule that fits holds, so what is accepted above is open whatever stands below.
            _ => return Err(error(i, "reject, plugin-reject or default", line)),
        }
    }
    Ok(())
}

/// The last line that is no comment: ports that are scanned.
pub(super) fn last_line(text: &str) -> Result<Ports, CoverageError> {
    let (i, line) = rules(text).last().ok_or(CoverageError::Missing("a list of ports"))?;
    ports(i, line)
}

pub(super) fn qualys(text: &str) -> Result<Vec<Network>, CoverageError> {
    let ips = text.trim().split('&').find_map(|p| p.strip_prefix("ips=")).ok_or(CoverageError::Missing("ips="))?;
    let mut all = Vec::new();
    for part in ips.split(',').filter(|p| !p.is_empty()) {
        all.extend(network(1, part)?);
    }
    Ok(all)
}

pub(super) fn port_range(text: &str) -> Result<Ports, CoverageError> {
    let inside = text.split_once("<port_range>").and_then(|(_, rest)| rest.split_once("</port_range>"));
    let (list, _) = inside.ok_or(CoverageError::Missing("<port_range>"))?;
    ports(1, list)
}

/// What stands in the elements of a set.
fn set<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let body = text.split_once(&format!("set {name} {{"))?.1;
    let elements = body.split_once("elements")?.1.split_once('{')?.1;
    Some(elements.split_once('}')?.0)
}

pub(super) fn nftables(text: &str, coverage: &mut Coverage) -> Result<(), CoverageError> {
    let rules: String = rules(text).map(|(_, l)| format!("{l}\n")).collect();
    let listed = set(&rules, "ports").ok_or(CoverageError::Missing("set ports"))?;
    if !rules.lines().any(|l| l.contains("@ports") && l.ends_with("drop")) {
        return Err(CoverageError::Missing("a rule that drops @ports"));
    }
    coverage.ports = ports(1, listed)?;
    let of = |names: [&str; 2]| -> Result<Option<Vec<Network>>, CoverageError> {
        let lists: Vec<&str> = names.iter().filter_map(|n| set(&rules, n)).collect();
        let all = lists.iter().map(|l| networks(l)).collect::<Result<Vec<_>, _>>()?;
        Ok((!lists.is_empty()).then(|| all.concat()))
    };
    // Who is let in is named by the rules that shut all others out.
    if rules.contains("saddr != @training") {
        coverage.members = of(["training4", "training6"])?;
    }
    coverage.scanners = of(["scanners4", "scanners6"])?;
    Ok(())
}

/// The TCP ports that are allowed to all.
pub(super) fn kubernetes(text: &str) -> Result<Ports, CoverageError> {
    let mut all = Ports::default();
    let mut open: Option<u16> = None;
    let mut tcp = false;
    let mut seen = false;
    for (i, line) in rules(text) {
        let line = line.trim_start_matches("- ");
        let number = |v: &str| v.trim().parse::<u16>().map_err(|_| error(i, "a port", line));
        match line.split_once(':') {
            Some(("protocol", protocol)) => tcp = protocol.trim() == "TCP",
            Some(("port", port)) if tcp => {
                all.extend(&Ports::range(number(port)?, number(port)?));
                open = Some(number(port)?);
                seen = true;
            }
            Some(("endPort", port)) if tcp => {
                let from = open.ok_or_else(|| error(i, "port before endPort", line))?;
                all.extend(&Ports::range(from, number(port)?.max(from)));
            }
            _ if line.contains("{}") => return Err(error(i, "a rule with ports", line)),
            _ => {}
        }
    }
    if seen { Ok(all) } else { Err(CoverageError::Missing("ports")) }
}

pub(super) fn suricata(text: &str, coverage: &mut Coverage) -> Result<(), CoverageError> {
    let mut seen = false;
    for (i, line) in rules(text).filter(|(_, l)| l.starts_with("alert tcp ")) {
        let (head, _) = line.split_once(" (msg:").ok_or_else(|| error(i, "(msg:", line))?;
        let words: Vec<&str> = head.split(' ').collect();
        let &[_, _, who, _, _, _, list] = words.as_slice() else { return Err(error(i, "a rule of seven parts", head)) };
        let inside = |t: &'_ str| t.trim_start_matches(['!', '[']).trim_end_matches(']').to_owned();
        if line.contains("byte_test:8") {
            coverage.ports.extend(&ports(i, &inside(list).replace(':', "-"))?);
            seen = true;
        }
        if who.starts_with("![") {
            coverage.members.get_or_insert_default().extend(networks(&inside(who))?);
        } else if who.starts_with('[') {
            coverage.scanners.get_or_insert_default().extend(networks(&inside(who))?);
        }
    }
    if seen { Ok(()) } else { Err(CoverageError::Missing("the rule about claims")) }
}

pub(super) fn zeek(text: &str, coverage: &mut Coverage) -> Result<(), CoverageError> {
    let mut claim = false;
    let mut from: Option<u16> = None;
    for (i, line) in rules(text) {
        let number = |v: &str| v.trim().parse::<u16>().map_err(|_| error(i, "a port", line));
        if let Some(name) = line.strip_prefix("signature ") {
            claim = name.starts_with("rdzvscope-claim");
        } else if let Some(list) = line.strip_prefix("dst-port == ").filter(|_| claim) {
            coverage.ports.extend(&ports(i, list)?);
        } else if let Some(port) = line.strip_prefix("dst-port >= ").filter(|_| claim) {
            from = Some(number(port)?);
        } else if let Some(port) = line.strip_prefix("dst-port <= ").filter(|_| claim) {
            let first = from.take().ok_or_else(|| error(i, "dst-port >= before", line))?;
            coverage.ports.extend(&Ports::range(first, number(port)?.max(first)));
        } else if let Some(list) = line.strip_prefix("src-ip != ") {
            let all = networks(&list.replace(['[', ']'], ""))?;
            coverage.members.get_or_insert_default().extend(all);
        } else if let Some(list) = line.strip_prefix("src-ip == ") {
            let all = networks(&list.replace(['[', ']'], ""))?;
            coverage.scanners.get_or_insert_default().extend(all);
        }
    }
    if coverage.ports.is_empty() { Err(CoverageError::Missing("the signature about claims")) } else { Ok(()) }
}
