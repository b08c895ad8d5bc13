//! Reports to print and to validate: the recorded incident of three hosts, and one with every field filled.

#![allow(dead_code)]

use rdzvscope::api::report::model::*;
use rdzvscope::api::time::Timestamp;

/// 2026-11-29T11:20:00Z and `seconds` more.
pub(crate) fn at(seconds: f64) -> Timestamp {
    Timestamp::new(1_795_951_200, 0).plus_nanos((seconds * 1e9).round() as i64)
}

/// The name, address, trigger packet, time of trigger and of kill, and process id of the recorded hosts.
const HOSTS: [(&str, &str, u64, f64, f64, u64); 3] = [
    ("node-a", "192.0.2.11", 411, 10.652448, 49.653666, 10267),
    ("node-b", "192.0.2.12", 412, 10.634682, 39.381744, 10273),
    ("node-c", "192.0.2.13", 410, 10.617957, 68.153166, 10279),
];

/// The bytes of nmap's TerminalServerCookie, as recorded.
const COOKIE: &str = "0300002a25e00000000000436f6f6b69653a206d737473686173683d6e6d61700d0a0100080003000000";

fn stray(tool: &str, probe: &str) -> Option<Stray> {
    Some(Stray { protocol: Some("rdp".into()), tool: Some(tool.into()), probe: Some(probe.into()) })
}

fn claim() -> Effect {
    Effect {
        dialect: Some("B".into()),
        backend: Some("poll".into()),
        outcome: Outcome::Allocates,
        allocates_bytes: Some(962_696_183_808),
        resident: Some(true),
        blocks_server: true,
        condition: Some("the kernel grants it: vm.overcommit_memory=1, or memory for all of it".into()),
    }
}

fn tool() -> Tool {
    Tool { name: "rdzvscope".into(), version: "0.1.0".into(), commit: None, model_version: "1".into() }
}

fn capture(host: &str, packets: u64) -> Capture {
    Capture {
        path: format!("captures/{host}.pcap"),
        format: Some("pcap".into()),
        host: Some(host.into()),
        link_types: vec!["EN10MB".into()],
        packets,
        bytes: packets * 90,
        first: Some(at(-60.0)),
        last: Some(at(95.0)),
        ..Capture::default()
    }
}

fn finding(host: &str, address: &str, packet: u64, time: f64) -> Finding {
    Finding {
        id: format!("f-{host}"),
        rule: "oversized-claim".into(),
        severity: Severity::Critical,
        time: Some(at(time)),
        time_uncertainty_seconds: Some(0.000_03),
        capture: Some(format!("captures/{host}.pcap")),
        packet: Some(packet),
        packets: vec![packet],
        sightings: vec![Sighting { capture: "captures/scanner.pcap".into(), packet: Some(237) }],
        source: Some(Sender { address: "192.0.2.250".into(), port: Some(54486) }),
        target: Some(Target { address: address.into(), port: Some(29500), host: Some(host.into()) }),
        community_id: Some("1:s6tFPcNMWkrAuytBylIOPRc1meE=".into()),
        protocol: Some("tcpstore".into()),
        dialect: Some("B".into()),
        query: Some("ADD".into()),
        stream_offset: Some(0),
        bytes_hex: Some(COOKIE.into()),
        declared: Some(Declared { bytes: Some(962_696_183_808), count: None, field: Some("key length".into()) }),
        delivered_bytes: Some(42),
        occurrences: 1,
        stray: stray("nmap", "TerminalServerCookie"),
        effects: vec![claim()],
        effect: Some(claim()),
        explanation: "nmap's TerminalServerCookie probe is read as ADD with a key of 962 696 183 808 bytes. The store \
                      asks for all of it and serves nobody meanwhile."
            .into(),
        remedy: Some("keep scanners away from port 29500, or move to PyTorch 2.4 or later (libuv)".into()),
        evidence: vec!["clean clients of this store sent WATCH_KEY as 07, which only B has".into()],
        ..Finding::default()
    }
}

/// What the recorded incident of three hosts comes to.
pub(crate) fn incident() -> Report {
    let mut report =
        Report { tool: tool(), arguments: vec!["analyze".into(), "captures/".into()], ..Report::default() };
    for (host, address, packet, trigger, kill, pid) in HOSTS {
        report.captures.push(capture(host, 516));
        report.inputs.push(Input {
            path: format!("captures/{host}.pcap"),
            kind: Some(InputKind::Capture),
            format: Some("pcap".into()),
            host: Some(host.into()),
            ..Input::default()
        });
        report.inputs.push(Input {
            path: format!("logs/{host}.dmesg-iso"),
            kind: Some(InputKind::Log),
            format: Some("dmesg-iso".into()),
            host: Some(host.into()),
            lines: Some(52),
            not_understood: Some(0),
            ..Input::default()
        });
        report.coverage.hosts.push(HostCoverage {
            host: host.into(),
            coverage: CoverageLevel::Observed,
            from: Some(at(-60.0)),
            to: Some(at(95.0)),
            drops: Some(0),
            gaps: 0,
            reason: None,
        });
        report.listeners.push(Listener {
            id: format!("l-{host}"),
            address: address.into(),
            port: 29500,
            host: Some(host.into()),
            protocol: Protocol::Tcpstore,
            role: Some(Role::Store),
            dialect: Some("B".into()),
            backend: Some("poll".into()),
            validates: Some(false),
            connections: 21,
            died_at: Some(at(kill + 2.7)),
            advice: Some("PyTorch 2.2 or later asks for a magic number first".into()),
            ..Listener::default()
        });
        report.findings.push(finding(host, address, packet, trigger));
        report.findings.push(Finding {
            id: format!("d-{host}"),
            rule: "oversized-claim".into(),
            severity: Severity::Warning,
            time: Some(at(trigger - 5.0)),
            packet: Some(387),
            query: Some("SET".into()),
            declared: Some(Declared { bytes: Some(268_435_468), count: None, field: Some("key length".into()) }),
            stray: stray("nmap", "DNSStatusRequestTCP"),
            explanation: "256 MiB became resident, and the store stood still until the peer closed.".into(),
            ..finding(host, address, 387, trigger - 5.0)
        });
        for n in 0..7 {
            report.findings.push(Finding {
                id: format!("n-{host}-{n}"),
                rule: if n < 5 { "foreign-protocol" } else { "unknown-query" }.into(),
                severity: Severity::Notice,
                ..finding(host, address, 300 + n, trigger - 9.0)
            });
        }
        report.oom_events.push(OomEvent {
            id: format!("o-{host}"),
            host: Some(host.into()),
            time: Some(at(kill)),
            uncertainty_seconds: Some(0.000_001),
            kind: OomKind::Host,
            process: Some("python3".into()),
            pid: Some(pid),
            total_vm_bytes: Some(941_138_648 * 1024),
            anon_rss_bytes: Some(12_005_208 * 1024),
            sources: vec![LogLine { path: format!("logs/{host}.dmesg-iso"), line: Some(51) }],
            ..OomEvent::default()
        });
    }
    report.scans.push(Scan {
        id: "s-1".into(),
        source: ScanSource { address: "192.0.2.250".into(), label: None, may_be_nat: false },
        tool: Some("nmap".into()),
        profile: Some("version".into()),
        first: Some(at(-12.0)),
        last: Some(at(68.3)),
        hosts: 3,
        ports: 3,
        connections: 57,
        findings: HOSTS.iter().map(|h| format!("f-{}", h.0)).collect(),
    });
    report.coverage = Coverage { oom_hosts: 3, observed: 3, hosts: report.coverage.hosts, ..Coverage::default() };
    report.totals = Totals { packets: 1549, bytes: 139_000, flows: 121, bad_checksums: 12, ..Totals::default() };
    report.incidents.push(Incident {
        id: "i-1".into(),
        kind: IncidentKind::Oom,
        scope: Scope::Synchronized,
        verdict: Verdict::Confirmed,
        start: Some(at(10.617957)),
        end: Some(at(68.153166)),
        hosts: HOSTS
            .iter()
            .map(|(host, address, _, trigger, kill, _)| IncidentHost {
                host: host.to_string(),
                address: Some(address.to_string()),
                oom_event: Some(format!("o-{host}")),
                trigger: Some(format!("f-{host}")),
                lag_seconds: Some(kill - trigger),
                lag_uncertainty_seconds: Some(0.000_03),
                listener_died_at: Some(at(kill + 2.7)),
                verdict: Verdict::Confirmed,
                reasons: vec![
                    "total-vm of the killed process fits the claim (100.1 %)".into(),
                    "the store sent nothing after the trigger".into(),
                    format!("port 29500 was found closed {:.1} s after the kill", 2.7),
                ],
                coverage: CoverageLevel::Observed,
                ..IncidentHost::default()
            })
            .collect(),
        source: Some(IncidentSource {
            address: "192.0.2.250".into(),
            tool: Some("nmap".into()),
            label: None,
            may_be_nat: false,
        }),
        cause: Cause::Scan,
        chance: Some(Chance {
            expected_per_year: Some(0.000_31),
            window_seconds: Some(120.0),
            method: Some("Poisson, one kill a host a month assumed".into()),
        }),
        summary: "nmap at 192.0.2.250 probed the rendezvous stores of three training jobs within 35 ms. Each store \
                  (PyTorch 1.9-2.0) took the probe for a key of 0.96 TB (0.876 TiB) and asked the kernel for it; 29 to \
                  58 s later the kernel of each host killed the process."
            .into(),
        ..Incident::default()
    });
    report
}

/// A report in which nothing is null and no list is empty.
pub(crate) fn full() -> Report {
    let mut report = incident();
    let text = || Some("text".to_string());
    report.tool.commit = text();
    report.notes = vec!["a note".into()];
    for input in &mut report.inputs {
        input.kind = Some(InputKind::Facts);
        (input.format, input.host, input.timezone, input.error) = (text(), text(), text(), text());
        (input.lines, input.not_understood) = (Some(9), Some(2));
        (input.boot_time, input.warnings) = (Some(at(0.0)), vec!["a warning".into()]);
    }
    for capture in &mut report.captures {
        capture.interfaces = vec![Interface { name: text(), drops: Some(4) }];
        (capture.truncated, capture.cut_packets) = (true, 7);
        (capture.error, capture.warnings) = (text(), vec!["a warning".into()]);
    }
    for host in &mut report.coverage.hosts {
        (host.coverage, host.gaps, host.reason) = (CoverageLevel::Partial, 2, text());
    }
    for listener in &mut report.listeners {
        listener.dialect_candidates = vec!["B".into(), "C".into()];
        listener.honours = Some(Honours { string_bytes: Some(8 << 20), keys: Some(128) });
        (listener.version, listener.learned_from) = (text(), text());
        (listener.first_seen, listener.last_seen) = (Some(at(0.0)), Some(at(1.0)));
    }
    report.jobs.push(Job {
        protocol: Protocol::Tcpstore,
        run_id: text(),
        world_size: Some(6),
        participants: vec![Participant {
            rank: Some(0),
            host: text(),
            address: text(),
            joined: Some(at(0.0)),
            last_seen: Some(at(1.0)),
            last_keep_alive: Some(at(0.9)),
            fell_silent: Some(at(1.0)),
        }],
        listener: Some("l-node-a".into()),
        signs_of_life: vec![SignOfLife {
            kind: SignKind::KeepAlive,
            host: text(),
            address: text(),
            pid: Some(22749),
            key: text(),
            connection: text(),
            joined: Some(at(0.0)),
            last_seen: Some(at(1.0)),
            last_keep_alive: Some(at(0.9)),
            count: 7,
            interval_seconds: Some(5.0),
            fell_silent: Some(at(1.0)),
            first_of_job: true,
            observed_until: Some(at(40.0)),
            removed: Some(at(16.0)),
            disconnected: Some(at(2.0)),
            basis: "text".into(),
        }],
        timeline: vec![Moment {
            time: Some(at(1.0)),
            kind: JobEvent::FellSilent,
            host: text(),
            address: text(),
            text: "text".into(),
            capture: text(),
            packet: Some(489),
        }],
    });
    report.communicators.push(Communicator {
        magic: Some("a02980fd81333565".into()),
        root: Some("192.0.2.11:55225".into()),
        nranks: Some(4),
        ranks: vec![RankAddress { rank: 3, address: text(), time: Some(at(3.0)) }],
        complete: false,
        roots: vec!["192.0.2.11:45999".into()],
    });
    report.clocks.push(Clock {
        host: "node-b".into(),
        against: text(),
        offset_seconds: Some(-0.25),
        uncertainty_seconds: Some(0.001),
        method: text(),
        applied: true,
    });
    for scan in &mut report.scans {
        (scan.source.label, scan.source.may_be_nat) = (text(), true);
    }
    for finding in &mut report.findings {
        finding.outer =
            vec![OuterHeader { kind: "vxlan".into(), source: "a".into(), target: "b".into(), id: Some(42) }];
        (finding.dialect_candidates, finding.alternate_bytes_hex) = (vec!["B".into()], Some("00ff".into()));
        finding.declared = Some(Declared { bytes: Some(u64::MAX), count: Some(9), field: text() });
    }
    for event in &mut report.oom_events {
        (event.cgroup, event.time_source) = (text(), text());
        event.workload = Some(Workload { kind: WorkloadKind::Pod, id: text(), name: text(), namespace: text() });
    }
    for incident in &mut report.incidents {
        incident.survivors = vec![Survivor {
            host: "node-d".into(),
            address: Some("192.0.2.14".into()),
            listener: text(),
            reason: "it validates and closed the connection".into(),
        }];
        incident.settled_by = vec!["--log-tz node-b=UTC".into()];
        incident.source = incident.source.take().map(|source| IncidentSource { label: text(), ..source });
    }
    report.totals.skipped.insert("not TCP".into(), 17);
    report.totals.unread = 1;
    report.incomplete = true;
    report
}

/// Kills that nobody watched.
pub(crate) fn unexplained() -> Report {
    let mut report = incident();
    report.findings.clear();
    report.scans.clear();
    report.listeners.clear();
    report.coverage.observed = 0;
    report.coverage.not_observed = 3;
    for host in &mut report.coverage.hosts {
        *host = HostCoverage {
            host: std::mem::take(&mut host.host),
            reason: Some("no capture of this host was given".into()),
            ..HostCoverage::default()
        };
    }
    for incident in &mut report.incidents {
        (incident.verdict, incident.source, incident.cause) = (Verdict::Unexplained, None, Cause::Unknown);
        (incident.chance, incident.summary) = (None, "Three hosts lost a process within 29 s.".into());
        for host in &mut incident.hosts {
            (host.trigger, host.lag_seconds, host.lag_uncertainty_seconds) = (None, None, None);
            (host.verdict, host.coverage) = (Verdict::Unexplained, CoverageLevel::NotObserved);
            (host.listener_died_at, host.reasons) = (None, vec!["no capture of this host was given".into()]);
        }
    }
    report
}

/// The recorded incident with every text replaced by `text`.
pub(crate) fn hostile(text: &str) -> Report {
    let mut report = full();
    let t = || text.to_string();
    report.notes = vec![t()];
    report.tool = Tool { name: t(), version: t(), commit: Some(t()), model_version: t() };
    for input in &mut report.inputs {
        (input.path, input.error, input.warnings) = (t(), Some(t()), vec![t(), t()]);
    }
    for capture in &mut report.captures {
        (capture.path, capture.error, capture.warnings) = (t(), Some(t()), vec![t()]);
    }
    for host in &mut report.coverage.hosts {
        (host.host, host.reason) = (t(), Some(t()));
    }
    for l in &mut report.listeners {
        (l.address, l.host, l.dialect, l.backend, l.advice) = (t(), Some(t()), Some(t()), Some(t()), Some(t()));
        l.version = Some(t());
    }
    for scan in &mut report.scans {
        scan.source = ScanSource { address: t(), label: Some(t()), may_be_nat: true };
        (scan.tool, scan.profile) = (Some(t()), Some(t()));
    }
    for job in &mut report.jobs {
        job.run_id = Some(t());
        job.participants.iter_mut().for_each(|p| p.host = Some(t()));
    }
    for c in &mut report.communicators {
        (c.magic, c.root, c.roots) = (Some(t()), Some(t()), vec![t(), t()]);
    }
    for clock in &mut report.clocks {
        (clock.host, clock.against, clock.method) = (t(), Some(t()), Some(t()));
    }
    for f in &mut report.findings {
        (f.rule, f.capture, f.community_id, f.dialect, f.query) = (t(), Some(t()), Some(t()), Some(t()), Some(t()));
        f.source = Some(Sender { address: t(), port: Some(1) });
        f.target = Some(Target { address: t(), port: None, host: Some(t()) });
        (f.bytes_hex, f.protocol, f.explanation, f.remedy) = (Some(t()), Some(t()), t(), Some(t()));
        f.stray = Some(Stray { protocol: Some(t()), tool: Some(t()), probe: Some(t()) });
        f.sightings = vec![Sighting { capture: t(), packet: None }];
        f.outer = vec![OuterHeader { kind: t(), source: t(), target: t(), id: None }];
        f.declared = Some(Declared { bytes: Some(7), count: Some(u64::MAX), field: Some(t()) });
        f.evidence = vec![t()];
    }
    for event in &mut report.oom_events {
        (event.host, event.process) = (Some(t()), Some(t()));
        event.sources = vec![LogLine { path: t(), line: Some(1) }];
    }
    for incident in &mut report.incidents {
        incident.summary = t();
        incident.source = Some(IncidentSource { address: t(), tool: Some(t()), label: Some(t()), may_be_nat: true });
        for host in &mut incident.hosts {
            (host.host, host.address, host.reasons) = (t(), Some(t()), vec![t()]);
        }
        incident.survivors = vec![Survivor { host: t(), address: Some(t()), listener: None, reason: t() }];
        incident.settled_by = vec![t()];
        incident.chance = Some(Chance { method: Some(t()), ..Chance::default() });
    }
    report.totals.skipped.insert(t(), 3);
    report
}
