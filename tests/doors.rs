//! The other listeners of a training node are named by their first bytes, on any port, and nothing else is.

#[path = "transforms/capture.rs"]
mod capture;
mod common;
mod wire;

use std::collections::BTreeSet;

use serde_json::Value;
use wire::{Ends, Wire, run, stdout};

fn report(arguments: &[&str]) -> (Value, i32) {
    let out = run(&[&["analyze", "--format", "json"], arguments].concat());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    (serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {error}")), out.status.code().unwrap())
}

fn text(v: &Value) -> &str {
    v.as_str().unwrap_or_default()
}

fn array<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().unwrap()
}

/// Protocols whose listeners are named.
const NAMED: [&str; 12] =
    ["tensorpipe", "mpi", "slurm", "zmq", "grpc", "ray", "dask", "etcd", "redis", "ucx", "http", "ssh"];

/// Port, protocol, role and what the version says of each listener that a recording shows enough of.
type Truth = &'static [(u64, &'static str, &'static str, &'static str)];

const TRUTH: [(&str, Truth); 10] = [
    ("dask-2026.8.0", &[(8786, "dask", "control", "scheduler")]),
    ("etcd-3.4.23", &[(2379, "etcd", "store", "clients"), (2380, "etcd", "store", "peers")]),
    ("jax-coordinator-0.10.2", &[(8476, "grpc", "control", "JAX")]),
    ("mpich-4.0.2-mpiexec-dies-on-connect-close", &[(43875, "mpi", "control", "up to 4.0")]),
    ("openmpi-5.0.11", &[(1025, "mpi", "btl", "Open MPI"), (44541, "mpi", "oob", "PRRTE")]),
    (
        "ray-2.60.0",
        &[
            (6379, "ray", "control", "GCS"),
            (8076, "ray", "rpc", "object manager"),
            (10003, "ray", "rpc", "worker"),
            (8265, "http", "", "Ray, dashboard"),
        ],
    ),
    ("redis-7.0.15", &[(6379, "redis", "store", "Redis")]),
    (
        "slurm-22.05-srun",
        &[
            (6817, "slurm", "control", "slurmctld"),
            (6818, "slurm", "control", "slurmd"),
            (37045, "slurm", "control", "22.05"),
            (45269, "slurm", "io", "22.05"),
        ],
    ),
    ("tensorpipe-rpc-dies-on-GET", &[(39149, "tensorpipe", "rpc", "TensorPipe"), (39335, "tensorpipe", "rpc", "")]),
    (
        "zmq-pull-pickle-dies-on-TerminalServer",
        &[
            (5701, "zmq", "rpc", "ZMTP 3"),
            (5702, "zmq", "rpc", ""),
            (5703, "zmq", "rpc", ""),
            (5704, "zmq", "rpc", ""),
            (5705, "zmq", "rpc", ""),
        ],
    ),
];

#[test]
fn neighbours_are_named_as_they_are() {
    for (name, truth) in TRUTH {
        let (report, _) = report(&[&format!("testdata/neighbours/{name}.pcap")]);
        let named: Vec<&Value> =
            array(&report, "listeners").iter().filter(|l| NAMED.contains(&text(&l["protocol"]))).collect();
        for (port, protocol, role, version) in truth {
            let l = named.iter().find(|l| l["port"] == *port).unwrap_or_else(|| panic!("{name} {port} {named:#?}"));
            assert_eq!((text(&l["protocol"]), text(&l["role"])), (*protocol, *role), "{name} {l:#}");
            assert!(text(&l["version"]).contains(version), "{name} {l:#}");
        }
        let told: BTreeSet<u64> = named.iter().filter_map(|l| l["port"].as_u64()).collect();
        assert_eq!(told, truth.iter().map(|t| t.0).collect(), "{name}");
    }
}

/// Other recordings hold no such listener, but for services that were put there.
#[test]
fn nothing_else_gets_a_name() {
    for directory in [
        "nccl",
        "nccl/wire",
        "gloo",
        "api",
        "torchrun",
        "scans",
        "incident-torch1.13",
        "survivors-torch2.15",
        "store-and-nccl",
        "links",
    ] {
        for entry in std::fs::read_dir(format!("testdata/{directory}")).unwrap().flatten() {
            let path = entry.path();
            if !path.is_file() || path.extension().is_none_or(|e| e == "json" || e == "md" || e == "txt") {
                continue;
            }
            let (report, _) = report(&[path.to_str().unwrap()]);
            let named: Vec<&Value> =
                array(&report, "listeners").iter().filter(|l| NAMED.contains(&text(&l["protocol"]))).collect();
            assert!(named.is_empty(), "{path:?} {named:#?}");
            let rules = array(&report, "findings").iter().map(|f| text(&f["rule"]));
            assert!(!rules.into_iter().any(|r| r.starts_with("door-") || r.starts_with("tensorpipe-")), "{path:?}");
        }
    }
}

/// A length of a stranger at a TensorPipe listener is a claim, shown by the packet that carries it.
#[test]
fn tensorpipe_believes_a_length() {
    let (report, status) = report(&["testdata/neighbours/tensorpipe-rpc-dies-on-GET.pcap"]);
    assert_eq!(status, 1);
    let claims: Vec<&Value> = array(&report, "findings").iter().filter(|f| f["rule"] == "tensorpipe-claim").collect();
    let [claim] = claims.as_slice() else { panic!("{claims:#?}") };
    assert_eq!((claim["packet"].as_u64(), text(&claim["severity"])), (Some(382), "critical"));
    assert_eq!(claim["declared"]["bytes"].as_u64(), Some(u64::from_le_bytes(*b"GET / HT")));
    assert_eq!((text(&claim["source"]["address"]), text(&claim["stray"]["protocol"])), ("192.0.2.250", "HTTP"));
    assert!(text(&claim["bytes_hex"]).starts_with("474554202f20485454502f312e30"), "{claim:#}");
}

/// What a TensorPipe peer begins with.
const PEER: &[u8] = &[8, 0, 0, 0, 0, 0, 0, 0, 0xb8, 0, 0xb9, 1, 0xbd, 2, 0x77, 0x31];

const RST: u8 = 0x14;

/// A job's connection, a stray, and what the listener's side does then.
fn struck(stray: impl FnOnce(&mut Wire, Ends), after: impl FnOnce(&mut Wire, Ends)) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let (own, stranger, late) =
        (Ends((12, 40_000), (11, 41_000)), Ends((250, 50_000), (11, 41_000)), Ends((13, 40_001), (11, 41_000)));
    let mut wire = Wire::new();
    wire.handshake(own);
    wire.client(own, 0, PEER);
    wire.server(own, 0, &[0xb4, 0, 0, 0, 0, 0, 0, 0, 0xb9]);
    wire.handshake(stranger);
    stray(&mut wire, stranger);
    after(&mut wire, own);
    // A peer that comes later is refused.
    let Ends(c, s) = late;
    wire.segment(c, s, 99, 0, wire::SYN, b"");
    wire.segment(s, c, 0, 100, RST, b"");
    report(&[wire.save(directory.path(), "x.pcap").to_str().unwrap()]).0
}

fn rules(report: &Value) -> BTreeSet<&str> {
    array(report, "findings").iter().map(|f| text(&f["rule"])).collect()
}

#[test]
fn a_listener_that_a_stray_closed_and_a_job_that_a_stray_ended() {
    let close = |w: &mut Wire, Ends(c, s): Ends| {
        w.segment(c, s, 100, 500, wire::FIN, b"");
        w.segment(s, c, 500, 101, wire::FIN, b"");
    };
    let dies = |w: &mut Wire, Ends(c, s): Ends| w.segment(s, c, 509, 116, RST, b"");
    let closed = struck(close, |_, _| {});
    assert_eq!(rules(&closed), ["tensorpipe-listener-closed"].into());
    let found = &array(&closed, "findings")[0];
    // The stray's FIN is packet 9.
    assert_eq!((found["packet"].as_u64(), text(&found["source"]["address"])), (Some(9), "192.0.2.250"));
    let bytes = |w: &mut Wire, ends: Ends| w.client(ends, 0, b"GET / HTTP/1.0\r\n\r\n");
    let died = struck(bytes, dies);
    assert_eq!(rules(&died), ["door-job-died", "tensorpipe-claim"].into());
    // Without a stray the same end is nobody's fault.
    let quiet = struck(|_, _| {}, dies);
    assert!(rules(&quiet).is_empty(), "{:#}", quiet["findings"]);
}

/// What prescan says of a node, by the built binary.
#[test]
fn a_node_is_asked_door_by_door() {
    let list = "mpich:4.0,openmpi:5,srun:22.05,gloo:1.13,tensorpipe:1.13,zmq,ray";
    let rows = |profile: &str, status| -> Vec<Value> {
        wire::lines(&stdout(&["prescan", "--profile", profile, "--node", list, "--format", "jsonl"], status))
    };
    let half_open = rows("nmap -sS -p-", 0);
    assert!(half_open.len() > 30 && half_open.iter().all(|r| r["kills"] == false && r["blocks_server"] == false));
    let connect = rows("nmap -sT -p-", 1);
    let killed: BTreeSet<&str> = connect.iter().filter(|r| r["kills"] == true).map(|r| text(&r["protocol"])).collect();
    assert_eq!(killed, ["gloo", "mpi", "tensorpipe", "zmq"].into());
    assert!(connect.iter().all(|r| text(&r["explanation"]).contains('[') || r["outcome"] == "unknown"), "{connect:#?}");
    // The command line may stand as one word, before the flags.
    let quoted = stdout(&["prescan", "nmap -sT -p-", "--node", list, "--format", "jsonl"], 1);
    assert_eq!(wire::lines(&quoted), connect);
    let out = run(&["prescan", "--node", "mpich:4.1"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("5.0.2"));
}

/// The recorded stray at TensorPipe's listener, with a length that a kernel grants: nmap's DNSStatusRequestTCP in place of its GET.
/// What followed is left out: the process fills what it was told to, until the kernel kills it.
#[test]
fn a_length_that_tensorpipe_believes_is_joined_with_the_kill() {
    let recorded = capture::read(&common::data("neighbours/tensorpipe-rpc-dies-on-GET.pcap"));
    let claim = recorded.iter().position(|p| p.frame.windows(5).any(|w| w == b"GET /")).unwrap();
    let mut packets = recorded[..=claim + 1].to_vec();
    let probe = b"\x00\x0c\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00xxxx";
    packets[claim] = capture::rewritten(&packets[claim], probe);
    let seconds = (packets[claim].time + 20_000_000) as f64 / 1e6;
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("node-r.pcap"), capture::pcap(&packets)).unwrap();
    let log = |vm: u64| {
        let kill = format!(
            "Out of memory: Killed process 99 (python3) total-vm:{vm}kB, anon-rss:60000000kB, file-rss:0kB, shmem-rss:0kB"
        );
        std::fs::write(path("node-r.log"), format!("{seconds:.6} node-r kernel: {kill}\n")).unwrap();
        std::fs::write(path("hosts"), "192.0.2.1 node-r\n").unwrap();
        report(&[&path("node-r.pcap"), "--oom", &path("node-r.log"), "--hosts", &path("hosts")]).0
    };
    let declared = u64::from_le_bytes(*probe.first_chunk().unwrap());
    let json = log((declared + (3 << 30)) / 1024);
    let host = &json["incidents"][0]["hosts"][0];
    assert_eq!(
        (&host["verdict"], &host["declared_bytes"]),
        (&Value::from("probable"), &Value::from(declared)),
        "{host:#}"
    );
    let summary = text(&json["incidents"][0]["summary"]);
    assert!(summary.contains("its listener had been sent") && summary.contains("PyTorch with RPC"), "{summary}");
    // A process that was smaller than the claim never got it.
    let json = log(declared / 2048);
    assert!(json["incidents"][0]["hosts"][0]["trigger"].is_null(), "{:#}", json["incidents"]);
}
