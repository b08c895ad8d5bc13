//! From a seed to a directory: captures, logs, a list of hosts, and, beside these, the truth.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rdzvscope::api::protocol::tcpstore::Release;
use rdzvscope::api::protocol::tcpstore::server::{Backend, Server};

use super::client::{prefix, watcher, worker};
use super::engine::{Actor, Cause, Kill, Scene, play};
use super::host::Format;
use super::log;
use super::plan::{Job, NOBODY, OomVictim, Plan};
use super::random::Random;
use super::truth::{Truth, truth};
use super::wire::Network;

/// A cluster on disk.
pub(crate) struct Cluster {
    pub(crate) truth: Truth,
    /// What a user would pass to `analyze`, to be run in the cluster's directory.
    pub(crate) arguments: Vec<String>,
    pub(crate) packets: usize,
}

/// Writes `cluster/` (what a user has) and `truth.json` (what nobody has) into `directory`.
pub(crate) fn generate(directory: &Path, seed: u64, hosts: usize) -> io::Result<Cluster> {
    let plan = Plan::draw(seed, hosts);
    let mut network = Network::default();
    let (kills, ended) = live(&plan, &mut network, seed);
    let cluster = directory.join("cluster");
    std::fs::create_dir_all(cluster.join("captures"))?;
    std::fs::create_dir_all(cluster.join("logs"))?;
    let places = super::capture::write(&cluster.join("captures"), &plan.hosts, &network, seed)?;
    let mut names = String::new();
    let mut arguments: Vec<String> = ["captures", "--oom", "logs", "--hosts", "hosts"].map(String::from).to_vec();
    for (n, host) in plan.hosts.iter().enumerate() {
        for address in &host.addresses {
            names.push_str(&format!("{address} {}\n", host.name));
        }
        let Some(log) = &host.log else { continue };
        let own: Vec<&Kill> = kills.iter().filter(|k| k.host == n).collect();
        let path = cluster.join("logs").join(format!("{}.log", host.name));
        std::fs::write(path, log::text(host, log, &own, plan.site.span + 120.0))?;
        if log.format == Format::Raw && log.boot_told {
            arguments.extend(["--boot".into(), format!("{}={}", host.name, log::boot(host))]);
        }
    }
    std::fs::write(cluster.join("hosts"), names)?;
    if plan.site.zone_told {
        let (sign, minutes) = (if plan.site.zone < 0 { '-' } else { '+' }, plan.site.zone.abs() / 60);
        arguments.push(format!("--log-tz={sign}{:02}:{:02}", minutes / 60, minutes % 60));
    }
    if plan.ports_told {
        let mut ports: Vec<u16> = plan.jobs.iter().map(|j| j.port).collect();
        ports.sort_unstable();
        ports.dedup();
        let list: Vec<String> = ports.iter().map(u16::to_string).collect();
        arguments.push(format!("--port={}", list.join(",")));
    }
    let truth = truth(seed, &plan, &network, &places, (&kills, &ended));
    std::fs::write(directory.join("truth.json"), serde_json::to_vec_pretty(&truth)?)?;
    Ok(Cluster { truth, arguments, packets: network.segments.len() })
}

/// Plays every job with its strangers; returns the kills, and the claims that held a store until its job was ended.
fn live(plan: &Plan, network: &mut Network, seed: u64) -> (Vec<Kill>, Vec<usize>) {
    let mut ended = Vec::new();
    let mut r = Random::of(seed, "life");
    let mut last = 1000;
    let mut pids = || {
        last += 1;
        last
    };
    let mut kills: Vec<Kill> = Vec::new();
    let job_of: BTreeMap<usize, usize> =
        plan.jobs.iter().enumerate().flat_map(|(j, job)| job.hosts.iter().map(move |h| (*h, j))).collect();
    let mut background: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut collapses: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for o in &plan.ooms {
        let job = job_of.get(&o.host).copied();
        let is_master = job.is_some_and(|j| plan.jobs[j].hosts[0] == o.host);
        match (o.victim, job) {
            (OomVictim::Rank0, Some(j)) if is_master => {
                background.entry(j).or_default().push(o.at);
                continue;
            }
            (OomVictim::Rank | OomVictim::Rank0, Some(j)) => {
                collapses.entry(j).or_default().push(o.at + r.between(1.0, 30.0));
            }
            _ => {}
        }
        let died = o.at + super::machine::dying(o.rss, r.unit());
        kills.push(Kill {
            host: o.host,
            at: o.at,
            died,
            pid: pids(),
            process: if o.victim == OomVictim::Bystander { "python" } else { "python3" },
            total_vm: o.total_vm,
            rss: o.rss,
            limited: r.chance(0.2),
            cause: Cause::Other,
            store: false,
        });
    }
    for (j, job) in plan.jobs.iter().enumerate() {
        let mut strays: Vec<Actor> = Vec::new();
        for (host, port, actor) in &plan.strays {
            if (*host, *port) == (job.hosts[0], job.port) {
                strays.push(actor.clone());
            }
        }
        let backend = if job.libuv { Backend::Libuv } else { Backend::Poll };
        let release = Release::find(job.version.0, job.version.1).expect("a release that exists");
        let mut own = Random::of(seed, &format!("job {j}"));
        let mut workers = |begin: f64| workers(plan, job, begin, &mut own);
        let scene = Scene {
            host: job.hosts[0],
            machine: &plan.hosts[job.hosts[0]].machine,
            server: Server::new(release, backend),
            port: job.port,
            span: job.span,
            restart: job.restart,
            strays,
            background: background.remove(&j).unwrap_or_default(),
            collapses: collapses.remove(&j).unwrap_or_default(),
            workers: &mut workers,
            key0: format!("{}0", prefix(job.version)).into_bytes(),
        };
        let (killed, held) = play(scene, network, &mut r, &mut pids);
        kills.extend(killed);
        ended.extend(held);
    }
    closed_ports(plan, network, &mut r, &mut pids);
    kills.sort_by(|a, b| a.at.total_cmp(&b.at));
    kills.retain(|k| k.at >= 0.0 && k.at < plan.site.span + 60.0);
    (kills, ended)
}

fn workers(plan: &Plan, job: &Job, begin: f64, r: &mut Random) -> Vec<Actor> {
    let server = plan.hosts[job.hosts[0]].addresses[0];
    let mut all = Vec::new();
    for (rank, host) in job.hosts.iter().copied().enumerate().skip(1) {
        let stranger = job.stranger.filter(|_| rank == job.hosts.len() - 1);
        let version = stranger.map_or(job.version, |s| s.0);
        let start = begin + r.between(0.5, 20.0);
        let stay = job.span.1 - start;
        if stay <= 10.0 {
            continue;
        }
        let own = plan.hosts[host].addresses[0];
        let pid = if r.chance(0.3) { 1 + r.below(300) as u32 } else { r.below(4_000_000) as u32 };
        let mut actor = Actor {
            client_host: Some(host),
            own,
            seen: own,
            server,
            start,
            dialogs: vec![worker(version, rank, job.beat, stay, pid, r)],
            pause: 1.0,
            worker: true,
            retries: 2,
            campaign: stranger.map_or(NOBODY, |s| s.1),
        };
        all.push(actor.clone());
        if ((1, 9)..(2, 1)).contains(&version) {
            (actor.dialogs, actor.start) = (vec![watcher(stay)], start + 0.004);
            actor.retries = 0;
            all.push(actor);
        }
    }
    all
}

/// Strangers that come to a port where nobody listens.
fn closed_ports(plan: &Plan, network: &mut Network, r: &mut Random, pids: &mut dyn FnMut() -> u32) {
    let stores: Vec<(usize, u16)> = plan.jobs.iter().map(|j| (j.hosts[0], j.port)).collect();
    for (host, port, actor) in plan.strays.iter().filter(|s| !stores.contains(&(s.0, s.1))) {
        let never = f64::from(1u32 << 30);
        let scene = Scene {
            host: *host,
            machine: &plan.hosts[*host].machine,
            server: Server::new(Release::ALL[0], Backend::Poll),
            port: *port,
            span: (never, never),
            restart: None,
            strays: vec![actor.clone()],
            background: Vec::new(),
            collapses: Vec::new(),
            workers: &mut |_| Vec::new(),
            key0: Vec::new(),
        };
        play(scene, network, r, pids);
    }
}
