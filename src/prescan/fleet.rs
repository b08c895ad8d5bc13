//! The servers that a scan would meet.

use serde_json::Value;

use super::doors::{self, Door};
use super::ports::Ports;
use crate::protocol::nccl::{Role, Version, Versions};
use crate::protocol::tcpstore::Dialect;
use crate::protocol::tcpstore::release::Release;
use crate::protocol::tcpstore::server::{Backend, Server};

/// Ports that a kernel hands out by itself (`net.ipv4.ip_local_port_range`): stores of elastic jobs, all of NCCL.
pub const EPHEMERAL: (u16, u16) = (32_768, 60_999);

/// What a fleet cannot be made of.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FleetError {
    /// No such version of PyTorch was looked at.
    #[error("a PyTorch release from 1.4 to 2.15 was required (1.13, 2.1.2, 1.4-2.1, 2.2-), {0:?} was there")]
    Pytorch(String),
    /// No such listener or version of NCCL.
    #[error(
        "an NCCL release from 2.4 to 2.32 with or without a listener was required (2.26, root:2.26.2, proxy:2.16; \
listeners are root, reply, ring, peer, proxy, net, ras), {0:?} was there"
    )]
    Nccl(String),
    /// No release of those asked for has that backend.
    #[error("no PyTorch release of those asked for has a {0} store")]
    Backend(&'static str),
    /// The document is of another kind.
    #[error("{0}: a report of analyze --format json with listeners was required")]
    NoReport(String),
    /// Its listeners are none that a model or a measurement exists for.
    #[error("{0}: none of its listeners is a store, an NCCL listener or another that was measured")]
    NoListener(String),
    /// No such kind of listener was looked at.
    #[error("--node: a list of {1}, each with or without a release (mpich:4.0), was required, {0:?} was there")]
    Node(String, String),
    /// Nothing was measured of that release.
    #[error("--node {0}: nothing was measured of that release; there are measurements of {1}")]
    Unmeasured(String, String),
}

/// A server, and the model that stands for it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A rendezvous store.
    Store(Server),
    /// A listener of NCCL.
    Nccl(Role, Version),
    /// Another listener, of which measurements are at hand.
    Door(&'static Door),
}

/// Where it listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// On these ports.
    Ports(Vec<u16>),
    /// On a port that the kernel chose.
    Ephemeral,
}

/// One kind of server in the fleet.
#[derive(Clone, Debug)]
pub struct Target {
    /// The model.
    pub kind: Kind,
    /// The version as it was asked for.
    pub version: String,
    /// Where it listens.
    pub place: Place,
    /// Of an inventory: the listeners it stands for, as `address:port`.
    pub endpoints: Vec<String>,
}

impl Target {
    /// `tcpstore` or `nccl`.
    pub fn protocol(&self) -> &'static str {
        match self.kind {
            Kind::Store(_) => "tcpstore",
            Kind::Nccl(..) => "nccl",
            Kind::Door(door) => door.protocol(),
        }
    }

    /// What it is for.
    pub fn role(&self) -> &'static str {
        match self.kind {
            Kind::Store(_) => "store",
            Kind::Nccl(role, _) => role.text(),
            Kind::Door(door) => door.role(),
        }
    }

    /// `poll` or `libuv`, of a store.
    pub fn backend(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Store(server) => Some(server.backend.name()),
            Kind::Nccl(..) | Kind::Door(_) => None,
        }
    }

    /// What tells servers apart that have one role.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Door(door) => door.listener,
            _ => self.role(),
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The servers.
    pub targets: Vec<Target>,
    /// What was assumed.
    pub notes: Vec<String>,
}

impl Fleet {
    /// Stores of these releases, with this backend or each that the release has, on these ports.
    ///
    /// # Errors
    /// When no release has the backend.
    pub fn stores(
        &mut self,
        releases: &[(String, Release)],
        backend: Option<Backend>,
        ports: &[u16],
    ) -> Result<(), FleetError> {
        let before = self.targets.len();
        for (name, release) in releases {
            for b in [Backend::Poll, Backend::Libuv] {
                if release.has(b) && backend.is_none_or(|wanted| wanted == b) {
                    self.targets.push(Target {
                        kind: Kind::Store(Server::new(*release, b)),
                        version: name.clone(),
                        place: Place::Ports(ports.to_vec()),
                        endpoints: Vec::new(),
                    });
                }
            }
        }
        match backend {
            Some(b) if self.targets.len() == before && !releases.is_empty() => Err(FleetError::Backend(b.name())),
            _ => Ok(()),
        }
    }

    /// Listeners of NCCL.
    pub fn nccl(&mut self, listeners: &[(String, Role, Version)]) {
        self.targets.extend(listeners.iter().map(|(name, role, version)| Target {
            kind: Kind::Nccl(*role, *version),
            version: name.clone(),
            place: Place::Ephemeral,
            endpoints: Vec::new(),
        }));
    }

    /// Other listeners of a node.
    pub fn doors(&mut self, doors: &[(&'static Door, String)]) {
        self.targets.extend(doors.iter().map(|(door, version)| Target {
            kind: Kind::Door(door),
            version: version.clone(),
            place: door.place(),
            endpoints: Vec::new(),
        }));
    }

    /// The listeners of a report that `analyze --format json` wrote. Where a version is not known, every one that fits
    /// is taken.
    ///
    /// # Errors
    /// When it is no such report, or has no listener that there is a model of.
    pub fn inventory(&mut self, name: &str, document: &Value) -> Result<(), FleetError> {
        let listeners = document["listeners"].as_array().ok_or_else(|| FleetError::NoReport(name.to_owned()))?;
        let before = self.targets.len();
        for listener in listeners {
            let Some(port) = listener["port"].as_u64().and_then(|p| u16::try_from(p).ok()) else { continue };
            let endpoint = format!("{}:{port}", listener["address"].as_str().unwrap_or("?"));
            let endpoint = crate::escape::clean(endpoint.as_bytes(), 60);
            for kind in kinds(listener) {
                let version = match kind {
                    Kind::Store(server) => server.release.to_string(),
                    Kind::Nccl(_, version) => version.to_string(),
                    Kind::Door(door) => door.version.to_string(),
                };
                let target =
                    Target { kind, version, place: Place::Ports(vec![port]), endpoints: vec![endpoint.clone()] };
                self.add(target);
            }
        }
        if self.targets.len() == before {
            return Err(FleetError::NoListener(name.to_owned()));
        }
        Ok(())
    }

    fn add(&mut self, target: Target) {
        let same = |t: &&mut Target| {
            (t.protocol(), t.name(), &t.version, t.backend())
                == (target.protocol(), target.name(), &target.version, target.backend())
        };
        let Some(known) = self.targets.iter_mut().find(same) else {
            self.targets.push(target);
            return;
        };
        if let (Place::Ports(known), Place::Ports(more)) = (&mut known.place, &target.place) {
            for port in more.iter().filter(|p| !known.contains(p)).copied().collect::<Vec<_>>() {
                known.push(port);
            }
        }
        known.endpoints.extend(target.endpoints);
    }

    /// The fixed ports of it.
    pub fn ports(&self) -> Ports {
        let mut all: Vec<u16> = Vec::new();
        for target in &self.targets {
            if let Place::Ports(ports) = &target.place {
                all.extend(ports);
            }
        }
        all.sort_unstable();
        all.dedup();
        Ports::of(&all)
    }
}

/// The models that fit a listener of a report.
fn kinds(listener: &Value) -> Vec<Kind> {
    let text = |key: &str| listener[key].as_str().unwrap_or_default();
    match text("protocol") {
        "tcpstore" => {
            let mut dialects: Vec<&str> = listener["dialect"].as_str().into_iter().collect();
            if dialects.is_empty() {
                dialects =
                    listener["dialect_candidates"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            }
            let fits = |d: Dialect| dialects.is_empty() || dialects.contains(&d.name());
            let wanted = text("backend");
            let releases = Release::ALL.iter().filter(|r| fits(r.dialect));
            let servers = releases.flat_map(|r| [Backend::Poll, Backend::Libuv].map(|b| (*r, b)));
            servers
                .filter(|(r, b)| r.has(*b) && (wanted.is_empty() || wanted == b.name()))
                .map(|(r, b)| Kind::Store(Server::new(r, b)))
                .collect()
        }
        "nccl" => {
            let Some(role) = ROLES.iter().find(|r| r.text() == text("role")) else { return Vec::new() };
            let versions = versions(text("version").trim_start_matches("NCCL ")).unwrap_or(Versions::ALL);
            versions.representatives().map(|v| Kind::Nccl(*role, v)).collect()
        }
        protocol => {
            let all = doors::of_listener(protocol, text("role"), text("version"));
            all.into_iter().map(Kind::Door).collect()
        }
    }
}

/// NCCL's listeners.
pub(super) const ROLES: [Role; 7] =
    [Role::Root, Role::Reply, Role::Ring, Role::Peer, Role::Proxy, Role::Net, Role::Ras];

/// `2.26.2`, `2.27`, `2.24.0–2.28` as reports write them.
fn versions(text: &str) -> Option<Versions> {
    let (from, to) = text.split_once('–').unwrap_or((text, text));
    let code = |text: &str, patch: u32| {
        let mut parts = text.trim().split('.');
        let (major, minor): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let patch: u32 = parts.next().map_or(Some(patch), |p| p.parse().ok())?;
        (major == 2 && minor < 100 && patch < 100).then(|| major * 10_000 + minor * 100 + patch)
    };
    Some(Versions::new(code(from, 0)?, code(to, 99)?))
}

/// A release of NCCL as people write it. Of a minor release the oldest patch that was looked at stands for all.
pub fn release_of_nccl(text: &str) -> Option<Version> {
    let range = versions(text.trim().trim_start_matches('v')).filter(|v| v.since <= v.until)?;
    match range.and(Versions::ALL) {
        Some(inside) => inside.representatives().next(),
        // Later than all that is known: read as the newest.
        None => Some(range.since).filter(|v| *v > Version::NEWEST).map(|_| Version::NEWEST),
    }
}

/// Reads `1.13`, `2.1.2,2.4`, `1.4-2.1`, `2.2-`, `all`; the name stays as it was written, of a range each release has its own.
///
/// # Errors
/// What is no such list.
pub fn pytorch(text: &str) -> Result<Vec<(String, Release)>, FleetError> {
    let bad = |part: &str| FleetError::Pytorch(part.chars().take(60).collect());
    let mut all: Vec<(String, Release)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        if let Some(release) = Release::parse(part).filter(|_| !part.contains('-')) {
            all.push((part.to_owned(), release));
            continue;
        }
        let (from, to) = if part == "all" { ("", "") } else { part.split_once(['-', '–']).ok_or_else(|| bad(part))? };
        let end = |end: &str, or: Option<&Release>| match end.trim() {
            "" => or.copied().ok_or_else(|| bad(part)),
            version => Release::parse(version).ok_or_else(|| bad(part)),
        };
        let (from, to) = (end(from, Release::ALL.first())?, end(to, Release::ALL.last())?);
        let key = |r: &Release| (r.major, r.minor);
        let inside = Release::ALL.iter().filter(|r| key(&from) <= key(r) && key(r) <= key(&to));
        let count = all.len();
        all.extend(inside.map(|r| (r.to_string(), *r)));
        if all.len() == count {
            return Err(bad(part));
        }
    }
    if all.is_empty() { Err(bad(text)) } else { Ok(all) }
}

/// Reads `2.26`, `root:2.26.2,proxy:2.16`, `all`; without a listener every kind is meant.
///
/// # Errors
/// What is no such list.
pub fn nccl(text: &str) -> Result<Vec<(String, Role, Version)>, FleetError> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let bad = || FleetError::Nccl(part.chars().take(60).collect());
        let (role, version) = part.split_once(':').unwrap_or(("", part));
        let short = |r: &Role| r.text().trim_start_matches("bootstrap-");
        let role = role.trim().trim_start_matches("nccl-").trim_start_matches("bootstrap-");
        let roles: Vec<Role> = ROLES.into_iter().filter(|r| role.is_empty() || short(r) == role).collect();
        let versions: Vec<(String, Version)> = match version.trim() {
            "all" => Versions::ALL.representatives().map(|v| (v.to_string(), v)).collect(),
            version => vec![(version.to_owned(), release_of_nccl(version).ok_or_else(bad)?)],
        };
        if roles.is_empty() {
            return Err(bad());
        }
        for role in roles {
            // There was no RAS before 2.24.
            let exists = versions.iter().filter(|(_, v)| role != Role::Ras || v.0 >= 22_400);
            all.extend(exists.map(|(name, v)| (name.clone(), role, *v)));
        }
    }
    if all.is_empty() { Err(FleetError::Nccl(text.chars().take(60).collect())) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_of_releases() {
        let names = |text| pytorch(text).unwrap().into_iter().map(|r| r.0).collect::<Vec<_>>();
        assert_eq!(names("1.13.0,2.1.2"), ["1.13.0", "2.1.2"]);
        assert_eq!(names("1.13-2.2"), ["1.13", "2.0", "2.1", "2.2"]);
        assert_eq!(names("2.14-"), ["2.14", "2.15"]);
        assert_eq!(names("all").len(), Release::ALL.len());
        for bad in ["", "3.0", "2.1-1.9", "1.3", "x-y"] {
            assert!(pytorch(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn listeners_of_nccl() {
        let codes = |text| nccl(text).unwrap().into_iter().map(|n| (n.1, n.2.0)).collect::<Vec<_>>();
        assert_eq!(codes("root:2.26"), [(Role::Root, 22_602)]);
        assert_eq!(codes("bootstrap-root:2.27.3"), [(Role::Root, 22_703)]);
        // The first release of 2.16, and one between the releases that were looked at.
        assert_eq!(codes("proxy:2.16,net:2.10"), [(Role::Proxy, 21_602), (Role::Net, 21_000)]);
        assert_eq!((codes("2.26").len(), codes("2.18").len()), (7, 6));
        for bad in ["", "boot:2.26", "2", "9.1", "root:2.3"] {
            assert!(nccl(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_report_is_a_fleet() {
        let document = serde_json::json!({"listeners": [
            {"address": "192.0.2.11", "port": 29500, "protocol": "tcpstore", "role": "store", "dialect": "C", "backend": "poll"},
            {"address": "192.0.2.12", "port": 29501, "protocol": "tcpstore", "role": "store", "dialect": "C", "backend": null},
            {"address": "192.0.2.12", "port": 40000, "protocol": "nccl", "role": "bootstrap-root", "version": "NCCL 2.26.0–2.28"},
            {"address": "192.0.2.12", "port": 40001, "protocol": "gloo", "role": "pair"}]});
        let mut fleet = Fleet::default();
        fleet.inventory("r.json", &document).unwrap();
        let store = &fleet.targets[0];
        assert_eq!((store.version.as_str(), store.endpoints.len()), ("2.1", 2));
        assert_eq!(store.place, Place::Ports(vec![29500, 29501]));
        assert_eq!(fleet.targets.iter().filter(|t| t.protocol() == "nccl").count(), 4);
        assert!(matches!(Fleet::default().inventory("x", &serde_json::json!({})), Err(FleetError::NoReport(_))));
        assert!(matches!(
            Fleet::default().inventory("x", &serde_json::json!({"listeners": []})),
            Err(FleetError::NoListener(_))
        ));
    }
}
