//! `merge --trust`: a segment counts where a key of the host that it speaks for has signed it. Keys and signatures are
//! those of a real ssh-keygen.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{command, data, skipped};

fn keygen(place: &Path, arguments: &[&str]) -> bool {
    let run = Command::new("ssh-keygen").args(arguments).current_dir(place).output();
    run.is_ok_and(|o| o.status.success())
}

/// A place with a segment of evidence, two keys, and the name of the host that the segment speaks for.
fn prepared() -> Option<(tempfile::TempDir, PathBuf, String)> {
    let place = tempfile::tempdir().unwrap();
    let new = |name: &str| keygen(place.path(), &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name]);
    if !new("own") || !new("foreign") {
        skipped("no ssh-keygen");
        return None;
    }
    let given = ["incident-torch1.13/node-a.pcap", "incident-torch1.13/logs/node-a.dmesg-iso", "hosts"].map(data);
    let written = command()
        .arg("watch")
        .arg(&given[0])
        .args(["--once", "--quiet", "--case", "host.db", "--oom"])
        .arg(&given[1])
        .arg("--hosts")
        .arg(&given[2])
        .args(["--evidence", "out"])
        .current_dir(place.path())
        .output()
        .unwrap();
    let directory = place.path().join("out");
    let segment =
        std::fs::read_dir(&directory).unwrap_or_else(|_| panic!("{written:?}")).next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&segment).unwrap();
    let machine = text.lines().find(|l| l.contains("\"evidence-machine\"")).unwrap();
    let machine: serde_json::Value = serde_json::from_str(machine).unwrap();
    Some((place, segment, machine["host"].as_str().unwrap().to_string()))
}

/// Lists who may sign for whom.
fn allow(place: &Path, signers: &[(&str, &str)]) {
    let key = |name: &str| std::fs::read_to_string(place.join(format!("{name}.pub"))).unwrap();
    let lines: Vec<String> = signers.iter().map(|(host, name)| format!("{host} {}", key(name))).collect();
    std::fs::write(place.join("signers"), lines.concat()).unwrap();
}

fn sign(place: &Path, key: &str, namespace: &str, segment: &Path) {
    let _ = std::fs::remove_file(format!("{}.sig", segment.display()));
    assert!(keygen(place, &["-q", "-Y", "sign", "-f", key, "-n", namespace, segment.to_str().unwrap()]));
}

fn merge(place: &Path, arguments: &[&str]) -> Output {
    command().arg("merge").args(arguments).args(["--trust", "signers"]).current_dir(place).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn evidence_counts_where_its_host_has_signed_it() {
    let Some((held, segment, host)) = prepared() else { return };
    let place = held.path();
    let out = segment.parent().unwrap().to_str().unwrap().to_string();
    let purpose = "rdzvscope-evidence";
    allow(place, &[(&host, "own"), ("another-host", "foreign")]);

    let unsigned = merge(place, &[&out]);
    assert!(said(&unsigned).contains("its signature") && unsigned.status.code() == Some(2), "{unsigned:?}");

    sign(place, "own", purpose, &segment);
    let signed = merge(place, &[&out, "--format", "json"]);
    assert_eq!((signed.status.code(), said(&signed).as_str()), (Some(1), ""));
    let report: serde_json::Value = serde_json::from_slice(&signed.stdout).unwrap();
    assert!(report["incidents"][0]["hosts"][0]["oom_event"].is_string(), "{report}");

    // A host that signs with its own key, and speaks for another one.
    sign(place, "foreign", purpose, &segment);
    let foreign = merge(place, &[&out]);
    assert!(said(&foreign).contains(&format!("signed by another-host, and it speaks for {host}")), "{foreign:?}");
    assert_eq!(foreign.status.code(), Some(2));

    sign(place, "own", "file", &segment);
    assert!(said(&merge(place, &[&out])).contains("of another purpose"));
    allow(place, &[("another-host", "foreign")]);
    assert!(said(&merge(place, &[&out])).contains("no key in signers made its signature"));

    allow(place, &[(&host, "own")]);
    sign(place, "own", purpose, &segment);
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("node-a", "node-b", 1)).unwrap();
    assert!(said(&merge(place, &[&out])).contains("its signature is of other bytes"));

    let piped = merge(place, &["-"]);
    assert!(said(&piped).contains("standard input is not signed") && piped.status.code() == Some(2), "{piped:?}");
}

#[test]
fn what_arrives_unsigned_is_not_taken_into_the_case() {
    let Some((held, segment, host)) = prepared() else { return };
    let place = held.path();
    let out = segment.parent().unwrap().to_str().unwrap().to_string();
    allow(place, &[(&host, "own")]);
    let pass = || merge(place, &["--case", "central.db", "--follow", &out, "--once"]);
    let unsigned = pass();
    assert!(unsigned.stdout.is_empty() && said(&unsigned).contains("its signature"), "{unsigned:?}");
    assert_eq!(unsigned.status.code(), Some(2));
    sign(place, "own", "rdzvscope-evidence", &segment);
    let signed = pass();
    assert!(String::from_utf8_lossy(&signed.stdout).contains("\"incident\""), "{signed:?}");
    assert_eq!((signed.status.code(), said(&signed).as_str()), (Some(1), ""));
}
