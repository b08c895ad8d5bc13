//! Simulated clusters, and the analyzer held against the truth of each. `docs/simulation.md` says what is simulated.
//!
//! ```text
//! simulate run      --clusters 200 --hosts 100 --seed 1 --binary target/release/rdzvscope
//! simulate generate --hosts 100 --seed 17 --directory /tmp/cluster-17
//! ```

mod simulation;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use simulation::generate;
use simulation::score::{Score, score};

#[derive(Parser)]
#[command(about = "Simulated clusters with their truth, and the analyzer held against it")]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Writes one cluster, and truth.json beside it
    Generate {
        #[arg(long)]
        seed: u64,
        #[arg(long, default_value_t = 100)]
        hosts: usize,
        #[arg(long)]
        directory: PathBuf,
    },
    /// Writes, analyzes, scores and deletes clusters one after the other
    Run {
        /// The first seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value_t = 200)]
        clusters: u64,
        #[arg(long, default_value_t = 100)]
        hosts: usize,
        /// The program to hold against the truth
        #[arg(long, default_value = "target/release/rdzvscope")]
        binary: PathBuf,
        /// Where clusters are written; what is left of one that failed stays there with --keep
        #[arg(long, default_value = "target/simulation")]
        directory: PathBuf,
        #[arg(long)]
        keep: bool,
    },
}

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match Cli::parse().command {
        What::Generate { seed, hosts, directory } => {
            let cluster = generate(&directory, seed, hosts)?;
            writeln!(out, "cd {}/cluster && rdzvscope analyze {}", directory.display(), cluster.arguments.join(" "))?;
        }
        What::Run { seed, clusters, hosts, binary, directory, keep } => {
            let binary = std::fs::canonicalize(binary)?;
            let mut total = Score::default();
            let mut spent = [Duration::ZERO; 2];
            for seed in seed..seed.saturating_add(clusters) {
                let place = directory.join(seed.to_string());
                let one = run(&binary, &place, seed, hosts, &mut spent)?;
                for f in &one.failures {
                    writeln!(out, "seed {}: {}: {}", f.seed, f.kind, f.text)?;
                }
                if !keep || one.failures.is_empty() {
                    std::fs::remove_dir_all(&place)?;
                }
                total.add(one);
                out.flush()?;
            }
            write!(out, "{}", total.text())?;
            let seeds = |kind: &str| {
                let mut all: Vec<String> =
                    total.failures.iter().filter(|f| f.kind == kind).map(|f| f.seed.to_string()).collect();
                all.dedup();
                all.join(" ")
            };
            for kind in ["wrong confirmed", "wrong probable", "wrong possible", "missed"] {
                writeln!(out, "seeds with {kind}: {}", seeds(kind))?;
            }
            writeln!(
                out,
                "{:.0} s to write the clusters, {:.0} s to analyze them",
                spent[0].as_secs_f64(),
                spent[1].as_secs_f64()
            )?;
            anyhow::ensure!(total.wrong_confirmed() == 0, "{} were confirmed and wrong", total.wrong_confirmed());
        }
    }
    Ok(())
}

fn run(binary: &Path, place: &Path, seed: u64, hosts: usize, spent: &mut [Duration; 2]) -> anyhow::Result<Score> {
    let begun = Instant::now();
    let cluster = generate(place, seed, hosts)?;
    spent[0] += begun.elapsed();
    let begun = Instant::now();
    let report = place.join("report.json");
    // The report lies outside of what is read.
    let mut command = Command::new(binary);
    command.arg("analyze").args(&cluster.arguments).args(["--format", "json", "--exit-zero", "-q", "-o"]);
    let status = command.arg("../report.json").current_dir(place.join("cluster")).env("TZ", "UTC").status()?;
    anyhow::ensure!(status.success(), "seed {seed}: {status}");
    spent[1] += begun.elapsed();
    Ok(score(&cluster.truth, &serde_json::from_slice(&std::fs::read(report)?)?))
}
