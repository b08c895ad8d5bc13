//! Any text as a log: lines are counted, nothing panics, one kill is one event however often its log is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::oom::{Options, Scanner, looks_like_a_log, merge};
use rdzvscope::api::time::Timestamp;

fuzz_target!(|data: &[u8]| {
    let options =
        Options { near: Some(Timestamp::new(1_795_951_210, 0)), file_host: Some("n".into()), ..Options::default() };
    let read = || {
        let mut scanner = Scanner::new("log", &options);
        for (n, line) in data.split(|b| *b == b'\n').enumerate() {
            scanner.line(n as u64 + 1, line);
        }
        scanner.finish()
    };
    let (a, b) = (read(), read());
    let once = merge(a.sightings.clone());
    let twice = merge(a.sightings.into_iter().chain(b.sightings).collect());
    let ids = |m: &rdzvscope::api::oom::Merged| m.events.iter().map(|e| e.id.clone()).collect::<Vec<_>>();
    // Kills without figures are told apart by time alone; only those with figures must merge whatever happens.
    if once.events.iter().all(|e| e.pid.is_some() && e.total_vm_bytes.is_some() && e.anon_rss_bytes.is_some()) {
        assert_eq!(ids(&once).len(), ids(&twice).len());
    }
    let _ = looks_like_a_log(data);
});
