//! What stands above every policy: when it was made, of what, what it covers, what it costs.

use super::nets::some;
use super::product::Product;
use super::scope::Scope;

/// How every policy names its maker; `--check` finds the product by it.
pub(super) const MARK: &str = "rdzvscope prescan --policy";

/// Columns of a line of comment.
const WIDTH: usize = 96;

/// Paragraphs, not wrapped.
pub(super) fn paragraphs(product: Product, scope: &Scope, costs: &[&str]) -> Vec<String> {
    let mut all = vec![format!("{MARK} {}, {}, from {}", product.name(), scope.date, scope.source)];
    if let Some(seen) = &scope.last_seen {
        all.push(format!("The fleet was last seen at {seen}; --check says whether this still covers it."));
    }
    all.push(covers(product, scope));
    if product.excludes_ports() && !product.excludes_hosts() && !product.knows_members() && scope.has_ephemeral() {
        let others = match product {
            Product::Openvas => "openvas-hosts",
            Product::TenablePorts => "tenable",
            Product::QualysPorts => "qualys",
            Product::NmapDetection => "nmap-hosts",
            _ => "",
        };
        if !others.is_empty() {
            all.push(format!(
                "NOT COVERED here: listeners on ports that the kernel chose; their hosts are in the policy {others}."
            ));
        }
    }
    let nowhere = scope.nowhere();
    if !nowhere.is_empty() && product.excludes_hosts() {
        let mut roles: Vec<&str> = nowhere.iter().map(|l| l.role.as_str()).collect();
        roles.dedup();
        all.push(format!(
            "NOT COVERED: {} on ports that the kernel chose, on hosts that nobody named (--inventory, --net).",
            roles.join(", ")
        ));
    }
    all.extend(costs.iter().map(|c| format!("Cost: {c}")));
    all
}

fn covers(product: Product, scope: &Scope) -> String {
    let mut parts = Vec::new();
    if product.excludes_ports() && !scope.ports.is_empty() {
        let one = matches!(scope.ports.ranges().as_slice(), [(from, to)] if from == to);
        parts.push(format!("the port{} {}", if one { "" } else { "s" }, scope.ports.text()));
    }
    if product.excludes_hosts() && !scope.hosts.is_empty() {
        let mut roles: Vec<&str> = scope.listeners.iter().filter(|l| l.ephemeral).map(|l| l.role.as_str()).collect();
        roles.sort_unstable();
        roles.dedup();
        parts.push(format!(
            "the hosts {} whole, because the kernel chose the ports of their listeners ({}) and the next ones will be others",
            some(&scope.hosts),
            roles.join(", ")
        ));
    } else if !product.excludes_hosts() && product.excludes_ports() && scope.all_ports() != scope.ports {
        let all_is_said =
            matches!(product, Product::Nftables | Product::Kubernetes | Product::Suricata | Product::Zeek);
        if all_is_said {
            parts.push(
                "32768-60999, from which the kernel chooses the ports of NCCL's listeners and worker stores".into(),
            );
        }
    }
    let verb = if matches!(product, Product::Suricata | Product::Zeek) { "Watches" } else { "Covers" };
    format!("{verb} {}.", if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") })
}

/// The same as comments that begin with `sign`.
pub(super) fn comment(sign: &str, product: Product, scope: &Scope, costs: &[&str]) -> String {
    let mut out = String::new();
    for paragraph in paragraphs(product, scope, costs) {
        for line in wrapped(&paragraph, WIDTH.saturating_sub(sign.len() + 1)) {
            out.push_str(sign);
            out.push(' ');
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

/// Words in lines of at most `width` columns.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("  {word}"));
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}
