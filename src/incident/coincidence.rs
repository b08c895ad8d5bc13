//! How likely it is that kills of several hosts fall together by accident.
//!
//! Kills that no trigger explains are taken as a Poisson process on each host, with the rate that the host's own logs show
//! (one half is added, so that a host without any other kill has a small rate and not none). A coincidence as large as the
//! incident is k hosts within its window: a kill on any host, and k − 1 other hosts within the window after it.

use std::collections::BTreeMap;

use super::Incident;
use crate::names::short;
use crate::oom::{OomEvent, OomKind};

/// Logs shorter than this say nothing of a rate.
pub const LEAST_DAYS: f64 = 3.0;

/// An estimate, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Coincidence {
    /// Such coincidences to be expected in a year; `None`: not estimated.
    pub expected_per_year: Option<f64>,
    /// The time within which the kills fell, in seconds.
    pub window: f64,
    /// How, in words.
    pub method: String,
}

/// How often the processes of each host are killed, by all logs; reckoned once for all incidents.
#[derive(Debug, Default)]
pub struct Rates<'a> {
    /// How many days the logs of each host reach, by short name.
    days: Option<&'a BTreeMap<String, f64>>,
    /// Kills of each host, by short name.
    kills: BTreeMap<String, u64>,
    /// Hosts with logs that reach far enough.
    hosts: usize,
    /// Kills a day of all these together, one half added to each.
    all: f64,
}

impl<'a> Rates<'a> {
    /// Of all kills. `days`: how many days the logs of each host reach, by short name.
    pub fn of(events: &[OomEvent], days: &'a BTreeMap<String, f64>) -> Rates<'a> {
        let mut kills: BTreeMap<String, u64> = BTreeMap::new();
        for host in events.iter().filter(|e| e.kind != OomKind::Gpu).filter_map(|e| e.host.as_deref()) {
            *kills.entry(short(host)).or_default() += 1;
        }
        let known = || days.iter().filter(|(_, d)| **d >= LEAST_DAYS);
        let all = known().map(|(h, d)| (kills.get(h).copied().unwrap_or(0) as f64 + 0.5) / d).sum();
        Rates { days: Some(days), hosts: known().count(), kills, all }
    }

    /// Kills a day of all hosts, those of an incident (by short name) left out.
    fn without(&self, own: &BTreeMap<String, u64>) -> f64 {
        let day = |host: &String| self.days.and_then(|d| d.get(host)).copied().filter(|d| *d >= LEAST_DAYS);
        let mut all = self.all;
        for (host, n) in own {
            if let Some(d) = day(host) {
                all -= (*n).min(self.kills.get(host).copied().unwrap_or(0)) as f64 / d;
            }
        }
        // Half a kill each is what is left at least: rounding must not take more.
        all.max(0.0)
    }
}

/// The chance of an incident.
pub fn chance(incident: &Incident, events: &[OomEvent], rates: &Rates<'_>) -> Option<Coincidence> {
    let parts: Vec<&OomEvent> = incident.hosts.iter().filter_map(|h| events.get(h.event?)).collect();
    let hosts: std::collections::BTreeSet<String> = parts.iter().filter_map(|e| e.host.as_deref()).map(short).collect();
    if hosts.len() < 2 {
        return None;
    }
    let (first, last) = (parts.iter().map(|e| e.time).min()?, parts.iter().map(|e| e.time).max()?);
    let window = last.seconds_since(first).max(1.0);
    let days = rates.days?;
    if hosts.iter().any(|h| days.get(h).is_none_or(|d| *d < LEAST_DAYS)) {
        let shortest = hosts.iter().map(|h| days.get(h).copied().unwrap_or(0.0)).fold(f64::MAX, f64::min);
        return Some(Coincidence {
            expected_per_year: None,
            window,
            method: format!(
                "not estimated: the shortest log of these hosts reaches {}, and {LEAST_DAYS:.0} days are needed to know how often \
                 processes are killed there anyway",
                reach(shortest)
            ),
        });
    }
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    for host in parts.iter().filter(|e| e.kind != OomKind::Gpu).filter_map(|e| e.host.as_deref()) {
        *own.entry(short(host)).or_default() += 1;
    }
    // Kills a day, of every host with logs that reach far enough.
    let all = rates.without(&own);
    let k = hosts.len();
    let mean = all * window / 86_400.0;
    let expected = 365.25 * all * at_least(k - 1, mean);
    Some(Coincidence {
        expected_per_year: Some(expected),
        window,
        method: format!(
            "Poisson, with each host's own rate of other kills ({:.3} a day over {} hosts): {k} hosts within {window:.0} s",
            all, rates.hosts
        ),
    })
}

/// Days as a person says them: `2.4 days`, `1.2 hours`, `3 minutes`.
fn reach(days: f64) -> String {
    match days * 24.0 {
        h if h >= 48.0 => format!("{days:.1} days"),
        h if h >= 1.0 => format!("{h:.1} hours"),
        h => format!("{:.0} minutes", h * 60.0),
    }
}

/// The probability that a Poisson variable of this mean is at least `n`.
fn at_least(n: usize, mean: f64) -> f64 {
    if n == 0 {
        return 1.0;
    }
    // Summed from n on: for small means the complement would be lost in rounding.
    let mut term = (-mean).exp();
    for i in 1..=n {
        term *= mean / i as f64;
    }
    let mut sum = 0.0;
    let mut i = n;
    while term > sum * 1e-12 && i < n + 10_000 {
        sum += term;
        i += 1;
        term *= mean / i as f64;
    }
    sum.min(1.0)
}

/// In words, bounded: nobody knows a rate well enough for more.
pub fn in_words(expected_per_year: f64) -> String {
    match expected_per_year {
        e if e < 1e-3 => "by accident less than once in 1000 years".to_string(),
        e if e < 0.1 => format!("by accident about once in {:.0} years", 1.0 / e),
        e if e < 2.0 => "by accident about once in a year or in some years".to_string(),
        e if e < 52.0 => format!("by accident about {e:.0} times a year"),
        _ => "by accident every week or more often: the times alone prove nothing".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_tails_are_right() {
        assert!((at_least(1, 1.0) - 0.632_120_558).abs() < 1e-8);
        assert!((at_least(2, 0.001) - 4.996_668e-7).abs() < 1e-12);
        assert!((at_least(3, 20.0) - 1.0).abs() < 1e-6);
        assert_eq!(at_least(0, 0.0), 1.0);
        assert_eq!(at_least(2, 0.0), 0.0);
    }

    #[test]
    fn words_are_bounded() {
        assert!(in_words(1e-12).contains("1000 years") && in_words(0.01).contains("100 years"));
        assert!(in_words(500.0).contains("prove nothing"));
    }
}
