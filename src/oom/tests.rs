//! Logs from end to end. The truth of the recorded ones is that of the incident's own kernel logs.

use super::format::Format;
use super::*;
use crate::time::Timestamp;
use proptest::prelude::*;

const NODE_A: &[u8] = include_bytes!("../../testdata/incident-torch1.13/logs/node-a.dmesg");
const NODE_A_ISO: &[u8] = include_bytes!("../../testdata/incident-torch1.13/logs/node-a.dmesg-iso");
const NODE_B: &[u8] = include_bytes!("../../testdata/incident-torch1.13/logs/node-b.dmesg-T");
const NODE_B_ISO: &[u8] = include_bytes!("../../testdata/incident-torch1.13/logs/node-b.dmesg-iso");
const NODE_C_ISO: &[u8] = include_bytes!("../../testdata/incident-torch1.13/logs/node-c.dmesg-iso");
const CLIENT: &[u8] = include_bytes!("../../testdata/other-strangers/client2.2-on-store1.13.dmesg-iso");

fn scan(label: &str, options: &Options, text: &[u8]) -> LogSummary {
    let mut scanner = Scanner::new(label, options);
    for (at, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        scanner.line(at as u64 + 1, line);
    }
    scanner.finish()
}

fn of_host(host: &str) -> Options {
    Options {
        boot: vec![("node-a".into(), parse_instant("2026-11-29T11:12:08Z").unwrap())],
        near: parse_instant("2023-11-20").ok(),
        file_host: Some(host.into()),
        ..Options::default()
    }
}

fn events(text: &str) -> Vec<OomEvent> {
    let summary = scan("log", &of_host("file"), text.as_bytes());
    assert_eq!((summary.not_understood, summary.examples.len()), (0, 0), "{:?}", summary.examples);
    merge(summary.sightings).events
}

fn one(text: &str) -> OomEvent {
    let mut events = events(text);
    assert_eq!(events.len(), 1, "{text}: {events:?}");
    events.remove(0)
}

fn incident() -> Vec<(&'static str, &'static str, &'static [u8])> {
    vec![
        ("logs/node-a.dmesg", "node-a", NODE_A),
        ("logs/node-a.dmesg-iso", "node-a", NODE_A_ISO),
        ("logs/node-b.dmesg-T", "node-b", NODE_B),
        ("logs/node-b.dmesg-iso", "node-b", NODE_B_ISO),
        ("logs/node-c.dmesg-iso", "node-c", NODE_C_ISO),
    ]
}

#[test]
fn the_incident_is_three_kills_from_five_logs() {
    let mut all = Vec::new();
    for (label, host, text) in incident() {
        let summary = scan(label, &of_host(host), text);
        assert_eq!((summary.not_understood, summary.sightings.len()), (0, 1), "{label}");
        assert_eq!(summary.host.as_deref(), Some(host));
        all.extend(summary.sightings);
    }
    let mut backwards = all.clone();
    backwards.reverse();
    let merged = merge(all);
    assert!(merged.untimed.is_empty());
    assert_eq!(merge(backwards).events, merged.events);
    let short: Vec<_> =
        merged.events.iter().map(|e| (e.host.as_deref().unwrap(), e.time.to_rfc3339(), e.pid.unwrap())).collect();
    assert_eq!(
        short,
        [
            ("node-b", "2026-11-29T11:20:39.381744000Z".to_owned(), 10273),
            ("node-a", "2026-11-29T11:20:49.653666000Z".to_owned(), 10267),
            ("node-c", "2026-11-29T11:21:08.153166000Z".to_owned(), 10279),
        ]
    );
    for (event, (sources, reaped)) in merged.events.iter().zip([(12, "41.429299"), (12, "52.343700"), (6, "11.438854")])
    {
        assert_eq!(event.total_vm_bytes, Some(941_138_648 * 1024));
        assert_eq!(event.host_memory_bytes, Some(6_291_358 * 4096));
        assert_eq!(event.host_swap_bytes, Some(0));
        assert_eq!((event.kind, event.time_is_assumed, event.uncertainty_nanos), (OomKind::Host, false, 1_000_000_000));
        assert!(event.at_or_after, "dmesg drops the fraction of the boot time");
        assert_eq!(event.invoked_by.as_deref(), Some("python3"));
        assert_eq!(event.workload.as_ref().map(|w| w.id.as_str()), Some("train.service"));
        assert_eq!(event.sources.len(), sources);
        assert!(event.reaped_at.unwrap().to_rfc3339().contains(reaped));
    }
}

#[test]
fn raw_dmesg_needs_a_boot_time_and_says_so() {
    let merged = merge(scan("a", &of_host("node-a"), NODE_A).sightings);
    assert_eq!(merged.events[0].time.to_rfc3339(), "2026-11-29T11:20:49.653666000Z");
    assert_eq!(merged.events[0].time_source, "boot-relative + --boot");
    let summary = scan("a", &Options { file_host: Some("node-a".into()), ..Options::default() }, NODE_A);
    assert!(summary.warnings.iter().any(|w| w.contains("--boot node-a=TIME")), "{:?}", summary.warnings);
    let merged = merge(summary.sightings);
    assert_eq!((merged.events.len(), merged.untimed.len()), (0, 1));
    assert_eq!(merged.untimed[0].boot_nanos(), Some(521_653_666_000));
    assert_eq!(merged.untimed[0].total_vm_bytes(), Some(941_138_648 * 1024));
}

#[test]
fn dmesg_t_is_utc_by_assumption_and_a_zone_moves_it() {
    let summary = scan("b", &of_host("node-b"), NODE_B);
    assert_eq!((summary.timezone.as_deref(), summary.timezone_assumed), (Some("UTC"), true));
    assert_eq!(summary.format, Some(Format::DmesgTime));
    let event = merge(summary.sightings).events.remove(0);
    assert_eq!(event.time.to_rfc3339(), "2026-11-29T11:20:39.000000000Z");
    assert!(event.time_is_assumed);
    let options =
        Options { host_zones: vec![("node-b".into(), "Asia/Shanghai".parse().unwrap())], ..of_host("node-b") };
    let event = merge(scan("b", &options, NODE_B).sightings).events.remove(0);
    assert_eq!((event.time.to_rfc3339().as_str(), event.time_is_assumed), ("2026-11-29T03:20:39.000000000Z", false));
}

#[test]
fn a_client_of_another_version_ends_in_a_cgroup_kill() {
    let event = merge(scan("c", &of_host("node-a"), CLIENT).sightings).events.remove(0);
    assert_eq!(
        (event.kind, event.pid, event.total_vm_bytes),
        (OomKind::Cgroup, Some(22277), Some(5_387_262_396 * 1024))
    );
    assert_eq!(event.limit_cgroup.as_deref(), Some("/lab-node-a"));
    assert_eq!(event.time.to_rfc3339(), "2026-11-29T12:33:12.606182000Z");
}

const FIGURES: &str = "total-vm:9kB, anon-rss:8kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0";

#[test]
fn every_header_gives_the_same_kill() {
    let kill = format!("Out of memory: Killed process 48211 (python) {FIGURES}");
    for (line, time, host, unit) in [
        (format!("[Tue Nov 14 22:14:25 2023] {kill}"), "25.000000000", "file", 2_000_000_000),
        (format!("2023-11-14T22:14:25,512040+00:00 {kill}"), "25.512040000", "file", 1_000_000_000),
        (format!("2023-11-15T06:14:25,512040+08:00 {kill}\r"), "25.512040000", "file", 1_000_000_000),
        (format!("kern  :err   : 2023-11-14T22:14:25,512040+00:00 {kill}"), "25.512040000", "file", 1_000_000_000),
        (format!("kern  :err   : [Tue Nov 14 22:14:25 2023] {kill}"), "25.000000000", "file", 2_000_000_000),
        (format!("Nov 14 22:14:25 gpu-07 kernel: [184467.512040] {kill}"), "25.000000000", "gpu-07", 1_000_000_000),
        (format!("Nov 14 22:14:25 gpu-07 kernel: {kill}"), "25.000000000", "gpu-07", 1_000_000_000),
        (format!("Nov 14 22:14:25.512900 gpu-07 kernel: {kill}"), "25.512900000", "gpu-07", 1_000_000),
        (format!("<3>Nov 14 22:14:25 gpu-07 kernel: {kill}"), "25.000000000", "gpu-07", 1_000_000_000),
        (format!("2023-11-14T22:14:25+0000 gpu-07 kernel: {kill}"), "25.000000000", "gpu-07", 1_000_000_000),
        (
            format!("2023-11-14T22:14:25.512040+00:00 gpu-07 kernel: [  99.5] [T48260] {kill}"),
            "25.512040000",
            "gpu-07",
            1_000_000,
        ),
        (format!("<3>1 2023-11-14T22:14:25.512040Z gpu-07 kernel - - - {kill}"), "25.512040000", "gpu-07", 1_000_000),
        (
            format!("1 2023-11-14T22:14:25.512040Z gpu-07 kernel - - [x y=\"]\"] {kill}"),
            "25.512040000",
            "gpu-07",
            1_000_000,
        ),
        (
            format!(
                "{{\"__REALTIME_TIMESTAMP\":\"1700000065512900\",\"_HOSTNAME\":\"gpu-07\",\"MESSAGE\":\"{kill}\"}}"
            ),
            "25.512900000",
            "gpu-07",
            1_000_000,
        ),
        (
            format!(
                "{{\"__REALTIME_TIMESTAMP\":\"1700000065512900\",\"_HOSTNAME\":\"gpu-07\",\"MESSAGE\":{:?}}}",
                kill.as_bytes()
            )
            .replace(' ', ""),
            "25.512900000",
            "gpu-07",
            1_000_000,
        ),
        (
            format!(
                "{{\n\t\"__REALTIME_TIMESTAMP\" : \"1700000065512900\",\n\t\"_HOSTNAME\" : \"gpu-07\",\n\t\"MESSAGE\" : \"{kill}\"\n}}\n"
            ),
            "25.512900000",
            "gpu-07",
            1_000_000,
        ),
        (
            format!("__REALTIME_TIMESTAMP=1700000065512900\n_HOSTNAME=gpu-07\nMESSAGE={kill}\n\n"),
            "25.512900000",
            "gpu-07",
            1_000_000,
        ),
        (
            format!("__REALTIME_TIMESTAMP=1700000065512900\nMESSAGE\n12345678{kill}\n_HOSTNAME=gpu-07"),
            "25.512900000",
            "gpu-07",
            1_000_000,
        ),
    ] {
        let event = one(&line);
        assert_eq!(event.time.to_rfc3339(), format!("2023-11-14T22:14:{time}Z"), "{line}");
        assert_eq!((event.host.as_deref(), event.uncertainty_nanos), (Some(host), unit), "{line}");
        assert_eq!(
            (event.process.as_deref(), event.total_vm_bytes, event.kind),
            (Some("python"), Some(9216), OomKind::Host)
        );
    }
}

#[test]
fn raw_lines_with_prefix_or_caller_id_are_raw_lines() {
    for prefix in
        ["[184467.512040]", "kern  :err   : [184467.512040]", "[184467.512040] [T48260]", "[184467.512040] [    C3]"]
    {
        let text = format!("{prefix} Out of memory: Killed process 48211 (python) {FIGURES}");
        let merged = merge(scan("x", &of_host("node-a"), text.as_bytes()).sightings);
        assert_eq!(merged.events[0].time.to_rfc3339(), "2026-12-01T14:26:35.512040000Z", "{prefix}");
    }
}

#[test]
fn a_whole_kill_and_the_old_pair() {
    let event = one(
        "2023-11-14T22:14:25,440737+00:00 pt_tcpstore invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0\n\
         2023-11-14T22:14:25,512004+00:00 oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/system.slice/slurmstepd.scope/job_77,task=pt_main_thread,pid=48211,uid=1000\n\
         2023-11-14T22:14:25,512040+00:00 Out of memory: Killed process 48211 (pt_main_thread) total-vm:981467136kB, anon-rss:514238464kB, file-rss:71220kB, shmem-rss:16384kB, UID:1000 pgtables:1013248kB oom_score_adj:0\n",
    );
    assert_eq!((event.invoked_by.as_deref(), event.sources.len()), (Some("pt_tcpstore"), 3));
    assert_eq!(event.workload.map(|w| (w.kind, w.id)), Some((WorkloadKind::Slurm, "77".into())));
    let text = "[ 9211.100001] Out of memory: Kill process 2592 (python3) score 912 or sacrifice child\n\
                [ 9211.100020] Killed process 2593 (python3) total-vm:981467136kB, anon-rss:514238464kB, file-rss:71220kB, shmem-rss:16384kB\n\
                [ 9212.100050] Killed process 2594 (python3), UID 1000, total-vm:4096kB, anon-rss:2048kB, file-rss:0kB, shmem-rss:0kB\n";
    let merged = merge(scan("x", &of_host("node-a"), text.as_bytes()).sightings);
    let got: Vec<_> = merged.events.iter().map(|e| (e.pid, e.kind, e.oom_score)).collect();
    assert_eq!(got, [(Some(2593), OomKind::Host, Some(912)), (Some(2594), OomKind::Host, None)]);
}

#[test]
fn copies_merge_and_reports_join_the_kernels_own_line() {
    let kill = format!("Out of memory: Killed process 48211 (python) {FIGURES}");
    let event = one(&format!(
        "2023-11-14T22:14:25,512040+00:00 {kill}\n\
         2023-11-14T23:59:25+0000 file.example.com kernel: {kill}\n\
         {{\"kind\":\"Event\",\"reason\":\"OOMKilling\",\"source\":{{\"component\":\"kernel-monitor\",\"host\":\"file\"}},\"message\":\"Out of memory: Killed process 48211 (python) total-vm:9kB, anon-rss:8kB, file-rss:1kB, shmem-rss:0kB\",\"lastTimestamp\":\"2023-11-14T22:14:25Z\",\"count\":3}}\n\
         {{\"kind\":\"Event\",\"reason\":\"SystemOOM\",\"type\":\"Warning\",\"message\":\"System OOM encountered, victim process: python, pid: 48211\",\"involvedObject\":{{\"kind\":\"Node\",\"name\":\"file\"}},\"firstTimestamp\":\"2023-11-14T22:14:26Z\",\"lastTimestamp\":\"2023-11-14T22:14:26Z\",\"count\":1}}\n"
    ));
    assert_eq!((event.time.to_rfc3339().as_str(), event.sources.len()), ("2023-11-14T22:14:25.512040000Z", 4));
    assert_eq!(event.occurrences, 3);
    // The same pid six seconds later, without figures, is another kill; on another host too.
    assert_eq!(
        events(&format!(
            "2023-11-14T22:14:25,5+00:00 {kill}\n2023-11-14T22:14:32,5+00:00 Killed process 48211 (python)\n"
        ))
        .len(),
        2
    );
    assert_eq!(events(&format!("Nov 14 22:14:25 a kernel: {kill}\nNov 14 22:14:25 b kernel: {kill}\n")).len(), 2);
}

#[test]
fn the_words_of_daemons_and_schedulers() {
    let event = one(
        "Nov 14 22:14:25 h systemd-oomd[840]: Killed /system.slice/train.service due to memory pressure for /system.slice being 85.03% > 80.00% for > 20s with reclaim activity\n\
                     Nov 14 22:14:26 h systemd[1]: train.service: systemd-oomd killed 9 process(es) in this unit.\n",
    );
    assert_eq!((event.kind, event.sources.len()), (OomKind::Userspace, 2));
    let event = one(
        "Nov 14 22:14:25 h earlyoom[611]: sending SIGTERM to process 48211 uid 1000 \"python\": oom_score 1302, oom_score_adj 0, VmRSS 502186 MiB, cmdline \"python train.py\"\n",
    );
    assert_eq!((event.kind, event.pid, event.oom_score), (OomKind::Userspace, Some(48211), Some(1302)));
    let event = one(
        "[2023-11-14T22:14:25.512] [370626.batch] error: Detected 1 oom-kill event(s) in step 370626.batch cgroup\n",
    );
    assert_eq!((event.kind, event.workload.map(|w| w.id).as_deref()), (OomKind::Cgroup, Some("370626.batch")));
    let event = one(
        "{\"metadata\":{\"uid\":\"u\",\"name\":\"job-0\",\"namespace\":\"ml\"},\"spec\":{\"nodeName\":\"gpu-07\"},\"status\":{\"containerStatuses\":[{\"lastState\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\",\"finishedAt\":\"2023-11-14T22:14:27Z\"}}}]}}",
    );
    assert_eq!(
        (event.host.as_deref(), event.workload.and_then(|w| w.name).as_deref()),
        (Some("gpu-07"), Some("job-0"))
    );
    assert_eq!(events("{\"lastState\":{\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\",\"finishedAt\":\"2023-11-14T22:14:27Z\"}}}").len(), 1);
    assert_eq!(events("{\"lastState\":{\"terminated\":{\"exitCode\":137,\"reason\":\"Error\",\"finishedAt\":\"2023-11-14T22:14:27Z\"}}}").len(), 0);
    let event = one(
        "[\n    {\n \"Id\": \"abc\", \"Name\": \"/train\",\n \"State\":{\"Status\":\"exited\",\"OOMKilled\":true,\"ExitCode\":137,\"FinishedAt\":\"2023-11-14T22:14:27.1Z\"}\n    }\n]\n",
    );
    assert_eq!(event.workload.and_then(|w| w.name).as_deref(), Some("train"));
    let event = one("host,time,process\nnode-b,2026-11-29T11:20:39Z,python3\n");
    assert_eq!((event.host.as_deref(), event.process.as_deref()), (Some("node-b"), Some("python3")));
    let event = one(
        "2023-11-14T22:14:25+00:00 h job: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\n",
    );
    assert_eq!(event.kind, OomKind::Gpu);
}

#[test]
fn a_gpu_out_of_memory_is_no_report_of_a_kill() {
    let text = format!(
        "2023-11-14T22:14:25+00:00 file kernel: Out of memory: Killed process 1 (python) {FIGURES}\n\
         2023-11-14T22:14:25+00:00 file job: CUDA out of memory.\n"
    );
    assert_eq!(events(&text).len(), 2);
}

#[test]
fn hosts_by_precedence() {
    let line = format!("Nov 14 22:14:25 line kernel: Out of memory: Killed process 1 (python) {FIGURES}\n");
    let mut options = of_host("file");
    assert_eq!(merge(scan("x", &options, line.as_bytes()).sightings).events[0].host.as_deref(), Some("line"));
    options.explicit_host = Some("explicit".into());
    assert_eq!(merge(scan("x", &options, line.as_bytes()).sightings).events[0].host.as_deref(), Some("explicit"));
}

#[test]
fn what_is_not_understood_is_counted_with_its_line() {
    let text = "hello\n[ 1.0] Out of memory: Killed process x (y) z\nKilled process 1 (a) total-vm:99999999999999999999kB, anon-rss:1kB\nfoo oom_kill_process+0x1\n";
    let summary = scan("x", &of_host("h"), text.as_bytes());
    assert_eq!((summary.lines, summary.not_understood), (4, 2));
    assert_eq!(summary.examples.iter().map(|e| e.line).collect::<Vec<_>>(), [2, 3]);
    let summary =
        scan("x", &of_host("h"), b"{\"log\":[\"Killed process 1 (a)\"]}\n{\"State\":{\"OOMKilled\":false}}\n");
    assert_eq!(summary.examples.iter().map(|e| e.line).collect::<Vec<_>>(), [1]);
    let mut long = b"x".repeat(MAX_LINE);
    long.extend_from_slice(b"Out of memory: Killed process x");
    let summary = scan("x", &of_host("h"), &long);
    assert_eq!(summary.not_understood, 0);
    assert!(summary.warnings.iter().any(|w| w.contains("longer than 65536")));
}

/// Events without what names files and lines, and without what a host's other name would change.
fn bare(sightings: Vec<OomSighting>) -> (Vec<OomEvent>, usize) {
    let merged = merge(sightings);
    let mut events = merged.events;
    events.iter_mut().for_each(|e| e.sources.clear());
    (events, merged.untimed.len())
}

#[test]
fn a_log_cut_in_two_anywhere_gives_the_same_events() {
    for (label, host, text) in incident() {
        let whole = bare(scan(label, &of_host(host), text).sightings);
        assert_eq!(whole.0.len(), 1);
        for (at, _) in text.iter().enumerate().filter(|(_, b)| **b == b'\n') {
            let (head, tail) = text.split_at(at + 1);
            let mut both = scan("one", &of_host(host), head).sightings;
            both.extend(scan("two", &of_host(host), tail).sightings);
            assert_eq!(bare(both), whole, "{label} cut at {at}");
        }
    }
}

#[test]
fn a_raw_log_cut_without_boot_time_is_still_one_sighting_of_each_kill() {
    let options = Options { file_host: Some("node-a".into()), ..Options::default() };
    let merged = merge(
        scan("a", &options, NODE_A)
            .sightings
            .into_iter()
            .chain(scan("b", &of_host("node-a"), NODE_A_ISO).sightings)
            .collect(),
    );
    assert_eq!((merged.events.len(), merged.untimed.len()), (1, 0));
}

const WORDS: [&[u8]; 22] = [
    b"Killed process ",
    b"7 (",
    b"a) total-vm:",
    b"9kB, anon-rss:",
    b"\n",
    b"oom-kill:constraint=",
    b",task_memcg=",
    b",task=",
    b",pid=",
    b",uid=",
    b" invoked oom-killer: ",
    b"gfp_mask=",
    b"[  1.5] ",
    b"2023-11-14T22:14:25,5+00:00 ",
    b"Nov 14 22:14:25 h ",
    b"{\"MESSAGE\":[",
    b"]}",
    b"oom_reaper: reaped process ",
    b"<3>1 ",
    b"99999999999999999999",
    b"\xff\x00",
    b"__CURSOR=",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        merge(scan("x", &of_host("h"), &text).sightings);
    }

    #[test]
    fn any_jumble_of_words_is_read_without_panic(words in proptest::collection::vec(0..WORDS.len(), 0..60)) {
        let text: Vec<u8> = words.iter().flat_map(|w| WORDS[*w].iter().copied()).collect();
        merge(scan("x", &of_host("h"), &text).sightings);
        parse_instant(&String::from_utf8_lossy(&text)).ok();
    }

    /// Kills on three hosts, far enough apart that their lines do not mix on one host.
    #[test]
    fn made_logs_cut_anywhere_give_the_same_events(kills in proptest::collection::vec((0..3u8, 1..999u32, 0..6u8), 1..12), cut in any::<prop::sample::Index>()) {
        let mut lines = Vec::new();
        for (at, (host, pid, parts)) in kills.iter().enumerate() {
            let time = |ms: u32| format!("2023-11-{:02}T22:14:25.{ms:03}000+00:00 h{host} kernel: ", at + 1);
            if *parts > 0 { lines.push(format!("{}x invoked oom-killer: gfp_mask=0x0\n", time(1))); }
            if *parts > 1 { lines.push(format!("{}77 pages RAM\n", time(2))); }
            if *parts > 2 { lines.push(format!("{}oom-kill:constraint=CONSTRAINT_NONE,global_oom,task_memcg=/a.service,task=p,pid={pid},uid=0\n", time(3))); }
            lines.push(format!("{}Out of memory: Killed process {pid} (p) total-vm:{}kB, anon-rss:{at}kB\n", time(4), at * 7));
            if *parts > 4 { lines.push(format!("{}oom_reaper: reaped process {pid} (p), now anon-rss:0kB\n", time(900))); }
        }
        let whole = bare(scan("x", &of_host("h"), lines.concat().as_bytes()).sightings);
        prop_assert_eq!(whole.0.len(), kills.len());
        let (head, tail) = lines.split_at(cut.index(lines.len() + 1));
        let mut both = scan("one", &of_host("h"), head.concat().as_bytes()).sightings;
        both.extend(scan("two", &of_host("h"), tail.concat().as_bytes()).sightings);
        prop_assert_eq!(bare(both), whole);
    }
}

#[test]
fn merging_grows_with_n_log_n() {
    let mut text = String::new();
    for n in 0..20_000 {
        text += &format!("2023-11-14T22:14:25.5+00:00 h kernel: Killed process {n} (p)\n");
        text += "2023-11-14T22:14:25.5+00:00 h slurmstepd[1]: error: Detected 1 oom-kill event(s) in step 1.0 cgroup\n";
    }
    let summary = scan("x", &of_host("h"), text.as_bytes());
    // Were it quadratic, this would not end in the time of a test run.
    assert_eq!(merge(summary.sightings).events.len(), 20_000);
    assert_eq!(Timestamp::new(1_700_000_065, 500_000_000).to_rfc3339(), "2023-11-14T22:14:25.500000000Z");
}
