//! nftables: the scanner shut out, or the training hosts alone let in.

use std::fmt::Write as _;

use super::head::comment;
use super::nets::{family, list};
use super::product::Product;
use super::scope::Scope;

/// A table for `nft -f`, to be loaded on the training hosts or on a router before them. `None` where nobody is named to be
/// shut out or let in.
pub(super) fn nftables(scope: &Scope) -> Option<String> {
    let (people, what) = if !scope.scanners.is_empty() {
        (&scope.scanners, "shut out")
    } else if !scope.named.is_empty() {
        (&scope.members, "let in")
    } else {
        return None;
    };
    let shut_out = what == "shut out";
    let cost = if shut_out {
        "the scanner finds these ports filtered, and learns nothing of other services on them. A scanner behind address \
translation, or with an address more, is not recognised."
    } else {
        "whoever is none of these hosts is shut out from these ports: log-in nodes, dashboards, health checks, and a training \
host whose address is missing here. Try it first with `counter` in place of `counter drop`."
    };
    let mut out = comment("#", Product::Nftables, scope, &[cost]);
    let _ = writeln!(out, "# Use: nft -f {}; nft delete table inet rdzvscope takes it back", Product::Nftables.file());
    // Loading it again replaces it.
    out.push_str("table inet rdzvscope\ndelete table inet rdzvscope\ntable inet rdzvscope {\n");
    let set = |out: &mut String, name: &str, kind: &str, elements: &str| {
        let _ = writeln!(
            out,
            "  set {name} {{\n    type {kind}\n    flags interval\n    elements = {{ {elements} }}\n  }}"
        );
    };
    set(&mut out, "ports", "inet_service", &scope.all_ports().text().replace(',', ", "));
    let mut rules = [String::new(), String::new()];
    for (v4, version, protocol, kind) in [(true, 4, "ip", "ipv4_addr"), (false, 6, "ip6", "ipv6_addr")] {
        let (training, people) = (family(&scope.members, v4), family(people, v4));
        if !training.is_empty() {
            set(&mut out, &format!("training{version}"), kind, &list(&training, ", "));
        }
        if shut_out && !people.is_empty() {
            set(&mut out, &format!("scanners{version}"), kind, &list(&people, ", "));
        }
        let who = match (shut_out, people.is_empty()) {
            (true, true) => continue,
            (true, false) => format!("{protocol} saddr @scanners{version}"),
            // Nobody of that family is to be let in: the family is shut out whole.
            (false, true) => format!("meta nfproto ipv{version}"),
            (false, false) => format!("{protocol} saddr != @training{version}"),
        };
        let [input, forward] = &mut rules;
        let _ = writeln!(input, "    {who} tcp dport @ports ct state new counter drop");
        // A router passes on what is none of the fleet's business.
        if !training.is_empty() {
            let to = format!("{protocol} daddr @training{version}");
            let _ = writeln!(forward, "    {who} {to} tcp dport @ports ct state new counter drop");
        }
    }
    for (hook, rules) in ["input", "forward"].into_iter().zip(&rules) {
        if rules.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  chain {hook} {{\n    type filter hook {hook} priority -10; policy accept;");
        if hook == "input" {
            out.push_str("    iif \"lo\" accept\n");
        }
        out.push_str(rules);
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    Some(out)
}
