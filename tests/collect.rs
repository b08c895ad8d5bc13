//! `contrib/collect.sh`: what it prints on this host is understood, whole.

#![cfg(unix)]

use std::process::Command;

#[test]
fn what_the_collector_prints_is_understood() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/collect.sh");
    let output = Command::new("sh").args([script, "node-x"]).output().expect("sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.lines().all(|l| l.starts_with("rdzvscope/1 node-x ")), "{text}");
    let (facts, errors) = rdzvscope::api::oom::read_facts(&text);
    assert_eq!(errors, []);
    assert_eq!(facts.len(), 1);
    let now = facts[0].now.expect("the time");
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    assert!((now.0 / 1_000_000_000).abs_diff(seconds as i64) < 300);
    assert!(text.ends_with("rdzvscope/1 node-x end 1\n"));
    if cfg!(target_os = "linux") {
        assert!(facts[0].boot_time.is_some_and(|b| b < now));
        assert!(facts[0].memory_total_bytes.is_some_and(|m| m > 1 << 20));
    }
}
