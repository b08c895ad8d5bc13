//! The truth: all hosts of the recorded incident share one clock within 30 µs, node-a booted at 11:12:08, the
//! listeners' first resets are packets 483 (node-a), 458 (node-b) and 516 (node-c) of their captures, by tshark.

use super::*;
use crate::oom::parse_instant;
use crate::time::NANOS;
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    parse_instant(&format!("2026-11-29T{text}Z")).unwrap()
}

fn recorded(shift: f64) -> Vec<Crossing> {
    include_str!("../../testdata/clocks/node-a-node-c.csv")
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| {
            let cells: Vec<&str> = l.split(',').collect();
            let at_c = parse_instant(cells[3]).unwrap();
            Crossing {
                identity: cells[0].parse().unwrap(),
                direction: if cells[1] == "a" { Direction::Forward } else { Direction::Backward },
                at_first: parse_instant(cells[2]).unwrap(),
                at_second: at_c.plus_nanos((shift * 1e9) as i64),
            }
        })
        .collect()
}

#[test]
fn two_captures_of_one_clock_and_one_shifted() {
    for shift in [0.0, 37.5, -0.25] {
        let o = between_captures(recorded(shift)).expect("packets");
        assert_eq!((o.method, o.fits), (Method::BothWays, 178));
        assert!((o.seconds - shift).abs() <= 30e-6 + o.uncertainty, "{o:?}");
        assert!(o.uncertainty > 0.0 && o.uncertainty < 1e-3, "{o:?}");
        assert_eq!(o.may_be_none(), shift == 0.0);
    }
    let one: Vec<_> = recorded(37.5).into_iter().filter(|c| c.direction == Direction::Forward).collect();
    let o = between_captures(one).expect("packets");
    assert_eq!(o.method, Method::OneWay);
    assert!((o.seconds - 37.5).abs() <= o.uncertainty, "{o:?}");
    assert_eq!(between_captures([]), None);
}

#[test]
fn a_packet_sent_again_and_a_clock_that_was_set_are_not_believed() {
    let mut twice = recorded(0.0);
    let mut again = twice[0];
    again.at_second = again.at_second.plus_nanos(-9_000_000_000);
    twice.push(again);
    let o = between_captures(twice).expect("packets");
    assert_eq!(o.fits, 177);
    assert!(o.seconds.abs() < 1e-3);
    let mut set = recorded(0.0);
    let last = set.iter().map(|c| c.at_first).max().unwrap();
    for c in set.iter_mut().filter(|c| c.at_first.plus_nanos(30_000_000_000) > last) {
        c.at_second = c.at_second.plus_nanos(1_000_000_000);
    }
    let o = between_captures(set).expect("packets");
    assert!(o.uncertainty >= 0.49 && (o.seconds - 0.5).abs() < 0.6, "{o:?}");
}

const DEATHS: [&str; 3] = ["11:20:52.397160", "11:20:41.440967", "11:21:11.449084"];
const REAPED: [&str; 3] = ["11:20:52.343700", "11:20:41.429299", "11:21:11.438854"];
const KILLED: [&str; 3] = ["11:20:49.653666", "11:20:39.381744", "11:21:08.153166"];
/// Resident memory of each, from the kill lines, in KiB.
const RSS: [u64; 3] = [12_005_208, 8_203_356, 23_900_112];

#[test]
fn a_log_against_its_capture() {
    for shift in [0i64, 40, -28_800] {
        for (((death, reaped), killed), rss) in DEATHS.iter().zip(REAPED).zip(KILLED).zip(RSS) {
            let shifted = |t: &str| at(t).plus_nanos(shift * NANOS);
            let o = log_against_capture(&[at(death)], &[], &[shifted(reaped)], 1e5).expect("fit");
            assert_eq!((o.method, o.fits), (Method::DeathAgainstReaper, 1));
            assert!((o.seconds - shift as f64).abs() <= o.uncertainty, "{o:?}");
            assert!((shifted(killed).seconds_since(at(killed)) - o.seconds).abs() <= o.uncertainty);
            assert_eq!(o.may_be_none(), shift == 0);
            for rss in [Some(rss * 1024), None] {
                let kill = Kill { at: shifted(killed), anon_rss_bytes: rss, in_cgroup: false };
                let o = log_against_capture(&[at(death)], &[kill], &[], 1e5).expect("fit");
                assert_eq!(o.method, Method::DeathAgainstKill);
                assert!((o.seconds - shift as f64).abs() <= o.uncertainty, "{o:?}");
            }
        }
    }
    // Two deaths of one host, lines in another order: joined as they fit.
    let lines = [at("11:30:40"), at("11:21:20")];
    let o = log_against_capture(&[at("11:20:40"), at("11:30:00"), at("11:50:00")], &[], &lines, 1e5).expect("fit");
    assert_eq!(o.fits, 2);
    assert!((o.seconds - 40.0).abs() <= o.uncertainty, "{o:?}");
    assert_eq!(log_against_capture(&[at("11:20:40")], &[], &[at("12:20:40")], 60.0), None);
    assert_eq!(log_against_capture(&[], &[], &lines, 1e5), None);
}

fn after_boot(nanos: i64, anon_rss_bytes: Option<u64>) -> Kill {
    Kill { at: Timestamp(nanos), anon_rss_bytes, in_cgroup: false }
}

#[test]
fn a_boot_time_from_the_death_on_the_wire_is_within_its_bounds() {
    let death = [at(DEATHS[0])];
    let truth = at("11:12:08");
    let (killed, reaped) = (521_653_666_000, [Timestamp(524_343_700_000)]);
    let by_reaper = boot_from_deaths(&death, &[after_boot(killed, None)], &reaped).expect("boot");
    assert!(by_reaper.at.seconds_since(truth).abs() < 0.1, "{by_reaper:?}");
    for rss in [Some(RSS[0] * 1024), None] {
        let by_kill = boot_from_deaths(&death, &[after_boot(killed, rss)], &[]).expect("boot");
        let off = by_kill.at.seconds_since(truth).abs();
        assert!(off < 3.0 && off <= by_kill.uncertainty, "{by_kill:?}");
    }
    assert_eq!(boot_from_deaths(&death, &[after_boot(2, None)], &[Timestamp(1)]), None);
    assert_eq!(boot_from_deaths(&death, &[], &[]), None);
    // A boot before all times is at the end of what a stamp can say.
    assert!(boot_from_deaths(&death, &[after_boot(i64::MAX, Some(u64::MAX))], &[]).is_none_or(|b| b.at < truth));
}

#[test]
fn several_deaths_bound_a_boot_time_closer_than_one() {
    let truth = at("11:00:00");
    // In cgroups; the kernel took 0.1, 0.9 and 0.4 s, of at most 1.4 s each.
    let kills = [100.0, 131.0, 170.0].map(|t| Timestamp((t * 1e9) as i64));
    let deaths: Vec<Timestamp> =
        kills.iter().zip([0.1, 0.9, 0.4]).map(|(k, l)| truth.plus_nanos(k.0 + (l * 1e9) as i64)).collect();
    let kills = kills.map(|at| Kill { at, anon_rss_bytes: Some(900_000_000), in_cgroup: true });
    let one = boot_from_deaths(&deaths[..1], &kills[..1], &[]).expect("boot");
    let all = boot_from_deaths(&deaths, &kills, &[]).expect("boot");
    for b in [one, all] {
        assert!(b.at.seconds_since(truth).abs() <= b.uncertainty, "{b:?}");
    }
    assert!(all.uncertainty < one.uncertainty * 0.6, "{one:?} {all:?}");
    // One death, three kills in the log: the last, which the ring buffer holds for certain.
    let last = boot_from_deaths(&deaths[2..], &kills, &[]).expect("boot");
    assert!(last.at.seconds_since(truth).abs() <= last.uncertainty, "{last:?}");
}

#[test]
fn a_death_misses_its_kill_to_either_side() {
    let kill = Kill { at: at("11:20:00"), anon_rss_bytes: Some(1 << 30), in_cgroup: true };
    let misses =
        |seconds: f64, beside: f64| death_misses(kill.at.plus_nanos((seconds * 1e9) as i64), &kill, None, beside);
    assert_eq!((misses(0.3, 0.0), misses(-0.8, 1.0), misses(1.5, 0.0)), (0.0, 0.0, 0.0));
    assert!((misses(-1.2, 0.2) + 1.0).abs() < 1e-6 && misses(13.0, 1.0) > 10.0);
}

#[test]
fn logs_that_all_miss_by_one_zone() {
    let lags = [29.0, 39.0, 58.0];
    let misses = |shift: f64, most: f64| lags.map(|l| Miss { seconds: l + shift, least: 0.0, most });
    for (hours, zone) in [(8.0, "+08:00"), (-5.0, "-05:00"), (5.75, "+05:45")] {
        for most in [120.0, 900.0] {
            let q = common_quarter_hour(&misses(hours * 3600.0, most)).expect("a zone");
            assert_eq!((q.zone(0).as_str(), q.fits), (zone, 3));
            assert!(q.chance < 0.1 && q.seconds() == (hours * 3600.0) as i64, "{q:?}");
        }
    }
    // Read as of +05:30, and two and a half hours ahead: of +08:00.
    let q = common_quarter_hour(&misses(2.5 * 3600.0, 120.0)).expect("a zone");
    assert_eq!((q.zone(19_800).as_str(), q.zone(-18_000).as_str()), ("+08:00", "-02:30"));
    // Right as they are; not of one zone; off by no zone.
    assert_eq!(common_quarter_hour(&misses(0.0, 900.0)), None);
    assert_eq!(common_quarter_hour(&misses(40.0 * 3600.0, 120.0)), None);
    assert_eq!(common_quarter_hour(&misses(400.0, 120.0)), None);
    let mut mixed = misses(28_800.0, 120.0);
    mixed[1].seconds -= 3600.0;
    assert_eq!(common_quarter_hour(&mixed), None);
    assert_eq!(common_quarter_hour(&[]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the paths take, the truth lies within the uncertainty.
    #[test]
    fn the_truth_lies_within_the_uncertainty(
        offset in -1e5..1e5f64,
        packets in proptest::collection::vec((0.0..50.0f64, any::<bool>(), 0.0..0.5f64), 1..60),
    ) {
        let mut both = [false; 2];
        let crossings: Vec<_> = packets.iter().enumerate().map(|(n, (t, forward, delay))| {
            both[usize::from(*forward)] = true;
            let sent = at("11:20:00").plus_nanos((t * 1e9) as i64);
            let (first, second) = if *forward { (0.0, offset + delay) } else { (*delay, offset) };
            Crossing {
                identity: n as u64,
                direction: if *forward { Direction::Forward } else { Direction::Backward },
                at_first: sent.plus_nanos((first * 1e9) as i64),
                at_second: sent.plus_nanos((second * 1e9) as i64),
            }
        }).collect();
        let o = between_captures(crossings).expect("packets");
        prop_assert!(!(both[0] && both[1]) || (o.seconds - offset).abs() <= o.uncertainty + 1e-6, "{:?}", o);
    }

    #[test]
    fn extremes_do_not_panic(a in any::<i64>(), b in any::<i64>(), c in any::<i64>()) {
        let t = Timestamp;
        let kill = Kill { at: t(b), anon_rss_bytes: Some(c.unsigned_abs()), in_cgroup: a % 2 == 0 };
        log_against_capture(&[t(a)], &[kill], &[t(c)], f64::INFINITY);
        boot_from_deaths(&[t(a)], &[kill], &[t(c)]);
        death_misses(t(a), &kill, Some(t(c)), 0.0);
        between_captures([Crossing { identity: 1, direction: Direction::Forward, at_first: t(a), at_second: t(b) }]);
        common_quarter_hour(&[Miss { seconds: a as f64, least: b as f64, most: c as f64 }]);
    }
}
