//! Clocks of logs, from what the captures show: kills are held against the deaths of listeners on the wire.

use std::collections::{BTreeMap, BTreeSet};

use super::options::Options;
use super::prune::guessed_zone;
use crate::clock::{Kill, Miss, Offset, boot_from_deaths, common_quarter_hour, log_against_capture};
use crate::finding::{Finding, is_open_claim};
use crate::incident::{Correction, Fit, HostClocks, MergeSortTree, Whose, kill_of};
use crate::names::{Names, short};
use crate::net::Endpoint;
use crate::oom::{EventTime, OomEvent, OomKind, OomSighting};
use crate::protocol::fate::fatal_claims;
use crate::protocol::listener::Listener;
use crate::report::model::Clock;
use crate::time::{NANOS, Timestamp};
use crate::vocabulary::Outcome;

/// A log's clock is not believed to be off by more than this many seconds, but by a zone.
const LIMIT: f64 = 3600.0;
/// Clocks of logs closer than this many seconds are left as they are: reports come late, and lags are longer.
const WORTH_SECONDS: f64 = 5.0;
/// A common zone that would fit by chance this often is none.
const CHANCE: f64 = 0.5;

/// A claim that a host's listener was sent, and its death where it was seen.
#[derive(Clone, Debug)]
struct Claim {
    at: Timestamp,
    /// What its candidate servers would allocate.
    sizes: Vec<u64>,
    died: Option<Timestamp>,
}

impl Claim {
    fn fit(&self, total_vm: Option<u64>) -> Fit {
        self.sizes.iter().map(|s| Fit::of(total_vm, *s)).max().unwrap_or(Fit::Unknown)
    }
}

/// The claims of each host, by its short name.
pub(super) struct Claims(BTreeMap<String, Vec<Claim>>);

/// What was found of clocks.
#[derive(Default)]
pub(super) struct ClockNotes {
    pub(super) clocks: Vec<Clock>,
    pub(super) corrections: HostClocks,
    /// To be said first.
    pub(super) first: Vec<String>,
    pub(super) notes: Vec<String>,
    /// Boot times found, by short name.
    pub(super) boots: BTreeMap<String, Timestamp>,
}

/// The open claims of all hosts; of a listener that died of one, that one alone.
pub(super) fn claims(listeners: &[Listener], findings: &[Finding], names: &Names) -> Claims {
    let mut by_host: BTreeMap<String, Vec<Claim>> = BTreeMap::new();
    let mut by_target: BTreeMap<Endpoint, Vec<&Finding>> = BTreeMap::new();
    for f in findings {
        by_target.entry(f.target).or_default().push(f);
    }
    for l in listeners {
        let own = by_target.remove(&l.endpoint).unwrap_or_default();
        let fatal = fatal_claims(l, &own);
        // Of a life that a claim ended, that claim alone. Both are in order of time.
        let unread = |f: &Finding| {
            let before = fatal.partition_point(|(x, _)| x.time <= f.time);
            let last = before.checked_sub(1).and_then(|i| fatal.get(i));
            last.is_some_and(|(x, death)| x.id != f.id && death.is_none_or(|d| d.time >= f.time))
        };
        let open = own.iter().copied().filter(|f| is_open_claim(f) && !unread(f));
        let host = names.host(l.endpoint.address).map_or_else(|| l.endpoint.address.to_string(), str::to_string);
        for f in open {
            let sizes = f.effects.iter().filter(|e| e.outcome == Outcome::Allocates).filter_map(|e| e.allocates_bytes);
            let died = fatal.iter().find(|(x, _)| x.id == f.id).and_then(|(_, d)| *d).map(|d| d.time);
            by_host.entry(short(&host)).or_default().push(Claim { at: f.time, sizes: sizes.collect(), died });
        }
    }
    Claims(by_host)
}

impl Claims {
    fn of(&self, host: Option<&str>, names: &Names) -> &[Claim] {
        let Some(host) = host else { return &[] };
        self.0.get(&short(names.canonical(host))).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Claims in order of the time at which a kill is expected of them.
struct Aimed {
    times: Vec<Timestamp>,
    claims: Vec<usize>,
    sizes: MergeSortTree,
}

impl Aimed {
    /// Those that their listener died of (`died`), or those that it did not.
    fn of(claims: &[Claim], died: bool) -> Aimed {
        let mut all: Vec<(Timestamp, usize, u64)> = Vec::new();
        for (i, c) in claims.iter().enumerate().filter(|(_, c)| c.died.is_some() == died) {
            all.extend(c.sizes.iter().map(|s| (c.died.unwrap_or(c.at), i, *s)));
        }
        all.sort_unstable();
        let sizes = MergeSortTree::new(all.iter().map(|(.., s)| *s).collect());
        Aimed { times: all.iter().map(|(t, ..)| *t).collect(), claims: all.iter().map(|(_, i, _)| *i).collect(), sizes }
    }

    /// The claims nearest to `time` before it and after it that a process of so many bytes fits.
    fn nearest(&self, time: Timestamp, total_vm: u64) -> impl Iterator<Item = usize> {
        let (at, sizes) = (self.times.partition_point(|t| *t < time), Fit::sizes(Some(total_vm)));
        let found = [self.sizes.last(0, at, sizes), self.sizes.first(at, self.times.len(), sizes)];
        found.into_iter().flatten().filter_map(|place| self.claims.get(place).copied())
    }
}

/// The sizes of a host's claims in order: how a kill fits them is a search, not a walk through all of them.
struct Sizes {
    sizes: Vec<u64>,
    /// Whether some claim has no size: it is unknown how a kill stands against that.
    unsized_claim: bool,
}

impl Sizes {
    fn of(claims: &[Claim]) -> Sizes {
        let mut sizes: Vec<u64> = claims.iter().flat_map(|c| &c.sizes).copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        Sizes { sizes, unsized_claim: claims.is_empty() || claims.iter().any(|c| c.sizes.is_empty()) }
    }

    /// The best fit among all claims, as [`Claim::fit`] of each would have it.
    fn best(&self, total_vm: Option<u64>) -> Fit {
        let unknown = if self.unsized_claim { Fit::Unknown } else { Fit::Contradicts };
        let Some(vm) = total_vm else { return Fit::Unknown };
        // The largest claim that the process could hold is the one that fits if any does; below it fit grows worse.
        let at = self.sizes.partition_point(|s| *s <= vm);
        let held =
            at.checked_sub(1).and_then(|i| self.sizes.get(i)).map_or(Fit::Contradicts, |s| Fit::of(total_vm, *s));
        held.max(unknown)
    }
}

/// Gives kills of raw kernel logs without a boot time the time that their listeners' deaths tell.
pub(super) fn align(
    sightings: &mut [OomSighting],
    untimed: &[OomSighting],
    claims: &Claims,
    names: &Names,
    told: &mut ClockNotes,
) {
    let mut hosts: BTreeSet<&str> = untimed.iter().filter_map(OomSighting::host).collect();
    hosts.retain(|h| !claims.of(Some(h), names).is_empty());
    for host in hosts {
        let own = claims.of(Some(host), names);
        let fitting: Vec<&OomSighting> = untimed
            .iter()
            .filter(|s| s.host().is_some_and(|h| names.same(h, host)) && s.boot_nanos().is_some())
            .filter(|s| own.iter().any(|c| c.died.is_some() && c.fit(s.total_vm_bytes()) == Fit::Fits))
            .collect();
        let mut deaths: Vec<Timestamp> = own.iter().filter_map(|c| c.died).collect();
        deaths.sort_unstable();
        let kill = |s: &&OomSighting| {
            let in_cgroup = s.facts.kind == Some(OomKind::Cgroup);
            Some(Kill { at: Timestamp(s.boot_nanos?), anon_rss_bytes: s.facts.anon_rss, in_cgroup })
        };
        let kills: Vec<Kill> = fitting.iter().filter_map(kill).collect();
        let reaped: Vec<Timestamp> = fitting.iter().filter_map(|s| s.reaped_boot_nanos).map(Timestamp).collect();
        let Some(boot) = boot_from_deaths(&deaths, &kills, &reaped) else { continue };
        let died = deaths.first().copied().unwrap_or(boot.at);
        let from = "boot-relative, aligned by the listener's death on the wire";
        let uncertainty = (boot.uncertainty * NANOS as f64) as i64;
        let time = |nanos: i64| EventTime::since_boot(boot.at.plus_nanos(nanos), uncertainty, from, true);
        for s in sightings.iter_mut().filter(|s| s.time.is_none() && s.host().is_some_and(|h| names.same(h, host))) {
            s.time = s.boot_nanos.map(time);
            s.reaped_at = s.reaped_at.or(s.reaped_boot_nanos.map(time));
        }
        let how = format!(
            "its boot time is taken as {} (within {:.1} s): the listener died on the wire at {died}{} ({})",
            boot.at,
            (boot.uncertainty * 10.0).ceil() / 10.0,
            if deaths.len() > 1 { format!(" and {} more times", deaths.len() - 1) } else { String::new() },
            boot.method.name()
        );
        told.notes.push(format!("{host}: raw kernel log without a boot time; {how}. --boot {host}=TIME settles it."));
        told.corrections.add(
            names.canonical(host),
            Correction { whose: Whose::Log, text: how, uncertainty: boot.uncertainty, agreed: false },
        );
        told.clocks.push(Clock {
            host: host.to_string(),
            against: Some(format!("captures of {host}")),
            offset_seconds: None,
            uncertainty_seconds: Some(boot.uncertainty),
            method: Some(format!("boot time {}: {}", boot.at, boot.method.name())),
            applied: true,
        });
        told.boots.insert(short(names.canonical(host)), boot.at);
    }
}

fn moved(e: &mut OomEvent, seconds: f64, uncertainty: f64) {
    let nanos = (-seconds * NANOS as f64) as i64;
    e.time = e.time.plus_nanos(nanos);
    e.reaped_at = e.reaped_at.map(|t| t.plus_nanos(nanos));
    e.alternative_time = e.alternative_time.map(|t| t.plus_nanos(nanos));
    e.uncertainty_nanos = e.uncertainty_nanos.saturating_add((uncertainty * NANOS as f64) as i64);
}

/// Logs that all miss their triggers by one multiple of a quarter of an hour: a zone that nobody named.
pub(super) fn common_zone(
    options: &Options,
    events: &mut [OomEvent],
    claims: &Claims,
    names: &Names,
    told: &mut ClockNotes,
) {
    let max_lag = options.max_lag;
    let mut misses: BTreeMap<String, Miss> = BTreeMap::new();
    // Where every line names its zone, it may be the zone that is wrong.
    let unnamed = events.iter().any(|e| e.kind != OomKind::Gpu && guessed_zone(e));
    let concerned = |e: &OomEvent| e.kind != OomKind::Gpu && (guessed_zone(e) || !unnamed);
    let mut aimed: BTreeMap<&str, [Aimed; 2]> = BTreeMap::new();
    for e in events.iter().filter(|e| concerned(e)) {
        let unsure = e.uncertainty_nanos as f64 / NANOS as f64;
        let own = claims.of(e.host.as_deref(), names);
        let (Some(host), Some(vm), false) = (e.host.as_deref(), e.total_vm_bytes, own.is_empty()) else { continue };
        let [dead, alive] = aimed.entry(host).or_insert_with(|| [Aimed::of(own, true), Aimed::of(own, false)]);
        let near = dead.nearest(e.reaped_at.unwrap_or(e.time), vm).chain(alive.nearest(e.time, vm));
        for c in near.filter_map(|i| own.get(i)) {
            let miss = match (c.died, e.reaped_at) {
                (Some(died), Some(reaped)) => {
                    Miss { seconds: reaped.seconds_since(died), least: -1.0 - unsure, most: 1.0 + unsure }
                }
                (Some(died), None) => {
                    Miss { seconds: e.time.seconds_since(died), least: -60.0 - unsure, most: 1.0 + unsure }
                }
                (None, _) => Miss { seconds: e.time.seconds_since(c.at), least: -unsure, most: max_lag },
            };
            // Of several kills that fit, the one whose bounds are narrowest, then nearest.
            let key = short(e.host.as_deref().unwrap_or_default());
            let narrower =
                |m: &Miss| (miss.most - miss.least, miss.seconds.abs()) < (m.most - m.least, m.seconds.abs());
            if misses.get(&key).is_none_or(narrower) {
                misses.insert(key, miss);
            }
        }
    }
    let all: Vec<Miss> = misses.values().copied().collect();
    let Some(found) = common_quarter_hour(&all).filter(|q| q.chance <= CHANCE) else { return };
    let seconds = found.seconds() as f64;
    let given = events.iter().find(|e| concerned(e) && e.time_source.contains("zone given"));
    let given = given.and_then(|e| Some(options.zone_of_log(e.host.as_deref(), names)?.east_at(e.time)));
    let (logs, miss) = if found.fits == 1 { ("one log", "misses") } else { ("all logs", "miss") };
    let by = format!(
        "what the captures show by {:+} h, a multiple of 15 minutes ({} agree)",
        seconds / 3600.0,
        if found.fits == 1 { "one host".to_string() } else { format!("{} hosts", found.fits) }
    );
    // The zone to name, where it is not the lines that name a wrong one.
    let zone = (unnamed || given.is_some()).then(|| found.zone(given.unwrap_or(0)));
    told.first.push(match (&zone, given) {
        (Some(zone), Some(_)) => format!(
            "The zone that --log-tz gives seems wrong: {logs} {miss} {by}. --log-tz {zone} fits, and their times are taken so."
        ),
        (Some(zone), None) => format!(
            "Of the logs without a zone, {logs} {miss} {by}: their times are taken as of {zone}. Pass --log-tz {zone} to confirm it."
        ),
        (None, _) => {
            format!("Though their lines name a zone, {logs} {miss} {by}: that zone seems wrong, and they were corrected.")
        }
    });
    let zone =
        zone.map_or_else(|| format!("{:+} h from what its lines say", -seconds / 3600.0), |z| format!("--log-tz {z}"));
    for e in events.iter_mut().filter(|e| concerned(e)) {
        moved(e, seconds, 0.0);
        e.time_source = "local time, zone inferred from the captures";
        e.time_is_assumed = true;
        let Some(host) = e.host.as_deref() else { continue };
        if told.corrections.of(names.canonical(host)).is_empty() {
            let text = format!("the zone of its log was inferred from the captures ({zone})");
            told.corrections
                .add(names.canonical(host), Correction { whose: Whose::Log, text, uncertainty: 0.0, agreed: false });
            told.clocks.push(Clock {
                host: host.to_string(),
                against: Some("captures".to_string()),
                offset_seconds: Some(seconds),
                uncertainty_seconds: Some(found.uncertainty),
                method: Some(format!("common multiple of 15 minutes: zone {zone}")),
                applied: true,
            });
        }
    }
}

/// Clocks of single hosts' logs, from the deaths of their listeners.
pub(super) fn log_clocks(
    events: &mut [OomEvent],
    claims: &Claims,
    names: &Names,
    swapped: &BTreeMap<String, String>,
    told: &mut ClockNotes,
) {
    let mut by_host: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, e) in events.iter().enumerate() {
        if let Some(host) = &e.host {
            by_host.entry(host.clone()).or_default().push(i);
        }
    }
    let mut found: Vec<(String, Offset, f64)> = Vec::new();
    for (host, indices) in &by_host {
        let host = host.clone();
        let own = claims.of(Some(&host), names);
        let deaths: Vec<Timestamp> = own.iter().filter_map(|c| c.died).collect();
        // Logs that fit each other's captures are not each off by as much as the other is to the other side.
        if swapped.contains_key(&names.key(&host)) {
            continue;
        }
        // A boot time or a zone that was found from the death agrees with it by its making.
        if deaths.is_empty() || !told.corrections.of(names.canonical(&host)).iter().all(|c| c.whose == Whose::Capture) {
            continue;
        }
        let of_host = || indices.iter().filter_map(|i| events.get(*i)).filter(|e| e.kind != OomKind::Gpu);
        let sizes = Sizes::of(own);
        let fit = |e: &OomEvent| sizes.best(e.total_vm_bytes);
        let Some(best) = of_host().map(fit).max().filter(|b| *b >= Fit::Unknown) else { continue };
        let fitting: Vec<&OomEvent> = of_host().filter(|e| fit(e) == best).collect();
        let kills: Vec<Kill> = fitting.iter().map(|e| kill_of(e)).collect();
        let reapers: Vec<Timestamp> = fitting.iter().filter_map(|e| e.reaped_at).collect();
        let offset = log_against_capture(&deaths, &kills, &reapers, LIMIT);
        if let Some(offset) = offset.or_else(|| of_a_zone(&deaths, &kills, &reapers)) {
            let unsure = fitting.iter().map(|e| e.uncertainty_nanos).max().unwrap_or(0) as f64 / NANOS as f64;
            found.push((host, offset, unsure));
        }
    }
    for (host, offset, unsure) in &found {
        let off = offset.seconds.abs() >= WORTH_SECONDS.max(offset.uncertainty + unsure);
        told.clocks.push(Clock {
            host: host.clone(),
            against: Some(format!("captures of {host}")),
            offset_seconds: Some(micro(offset.seconds)),
            uncertainty_seconds: Some(micro(offset.uncertainty)),
            method: Some(offset.method.name().to_string()),
            applied: off,
        });
        if !off {
            continue;
        }
        for i in by_host.get(host).into_iter().flatten() {
            if let Some(e) = events.get_mut(*i) {
                moved(e, offset.seconds, offset.uncertainty);
            }
        }
        let agree = found.iter().filter(|(h, o, _)| h != host && o.agrees(offset)).count();
        let text = format!(
            "{} off, by the listener's death on the wire ({}); its times were corrected{}",
            match offset.seconds {
                s if s.abs() > LIMIT => format!("its log seems to be of another zone: it is {:+.2} h", s / 3600.0),
                s => format!("the clock of its log is {s:+.1} s"),
            },
            offset.method.name(),
            if agree >= 2 { format!(", and {agree} other hosts' logs are off by as much") } else { String::new() }
        );
        told.notes.push(format!("{host}: {text}."));
        told.corrections.add(
            names.canonical(host),
            Correction { whose: Whose::Log, text, uncertainty: offset.uncertainty, agreed: agree >= 2 },
        );
    }
}

/// Kills of one host that are held against zones: more fit one by chance.
const OF_A_ZONE: usize = 4;

/// A log of one host that is off by a multiple of a quarter of an hour: its lines are of another zone than the other logs'.
fn of_a_zone(deaths: &[Timestamp], kills: &[Kill], reapers: &[Timestamp]) -> Option<Offset> {
    if kills.len() > OF_A_ZONE || deaths.len() > OF_A_ZONE {
        return None;
    }
    let shifted = |quarters: i64| {
        let by = -quarters * 900 * NANOS;
        let kills: Vec<Kill> = kills.iter().map(|k| Kill { at: k.at.plus_nanos(by), ..*k }).collect();
        let reapers: Vec<Timestamp> = reapers.iter().map(|r| r.plus_nanos(by)).collect();
        let o = log_against_capture(deaths, &kills, &reapers, WORTH_SECONDS)?;
        Some(Offset { seconds: o.seconds + (quarters * 900) as f64, ..o })
    };
    (-48..=56).filter_map(shifted).max_by_key(|o| (o.fits, -(o.seconds.abs() as i64)))
}

/// Of an hour that was lived twice the instant that fits a claim. `fits`: whether a kill at its time has a trigger.
pub(super) fn repeated_hours(events: &mut [OomEvent], fits: impl Fn(&OomEvent) -> Option<Fit>) {
    for e in events.iter_mut() {
        let Some(later) = e.alternative_time else { continue };
        let mut other = e.clone();
        moved(&mut other, e.time.seconds_since(later), 0.0);
        other.alternative_time = Some(e.time);
        other.time_source = "local time of an hour lived twice, the later taken: it alone follows a claim";
        match (fits(e), fits(&other)) {
            (Some(_), None) => {
                e.time_source = "local time of an hour lived twice, the earlier taken: it alone follows a claim";
            }
            (a, b) if b > a => *e = other,
            _ => {}
        }
    }
}

/// To microseconds: nothing here is better.
pub(super) fn micro(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
