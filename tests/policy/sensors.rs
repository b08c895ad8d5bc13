//! Signatures against real traffic: they fire on the incident, and are silent on ordinary jobs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{DATA, inventory, policy, prescan, run};

const CLAIM: &str = "first request to a rendezvous store declares 1 GiB or more";
const RDP: &str = "RDP greeting at a rendezvous port";
const OUTSIDER: &str = "connection to a rendezvous port from outside the training hosts";
const NEWER: &str = "client of PyTorch 2.2 or later at a store of 2.1 or older";

/// A configuration of its own: no file of the system's is needed but the program.
fn configuration(directory: &Path) -> String {
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let classes = file(
        "classification.config",
        "config classification: attempted-dos,Attempted Denial of Service,2\n\
         config classification: attempted-recon,Attempted Information Leak,2\n\
         config classification: misc-attack,Misc Attack,2\n",
    );
    let references = file("reference.config", "");
    let text = format!(
        "%YAML 1.1\n---\nclassification-file: {classes}\nreference-config-file: {references}\n\
         outputs:\n  - fast:\n      enabled: yes\n      filename: fast.log\n\
         app-layer:\n  protocols:\n    tls:\n      enabled: no\n    http:\n      enabled: no\n"
    );
    file("suricata.yaml", &text)
}

/// How often each rule fired.
fn alerts(rules: &str, capture: &str) -> Option<BTreeMap<String, usize>> {
    let directory = tempfile::tempdir().unwrap();
    let yaml = configuration(directory.path());
    let file = directory.path().join("policy.rules");
    fs::write(&file, rules).unwrap();
    let log = directory.path().to_str().unwrap();
    let common = ["-c", &yaml, "-S", file.to_str().unwrap(), "-l", log];
    let (ok, said) = run("suricata", &[&["-T"], &common[..]].concat())?;
    assert!(ok, "{said}");
    let path = format!("{DATA}/{capture}");
    let (ok, said) = run("suricata", &[&["-r", &path, "-k", "none"], &common[..]].concat())?;
    assert!(ok, "{said}");
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(directory.path().join("fast.log")).unwrap_or_default().lines() {
        let message = line.split("rdzvscope ").nth(1).and_then(|l| l.split(" [**]").next()).unwrap_or(line);
        *counts.entry(message.to_owned()).or_default() += 1;
    }
    Some(counts)
}

fn fired(rules: &str, capture: &str) -> Option<Vec<String>> {
    Some(alerts(rules, capture)?.into_keys().collect())
}

#[test]
fn suricata_fires_on_the_incident_and_is_silent_on_ordinary_jobs() {
    let rules = policy("suricata");
    let Some(incident) = alerts(&rules, "incident-torch1.13/node-a.pcap") else { return };
    assert_eq!(incident.get(CLAIM), Some(&1), "{incident:?}");
    assert_eq!(incident.get(RDP), Some(&1), "{incident:?}");
    assert!(incident.contains_key(OUTSIDER) && incident.len() == 3, "{incident:?}");
    for capture in ["scans/netcat.pcap", "scans/frag-version-scan.pcap", "scans/ipv6-version-scan.pcap"] {
        assert_eq!(fired(&rules, capture).unwrap(), [RDP, OUTSIDER, CLAIM], "{capture}");
    }
    for capture in ["scans/syn-only.pcap", "scans/curl.pcap", "other-strangers/health-check.pcap"] {
        assert_eq!(fired(&rules, capture).unwrap(), [OUTSIDER], "{capture}");
    }
    assert_eq!(fired(&rules, "other-strangers/client2.2-on-store1.13.pcap").unwrap(), [NEWER]);
    // Ordinary jobs: the stores of the fleet are of 2.15 there, so the rule about newer clients is not written.
    let directory = tempfile::tempdir().unwrap();
    let report = inventory(directory.path(), &["torchrun/node-a.pcap", "torchrun/node-b.pcap"]);
    let (status, ordinary, said) =
        prescan(&["--inventory", &report, "--net", "192.0.2.8/29,127.0.0.0/8", "--policy", "suricata"]);
    assert_eq!(status, 0, "{said}");
    assert!(!ordinary.contains(NEWER));
    for capture in ["torchrun/node-a.pcap", "torchrun/node-b.pcap", "torchrun/elastic-1.9.0-loopback.pcap"] {
        assert_eq!(fired(&ordinary, capture).unwrap(), [""; 0], "{capture}");
    }
    // Every request that a client can send, and the start of groups over gloo and NCCL.
    let all: Vec<&str> = ordinary.lines().filter(|l| !l.contains(OUTSIDER)).collect();
    let all = all.join("\n").replace("[29400,32768:60999]", "any") + "\n";
    assert_eq!(all.matches("-> any any").count(), 2);
    let folders = ["api", "gloo", "store-and-nccl"].map(|f| fs::read_dir(format!("{DATA}/{f}")).unwrap());
    let mut tried = 0;
    for entry in folders.into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(DATA).unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".pcap") && !name.contains("stray") {
            assert_eq!(fired(&all, &name).unwrap(), [""; 0], "{name}");
            tried += 1;
        }
    }
    assert!(tried >= 5, "{tried}");
}

/// The payload patterns of Zeek, as Python's engine reads them, on the streams that our own reader gives: the two languages agree
/// on what stands in these patterns.
#[test]
fn zeek_patterns_match_the_triggers_and_no_client() {
    let text = policy("zeek");
    let patterns: Vec<&str> = text.lines().filter_map(|l| l.trim().strip_prefix("payload /")).collect();
    let claim = patterns.first().unwrap().trim_end_matches('/');
    let code = "import re, sys\np = re.compile(sys.argv[1].encode(), re.S)\n\
                print(*[1 if p.match(bytes.fromhex(h)) else 0 for h in sys.argv[2:]])";
    let cases = [
        ("0300000b06e0000000000000", 1),
        ("0300002a25e000000000000043", 1),
        ("000c00001000000000", 0), // 256 MiB
        ("000000004000000000", 1), // 1 GiB
        ("00ffffff3f00000000", 0), // 1 GiB less one
        ("000000000000000100", 0), // 256 TiB: beyond the address space
        ("030500000000000000696e69742f", 0),
        ("00cef7853c04050000", 0),
        ("474554202f20485454", 0),
    ];
    let mut arguments = vec!["-c", code, claim];
    arguments.extend(cases.iter().map(|c| c.0));
    if let Some((ok, said)) = run("python3", &arguments) {
        let want: Vec<String> = cases.iter().map(|c| c.1.to_string()).collect();
        assert!(ok && said.trim() == want.join(" "), "{said}");
    }
}

/// Zeek's grammar of signatures, as its manual has it: nothing but these lines stands in a signature.
#[test]
fn zeek_signatures_have_zeeks_form() {
    let (_, text, _) =
        prescan(&["--pytorch", "1.13", "--nccl", "2.26", "--net", "192.0.2.8/29,2001:db8::/64", "--policy", "zeek"]);
    let mut open = false;
    let mut names = std::collections::BTreeSet::new();
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["signature", name, "{"] => {
                assert!(!open && names.insert((*name).to_owned()), "{line}");
                open = true;
            }
            ["}"] => {
                assert!(open);
                open = false;
            }
            ["ip-proto", "==", "tcp"] | ["tcp-state", "established,originator"] => assert!(open),
            ["dst-port", "==" | ">=" | "<=", list] => {
                assert!(list.split(',').all(|p| p.parse::<u16>().is_ok()), "{line}")
            }
            ["src-ip", "!=", list] => assert!(list.split(',').all(|n| n.contains('.') || n.starts_with('[')), "{line}"),
            ["payload", pattern] => assert!(pattern.starts_with("/^") && pattern.ends_with('/'), "{line}"),
            ["event", ..] => assert_eq!(line.matches('"').count(), 2),
            _ => panic!("{line}"),
        }
    }
    assert!(!open && names.len() == 10, "{names:?}");
}
