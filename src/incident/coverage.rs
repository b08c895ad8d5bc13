//! Who was watched, and when: a "no" states what was watched.

use std::collections::BTreeMap;

use crate::names::Names;
use crate::net::Address;
use crate::time::Timestamp;
use crate::vocabulary::CoverageLevel;

/// What one capture set held of one address.
#[derive(Clone, Debug)]
pub struct HostWatch {
    /// First packet of that capture.
    pub from: Timestamp,
    /// Last packet of it.
    pub to: Timestamp,
    /// Whether the capture was taken on that host.
    pub own: bool,
    /// The capture was taken there, and holds only what the host sent, or only what it received.
    pub one_way: bool,
    /// Packets that the capturing side dropped.
    pub drops: Option<u64>,
    /// Gaps in its streams of interest.
    pub gaps: u64,
}

/// What the captures watched, by address.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// By address of a host.
    pub by_address: BTreeMap<Address, Vec<HostWatch>>,
}

/// The coverage of one host.
#[derive(Clone, Debug)]
pub struct Covered {
    /// How much.
    pub level: CoverageLevel,
    /// Start of what captures hold of it.
    pub from: Option<Timestamp>,
    /// End of what captures hold of it.
    pub to: Option<Timestamp>,
    /// Packets dropped while capturing.
    pub drops: Option<u64>,
    /// Gaps in its streams of interest.
    pub gaps: u64,
    /// Why it is not "observed".
    pub reason: Option<String>,
}

impl Watch {
    /// Whether a capture was taken on a host at all, at whatever time.
    pub fn own(&self, names: &Names, host: &str) -> bool {
        names.addresses(host).iter().filter_map(|a| self.by_address.get(a)).flatten().any(|w| w.own)
    }

    /// Whether all captures that were taken on a host hold one direction only.
    pub fn one_way(&self, names: &Names, host: &str) -> bool {
        let all = names.addresses(host).iter().filter_map(|a| self.by_address.get(a)).flatten();
        let mut own = all.filter(|w| w.own).peekable();
        own.peek().is_some() && own.all(|w| w.one_way)
    }

    /// The coverage of `host` over the time before its kill: from its trigger, or for `before` seconds where none was
    /// found, to the kill.
    pub fn of(&self, names: &Names, host: &str, kill: Timestamp, trigger: Option<Timestamp>, before: f64) -> Covered {
        let addresses = names.addresses(host);
        if addresses.is_empty() {
            return none("no address of this host is known (name it with --hosts FILE)".to_string());
        }
        let all: Vec<&HostWatch> = addresses.iter().filter_map(|a| self.by_address.get(a)).flatten().collect();
        let first = trigger.unwrap_or(kill.plus_nanos(-((before * 1e9) as i64)));
        let during: Vec<&&HostWatch> = all.iter().filter(|w| w.from <= kill && w.to >= first).collect();
        if during.is_empty() {
            let why = if all.is_empty() {
                "no capture holds a packet of this host".to_string()
            } else {
                "its captures do not hold the time before the kill".to_string()
            };
            return none(why);
        }
        let drops = during.iter().filter_map(|w| w.drops).reduce(|a, b| a + b);
        let gaps = during.iter().map(|w| w.gaps).sum();
        let own = during.iter().any(|w| w.own);
        // A peer's capture holds what went between the two: it widens no watch over all that reached the host.
        let from = during.iter().filter(|w| w.own || !own).map(|w| w.from).min();
        let to = during.iter().filter(|w| w.own || !own).map(|w| w.to).max();
        // A capture's last packet may lie a moment before the kill: an idle network.
        let whole = during.iter().any(|w| w.own && w.from <= first && w.to.plus_nanos(1_000_000_000) >= kill);
        let reason = if during.iter().any(|w| w.own) && during.iter().filter(|w| w.own).all(|w| w.one_way) {
            Some("its capture holds one direction only".to_string())
        } else if drops.unwrap_or(0) > 0 {
            Some(match drops.unwrap_or(0) {
                1 => "1 packet was dropped while capturing".to_string(),
                n => format!("{n} packets were dropped while capturing"),
            })
        } else if whole {
            None
        } else if !own {
            Some("seen in other hosts' captures only".to_string())
        } else {
            Some("its captures hold a part of the time before the kill".to_string())
        };
        let level = if reason.is_none() { CoverageLevel::Observed } else { CoverageLevel::Partial };
        Covered { level, from, to, drops, gaps, reason }
    }
}

fn none(reason: String) -> Covered {
    Covered { level: CoverageLevel::NotObserved, from: None, to: None, drops: None, gaps: 0, reason: Some(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: i64) -> Timestamp {
        Timestamp::new(seconds, 0)
    }

    fn names() -> Names {
        let mut n = Names::default();
        n.add("a", Address::v4([192, 0, 2, 1]));
        n
    }

    fn watch(from: i64, to: i64, own: bool, drops: Option<u64>) -> Watch {
        let w = HostWatch { from: s(from), to: s(to), own, one_way: false, drops, gaps: 0 };
        Watch { by_address: [(Address::v4([192, 0, 2, 1]), vec![w])].into() }
    }

    #[test]
    fn each_level_has_its_reason() {
        let level = |w: &Watch, host: &str, trigger: Option<i64>| w.of(&names(), host, s(1000), trigger.map(s), 120.0);
        let own = watch(0, 2000, true, None);
        assert_eq!(level(&own, "a", None).level, CoverageLevel::Observed);
        assert_eq!(level(&own, "b", None).level, CoverageLevel::NotObserved);
        assert_eq!(level(&watch(950, 2000, true, None), "a", None).level, CoverageLevel::Partial);
        assert_eq!(level(&watch(950, 2000, true, None), "a", Some(960)).level, CoverageLevel::Observed);
        assert_eq!(level(&watch(0, 2000, false, None), "a", None).level, CoverageLevel::Partial);
        assert_eq!(level(&watch(0, 2000, true, Some(3)), "a", None).level, CoverageLevel::Partial);
        assert_eq!(level(&watch(0, 500, true, None), "a", None).level, CoverageLevel::NotObserved);
        assert!(level(&watch(0, 500, true, None), "a", None).reason.is_some());
    }
}
