//! A report that may leave the house names nobody.

mod common;

use common::{analyze, args, table};

const SECRETS: [&str; 7] = ["node-a", "node-b", "node-c", "scanner", "192.0.2.", "2001:db8", "train.service"];

#[test]
fn no_name_and_no_address_is_left_in_any_format_and_the_verdict_is_the_same() {
    let base = [
        "incident-torch1.13/node-a.pcap",
        "incident-torch1.13/node-b.pcap",
        "incident-torch1.13/node-c.pcap",
        "--oom",
        "incident-torch1.13/logs",
        "--hosts",
        "hosts",
        "--boot",
        "node-a=2026-11-29T11:12:08Z",
    ];
    let open = analyze(&base);
    let redacted = analyze(&args(&[&base, &["--redact"]]));
    let text = redacted.json.to_string();
    for secret in SECRETS {
        assert!(
            open.json.to_string().contains(secret) || secret.starts_with("2001"),
            "{secret} is there to begin with"
        );
        assert!(!text.contains(secret), "{secret} is left in the JSON");
    }
    assert_eq!(open.json["incidents"][0]["verdict"], redacted.json["incidents"][0]["verdict"]);
    assert_eq!(
        open.json["incidents"][0]["hosts"][0]["lag_seconds"],
        redacted.json["incidents"][0]["hosts"][0]["lag_seconds"]
    );
    let ids = |r: &common::Run| r.findings().iter().map(|f| f["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&open), ids(&redacted));
    for format in ["table", "markdown", "html", "csv", "jsonl"] {
        let (_, text) = table(&args(&[&base, &["--redact", "--format", format]]));
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is left in {format}");
        }
    }
}

fn run<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> (i32, String, String) {
    let run = assert_cmd::Command::cargo_bin("rdzvscope").unwrap().current_dir("testdata").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (run.status.code().unwrap(), text(run.stdout), text(run.stderr))
}

/// All bytes of a file, as text where they are.
fn bytes_of(path: &std::path::Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

/// Nothing that names anybody is in a file of packets, as text or as an address in a header.
fn has_no_secret(path: &std::path::Path) {
    let bytes = std::fs::read(path).unwrap();
    let addresses = [[192, 0, 2, 11], [192, 0, 2, 12], [192, 0, 2, 250]];
    let needles = SECRETS.iter().map(|s| s.as_bytes()).chain(addresses.iter().map(<[u8; 4]>::as_slice));
    for needle in needles {
        assert!(!bytes.windows(needle.len()).any(|w| w == needle), "{needle:?} is left in {}", path.display());
    }
}

const INCIDENT: [&str; 5] = [
    "incident-torch1.13/node-a.pcap",
    "incident-torch1.13/node-b.pcap",
    "incident-torch1.13/node-c.pcap",
    "--hosts",
    "hosts",
];

#[test]
fn a_redacted_carve_holds_the_claims_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("carved.pcapng");
    let carve = ["--redact", "--carve", out.to_str().unwrap(), "--format", "json", "--exit-zero"];
    let (status, json, errors) = run(&args(&[&["analyze"], &INCIDENT, &carve]));
    assert_eq!(status, 0, "{errors}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let flagged: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["declared"]["bytes"].is_u64())
        .filter(|f| ["critical", "warning"].contains(&f["severity"].as_str().unwrap()))
        .collect();
    assert!(flagged.len() >= 3);

    // Read again by itself, it has the same claims, from and to the addresses that the tokens name.
    let again = analyze(&[out.to_str().unwrap()]);
    for f in &flagged {
        let token = |t: &serde_json::Value| {
            let digits = t.as_str().unwrap().strip_prefix("ip-").unwrap().to_string();
            let words = [&digits[..4], &digits[4..]].map(|w| u16::from_str_radix(w, 16).unwrap());
            std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, words[0], words[1]).to_string()
        };
        let (source, target) = (token(&f["source"]["address"]), token(&f["target"]["address"]));
        assert!(
            again.findings().iter().any(|g| g["source"]["address"] == source.as_str()
                && g["target"]["address"] == target.as_str()
                && g["source"]["port"] == f["source"]["port"]
                && g["stream_offset"] == f["stream_offset"]
                && g["declared"]["bytes"] == f["declared"]["bytes"]
                && g["time"] == f["time"]),
            "{} of packet {} is not in the carved file",
            f["rule"],
            f["packet"]
        );
    }
    has_no_secret(&out);
    // Of a payload only the first bytes of flagged messages are there: this is from the middle of nmap's probe.
    let plain = directory.path().join("plain.pcapng");
    run(&args(&[&["analyze"], &INCIDENT, &["--carve", plain.to_str().unwrap(), "--exit-zero"]]));
    assert!(bytes_of(&plain).contains("mstshash=nmap"));
    assert!(!bytes_of(&out).contains("mstshash=nmap"));
}

#[test]
fn tshark_finds_no_fault_in_redacted_packets() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("annotated.pcapng");
    let options = ["--redact", "--annotate", out.to_str().unwrap(), "--exit-zero", "-q"];
    let (status, _, errors) = run(&args(&[&["analyze", INCIDENT[0]], &options]));
    assert_eq!(status, 0, "{errors}");
    has_no_secret(&out);
    let tshark = |filter: &str, fields: &[&str]| {
        let mut command = std::process::Command::new("tshark");
        command.args(["-r", out.to_str().unwrap(), "-o", "tcp.check_checksum:TRUE", "-Y", filter, "-T", "fields"]);
        for f in fields {
            command.args(["-e", f]);
        }
        let output = command.output().expect("tshark is installed by make test");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // The packets keep their numbers: the trigger of node-a is the ground truth's 411.
    let comments = tshark("frame.number == 411", &["frame.comment"]);
    assert!(comments.contains("critical"), "{comments}");
    assert_eq!(tshark("tcp.checksum.status == Bad", &["frame.number"]), "");
    let original = std::process::Command::new("tshark")
        .args(["-r", "testdata/incident-torch1.13/node-a.pcap", "-Y", "tcp", "-T", "fields"])
        .args(["-e", "frame.number", "-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "tcp.len", "-e", "tcp.flags"])
        .output()
        .unwrap();
    let fields = ["frame.number", "tcp.srcport", "tcp.dstport", "tcp.len", "tcp.flags"];
    assert_eq!(tshark("tcp", &fields), String::from_utf8(original.stdout).unwrap());
}

#[test]
fn messages_keep_their_shape_and_lose_their_names() {
    let all = ["messages", "torchrun/node-a.pcap", "--hosts", "hosts", "-x", "--show-values"];
    for form in ["table", "jsonl"] {
        let (status, open, _) = run(&args(&[&all, &["--format", form]]));
        assert_eq!(status, 0);
        let (status, redacted, _) = run(&args(&[&all, &["--format", form, "--redact"]]));
        assert_eq!(status, 0);
        for secret in ["192.0.2.", "node-a", "exp42", "torch.rendezvous"] {
            assert!(!redacted.contains(secret), "{secret} is left in {form}");
            // In hexadecimal too.
            let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
            assert!(!redacted.contains(&hex), "{secret} is left in the hex of {form}");
        }
        if form == "jsonl" {
            let parse =
                |t: &str| -> Vec<serde_json::Value> { t.lines().map(|l| serde_json::from_str(l).unwrap()).collect() };
            let (open, redacted) = (parse(&open), parse(&redacted));
            assert_eq!(open.len(), redacted.len());
            let mut tokens = std::collections::BTreeMap::new();
            for (a, b) in open.iter().zip(&redacted) {
                for same in
                    ["time", "packet", "query", "key_bytes", "value_bytes", "purpose", "stream_offset", "length"]
                {
                    assert_eq!(a[same], b[same]);
                }
                if let Some(key) = a["key"].as_str() {
                    let token = b["key"].as_str().unwrap();
                    assert!(token.starts_with("key-"));
                    assert_eq!(
                        *tokens.entry(key.to_string()).or_insert(token.to_string()),
                        token,
                        "one key, one token"
                    );
                }
            }
            assert!(tokens.len() > 5);
        }
    }
}

#[test]
fn flows_lose_their_addresses() {
    for form in ["table", "json", "jsonl"] {
        let (status, text, _) =
            run(&["streams", "torchrun/node-a.pcap", "--hosts", "hosts", "--all", "--format", form, "--redact"]);
        assert_eq!(status, 0);
        assert!(text.contains("ip-") && !text.contains("192.0.2.") && !text.contains("node-a"), "{text}");
        // A community id is a hash of addresses: whoever has a list of these can undo it.
        assert!(!text.contains(" 1:") && !text.contains("\"1:"), "{text}");
    }
    let (status, _, error) = run(&["streams", "torchrun/node-a.pcap", "--redact", "--follow", "1"]);
    assert_eq!(status, 2);
    assert!(error.contains("--redact"), "{error}");
}

#[test]
fn a_key_changes_all_tokens_and_stays_out_of_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    let out =
        |options: &[&str]| run(&args(&[&["analyze"], &INCIDENT, &["--format", "json", "--exit-zero"], options])).1;
    std::fs::write(&key, "a secret of ours\n").unwrap();
    let with = out(&["--redact", "--redact-key", key.to_str().unwrap()]);
    let without = out(&["--redact"]);
    let tokens = |t: &str| -> std::collections::BTreeSet<String> {
        t.split(['"', ' ', ':']).filter(|w| w.starts_with("ip-")).map(str::to_string).collect()
    };
    assert!(tokens(&with).len() >= 4);
    assert!(tokens(&with).is_disjoint(&tokens(&without)));
    assert!(!with.contains("secret of ours"));
    std::fs::write(&key, " \n").unwrap();
    let (status, _, error) =
        run(&args(&[&["analyze"], &INCIDENT, &["--redact", "--redact-key", key.to_str().unwrap()]]));
    assert_eq!(status, 2);
    assert!(error.contains("is empty"), "{error}");
}

#[test]
fn a_report_from_a_case_names_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let case = directory.path().join("case.db");
    let case = case.to_str().unwrap();
    let (status, _, error) = run(&args(&[&["watch"], &INCIDENT, &["--once", "--case", case]]));
    assert_eq!(status, 1, "{error}");
    for form in ["table", "json", "html", "markdown", "csv", "jsonl"] {
        let (status, text, _) = run(&["report", "--case", case, "--redact", "--format", form]);
        assert_eq!(status, 1);
        assert!(text.contains("ip-"), "{form}");
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is left in {form}");
        }
    }
}
