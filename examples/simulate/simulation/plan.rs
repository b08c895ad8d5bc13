//! What happens in a cluster: jobs, scans and other strangers, processes that run out of memory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::client::{Step, Version, stray};
use super::engine::Actor;
use super::host::{Host, Site};
use super::probe;
use super::random::Random;

/// A job that nobody in particular is to blame for.
pub(crate) const NOBODY: usize = usize::MAX;

/// A training job. The first host has its store.
pub(crate) struct Job {
    pub(crate) hosts: Vec<usize>,
    pub(crate) span: (f64, f64),
    pub(crate) version: Version,
    pub(crate) libuv: bool,
    pub(crate) port: u16,
    /// Seconds between the signs of life of a worker.
    pub(crate) beat: Option<f64>,
    pub(crate) restart: Option<f64>,
    /// A worker of another release, and whose deed that is.
    pub(crate) stranger: Option<(Version, usize)>,
}

/// Somebody's deed, whatever came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Campaign {
    /// `scan`, `version-mismatch` or `foreign-client`.
    pub(crate) kind: &'static str,
    pub(crate) what: &'static str,
}

/// A kill for which the network is not to blame.
pub(crate) struct Oom {
    pub(crate) host: usize,
    pub(crate) at: f64,
    pub(crate) victim: OomVictim,
    pub(crate) total_vm: u64,
    pub(crate) rss: u64,
}

/// What it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OomVictim {
    /// The process that the store lives in.
    Rank0,
    /// Another process of the host's job: the job falls.
    Rank,
    /// None of the job's.
    Bystander,
}

/// All of it.
pub(crate) struct Plan {
    pub(crate) site: Site,
    pub(crate) hosts: Vec<Host>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) campaigns: Vec<Campaign>,
    /// Strangers, by the host and port that they come to.
    pub(crate) strays: Vec<(usize, u16, Actor)>,
    pub(crate) ooms: Vec<Oom>,
    /// The user names the ports of stores that are not the usual ones.
    pub(crate) ports_told: bool,
}

impl Plan {
    pub(crate) fn draw(seed: u64, hosts: usize) -> Plan {
        let site = Site::draw(&mut Random::of(seed, "site"), 5400.0);
        let mut r = Random::of(seed, "hosts");
        let hosts: Vec<Host> = (0..hosts.min(200)).map(|n| site.host(&mut r, n)).collect();
        let ports_told = r.chance(0.5);
        let mut plan = Plan {
            site,
            hosts,
            jobs: Vec::new(),
            campaigns: Vec::new(),
            strays: Vec::new(),
            ooms: Vec::new(),
            ports_told,
        };
        plan.draw_jobs(&mut Random::of(seed, "jobs"));
        let scans = plan.draw_scans(&mut Random::of(seed, "scans"));
        plan.draw_checks(&mut Random::of(seed, "checks"));
        plan.draw_ooms(&mut Random::of(seed, "ooms"), &scans);
        plan
    }

    fn campaign(&mut self, kind: &'static str, what: &'static str) -> usize {
        self.campaigns.push(Campaign { kind, what });
        self.campaigns.len() - 1
    }

    fn draw_jobs(&mut self, r: &mut Random) {
        let all_patched = r.chance(0.12);
        let mut free: Vec<usize> = (0..self.hosts.len()).collect();
        r.shuffle(&mut free);
        while !free.is_empty() {
            if r.chance(0.08) {
                free.pop();
                continue;
            }
            let size = r.weighted(&[(1, 0.05), (2, 0.4), (4, 0.3), (8, 0.2), (16, 0.05)]).min(free.len());
            let hosts = free.split_off(free.len() - size);
            let old = [((1, 5), 0.5), ((1, 8), 1.0), ((1, 10), 1.0), ((1, 13), 3.0), ((2, 0), 2.0), ((2, 1), 2.0)];
            let new = [((2, 2), 0.7), ((2, 3), 0.7), ((2, 4), 1.0), ((2, 7), 1.0), ((2, 10), 0.6), ((2, 15), 0.6)];
            let version: Version = if all_patched || r.chance(0.35) { r.weighted(&new) } else { r.weighted(&old) };
            let default_uv = version >= (2, 4);
            let libuv = version >= (2, 2) && default_uv != r.chance(0.15);
            let port = match r.weighted(&[(0, 0.75), (1, 0.12), (2, 0.13)]) {
                0 => 29_500,
                1 => 29_501 + r.below(20) as u16,
                _ => 20_000 + r.below(30_000) as u16,
            };
            let begin = if r.chance(0.3) { -r.between(60.0, 3600.0) } else { r.between(5.0, 1500.0) };
            let end = if r.chance(0.2) { r.between(1800.0, 5200.0) } else { self.site.span + 600.0 };
            let beat = r.weighted(&[(None, 0.35), (Some(15.0), 0.25), (Some(45.0), 0.25), (Some(240.0), 0.15)]);
            let stranger = (hosts.len() > 1 && r.chance(0.04)).then(|| {
                let other: Version = r.pick(&[(1, 8), (1, 13), (2, 1), (2, 2), (2, 3), (2, 7), (2, 15)]);
                (other, self.campaign("version-mismatch", "a worker of another release"))
            });
            let restart = r.chance(0.4).then(|| r.between(20.0, 400.0));
            self.jobs.push(Job { hosts, span: (begin, end), version, libuv, port, beat, restart, stranger });
        }
    }

    /// The host and port of every store.
    fn stores(&self) -> Vec<(usize, u16)> {
        self.jobs.iter().map(|j| (j.hosts[0], j.port)).collect()
    }

    /// Scans, and when each began.
    fn draw_scans(&mut self, r: &mut Random) -> Vec<f64> {
        let count = r.weighted(&[(0, 0.15), (1, 0.45), (2, 0.25), (3, 0.15)]);
        (0..count).map(|n| self.scan(r, n)).collect()
    }

    fn scan(&mut self, r: &mut Random, n: usize) -> f64 {
        let nmap = probe::nmap();
        let light: Vec<Vec<u8>> = nmap.iter().take(14).filter(|p| !probe::is_terminal_server(p)).cloned().collect();
        let kind = r.weighted(&[(0, 0.4), (1, 0.15), (2, 0.15), (3, 0.08), (4, 0.1), (5, 0.06), (6, 0.06)]);
        let (class, what) = [
            ("scan", "nmap -sV"),
            ("scan", "nmap -sV --version-intensity 5"),
            ("scan", "RDP scanner"),
            ("scan", "connect scan"),
            ("scan", "TLS and HTTP"),
            ("foreign-client", "Kafka client"),
            ("foreign-client", "a small claim, held"),
        ][kind];
        let campaign = self.campaign(class, what);
        let start = r.between(300.0, 4200.0);
        let share = r.pick(&[0.1, 0.5, 1.0]);
        let pace = r.pick(&[0.0, 0.05, 1.0, 10.0]);
        let inside = r.chance(0.15).then(|| r.below(self.hosts.len()));
        let own = |to: IpAddr, hosts: &[Host]| match (inside, to.is_ipv4()) {
            (Some(h), _) => hosts[h].facing(to),
            (None, true) => Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 240 + n as u8))),
            (None, false) => Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x240 + n as u16))),
        };
        let second = r.chance(0.4);
        let mut targets = self.stores();
        // Hosts without a store answer too, with a reset.
        targets.extend((0..5).map(|_| (r.below(self.hosts.len()), 29_500)));
        r.shuffle(&mut targets);
        targets.dedup();
        let usual_ports_only = r.chance(0.3);
        let (mut at, mut few) = (start, 1 + r.below(3));
        for (host, port) in targets {
            let chosen = if kind >= 5 { few > 0 } else { r.chance(share) };
            if !chosen || inside == Some(host) || (usual_ports_only && port != 29_500) {
                continue;
            }
            few = few.saturating_sub(1);
            let h = &self.hosts[host];
            let server = if second { h.addresses[h.addresses.len() - 1] } else { h.addresses[0] };
            let Some(own) = own(server, &self.hosts) else { continue };
            let seen = match (h.behind_gateway, inside.is_none(), server.is_ipv4()) {
                (true, true, true) => IpAddr::V4(Ipv4Addr::new(198, 51, 100, 254)),
                _ => own,
            };
            let dialogs = match kind {
                0 | 1 => nmap_dialogs(if kind == 0 { &nmap } else { &light }),
                2 => vec![stray(probe::rdp(r), r.pick(&[3.0, 10.0, 600.0]), r.chance(0.3))],
                3 => vec![stray(Vec::new(), 1.0, true)],
                4 => (0..1 + r.below(3)).map(|_| stray(probe::harmless(r), 5.0, false)).collect(),
                5 => vec![stray(probe::kafka(), 30.0, false); 3],
                _ => vec![stray(probe::nmap()[6].clone(), r.decades(60.0, 3000.0), false)],
            };
            at += pace * r.between(0.5, 1.5) + 0.002;
            let actor = Actor {
                client_host: inside,
                own,
                seen,
                server,
                start: at,
                dialogs,
                pause: 0.003,
                worker: false,
                retries: 0,
                campaign,
            };
            self.strays.push((host, port, actor));
        }
        start
    }

    /// Health checks and scrapes that somebody pointed at a store.
    fn draw_checks(&mut self, r: &mut Random) {
        let balancer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 230));
        for (host, port) in self.stores() {
            if !r.chance(0.08) {
                continue;
            }
            let every = r.pick(&[20.0, 60.0]);
            let scrape = r.chance(0.3);
            let campaign = self.campaign("foreign-client", if scrape { "scrape" } else { "health check" });
            let begin = r.between(0.0, every);
            for n in 0..(self.site.span / every) as u32 {
                let bytes: Vec<u8> =
                    if scrape { b"GET /metrics HTTP/1.1\r\nHost: store\r\n\r\n".to_vec() } else { Vec::new() };
                let actor = Actor {
                    client_host: None,
                    own: balancer,
                    seen: balancer,
                    server: self.hosts[host].addresses[0],
                    start: begin + every * f64::from(n),
                    dialogs: vec![stray(bytes, 2.0, false)],
                    pause: 0.0,
                    worker: false,
                    retries: 0,
                    campaign,
                };
                self.strays.push((host, port, actor));
            }
        }
    }

    fn draw_ooms(&mut self, r: &mut Random, scans: &[f64]) {
        let an_hour = r.weighted(&[(0.0, 0.3), (0.02, 0.3), (0.1, 0.25), (0.4, 0.15)]);
        for host in 0..self.hosts.len() {
            if an_hour <= 0.0 {
                break;
            }
            let mut at = 0.0;
            loop {
                at += r.exponential(3600.0 / an_hour);
                if at >= self.site.span {
                    break;
                }
                let victim =
                    r.weighted(&[(OomVictim::Rank0, 0.3), (OomVictim::Rank, 0.3), (OomVictim::Bystander, 0.4)]);
                let total_vm = address_space(r);
                self.oom(r, host, at, victim, total_vm);
            }
        }
        // One hungry program, started on many hosts at once; often just after a scan.
        if r.chance(0.4) {
            let after = scans.first().filter(|_| r.chance(0.6)).copied();
            let (anywhere, soon) = (r.between(200.0, 5000.0), r.between(5.0, 700.0));
            let at = after.map_or(anywhere, |s| s + soon);
            let count = 3 + r.below(28);
            let within = r.decades(5.0, 150.0);
            let like = if r.chance(0.3) { r.between(0.9e12, 1.1e12) as u64 } else { address_space(r) };
            let victim = r.weighted(&[(OomVictim::Bystander, 0.6), (OomVictim::Rank0, 0.4)]);
            let mut hosts: Vec<usize> = (0..self.hosts.len()).collect();
            r.shuffle(&mut hosts);
            for host in hosts.into_iter().take(count) {
                let time = at + r.between(0.0, within);
                let total_vm = (like as f64 * r.between(0.99, 1.01)) as u64;
                self.oom(r, host, time, victim, total_vm);
            }
        }
    }

    fn oom(&mut self, r: &mut Random, host: usize, at: f64, victim: OomVictim, total_vm: u64) {
        let ram = self.hosts[host].machine.ram as f64;
        let rss = (ram * r.between(0.3, 0.95)).min(total_vm as f64 * 0.95) as u64;
        self.ooms.push(Oom { host, at, victim, total_vm, rss });
    }
}

/// The address space of a process that trains or feeds one that does.
fn address_space(r: &mut Random) -> u64 {
    match r.weighted(&[(0, 0.6), (1, 0.3), (2, 0.1)]) {
        0 => r.decades(10e9, 200e9) as u64,
        1 => r.decades(200e9, 800e9) as u64,
        _ => r.between(0.8e12, 1.3e12) as u64,
    }
}

/// A SYN scan's connection, one that waits for a banner and then is given the first probe, one for each other probe.
fn nmap_dialogs(probes: &[Vec<u8>]) -> Vec<Vec<Step>> {
    let mut dialogs = vec![vec![Step::Close(true)]];
    for (i, p) in probes.iter().enumerate() {
        let mut steps = if i == 0 { vec![Step::Await(1, 6.0)] } else { Vec::new() };
        steps.extend(stray(p.clone(), 5.0, false));
        dialogs.push(steps);
    }
    dialogs
}
