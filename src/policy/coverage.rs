//! What a policy covers that was written earlier, read from the rules themselves: comments are not believed.

use serde_json::Value;

use super::head::MARK;
use super::nets::{aggregate, covers};
use super::product::Product;
use super::read;
use super::scope::{ProtectedListener, Scope};
use crate::net::Network;
use crate::prescan::{EPHEMERAL, Ports};

/// Why a policy cannot be held against a fleet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverageError {
    /// Nothing says which product it is for.
    #[error("a policy that prescan wrote was required; of another one --policy PRODUCT names the grammar")]
    NoProduct,
    /// A line whose effect is not known.
    #[error("line {line}: {what} was required, {found:?} was there")]
    Line {
        /// Line, from 1.
        line: usize,
        /// What was required.
        what: &'static str,
        /// What was there.
        found: String,
    },
    /// The part that the product obeys is not there.
    #[error("{0} was required and is not there")]
    Missing(&'static str),
}

/// What a policy leaves alone, or watches.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// For which product it is.
    pub product: Option<Product>,
    /// Hosts that are left alone whole.
    pub hosts: Vec<Network>,
    /// Ports that are left alone on whatever host.
    pub ports: Ports,
    /// Who is let in, where the policy says so.
    pub members: Option<Vec<Network>>,
    /// Who is shut out, where the policy says so.
    pub scanners: Option<Vec<Network>>,
    /// When it was written, where it says so.
    pub date: Option<String>,
}

impl Coverage {
    /// Reads a policy. Which grammar it has says `product`, else the line that prescan left in it.
    ///
    /// # Errors
    /// When that is not known, and when a rule is not understood: it might open what another one closes.
    pub fn read(text: &str, product: Option<Product>) -> Result<Coverage, CoverageError> {
        let marked = mark(text);
        let hosts_alone = || read::networks(text).ok().filter(|n| !n.is_empty()).map(|_| Product::OpenvasHosts);
        let product = product.or(marked.as_ref().map(|m| m.0)).or_else(hosts_alone).ok_or(CoverageError::NoProduct)?;
        let mut coverage = Coverage { product: Some(product), date: marked.map(|m| m.1), ..Coverage::default() };
        match product {
            Product::Nmap => read::nmap(text, &mut coverage)?,
            Product::NmapHosts | Product::OpenvasHosts => coverage.hosts = read::networks(text)?,
            Product::NmapDetection => coverage.ports = read::exclude_directive(text)?,
            Product::Masscan => read::settings(text, '=', ["exclude-ports", "exclude"], &mut coverage)?,
            Product::Naabu => read::settings(text, ':', ["exclude-ports", "exclude-hosts"], &mut coverage)?,
            Product::Nessus => read::nessus(text, &mut coverage)?,
            Product::Tenable => {
                let body: Value = serde_json::from_str(text).map_err(|_| CoverageError::Missing("a JSON object"))?;
                let members = body["members"].as_str().ok_or(CoverageError::Missing("\"members\""))?;
                coverage.hosts = read::networks(members)?;
            }
            Product::TenablePorts | Product::QualysPorts => coverage.ports = read::last_line(text)?.complement(),
            Product::Qualys => coverage.hosts = read::qualys(text)?,
            Product::Openvas => coverage.ports = read::port_range(text)?.complement(),
            Product::Nftables => read::nftables(text, &mut coverage)?,
            Product::Kubernetes => coverage.ports = read::kubernetes(text)?.complement(),
            Product::Suricata => read::suricata(text, &mut coverage)?,
            Product::Zeek => read::zeek(text, &mut coverage)?,
        }
        coverage.hosts = aggregate(coverage.hosts);
        coverage.members = coverage.members.map(aggregate);
        coverage.scanners = coverage.scanners.map(aggregate);
        Ok(coverage)
    }

    /// What of the fleet it leaves open, in words; nothing where it still covers all that such a policy can.
    pub fn lacks(&self, scope: &Scope) -> Vec<String> {
        let mut lacks: Vec<String> = scope
            .listeners
            .iter()
            .filter(|l| self.concerns(l) && !self.holds(l, scope))
            .map(ProtectedListener::text)
            .collect();
        if scope.has_ephemeral() && self.excludes_hosts() {
            let open = scope.named.iter().filter(|n| !covers(&self.hosts, n));
            lacks.extend(open.map(|n| format!("{n} (training network, ports chosen by the kernel)")));
        }
        let missing = |all: &Option<Vec<Network>>, of: &[Network]| -> Vec<Network> {
            all.as_ref().map_or(Vec::new(), |all| of.iter().filter(|n| !covers(all, n)).copied().collect())
        };
        lacks.extend(
            missing(&self.members, &scope.members).iter().map(|n| format!("{n} (member of the jobs, not let in)")),
        );
        lacks.extend(missing(&self.scanners, &scope.scanners).iter().map(|n| format!("{n} (scanner, not shut out)")));
        lacks.dedup();
        lacks
    }

    /// Whether it has anything to say about the fleet.
    pub fn is_about(&self, scope: &Scope) -> bool {
        scope.listeners.iter().any(|l| self.concerns(l))
    }

    fn excludes_hosts(&self) -> bool {
        self.product.is_some_and(Product::excludes_hosts)
    }

    /// Whether a policy of this kind can say something about the listener.
    fn concerns(&self, listener: &ProtectedListener) -> bool {
        let Some(product) = self.product else { return true };
        let ports_of_all =
            [Product::Nftables, Product::Kubernetes, Product::Suricata, Product::Zeek].contains(&product);
        if listener.ephemeral { product.excludes_hosts() || ports_of_all } else { product.excludes_ports() }
    }

    fn holds(&self, listener: &ProtectedListener, scope: &Scope) -> bool {
        let by_address = match listener.address {
            Some(address) => covers(&self.hosts, &Network::of(address)),
            None => !scope.named.is_empty() && scope.named.iter().all(|n| covers(&self.hosts, n)),
        };
        let by_port = match (listener.ephemeral, listener.port) {
            (true, _) => self.ports.covers(&Ports::range(EPHEMERAL.0, EPHEMERAL.1)),
            (false, Some(port)) => self.ports.contains(port),
            (false, None) => false,
        };
        by_address || by_port
    }
}

/// Product and date of the line that every policy has.
fn mark(text: &str) -> Option<(Product, String)> {
    // In a form the spaces are plus signs.
    let plain = text.get(..text.len().min(1 << 16)).unwrap_or(text).replace('+', " ").replace("%2C", ",");
    let rest = plain.split_once(MARK)?.1.trim_start();
    let (name, rest) = rest.split_once(',')?;
    let date: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '-').take(10).collect();
    Some((Product::parse(name.trim())?, date))
}
