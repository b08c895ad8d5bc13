//! The products that a policy can be written for.

use super::scope::Scope;
use super::{firewall, kubernetes, portscan, signature, vendor};

/// One product, or one of the forms that it needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Product {
    /// Options of nmap.
    Nmap,
    /// A file for nmap --excludefile.
    NmapHosts,
    /// The directive `Exclude` of nmap's file of probes.
    NmapDetection,
    /// A configuration file of masscan.
    Masscan,
    /// A configuration file of naabu.
    Naabu,
    /// nessusd.rules.
    Nessus,
    /// The body of a request that makes an exclusion, of Tenable Vulnerability Management.
    Tenable,
    /// The port range of a policy of Tenable's.
    TenablePorts,
    /// The body of a request that adds excluded hosts, of Qualys.
    Qualys,
    /// The port list of an option profile of Qualys.
    QualysPorts,
    /// A port list of OpenVAS, as GMP.
    Openvas,
    /// The excluded hosts of a target of OpenVAS.
    OpenvasHosts,
    /// A table of nftables.
    Nftables,
    /// A NetworkPolicy of Kubernetes.
    Kubernetes,
    /// Rules of Suricata.
    Suricata,
    /// Signatures of Zeek.
    Zeek,
}

/// Why there is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The product excludes hosts, and none is to be excluded.
    #[error("{0} excludes whole hosts, and no listener is on a port that the kernel chose: exclude the ports")]
    NoHosts(&'static str),
    /// The product speaks of ports, and none is known.
    #[error("{0} speaks of ports, and no listener of the fleet has a fixed one: exclude the hosts")]
    NoPorts(&'static str),
    /// Nothing says who may and who may not.
    #[error(
        "{0} has to know whom to keep out or whom to let in: name the scanner (--source) or the training networks (--net)"
    )]
    Nobody(&'static str),
    /// There are listeners, and nothing that says where.
    #[error("nothing to protect: no listener has a fixed port, and no host is known (--inventory, --net)")]
    Nothing,
}

impl Product {
    /// All of them.
    pub const ALL: [Product; 16] = [
        Product::Nmap,
        Product::NmapHosts,
        Product::NmapDetection,
        Product::Masscan,
        Product::Naabu,
        Product::Nessus,
        Product::Tenable,
        Product::TenablePorts,
        Product::Qualys,
        Product::QualysPorts,
        Product::Openvas,
        Product::OpenvasHosts,
        Product::Nftables,
        Product::Kubernetes,
        Product::Suricata,
        Product::Zeek,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Product::Nmap => "nmap",
            Product::NmapHosts => "nmap-hosts",
            Product::NmapDetection => "nmap-detection",
            Product::Masscan => "masscan",
            Product::Naabu => "naabu",
            Product::Nessus => "nessus",
            Product::Tenable => "tenable",
            Product::TenablePorts => "tenable-ports",
            Product::Qualys => "qualys",
            Product::QualysPorts => "qualys-ports",
            Product::Openvas => "openvas",
            Product::OpenvasHosts => "openvas-hosts",
            Product::Nftables => "nftables",
            Product::Kubernetes => "kubernetes",
            Product::Suricata => "suricata",
            Product::Zeek => "zeek",
        }
    }

    /// Its file in a directory of policies.
    pub fn file(self) -> &'static str {
        match self {
            Product::Nmap => "nmap.options",
            Product::NmapHosts => "nmap-hosts.exclude",
            Product::NmapDetection => "nmap-detection.probes",
            Product::Masscan => "masscan.conf",
            Product::Naabu => "naabu.yaml",
            Product::Nessus => "nessusd.rules",
            Product::Tenable => "tenable-exclusion.json",
            Product::TenablePorts => "tenable-ports.txt",
            Product::Qualys => "qualys-excluded-ip.form",
            Product::QualysPorts => "qualys-ports.txt",
            Product::Openvas => "openvas-port-list.xml",
            Product::OpenvasHosts => "openvas-hosts.txt",
            Product::Nftables => "nftables.nft",
            Product::Kubernetes => "kubernetes.yaml",
            Product::Suricata => "suricata.rules",
            Product::Zeek => "zeek.sig",
        }
    }

    /// The product of that name.
    pub fn parse(name: &str) -> Option<Product> {
        Product::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Whether it can leave whole hosts alone.
    pub fn excludes_hosts(self) -> bool {
        use Product::{Masscan, Naabu, Nessus, Nmap, NmapHosts, OpenvasHosts, Qualys, Tenable};
        [Nmap, NmapHosts, Masscan, Naabu, Nessus, Tenable, Qualys, OpenvasHosts].contains(&self)
    }

    /// Whether it can leave ports alone, on whatever host.
    pub fn excludes_ports(self) -> bool {
        ![Product::NmapHosts, Product::Tenable, Product::Qualys, Product::OpenvasHosts].contains(&self)
    }

    /// Whether it knows the members of the fleet, and treats others otherwise.
    pub fn knows_members(self) -> bool {
        [Product::Nftables, Product::Suricata, Product::Zeek].contains(&self)
    }

    /// The policy.
    ///
    /// # Errors
    /// When there is nothing that this product could be told.
    pub fn write(self, scope: &Scope) -> Result<String, PolicyError> {
        if scope.ports.is_empty() && scope.hosts.is_empty() {
            return Err(PolicyError::Nothing);
        }
        if !self.excludes_ports() && scope.hosts.is_empty() {
            return Err(PolicyError::NoHosts(self.name()));
        }
        let about_all = [Product::Nftables, Product::Kubernetes, Product::Suricata, Product::Zeek].contains(&self);
        if !self.excludes_hosts() && !about_all && scope.ports.is_empty() {
            return Err(PolicyError::NoPorts(self.name()));
        }
        Ok(match self {
            Product::Nmap => portscan::nmap(scope),
            Product::NmapHosts => portscan::nmap_hosts(scope),
            Product::NmapDetection => portscan::nmap_detection(scope),
            Product::Masscan => portscan::masscan(scope),
            Product::Naabu => portscan::naabu(scope),
            Product::Nessus => vendor::nessus(scope),
            Product::Tenable => vendor::tenable(scope),
            Product::TenablePorts => vendor::tenable_ports(scope),
            Product::Qualys => vendor::qualys(scope),
            Product::QualysPorts => vendor::qualys_ports(scope),
            Product::Openvas => vendor::openvas(scope),
            Product::OpenvasHosts => vendor::openvas_hosts(scope),
            Product::Nftables => firewall::nftables(scope).ok_or(PolicyError::Nobody(self.name()))?,
            Product::Kubernetes => kubernetes::network_policy(scope),
            Product::Suricata => signature::suricata(scope),
            Product::Zeek => signature::zeek(scope),
        })
    }
}
