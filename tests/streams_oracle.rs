//! `streams --all --format jsonl` against an independent reassembly: `stream-oracle.py`, on tshark's packet decoding.

#[path = "common/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// src, dst, length, gap_bytes, sha256.
type Stream = (String, String, u64, u64, String);

/// Made frames for which the oracle is wrong: file, stream, reason. The truth about them stands in the `.tsv` beside each
/// and is held against the frame decoder in its own tests, or is what a real server read. Every other capture must agree to
/// the byte.
const ORACLE_WRONG: [(&str, &str); 22] = [
    // The oracle takes the IPv4 address of a packet before the IPv6 one: IPv6 inside IPv4 gets the outer addresses.
    ("frames/gre.pcap", "2001:db8::11:40001: in IPv4; the oracle names the outer addresses"),
    ("frames/gtp.pcap", "2001:db8::11:40001: in IPv4; the oracle names the outer addresses"),
    ("frames/ip-in-ip.pcap", "2001:db8::11:40001: in IPv4; the oracle names the outer addresses"),
    ("frames/nested.pcap", "2001:db8::11:40001: in IPv4; the oracle names the outer addresses"),
    // Packets in which tshark finds no TCP, whatever follows.
    ("frames/ethernet.pcap", "2001:db8::11:40006: IPv6 payload length 0 (offload), malformed to tshark"),
    ("frames/mpls.pcap", "192.0.2.11:40002: Ethernet over a pseudowire; tshark guesses another form"),
    ("frames/vxlan.pcap", "2001:db8::11:40001: VXLAN on port 8472; tshark stops at UDP"),
    // A routing header: `ipv6.dst` occurs twice, the header's own address and the final one, and the oracle takes the
    // last, though the packet is not there yet. A mobility header (40010): tshark does not look behind it.
    ("frames/extension.pcap", "2001:db8::11:40008, :40009, :40010: routing and mobility headers"),
    ("wire/node-a-reused-port-without-syn.pcap", "a port used again without its SYN is one stream with a gap of 1 GB"),
    // A hostile sender: recv() of the real server is the judge (received-by-server.txt beside each; tests/evasion.rs).
    ("evasion/dup/node-a.pcap", "takes the segment with a bad checksum"),
    ("evasion/frame/node-a.pcap", "takes a segment without a connection"),
    ("evasion/holes/node-a.pcap", "takes what waits behind holes that were never filled"),
    ("evasion/synmid/node-a.pcap", "a foreign SYN begins another stream"),
    ("evasion/urg/node-a.pcap", "keeps the urgent byte in the stream"),
    // The same, sent to a kernel at random; what recv() returned stands beside each (tests/kernel.rs).
    ("kernel/checksum-as-if-left-to-the-card.pcap", "takes the segment with a bad checksum"),
    ("kernel/beyond-a-fin-in-part.pcap", "takes what the kernel refused"),
    ("kernel/handshake-with-old-timestamp.pcap", "takes what the kernel refused"),
    ("kernel/handshake-with-wrong-acknowledgement.pcap", "takes what the kernel refused"),
    ("kernel/joined-behind-a-fin-ipv6.pcap", "takes what the kernel refused"),
    ("kernel/joined-behind-a-fin.pcap", "takes what the kernel refused"),
    ("kernel/joined-run-replaces-a-fin.pcap", "takes what the kernel refused"),
    ("kernel/reset-at-a-forgotten-block-ipv6.pcap", "takes what the kernel refused"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|o| o.status.success())
}

fn captures(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            captures(&path, found);
        } else if path.file_name().unwrap().to_string_lossy().contains(".pcap") {
            found.push(path);
        }
    }
}

/// The streams of lines of JSON, sorted: a multiset.
fn streams(lines: &[u8]) -> Vec<Stream> {
    let text = |v: &serde_json::Value, k: &str| v[k].as_str().unwrap().to_string();
    let mut all: Vec<Stream> = String::from_utf8_lossy(lines)
        .lines()
        .map(|line| {
            let v: serde_json::Value = serde_json::from_str(line).unwrap();
            let number = |k: &str| v[k].as_u64().unwrap();
            (text(&v, "src"), text(&v, "dst"), number("length"), number("gap_bytes"), text(&v, "sha256"))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn every_stream_is_the_oracles() {
    if !runs("tshark", "--version") || !runs("python3", "--version") {
        skip::skipped("tshark and python3 are required for the stream oracle, at least one of them is not there");
        return;
    }
    let mut files = Vec::new();
    captures(&root().join("testdata"), &mut files);
    assert!(files.len() > 40, "{} captures", files.len());
    let wrong: BTreeMap<_, _> = ORACLE_WRONG.into_iter().collect();
    let compared: usize = std::thread::scope(|scope| {
        let wrong = &wrong;
        let work = move |part: Vec<PathBuf>| part.iter().map(|path| compare(path, wrong)).sum::<usize>();
        let parts: Vec<Vec<PathBuf>> = (0..4).map(|i| files.iter().skip(i).step_by(4).cloned().collect()).collect();
        let running: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || work(part))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(compared > 800, "only {compared} streams were compared");
}

/// Compares the streams of one capture; how many there are.
fn compare(path: &Path, wrong: &BTreeMap<&str, &str>) -> usize {
    let oracle = Command::new("python3").arg(root().join("tests/stream-oracle.py")).arg(path).output().unwrap();
    assert!(oracle.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&oracle.stderr));
    let ours = Command::new(env!("CARGO_BIN_EXE_rdzvscope"))
        .args(["streams", "--all", "--format", "jsonl"])
        .arg(path)
        .output()
        .unwrap();
    assert!(ours.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&ours.stderr));
    let (oracle, ours) = (streams(&oracle.stdout), streams(&ours.stdout));
    let name = path.strip_prefix(root().join("testdata")).unwrap().to_string_lossy().into_owned();
    if let Some(why) = wrong.get(name.as_str()) {
        assert_ne!(oracle, ours, "{name}: no longer different ({why})");
        return 0;
    }
    assert_eq!(oracle, ours, "{name}");
    ours.len()
}
