//! Each policy, taken by its product.

use std::fs;

use super::{policy, prescan, run};

/// Addresses that nmap's list scan names.
fn listed(output: &str) -> Vec<&str> {
    output.lines().filter_map(|l| l.strip_prefix("Nmap scan report for ")).collect()
}

#[test]
fn nmap_leaves_hosts_and_ports_alone() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    fs::write(&hosts, policy("nmap-hosts")).unwrap();
    let around = ["192.0.2.7", "192.0.2.8", "192.0.2.15", "192.0.2.16"];
    let file = hosts.to_str().unwrap();
    if let Some((ok, said)) = run("nmap", &[&["-n", "-sL", "--excludefile", file], &around[..]].concat()) {
        assert!(ok && listed(&said) == ["192.0.2.7", "192.0.2.16"], "{said}");
    }
    let options = policy("nmap");
    let line = options.lines().find(|l| !l.starts_with('#')).unwrap();
    assert_eq!(line, "--exclude-ports 29500 --exclude 192.0.2.8/29");
    let words: Vec<&str> = line.split(' ').collect();
    if let Some((ok, said)) = run("nmap", &[&words[..], &["-n", "-sL"], &around[..]].concat()) {
        assert!(ok && listed(&said) == ["192.0.2.7", "192.0.2.16"], "{said}");
    }
    // The ports that nmap is left with, as its own report has them.
    let scan = ["-Pn", "-n", "-sT", "--unprivileged", "-p", "29499-29501", "-oX", "-", "127.0.0.1"];
    if let Some((ok, said)) = run("nmap", &[&words[..2], &scan[..]].concat()) {
        assert!(ok && said.contains("services=\"29499,29501\""), "{said}");
    }
}

#[test]
fn nmap_takes_the_exclude_directive() {
    let text = policy("nmap-detection");
    let line = text.lines().find(|l| !l.starts_with('#')).unwrap();
    let Some(file) = rdzvscope::api::prescan::ProbeFile::installed() else {
        assert_eq!(line, "Exclude T:29500");
        return;
    };
    // What nmap's own file leaves alone is kept.
    assert_eq!(line, "Exclude T:9100-9107,29500");
    let probes = String::from_utf8_lossy(&fs::read(file).unwrap()).replace("Exclude T:9100-9107", line);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("probes");
    fs::write(&path, probes).unwrap();
    let read = rdzvscope::api::prescan::ProbeFile::read(&path).unwrap();
    assert!(read.excluded.contains(29500) && read.excluded.contains(9103) && !read.excluded.contains(29501));
}

#[test]
fn masscan_leaves_hosts_and_ports_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("masscan.conf");
    fs::write(&path, policy("masscan")).unwrap();
    let list = ["-c", path.to_str().unwrap(), "--range", "192.0.2.6-192.0.2.17", "-p", "29499-29501", "-sL"];
    let Some((_, said)) = run("masscan", &list) else { return };
    let mut all: Vec<&str> = said.lines().filter(|l| l.contains(':') && l.starts_with("192.")).collect();
    all.sort_unstable();
    let want = ["16:29499", "16:29501", "17:29499", "17:29501", "6:29499", "6:29501", "7:29499", "7:29501"];
    assert_eq!(all, want.map(|w| format!("192.0.2.{w}")), "{said}");
}

#[test]
fn nft_takes_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.nft");
    let fleet = ["--pytorch", "1.13", "--nccl", "2.26", "--net", "192.0.2.8/29,2001:db8::/64", "--policy", "nftables"];
    for more in [&[][..], &["--source", "192.0.2.250"], &["--source", "2001:db8:1::9"]] {
        let (status, text, _) = prescan(&[&fleet[..], more].concat());
        assert_eq!(status, 0);
        fs::write(&path, &text).unwrap();
        let file = path.to_str().unwrap();
        let Some((inside, _)) = run("unshare", &["-rn", "true"]) else { return };
        let arguments: &[&str] =
            if inside { &["-rn", "nft", "-c", "-f", file] } else { &["-n", "nft", "-c", "-f", file] };
        if run("nft", &["--version"]).is_some() {
            let (ok, said) = run("unshare", arguments).unwrap();
            assert!(ok, "{said}\n{text}");
        }
        // Loading it twice is loading it once; nothing else in the rules is touched.
        assert!(text.contains("delete table inet rdzvscope\ntable inet rdzvscope {"));
    }
    // Without anybody named there is nobody to shut out.
    let (status, text, said) = prescan(&["--pytorch", "1.13", "--policy", "nftables"]);
    assert_eq!((status, text.as_str()), (2, ""));
    assert!(said.contains("--source") && said.contains("--net"), "{said}");
}

/// Runs Python on a text; `None` where the interpreter or the module is missing.
fn python(code: &str, argument: &str) -> Option<String> {
    let mut missing = String::new();
    // The one of the distribution has the modules that the distribution installed.
    for interpreter in ["python3", "/usr/bin/python3"] {
        let Some((ok, said)) = run(interpreter, &["-c", code, argument]) else { continue };
        if said.contains("ModuleNotFoundError") {
            missing = said.lines().last().unwrap_or_default().to_owned();
            continue;
        }
        assert!(ok, "{said}");
        return Some(said.trim().to_owned());
    }
    super::skip::skipped(&missing);
    None
}

#[test]
fn kubernetes_gets_one_object_of_its_schema() {
    let text = policy("kubernetes");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.yaml");
    fs::write(&path, &text).unwrap();
    let file = path.to_str().unwrap();
    if let Some(said) = python("import sys, yaml, json\nprint(json.dumps(yaml.safe_load(open(sys.argv[1]))))", file) {
        let object: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&object["apiVersion"], &object["kind"]), (&"networking.k8s.io/v1".into(), &"NetworkPolicy".into()));
        let ports = object["spec"]["ingress"][1]["ports"].as_array().unwrap();
        let tcp: Vec<(u64, u64)> = ports
            .iter()
            .filter(|p| p["protocol"] == "TCP")
            .map(|p| (p["port"].as_u64().unwrap(), p["endPort"].as_u64().unwrap()))
            .collect();
        assert_eq!(tcp, [(1, 29_499), (29_501, 32_767), (61_000, 65_535)]);
        assert_eq!(object["spec"]["ingress"][0]["from"][0]["podSelector"], object["spec"]["podSelector"]);
    }
    // The schema of the real API, where that package is installed (pip install kubernetes-validate).
    python(
        "import sys, yaml, kubernetes_validate as k\nk.validate(yaml.safe_load(open(sys.argv[1])), k.latest_version(), strict=True)",
        file,
    );
}

#[test]
fn vulnerability_scanners_get_their_forms() {
    let rules: Vec<String> = policy("nessus").lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
    assert_eq!(rules, ["reject 192.0.2.8/29", "reject 0.0.0.0/0:29500", "default accept"]);

    let exclusion: serde_json::Value = serde_json::from_str(&policy("tenable")).unwrap();
    assert_eq!(exclusion["members"], "192.0.2.8/29");
    assert!(exclusion["description"].as_str().unwrap().contains("container"));

    let last = |product: &str| policy(product).lines().last().unwrap().to_owned();
    assert_eq!(last("tenable-ports"), "1-29499,29501-65535");
    assert_eq!(last("qualys-ports"), "1-29499,29501-65535");
    assert_eq!(last("openvas-hosts"), "192.0.2.8/29");

    // A form: addresses and ranges, a comment of at most 1024 characters, nothing that is not encoded.
    let form = policy("qualys");
    let code =
        "import sys, urllib.parse as u, json\nprint(json.dumps(u.parse_qs(sys.argv[1].strip(), strict_parsing=True)))";
    if let Some(said) = python(code, &form) {
        let fields: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&fields["action"][0], &fields["ips"][0]), (&"add".into(), &"192.0.2.8-192.0.2.15".into()));
        assert!((100..=1024).contains(&fields["comment"][0].as_str().unwrap().len()));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("list.xml");
    fs::write(&path, policy("openvas")).unwrap();
    let code = "import sys, xml.etree.ElementTree as e\nr = e.parse(sys.argv[1]).getroot()\nprint(r.tag, r.findtext('port_range'))";
    if let Some(said) = python(code, path.to_str().unwrap()) {
        assert_eq!(said, "create_port_list T:1-29499,T:29501-65535");
    }
}

#[test]
fn naabu_gets_flags_by_their_long_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("naabu.yaml");
    fs::write(&path, policy("naabu")).unwrap();
    let code = "import sys, yaml\nprint(sorted(yaml.safe_load(open(sys.argv[1])).items()))";
    if let Some(said) = python(code, path.to_str().unwrap()) {
        assert_eq!(said, "[('exclude-hosts', '192.0.2.8/29'), ('exclude-ports', '29500')]");
    }
}

#[test]
fn what_no_policy_can_cover_is_said() {
    // NCCL's ports are the kernel's choice, and nobody said on which hosts.
    let (status, text, said) = prescan(&["--pytorch", "1.13", "--nccl", "root:2.26", "--policy", "nmap"]);
    assert_eq!(status, 1);
    assert!(text.contains("NOT COVERED: bootstrap-root") && said.contains("--net"), "{text}{said}");
    let (status, _, said) = prescan(&["--nccl", "root:2.26", "--policy", "nmap"]);
    assert!(status == 2 && said.contains("nothing to protect"), "{said}");
    let (status, _, said) = prescan(&["--pytorch", "1.13", "--policy", "tenable"]);
    assert!(status == 2 && said.contains("exclude the ports"), "{said}");
    let (status, _, said) = prescan(&["--pytorch", "1.13", "--policy", "snort"]);
    assert!(status == 2 && said.contains("nmap-hosts"), "{said}");
}

#[test]
fn every_policy_names_its_date_and_its_cost() {
    for product in rdzvscope::api::policy::Product::ALL {
        let text = policy(product.name()).replace('+', " ").replace("%3A", ":").replace("%2C", ",");
        if product == rdzvscope::api::policy::Product::OpenvasHosts {
            continue; // A field that takes addresses alone.
        }
        assert!(text.contains(&format!("rdzvscope prescan --policy {}, 20", product.name())), "{text}");
        assert!(text.contains("Cost: ") && !text.contains("NOT COVERED:"), "{text}");
    }
}
