//! Logs as they are gathered. The files under `testdata/logs/envelopes` are the incident's three logs as pdsh 2.34,
//! dshbak, ClusterShell 1.9 and Ansible 2.14 printed them (node-a raw, node-b `-T`, node-c iso).

use super::format::Format;
use super::*;

const SAMPLES: [(&str, &[u8]); 10] = [
    ("pdsh", include_bytes!("../../testdata/logs/envelopes/pdsh.txt")),
    ("dshbak", include_bytes!("../../testdata/logs/envelopes/dshbak.txt")),
    ("dshbak -c", include_bytes!("../../testdata/logs/envelopes/dshbak-c.txt")),
    ("clush", include_bytes!("../../testdata/logs/envelopes/clush.txt")),
    ("clush -b", include_bytes!("../../testdata/logs/envelopes/clush-b.txt")),
    ("ansible", include_bytes!("../../testdata/logs/envelopes/ansible.txt")),
    ("ansible -o", include_bytes!("../../testdata/logs/envelopes/ansible-oneline.txt")),
    ("ansible-playbook", include_bytes!("../../testdata/logs/envelopes/ansible-playbook.txt")),
    ("json callback", include_bytes!("../../testdata/logs/envelopes/ansible-callback.json")),
    ("tail", include_bytes!("../../testdata/logs/envelopes/tail.txt")),
];

fn options() -> Options {
    Options {
        boot: vec![("node-a".into(), parse_instant("2026-11-29T11:12:08Z").unwrap())],
        near: parse_instant("2026-11-29").ok(),
        file_host: Some("file".into()),
        ..Options::default()
    }
}

fn scan(text: &[u8], options: &Options) -> LogSummary {
    let mut scanner = Scanner::new("log", options);
    for (number, line) in (1..).zip(text.split(|b| *b == b'\n')) {
        scanner.line(number, line);
    }
    scanner.finish()
}

fn bare(sightings: Vec<OomSighting>) -> Vec<OomEvent> {
    let merged = merge(sightings);
    assert!(merged.untimed.is_empty());
    let mut events = merged.events;
    events.iter_mut().for_each(|e| e.sources.clear());
    events
}

#[test]
fn the_incident_is_the_same_three_kills_in_every_envelope() {
    let mut apart = Vec::new();
    for (host, text) in [
        ("node-a", &include_bytes!("../../testdata/incident-torch1.13/logs/node-a.dmesg")[..]),
        ("node-b", include_bytes!("../../testdata/incident-torch1.13/logs/node-b.dmesg-T")),
        ("node-c", include_bytes!("../../testdata/incident-torch1.13/logs/node-c.dmesg-iso")),
    ] {
        apart.extend(scan(text, &Options { file_host: Some(host.into()), ..options() }).sightings);
    }
    let apart = bare(apart);
    assert_eq!(apart.iter().filter_map(|e| e.pid).collect::<Vec<_>>(), [10273, 10267, 10279]);
    for (name, text) in SAMPLES {
        let summary = scan(text, &options());
        assert_eq!(summary.not_understood, 0, "{name}: {:?}", summary.examples);
        assert_eq!(bare(summary.sightings), apart, "{name}");
        assert!(looks_like_a_log(text), "{name}");
    }
    // As `kubectl logs --prefix` prints them, and inside an Ansible run over pdsh's labels mixed line by line.
    let prefix = String::from_utf8_lossy(SAMPLES[0].1)
        .lines()
        .filter_map(|l| l.split_once(": "))
        .map(|(host, line)| format!("[pod/{host}/dmesg] {line}\n"))
        .collect::<String>();
    // What a container printed may be anybody's words.
    let mut printed = bare(scan(prefix.as_bytes(), &options()).sightings);
    for event in &mut printed {
        assert_eq!((event.told_by, event.writer.take().is_some()), (Some(ToldBy::Process), true));
        event.told_by = Some(ToldBy::Kernel);
    }
    assert_eq!(printed, apart);
}

#[test]
fn lines_mixed_between_hosts_are_those_of_each_host() {
    let mut lines: Vec<Vec<&[u8]>> = vec![Vec::new(); 3];
    for line in SAMPLES[0].1.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let of = usize::from(line.get(5).copied().unwrap_or_default().saturating_sub(b'a'));
        lines[of].push(line);
    }
    let mut mixed = Vec::new();
    for at in 0..lines.iter().map(Vec::len).max().unwrap_or(0) {
        for of in &lines {
            if let Some(line) = of.get(at) {
                mixed.extend_from_slice(line);
                mixed.push(b'\n');
            }
        }
    }
    assert_eq!(bare(scan(&mixed, &options()).sightings), bare(scan(SAMPLES[0].1, &options()).sightings));
}

#[test]
fn a_block_of_several_hosts_is_a_kill_on_each() {
    for (text, hosts) in [
        (&include_bytes!("../../testdata/logs/envelopes/dshbak-c-folded.txt")[..], 4),
        (include_bytes!("../../testdata/logs/envelopes/clush-b-folded.txt"), 9),
    ] {
        let events = bare(scan(text, &options()).sightings);
        assert_eq!(events.len(), hosts);
        assert!(events.iter().any(|e| e.host.as_deref().is_some_and(|h| h.starts_with("gpu-007"))));
        let mut one = options();
        one.explicit_host = Some("given".into());
        assert_eq!(bare(scan(text, &one).sightings).len(), 1);
    }
}

#[test]
fn hosts_by_precedence_of_envelopes() {
    let kill = "Out of memory: Killed process 1 (python) total-vm:9kB, anon-rss:8kB";
    for (line, host) in [
        (format!("gpu-1: Nov 14 22:14:25 own kernel: {kill}"), "own"),
        (format!("gpu-1: Nov 14 22:14:25 localhost kernel: {kill}"), "gpu-1"),
        (format!("gpu-1 | CHANGED | rc=0 >>\nNov 14 22:14:25 own kernel: {kill}"), "own"),
        (format!("[pod/p/c] Nov 14 22:14:25 own kernel: {kill}"), "own"),
        (format!("[pod/p/c] 2023-11-14T22:14:25,5+00:00 {kill}"), "p"),
        (format!("==> gpu-1.log <==\nNov 14 22:14:25 own kernel: {kill}"), "own"),
        (format!("==> gpu-1.log <==\n2023-11-14T22:14:25,5+00:00 {kill}"), "gpu-1"),
        (format!("==> gpu-1.log <==\ngpu-2: 2023-11-14T22:14:25,5+00:00 {kill}"), "gpu-2"),
        (format!("==> /var/log/kern.log <==\n2023-11-14T22:14:25,5+00:00 {kill}"), "file"),
    ] {
        let events = merge(scan(line.as_bytes(), &options()).sightings).events;
        assert_eq!(events[0].host.as_deref(), Some(host), "{line}");
        let one = Options { explicit_host: Some("given".into()), ..options() };
        assert_eq!(merge(scan(line.as_bytes(), &one).sightings).events[0].host.as_deref(), Some("given"));
    }
    let mut names = crate::names::Names::default();
    names.read_hosts("192.0.2.1 gpu-1\n");
    let mut scanner = Scanner::new("log", &options()).knowing(std::sync::Arc::new(names));
    scanner.line(1, b"==> /logs/gpu-1-kern.log <==");
    scanner.line(2, format!("2023-11-14T22:14:25,5+00:00 {kill}").as_bytes());
    assert_eq!(scanner.finish().host.as_deref(), Some("gpu-1"));
}

const FIGURES: &str = "total-vm:9kB, anon-rss:8kB, file-rss:1kB, shmem-rss:0kB";

#[test]
fn container_logs_klog_and_node_problem_detector() {
    let kill = format!("Out of memory: Killed process 48211 (python) {FIGURES}");
    for (line, format, time) in [
        (format!("2023-11-14T22:14:25.512040123Z stderr F {kill}"), Format::Cri, "22:14:25.512040123"),
        (
            format!("2023-11-14T22:14:29.5Z stdout F 2023-11-14T22:14:25.25+00:00 gpu-07 kernel: {kill}"),
            Format::Cri,
            "22:14:25.250000000",
        ),
        (
            format!("{{\"log\":\"{kill}\\n\",\"stream\":\"stderr\",\"time\":\"2023-11-14T22:14:25.5Z\"}}"),
            Format::DockerLog,
            "22:14:25.500000000",
        ),
        (
            format!(
                "2023-11-14T22:14:27.5Z stderr F I1114 22:14:26.000001    1 log_monitor.go:160] New status generated: &{{Source:kernel-monitor Events:[{{Severity:warn Timestamp:2023-11-14 22:14:25.75 +0000 UTC m=+1.5 Reason:OOMKilling Message:{kill}}}] Conditions:[{{Type:KernelDeadlock}}]}}"
            ),
            Format::Cri,
            "22:14:25.750000000",
        ),
    ] {
        let summary = scan(line.as_bytes(), &options());
        assert_eq!((summary.not_understood, summary.format), (0, Some(format)), "{line}");
        let events = merge(summary.sightings).events;
        assert_eq!(events[0].time.to_rfc3339(), format!("2023-11-14T{time}Z"), "{line}");
        assert_eq!((events[0].pid, events[0].shmem_rss_bytes), (Some(48211), Some(0)), "{line}");
    }
    let text = "E1129 11:20:39.123456    1234 oom_watcher.go:60] \"Got sys oom event\" event={\"Pid\":48211,\"ProcessName\":\"python\",\"Constraint\":\"CONSTRAINT_MEMCG\"}";
    let event = merge(scan(text.as_bytes(), &options()).sightings).events.remove(0);
    assert_eq!((event.kind, event.pid, event.process.as_deref()), (OomKind::Cgroup, Some(48211), Some("python")));
    assert_eq!(event.time.to_rfc3339(), "2026-11-29T11:20:39.123456000Z");
    let text = "I1129 11:20:39.123456    1234 event.go:294] \"Event occurred\" object=\"gpu-07\" kind=\"Node\" reason=\"SystemOOM\" message=\"System OOM encountered, victim process: python, pid: 48211\"";
    let event = merge(scan(text.as_bytes(), &options()).sightings).events.remove(0);
    assert_eq!((event.host.as_deref(), event.pid), (Some("gpu-07"), Some(48211)));
}

#[test]
fn counters_say_how_many_without_saying_when() {
    let text = "==> /sys/fs/cgroup/system.slice/train.service/memory.events <==\nlow 0\nhigh 12\nmax 4810\noom 3\noom_kill 2\n==> /sys/fs/cgroup/system.slice/x.service/memory.events <==\nlow 0\noom_kill 0\n";
    let summary = scan(text.as_bytes(), &options());
    assert_eq!(summary.format, Some(Format::Counters));
    let untimed = merge(summary.sightings).untimed;
    assert_eq!(untimed.len(), 1);
    assert_eq!(untimed[0].facts.occurrences, Some(2));
    assert_eq!(untimed[0].facts.cgroup.as_deref(), Some("/system.slice/train.service"));
    // A second reading adds what is new.
    let twice = scan(b"gpu-1: {\"a\":1}\ngpu-1: oom_kill 2\ngpu-2: {\"a\":1}\ngpu-2: oom_kill 5\ngpu-1: oom_kill 3\ngpu-2: oom_kill 5\n", &options());
    let counts: Vec<_> = twice.sightings.iter().map(|s| (s.host(), s.facts.occurrences)).collect();
    assert_eq!(counts, [(Some("gpu-1"), Some(2)), (Some("gpu-2"), Some(5)), (Some("gpu-1"), Some(1))]);
}

#[test]
fn documents_of_several_hosts_may_come_mixed() {
    let part = [
        "[",
        "{",
        "\"Id\": \"abc\", \"State\": {",
        "\"OOMKilled\": true, \"FinishedAt\": \"2023-11-14T22:14:27.1Z\"",
        "}",
        "}",
        "]",
    ];
    // docker inspect's inner braces are indented.
    let lines: String = part
        .iter()
        .enumerate()
        .flat_map(|(n, p)| ["g1", "g2"].map(|h| format!("{h}: {}{p}\n", if n == 0 || n == 6 { "" } else { "  " })))
        .collect();
    let lines = format!("g1: {{\"a\":1}}\ng2: {{\"a\":1}}\n{lines}");
    let hosts: Vec<_> = bare(scan(lines.as_bytes(), &options()).sightings).into_iter().filter_map(|e| e.host).collect();
    assert_eq!(hosts, ["g1", "g2"]);
}

#[test]
fn what_is_collected_is_facts_and_log_at_once() {
    let text = "3: rdzvscope/1 node-a now 2026-11-29T13:00:00.5Z\n\
                3: rdzvscope/1 node-a boot_time 2026-11-29T11:12:08Z\n\
                4: rdzvscope/1 node-b boot_time 2026-11-29T11:12:08.25Z\n\
                3: rdzvscope/1 node-a address 192.0.2.11/24 eth0\n\
                3: rdzvscope/1 node-a overcommit_memory 1\n\
                3: rdzvscope/1 node-a memory_total_bytes 25274740736\n\
                3: rdzvscope/1 node-a listen [::]:29500 10267 python3\n\
                3: rdzvscope/1 node-a torch 10267 1.13.0\n\
                4: rdzvscope/1 node-b suspend_seconds nonsense\n\
                4: rdzvscope/1 node-b kernel [  511.1] Out of memory: Killed process 10273 (python3) total-vm:9kB, anon-rss:1kB\n\
                3: rdzvscope/1 node-a kernel [  521.653666] Out of memory: Killed process 10267 (python3) total-vm:9kB, anon-rss:1kB\n";
    let summary = scan(text.as_bytes(), &Options { file_host: Some("all".into()), ..Options::default() });
    assert!(summary.warnings.iter().any(|w| w.starts_with("1 lines of collected facts")), "{:?}", summary.warnings);
    assert_eq!(summary.format, Some(Format::Collected));
    assert_eq!(summary.facts.len(), 2);
    let a = &summary.facts[0];
    assert_eq!((a.overcommit_memory, a.memory_total_bytes, a.addresses.len()), (Some(1), Some(25_274_740_736), 1));
    assert_eq!(a.listening[0].torch.as_deref(), Some("1.13.0"));
    let events = bare(summary.sightings);
    let got: Vec<_> = events.iter().map(|e| (e.host.as_deref().unwrap(), e.time.to_rfc3339())).collect();
    assert_eq!(
        got,
        [("node-b", "2026-11-29T11:20:39.350000000Z".into()), ("node-a", "2026-11-29T11:20:49.653666000Z".into())]
    );
    let (facts, errors) = read_facts(text);
    assert_eq!((facts, errors.iter().map(|e| e.line).collect::<Vec<_>>()), (summary.facts, vec![9]));
}

#[test]
fn the_collectors_own_block_dates_the_kill_without_boot() {
    let text = include_bytes!("../../testdata/logs/collected/node-a-pdsh.txt");
    assert!(looks_like_a_log(text));
    let summary = scan(text, &Options { file_host: Some("file".into()), ..Options::default() });
    assert_eq!((summary.not_understood, summary.boot_source), (0, Some("collected")));
    let facts = &summary.facts[0];
    assert_eq!(facts.listening[0].torch.as_deref(), Some("1.13.0+cpu"));
    assert_eq!((facts.listening[0].pid, facts.listening[0].endpoint.port), (Some(10267), 29500));
    let events = bare(summary.sightings);
    assert_eq!((events.len(), events[0].host.as_deref()), (1, Some("node-a")));
    assert_eq!(events[0].time.to_rfc3339(), "2026-11-29T11:20:49.653666000Z");
    assert_eq!((events[0].invoked_by.as_deref(), events[0].time_is_assumed), (Some("python3"), false));
}

#[test]
fn facts_out_of_ansibles_script_module() {
    let text = "gpu-1 | CHANGED => {\n    \"changed\": true,\n    \"stdout_lines\": [\n        \"rdzvscope/1 gpu-1 address 192.0.2.7/24 eth0\"\n    ]\n}\n";
    let (facts, errors) = read_facts(text);
    assert_eq!((facts.len(), errors.len(), facts[0].addresses.len()), (1, 0, 1));
    let mut names = crate::names::Names::default();
    let read = crate::hosts::read(text, None, &mut names);
    assert_eq!((read.form, read.pairs), (crate::hosts::ListFormat::Collected, 1));
}

use proptest::prelude::*;

const WORDS: [&[u8]; 24] = [
    b"----------------\n",
    b"---------------\n",
    b"gpu-[001-003,007]\n",
    b"gpu-[1-99999999]\n",
    b"@g\n",
    b"gpu-1: ",
    b"fd00::1: ",
    b"[  1.5] ",
    b"Out of memory: Killed process 7 (p) total-vm:9kB, anon-rss:1kB",
    b"\n",
    b"gpu-1 | CHANGED | rc=0 >>\n",
    b"gpu-1 | CHANGED | rc=0 | (stdout) ",
    b"\\n",
    b"ok: [gpu-1] => {\n",
    b"\"stdout_lines\": [\"",
    b"\"]",
    b"}\n",
    b"{\n",
    b"[pod/x/y] ",
    b"==> a.log <==\n",
    b"rdzvscope/1 h kernel ",
    b"rdzvscope/1 h ",
    b"oom_kill 7",
    b"\xff",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_jumble_of_envelopes_is_read_without_panic(words in proptest::collection::vec(0..WORDS.len(), 0..60)) {
        let text: Vec<u8> = words.iter().flat_map(|w| WORDS[*w].iter().copied()).collect();
        merge(scan(&text, &options()).sightings);
    }
}
