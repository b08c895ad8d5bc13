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

#[test]
fn pieces_of_srun_are_put_together() {
    use std::io::Write;
    let evidence = command()
        .args(["analyze", "--format", "jsonl", "--exit-zero"])
        .arg(root().join("testdata/incident-torch1.13/node-a.pcap"))
        .output()
        .unwrap()
        .stdout;
    let lines: Vec<&[u8]> = evidence.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
    assert!(lines.iter().any(|l| l.len() > 2048 && l.len() % 1024 != 0));
    // Two tasks say the same; their pieces of 1,024 bytes come in turn.
    let mut mixed = Vec::new();
    for line in &lines {
        let pieces: Vec<&[u8]> = line.chunks(1024).collect();
        for piece in pieces {
            for task in [0, 13] {
                mixed.extend_from_slice(format!("{task:2}: ").as_bytes());
                mixed.extend_from_slice(piece);
                mixed.push(b'\n');
            }
        }
    }
    let mut child = Command::new("python3")
        .arg(root().join("contrib/slurm/join-lines.py"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(&mixed).unwrap());
    let out = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let joined: Vec<&[u8]> = out.stdout.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
    assert_eq!(joined.len(), 2 * lines.len());
    assert!(lines.iter().all(|l| joined.iter().filter(|j| j == &l).count() >= 2));
}
