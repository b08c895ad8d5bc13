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

#[test]
fn packets_as_they_were_are_no_redacted_output() {
    let run = assert_cmd::Command::cargo_bin("rdzvscope")
        .unwrap()
        .args(["analyze", "testdata/incident-torch1.13/node-a.pcap", "--redact", "--carve", "/nonexistent/x.pcapng"])
        .assert()
        .code(2);
    assert!(String::from_utf8_lossy(&run.get_output().stderr).contains("--redact"));
}
