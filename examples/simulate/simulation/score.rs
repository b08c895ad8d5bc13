//! A report held against the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::truth::{Death, Place, Truth};

/// What was right and what was wrong, of one cluster or of many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    pub(crate) clusters: usize,
    pub(crate) kills: usize,
    pub(crate) kills_by_claim: usize,
    /// Kills by a claim whose trigger can be found.
    pub(crate) due: usize,
    pub(crate) found: usize,
    /// Found although it was held to be out of sight.
    pub(crate) beyond: usize,
    /// Hosts with a trigger, by verdict: right, wrong.
    pub(crate) named: BTreeMap<String, [usize; 2]>,
    /// Incidents with a trigger, by verdict: right, wrong.
    pub(crate) incidents: BTreeMap<String, [usize; 2]>,
    pub(crate) deeds_due: usize,
    pub(crate) deeds_found: usize,
    /// Deeds whose hosts stand in one incident, all that can be found and no other.
    pub(crate) deeds_exact: usize,
    /// Incidents that hold hosts of several deeds.
    pub(crate) merged: usize,
    /// Listeners that a claim held until their job was ended, and of which no more was said than that.
    pub(crate) held: usize,
    /// Deaths without a log.
    pub(crate) wire_due: usize,
    pub(crate) wire_found: usize,
    /// Why kills by a claim were not due.
    pub(crate) hidden: BTreeMap<String, usize>,
    pub(crate) failures: Vec<Failure>,
}

/// One thing that was wrong.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) seed: u64,
    /// `wrong confirmed`, `missed` …
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// A host of an incident of the report that has a trigger.
struct Named<'a> {
    host: &'a str,
    verdict: &'a str,
    pid: Option<u64>,
    incident: usize,
    finding: &'a Value,
    reasons: String,
}

/// Holds a report (`analyze --format json`) against the truth of its cluster.
pub(crate) fn score(truth: &Truth, report: &Value) -> Score {
    let mut s = Score { clusters: 1, ..Score::default() };
    let list = |name: &str| report[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let findings: BTreeMap<&str, &Value> =
        list("findings").iter().filter_map(|f| Some((f["id"].as_str()?, f))).collect();
    let events: BTreeMap<&str, &Value> =
        list("oom_events").iter().filter_map(|e| Some((e["id"].as_str()?, e))).collect();
    let mut named: Vec<Named<'_>> = Vec::new();
    for (incident, i) in list("incidents").iter().enumerate() {
        for h in i["hosts"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some(trigger) = h["trigger"].as_str() else { continue };
            let Some(finding) = findings.get(trigger) else { continue };
            named.push(Named {
                host: h["host"].as_str().unwrap_or_default(),
                verdict: h["verdict"].as_str().unwrap_or_default(),
                pid: h["oom_event"].as_str().and_then(|e| events.get(e)?["pid"].as_u64()),
                incident,
                finding,
                reasons: h["reasons"].to_string(),
            });
        }
    }
    let mut right_of: Vec<Option<&Death>> = Vec::new();
    let mut fair = vec![true; list("incidents").len()];
    for n in &named {
        let death = truth.deaths.iter().find(|d| d.host == n.host && is_of(d, n));
        let right = death.filter(|d| d.cause == "claim" && points_at(&d.trigger, n.finding));
        right_of.push(right);
        if death.is_some_and(|d| d.cause == "both") {
            continue;
        }
        // "Possible, and something else may have ended it" is what is so: the claim held it to its end.
        if death.is_none() && n.verdict == "possible" && truth.ended.iter().any(|e| points_at(e, n.finding)) {
            s.held += 1;
            continue;
        }
        s.named.entry(n.verdict.into()).or_default()[usize::from(right.is_none())] += 1;
        if right.is_none() {
            // An incident is wrong where what makes it as sure as it is is wrong; a lesser part of it is counted by itself.
            let of = |v: &str| ["possible", "probable", "confirmed"].iter().position(|x| *x == v);
            fair[n.incident] &=
                of(n.verdict) < of(list("incidents")[n.incident]["verdict"].as_str().unwrap_or_default());
            let (at, packet) = (&n.finding["capture"], &n.finding["packet"]);
            let cause = death.map_or("no such kill", |d| d.cause);
            s.fail(
                truth.seed,
                format!("wrong {}", n.verdict),
                format!(
                    "{} pid {:?}: {} packet {packet} of {at} is named; the truth: {cause}{}; {}",
                    n.host,
                    n.pid,
                    n.finding["rule"],
                    death.map_or(String::new(), told),
                    n.reasons
                ),
            );
        }
    }
    s.kills(truth, &named, &right_of);
    s.deeds(truth, &named, &right_of);
    for (at, i) in list("incidents").iter().enumerate() {
        if named.iter().any(|n| n.incident == at) {
            let verdict = i["verdict"].as_str().unwrap_or_default();
            s.incidents.entry(verdict.into()).or_default()[usize::from(!fair[at])] += 1;
        }
    }
    s
}

fn told(d: &Death) -> String {
    let place = d.trigger.first().map_or(String::new(), |p| format!(" in packet {} of {}", p.packet, p.capture));
    format!(" at {:.1} s{place}, lag {:?}, claim {:?}", d.at, d.lag, d.claim_bytes)
}

/// Whether a host of the report speaks of this death: by pid, or, without a kill in a log, by its trigger.
fn is_of(d: &Death, n: &Named<'_>) -> bool {
    match n.pid {
        Some(pid) => u64::from(d.pid) == pid,
        None => points_at(&d.trigger, n.finding),
    }
}

/// The packet of the finding, or a sighting of it, is where the truth has the trigger.
fn points_at(places: &[Place], finding: &Value) -> bool {
    let own = std::iter::once(finding);
    let others = finding["sightings"].as_array().map(Vec::as_slice).unwrap_or_default();
    own.chain(others).any(|f| {
        let capture = f["capture"].as_str().and_then(|c| c.rsplit('/').next()).unwrap_or_default();
        places.iter().any(|t| t.capture == capture && f["packet"].as_u64() == Some(u64::from(t.packet)))
    })
}

impl Score {
    fn fail(&mut self, seed: u64, kind: String, text: String) {
        self.failures.push(Failure { seed, kind, text });
    }

    fn kills(&mut self, truth: &Truth, named: &[Named<'_>], right: &[Option<&Death>]) {
        for d in &truth.deaths {
            self.kills += usize::from(d.logged);
            let found = right.iter().flatten().any(|r| std::ptr::eq(*r, d));
            if d.cause != "claim" {
                continue;
            }
            self.kills_by_claim += 1;
            if d.is_due_by_wire() {
                self.wire_due += 1;
                self.wire_found += usize::from(found);
            } else if d.is_due() {
                self.due += 1;
                self.found += usize::from(found);
                if !found {
                    let wrongly = named.iter().any(|n| n.host == d.host && is_of(d, n));
                    let how = if wrongly { " (another packet was named)" } else { "" };
                    let seen = if d.death_seen { "death seen" } else { "no death seen" };
                    self.fail(truth.seed, "missed".into(), format!("{} pid {}{how}, {seen}{}", d.host, d.pid, told(d)));
                }
            } else {
                self.beyond += usize::from(found);
                let why = match (&d.hidden, d.logged) {
                    (Some(why), _) => why.split(['+', '-']).next().unwrap_or(why).trim().to_string(),
                    (None, _) => "no log of the host was kept, and its death is in no capture".to_string(),
                };
                *self.hidden.entry(why).or_default() += 1;
            }
        }
    }

    fn deeds(&mut self, truth: &Truth, named: &[Named<'_>], right: &[Option<&Death>]) {
        let mut incidents_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let mut deeds_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        let mut hosts_of: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for (n, d) in named.iter().zip(right) {
            hosts_of.entry(n.incident).or_default().insert(n.host);
            if let Some(deed) = d.and_then(|d| d.campaign) {
                incidents_of.entry(deed).or_default().insert(n.incident);
                deeds_of.entry(n.incident).or_default().insert(deed);
            }
        }
        self.merged += deeds_of.values().filter(|d| d.len() > 1).count();
        for deed in 0..truth.campaigns.len() {
            let due = || truth.deaths.iter().filter(|d| d.campaign == Some(deed) && d.is_due());
            let hosts: BTreeSet<&str> = due().map(|d| d.host.as_str()).collect();
            if hosts.is_empty() {
                continue;
            }
            self.deeds_due += 1;
            let incidents = incidents_of.get(&deed);
            self.deeds_found += usize::from(incidents.is_some());
            let exact = incidents.is_some_and(|i| {
                i.len() == 1
                    && i.iter().all(|i| {
                        let reported = &hosts_of[i];
                        let all: BTreeSet<&str> =
                            truth.deaths.iter().filter(|d| d.campaign == Some(deed)).map(|d| d.host.as_str()).collect();
                        hosts.is_subset(reported) && reported.is_subset(&all)
                    })
            });
            self.deeds_exact += usize::from(exact);
        }
    }

    /// Of many clusters together.
    pub(crate) fn add(&mut self, other: Score) {
        for (mine, theirs) in [
            (&mut self.clusters, other.clusters),
            (&mut self.kills, other.kills),
            (&mut self.kills_by_claim, other.kills_by_claim),
            (&mut self.due, other.due),
            (&mut self.found, other.found),
            (&mut self.beyond, other.beyond),
            (&mut self.deeds_due, other.deeds_due),
            (&mut self.deeds_found, other.deeds_found),
            (&mut self.deeds_exact, other.deeds_exact),
            (&mut self.merged, other.merged),
            (&mut self.held, other.held),
            (&mut self.wire_due, other.wire_due),
            (&mut self.wire_found, other.wire_found),
        ] {
            *mine += theirs;
        }
        for (mine, theirs) in [(&mut self.named, other.named), (&mut self.incidents, other.incidents)] {
            for (verdict, counts) in theirs {
                let sum = mine.entry(verdict).or_default();
                (sum[0], sum[1]) = (sum[0] + counts[0], sum[1] + counts[1]);
            }
        }
        for (why, count) in other.hidden {
            *self.hidden.entry(why).or_default() += count;
        }
        self.failures.extend(other.failures);
    }

    /// Of all triggers that were named, how many were right.
    pub(crate) fn precision(&self) -> f64 {
        ratio(self.named.values().map(|c| c[0]).sum(), self.named.values().map(|c| c[0] + c[1]).sum())
    }

    /// Of all triggers that can be found, how many were.
    pub(crate) fn recall(&self) -> f64 {
        ratio(self.found, self.due)
    }

    /// How many hosts, or whole incidents, were confirmed and wrong.
    pub(crate) fn wrong_confirmed(&self) -> usize {
        self.named.get("confirmed").map_or(0, |c| c[1]) + self.incidents.get("confirmed").map_or(0, |c| c[1])
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut t = String::new();
        let _ = writeln!(
            t,
            "{} clusters; {} kills in logs, {} kills by a claim, {} of which can be found by who has the files",
            self.clusters, self.kills, self.kills_by_claim, self.due
        );
        let sum = |at: usize, of: &BTreeMap<String, [usize; 2]>| of.values().map(|c| c[at]).sum::<usize>();
        let _ = writeln!(
            t,
            "triggers   precision {:.4} ({} right, {} wrong)   recall {:.4} ({} of {})   found beyond that: {}",
            self.precision(),
            sum(0, &self.named),
            sum(1, &self.named),
            self.recall(),
            self.found,
            self.due,
            self.beyond
        );
        let _ = writeln!(
            t,
            "incidents  precision {:.4} ({} right, {} wrong)   recall {:.4} ({} of {} deeds)   host sets exact {} of {}   several deeds in one {}",
            ratio(sum(0, &self.incidents), sum(0, &self.incidents) + sum(1, &self.incidents)),
            sum(0, &self.incidents),
            sum(1, &self.incidents),
            ratio(self.deeds_found, self.deeds_due),
            self.deeds_found,
            self.deeds_due,
            self.deeds_exact,
            self.deeds_due,
            self.merged
        );
        let _ = writeln!(
            t,
            "deaths without a log   found {} of {}   held by a claim until the job was ended, and called possible {}",
            self.wire_found, self.wire_due, self.held
        );
        for (what, of) in [("hosts", &self.named), ("incidents", &self.incidents)] {
            for (verdict, [right, wrong]) in of {
                let _ = writeln!(t, "  {what:9} {verdict:11} right {right:5}   wrong {wrong:4}");
            }
        }
        for (why, count) in &self.hidden {
            let _ = writeln!(t, "  cannot be found: {count:5}  {why}");
        }
        t
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
