//! Evidence as an attacker would write it: it takes no more memory than ten times its size and 64 MiB, is refused, named,
//! and not stored; a case that an earlier version let it into can be opened, checked and healed.

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::BASE64;
use serde_json::Value;
use tempfile::TempDir;

use common::{command, data};

const MIB: u64 = 1 << 20;

/// Runs the program; its status, standard output and error, and the most memory it took, in bytes.
fn measured(arguments: &[&str]) -> (i32, String, String, u64) {
    let script = "import resource,subprocess,sys\nstatus = subprocess.run(sys.argv[1:]).returncode\n\
                  print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\nsys.exit(status)";
    let program = command().get_program().to_owned();
    let output = Command::new("python3").args(["-c", script]).arg(program).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let (said, peak) = said.trim_end().rsplit_once('\n').unwrap_or(("", said.trim_end()));
    let peak = peak.parse::<u64>().unwrap_or_else(|_| panic!("{said}\n{peak}")) * 1024;
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), said.to_string(), peak)
}

/// A segment of these lines of facts.
fn segment(facts: &[String]) -> String {
    let head = r#"{"type":"evidence","origin":"poison","schema":"rdzvscope.evidence/1.0","segment":1,"host":"evil"}"#;
    let count = facts.len() + 2;
    let end = format!(r#"{{"type":"evidence-end","origin":"poison","segment":1,"lines":{count}}}"#);
    let mut text = format!("{head}\n");
    facts.iter().for_each(|f| text.push_str(&format!("{f}\n")));
    text + &end + "\n"
}

fn packed(bytes: &[u8]) -> String {
    BASE64.encode(&zstd::bulk::compress(bytes, 3).unwrap())
}

fn fact(kind: &str, fields: &str, data: &str) -> String {
    format!(r#"{{"type":"evidence-{kind}","origin":"poison",{fields},"data":"{data}"}}"#)
}

fn endpoint(number: u32, port: u16) -> Vec<u8> {
    let mut bytes = (0xffff_0a00_0000u128 + u128::from(number)).to_le_bytes().to_vec();
    bytes.extend_from_slice(&port.to_le_bytes());
    bytes
}

/// A flow record of a client of its own.
fn record(number: u32) -> Vec<u8> {
    let mut bytes = vec![1u8, 1 | 4 | 8];
    bytes.extend(endpoint(number, 40_000));
    bytes.extend(endpoint(0x00ff_0001, 29_500));
    for _ in 0..2 {
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(100u64.to_le_bytes());
        bytes.extend([i64::MIN.to_le_bytes(), i64::MIN.to_le_bytes()].concat());
    }
    let time = 1_795_951_210_000_000_000i64 + i64::from(number);
    [time, time, time, time].iter().for_each(|t| bytes.extend(t.to_le_bytes()));
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(u64::from(number).to_le_bytes());
    bytes.extend([0u8; 12]);
    assert_eq!(bytes.len(), 158);
    bytes
}

/// A kept segment that opens a connection of its own to a store, with a claim of a terabyte.
fn opening(number: u32) -> Vec<u8> {
    let mut bytes = vec![1u8];
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(u64::from(number).to_le_bytes());
    bytes.extend((1_795_951_210_000_000_000i64 + i64::from(number)).to_le_bytes());
    bytes.extend(endpoint(number, 40_000));
    bytes.extend(endpoint(0x00ff_0001, 29_500));
    let payload = [&[3u8, 0, 0, 42, 37, 224, 0, 0, 0, 0][..], &number.to_le_bytes()].concat();
    for n in [8, 8, payload.len() as u32, 0] {
        bytes.extend(n.to_le_bytes());
    }
    bytes.extend(512u16.to_le_bytes());
    bytes.extend([0x18u8, 0]);
    bytes.extend((payload.len() as u32).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(record(number));
    bytes
}

const CAPTURE: &str = r#"{"type":"evidence-capture","origin":"poison","set":1,"capture":1,"path":"x.pcap","packets":1,"summary":null,"error":null}"#;

/// Segments that claim much more than they are, by name.
fn poison() -> Vec<(&'static str, String)> {
    let zeros = packed(&vec![b'\n'; 32 << 20]);
    let hosts: Vec<String> =
        (0..40).map(|n| fact("hosts", &format!(r#""path":"h{n}","content":"c","part":0,"parts":1"#), &zeros)).collect();
    let empty: Vec<u8> = (0..200_000u64).flat_map(|n| [&n.to_le_bytes()[..], &[0; 4]].concat()).collect();
    let empty = packed(&empty);
    let mut lines =
        vec![r#"{"type":"evidence-log","origin":"poison","log":1,"path":"kern.log","host":null}"#.to_string()];
    lines.extend((0..30).map(|n| fact("lines", &format!(r#""log":1,"batch":{n}"#), &empty)));
    let records: Vec<u8> = (0..26_000).flat_map(record).collect();
    let mut flows = vec![CAPTURE.to_string()];
    for part in 0..8u32 {
        let own: Vec<u8> = records
            .chunks(158)
            .enumerate()
            .flat_map(|(i, r)| {
                let mut r = r.to_vec();
                r[138..146].copy_from_slice(&u64::from(part * 26_000 + i as u32).to_le_bytes());
                r
            })
            .collect();
        flows.push(fact("flows", r#""set":1"#, &packed(&own)));
    }
    let mut batch = vec![1u8];
    (0..20_000).for_each(|n| batch.extend(opening(n)));
    let segments = vec![CAPTURE.to_string(), fact("segments", r#""set":1,"batch":1,"capture":1"#, &packed(&batch))];
    let mut large = vec![1u8];
    for n in 0..40 {
        let mut one = opening(n);
        let at = one.len() - 158 - 14 - 4;
        one.truncate(at);
        one.extend((4u32 << 20).to_le_bytes());
        one.extend(vec![0u8; 4 << 20]);
        one.extend(record(n));
        large.extend(one);
    }
    let large = vec![CAPTURE.to_string(), fact("segments", r#""set":1,"batch":1,"capture":1"#, &packed(&large))];
    vec![
        ("hosts", segment(&hosts)),
        ("lines", segment(&lines)),
        ("flows", segment(&flows)),
        ("connections", segment(&segments)),
        ("payload", segment(&large)),
    ]
}

fn write(place: &Path, name: &str, text: &str) -> PathBuf {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn no_segment_takes_more_memory_than_ten_times_its_size_and_64_mib() {
    let place = TempDir::new().unwrap();
    let bound = |path: &Path| 10 * fs::metadata(path).unwrap().len() + 64 * MIB;
    for (name, text) in poison() {
        let path = write(place.path(), &format!("{name}.jsonl"), &text);
        let (status, told, said, peak) = measured(&["merge", path.to_str().unwrap(), "--format", "json"]);
        assert!(peak <= bound(&path), "{name}: {} MiB for {} KiB", peak / MIB, text.len() >> 10);
        assert!(said.contains("refused") && said.contains(name), "{name}: {said}");
        assert_eq!(status, 2, "{name}");
        let report: Value = serde_json::from_str(&told).unwrap();
        assert!(report["inputs"].to_string().contains("64 MiB: refused"), "{name}: {}", report["inputs"]);
        // The same through a pipe, where each origin is weighed by itself.
        let mut child = command()
            .args(["merge", "-", "--format", "json"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("refused"), "{name}: {said}");
    }
    // A file that is packed is bounded by what lies on the disk.
    let many: Vec<String> = (0..300_000)
        .map(|n| format!(r#"{{"type":"evidence-refused","origin":"poison","path":"{n}","error":"e"}}"#))
        .collect();
    let path = place.path().join("small.jsonl.zst");
    fs::write(&path, zstd::bulk::compress(segment(&many).as_bytes(), 3).unwrap()).unwrap();
    let (status, _, said, peak) = measured(&["merge", path.to_str().unwrap(), "--format", "json"]);
    assert!(peak <= bound(&path), "{} MiB", peak / MIB);
    assert!(status == 2 && said.contains("refused"), "{said}");
}

#[test]
fn a_poisoned_segment_is_not_stored_and_the_others_are() {
    let place = TempDir::new().unwrap();
    let (arriving, case) = (place.path().join("in"), place.path().join("central.db"));
    fs::create_dir(&arriving).unwrap();
    let good = fs::read_to_string(data("stored/evidence-1.0.jsonl")).unwrap();
    write(&arriving, "good.jsonl", &good);
    for (name, text) in poison().into_iter().filter(|(name, _)| *name != "payload") {
        write(&arriving, &format!("{name}.jsonl"), &text);
    }
    let (arriving, case) = (arriving.to_str().unwrap(), case.to_str().unwrap());
    let (status, told, said, _) = measured(&["merge", "--follow", arriving, "--case", case, "--once"]);
    assert_eq!(status, 1, "{said}");
    assert!(told.contains("store-claim"), "{told}");
    for name in ["hosts", "lines", "flows", "connections"] {
        assert!(said.contains(&format!("{name}.jsonl: would take more memory")), "{name}: {said}");
    }
    // Nothing of it is there but that it was refused; the report says so for as long as it is kept.
    assert!(fs::metadata(case).unwrap().len() < 2 * MIB);
    let (_, told, _, peak) = measured(&["report", "--case", case, "--format", "json"]);
    assert!(peak < 100 * MIB, "{}", peak / MIB);
    let report: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(report["inputs"].to_string().matches("64 MiB: refused").count(), 4, "{}", report["inputs"]);
    let (status, _, said, _) = measured(&["merge", "--follow", arriving, "--case", case, "--once"]);
    assert_eq!((status, said.contains("would take")), (0, false), "it is read once: {said}");
}

#[test]
fn a_case_that_swallowed_poison_is_opened_checked_and_healed() {
    let place = TempDir::new().unwrap();
    let case = place.path().join("central.db");
    let old = zstd::bulk::decompress(&fs::read(data("stored/central-schema-3.db.zst")).unwrap(), 64 << 20).unwrap();
    fs::write(&case, old).unwrap();
    // As an earlier version took it.
    let db = rusqlite::Connection::open(&case).unwrap();
    let zeros = zstd::bulk::compress(&vec![b'\n'; 32 << 20], 3).unwrap();
    for n in 0..40 {
        let sql = "INSERT INTO evidence VALUES ('poison', 'hosts', ?1, 0, 1, NULL, ?2)";
        db.execute(sql, rusqlite::params![format!("c/0/1/h{n}"), zeros]).unwrap();
    }
    drop(db);
    let name = case.to_str().unwrap();
    let (status, told, said, peak) = measured(&["report", "--case", name, "--format", "json"]);
    assert!(peak < 100 * MIB, "{} MiB", peak / MIB);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("poison") && said.contains("case compact"), "{said}");
    assert!(told.contains("store-claim"), "the rest is reported");
    let (status, told, _, peak) = measured(&["case", "check", name]);
    assert!(status == 2 && told.contains("poison") && peak < 100 * MIB, "{status} {told}");
    let (status, _, said, peak) = measured(&["case", "compact", name]);
    assert!(status == 0 && said.contains("poison") && peak < 100 * MIB, "{status} {said}");
    let (status, told, said, _) = measured(&["case", "check", name]);
    assert_eq!((status, told.contains("sound")), (0, true), "{told} {said}");
    assert_eq!(measured(&["report", "--case", name, "--format", "json"]).0, 1);
}
