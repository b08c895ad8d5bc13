//! The terminal report: what it must say, how wide it may be, and what must never come through.

mod samples;

use rdzvscope::api::report::model::*;
use rdzvscope::api::report::size::Zone;
use rdzvscope::api::report::table::{Style, headline, render};
use unicode_width::UnicodeWidthStr;

const STYLES: [(usize, bool, bool, bool); 6] = [
    (100, false, false, false),
    (100, true, false, false),
    (100, true, true, true),
    (80, false, false, true),
    (88, true, true, false),
    (0, false, true, false),
];

/// Renders in every style, holding each to width, charset and cleanliness; the plain ASCII one comes back.
fn rendered(report: &Report) -> String {
    for (width, unicode, colour, verbose) in STYLES {
        let style = Style { width, unicode, colour, verbose, zone: Zone::Utc };
        let mut text = render(report, &style);
        if colour {
            assert!(text.contains("\x1b["), "no colour in {style:?}");
            for ansi in ["\x1b[1;31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"] {
                text = text.replace(ansi, "");
            }
        }
        assert!(text.ends_with('\n'));
        assert!(unicode || text.is_ascii(), "not ASCII: {:?}", text.chars().find(|c| !c.is_ascii()));
        let bad = |c: &char| rdzvscope::api::report::escape::is_unsafe(*c) && *c != '\n';
        assert_eq!(text.chars().find(bad), None, "{style:?}");
        for line in text.lines() {
            assert!(line.width() <= width.clamp(80, 100), "{} columns in {style:?}: {line}", line.width());
        }
    }
    render(report, &Style::default())
}

/// The text without line breaks and borders, so that a phrase is found however it is wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_recorded_incident_is_told_from_the_top() {
    let text = rendered(&samples::incident());
    let lines: Vec<_> = text.lines().collect();
    let head =
        "CONFIRMED: one synchronized failure of 3 hosts, caused by a scan from 192.0.2.250 (nmap TerminalServerCookie)";
    assert!(flat(&text).starts_with(head), "{text}");
    assert!(lines.iter().take(4).any(|l| *l == "3 of 3 OOM hosts observed."), "{text}");
    for fact in [
        "node-a.pcap #411",
        "node-b.pcap #412",
        "node-c.pcap #410",
        "11:20:10.652448Z",
        "11:20:49.653666Z",
        "39.0 s",
        "28.7 s",
        "57.5 s",
        "962 696 183 808 bytes",
        "0.96 TB, 0.876 TiB",
        "= claim + 1.03 GB",
        "python3 pid 10267",
        "of 2026-11-29",
        "0000  03 00 00 2a 25 e0 00 00  00 00 00 43 6f 6f 6b 69  ...*%......Cooki",
        "tshark -r captures/node-a.pcap -Y frame.number==411 -x",
        "community id 1:s6tFPcNMWkrAuytBylIOPRc1meE=",
        "dialect tcpstore B (PyTorch 1.9-2.0)",
        "21 notices: 15 foreign-protocol, 6 unknown-query; -v shows them",
        "about one such coincidence to be expected in 3 226 years",
        "1 549 packets",
        "12 bad checksums",
        "node-a, node-b, node-c (confirmed)",
    ] {
        assert!(text.contains(fact), "{fact} is not in\n{text}");
    }
    assert!(text.find("3 of 3").unwrap() < text.find("node-a.pcap").unwrap());
}

#[test]
fn the_empty_report_says_what_was_watched() {
    let text = rendered(&Report::default());
    assert!(text.starts_with("No incident"), "{text}");
    assert!(flat(&text).contains("No log was given, so no OOM kill could be seen; 0 captures, 0 packets"), "{text}");
    assert!(text.contains("No stream of a known protocol was seen"), "{text}");
}

#[test]
fn a_quiet_night_counts_logs_and_names_protocols() {
    let mut report = samples::incident();
    (report.incidents, report.oom_events, report.coverage) = (vec![], vec![], Coverage::default());
    report.findings.retain(|f| f.severity < Severity::Warning);
    let text = rendered(&report);
    assert!(text.starts_with("No incident, and nothing flagged"), "{text}");
    assert!(flat(&text).contains("0 OOM events in 3 logs; 3 captures, 1 549 packets, 121 TCP flows"), "{text}");
    assert!(text.contains("Known protocols seen: tcpstore at 3 listeners."), "{text}");
    let mut report = samples::incident();
    report.incidents.clear();
    let text = rendered(&report);
    assert!(text.starts_with("No incident, but 3 critical and 3 warning findings"), "{text}");
    assert!(text.contains("OOM events outside incidents"), "{text}");
    report.findings.clear();
    assert!(rendered(&report).starts_with("No incident: 3 OOM events, nothing flagged"));
}

#[test]
fn hosts_nobody_watched_are_not_called_untouched() {
    let text = rendered(&samples::unexplained());
    assert!(text.starts_with("UNEXPLAINED: one synchronized failure of 3 hosts, no capture watched it\n"), "{text}");
    assert!(text.contains("0 of 3 OOM hosts observed, 3 not observed."), "{text}");
    assert!(
        text.contains("node-a, node-b, node-c: not observed: no capture holds the traffic before the kill"),
        "{text}"
    );
    assert!(text.contains("none found"), "{text}");
}

#[test]
fn verdicts_below_confirmed_do_not_claim_a_cause() {
    let mut report = samples::incident();
    for (verdict, words) in [
        (Verdict::Probable, "probably caused by"),
        (Verdict::Possible, "possibly caused by"),
        (Verdict::Unexplained, "not explained by"),
    ] {
        report.incidents[0].verdict = verdict;
        assert!(headline(&report, &report.incidents[0]).contains(words));
    }
    report.incidents[0].cause = Cause::VersionMismatch;
    report.findings.iter_mut().for_each(|f| f.stray = None);
    report.incidents[0].source.as_mut().unwrap().tool = None;
    let line = headline(&report, &report.incidents[0]);
    assert!(line.ends_with("a client of another PyTorch release (no scan) from 192.0.2.250"), "{line}");
}

#[test]
fn the_surest_incident_leads_and_the_others_follow() {
    let mut report = samples::incident();
    let mut other = samples::unexplained().incidents.remove(0);
    other.hosts.truncate(1);
    other.scope = Scope::SingleHost;
    report.incidents.insert(0, other);
    let text = rendered(&report);
    assert!(text.starts_with("CONFIRMED: "), "{text}");
    assert!(text.contains("also UNEXPLAINED: an OOM kill on node-a"), "{text}");
    assert!(text.find("Incident 1 of 2").unwrap() < text.find("Incident 2 of 2").unwrap());
}

#[test]
fn nothing_that_went_wrong_is_lost() {
    let mut report = samples::full();
    report.inputs[0].error = Some("permission denied".into());
    report.captures[0].warnings = vec!["fragment overlap".into()];
    let text = rendered(&report);
    for fact in [
        "INCOMPLETE: reading stopped early",
        "1 input was not read",
        "error: captures/node-a.pcap: permission denied",
        "warning: captures/node-a.pcap: fragment overlap",
        "2 lines not understood",
        "7 packets cut by the snaplen",
        "4 packets dropped while capturing",
        "ends within a packet",
        "Packets not looked into: 17 not TCP.",
        "inside vxlan 42, a -> b",
        "Would settle it: --log-tz node-b=UTC",
        "node-d (192.0.2.14): it validates and closed the connection",
        "the overlapping segment says instead",
        "1 of 4 ranks checked in, incomplete",
        "node-b: -0.250000 s +/- 1 ms against text",
    ] {
        assert!(flat(&text).contains(fact), "{fact} is not in\n{text}");
    }
}

#[test]
fn hostile_text_stays_text() {
    let long = "x".repeat(100_000);
    let zalgo = format!("a{}", "\u{301}".repeat(5000));
    for text in [
        "\x1b[2J\x1b]0;owned\x07\r\nCONFIRMED: forged\n",
        "\u{202e}txt.exe\u{2066}\u{200f}\u{61c}\u{200b}\u{feff}\u{2061}\u{2064}\u{a0}\u{ad}",
        "\u{85}\u{9b}31m\u{2028}|`$(reboot)`'\"<script>",
        "键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名键名",
        "👩‍👩‍👧‍👦👩‍👩‍👧‍👦🇩🇪🇩🇪 ｗｉｄｅ",
        "",
        " ",
        &long,
        &zalgo,
    ] {
        let shown = rendered(&samples::hostile(text));
        assert!(!shown.lines().any(|l| l.starts_with("CONFIRMED: forged")), "{shown}");
    }
}

#[test]
fn nothing_but_nulls_is_shown_all_the_same() {
    let mut report = Report {
        inputs: vec![Input::default()],
        captures: vec![Capture::default()],
        listeners: vec![Listener::default(), Listener { advice: Some(String::new()), ..Listener::default() }],
        jobs: vec![Job::default()],
        communicators: vec![Communicator::default()],
        scans: vec![Scan::default()],
        clocks: vec![Clock::default()],
        oom_events: vec![OomEvent::default(), OomEvent { id: "other".into(), ..OomEvent::default() }],
        incidents: vec![Incident::default(), Incident::default()],
        ..Report::default()
    };
    report.incidents[0].hosts = vec![IncidentHost {
        trigger: Some("missing".into()),
        oom_event: Some(String::new()),
        lag_seconds: Some(f64::NAN),
        lag_uncertainty_seconds: Some(f64::INFINITY),
        ..IncidentHost::default()
    }];
    for severity in Severity::ALL {
        report.findings.push(Finding { severity: *severity, effects: vec![Effect::default()], ..Finding::default() });
    }
    rendered(&report);
}

#[test]
fn long_lists_are_counted_where_they_are_cut() {
    let mut report = samples::incident();
    for n in 0..5_000u64 {
        report.findings.push(Finding {
            id: format!("{n}"),
            rule: format!("rule-{n}"),
            severity: if n % 2 == 0 { Severity::Warning } else { Severity::Info },
            ..Finding::default()
        });
        report.listeners.push(Listener { port: n as u16, protocol: Protocol::Gloo, ..Listener::default() });
        report.inputs.push(Input { path: format!("p{n}"), error: Some("no such file".into()), ..Input::default() });
    }
    let text = rendered(&report);
    assert!(text.contains("more rows (-v shows them)"), "{text}");
    assert!(text.contains("4 983 more (-v shows them)"), "{text}");
    assert!(flat(&text).contains("p0, p1, p10, p100, and 4996 more: no such file"), "{text}");
    assert!(text.lines().count() < 500, "{}", text.lines().count());
}

#[test]
fn repeated_findings_are_one_row() {
    let mut report = samples::incident();
    let again: Vec<_> = (0..5u64)
        .map(|n| Finding { id: format!("again-{n}"), packet: Some(500 + n), ..report.findings[0].clone() })
        .collect();
    report.findings.extend(again);
    let text = rendered(&report);
    assert!(text.contains("8 times") && text.contains("#500") && text.contains("and 3 more"), "{text}");
}

#[test]
fn a_path_too_long_for_a_line_is_still_one_word_for_a_shell() {
    let mut report = samples::incident();
    let path = format!("/captures/{}/it's here.pcap", "d".repeat(150));
    report.findings[0].capture = Some(path.clone());
    let text = rendered(&report);
    let from = text.find("  tshark \\").unwrap();
    let to = text[from..].find("\n\n").map_or(text.len(), |to| from + to);
    let script = text[from..to].replacen("  tshark", "printf '%s\\n'", 1);
    let out = std::process::Command::new("sh").arg("-c").arg(&script).output().unwrap();
    let words = String::from_utf8(out.stdout).unwrap();
    assert!(words.lines().any(|line| line == path), "{script}\n{words}");
}

#[test]
fn foreign_text_cannot_colour() {
    let style = Style { colour: true, unicode: true, ..Style::default() };
    let opened = |text: &str| render(&samples::hostile(text), &style).matches("\x1b[1;31m").count();
    assert!(opened("x") > 0);
    // As long as its escape, so that lines break at the same places: a line that goes on does so in its colour.
    assert_eq!(opened("\u{2061}"), opened("<U+2061>"));
}

#[test]
fn eighty_columns_break_no_time_and_no_number() {
    let text = render(&samples::incident(), &Style { width: 80, ..Style::default() });
    for fact in [
        "11:20:49.653666Z",
        "962 696 183 808 B",
        "0.96 TB, 0.876 TiB",
        "TerminalServerCookie |",
        "lag 39.0 s",
        "| confirmed",
    ] {
        assert!(text.contains(fact), "{fact} is not in\n{text}");
    }
}
