//! Refused connections: how often a rank tries again, and after which pauses, tells its release.

use std::collections::BTreeMap;

use super::version::Versions;
use crate::net::Address;
use crate::stream::{FlowRecord, PacketRef};
use crate::time::Timestamp;

/// Attempts that are looked at.
const ATTEMPTS: usize = 65_536;
/// Rungs that make a ladder, and attempts that make a drumbeat.
const RUNGS: usize = 5;
const BEATS: usize = 100;

/// A pattern of refused attempts that only NCCL makes.
#[derive(Clone, PartialEq, Debug)]
pub struct RetryPattern {
    /// The releases that make it.
    pub versions: Versions,
    /// Attempts in the longest ladder, or all of a drumbeat.
    pub attempts: usize,
    /// In words.
    pub text: String,
    /// The packet of the first attempt.
    pub packet: PacketRef,
}

/// Looks for a ladder among the refused attempts at one listener. 2.24 and later pause for 100, 200, … ms; up to
/// 2.15 there are thousands of attempts a millisecond apart. Ranks of one host interleave.
pub fn ladder(records: &[&FlowRecord]) -> Option<RetryPattern> {
    let mut by_client: BTreeMap<Address, Vec<(Timestamp, PacketRef)>> = BTreeMap::new();
    for r in records.iter().filter(|r| r.refused()).take(ATTEMPTS) {
        by_client.entry(r.client().address).or_default().push((r.first, r.first_packet));
    }
    by_client
        .into_values()
        .filter_map(|mut attempts| {
            attempts.sort_unstable();
            growing(&attempts).or_else(|| drumbeat(&attempts))
        })
        .max_by_key(|l| l.attempts)
}

/// The longest run from one of the first attempts in which pause k is k × 100 ms.
fn growing(attempts: &[(Timestamp, PacketRef)]) -> Option<RetryPattern> {
    let mut best: Option<(usize, PacketRef)> = None;
    for (start, packet) in attempts.iter().take(64) {
        let (mut at, mut rungs, mut rest) = (*start, 1usize, attempts);
        // Each rung is looked for behind the one before it in the list: times may be any, and equal.
        while let pause = rungs as f64 * 0.1 - 0.005
            && let Some(behind) = rest.get(rest.partition_point(|(t, _)| t.seconds_since(at) < pause)..)
            && let Some((t, _)) = behind.first().filter(|(t, _)| t.seconds_since(at) < pause + 0.04)
        {
            (at, rungs, rest) = (*t, rungs + 1, behind.get(1..).unwrap_or_default());
        }
        if rungs >= RUNGS && best.is_none_or(|(n, _)| rungs > n) {
            best = Some((rungs, *packet));
        }
    }
    best.map(|(rungs, packet)| RetryPattern {
        versions: Versions::new(22400, 23299),
        attempts: rungs,
        text: format!("{rungs} refused attempts whose pauses grow by 100 ms: a rank of NCCL 2.24 or later at a bootstrap root that is gone"),
        packet,
    })
}

fn drumbeat(attempts: &[(Timestamp, PacketRef)]) -> Option<RetryPattern> {
    let (first, last) = (attempts.first()?, attempts.last()?);
    let close = attempts.windows(2).filter(|w| matches!(w, [a, b] if b.0.seconds_since(a.0) < 0.01)).count();
    (attempts.len() >= BEATS && close * 10 >= attempts.len() * 9).then(|| RetryPattern {
        versions: Versions::BARE,
        attempts: attempts.len(),
        text: format!(
            "{} refused attempts within {:.1} s, about a millisecond apart: a rank of NCCL 2.15 or older at a bootstrap root that is gone",
            attempts.len(),
            last.0.seconds_since(first.0)
        ),
        packet: first.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(times: impl IntoIterator<Item = i64>) -> Vec<(Timestamp, PacketRef)> {
        let numbered = times.into_iter().zip(1..);
        numbered.map(|(t, number)| (Timestamp(t), PacketRef { capture: 0, number })).collect()
    }

    /// Times of corrupt records need not advance, nor be in any order of magnitude.
    #[test]
    fn no_search_depends_on_times_that_advance() {
        let mixed = (0..5000).map(|i| [i64::MIN, -1, 0, 1 << 60, i64::MAX][i / 1000]);
        for times in [vec![i64::MAX; 5000], vec![i64::MIN; 5000], vec![0; 5000], mixed.collect()] {
            let attempts = at(times);
            assert_eq!(growing(&attempts), None);
            drumbeat(&attempts);
        }
        let ladder = (0..35).map(|k| 100_000_000 * (k * (k + 1) / 2));
        assert_eq!(growing(&at(ladder.clone())).map(|p| p.attempts), Some(35));
        // Ranks of one host interleave, and the clock may end among them.
        let late = ladder.map(|t| t + 7_000_000).chain([i64::MAX; 3]);
        let mut two = at(late.chain((0..20).map(|k| 100_000_000 * (k * (k + 1) / 2))));
        two.sort_unstable();
        assert_eq!(growing(&two).map(|p| p.attempts), Some(35));
    }
}
