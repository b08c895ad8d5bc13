//! A recorded incident with its times compressed, so that the death follows the claim within 0.05 to 1.9 s; whole, and with the
//! claim's connection as the only one that was open.

mod common;

use common::{analyze, data, joined, records};
use serde_json::json;

/// The claim (packet 411 of node-a's capture), the kill and the death, in microseconds of 11:20 UTC.
const CLAIM: f64 = 10_652_448.0;
const KILL: f64 = 49_653_666.0;
const DEATH: f64 = 52_397_160.0;
/// 2026-11-29T11:20:00Z.
const MINUTE: i64 = 1_795_951_200;

fn micros(record: &[u8]) -> f64 {
    let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
    (i64::from(word(0)) - MINUTE) as f64 * 1e6 + f64::from(word(4))
}

/// The capture with what follows the claim brought so near that the death comes `lag` seconds after it; `alone`: without the
/// connections that others held, but with all attempts from the claim on.
fn compressed(lag: f64, alone: bool) -> (Vec<u8>, f64) {
    let pcap = std::fs::read(data("incident-torch1.13/node-a.pcap")).unwrap();
    let factor = lag * 1e6 / (DEATH - CLAIM);
    let mut out = pcap[..24].to_vec();
    for (n, (start, end)) in records(&pcap).into_iter().enumerate() {
        let mut record = pcap[start..end].to_vec();
        let time = micros(&record);
        let scanner = record.get(16 + 26..16 + 34).is_some_and(|a| [&a[..4], &a[4..]].contains(&&[192, 0, 2, 250][..]));
        if alone && !(scanner && n >= 400) {
            continue;
        }
        if time > CLAIM {
            let moved = CLAIM + (time - CLAIM) * factor;
            let (seconds, micros) = (MINUTE + (moved / 1e6).floor() as i64, moved.rem_euclid(1e6));
            record[..4].copy_from_slice(&(seconds as u32).to_le_bytes());
            record[4..8].copy_from_slice(&(micros as u32).to_le_bytes());
        }
        out.extend(record);
    }
    (out, CLAIM + (KILL - CLAIM) * factor)
}

#[test]
fn a_listener_that_dies_soon_after_the_claim_has_died_of_it() {
    for lag in [0.05, 0.3, 1.0, 1.9] {
        for alone in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let (pcap, kill) = compressed(lag, alone);
            std::fs::write(place.path().join("node-a.pcap"), pcap).unwrap();
            let line = format!(
                "2026-11-29T11:20:{:09.6}+00:00 node-a kernel: Memory cgroup out of memory: Killed process 10267 (python3) \
                 total-vm:941138648kB, anon-rss:340000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n",
                kill / 1e6
            );
            std::fs::write(place.path().join("node-a.log"), line).unwrap();
            let path = |name: &str| place.path().join(name).to_string_lossy().into_owned();
            let run =
                analyze(&[path("node-a.pcap"), "--hosts".into(), "hosts".into(), "--oom".into(), path("node-a.log")]);
            let what = format!("{lag} s, alone: {alone}");
            assert!(run.of_rule("store-claim-refused").is_empty(), "{what}: no refusal: {:#?}", run.grave());
            let host = run.host("node-a");
            assert_eq!(host["verdict"], "confirmed", "{what}: {host:#}");
            assert_eq!(run.trigger("node-a")["declared"]["bytes"], 962_696_183_808u64, "{what}");
            let off = host["lag_seconds"].as_f64().unwrap() - (kill - CLAIM) / 1e6;
            assert!(off.abs() <= host["lag_uncertainty_seconds"].as_f64().unwrap() + 1e-3, "{what}: {host:#}");
            assert_ne!(host["listener_died_at"], json!(null), "{what}: {}", joined(&host["reasons"]));
        }
    }
}
