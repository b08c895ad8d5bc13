//! Port scanners: nmap, masscan, naabu.

use std::fmt::Write as _;

use super::head::comment;
use super::nets::list;
use super::product::Product;
use super::scope::Scope;

/// The options, on one line.
pub(super) fn nmap(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Nmap,
        scope,
        &[
            "--exclude-ports leaves the ports out of host discovery (-PS, -PA) too, and nothing is reported about them; \
what an option -p or -F names besides is scanned as before.",
            "--exclude leaves the hosts out whole: nothing is learned of them. Agree on another control for them.",
        ],
    );
    let _ = writeln!(out, "# Use: nmap $(grep -v '^#' {}) and your own options", Product::Nmap.file());
    let mut options = Vec::new();
    if !scope.ports.is_empty() {
        options.push(format!("--exclude-ports {}", scope.ports.text()));
    }
    if !scope.hosts.is_empty() {
        options.push(format!("--exclude {}", list(&scope.hosts, ",")));
    }
    let _ = writeln!(out, "{}", options.join(" "));
    out
}

/// A network a line.
pub(super) fn nmap_hosts(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::NmapHosts,
        scope,
        &["nothing is learned of these hosts, by no option. Agree on another control for them."],
    );
    let _ = writeln!(out, "# Use: nmap --excludefile {}", Product::NmapHosts.file());
    let _ = writeln!(out, "{}", list(&scope.hosts, "\n"));
    out
}

/// The directive for a copy of nmap's file of probes.
pub(super) fn nmap_detection(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::NmapDetection,
        scope,
        &[
            "version detection (-sV, -A) alone leaves these ports alone: the port scan reaches them (a connect scan, -sT, \
finishes connections), scripts (-sC, --script) run against them, and --allports undoes it.",
        ],
    );
    let _ = writeln!(
        out,
        "# Use: put this line in place of the line Exclude of a copy of nmap-service-probes (it takes one), then nmap --versiondb COPY"
    );
    let mut ports = scope.excluded_by_nmap.clone();
    ports.extend(&scope.ports);
    let _ = writeln!(out, "Exclude T:{}", ports.text());
    out
}

/// A file for `masscan -c`.
pub(super) fn masscan(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Masscan,
        scope,
        &[
            "ports and hosts are not scanned, and nothing is reported about them. exclude-ports holds for every target of the scan.",
        ],
    );
    let _ = writeln!(out, "# Use: masscan -c {} and your own options", Product::Masscan.file());
    if !scope.ports.is_empty() {
        let _ = writeln!(out, "exclude-ports = {}", scope.ports.text());
    }
    for host in &scope.hosts {
        let _ = writeln!(out, "exclude = {host}");
    }
    out
}

/// A file for `naabu -config`: long names of its flags.
pub(super) fn naabu(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Naabu,
        scope,
        &[
            "ports and hosts are not scanned; a flag of the same name on the command line takes the place of what stands here.",
        ],
    );
    let _ = writeln!(out, "# Use: naabu -config {} and your own flags", Product::Naabu.file());
    if !scope.ports.is_empty() {
        let _ = writeln!(out, "exclude-ports: \"{}\"", scope.ports.text());
    }
    if !scope.hosts.is_empty() {
        let _ = writeln!(out, "exclude-hosts: \"{}\"", list(&scope.hosts, ","));
    }
    out
}
