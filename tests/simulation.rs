//! The analyzer on simulated clusters whose truth is known. The full run is `make simulate` (docs/simulation.md).

#[path = "../examples/simulate/simulation/mod.rs"]
mod simulation;

use std::process::Command;

use simulation::generate;
use simulation::score::{Score, score};

/// Generates, analyzes and scores the cluster of one seed.
fn cluster(seed: u64, hosts: usize) -> Score {
    let place = tempfile::tempdir().unwrap();
    let cluster = generate(place.path(), seed, hosts).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rdzvscope"))
        .arg("analyze")
        .args(&cluster.arguments)
        .args(["--format", "json", "--exit-zero"])
        .current_dir(place.path().join("cluster"))
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(output.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&output.stderr));
    score(&cluster.truth, &serde_json::from_slice(&output.stdout).unwrap())
}

/// Three small clusters, and larger ones of seeds that the analyzer once failed on.
#[test]
fn what_is_confirmed_is_so_and_what_can_be_found_is_found() {
    let mut total = Score::default();
    for (seed, hosts) in [(1, 12), (2, 12), (3, 12), (6, 100), (14, 100), (115, 100)] {
        total.add(cluster(seed, hosts));
    }
    let told = || {
        let failures: Vec<String> =
            total.failures.iter().map(|f| format!("seed {}: {}: {}", f.seed, f.kind, f.text)).collect();
        format!("{}\n{}", total.text(), failures.join("\n"))
    };
    assert!(total.due >= 20, "the clusters show too little: {}", told());
    assert_eq!(total.wrong_confirmed(), 0, "{}", told());
    // Seeds 6 and 115 hold three that are known to be missed (docs/simulation.md): 23 of 26 are found, none may be lost.
    assert!(total.recall() >= 0.88 && total.precision() >= 0.95, "{}", told());
}
