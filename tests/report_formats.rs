//! The forms of a report besides terminal and JSON: what they must hold, and what must never come through.

mod samples;

use std::path::{Path, PathBuf};
use std::process::Command;

use rdzvscope::api::report::model::*;
use rdzvscope::api::report::{csv, html, markdown};
use sha2::Digest;

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name).to_string_lossy().into_owned()
}

/// Runs the program; its output and whether it flagged something.
fn run(arguments: &[String]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_rdzvscope")).arg("analyze").args(arguments).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// The recorded incident, with these arguments besides.
fn incident(more: &[&str]) -> String {
    let mut arguments: Vec<String> = ["node-a.pcap", "node-b.pcap", "node-c.pcap", "logs"]
        .iter()
        .map(|n| data(&format!("incident-torch1.13/{n}")))
        .collect();
    arguments.extend(["--hosts".to_string(), data("hosts")]);
    arguments.extend(["--boot".to_string(), "node-a=2026-11-29T11:12:08Z".to_string()]);
    arguments.extend(more.iter().map(|m| m.to_string()));
    let (text, status) = run(&arguments);
    assert_eq!(status, Some(1), "{text}");
    text
}

/// Parses RFC 4180, strictly: quotes only around whole cells, CR LF at the end of every line.
fn parsed(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut cell = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted;
            loop {
                let (before, after) = rest.split_once('"').expect("an open quote");
                cell.push_str(before);
                rest = after;
                match rest.strip_prefix('"') {
                    Some(after) => {
                        cell.push('"');
                        rest = after;
                    }
                    None => break,
                }
            }
        } else {
            let end = rest.find([',', '\r', '\n', '"']).expect("an end of line");
            cell.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        row.push(cell);
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
        } else {
            rest = rest.strip_prefix("\r\n").expect("CR LF or a comma");
            rows.push(std::mem::take(&mut row));
        }
    }
    assert!(row.is_empty());
    rows
}

#[test]
fn a_ticket_holds_the_incident_in_forty_lines() {
    let text = incident(&["--format", "markdown"]);
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.starts_with("### CONFIRMED: one synchronized failure of 3 hosts, caused by a scan from 192.0.2.250"));
    for fact in [
        "| `node-b` 192.0.2.12 | unit `train.service` | 11:20:10.634682Z, node-b.pcap frame 412 | ADD, key length 962 696",
        "3 of 3 OOM hosts observed",
        "28.7 s ± 1 s | confirmed |",
        "ip saddr != { 192.0.2.11, 192.0.2.12, 192.0.2.13 } tcp dport { 29500 } counter drop",
        "PyTorch 2.4 or later",
        "**Assumed.**",
        "node-a.pcap -Y frame.number==411 -x",
        "node-b.pcap -Y frame.number==412 -x",
        "node-c.pcap -Y frame.number==410 -x",
    ] {
        assert!(text.contains(fact), "{fact} is not in\n{text}");
    }
}

#[test]
fn a_ticket_never_grows_beyond_forty_lines() {
    let mut report = samples::incident();
    let incident = report.incidents[0].clone();
    for n in 0..300 {
        for host in &incident.hosts {
            let name = format!("{}-{n}", host.host);
            report.incidents[0].hosts.push(IncidentHost { host: name, ..host.clone() });
        }
        report.incidents.push(incident.clone());
        report.incidents[0].survivors.push(Survivor { host: format!("s{n}"), ..Survivor::default() });
        report.incidents[0].settled_by.push(format!("--hosts FILE{n}"));
    }
    let text = markdown::render(&report);
    assert!(text.lines().count() <= markdown::MAX_LINES, "{} lines\n{text}", text.lines().count());
    assert!(text.matches("```").count().is_multiple_of(2), "{text}");
    assert!(text.contains("more hosts"), "{text}");
    report.incidents.clear();
    let text = markdown::render(&report);
    assert!(text.lines().count() <= markdown::MAX_LINES, "{text}");
}

#[test]
fn the_page_loads_nothing_and_tells_everything() {
    let text = incident(&["--format", "html"]);
    for foreign in
        ["http://", "https://", "//cdn", " src=", "@import", "<link", "<iframe", "<img", "url(http", "url(//"]
    {
        assert!(!text.contains(foreign), "{foreign}");
    }
    // The only references are to places in the page itself.
    for reference in text.split("href=\"").skip(1).chain(text.split("url(").skip(1)) {
        assert!(reference.starts_with('#'), "{}", &reference[..40]);
    }
    // The one script is allowed by its hash, and no other.
    let scripts: Vec<&str> = text.split("<script").skip(1).collect();
    let script = scripts[0].strip_prefix('>').and_then(|s| s.split_once("</script>")).unwrap().0;
    let hash = data_encoding::BASE64.encode(&sha2::Sha256::digest(script));
    assert_eq!(scripts.len(), 1);
    assert!(text.contains(&format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; style-src \
         &#39;unsafe-inline&#39;; script-src &#39;sha256-{hash}&#39;\">"
    )));
    for fact in [
        "<svg viewBox=",
        ">39.0 s</text>",
        ">28.7 s</text>",
        ">57.5 s</text>",
        "class=\"trigger\"",
        "class=\"kill\"",
        "class=\"death\"",
        "class=\"silence\"",
        "scan: nmap, version scan",
        "<span class=\"ty\">03</span> <span class=\"le\">00 00 2a 25 e0 00 00  00</span> <span class=\"pa\">00 00 43",
        "tshark -r ",
        "prefers-color-scheme: dark",
        "@media print",
        "train.service",
    ] {
        assert!(text.contains(fact), "{fact}");
    }
    balanced(&text);
}

/// Every element but the void ones is closed, in order.
fn balanced(text: &str) {
    let body = &text[text.find("<body>").unwrap()..text.find("<script>").unwrap()];
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1) {
        let tag = &tag[..tag.find('>').expect("a tag's end")];
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "before </{name}>"),
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert_eq!(open, ["body"]);
}

#[test]
fn a_sheet_parses_back() {
    let rows = parsed(&incident(&["--format", "csv"]));
    assert_eq!(rows[0], csv::COLUMNS);
    assert!(rows.iter().all(|r| r.len() == csv::COLUMNS.len()));
    let at = |name: &str| csv::COLUMNS.iter().position(|c| *c == name).unwrap();
    let trigger = rows.iter().find(|r| r[at("packet")] == "411" && r[at("rule")] == "store-claim").unwrap();
    assert_eq!(trigger[at("declared_bytes")], "962696183808");
    assert_eq!(trigger[at("time")], "2026-11-29T11:20:10.652448000Z");
    assert_eq!((trigger[at("target_host")].as_str(), trigger[at("stray_tool")].as_str()), ("node-a", "nmap"));
    assert_eq!(trigger[at("incident_verdict")], "confirmed");
    assert_eq!(trigger[at("lag_seconds")], "39.001218");
}

/// Text that does harm wherever it is taken for more than text.
const HOSTILE: &str =
    "=\"'></script><svg onload=alert(1)>\u{202e}\x1b[2J\r\n|```[x](https://evil.example)@all #12 www.evil";

/// The incident with that text in all places that come from outside.
fn hostile() -> Report {
    let mut r = samples::incident();
    let bad = || HOSTILE.to_string();
    r.arguments = vec![bad()];
    r.notes = vec![bad()];
    for f in &mut r.findings {
        (f.rule, f.explanation, f.capture, f.query) = (bad(), bad(), Some(bad()), Some(bad()));
        (f.remedy, f.evidence, f.dialect) = (Some(bad()), vec![bad()], Some(bad()));
        f.stray = Some(Stray { protocol: Some(bad()), tool: Some(bad()), probe: Some(bad()) });
        f.source = Some(Sender { address: bad(), port: Some(1) });
        if let Some(t) = &mut f.target {
            t.host = Some(bad());
        }
        if let Some(d) = &mut f.declared {
            d.field = Some(bad());
        }
        f.id.push_str(HOSTILE);
    }
    for i in &mut r.incidents {
        i.summary = bad();
        i.settled_by = vec![bad()];
        for h in &mut i.hosts {
            h.host = bad();
            h.reasons = vec![bad()];
            h.trigger = h.trigger.take().map(|t| t + HOSTILE);
        }
        i.source = Some(IncidentSource { address: bad(), tool: Some(bad()), label: Some(bad()), may_be_nat: true });
        i.survivors = vec![Survivor { host: bad(), reason: bad(), ..Survivor::default() }];
    }
    for e in &mut r.oom_events {
        (e.process, e.host, e.time_source) = (Some(bad()), Some(bad()), Some(bad()));
        let kind = WorkloadKind::Pod;
        e.workload = Some(Workload { kind, id: Some(bad()), name: Some(bad()), namespace: Some(bad()) });
    }
    for l in &mut r.listeners {
        (l.host, l.advice, l.dialect, l.learned_from) = (Some(bad()), Some(bad()), Some(bad()), Some(bad()));
    }
    for input in &mut r.inputs {
        (input.path, input.warnings, input.error) = (bad(), vec![bad()], Some(bad()));
    }
    for c in &mut r.captures {
        c.path = bad();
    }
    r
}

#[test]
fn hostile_text_stays_text_in_a_page() {
    let text = html::render(&hostile());
    balanced(&text);
    assert!(!text.contains("://") && !text.contains("onload=alert(1)>") && !text.contains("<svg onload"), "{text}");
    assert_eq!(text.matches("</script>").count(), 1);
    assert!(!text.contains(|c: char| rdzvscope::api::report::escape::is_unsafe(c) && c != '\n'));
    // No line of the source begins with what came from outside, so nothing of it can pass for a line of ours.
    assert!(text.contains("&lt;/script&gt;") && text.contains("\\u{202e}\\x1b[2J\\r\\n"));
}

#[test]
fn hostile_text_stays_text_in_a_ticket() {
    let text = markdown::render(&hostile());
    assert!(text.lines().count() <= markdown::MAX_LINES);
    assert!(!text.contains(|c: char| rdzvscope::api::report::escape::is_unsafe(c) && c != '\n'));
    let mut code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            code = !code;
            assert!(line == "```" || line == "```sh", "{line}");
            continue;
        }
        if code {
            assert!(line.starts_with("tshark -r '") || line.starts_with("nft '") || line.starts_with("# "), "{line}");
            continue;
        }
        if line.starts_with('|') && !line.starts_with("|---") {
            let borders = line.replace("\\|", "").matches('|').count();
            assert_eq!(borders, 8, "{line}");
        }
        // Outside of code spans nothing is a tag, a link, a mention or a reference.
        for prose in outside_code(line) {
            let plain = prose.replace("\\[", "").replace("\\]", "").replace("\\#", "");
            for bad in ["<", "](", "@", "://", " #1", "www."] {
                assert!(!plain.contains(bad), "{bad} in {prose}");
            }
        }
    }
    assert!(!code);
}

/// The parts of a line of Markdown that stand in no code span.
fn outside_code(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        parts.last_mut().unwrap().push_str(&rest[..at]);
        rest = &rest[at..];
        let run = rest.chars().take_while(|c| *c == '`').count();
        let fence = "`".repeat(run);
        let after = &rest[run..];
        let mut from = 0;
        let end = loop {
            let at = from + after[from..].find(&fence).expect("a code span's end");
            let length = after[at..].chars().take_while(|c| *c == '`').count();
            if length == run {
                break at + run;
            }
            from = at + length;
        };
        rest = &after[end..];
        parts.push(String::new());
    }
    parts.last_mut().unwrap().push_str(rest);
    parts
}

#[test]
fn hostile_text_stays_text_in_a_sheet() {
    let mut out = Vec::new();
    csv::write_csv(&hostile(), &mut out).unwrap();
    for row in parsed(&String::from_utf8(out).unwrap()) {
        assert_eq!(row.len(), csv::COLUMNS.len());
        for cell in row {
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{cell}");
            assert!(!cell.contains(rdzvscope::api::report::escape::is_unsafe), "{cell:?}");
        }
    }
}

/// Frame number, comment, time and bytes of each packet, as tshark reads them; `None` where there is no tshark.
fn frames(path: &Path) -> Option<Vec<(String, String)>> {
    let fields =
        ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.comment", "-e", "frame.len", "-e", "tcp.seq_raw"];
    let output = Command::new("tshark").arg("-r").arg(path).args(fields).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(
        text.lines()
            .map(|l| {
                let f: Vec<&str> = l.split('\t').collect();
                (
                    f.get(1).unwrap_or(&"").to_string(),
                    format!("{} {} {}", f[0], f.get(2).unwrap_or(&""), f.get(3).unwrap_or(&"")),
                )
            })
            .collect(),
    )
}

/// Number and bytes of every packet, as this program's reader gives them.
fn packets(path: &Path) -> Vec<(i64, u32, u32, Vec<u8>)> {
    use rdzvscope::api::capture::{Limits, Reader};
    let mut reader = Reader::open(path, &Limits::default()).unwrap();
    let mut all = Vec::new();
    while let Some(p) = reader.next().unwrap() {
        all.push((p.time.0, p.link_type.0, p.original_length, p.data.to_vec()));
    }
    all
}

/// Rule and id of the claims in a report as CSV.
fn claims(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<_> = parsed(text)
        .into_iter()
        .filter(|r| r[1].starts_with("store-") && ["critical", "warning"].contains(&r[2].as_str()))
        .map(|r| (r[1].clone(), r[0].clone()))
        .collect();
    all.sort();
    all
}

fn file(directory: &tempfile::TempDir, name: &str) -> (PathBuf, String) {
    let path = directory.path().join(name);
    (path.clone(), path.to_string_lossy().into_owned())
}

#[test]
fn carved_packets_are_the_original_ones_and_tell_the_same_claims() {
    let directory = tempfile::tempdir().unwrap();
    let (path, name) = file(&directory, "carved.pcapng");
    let before = incident(&["--format", "csv", "--carve", &name]);
    let originals: std::collections::HashSet<_> = ["a", "b", "c"]
        .iter()
        .flat_map(|n| packets(Path::new(&data(&format!("incident-torch1.13/node-{n}.pcap")))))
        .collect();
    let carved = packets(&path);
    assert!(carved.len() > 20 && carved.iter().all(|p| originals.contains(p)));
    assert!(carved.is_sorted_by_key(|p| p.0));
    let (after, status) = run(&[name.clone(), "--format".into(), "csv".into()]);
    assert_eq!((status, claims(&after)), (Some(1), claims(&before)));
    assert_eq!(claims(&after).len(), 7);
    // The same capture carved again is the same file.
    let (again, other) = file(&directory, "again.pcapng");
    incident(&["--format", "csv", "--carve", &other]);
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(again).unwrap());
    let Some(frames) = frames(&path) else { return };
    assert_eq!(frames.len(), carved.len());
    for (rule, id) in claims(&before) {
        let held = |c: &str| c.contains(&format!("{id} {rule}: The client sent"));
        assert_eq!(frames.iter().filter(|(c, _)| held(c)).count(), 1, "{id}");
    }
}

#[test]
fn fragments_are_carved_with_their_datagram() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["scans/frag-version-scan.pcap", "scans/ipv6-version-scan.pcap", "links/vxlan-underlay.pcap"] {
        // A capture is never overwritten, one of our own neither.
        let (path, carved) = file(&directory, "carved.pcapng");
        let _ = std::fs::remove_file(path);
        let csv = ["--format".to_string(), "csv".to_string()];
        let (before, _) = run(&[&[data(name), "--carve".into(), carved.clone()], &csv[..]].concat());
        let (after, _) = run(&[&[carved], &csv[..]].concat());
        assert!(!claims(&before).is_empty());
        assert_eq!(claims(&after), claims(&before), "{name}");
    }
}

#[test]
fn an_annotated_capture_keeps_every_packet_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let (path, name) = file(&directory, "annotated.pcapng");
    for capture in ["incident-torch1.13/node-a.pcap", "links/three-interfaces.pcapng"] {
        let original = PathBuf::from(data(capture));
        let _ = std::fs::remove_file(&path);
        run(&[data(capture), "--annotate".into(), name.clone(), "--quiet".into()]);
        assert_eq!(packets(&path), packets(&original), "{capture}");
    }
    std::fs::remove_file(&path).unwrap();
    run(&[data("incident-torch1.13/node-a.pcap"), "--annotate".into(), name, "-q".into()]);
    let (Some(frames), Some(before)) = (frames(&path), frames(Path::new(&data("incident-torch1.13/node-a.pcap"))))
    else {
        return;
    };
    assert!(frames[410].0.starts_with("rdzvscope ") && frames[410].0.contains("store-claim"), "{}", frames[410].0);
    assert!(frames.iter().zip(&before).all(|(a, b)| a.1 == b.1));
}

#[test]
fn annotated_captures_are_merged_by_time() {
    let directory = tempfile::tempdir().unwrap();
    let (path, name) = file(&directory, "annotated.pcapng");
    let nodes = ["a", "b", "c"].map(|n| data(&format!("incident-torch1.13/node-{n}.pcap")));
    run(&[&nodes[..], &["--annotate".into(), name, "-q".into()]].concat());
    let files = nodes.map(|n| packets(Path::new(&n)));
    let mut all = files.concat();
    let written = packets(&path);
    // A packet before an earlier one stands so in its own file.
    let as_recorded = |pair: &[_]| files.iter().any(|f| f.windows(2).any(|own| own == pair));
    assert!(written.windows(2).all(|pair| pair[0].0 <= pair[1].0 || as_recorded(pair)));
    let mut sorted = written;
    all.sort();
    sorted.sort();
    assert!(sorted == all, "{} packets of {}", sorted.len(), all.len());
}

#[test]
fn no_capture_is_overwritten_and_one_must_be_there_to_annotate() {
    let directory = tempfile::tempdir().unwrap();
    let (path, name) = file(&directory, "node-a.pcap");
    std::fs::copy(data("incident-torch1.13/node-a.pcap"), &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    for flag in ["--carve", "--annotate"] {
        let (_, status) = run(&[name.clone(), flag.into(), name.clone()]);
        assert_eq!((status, std::fs::read(&path).unwrap() == before), (Some(2), true), "{flag}");
    }
    let (_, out) = file(&directory, "out.pcapng");
    let none = [data("incident-torch1.13/logs/node-a.dmesg"), "--annotate".into(), out.clone()];
    assert_eq!(run(&none).1, Some(2));
    assert!(!Path::new(&out).exists());
}
