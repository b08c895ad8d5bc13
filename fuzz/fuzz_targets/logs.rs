//! Envelopes composed at random around one kill: what was put in comes out, once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdzvscope::api::oom::{Options, Scanner, merge};

const OUTER: [&str; 8] =
    ["LINE", "gpu-017: LINE", "[gpu-017] out: LINE", "/var/log/kern.log:13:LINE", "> LINE", "==> gpu-017.log <==\nLINE", "=== gpu-017 ===\nLINE", "gpu-017:\n    LINE"];
const HEADERS: [&str; 8] = [
    "2026-09-21T14:13:20+00:00 gpu-017 kernel: ", "Sep 21 14:13:20 gpu-017 kernel: [  99.5] ", "[Mon Sep 21 14:13:20 2026] ",
    "2026-09-21T14:13:20,123456+00:00 ", "<3>1 2026-09-21T14:13:20Z gpu-017 kernel - - - ", "1790000000.123456 gpu-017 kernel: ", "[  99.500000] ", "3,1,99500000,-;",
];

fuzz_target!(|data: &[u8]| {
    let [outer, header, noise @ ..] = data else { return };
    let (outer, header) = (OUTER[usize::from(*outer) % 8], HEADERS[usize::from(*header) % 8]);
    // A name can hold anything but a line feed and the end of its own figures.
    let name: String = String::from_utf8_lossy(noise).chars().filter(|c| !c.is_control() && !"\u{feff}".contains(*c)).take(15).collect();
    let kill = format!("Out of memory: Killed process 4321 ({name}) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB");
    let text = outer.replace("LINE", &format!("{header}{kill}"));
    let options = Options { file_host: Some("file".into()), ..Options::default() };
    let mut scanner = Scanner::new("log", &options);
    for (n, line) in text.split('\n').enumerate() {
        scanner.line(n as u64 + 1, line.as_bytes());
    }
    let merged = merge(scanner.finish().sightings);
    let events: Vec<_> = merged.events.iter().chain(&merged.undated).collect();
    assert_eq!(events.len(), 1, "{text}");
    assert_eq!((events[0].pid, events[0].total_vm_bytes), (Some(4321), Some(9 * 1024)), "{text}");
    if header.contains("gpu-017") || outer.contains("gpu-017") {
        assert_eq!(events[0].host.as_deref(), Some("gpu-017"), "{text}");
    }
});
