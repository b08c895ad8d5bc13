//! The rule that closes the ports at once, with the addresses of this report.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::model::{Cause, Incident, Report};

/// Addresses that a rule spells out; a longer list belongs into a file of its own.
const MOST: usize = 16;

/// Lines for `nft -f`, or nothing where a firewall does not help: no trigger, or one sent by a host of the job itself.
///
/// Only what parses as an address gets into them, so no text from outside does.
pub(super) fn rule(report: &Report, incident: &Incident) -> Vec<String> {
    let triggers = super::view::triggers(report, incident);
    let ports: BTreeSet<u16> = triggers.iter().filter_map(|f| f.target.as_ref()?.port).collect();
    let senders: BTreeSet<IpAddr> =
        triggers.iter().filter_map(|f| f.source.as_ref()?.address.parse().ok()).take(MOST).collect();
    let hosts = members(report, incident);
    if ports.is_empty()
        || matches!(incident.cause, Cause::VersionMismatch | Cause::LaunchMismatch)
        || hosts.iter().any(|h| senders.contains(h))
    {
        return Vec::new();
    }
    let ports: Vec<String> = ports.iter().take(MOST).map(u16::to_string).collect();
    let ports = format!("tcp dport {{ {} }}", ports.join(", "));
    let mut lines = vec![
        "table inet rendezvous {".to_string(),
        "  chain input {".to_string(),
        "    type filter hook input priority -10; policy accept;".to_string(),
        format!("    iif \"lo\" {ports} accept"),
    ];
    for (family, v4) in [("ip", true), ("ip6", false)] {
        let of_family = |all: &BTreeSet<IpAddr>| -> Vec<String> {
            all.iter().filter(|a| a.is_ipv4() == v4).take(MOST).map(IpAddr::to_string).collect()
        };
        let (hosts, senders) = (of_family(&hosts), of_family(&senders));
        if !hosts.is_empty() {
            lines.push(format!("    {family} saddr != {{ {} }} {ports} counter drop", hosts.join(", ")));
        } else if !senders.is_empty() {
            lines.push(format!("    {family} saddr {{ {} }} {ports} counter drop", senders.join(", ")));
        }
    }
    lines.push("  }".to_string());
    lines.push("}".to_string());
    lines
}

/// The same for `nft 'RULES'`: semicolons where lines end.
pub(super) fn on_one_line(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim());
        text.push_str(if text.ends_with(['{', ';']) { " " } else { "; " });
    }
    text.trim_end_matches([';', ' ']).to_string()
}

/// The addresses that are known to belong to the cluster: hosts of the incident, its survivors, stores, job members.
fn members(report: &Report, incident: &Incident) -> BTreeSet<IpAddr> {
    let hosts = incident.hosts.iter().filter_map(|h| h.address.as_deref());
    let survivors = incident.survivors.iter().filter_map(|s| s.address.as_deref());
    let stores = report.listeners.iter().filter(|l| l.dialect.is_some()).map(|l| l.address.as_str());
    let ranks = report.jobs.iter().flat_map(|j| &j.participants).filter_map(|p| p.address.as_deref());
    let all = hosts.chain(survivors).chain(stores).chain(ranks);
    all.filter_map(|a| a.parse::<IpAddr>().ok()).filter(|a| !a.is_loopback()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Finding, IncidentHost, Sender, Target};

    fn report(cause: Cause, source: &str, host: &str) -> Report {
        let finding = Finding {
            id: "f".into(),
            source: Some(Sender { address: source.into(), port: Some(5) }),
            target: Some(Target { address: host.into(), port: Some(29500), host: None }),
            ..Finding::default()
        };
        let part = IncidentHost { address: Some(host.into()), trigger: Some("f".into()), ..IncidentHost::default() };
        let incident = Incident { cause, hosts: vec![part], ..Incident::default() };
        Report { findings: vec![finding], incidents: vec![incident], ..Report::default() }
    }

    fn text(r: &Report) -> String {
        rule(r, &r.incidents[0]).join("\n")
    }

    #[test]
    fn strangers_are_kept_out_by_the_family_of_the_hosts() {
        let four = text(&report(Cause::Scan, "192.0.2.250", "192.0.2.11"));
        assert!(four.contains("ip saddr != { 192.0.2.11 } tcp dport { 29500 } counter drop"), "{four}");
        let six = text(&report(Cause::Scan, "2001:db8::250", "2001:db8::11"));
        assert!(six.contains("ip6 saddr != { 2001:db8::11 }") && !six.contains("ip saddr"), "{six}");
        let unknown = text(&report(Cause::Scan, "192.0.2.250", "host-1"));
        assert!(unknown.contains("ip saddr { 192.0.2.250 }"), "{unknown}");
    }

    #[test]
    fn a_shell_takes_it_on_one_line() {
        let r = report(Cause::Scan, "192.0.2.250", "192.0.2.11");
        let line = on_one_line(&rule(&r, &r.incidents[0]));
        let ends = line.starts_with("table inet rendezvous { chain input { type") && line.ends_with("drop; }; }");
        assert!(ends && !line.contains(";;") && !line.contains('\''), "{line}");
    }

    #[test]
    fn a_member_of_the_job_is_not_kept_out() {
        assert_eq!(text(&report(Cause::VersionMismatch, "192.0.2.12", "192.0.2.11")), "");
        assert_eq!(text(&report(Cause::Scan, "192.0.2.11", "192.0.2.11")), "");
        assert!(!text(&report(Cause::Scan, "x; flush ruleset", "192.0.2.11")).contains("flush"));
    }
}
