//! Policies, read by the products that they are for: nmap, masscan, nft, suricata, and a parser of their own form for the rest.

#[path = "policy/attest.rs"]
mod attest;
#[path = "policy/check.rs"]
mod check;
#[path = "policy/products.rs"]
mod products;
#[path = "policy/sensors.rs"]
mod sensors;
#[path = "common/skip.rs"]
mod skip;

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::CommandCargoExt;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");

fn rdzvscope(arguments: &[&str]) -> Output {
    Command::cargo_bin("rdzvscope").unwrap().current_dir(DATA).args(arguments).output().unwrap()
}

/// Status, standard output, standard error of `prescan`.
fn prescan(arguments: &[&str]) -> (i32, String, String) {
    let output = rdzvscope(&[&["prescan"], arguments].concat());
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The report of some captures, to be an inventory.
fn inventory(directory: &Path, captures: &[&str]) -> String {
    let report = directory.join("report.json").to_str().unwrap().to_owned();
    rdzvscope(&[&["analyze"], captures, &["--format", "json", "-o", &report]].concat());
    report
}

/// A policy for stores of 1.13 on port 29500 and a root, on 192.0.2.8/29.
fn policy(product: &str) -> String {
    let fleet = ["--pytorch", "1.13", "--port", "29500", "--nccl", "root:2.26", "--net", "192.0.2.8/29"];
    let (status, text, said) = prescan(&[&fleet[..], &["--policy", product]].concat());
    assert_eq!(status, 0, "{product}: {said}");
    text
}

/// Runs a program; `None` where it is not installed, and says so.
fn run(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    // What tools/checkers.sh installed is found as what the distribution has.
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tools/python");
    match Command::new(program).args(arguments).env("PYTHONPATH", own).output() {
        Ok(o) => Some((o.status.success(), String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            skip::skipped(&format!(
                "{program} is not installed (tools/setup.sh test installs it where the distribution has it)"
            ));
            None
        }
        Err(e) => panic!("{program}: {e}"),
    }
}
