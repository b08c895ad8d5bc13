//! A real tcpdump ring in a network of its own, fed by tcpreplay, the tool beside it; and writers that fail.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use common::{checked, command, data};

/// Two ends of a cable in a network namespace, tcpdump at one of them; `$1` is its directory, the rest its options.
/// `replay CAPTURE…` sends packets into the other end.
const CABLE: &str = "
set -e
directory=$1; shift
ip link add va type veth peer name vb
for i in va vb; do ip link set $i mtu 65000 up; done
cd \"$directory\"
tcpdump -i vb -n -s 66000 -B 131072 -Z root \"$@\" tcp 2>\"$directory/../tcpdump.log\" &
dump=$!
until grep -q 'listening on' \"$directory/../tcpdump.log\"; do kill -0 $dump; sleep 0.05; done
replay() { for c in \"$@\"; do tcpreplay -q -i va --mbps=4 \"$c\" >/dev/null 2>&1; done; }
";

/// Whether a network namespace can be had; says so where it cannot.
fn may_have_networks() -> bool {
    let may = common::can_unshare(&["-n"]);
    if !may {
        common::skipped("network namespaces need root here");
    }
    may
}

/// Runs a script around the cable; `options` are tcpdump's.
fn cable(directory: &Path, script: &str, options: &[&str]) -> Child {
    for tool in ["tcpdump", "tcpreplay", "ip"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap();
        assert!(found.status.success(), "{tool} is not installed: tools/setup.sh test installs it");
    }
    Command::new("unshare")
        .args(["-n", "sh", "-c", &format!("{CABLE}{script}"), "cable"])
        .arg(directory)
        .args(options)
        .current_dir(data(""))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn captures(name: &str, ending: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(data(name)).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.to_string_lossy().ends_with(ending));
    all.sort();
    all
}

fn once(directory: &Path, case: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let output = command().args(["watch", "--once", "--case"]).arg(case).args(more).arg(directory).output().unwrap();
    text_of(output)
}

fn text_of(output: Output) -> (Option<i32>, String, String) {
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Severities under which each finding was told, in order.
fn told(file: &Path) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let v: Value = serde_json::from_str(line).unwrap();
        if v["type"] == "finding" {
            all.entry(v["id"].as_str().unwrap().into()).or_default().push(v["severity"].as_str().unwrap().into());
        }
    }
    all
}

/// Replays the incident and a job that goes on from file to file into a ring, `watch` beside it.
fn ring(options: &[&str], files: std::ops::RangeInclusive<usize>) {
    if !may_have_networks() {
        return;
    }
    // One after the other: a busy machine makes tcpdump drop packets.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = TempDir::new().unwrap();
    let (directory, case, alerts) =
        (place.path().join("pcap"), place.path().join("case.db"), place.path().join("alerts"));
    std::fs::create_dir(&directory).unwrap();
    let mut watch = command()
        .args(["watch", "--interval", "100ms", "--alert-on", "info", "--alert-file"])
        .arg(&alerts)
        .arg("--case")
        .arg(&case)
        .arg(&directory)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut replayed = captures("incident-torch1.13", "node-a.pcap");
    replayed.extend(captures("torchrun", ".pcap").into_iter().filter(|p| p.to_string_lossy().contains("node-")));
    replayed.extend(captures("incident-torch1.13", "node-c.pcap"));
    let list: Vec<String> = replayed.iter().map(|p| format!("'{}'", p.display())).collect();
    let script = format!("replay {}\nsleep 1\nkill $dump\nwait $dump\n", list.join(" "));
    let begun = Instant::now();
    let status = cable(&directory, &script, options).wait().unwrap();
    let log = std::fs::read_to_string(place.path().join("tcpdump.log")).unwrap();
    assert!(status.success(), "{log}");
    let dropped = !log.contains("\n0 packets dropped by kernel");
    if dropped {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("this machine is too busy for tcpdump: {log}");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    // Until it has read nearly all that lies there; what is left, the next run reads.
    std::thread::sleep(Duration::from_secs(2));
    assert!(Command::new("kill").arg(watch.id().to_string()).status().unwrap().success());
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut watch.stderr.take().unwrap(), &mut errors).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0), "{errors}");
    assert!(!errors.contains("overwritten") && !errors.contains("taken its name"), "{errors}");
    let (status, _, errors) =
        once(&directory, &case, &["--alert-on", "info", "--alert-file", alerts.to_str().unwrap()]);
    assert!(status < Some(2) && errors.is_empty(), "{errors}");

    let report = checked(command().arg("report").arg("--case").arg(&case).args(["--format", "json"]).output().unwrap());
    let seen = report.json["captures"].as_array().unwrap().len();
    assert!(files.contains(&seen), "{seen} files");
    // What was sent is what is found: ids are of the bytes on the wire, and do not depend on when they came. But what a
    // second claim does to a store depends on when the first one killed it, and the replay is faster than life was.
    let sent = checked(command().arg("analyze").args(&replayed).args(["--format", "json"]).output().unwrap());
    let ids = |all: &[&Value]| {
        let mut ids: Vec<String> = all.iter().map(|f| f["id"].as_str().unwrap().into()).collect();
        ids.sort();
        ids
    };
    let claims = |r: &common::Run| ids(&r.of_rule("store-claim"));
    if files.end() > &10 {
        // All of the ring is there still: what analyze makes of its files.
        let whole = checked(command().arg("analyze").arg(&directory).args(["--format", "json"]).output().unwrap());
        assert_eq!(
            ids(&report.findings().iter().collect::<Vec<_>>()),
            ids(&whole.findings().iter().collect::<Vec<_>>())
        );
    }
    let (found, sent) = (claims(&report), claims(&sent));
    assert!(found.iter().all(|id| sent.contains(id)), "{found:?} {sent:?}");
    assert!(dropped || found.len() >= 2, "{found:?} {sent:?}");
    let told = told(&alerts);
    for f in report.findings() {
        let id = f["id"].as_str().unwrap();
        let severities = told.get(id).unwrap_or_else(|| panic!("{id} was not told: {f}"));
        // Once; again only when it has become graver.
        let mut once = severities.clone();
        once.dedup();
        assert_eq!(&once, severities, "{id}");
        assert!(severities.len() <= 3, "{id}: {severities:?}");
    }
}

#[test]
fn beside_a_ring_by_time_each_finding_is_told_once() {
    ring(&["-U", "--immediate-mode", "-G", "2", "-w", "ring-%Y%m%d-%H%M%S.pcap"], 3..=20);
}

#[test]
fn beside_a_ring_that_is_packed_each_finding_is_told_once() {
    ring(&["-U", "--immediate-mode", "-G", "2", "-z", "gzip", "-w", "ring-%Y%m%d-%H%M%S.pcap"], 3..=20);
}

#[test]
fn beside_a_ring_by_size_each_finding_is_told_once() {
    // Two files of a million bytes: the names are used again.
    ring(&["-U", "--immediate-mode", "-C", "1", "-W", "2", "-w", "ring.pcap"], 3..=6);
}

#[test]
fn what_a_killed_or_quiet_writer_leaves_is_said() {
    if !may_have_networks() {
        return;
    }
    let place = TempDir::new().unwrap();
    let at = |name: &str| {
        let directory = place.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        directory
    };
    let scan = format!("'{}'", data("incident-torch1.13/node-a.pcap").display());
    let case = |name: &str| place.path().join(format!("{name}.db"));
    let stall = ["--stall", "1s"];

    // Killed, without -U: what was in the buffer is gone, and the last packet is half there.
    let directory = at("killed");
    let script = format!("replay {scan}\nsleep 0.5\nkill -9 $dump\nwait $dump || true\n");
    assert!(cable(&directory, &script, &["--immediate-mode", "-w", "a.pcap"]).wait().unwrap().success());
    std::thread::sleep(Duration::from_millis(1100));
    let (status, out, errors) = once(&directory, &case("killed"), &stall);
    assert!(errors.contains("the capture has stopped") && errors.contains("no process has it open"), "{errors}");
    assert!(errors.contains("its writer was killed") && errors.contains("-U"), "{errors}");
    assert!(out.contains("watch-stopped"), "{out}");
    assert_eq!(status, Some(1), "what was written before is found: {errors}");
    // It is told once.
    let (_, out, _) = once(&directory, &case("killed"), &stall);
    assert!(!out.contains("watch-stopped"), "{out}");

    // Killed before a block was full: nothing at all.
    let directory = at("empty");
    let script = "sleep 0.3\nkill -9 $dump\nwait $dump || true\n";
    assert!(cable(&directory, script, &["-w", "a.pcap"]).wait().unwrap().success());
    std::thread::sleep(Duration::from_millis(1100));
    let (_, _, errors) = once(&directory, &case("empty"), &stall);
    assert!(errors.contains("the capture has stopped: it holds no packet"), "{errors}");

    // Alive, and nothing is sent.
    let directory = at("quiet");
    let mut child = cable(&directory, "sleep 4\nkill $dump\nwait $dump\n", &["-U", "-w", "a.pcap"]);
    std::thread::sleep(Duration::from_millis(2500));
    let (status, _, errors) = once(&directory, &case("quiet"), &stall);
    assert!(errors.contains("while tcpdump (process "), "{errors}");
    assert!(errors.contains("nothing is sent on these ports"), "{errors}");
    assert_eq!(status, Some(0), "{errors}");
    child.wait().unwrap();

    // Alive, and its buffer holds packets back.
    let directory = at("buffered");
    let script = format!("replay {scan}\nsleep 4\nkill $dump\nwait $dump\n");
    let mut child = cable(&directory, &script, &["--immediate-mode", "-w", "a.pcap"]);
    std::thread::sleep(Duration::from_millis(3000));
    let (_, _, errors) = once(&directory, &case("buffered"), &stall);
    assert!(errors.contains("packets wait in its writer's buffer"), "{errors}");
    child.wait().unwrap();
    let (_, _, errors) = once(&directory, &case("buffered"), &[]);
    assert!(errors.is_empty(), "read to its end now: {errors}");
}

#[test]
fn a_directory_of_roots_is_said_once_and_read_when_it_may_be() {
    use std::os::unix::fs::PermissionsExt;
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let may = Command::new("setpriv").args(nobody).arg("true").output().is_ok_and(|o| o.status.success());
    if !may {
        common::skipped("becoming another user needs root");
        return;
    }
    let place = TempDir::new().unwrap();
    let mode = |path: &Path, mode: u32| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(place.path(), 0o755);
    let (pcap, own) = (place.path().join("pcap"), place.path().join("own"));
    std::fs::create_dir(&pcap).unwrap();
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
    let binary = place.path().join("rdzvscope");
    std::fs::copy(env!("CARGO_BIN_EXE_rdzvscope"), &binary).unwrap();
    let capture = pcap.join("a.pcap");
    std::fs::copy(data("scans/netcat.pcap"), &capture).unwrap();
    let alerts = own.join("alerts");
    let watch = || {
        let mut watch = Command::new("setpriv");
        watch.args(nobody).arg(&binary).args(["watch", "--once", "--case"]).arg(own.join("case.db")).arg(&pcap);
        text_of(watch.arg("--alert-file").arg(&alerts).current_dir("/").output().unwrap())
    };
    // As tcpdump without -Z makes them: first the directory, then the file.
    mode(&pcap, 0o700);
    for _ in 0..2 {
        let (status, _, errors) = watch();
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains("pcap: cannot list: Permission denied"), "{errors}");
    }
    mode(&pcap, 0o755);
    mode(&capture, 0o600);
    for _ in 0..2 {
        let (status, _, errors) = watch();
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains("a.pcap: cannot read: Permission denied"), "{errors}");
    }
    let notices = std::fs::read_to_string(&alerts).unwrap();
    assert_eq!(notices.matches("watch-unreadable").count(), 2, "one each: {notices}");
    mode(&capture, 0o644);
    let (status, _, errors) = watch();
    assert_eq!((status, errors.as_str()), (Some(1), ""));
}
