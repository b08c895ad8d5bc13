//! The next sentence: the smallest change after which nothing is hurt, tried on the models before it is said.

use std::collections::BTreeSet;

use serde::Serialize;

use super::fleet::{Fleet, Kind, Place, ROLES};
use super::host::Host;
use super::matrix::{Act, Case, Matrix};
use super::plan::Plan;
use super::ports::Ports;
use super::profile::{Profile, Scan};
use super::remedy::{Remedy, remedies};
use super::row::Grade;
use crate::protocol::nccl::{Role, Version, Versions};
use crate::protocol::tcpstore::release::Release;
use crate::protocol::tcpstore::server::Backend;

/// One change, and what is left after it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// What to do.
    pub change: String,
    /// The worst that is left, in the words of [`Grade`].
    pub leaves: &'static str,
    /// What it costs, and what stays open.
    pub but: String,
}

/// How the names of cases end that nmap's scripts send.
const SCRIPT: &str = "(nmap script)";

/// All that is advised.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Advice {
    /// Changes, the smallest first.
    pub steps: Vec<Step>,
    /// The highest intensity of version detection that kills nothing, and the highest that hurts nothing.
    pub highest_intensity: [Option<u8>; 2],
    /// Probes that kill.
    pub killing: Vec<String>,
    /// Probes that degrade, and kill nothing.
    pub degrading: Vec<String>,
    /// Probes that a file for these servers should not hold: what kills stores, else what degrades them. Of a fleet without
    /// stores, what hurts NCCL's listeners; but those are mostly hurt by the connection itself.
    pub left_out: Vec<String>,
    /// Of each kind of listener, what closes it and what stays open.
    pub listeners: Vec<Remedy>,
    /// What no change of the scan closes.
    pub remains: Vec<String>,
}

/// Looks for it. `plan` where the cases are nmap's.
pub fn advise(plan: Option<&Plan>, board: &Matrix, fleet: &Fleet, host: Host) -> Advice {
    let mut advice = Advice {
        killing: named(board, Grade::Kills),
        degrading: named(board, Grade::Degrades),
        listeners: remedies(fleet),
        ..Advice::default()
    };
    let is_store = |t: usize| fleet.targets.get(t).is_some_and(|t| matches!(t.kind, Kind::Store(_)));
    let stores = board.only(|_, t| is_store(t));
    // Ports and probes are the stores' affair: NCCL's listeners are hurt by connections as such, on ports that nobody knows.
    let about = if stores.worst().is_some() { &stores } else { board };
    let others = stores.worst().is_some() && board.only(|_, t| !is_store(t)).worst() > Some(Grade::Unknown);
    advice.left_out = named(about, Grade::Kills);
    if advice.left_out.is_empty() {
        advice.left_out = named(about, Grade::Degrades);
    }
    if board.worst().is_none_or(|w| w == Grade::Safe) {
        return advice;
    }
    match plan {
        Some(plan) => {
            of_nmap(plan, about, fleet, &mut advice);
            for step in advice.steps.iter_mut().filter(|_| others) {
                let but = [step.but.as_str(), "said of the stores alone"];
                step.but = but.into_iter().filter(|b| !b.is_empty()).collect::<Vec<_>>().join("; ");
            }
            for_all(plan, board, fleet, host, &mut advice);
        }
        None => exclusion(None, board, fleet, &mut advice),
    }
    releases(board, fleet, host, &mut advice);
    remains(fleet, &mut advice);
    advice
}

/// The probes whose worst is this.
fn named(board: &Matrix, grade: Grade) -> Vec<String> {
    let is = |c: &usize| {
        board.worst_of(*c) == Some(grade)
            && matches!(board.cases.get(*c), Some(Case { act: Act::Segments(_), name }) if !name.ends_with(SCRIPT))
    };
    (0..board.cases.len()).filter(is).filter_map(|c| board.cases.get(c)).map(|c| c.name.clone()).collect()
}

fn grade(board: &Matrix) -> Grade {
    board.worst().unwrap_or(Grade::Safe)
}

/// What a change leaves, in a few words.
fn left(board: &Matrix) -> String {
    let list = |grade| {
        let names: Vec<&str> = (0..board.cases.len())
            .filter(|c| board.worst_of(*c) == Some(grade))
            .filter_map(|c| board.cases.get(c))
            .map(|c| c.name.as_str())
            .collect();
        match names.len() {
            0 => None,
            1 => names.first().map(|n| format!("{n} still {}", grade.name())),
            2..=4 => Some(format!("{} still {}", names.join(", "), plural(grade))),
            n => Some(format!(
                "{} and {} more still {}",
                names.iter().take(3).copied().collect::<Vec<_>>().join(", "),
                n - 3,
                plural(grade)
            )),
        }
    };
    [list(Grade::Kills), list(Grade::Degrades)].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn plural(grade: Grade) -> &'static str {
    grade.name().trim_end_matches('s')
}

/// What helps the servers of `board`: intensity, other probes, other ports.
fn of_nmap(plan: &Plan, board: &Matrix, fleet: &Fleet, advice: &mut Advice) {
    let Some(worst) = board.worst().filter(|w| *w > Grade::Unknown) else { return };
    if let Some(mut profile) = plan.profile.clone().filter(|p| p.version) {
        let now = profile.intensity;
        for (slot, bound) in [Grade::Kills, Grade::Degrades].into_iter().enumerate() {
            if worst < bound {
                continue;
            }
            let below = (0..now).rev().find_map(|intensity| {
                profile.intensity = intensity;
                let after = plan.under(board, fleet, &profile);
                (grade(&after) < bound).then_some((intensity, after))
            });
            let Some((intensity, after)) = below else { continue };
            let known = slot > 0 && advice.highest_intensity[0] == Some(intensity);
            advice.highest_intensity[slot] = Some(intensity);
            if !known {
                let what = if slot == 0 { "kills" } else { "hurts" };
                advice.steps.push(Step {
                    change: format!("--version-intensity {intensity} (the highest that {what} nothing)"),
                    leaves: grade(&after).name(),
                    but: left(&after),
                });
            }
        }
    } else if plan.profile.is_none() {
        all_probes(plan, board, advice);
    }
    let names: BTreeSet<&str> = advice.left_out.iter().map(String::as_str).collect();
    if !names.is_empty() {
        let after = board.only(|c, _| board.cases.get(c).is_none_or(|c| !names.contains(c.name.as_str())));
        let which = match names.len() {
            1..=3 => advice.left_out.join(", "),
            n => format!("the {n} that hurt"),
        };
        advice.steps.push(Step {
            change: format!("--write-probes FILE, then nmap --versiondb FILE: your probes without {which}"),
            leaves: grade(&after).name(),
            but: left(&after),
        });
    }
    exclusion(Some(plan), board, fleet, advice);
    advice.steps.retain(|s| s.leaves != worst.name());
}

/// What helps every server, NCCL's listeners among them.
fn for_all(plan: &Plan, board: &Matrix, fleet: &Fleet, host: Host, advice: &mut Advice) {
    let Some(profile) = &plan.profile else { return };
    let worst = grade(board);
    let mut say = |change: &str, after: &Matrix, but: String| {
        if grade(after) < worst {
            advice.steps.push(Step { change: change.to_owned(), leaves: grade(after).name(), but });
        }
    };
    if profile.version {
        let without = Profile { version: false, ..profile.clone() };
        let after = plan.under(board, fleet, &without);
        say("no version detection (without -sV and -A)", &after, left(&after));
    }
    if profile.scan == Scan::Connect {
        let half_open = Profile { version: false, scan: Scan::HalfOpen, untested: Vec::new(), ..profile.clone() };
        let after = Plan::new(plan.file.clone(), Some(half_open), fleet).board(fleet, host);
        say("-sS alone, run as root: no -sT, no -sV, no scripts", &after, left(&after));
    }
    let chosen = |t: usize| fleet.targets.get(t).is_some_and(|t| t.place == Place::Ephemeral);
    if (0..fleet.targets.len()).any(|t| chosen(t) && board.worst_at(t) > Some(Grade::Unknown)) {
        let but =
            "these ports are chosen by the kernel, so no list of ports covers them; nothing is learned of these hosts";
        say("--exclude the training hosts, or scan when no job starts", &board.only(|_, _| false), but.to_owned());
    }
}

/// Without a profile every probe is asked about: which intensity leaves the bad ones out, on a port that none of them names?
fn all_probes(plan: &Plan, board: &Matrix, advice: &mut Advice) {
    for (slot, bound) in [Grade::Kills, Grade::Degrades].into_iter().enumerate() {
        let bad = |name: &str| {
            (0..board.cases.len())
                .any(|c| board.cases.get(c).is_some_and(|k| k.name == name) && board.worst_of(c) >= Some(bound))
        };
        let lowest = plan.file.probes.iter().filter(|p| bad(&p.name)).map(|p| p.rarity).min();
        let Some(lowest) = lowest.and_then(|l| l.checked_sub(1)) else { continue };
        advice.highest_intensity[slot] = Some(lowest);
        let after = board.only(|c, _| {
            let probe = board.cases.get(c).and_then(|k| plan.file.probes.iter().find(|p| p.name == k.name));
            probe.is_none_or(|p| p.rarity <= lowest)
        });
        if slot == 0 || advice.highest_intensity[0] != Some(lowest) {
            advice.steps.push(Step {
                change: format!("nmap --version-intensity {lowest} (the highest whose probes {} nothing, on ports that no probe names)", if slot == 0 { "kill" } else { "hurt" }),
                leaves: grade(&after).name(),
                but: left(&after),
            });
        }
    }
}

/// Leaving the ports of the fleet out.
fn exclusion(plan: Option<&Plan>, board: &Matrix, fleet: &Fleet, advice: &mut Advice) {
    let ports = hurt_ports(plan, board, fleet);
    if ports.is_empty() {
        return;
    }
    let list = ports.text();
    let Some(plan) = plan else {
        advice.steps.push(Step {
            change: format!("exclude the ports {list} in the scanner's policy"),
            leaves: Grade::Safe.name(),
            but: "listeners on ports that the kernel chose are not covered: exclude their hosts".to_owned(),
        });
        return;
    };
    if plan.profile.is_none() {
        return;
    }
    let detection = plan.without_detection(board, fleet, &ports);
    advice.steps.push(Step {
        change: format!(
            "{} in a copy of the file of probes (nmap --versiondb COPY)",
            exclude_line(&plan.file.excluded, &ports)
        ),
        leaves: grade(&detection).name(),
        but: left(&detection),
    });
    let after = plan.excluding(board, fleet, &ports);
    advice.steps.push(Step {
        change: format!("--exclude-ports {list}"),
        leaves: grade(&after).name(),
        but: [
            Some("nmap then finds no open port there, and does not use these ports for host discovery".to_owned()),
            Some(left(&after)).filter(|l| !l.is_empty()),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; "),
    });
}

/// nmap takes one `Exclude` line in a file.
fn exclude_line(there: &Ports, more: &Ports) -> String {
    if there.is_empty() {
        return format!("a line \"Exclude T:{}\"", more.text());
    }
    let mut all = there.clone();
    all.extend(more);
    format!("its line Exclude made \"Exclude T:{}\"", all.text())
}

/// The fixed ports of servers that are hurt.
fn hurt_ports(plan: Option<&Plan>, board: &Matrix, fleet: &Fleet) -> Ports {
    let hurt = |i: &usize| board.worst_at(*i).is_some_and(|g| g > Grade::Unknown);
    let targets = (0..fleet.targets.len()).filter(hurt).filter_map(|i| fleet.targets.get(i)).cloned().collect();
    let all = Fleet { targets, notes: Vec::new() }.ports();
    plan.map_or(all.clone(), |p| p.scanned(&all))
}

/// The releases that close it: of stores, and of each kind of NCCL's listeners that is hurt.
fn releases(board: &Matrix, fleet: &Fleet, host: Host, advice: &mut Advice) {
    let bad: Vec<Case> = (0..board.cases.len())
        .filter(|c| board.worst_of(*c) >= Some(Grade::Degrades))
        .filter_map(|c| board.cases.get(c).cloned())
        .collect();
    let worst = |is: &dyn Fn(&Kind) -> bool| {
        let targets = fleet.targets.iter().enumerate().filter(|(_, t)| is(&t.kind));
        targets.filter_map(|(i, _)| board.worst_at(i)).max().filter(|g| *g >= Grade::Degrades)
    };
    let mut say = |what: &str, all: &Fleet, worst: Grade| {
        let safe = since(&bad, all, host, Grade::Unknown);
        let alive = since(&bad, all, host, Grade::Kills).filter(|_| worst == Grade::Kills);
        let (version, leaves) = match (safe, alive) {
            (Some(v), _) => (v, Grade::Safe),
            (None, Some(v)) => (v, Grade::Degrades),
            (None, None) => return,
        };
        let but = "said of these listeners alone".to_owned();
        advice.steps.push(Step { change: format!("{what} {version} or later"), leaves: leaves.name(), but });
    };
    if let Some(worst) = worst(&|k| matches!(k, Kind::Store(_))) {
        let all: Vec<(String, Release)> = Release::ALL.iter().map(|r| (r.to_string(), *r)).collect();
        let stores = |backend| {
            let mut fleet = Fleet::default();
            fleet.stores(&all, backend, &[29_500]).map(|()| fleet).unwrap_or_default()
        };
        let both = stores(None);
        if since(&bad, &both, host, Grade::Unknown).is_some() {
            say("stores of PyTorch", &both, worst);
        } else {
            if worst == Grade::Kills {
                say("stores of PyTorch", &both, worst);
            }
            say(
                "the libuv store (USE_LIBUV=1; the default since 2.4) of PyTorch",
                &stores(Some(Backend::Libuv)),
                worst,
            );
        }
    }
    for role in ROLES {
        if let Some(worst) = worst(&|k| matches!(k, Kind::Nccl(r, _) if *r == role)) {
            say(&format!("for the {}, NCCL", role.name()), &listeners(role), worst);
        }
    }
}

/// The version of `all` from which on nothing in `bad` reaches `bound`.
fn since(bad: &[Case], all: &Fleet, host: Host, bound: Grade) -> Option<String> {
    let asked = Matrix::ask(bad.to_vec(), all, host, |_, _| true);
    let hurt = |i: usize| asked.worst_at(i).is_some_and(|g| g >= bound);
    let last_hurt = (0..all.targets.len()).rev().find(|i| hurt(*i));
    let Some(last) = last_hurt else { return all.targets.first().map(|t| t.version.clone()) };
    let version = all.targets.get(last).map(|t| &t.version)?;
    all.targets.iter().skip(last).find(|t| t.version != *version).map(|t| t.version.clone())
}

fn listeners(role: Role) -> Fleet {
    let versions: Vec<(String, Role, Version)> =
        Versions::ALL.representatives().map(|v| (v.to_string(), role, v)).collect();
    let mut fleet = Fleet::default();
    fleet.nccl(&versions);
    fleet
}

/// What stays open whatever is scanned.
fn remains(fleet: &Fleet, advice: &mut Advice) {
    if fleet.targets.iter().any(|t| matches!(t.kind, Kind::Nccl(..))) {
        advice.remains.push(
            "NCCL listens on ports that the kernel chooses: no list of ports covers them, so exclude the hosts, or set NCCL_SOCKET_IFNAME to a network that is not scanned".to_owned(),
        );
    }
    if fleet.targets.iter().any(|t| matches!(t.kind, Kind::Door(_))) {
        advice.remains.push("what is said of MPI, Slurm, Gloo, TensorPipe and others was measured at the releases that are named: others may do otherwise".to_owned());
    }
    advice.remains.push("a scanner's next release may send other bytes: ask again after each update".to_owned());
}
