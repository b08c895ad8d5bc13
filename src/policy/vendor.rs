//! Vulnerability scanners: Nessus, Tenable, Qualys, OpenVAS.

use std::fmt::Write as _;

use serde_json::json;

use super::head::{comment, paragraphs};
use super::nets::{family, list};
use super::product::Product;
use super::scope::Scope;

/// Ports that a list of ports to scan leaves out cost the same everywhere.
const LEFT_OUT: &str = "these ports are scanned on no host for which the list is used, whatever listens there; \
checks that connect to a port of their own accord do not look at the list.";

/// Characters of a comment that Qualys takes.
const QUALYS_COMMENT: usize = 1024;

/// `nessusd.rules`: the first rule that fits holds.
pub(super) fn nessus(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Nessus,
        scope,
        &[
            "every scan of this scanner keeps to it, also those that Tenable.sc and Vulnerability Management start, and no \
report says that something was left out. Restart nessusd afterwards.",
            "a rule about ports is documented for IPv4 alone: IPv6 hosts are rejected whole.",
        ],
    );
    let _ = writeln!(out, "# Use: put these lines above the rules of /opt/nessus/etc/nessus/nessusd.rules");
    for host in &scope.hosts {
        let _ = writeln!(out, "reject {host}");
    }
    for host in family(&scope.fixed_hosts(), false) {
        let _ = writeln!(out, "reject {host}");
    }
    for (from, to) in scope.ports.ranges() {
        let _ = match from == to {
            true => writeln!(out, "reject 0.0.0.0/0:{from}"),
            false => writeln!(out, "reject 0.0.0.0/0:{from}-{to}"),
        };
    }
    out.push_str("default accept\n");
    out
}

/// The body of `POST /exclusions`.
pub(super) fn tenable(scope: &Scope) -> String {
    let text = paragraphs(
        Product::Tenable,
        scope,
        &[
            "nothing is learned of these hosts; an exclusion is for the whole container. It has no ports: see tenable-ports.",
        ],
    );
    let body = json!({
        "name": format!("Training hosts {}", scope.date),
        "description": text.join(" "),
        "members": list(&scope.hosts, ","),
        "schedule": {"enabled": false},
    });
    format!("{body:#}\n")
}

/// The port range of a scan policy.
pub(super) fn tenable_ports(scope: &Scope) -> String {
    ports_to_scan(
        Product::TenablePorts,
        scope,
        "Use: the last line is the port scan range of the policy (Discovery, Port Scanning)",
    )
}

/// The body of a request that adds excluded hosts. It knows addresses and ranges of IPv4, no networks.
pub(super) fn qualys(scope: &Scope) -> String {
    let ranges: Vec<String> = family(&scope.hosts, true)
        .iter()
        .map(|n| {
            let (first, last) = n.ends();
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        })
        .collect();
    let six = family(&scope.hosts, false);
    let mut text = paragraphs(
        Product::Qualys,
        scope,
        &["no scan of the subscription looks at these hosts until somebody takes them off the list."],
    );
    if !six.is_empty() {
        text.insert(1, format!("NOT COVERED: {}, because the list takes IPv4 addresses alone.", list(&six, ", ")));
    }
    let mut comment = text.join(" ");
    if comment.chars().count() > QUALYS_COMMENT {
        comment = format!("{}...", comment.chars().take(QUALYS_COMMENT - 3).collect::<String>());
    }
    format!("action=add&ips={}&comment={}\n", ranges.join(","), encoded(&comment))
}

/// As a form has it.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The port list of an option profile.
pub(super) fn qualys_ports(scope: &Scope) -> String {
    ports_to_scan(
        Product::QualysPorts,
        scope,
        "Use: the last line is the custom TCP port list (Additional) of the option profile, with the standard lists off",
    )
}

fn ports_to_scan(product: Product, scope: &Scope, usage: &str) -> String {
    let mut out = comment("#", product, scope, &[LEFT_OUT]);
    let _ = writeln!(out, "# {usage}");
    let _ = writeln!(out, "{}", scope.ports.complement().text());
    out
}

/// A port list, as GMP: `gvm-cli socket --xml "$(cat FILE)"`.
pub(super) fn openvas(scope: &Scope) -> String {
    let text = paragraphs(Product::Openvas, scope, &[LEFT_OUT, "the list has no UDP ports."]);
    let ranges: Vec<String> = scope
        .ports
        .complement()
        .ranges()
        .iter()
        .map(|(from, to)| if from == to { format!("T:{from}") } else { format!("T:{from}-{to}") })
        .collect();
    let element = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<create_port_list>\n  <name>No rendezvous ports {}</name>\n  <comment>{}</comment>\n  <port_range>{}</port_range>\n</create_port_list>\n",
        element(&scope.date),
        element(&text.join(" ")),
        ranges.join(",")
    )
}

/// The text of the field `Exclude Hosts`.
pub(super) fn openvas_hosts(scope: &Scope) -> String {
    // The field takes no comments: what a target needs stands alone, the reasons are in the port list.
    format!("{}\n", list(&scope.hosts, ","))
}
