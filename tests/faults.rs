//! Full disks, directories that may not be written, clocks that jump, damage, signals: a clear word, and nothing lost.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rdzvscope::api::analysis::Options;
use rdzvscope::api::case::{Case, Limits, Mode};
use rdzvscope::api::time::Timestamp;
use rdzvscope::api::watch::{Watcher, Wish};
use serde_json::Value;
use tempfile::TempDir;

use common::{checked, command, data};

const BINARY: &str = env!("CARGO_BIN_EXE_rdzvscope");

/// Runs a script in mount namespace of its own; `None`, with a word, where that cannot be had.
fn alone(script: &str) -> Option<String> {
    if !common::can_unshare(&["-m"]) {
        common::skipped("mount namespaces need root");
        return None;
    }
    let script = format!(
        "exec 2>&1\ncd '{}'\nrdzvscope() {{ '{BINARY}' \"$@\"; echo \"status $?\"; }}\n{script}",
        data("").display()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn text_of(output: Output) -> (Option<i32>, String, String) {
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn report(case: &Path) -> Value {
    let mut json =
        checked(command().arg("report").arg("--case").arg(case).args(["--format", "json"]).output().unwrap()).json;
    json.as_object_mut().unwrap().remove("arguments");
    json
}

/// Damage to a file.
type Change = Box<dyn Fn(&mut Vec<u8>)>;

/// The parts of a script's output, by `== NAME` lines.
fn part<'a>(out: &'a str, name: &str) -> &'a str {
    let from = out.split_once(&format!("== {name}\n")).unwrap_or_else(|| panic!("no {name} in {out}")).1;
    from.split("\n== ").next().unwrap()
}

#[test]
fn a_full_disk_is_said_and_what_did_not_fit_comes_later() {
    let place = TempDir::new().unwrap();
    let expected = place.path().join("undisturbed.db");
    let pass = command().args(["watch", "incident-torch1.13", "--once", "--case"]).arg(&expected).output().unwrap();
    assert_eq!(pass.status.code(), Some(1));
    let kept = place.path().join("kept.db");
    let script = format!(
        "mount -t tmpfs -o size=300k none /mnt
echo == full
rdzvscope watch incident-torch1.13 --once --quiet --case /mnt/case.db --alert-file /mnt/alerts
echo == again
rdzvscope watch incident-torch1.13 --once --quiet --case /mnt/case.db --alert-file /mnt/alerts
mount -o remount,size=16m /mnt
echo == sound
rdzvscope case check /mnt/case.db
echo == room
rdzvscope watch incident-torch1.13 --once --quiet --case /mnt/case.db --alert-file /mnt/alerts
echo == backup
rdzvscope case backup /mnt/case.db '{}'
echo == read-only
mount -o remount,ro /mnt
rdzvscope watch incident-torch1.13 --once --quiet --case /mnt/case.db
echo == report
rdzvscope report --case /mnt/case.db --quiet
echo == end
",
        kept.display()
    );
    let Some(out) = alone(&script) else { return };
    for name in ["full", "again"] {
        let said = part(&out, name);
        assert!(said.contains("status 2") && said.contains("/mnt/case.db"), "{out}");
        assert!(said.contains("full"), "{out}");
    }
    assert!(part(&out, "sound").contains("sound"), "{out}");
    assert!(part(&out, "room").contains("status 1"), "{out}");
    assert!(part(&out, "read-only").contains("status 2"), "{out}");
    assert!(part(&out, "report").contains("status 1"), "{out}");
    assert_eq!(report(&kept), report(&expected));
}

#[test]
fn evidence_waits_for_room() {
    let script = "mount -t tmpfs -o size=16k none /mnt
case=$(mktemp -d)
echo == full
rdzvscope watch incident-torch1.13 --once --quiet --case $case/case.db --evidence /mnt/out
ls -A /mnt/out
mount -o remount,size=16m /mnt
echo == room
rdzvscope watch incident-torch1.13 --once --quiet --case $case/case.db --evidence /mnt/out
echo == same
rdzvscope merge /mnt/out --format json | grep -v '^    \"' >$case/a
rdzvscope report --case $case/case.db --format json | grep -v '^    \"' >$case/b
cmp $case/a $case/b && echo same
rm -r $case
";
    let Some(out) = alone(script) else { return };
    let full = part(&out, "full");
    assert!(full.contains("cannot write evidence") && full.contains("No space left"), "{out}");
    assert!(full.contains("status 1") && !full.contains(".part"), "{out}");
    assert!(part(&out, "room").starts_with("status 0"), "{out}");
    assert!(part(&out, "same").contains("same"), "{out}");
}

#[test]
fn a_directory_that_may_not_be_written_is_said() {
    for arguments in [["--case", "/proc/case.db"], ["--case", "/nowhere/at/all/case.db"]] {
        let output = command().args(["watch", "scans", "--once"]).args(arguments).output().unwrap();
        let (status, _, errors) = text_of(output);
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains(arguments[1]), "{errors}");
    }
}

#[test]
fn a_damaged_case_is_said_and_left_alone() {
    let place = TempDir::new().unwrap();
    let case = place.path().join("case.db");
    let pass =
        || text_of(command().args(["watch", "incident-torch1.13", "--once", "--case"]).arg(&case).output().unwrap());
    assert_eq!(pass().0, Some(1));
    let whole = std::fs::read(&case).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&case, &bytes).unwrap();
        let report = command().args(["report", "--format", "json", "--case"]).arg(&case).output().unwrap();
        (text_of(report), bytes)
    };
    // Cut short, and pages overwritten: an error, or a report that says what is lost; never a panic, never silence.
    let cut: Vec<(&str, Change)> = vec![
        ("cut", Box::new(|b: &mut Vec<u8>| b.truncate(b.len() / 2))),
        ("header", Box::new(|b: &mut Vec<u8>| b[..64].fill(0x55))),
        (
            "pages",
            Box::new(|b: &mut Vec<u8>| {
                let n = b.len();
                b[8192..n - 4096].fill(0xaa);
            }),
        ),
    ];
    for (name, change) in &cut {
        let ((status, _, errors), bytes) = with(change);
        assert_eq!(status, Some(2), "{name}: {errors}");
        assert!(errors.contains("case.db") && !errors.contains("panicked"), "{name}: {errors}");
        let (status, _, errors) = pass();
        assert_eq!(status, Some(2), "{name}: {errors}");
        assert!(errors.contains("case.db"), "{name}: {errors}");
        assert_eq!(std::fs::read(&case).unwrap().len(), bytes.len(), "{name}: it is not made anew");
    }
    // A packed batch with other bytes, in a file that is sound otherwise.
    std::fs::write(&case, &whole).unwrap();
    let db = rusqlite::Connection::open(&case).unwrap();
    db.execute_batch("UPDATE segment SET data=x'28b52ffd00'").unwrap();
    drop(db);
    let check = text_of(command().args(["case", "check"]).arg(&case).output().unwrap());
    assert_eq!(check.0, Some(2));
    assert!(check.1.contains("cannot be unpacked"), "{}", check.1);
    let notes = report(&case)["notes"].to_string();
    assert!(notes.contains("damaged"), "{notes}");
}

#[test]
fn a_clock_that_jumps_loses_nothing_and_tells_nothing_twice() {
    let place = TempDir::new().unwrap();
    let (captures, case) = (place.path().join("pcap"), place.path().join("case.db"));
    std::fs::create_dir(&captures).unwrap();
    std::fs::copy(data("incident-torch1.13/node-a.pcap"), captures.join("a.pcap")).unwrap();
    let wish = Wish {
        paths: vec![captures.clone()],
        stall: Some(600.0),
        limits: Limits::default(),
        evidence: Some(rdzvscope::api::evidence::Segments::new(&place.path().join("out"), 1 << 30)),
        ..Wish::default()
    };
    let open = Case::open(&case, Mode::Create).unwrap();
    let mut watcher = Watcher::new(open, Options::default(), wish).unwrap();
    let go_on = || false;
    let year = 365 * 86_400 * 1_000_000_000i64;
    let now = Timestamp(1_796_000_000 * 1_000_000_000);
    let first = watcher.pass(now, &go_on).unwrap();
    assert!(first.fresh.iter().any(|t| t.kind == "finding"));
    let flows = watcher.case().info().unwrap().flows;
    for jump in [20 * year, -20 * year, 0, -year, year] {
        let pass = watcher.pass(Timestamp(now.0 + jump), &go_on).unwrap();
        assert!(pass.fresh.iter().all(|t| t.kind == "notice"), "{jump}: {:?}", pass.fresh);
        assert_eq!(watcher.case().info().unwrap().flows, flows, "{jump}");
    }
    // What comes while the clock is wrong is found, and shipped.
    std::fs::copy(data("incident-torch1.13/node-b.pcap"), captures.join("b.pcap")).unwrap();
    let pass = watcher.pass(Timestamp(now.0 - 10 * year), &go_on).unwrap();
    assert!(pass.fresh.iter().any(|t| t.kind == "finding"));
    watcher.finish(Timestamp(now.0 - 10 * year)).unwrap();
    let merged =
        checked(command().arg("merge").arg(place.path().join("out")).args(["--format", "json"]).output().unwrap());
    assert_eq!(merged.json["findings"], report(&case)["findings"]);
}

#[test]
fn a_file_that_is_overwritten_while_it_is_read_is_noticed() {
    let place = TempDir::new().unwrap();
    let captures = place.path().join("pcap");
    std::fs::create_dir(&captures).unwrap();
    let file = captures.join("ring0.pcap");
    std::fs::write(&file, large()).unwrap();
    let wish = Wish { paths: vec![captures.clone()], ..Wish::default() };
    let case = Case::in_memory().unwrap();
    let mut watcher = Watcher::new(case, Options::default(), wish).unwrap();
    let now = Timestamp(1_796_000_000 * 1_000_000_000);
    // The ring comes round when the first batch was written.
    let asked = std::cell::Cell::new(0);
    let other = std::fs::read(data("incident-torch1.13/node-b.pcap")).unwrap();
    let overtake = || {
        asked.set(asked.get() + 1);
        if asked.get() == 2 {
            std::fs::write(&file, &other).unwrap();
        }
        false
    };
    let pass = watcher.pass(now, &overtake).unwrap();
    assert!(asked.get() >= 2, "it was asked {} times", asked.get());
    assert!(pass.wrong.iter().any(|w| w.contains("overwritten while it was read")), "{:?}", pass.wrong);
    assert!(pass.fresh.iter().any(|t| t.document.contains("watch-overwritten")));
    // What took its place is read as what it is.
    let next = watcher.pass(Timestamp(now.0 + 1), &|| false).unwrap();
    let found = next.analysis.unwrap().report.findings;
    let alone = common::analyze(&["incident-torch1.13/node-b.pcap"]);
    let ids: Vec<&str> = alone.findings().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert!(ids.iter().all(|id| found.iter().any(|f| f.id == *id)));
}

/// A client that sets one large value: more bytes than one batch holds.
fn large() -> Vec<u8> {
    let mut out = Vec::new();
    for n in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    let mut seq = 1u32;
    for i in 0..1200u32 {
        let mut payload = vec![b'v'; 20_000];
        if i == 0 {
            // SET, a key of one byte, a value of 64 MiB.
            let mut head = vec![0u8];
            head.extend_from_slice(&1u64.to_le_bytes());
            head.push(b'k');
            head.extend_from_slice(&(64u64 << 20).to_le_bytes());
            payload[..head.len()].copy_from_slice(&head);
        }
        let mut bytes = Vec::new();
        etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([192, 0, 2, 9], [192, 0, 2, 1], 64)
            .tcp(40000, 29500, seq, 1000)
            .ack(1)
            .write(&mut bytes, &payload)
            .unwrap();
        seq = seq.wrapping_add(payload.len() as u32);
        let length = bytes.len() as u32;
        for n in [1_796_000_000 + i / 1000, i % 1000 * 1000, length, length] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&bytes);
    }
    out
}

#[test]
fn a_case_with_little_room_reads_on_as_the_oldest_goes() {
    let place = TempDir::new().unwrap();
    let (captures, case) = (place.path().join("pcap"), place.path().join("case.db"));
    std::fs::create_dir(&captures).unwrap();
    for name in ["torchrun", "incident-torch1.13"] {
        for entry in std::fs::read_dir(data(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "pcap") {
                std::fs::copy(&path, captures.join(format!("{name}-{}", path.file_name().unwrap().to_string_lossy())))
                    .unwrap();
            }
        }
    }
    let output = command()
        .args(["watch", "--once", "--quiet", "--case-max", "400k", "--case"])
        .arg(&case)
        .arg(&captures)
        .output()
        .unwrap();
    let (_, _, errors) = text_of(output);
    let output = command().args(["case", "info", "--json"]).arg(&case).output().unwrap();
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let captures = std::fs::read_dir(&captures).unwrap().count() as u64;
    assert!(info["captures"].as_u64().unwrap() + 1 >= captures, "{info} {errors}");
    assert!(info["bytes"].as_u64().unwrap() < 1_500_000, "{info} {errors}");
    assert_eq!(command().args(["case", "check"]).arg(&case).output().unwrap().status.code(), Some(0));
}

#[test]
fn a_case_beside_its_captures_is_no_capture() {
    let place = TempDir::new().unwrap();
    std::fs::copy(data("scans/netcat.pcap"), place.path().join("a.pcap")).unwrap();
    std::fs::write(place.path().join("empty.log"), "").unwrap();
    std::fs::write(place.path().join("b.pcap0"), "").unwrap();
    let stopped = || {
        let output = command()
            .args(["watch", "--once", "--stall", "500ms", "--case"])
            .arg(place.path().join("case.db"))
            .arg("--evidence")
            .arg(place.path().join("evidence"))
            .arg(place.path())
            .output()
            .unwrap();
        let (status, _, errors) = text_of(output);
        assert!(status < Some(2), "{errors}");
        errors
            .lines()
            .filter(|l| l.contains("the capture has stopped"))
            .map(|l| l.split(": ").nth(1).unwrap().to_string())
            .collect::<Vec<_>>()
    };
    stopped();
    std::thread::sleep(Duration::from_millis(600));
    let names: Vec<String> = stopped().iter().map(|p| p.rsplit('/').next().unwrap().to_string()).collect();
    assert_eq!(names, ["a.pcap", "b.pcap0"]);
}

#[test]
fn a_signal_finishes_the_file_and_saves() {
    for signal in ["TERM", "INT"] {
        let place = TempDir::new().unwrap();
        let case = place.path().join("case.db");
        let out = place.path().join("out");
        let child = command()
            .args(["watch", "incident-torch1.13", "--interval", "50ms", "--stall", "0s", "--quiet", "--case"])
            .arg(&case)
            .arg("--evidence")
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(Command::new("kill").args(["-s", signal]).arg(child.id().to_string()).status().unwrap().success());
        let (status, _, errors) = text_of(child.wait_with_output().unwrap());
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{signal}");
        assert_eq!(command().args(["case", "check"]).arg(&case).output().unwrap().status.code(), Some(0));
        // Whatever it had read by then, the evidence says the same.
        if out.exists() {
            let merged = checked(command().arg("merge").arg(&out).args(["--format", "json"]).output().unwrap());
            assert!(merged.json["findings"] == report(&case)["findings"], "{signal}: other findings");
        }
        command().args(["watch", "incident-torch1.13", "--once", "--quiet", "--case"]).arg(&case).output().unwrap();
        let all = common::analyze(&["incident-torch1.13"]);
        assert!(report(&case)["findings"] == all.json["findings"], "{signal}: other findings");
    }
}

#[test]
fn kernel_messages_of_this_machine_are_followed() {
    let place = TempDir::new().unwrap();
    let (case, kmsg) = (place.path().join("case.db"), place.path().join("kmsg"));
    let log = std::fs::read_to_string(data("incident-torch1.13/logs/node-b.dmesg-iso")).unwrap();
    // The lines of a recorded kill, as the kernel's buffer has them: priority, number, microseconds since boot.
    let messages: Vec<&str> = log.lines().filter_map(|l| l.split_once(' ').map(|(_, m)| m)).collect();
    let records: Vec<String> =
        messages.iter().enumerate().map(|(i, m)| format!("4,{},{},-;{m}\n SUBSYSTEM=x\n", 900 + i, i * 1000)).collect();
    let pass = || {
        let mut watch = command();
        watch.env("RDZVSCOPE_KMSG", &kmsg).args(["watch", "scans", "--once", "--quiet", "--oom", "kmsg", "--case"]);
        text_of(watch.arg(&case).output().unwrap())
    };
    std::fs::write(&kmsg, records[..records.len() / 2].concat()).unwrap();
    pass();
    std::fs::write(&kmsg, records.concat()).unwrap();
    pass();
    let (_, _, errors) = pass();
    assert_eq!(errors, "");
    let json = report(&case);
    let events = json["oom_events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["process"], "python3");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(events[0]["host"], host.trim());
    // Of this boot: the first record is as old as the machine is up.
    let uptime: f64 = std::fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
    let booted = std::time::SystemTime::now() - Duration::from_secs_f64(uptime);
    let booted = booted.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let time = rdzvscope_time(events[0]["time"].as_str().unwrap());
    assert!((time - booted).abs() < 5.0, "{time} {booted}");
    // Records that the kernel overwrote in the meantime are missed.
    let next = 900 + records.len();
    std::fs::write(&kmsg, format!("30,{next},1,-;systemd: not the kernel's\n4,{},1,-;x\n", next + 8)).unwrap();
    let (_, _, errors) = pass();
    assert!(errors.contains("7 messages were overwritten before they were read"), "{errors}");
}

fn rdzvscope_time(text: &str) -> f64 {
    rdzvscope::api::oom::parse_instant(text).unwrap().0 as f64 / 1e9
}
