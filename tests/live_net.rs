//! `live` in network namespaces: what it learns, what it may do, and how fast it is.

#![cfg(feature = "live")]

mod checkers;
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use checkers::{is_root, root, said, skipped, tool};
use common::{client, command};

/// nmap's TerminalServerCookie: read as ADD with a key of 962 696 183 808 bytes.
const COOKIE: &[u8] =
    b"\x03\x00\x00\x2a\x25\xe0\x00\x00\x00\x00\x00Cookie: mstshash=nmap\r\n\x01\x00\x08\x00\x03\x00\x00\x00";

/// A store as of PyTorch 1.13 that answers ADD, and SET with nothing.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut head = [0u8; 64];
            let n = stream.read(&mut head).unwrap_or(0);
            if n >= 14 && &head[9..14] == b"init/" {
                let _ = stream.write_all(&1i64.to_le_bytes());
            }
            open.push(stream);
        }
    });
    port
}

fn set(stream: &mut TcpStream, key: &str, value: &str) {
    let mut request = vec![0u8];
    for text in [key, value] {
        request.extend_from_slice(&(text.len() as u64).to_le_bytes());
        request.extend_from_slice(text.as_bytes());
    }
    stream.write_all(&request).unwrap();
}

/// A run of `live` and the lines that it prints and says.
struct Live {
    child: Child,
    out: Receiver<String>,
    errors: Receiver<String>,
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
    receive
}

fn live(arguments: &[&str]) -> Option<Live> {
    let mut child =
        command().arg("live").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, errors) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
    let mut live = Live { child, out, errors };
    match wait(&live.errors, |l| l.contains("listening") || l.contains("cannot listen")) {
        Some(line) if line.contains("listening to") => Some(live),
        line => {
            let _ = live.child.wait();
            skipped(&format!("this process may not listen: {line:?}"));
            None
        }
    }
}

fn wait(lines: &Receiver<String>, fits: impl Fn(&str) -> bool) -> Option<String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
        if fits(&line) {
            return Some(line);
        }
    }
}

impl Live {
    fn end(mut self) -> Option<i32> {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_store_on_a_port_that_a_rendezvous_names_is_listened_to_from_then_on() {
    let (rendezvous, workers) = (serve(), serve());
    let Some(live) = live(&["-i", "lo", "--format", "jsonl", "--port", &rendezvous.to_string()]) else { return };
    let mut member = client(rendezvous);
    set(&mut member, "/torch.rendezvous.exp42.0/MASTER_ADDR", "127.0.0.1");
    set(&mut member, "/torch.rendezvous.exp42.0/MASTER_PORT", &workers.to_string());
    let grown = wait(&live.errors, |l| l.contains(&format!("from now on also 127.0.0.1:{workers}")));
    assert!(grown.is_some(), "the filter did not grow");
    // The wider filter is in force within half a second.
    std::thread::sleep(Duration::from_secs(1));
    let _member = client(workers);
    let mut stray = TcpStream::connect(("127.0.0.1", workers)).unwrap();
    stray.write_all(COOKIE).unwrap();
    let claim = wait(&live.out, |l| l.contains("\"rule\":\"store-claim\"")).expect("the claim is told");
    let claim: Value = serde_json::from_str(&claim).unwrap();
    assert_eq!((&claim["target"]["port"], &claim["declared"]["bytes"]), (&workers.into(), &962_696_183_808u64.into()));
    assert_eq!(live.end(), Some(1));
}

#[test]
fn several_interfaces_and_any_tell_of_one_stray_once() {
    let port = serve();
    let text = port.to_string();
    let Some(live) = live(&["-i", "lo", "-i", "any", "--format", "jsonl", "--port", &text]) else { return };
    let _member = client(port);
    let mut stray = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stray.write_all(COOKIE).unwrap();
    let claim = |l: &str| l.contains("\"rule\":\"store-claim\"");
    assert!(wait(&live.out, claim).is_some(), "the claim is told");
    std::thread::sleep(Duration::from_secs(3));
    // Delivered again only where more became known, and always with one id.
    let more: Vec<String> = live.out.try_iter().filter(|l| claim(l)).collect();
    assert!(more.is_empty(), "{more:?}");
    live.end();
}

#[test]
fn a_filter_of_ones_own_is_in_force() {
    let (listened, other) = (serve(), serve());
    let filter = format!("tcp port {listened}");
    let ports = format!("{listened},{other}");
    let Some(live) = live(&["-i", "lo", "--format", "jsonl", "--port", &ports, "--filter", &filter]) else { return };
    for port in [other, listened] {
        let _member = client(port);
        TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(COOKIE).unwrap();
    }
    let first = wait(&live.out, |l| l.contains("\"type\":\"finding\"")).expect("a finding");
    let first: Value = serde_json::from_str(&first).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(first["target"]["port"], listened);
    let other = format!("\"port\":{other}");
    assert!(!live.out.try_iter().any(|l| l.contains(&other)));
    live.end();
}

#[test]
fn packets_that_the_kernel_drops_are_said_and_counted() {
    let place = TempDir::new().unwrap();
    let metrics = place.path().join("live.prom");
    let port = serve();
    let text = port.to_string();
    let arguments =
        ["-i", "lo", "--port", &text, "--buffer", "256K", "--metrics", metrics.to_str().unwrap(), "--show", "critical"];
    let Some(live) = live(&arguments) else { return };
    let pid = live.child.id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    // It does not read; what comes finds no room.
    signal("-STOP");
    for _ in 0..4000 {
        drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    }
    signal("-CONT");
    let told = wait(&live.errors, |l| l.contains("lo: the kernel dropped ")).expect("drops are told");
    let number: u64 = told.split(' ').find_map(|w| w.parse().ok()).unwrap();
    assert!(number > 1000, "{told}");
    live.end();
    let text = std::fs::read_to_string(metrics).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("rdzvscope_kernel_drops_total ")).unwrap();
    assert!(line.parse::<u64>().unwrap() >= number, "{line}");
}

/// A folder outside `/tmp`, which commands of alerts may write to; the build itself may lie there.
fn outside() -> TempDir {
    TempDir::new_in("/var/tmp").unwrap()
}

#[test]
fn landlock_keeps_what_it_starts_out_of_all_other_directories() {
    if !Path::new("/sys/kernel/security/lsm").exists()
        && !command().arg("doctor").output().is_ok_and(|o| said(&o).to_lowercase().contains("landlock"))
    {
        return skipped("whether this kernel has Landlock is not known");
    }
    let (case, forbidden) = (outside(), outside());
    let port = serve();
    let (inside, out) = (case.path().join("inside"), forbidden.path().join("out"));
    let exec = format!(
        "touch {} ; touch {} ; echo $? > {}",
        inside.display(),
        out.display(),
        case.path().join("status").display()
    );
    let case_file = case.path().join("case.db");
    let arguments =
        ["-i", "lo", "--port", &port.to_string(), "--alert-exec", &exec, "--case", case_file.to_str().unwrap()];
    let Some(live) = live(&arguments) else { return };
    let _member = client(port);
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(COOKIE).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = case.path().join("status");
    while std::fs::read_to_string(&status).unwrap_or_default().trim().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    let said: Vec<String> = live.errors.try_iter().collect();
    live.end();
    if said.iter().any(|l| l.contains("not confined")) {
        return skipped(&format!("{said:?}"));
    }
    assert!(inside.exists(), "the command was run");
    assert!(!out.exists() && std::fs::read_to_string(&status).unwrap().trim() != "0");
}

#[test]
fn on_a_veth_nothing_is_lost_memory_stays_flat_and_findings_come_soon() {
    if !is_root() {
        return skipped("network namespaces need root");
    }
    for name in ["ip", "tcpdump", "tcpreplay", "python3"] {
        if tool(name).is_none() {
            return;
        }
    }
    // What ip does in a namespace it does with mounts of its own, which are not to be had in a chroot.
    if !common::can_unshare(&["--mount", "--propagation", "slave"]) {
        return skipped("network namespaces need mounts of their own, which are not to be had here");
    }
    let number = |v: &Value| v.as_f64().unwrap();
    let measured = || -> Value {
        let output = Command::new("python3")
            .arg(root().join("tools/live-figures.py"))
            .args(["--short", "--binary"])
            .arg(command().get_program())
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // As tcpdump, to which a busy machine may be unkind too: the two are measured one after the other, so a moment in
    // which the machine did something else is tried again.
    let level = |f: &Value| number(&f["live"]["lost"]) <= number(&f["tcpdump"]["lost"]).max(0.0);
    let mut figures = measured();
    for _ in 0..2 {
        if !level(&figures) {
            figures = measured();
        }
    }
    assert!(number(&figures["live"]["sent"]) > 1000.0, "{figures}");
    assert!(level(&figures), "{figures}");
    let memory: Vec<f64> = figures["memory_mib"].as_array().unwrap().iter().map(number).collect();
    // The case is full after the first loads; what comes then takes the place of what was.
    let (first, last) = (memory[3], memory[5]);
    assert!(last < first * 1.25 + 8.0 && last < 256.0, "{figures}");
    let lags: Vec<f64> = figures["lag_seconds"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(lags.len(), 5, "{figures}");
    assert!(lags[2] < 10.0, "{figures}");
}
