//! Captures made by hand: classic pcap, raw IPv4, TCP without options or checksums.

#![allow(dead_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// SYN.
pub(crate) const SYN: u8 = 2;
/// FIN and ACK.
pub(crate) const FIN: u8 = 0x11;
/// ACK.
pub(crate) const ACK: u8 = 0x10;

/// The client's side and the server's side of a flow: last byte of 192.0.2.x, and port.
#[derive(Clone, Copy)]
pub(crate) struct Ends(pub(crate) (u8, u16), pub(crate) (u8, u16));

/// A capture in the making; each packet comes a millisecond after the one before.
#[derive(Default)]
pub(crate) struct Wire {
    bytes: Vec<u8>,
    packets: u32,
    /// What each end sent to the other: the sequence number behind it.
    sent: HashMap<((u8, u16), (u8, u16)), u32>,
}

impl Wire {
    pub(crate) fn new() -> Wire {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 101] {
            bytes.extend(word.to_le_bytes());
        }
        Wire { bytes, packets: 0, sent: HashMap::new() }
    }

    /// Packets so far.
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Adds packets with the times and identifications of those from `at` on.
    pub(crate) fn again(&mut self, at: u32, add: impl FnOnce(&mut Wire)) {
        let now = std::mem::replace(&mut self.packets, at);
        add(self);
        self.packets = now;
    }

    pub(crate) fn segment(&mut self, src: (u8, u16), dst: (u8, u16), seq: u32, ack: u32, flags: u8, payload: &[u8]) {
        let mut p = vec![0x45, 0];
        p.extend((40 + payload.len() as u16).to_be_bytes());
        p.extend((self.packets as u16).to_be_bytes());
        p.extend([0x40, 0, 64, 6, 0, 0, 192, 0, 2, src.0, 192, 0, 2, dst.0]);
        p.extend(src.1.to_be_bytes());
        p.extend(dst.1.to_be_bytes());
        p.extend(seq.to_be_bytes());
        p.extend(ack.to_be_bytes());
        p.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        p.extend(payload);
        let ms = self.packets;
        self.packets += 1;
        for word in [1_795_951_210 + ms / 1000, ms % 1000 * 1000, p.len() as u32, p.len() as u32] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(p);
    }

    /// SYN, SYN-ACK, ACK with initial sequence numbers 99 and 499: data starts at 100 and 500.
    pub(crate) fn handshake(&mut self, Ends(c, s): Ends) {
        self.segment(c, s, 99, 0, SYN, b"");
        self.segment(s, c, 499, 100, SYN | ACK, b"");
        self.segment(c, s, 100, 500, ACK, b"");
    }

    /// From the client, at this offset of its stream; it acknowledges all that the server sent.
    pub(crate) fn client(&mut self, Ends(c, s): Ends, offset: u32, payload: &[u8]) {
        self.data(c, s, 100 + offset, 500, payload);
    }

    /// From the server, at this offset of its stream; it acknowledges all that the client sent.
    pub(crate) fn server(&mut self, Ends(c, s): Ends, offset: u32, payload: &[u8]) {
        self.data(s, c, 500 + offset, 100, payload);
    }

    fn data(&mut self, src: (u8, u16), dst: (u8, u16), seq: u32, first_of_peer: u32, payload: &[u8]) {
        let ack = self.sent.get(&(dst, src)).copied().unwrap_or(first_of_peer);
        let end = self.sent.entry((src, dst)).or_default();
        *end = (*end).max(seq + payload.len() as u32);
        self.segment(src, dst, seq, ack, ACK, payload);
    }

    pub(crate) fn save(&self, directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::write(&path, &self.bytes).unwrap();
        path
    }
}

/// The program, run.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rdzvscope"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

/// Its standard output; it must have ended with this status.
pub(crate) fn stdout(arguments: &[&str], status: i32) -> String {
    let out = run(arguments);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(status), "{arguments:?}: {text} {}", String::from_utf8_lossy(&out.stderr));
    text
}

/// Lines of JSON.
pub(crate) fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// A string on the store's wire.
pub(crate) fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}
