//! The hooks of `contrib/slurm`, run as slurmd runs them: they end with 0 and in time, whatever happens.

mod checkers;
mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use checkers::root;
use common::command;
use tempfile::TempDir;

/// Runs a hook for a job that ended with `exit`; how long it took.
fn hook(name: &str, place: &Path, exit: &str, more: &[(&str, &str)]) -> Duration {
    let from = Instant::now();
    let status = Command::new("sh")
        .arg(root().join("contrib/slurm").join(name))
        .env("SLURM_JOB_ID", "774")
        .env("SLURMD_NODENAME", "node-a")
        .env("SLURM_JOB_EXIT_CODE2", exit)
        .env("SLURM_JOB_NODELIST", "node-a")
        .env("RDZVSCOPE_SLURM_ENV", place.join("none"))
        .env("RDZVSCOPE_SHARED", place.join("shared"))
        .env("RDZVSCOPE_RING", place.join("ring"))
        .env("RDZVSCOPE_LOG", root().join("testdata/incident-torch1.13/logs/node-a.dmesg-iso"))
        .env("RDZVSCOPE_EPILOG_SECONDS", "20")
        .env("RDZVSCOPE", command().get_program())
        .envs(more.iter().copied())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0), "{name} {more:?}: another status drains the node");
    from.elapsed()
}

fn place() -> TempDir {
    let place = TempDir::new().unwrap();
    std::fs::create_dir(place.path().join("ring")).unwrap();
    std::fs::copy(root().join("testdata/incident-torch1.13/node-a.pcap"), place.path().join("ring/node-a.pcap"))
        .unwrap();
    place
}

#[test]
fn after_a_failure_the_nodes_evidence_is_whole_and_makes_the_report() {
    let place = place();
    hook("epilog.sh", place.path(), "0:0", &[]);
    assert!(!place.path().join("shared").exists(), "nothing is done after a job that went well");
    hook("epilog.sh", place.path(), "0:125", &[]);
    let evidence = place.path().join("shared/job-774/node-a.jsonl");
    let names: Vec<String> = std::fs::read_dir(evidence.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["node-a.jsonl"]);
    let out = command().args(["merge", "--format", "json", "--exit-zero"]).arg(&evidence).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let hosts = report["incidents"][0]["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), hosts[0]["host"].as_str()), (1, Some("node-a")), "{}", report["incidents"]);
    assert!(!hosts[0]["trigger"].is_null(), "the claim and the kill are joined");
}

#[test]
fn whatever_is_missing_or_hangs_no_node_is_drained() {
    let place = place();
    let p = place.path();
    let slow = p.join("slow");
    std::fs::write(&slow, "#!/bin/sh\nexec sleep 60\n").unwrap();
    std::fs::set_permissions(&slow, PermissionsExt::from_mode(0o755)).unwrap();
    let file = p.join("a-file");
    std::fs::write(&file, "").unwrap();
    let shared_is_a_file = [("RDZVSCOPE_SHARED", file.to_str().unwrap())];
    for more in [
        &[("RDZVSCOPE", "/nowhere/rdzvscope")][..],
        &shared_is_a_file,
        &[("RDZVSCOPE_RING", "/nowhere")],
        &[("RDZVSCOPE_LOG", "/nowhere/kern.log")],
        &[("RDZVSCOPE_SHARED", "")],
        &[("SLURM_JOB_ID", "")],
    ] {
        for (name, exit) in [("prolog.sh", "0:0"), ("epilog.sh", "1:0"), ("epilogctld.sh", "0:0")] {
            let took = hook(name, p, exit, more);
            assert!(took < Duration::from_secs(15), "{name} {more:?} took {took:?}");
        }
    }
    let slow = slow.to_str().unwrap();
    let took = hook("epilog.sh", p, "0:125", &[("RDZVSCOPE", slow), ("RDZVSCOPE_EPILOG_SECONDS", "1")]);
    assert!(took < Duration::from_secs(15), "an analysis without an end took {took:?}");
    let took = hook("prolog.sh", p, "0:0", &[("RDZVSCOPE_PER_JOB", "yes"), ("TCPDUMP", slow)]);
    assert!(took < Duration::from_secs(10), "a capture does not hold the job up: {took:?}");
    let pid = std::fs::read_to_string(p.join("ring/job-774/pid")).unwrap();
    assert!(Path::new("/proc").join(pid.trim()).exists(), "the job's capture runs");
    hook("epilog.sh", p, "0:0", &[]);
    std::thread::sleep(Duration::from_millis(300));
    let state = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "it ends with the job: {state}");
    assert!(!p.join("ring/job-774").exists() && p.join("ring/node-a.pcap").exists());
}

/// Lines of tasks as `srun -l` prints them: pieces of 1,024 bytes behind the task's number, in turn.
fn mixed(tasks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut pieces: Vec<Vec<(u32, &[u8])>> = Vec::new();
    for (task, lines) in tasks {
        let of_line = |l: &'_ [u8]| l.chunks(1024).map(<[u8]>::len).collect::<Vec<_>>();
        let mut own = Vec::new();
        for line in lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let mut rest = line;
            for n in of_line(line) {
                let (piece, more) = rest.split_at(n);
                own.push((*task, piece));
                rest = more;
            }
        }
        pieces.push(own);
    }
    let longest = pieces.iter().map(Vec::len).max().unwrap();
    let mut out = Vec::new();
    for i in 0..longest {
        for (task, piece) in pieces.iter().filter_map(|p| p.get(i)) {
            out.extend_from_slice(format!("{task:2}: ").as_bytes());
            out.extend_from_slice(piece);
            out.push(b'\n');
        }
    }
    out
}

fn merge(lines: &[u8]) -> (serde_json::Value, String) {
    use std::io::Write;
    let hosts = root().join("testdata/hosts");
    let mut child = command()
        .args(["merge", "-", "--format", "json", "--exit-zero", "--hosts"])
        .arg(hosts)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, lines) = (child.stdin.take().unwrap(), lines.to_vec());
    let feeder = std::thread::spawn(move || input.write_all(&lines).unwrap());
    let out = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let mut report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    report.as_object_mut().unwrap().remove("arguments");
    (report, String::from_utf8(out.stderr).unwrap())
}

#[test]
fn pieces_of_srun_are_put_together() {
    let evidence = |node: &str| {
        let capture = root().join(format!("testdata/incident-torch1.13/{node}.pcap"));
        let log = root().join(format!("testdata/incident-torch1.13/logs/{node}.dmesg-iso"));
        let mut analyze = command();
        analyze.args(["analyze", "--format", "jsonl", "--exit-zero"]).arg(capture).arg("--oom");
        analyze.arg(log).output().unwrap().stdout
    };
    let (a, b) = (evidence("node-a"), evidence("node-b"));
    let whole = merge(&[a.as_slice(), &b].concat());
    let tasks = [(0, a), (13, b)];
    let cut = mixed(&tasks);
    assert!(cut.split(|b| *b == b'\n').any(|l| l.len() == 1024 + 4), "lines are cut");
    assert_eq!(merge(&cut), whole);
    let hosts = whole.0["incidents"][0]["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2, "tasks are no hosts: {}", whole.0["incidents"]);
    // Without its last piece a line is broken, and counted.
    let line = cut.iter().rposition(|b| *b == b'{').unwrap();
    let begun = [&cut[..], b" 7: ", &[b'{'; 1024], b"\n"].concat();
    assert!(line > 0 && merge(&begun).1.contains("1 line of evidence is cut"), "{}", merge(&begun).1);
}

#[test]
fn the_report_of_a_job_says_how_its_steps_ended_and_why() {
    let place = TempDir::new().unwrap();
    let p = place.path();
    let sacct = "JobID|State|Start|End|NodeList\n\
                 774|FAILED|2026-11-29T11:15:00Z|2026-11-29T11:30:00Z|node-[1-13],node-a,node-b,node-c\n\
                 774.batch|FAILED|2026-11-29T11:15:00Z|2026-11-29T11:30:00Z|node-a\n\
                 774.0|OUT_OF_MEMORY|2026-11-29T11:15:00Z|2026-11-29T11:30:00Z|node-[1-13],node-a,node-b,node-c\n";
    std::fs::write(p.join("sacct.txt"), sacct).unwrap();
    std::fs::write(p.join("other.txt"), sacct.replace("-29T11", "-28T11")).unwrap();
    let incident = root().join("testdata/incident-torch1.13");
    let captures = ["a", "b", "c"].map(|n| incident.join(format!("node-{n}.pcap")));
    let case = p.join("case.db");
    let mut watch = command();
    watch
        .arg("watch")
        .args(&captures)
        .args(["--once", "-q", "--case"])
        .arg(&case)
        .arg("--oom")
        .arg(incident.join("logs"));
    watch.arg("--hosts").arg(root().join("testdata/hosts")).args(["--boot", "node-a=2026-11-29T11:12:08Z"]);
    assert!(watch.output().unwrap().status.code() < Some(2));
    let notes = |job: &str, arguments: &[&str]| {
        let mut command = command();
        command.args(arguments).arg(&case).args(["--format", "json", "--exit-zero", "--job"]).arg(p.join(job));
        let out = command.output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        (report["notes"][0].as_str().unwrap().to_string(), report["incidents"].as_array().unwrap().len())
    };
    let said = "job 774, step 0: OUT_OF_MEMORY on 3 of 16 nodes, caused by a scan from 192.0.2.250";
    for arguments in [&["report"][..], &["merge"]] {
        let (note, incidents) = notes("sacct.txt", arguments);
        assert!(note.starts_with(said) && incidents == 1, "{note}");
        let (note, incidents) = notes("other.txt", arguments);
        assert_eq!(
            (note.as_str(), incidents),
            ("job 774, step 0: OUT_OF_MEMORY on 16 nodes: no kill on them is told of", 0)
        );
    }
    let mut analyze = command();
    analyze
        .arg("analyze")
        .args(&captures)
        .arg("--oom")
        .arg(incident.join("logs"))
        .arg("--job")
        .arg(p.join("sacct.txt"));
    analyze.arg("--hosts").arg(root().join("testdata/hosts")).args(["--boot", "node-a=2026-11-29T11:12:08Z"]);
    let out = String::from_utf8(analyze.output().unwrap().stdout).unwrap();
    assert!(common::unwrapped(&out).contains(said), "{out}");
}
