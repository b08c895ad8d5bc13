//! Tables and records as the programs print them.

use super::super::{Options, Scanner, merge};
use super::*;

fn kills(text: &str) -> Vec<(Option<String>, i64, Option<String>)> {
    let options = Options { written: Some(Timestamp::new(1_700_000_000, 0)), ..Options::default() };
    let mut scanner = Scanner::new("log", &options);
    for (n, line) in (1..).zip(text.lines()) {
        scanner.line(n, line.as_bytes());
    }
    let summary = scanner.finish();
    assert_eq!(summary.not_understood, 0, "{:?}", summary.examples);
    let merged = merge(summary.sightings);
    let of = |e: &super::super::OomEvent| (e.host.clone(), e.time.0 / NANOS, e.workload.as_ref().map(|w| w.id.clone()));
    merged.events.iter().chain(&merged.undated).map(of).collect()
}

fn s(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn ages_and_columns() {
    assert_eq!(age(b"17m"), Some((17 * 60 * NANOS, 60 * NANOS)));
    assert_eq!(age(b"2d3h"), Some((51 * 3600 * NANOS, 3600 * NANOS)));
    for text in [&b""[..], b"<unknown>", b"5x", b"99999999999999999999d"] {
        assert_eq!(age(text), None);
    }
    assert_eq!(columns(b"  a b   c  d"), [(2, &b"a b"[..]), (8, b"c"), (11, b"d")]);
}

#[test]
fn sacct_in_each_form() {
    for text in [
        "JobID|State|ExitCode|NodeList|End\n774|OUT_OF_MEMORY|0:125|gpu-003|2024-11-02T10:11:12\n774.batch|OUT_OF_MEMORY|0:125|gpu-003|2024-11-02T10:11:12\n775|COMPLETED|0:0|gpu-003|2024-11-02T10:11:13\n",
        "JobID,End,NodeList,State\n774,1730542272,gpu-003,OUT_OF_MEMORY\n774.0,1730542272,gpu-003,OUT_OF_MEMORY",
        "JobID           JobName      State        NodeList                 End \n------------ ---------- ---------- --------------- ------------------- \n774               train OUT_OF_ME+         gpu-003 2024-11-02T10:11:12 \n",
        "JobID|State|NodeList|End\n774|OUT_OF_MEMORY|gpu-[003-004]|2024-11-02T12:00:00\n774.0|OUT_OF_MEMORY|gpu-003|2024-11-02T10:11:12\n",
        "JobId=774 JobName=train\n   UserId=a(1) JobState=OUT_OF_MEMORY Reason=OutOfMemory\n   StartTime=2024-11-02T09:00:00 EndTime=2024-11-02T10:11:12\n   NodeList=gpu-003\n   BatchHost=gpu-003\n\n",
        "JobId=774 UserId=a(1) GroupId=a(1) Name=train JobState=OUT_OF_MEMORY Partition=p TimeLimit=1 StartTime=2024-11-02T09:00:00 EndTime=2024-11-02T10:11:12 NodeList=gpu-003 NodeCnt=1\n",
    ] {
        let got = kills(text);
        assert_eq!(got.len(), 1, "{text} {got:?}");
        assert_eq!((got[0].0.clone(), got[0].1), (s("gpu-003"), 1_730_542_272), "{text}");
        assert!(got[0].2.as_deref().is_some_and(|id| id.starts_with("774")), "{text}");
    }
    assert_eq!(kills("JobID|State|NodeList|End\n774|OUT_OF_MEMORY|gpu-[003-004]|Unknown\n").len(), 1);
}

#[test]
fn kubectl_for_people() {
    let got = kills(
        "LAST SEEN   TYPE      REASON      OBJECT         MESSAGE\n5m          Warning   SystemOOM   node/gpu-017   System OOM encountered, victim process: python3, pid: 7\n10s         Normal    Pulled      pod/x          Container image\n",
    );
    assert_eq!(got, [(s("gpu-017"), 1_700_000_000 - 330, None)]);
    let got = kills(
        "NAME      READY   STATUS      RESTARTS      AGE   IP           NODE      NOMINATED NODE\ntrain-0   0/1     OOMKilled   1 (2m ago)    3h    10.2.3.4     gpu-017   <none>\ntrain-1   1/1     Running     0             3h    10.2.3.5     gpu-018   <none>\n",
    );
    assert_eq!(got, [(s("gpu-017"), 1_700_000_000 - 150, s("train-0"))]);
    let got = kills(
        "EVENT      LAST SEEN   TYPE      REASON       OBJECT         MESSAGE\nADDED      5m    Warning   OOMKilling   node/gpu-1   Memory cgroup out of memory: Killed process 7 (p) total-vm:9kB, anon-rss:8kB\n",
    );
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].0, s("gpu-1"));
}

#[test]
fn a_units_status_takes_its_host_from_the_journal_below() {
    let got = kills(
        "× train.service - Train\n     Loaded: loaded (/etc/systemd/system/train.service)\n     Active: failed (Result: oom-kill) since Tue 2023-11-14 22:14:25 UTC; 5min ago\n   Main PID: 7 (code=killed, signal=KILL)\n\nNov 14 22:14:25 gpu-1 systemd[1]: train.service: A process of this unit has been killed by the OOM killer.\n",
    );
    assert_eq!(got, [(s("gpu-1"), 1_700_000_065, s("train.service"))]);
}
