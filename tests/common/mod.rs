//! Runs the built binary on the recorded captures, holds every JSON report against the published schema, and cuts and
//! rewrites capture bytes.

#![allow(dead_code)]

mod skip;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use assert_cmd::cargo::CommandCargoExt;
use jsonschema::Validator;
use serde_json::Value;
#[allow(unused_imports)]
pub(crate) use skip::skipped;

/// The logs of the incident and what names and dates them; without the first word the logs stand as paths.
pub(crate) const LOGS: [&str; 6] =
    ["--oom", "incident-torch1.13/logs", "--hosts", "hosts", "--boot", "node-a=2026-11-29T11:12:08Z"];
/// The captures of the incident's three hosts.
pub(crate) const NODES: [&str; 3] =
    ["incident-torch1.13/node-a.pcap", "incident-torch1.13/node-b.pcap", "incident-torch1.13/node-c.pcap"];
/// nmap's TerminalServerCookie, read as a length.
pub(crate) const COOKIE_CLAIM: u64 = 962_696_183_808;
/// nmap's TerminalServer, read as a length.
pub(crate) const TERMINAL_CLAIM: u64 = 962_174_058_496;

/// `testdata/NAME`.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// The binary, in `testdata/`, in a fixed environment.
pub(crate) fn command() -> Command {
    let mut command = Command::cargo_bin("rdzvscope").unwrap();
    command.current_dir(data("")).env("LC_ALL", "C.UTF-8").env("TZ", "Asia/Shanghai");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "PAGER"] {
        command.env_remove(name);
    }
    command
}

/// The arguments of several lists, one after the other.
pub(crate) fn args(lists: &[&[&str]]) -> Vec<String> {
    lists.iter().flat_map(|l| l.iter().map(|a| a.to_string())).collect()
}

/// What a run of `analyze --format json` left.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stderr: String,
    pub(crate) json: Value,
}

pub(crate) fn complaints(document: &Value) -> Vec<String> {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| {
        let schema = serde_json::from_str(include_str!("../../docs/report.schema.json")).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Of an output of `--format json`: it is valid, whatever it tells.
pub(crate) fn checked(output: Output) -> Run {
    let stderr = String::from_utf8(output.stderr).unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    assert_eq!(complaints(&json), Vec::<String>::new());
    let findings = json["findings"].as_array().unwrap();
    let ids: std::collections::BTreeSet<&str> = findings.iter().filter_map(|f| f["id"].as_str()).collect();
    assert_eq!(ids.len(), findings.len(), "two findings have one id");
    for trigger in json["incidents"].as_array().unwrap().iter().flat_map(|i| i["hosts"].as_array().unwrap()) {
        assert!(trigger["trigger"].as_str().is_none_or(|t| ids.contains(t)), "{trigger} points nowhere");
    }
    Run { status: output.status.code().expect("no signal"), stderr, json }
}

/// `analyze ARGS --format json`.
pub(crate) fn analyze(arguments: &[impl AsRef<std::ffi::OsStr>]) -> Run {
    checked(command().arg("analyze").args(arguments).args(["--format", "json"]).output().unwrap())
}

/// `analyze ARGS -v`: status and the long table.
pub(crate) fn table(arguments: &[impl AsRef<std::ffi::OsStr>]) -> (i32, String) {
    let output = command().args(["analyze", "-v"]).args(arguments).output().unwrap();
    (output.status.code().expect("no signal"), String::from_utf8(output.stdout).unwrap())
}

impl Run {
    pub(crate) fn findings(&self) -> &[Value] {
        self.json["findings"].as_array().unwrap()
    }

    pub(crate) fn of_rule<'a>(&'a self, rule: &'a str) -> Vec<&'a Value> {
        self.findings().iter().filter(|f| f["rule"] == rule).collect()
    }

    pub(crate) fn finding(&self, id: &Value) -> &Value {
        self.findings().iter().find(|f| f["id"] == *id).unwrap_or_else(|| panic!("no finding {id}"))
    }

    /// At warning or above.
    pub(crate) fn grave(&self) -> Vec<&Value> {
        self.findings().iter().filter(|f| f["severity"] == "warning" || f["severity"] == "critical").collect()
    }

    pub(crate) fn incident(&self) -> &Value {
        let all = self.json["incidents"].as_array().unwrap();
        assert_eq!(all.len(), 1, "one incident is due: {all:#?}");
        &all[0]
    }

    /// The part of a host in the one incident.
    pub(crate) fn host(&self, name: &str) -> &Value {
        let hosts = self.incident()["hosts"].as_array().unwrap();
        hosts.iter().find(|h| h["host"] == name).unwrap_or_else(|| panic!("no {name} in {hosts:#?}"))
    }

    /// The finding that is a host's trigger.
    pub(crate) fn trigger(&self, host: &str) -> &Value {
        self.finding(&self.host(host)["trigger"])
    }

    pub(crate) fn input(&self, ending: &str) -> &Value {
        let all = self.json["inputs"].as_array().unwrap();
        all.iter()
            .find(|i| i["path"].as_str().unwrap().ends_with(ending))
            .unwrap_or_else(|| panic!("{ending}: {all:#?}"))
    }

    pub(crate) fn listener(&self, endpoint: (&str, u64)) -> &Value {
        let all = self.json["listeners"].as_array().unwrap();
        all.iter()
            .find(|l| (l["address"].as_str().unwrap(), l["port"].as_u64().unwrap()) == endpoint)
            .unwrap_or_else(|| panic!("{endpoint:?}: {all:#?}"))
    }

    pub(crate) fn notes(&self) -> String {
        self.json["notes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect::<Vec<_>>().join("\n")
    }
}

/// Text of a list of strings.
pub(crate) fn joined(list: &Value) -> String {
    list.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// A table's text without its wrapping.
pub(crate) fn unwrapped(table: &str) -> String {
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where the packets of a classic little-endian pcap begin and end: (start of record header, end of record).
pub(crate) fn records(pcap: &[u8]) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut at = 24;
    while let Some(header) = pcap.get(at..at + 16) {
        let end = at + 16 + u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        all.push((at, end));
        at = end;
    }
    all
}

/// Rewrites a TCP port in every packet (Ethernet, IPv4), checksums included: RFC 1624, so that what was wrong stays so.
pub(crate) fn move_port(pcap: &mut [u8], from: u16, to: u16) {
    let word = |b: &[u8]| u16::from_be_bytes([b[0], b[1]]);
    for (start, end) in records(pcap) {
        let frame = &mut pcap[start + 16..end];
        if frame.len() < 34 || word(&frame[12..]) != 0x0800 || frame[23] != 6 {
            continue;
        }
        let tcp = 14 + usize::from(frame[14] & 15) * 4;
        for port in [tcp, tcp + 2] {
            if word(&frame[port..]) == from {
                frame[port..port + 2].copy_from_slice(&to.to_be_bytes());
                let sum = tcp + 16;
                let folded = u32::from(!word(&frame[sum..])) + u32::from(!from) + u32::from(to);
                let folded = (folded & 0xffff) + (folded >> 16);
                let folded = (folded & 0xffff) + (folded >> 16);
                frame[sum..sum + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
            }
        }
    }
}

/// What a client of PyTorch 1.13 sends to a store on loopback first: ADD `init/` 1.
pub(crate) fn client(port: u16) -> std::net::TcpStream {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut request = vec![3u8];
    request.extend_from_slice(&5u64.to_le_bytes());
    request.extend_from_slice(b"init/");
    request.extend_from_slice(&1i64.to_le_bytes());
    stream.write_all(&request).unwrap();
    let mut answer = [0u8; 8];
    stream.read_exact(&mut answer).unwrap();
    stream
}

/// Whether `unshare` gives what the arguments ask for: not without privileges, and of mounts not in a chroot.
pub(crate) fn can_unshare(arguments: &[&str]) -> bool {
    Command::new("unshare").args(arguments).arg("true").output().is_ok_and(|o| o.status.success())
}
