//! Recordings of a hostile sender, as they are, inside VXLAN, and over IPv6: what the kernel delivered is what is told, and
//! nobody is accused of what it did not. `testdata/evasion/*/received-by-server.txt` is what `recv()` of a real server returned.
//! Beside them, captures that lack a direction, parts of packets, or a steady clock.

mod common;

use std::fs;
use std::path::Path;

use common::{Run, analyze, data, records};

/// A capture of Ethernet frames with every frame made anew.
fn each_frame(pcap: &[u8], make: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = pcap[..24].to_vec();
    for (start, end) in records(pcap) {
        let frame = make(&pcap[start + 16..end]);
        out.extend(&pcap[start..start + 8]);
        for _ in 0..2 {
            out.extend((frame.len() as u32).to_le_bytes());
        }
        out.extend(frame);
    }
    out
}

fn in_vxlan(frame: &[u8]) -> Vec<u8> {
    let udp = (16 + frame.len()) as u16;
    let mut out = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0, 0x45, 0];
    out.extend((20 + udp).to_be_bytes());
    out.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    out.extend([&0xc000u16.to_be_bytes()[..], &4789u16.to_be_bytes(), &udp.to_be_bytes(), &[0, 0]].concat());
    out.extend([8, 0, 0, 0, 0, 0, 42, 0]);
    out.extend(frame);
    out
}

fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    let mut total: u32 = bytes.chunks(2).map(word).sum();
    while total >> 16 > 0 {
        total = (total & 0xffff) + (total >> 16);
    }
    !total as u16
}

/// A wrong checksum as if it were left to the sender's card: `zero`, or the sum of the pseudo-header alone. Right ones stay.
fn as_if_offloaded(frame: &[u8], zero: bool) -> Vec<u8> {
    let (ip, tcp) = (&frame[14..34], &frame[34..14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))]);
    let pseudo = [&ip[12..20], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
    let mut frame = frame.to_vec();
    if sum(&[&pseudo, tcp]) != 0 {
        frame[50..52].copy_from_slice(&(if zero { 0 } else { !sum(&[&pseudo]) }).to_be_bytes());
    }
    frame
}

/// The segment over IPv6, from and to 2001:db8:: and the IPv4 address; a wrong checksum stays wrong.
fn over_ipv6(frame: &[u8]) -> Vec<u8> {
    let (ip, tcp) = (&frame[14..34], &frame[34..14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]))]);
    let length = tcp.len() as u16;
    let right = sum(&[&ip[12..20], &[0, 6], &length.to_be_bytes(), tcp]) == 0;
    let address = |a: &[u8]| [&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], a].concat();
    let (src, dst) = (address(&ip[12..16]), address(&ip[16..20]));
    let mut tcp = tcp.to_vec();
    tcp[16..18].fill(0);
    let checksum = sum(&[&src, &dst, &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 6], &tcp]);
    tcp[16..18].copy_from_slice(&(if right { checksum } else { checksum ^ 0x5555 }).to_be_bytes());
    let header = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[6, 64], &src, &dst].concat();
    [&frame[..12], &[0x86, 0xdd], &header, &tcp].concat()
}

/// One case, analyzed with its log and hosts.
fn told(case: &str, form: &str) -> Run {
    let place = tempfile::tempdir().unwrap();
    let from = Path::new(&data("evasion")).join(case);
    let pcap = fs::read(from.join("node-a.pcap")).unwrap();
    let mut hosts = fs::read_to_string(from.join("hosts")).unwrap();
    let made = match form {
        "VXLAN" => each_frame(&pcap, in_vxlan),
        "no sum" => each_frame(&pcap, |frame| as_if_offloaded(frame, true)),
        "unfinished sum" => each_frame(&pcap, |frame| as_if_offloaded(frame, false)),
        "IPv6" => {
            hosts = hosts.replace("192.0.2.11", "2001:db8::c000:20b").replace("192.0.2.77", "2001:db8::c000:24d");
            each_frame(&pcap, over_ipv6)
        }
        _ => pcap,
    };
    fs::write(place.path().join("node-a.pcap"), made).unwrap();
    fs::write(place.path().join("hosts"), hosts).unwrap();
    fs::copy(from.join("node-a.log"), place.path().join("node-a.log")).unwrap();
    analyze(&[place.path().to_str().unwrap()])
}

#[test]
fn what_the_kernel_delivered_is_found_in_every_encapsulation() {
    for form in ["as recorded", "VXLAN", "IPv6", "no sum", "unfinished sum"] {
        for case in ["dup", "holes", "urg", "synmid"] {
            let run = told(case, form);
            assert_eq!(run.incident()["verdict"], "confirmed", "{case}, {form}");
            let claims = run.of_rule("store-claim");
            assert_eq!(claims.len(), 1, "{case}, {form}: {:#?}", run.findings());
            assert_eq!(claims[0]["declared"]["bytes"], common::COOKIE_CLAIM, "{case}, {form}");
            let source = claims[0]["source"]["address"].as_str().unwrap();
            assert!(["198.51.100.66", "2001:db8::c633:6442"].contains(&source), "{case}, {form}: {source}");
            let evidence = claims[0]["evidence"].to_string();
            assert!(evidence.contains("acknowledged all"), "{case}, {form}: {evidence}");
            assert_eq!(claims[0]["acknowledged"], "all", "{case}, {form}");
            assert_eq!(run.incident()["hosts"][0]["acknowledged"], "all", "{case}, {form}");
        }
        // Nobody is accused by a segment that the kernel dropped.
        let run = told("frame", form);
        assert_eq!(run.incident()["verdict"], "unexplained", "frame, {form}");
        assert!(run.of_rule("store-claim").is_empty(), "frame, {form}");
        assert_eq!(run.of_rule("spoofed-segment").len(), 1, "frame, {form}: {:#?}", run.findings());
        assert_eq!(run.of_rule("spoofed-segment")[0]["acknowledged"], "none", "frame, {form}");
        // What is in no stream is counted, and the flow is named.
        assert_eq!(run.json["totals"]["refused"], 9, "frame, {form}");
        assert!(run.notes().contains("9 bytes refused by the receiver"), "frame, {form}: {}", run.notes());
    }
}

#[test]
fn what_a_capture_does_not_hold_is_not_judged() {
    let of = |name: &str| analyze(&[format!("wire/{name}.pcap")]);
    for clean in ["one-way-healthy-workers", "snaplen-56-healthy"] {
        let run = of(clean);
        assert!(run.findings().is_empty(), "{clean}: {:#?}", run.findings());
    }
    assert!(of("one-way-healthy-workers").notes().contains("One direction only"));
    assert!(of("snaplen-56").of_rule("store-stalled").is_empty());
    // Both ways and one way: the same claim; of silence only the capture of both can tell.
    let (one, two) = (of("one-way-probe"), of("two-way-probe"));
    for run in [&one, &two] {
        assert_eq!(run.of_rule("store-claim")[0]["declared"]["bytes"], common::COOKIE_CLAIM);
    }
    assert_eq!((one.of_rule("listener-silent").len(), two.of_rule("listener-silent").len()), (0, 1));
    assert!(of("node-a-claim-in-reset").of_rule("store-claim").is_empty());
    assert_eq!((&one.of_rule("store-claim")[0]["acknowledged"]), "unknown");
    assert_eq!(
        (&one.json["captures"][0]["one_direction"], &two.json["captures"][0]["one_direction"]),
        (&true.into(), &false.into())
    );
    let stepped = of("clock-steps-back-3600s");
    let warnings = stepped.json["captures"][0]["warnings"].to_string();
    assert!(warnings.contains("packet 21: its time is 3600.000 s back"), "{warnings}");
    assert_eq!(stepped.json["captures"][0]["clock_steps"][0]["packet"], 21);
    assert_eq!(stepped.of_rule("clock-step")[0]["packet"], 21);
    let evidence = common::joined(&stepped.of_rule("store-claim")[0]["evidence"]);
    assert!(evidence.contains("the clock as it was set at packet 21"), "{evidence}");
}
