//! What really happened, and what of it can be seen: worked out from the plan and the play, and from what was written down.
//! Nothing here asks the analyzer's rules.

use serde::Serialize;

use super::capture::Places;
use super::engine::{Cause, Kill};
use super::host::{Format, Host};
use super::plan::Plan;
use super::wire::{FIN, Network, RST};

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Place {
    pub(crate) capture: String,
    pub(crate) packet: u32,
}

/// A kill, with what caused it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Death {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) process: &'static str,
    /// Seconds after the simulation began, by a clock that is right.
    pub(crate) at: f64,
    pub(crate) total_vm: u64,
    /// `claim`, `both` (memory ran out for other reasons, and the process held a claim), or `other`.
    pub(crate) cause: &'static str,
    pub(crate) claim_bytes: Option<u64>,
    pub(crate) campaign: Option<usize>,
    pub(crate) lag: Option<f64>,
    /// Where the segment that completed the claim was captured.
    pub(crate) trigger: Vec<Place>,
    /// A log of the host was kept.
    pub(crate) logged: bool,
    /// The listener's end can be seen in a capture.
    pub(crate) death_seen: bool,
    /// Why nobody can find the trigger from what was kept; `None`: it can be found.
    pub(crate) hidden: Option<String>,
}

/// All of a cluster.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Truth {
    pub(crate) seed: u64,
    pub(crate) hosts: usize,
    /// `KIND: WHAT`, by number.
    pub(crate) campaigns: Vec<String>,
    pub(crate) deaths: Vec<Death>,
    /// Claims that held a store until its job was ended by other hands, each where it was captured: nobody was killed of them.
    pub(crate) ended: Vec<Vec<Place>>,
}

pub(crate) fn truth(
    seed: u64,
    plan: &Plan,
    network: &Network,
    places: &Places,
    (kills, ended): (&[Kill], &[usize]),
) -> Truth {
    Truth {
        seed,
        hosts: plan.hosts.len(),
        campaigns: plan.campaigns.iter().map(|c| format!("{}: {}", c.kind, c.what)).collect(),
        deaths: kills.iter().map(|k| death(plan, network, places, k)).collect(),
        ended: ended.iter().map(|segment| captured(plan, network, places, *segment)).collect(),
    }
}

fn captured(plan: &Plan, network: &Network, places: &Places, segment: usize) -> Vec<Place> {
    let flow = &network.flows[network.segments[segment].flow];
    let hosts = [Some(flow.server_host), flow.client_host];
    let ends = places[segment].iter().zip(hosts);
    ends.filter_map(|(packet, host)| {
        Some(Place { capture: format!("{}.pcap", plan.hosts[host?].name), packet: (*packet)? })
    })
    .collect()
}

fn death(plan: &Plan, network: &Network, places: &Places, k: &Kill) -> Death {
    let host = &plan.hosts[k.host];
    let mut d = Death {
        host: host.name.clone(),
        pid: k.pid,
        process: k.process,
        at: k.at,
        total_vm: k.total_vm,
        cause: "other",
        claim_bytes: None,
        campaign: None,
        lag: None,
        trigger: Vec::new(),
        logged: host.log.is_some(),
        death_seen: false,
        hidden: None,
    };
    match k.cause {
        Cause::Other => {}
        Cause::Both => d.cause = "both",
        Cause::Claim { segment, bytes, campaign } => {
            d.cause = "claim";
            d.trigger = captured(plan, network, places, segment);
            d.lag = Some(k.at - network.segments[segment].at_server);
            d.claim_bytes = Some(bytes);
            d.campaign = Some(campaign).filter(|c| *c < plan.campaigns.len());
            d.death_seen = k.store && death_seen(network, places, k, segment);
            d.hidden = hidden(plan, network, places, k, segment, &d);
        }
    }
    d
}

/// Two resets or closes by the dead listener, or a refusal, that some capture holds: one connection that ends is no death.
fn death_seen(network: &Network, places: &Places, k: &Kill, segment: usize) -> bool {
    let port = network.flows[network.segments[segment].flow].server.1;
    let mut flows = std::collections::BTreeSet::new();
    let mut refused = false;
    for (i, s) in network.segments.iter().enumerate() {
        let flow = &network.flows[s.flow];
        if !s.to_server
            && s.flags & (RST | FIN) != 0
            && (k.died - 0.01..k.died + 60.0).contains(&s.at_server)
            && (flow.server_host, flow.server.1) == (k.host, port)
            && places[i] != [None, None]
        {
            flows.insert(s.flow);
            refused |= s.flags & RST != 0 && s.seq == 0;
        }
    }
    refused || flows.len() >= 2
}

/// How far the times that a reader of the log arrives at are ahead of the host's clock.
pub(crate) fn log_error(plan: &Plan, host: &Host) -> f64 {
    let Some(log) = &host.log else { return 0.0 };
    let assumed = if plan.site.zone_told { plan.site.zone } else { 0 };
    log.drift + if log.is_local() { f64::from(log.zone - assumed) } else { 0.0 }
}

fn hidden(plan: &Plan, network: &Network, places: &Places, k: &Kill, segment: usize, d: &Death) -> Option<String> {
    const MAX_LAG: f64 = 900.0;
    let host = &plan.hosts[k.host];
    let flow = network.segments[segment].flow;
    let port = network.flows[flow].server.1;
    if !k.store {
        return Some("the process that was killed is not the one that took the claim".into());
    }
    if d.trigger.is_empty() {
        return Some("no capture holds the packet".into());
    }
    let whole = (0..2).any(|side| {
        let before = network.segments[..=segment].iter().enumerate();
        places[segment][side].is_some()
            && before
                .filter(|(_, s)| s.flow == flow && s.to_server && !s.payload.is_empty())
                .all(|(i, _)| places[i][side].is_some())
    });
    if !whole {
        return Some("a part of the claim's bytes was lost".into());
    }
    let lag = d.lag.unwrap_or_default();
    if lag > MAX_LAG {
        return Some("the kill came later than --max-lag after the claim".into());
    }
    let usual = [29_400, 29_500, 23_456].contains(&port);
    if !usual && !plan.ports_told {
        let spoken = network.segments.iter().enumerate().any(|(i, s)| {
            let f = &network.flows[s.flow];
            (f.server_host, f.server.1) == (k.host, port)
                && !s.to_server
                && !s.payload.is_empty()
                && places[i] != [None, None]
        });
        if !spoken {
            return Some("nothing that was captured says that a store listens on this port".into());
        }
    }
    let log = host.log.as_ref()?;
    let error = log_error(plan, host);
    let fits = (0.0..=MAX_LAG).contains(&(lag + error));
    let known = log.format != Format::Raw || log.boot_told;
    // Seen by the scanner's host alone, by a clock of its own.
    let own = places[segment][0].is_some();
    let other = network.flows[flow].client_host.map_or(0.0, |c| host.clock - plan.hosts[c].clock);
    if !own && !(0.0..=MAX_LAG).contains(&(lag + error + other)) {
        return Some("only another host's capture holds it, by another clock".into());
    }
    match (known, fits, d.death_seen) {
        (_, _, true) | (true, true, _) => None,
        (false, ..) => Some("the log counts from a boot that nobody told, and no death is seen".into()),
        (true, false, _) => Some(format!("the log's times are {error:+.0} s off, and no death is seen")),
    }
}

impl Death {
    /// Whether the trigger can be found, with a kill in a log.
    pub(crate) fn is_due(&self) -> bool {
        self.cause == "claim" && self.logged && self.hidden.is_none()
    }

    /// Whether a death without a kill in any log can be tied to its claim.
    pub(crate) fn is_due_by_wire(&self) -> bool {
        self.cause == "claim" && !self.logged && self.hidden.is_none() && self.death_seen
    }
}
