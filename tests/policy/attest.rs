//! `--attest`: what is filed before a scan.

use std::fs;

use super::{inventory, prescan, run};

#[test]
fn a_file_for_the_approval_of_a_scan() {
    let directory = tempfile::tempdir().unwrap();
    let report = inventory(directory.path(), &["incident-torch1.13/node-a.pcap", "incident-torch1.13/node-b.pcap"]);
    let place = directory.path().join("approval");
    let at = place.to_str().unwrap();
    let trial = ["--inventory", &report, "--net", "192.0.2.8/29", "--payload", "0300000b06e0000000000000"];
    let arguments = [&trial[..], &["--attest", at]].concat();
    let (status, page, said) = prescan(&arguments);
    assert_eq!(status, 1, "{said}");
    assert!(page.starts_with("KILLS") && said.contains("SHA256SUMS"), "{page}{said}");
    // The checksums hold, for every file.
    let (ok, said) = run("sh", &["-c", &format!("cd '{at}' && sha256sum -c SHA256SUMS")]).unwrap();
    let files = fs::read_dir(place.join("policies")).unwrap().count() + 3;
    assert!(ok && said.matches(": OK").count() == files, "{said}");
    assert!(files >= 15, "{said}");
    let document: serde_json::Value = serde_json::from_slice(&fs::read(place.join("report.json")).unwrap()).unwrap();
    assert_eq!(document["verdict"], "kills");
    assert!(document["advice"]["listeners"][0]["closes"].as_array().unwrap().len() > 2);
    let form = fs::read_to_string(place.join("sign-off.md")).unwrap();
    for part in [
        "**Verdict.** KILLS",
        "**Profile.** Tried: payload",
        "**Scope.** The policies leave alone the port 29500 and the hosts",
        "last seen 2026-11-29T11:2",
        "## Residual risk",
        "kernels that grant the claim",
        "## Compensating control",
        "## Not tested",
        "| owner of the scan |",
        "--source SCANNER",
    ] {
        assert!(form.contains(part), "{part}\n{form}");
    }
    assert!(form.lines().count() <= 75, "one page: {}", form.lines().count());
    // The policies that were filed are checked later.
    let (status, said, _) = prescan(&[&trial[..4], &["--check", at]].concat());
    assert_eq!(status, 0, "{said}");
    // It is written once, whole, and over nothing.
    let before = fs::read(place.join("SHA256SUMS")).unwrap();
    let (status, _, said) = prescan(&arguments);
    assert!(status == 2 && said.contains("not empty"), "{said}");
    assert_eq!(fs::read(place.join("SHA256SUMS")).unwrap(), before);
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn what_is_unknown_is_not_tested_and_what_has_no_place_is_not_covered() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("new/approval");
    let at = place.to_str().unwrap();
    let trial = ["--nccl", "root:2.27.3", "--behaviour", "nessus"];
    // Its parent has to be there.
    assert_eq!(prescan(&[&trial[..], &["--attest", at]].concat()).0, 2);
    fs::create_dir_all(&place).unwrap();
    assert_eq!(prescan(&[&trial[..], &["--attest", at]].concat()).0, 1);
    let form = fs::read_to_string(place.join("sign-off.md")).unwrap();
    assert!(form.contains("nessus: service detection and plugins: bytes that nobody has tried"), "{form}");
    assert!(form.contains("NOT COVERED: listeners on ports that the kernel chooses"), "{form}");
    assert!(form.contains("from a list of releases, not from a capture"), "{form}");
}
