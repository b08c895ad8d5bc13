//! `--check`: whether an old policy still covers the fleet.

use std::fs;

use super::{inventory, policy, prescan};

const FLEET: [&str; 8] = ["--pytorch", "1.13", "--port", "29500", "--nccl", "root:2.26", "--net", "192.0.2.8/29"];
/// A fleet of which no host is excluded by a policy that excludes hosts.
const STORES: [&str; 4] = ["--pytorch", "1.13", "--port", "29500"];

fn check(fleet: &[&str], old: &str) -> (i32, String, String) {
    prescan(&[fleet, &["--check", old]].concat())
}

#[test]
fn a_policy_covers_the_fleet_that_it_was_made_for_and_says_what_came_after() {
    let directory = tempfile::tempdir().unwrap();
    for product in rdzvscope::api::policy::Product::ALL {
        let path = directory.path().join(product.file());
        fs::write(&path, policy(product.name())).unwrap();
        let old = path.to_str().unwrap();
        let (status, said, _) = check(&FLEET, old);
        assert_eq!(status, 0, "{said}");
        assert!(said.contains("still covers the fleet"), "{said}");
        // Another port, and another network.
        let port = [&STORES[..], &["--port", "29777"]].concat();
        let (status, said, _) = check(&port, old);
        assert_eq!(status, i32::from(product.excludes_ports()), "{}: {said}", product.name());
        assert_eq!(said.contains("any host:29777 (store)"), product.excludes_ports(), "{said}");
        let net = [&FLEET[..], &["--net", "198.51.100.7"]].concat();
        let (status, said, _) = check(&net, old);
        let minds = product.excludes_hosts() || product.knows_members();
        assert_eq!(status, i32::from(minds), "{}: {said}", product.name());
        assert_eq!(said.contains("198.51.100.7"), minds, "{said}");
    }
    let (status, said, _) = check(&FLEET, directory.path().to_str().unwrap());
    assert_eq!((status, said.lines().count()), (0, 16), "{said}");
}

/// The rules count, not what is said above them.
#[test]
fn what_was_taken_out_by_hand_is_missed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("old");
    let old = path.to_str().unwrap();
    let cases = [
        ("masscan", "exclude = 192.0.2.8/29", "exclude = 192.0.2.8/30", 1),
        // Which rule is first decides, and what it opens is not computed: that is trouble, not consent.
        ("nessus", "reject 192.0.2.8/29", "accept 192.0.2.9\nreject 192.0.2.8/29", 2),
        ("nessus", "reject 192.0.2.8/29", "reject 192.0.2.8/2x9", 2),
        ("openvas", "T:29501-65535", "T:29500-65535", 1),
        ("nftables", "counter drop", "counter", 2),
        ("kubernetes", "port: 29501", "port: 29500", 1),
        ("suricata", "alert tcp any", "#alert tcp any", 2),
        ("tenable", "192.0.2.8/29\"", "192.0.2.8/30\"", 1),
        ("qualys", "192.0.2.8-192.0.2.15", "192.0.2.8-192.0.2.14", 1),
    ];
    for (product, from, to, want) in cases {
        let text = policy(product);
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
        let (status, said, error) = check(&FLEET, old);
        assert_eq!(status, want, "{product} {from}: {said}{error}");
    }
    // Where no network is named, nothing but the port covers the stores.
    fs::write(&path, policy("nmap").replace("--exclude-ports 29500", "")).unwrap();
    assert_eq!((check(&STORES, old).0, check(&FLEET, old).0), (1, 0));
    // A file of one's own needs the name of its grammar.
    fs::write(&path, "reject 192.0.2.0/24\nreject 0.0.0.0/0:29000-30000\n").unwrap();
    assert_eq!(check(&FLEET, old).0, 2);
    assert_eq!(check(&[&FLEET[..], &["--policy", "nessus"]].concat(), old).0, 0);
    assert_eq!(check(&FLEET, "nowhere").0, 2);
}

#[test]
fn a_case_file_is_an_inventory_as_its_report_is() {
    let directory = tempfile::tempdir().unwrap();
    let case = directory.path().join("case.db");
    let case = case.to_str().unwrap();
    // The recordings of the job, without those of another one on loopback.
    let folder = directory.path().join("captures");
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(format!("{}/torchrun", super::DATA)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "pcap") && !path.to_string_lossy().contains("loopback") {
            fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
    }
    let folder = folder.to_str().unwrap();
    let watched = super::rdzvscope(&["watch", folder, "--case", case, "--once"]);
    assert!(watched.status.code().unwrap() < 2, "{watched:?}");
    let report = inventory(directory.path(), &[folder]);
    let of = |inventory: &str| {
        let (status, text, said) = prescan(&["--inventory", inventory, "--policy", "nmap"]);
        assert_eq!(status, 0, "{said}");
        text.lines().filter(|l| !l.starts_with('#')).collect::<String>()
    };
    assert_eq!(of(case), of(&report));
    // The rendezvous has a port of its own; the workers' store is on one that the kernel chose.
    assert!(of(case).contains("--exclude-ports 29400 --exclude 192.0.2.11"), "{}", of(case));
    // Its stores are not hurt; what its Gloo listeners do with these bytes nobody has tried.
    let (status, _, _) = prescan(&["--inventory", case, "--payload", "0300000b06e0000000000000", "--accept-unknown"]);
    assert_eq!(status, 0);
}
