//! `contrib/wireshark`: its tables are the product's, and its messages are those of `messages`, on every recording.

mod checkers;
mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use checkers::{root, tool};
use common::command;
use rdzvscope::api::protocol::tcpstore::Dialect;

#[test]
fn the_tables_are_the_products() {
    let lua = std::fs::read_to_string(root().join("contrib/wireshark/rdzvscope-tcpstore.lua")).unwrap();
    let table = lua.split("local TYPES = {").nth(1).unwrap().split("\n}").next().unwrap();
    // Strings that are joined over lines are one.
    let table = table.replace("\"\n        .. \"", "");
    for dialect in Dialect::ALL {
        let names: Vec<&str> = dialect.operations().iter().map(|o| o.name()).collect();
        let line = table.lines().find(|l| l.trim_start().starts_with(&format!("{} = ", dialect.name())));
        let listed: Vec<&str> = line.unwrap().split('"').nth(1).unwrap().split_whitespace().collect();
        assert_eq!(listed, names, "{dialect}");
        for name in names {
            assert!(lua.contains(&format!("{name} = \"")), "{name} has no fields");
        }
    }
}

/// All recordings below `testdata/`.
fn recordings(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            recordings(&path, into);
        } else if [".pcap", ".pcapng", ".pcap.zst", ".pcap.gz"].iter().any(|e| name.ends_with(e)) {
            into.push(path);
        }
    }
}

#[test]
fn every_message_of_every_recording_is_the_same_in_tshark() {
    if tool("tshark").is_none() || tool("python3").is_none() {
        return;
    }
    let mut all = Vec::new();
    recordings(&root().join("testdata"), &mut all);
    assert!(all.len() > 100);
    let binary = command().get_program().to_os_string();
    let half = |files: Vec<PathBuf>| {
        let child = Command::new("python3").arg(root().join("tests/wireshark.py")).arg(&binary).args(files).output();
        let out = child.unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{}\n{text}", String::from_utf8_lossy(&out.stderr));
        let counts: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        ["ADD", "SET", "WAIT", "nccl handshake", "answers"].map(|k| counts[k].as_u64().unwrap_or(0))
    };
    let (odd, even): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(i, _)| i % 2 == 1);
    let files = |part: Vec<(usize, PathBuf)>| part.into_iter().map(|(_, f)| f).collect::<Vec<_>>();
    let (a, b) = std::thread::scope(|s| {
        let other = s.spawn(|| half(files(odd)));
        (half(files(even)), other.join().unwrap())
    });
    for (a, b) in a.iter().zip(b) {
        assert!(a + b > 100, "too little was compared: {a} + {b}");
    }
}

#[test]
fn a_claim_is_found_by_a_filter_of_its_length() {
    let Some(tshark) = tool("tshark") else { return };
    let script = format!("lua_script:{}", root().join("contrib/wireshark/rdzvscope-tcpstore.lua").display());
    let out = Command::new(tshark)
        .args(["-X", &script, "-Y", "tcpstore.key_length > 1000000", "-T", "fields", "-e", "tcpstore.key_length", "-r"])
        .arg(root().join("testdata/incident-torch1.13/node-a.pcap"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("962696183808"), "{text}{}", String::from_utf8_lossy(&out.stderr));
}
