//! Where alerts go, what is withheld, what is counted.

mod checkers;
mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use checkers::{is_root, said, skipped, tool, well};
use common::{command, data};

/// A pass over the capture of a host whose store was killed, with its kernel log.
fn pass(place: &Path, more: &[&str]) -> (i32, String, String) {
    let log = std::fs::read_dir(data("incident-torch1.13/logs")).unwrap().map(|e| e.unwrap().path()).find(|p| {
        let name = p.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("node-b") && name.contains("iso")
    });
    let output = command()
        .args(["watch", "--once", "--case"])
        .arg(place.join("case.db"))
        .arg("--oom")
        .arg(format!("node-b={}", log.unwrap().display()))
        .arg("--hosts")
        .arg(data("hosts"))
        .arg(data("incident-torch1.13/node-b.pcap"))
        .args(more)
        .output()
        .unwrap();
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_scanner_that_is_known_is_withheld_and_counted_but_never_a_kill() {
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name);
    let (list, alerts) = (at("list"), at("alerts"));
    std::fs::write(&list, "source=192.0.2.250 reason=\"approved scanner, ticket 4711\"\n").unwrap();
    let flags = ["--suppress", list.to_str().unwrap(), "--alert-file", alerts.to_str().unwrap(), "--alert-on", "info"];
    let (status, out, errors) = pass(place.path(), &flags);
    let told = lines(&alerts);
    let incident = told.iter().find(|a| a["type"] == "incident").expect("the kill is told");
    let from = |a: &&Value| a["type"] == "finding" && a["source"]["address"] == "192.0.2.250";
    assert_eq!(told.iter().filter(from).count(), 0, "{told:#?}");
    assert_eq!(status, 1, "a kill with a trigger: {errors}");
    let withheld =
        out.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).find(|v| v["type"] == "withheld").unwrap();
    assert_eq!(withheld["reason"], "approved scanner, ticket 4711");
    let count = withheld["count"].as_u64().unwrap();
    assert!(count > 0);

    let report = Command::new(command().get_program())
        .arg("report")
        .arg("--case")
        .arg(at("case.db"))
        .args(["--format", "json"])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let note = format!("{count} alerts were withheld by source=192.0.2.250 (approved scanner, ticket 4711)");
    assert!(report["notes"].as_array().unwrap().iter().any(|n| *n == note), "{}", report["notes"]);
    assert!(
        report["findings"].as_array().unwrap().iter().any(|f| from(&f) || f["source"]["address"] == "192.0.2.250"),
        "a report shows all"
    );
    let info = well(command().args(["case", "info"]).arg(at("case.db")));
    assert!(
        info.contains(&format!("{count} alerts withheld by source=192.0.2.250 (approved scanner, ticket 4711)")),
        "{info}"
    );

    // With an entry of its own the kill is withheld too, and nothing is flagged.
    let other = TempDir::new().unwrap();
    let id = incident["id"].as_str().unwrap();
    std::fs::write(
        &list,
        format!("source=192.0.2.250 reason=known\nrule=listener-died reason=known\nincident={id} reason=known\n"),
    )
    .unwrap();
    std::fs::remove_file(&alerts).unwrap();
    let (status, out, errors) = pass(other.path(), &flags);
    assert!(!lines(&alerts).iter().any(|a| a["type"] == "incident"));
    assert_eq!(status, 0, "{out}{errors}");
}

/// Systems without seccomp have no such line in `/proc/self/status`, or say so in the notes of `doctor`.
#[test]
fn commands_of_alerts_inherit_what_was_given_up() {
    if well(command().arg("doctor")).contains("seccomp      not active") {
        return skipped("this kernel takes no seccomp filter");
    }
    let place = TempDir::new().unwrap();
    let written = place.path().join("status");
    let exec = format!("grep ^Seccomp: /proc/self/status > {0}; unshare --user true 2>> {0}; true", written.display());
    let (status, _, errors) = pass(place.path(), &["--alert-exec", &exec]);
    let text = std::fs::read_to_string(&written).unwrap();
    assert!(text.contains("Seccomp:\t2") && text.contains("not implemented"), "{text}");
    assert_eq!((status, errors.as_str()), (1, ""));
    let other = TempDir::new().unwrap();
    pass(other.path(), &["--alert-exec", &exec, "--no-seccomp"]);
    assert!(std::fs::read_to_string(&written).unwrap().contains("Seccomp:\t0"));
}

#[test]
fn a_list_with_a_bad_line_is_refused_with_its_place_and_reason() {
    let place = TempDir::new().unwrap();
    let list = place.path().join("list");
    std::fs::write(&list, "# all\nsource=192.0.2.300 reason=r\n").unwrap();
    for arguments in [&["watch", "--once", "--case", "c.db", "."][..], &["live", "-i", "lo", "--duration", "1s"]] {
        if arguments[0] == "live" && cfg!(not(feature = "live")) {
            continue;
        }
        let output = command().current_dir(place.path()).args(arguments).arg("--suppress").arg(&list).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let expected =
            "list:2: source=: an address or a network such as 192.0.2.0/24 was required, \"192.0.2.300\" was there";
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
}

#[test]
fn metrics_are_clean_whole_from_the_start_and_outlive_what_is_let_go() {
    let place = TempDir::new().unwrap();
    let file = place.path().join("rdzvscope.prom");
    let metrics = ["--metrics", file.to_str().unwrap()];
    let value = |name: &str| -> f64 {
        let text = std::fs::read_to_string(&file).unwrap();
        let line = text.lines().find(|l| l.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    let series = || -> Vec<String> {
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().filter(|l| !l.starts_with('#')).map(|l| l.rsplit_once(' ').unwrap().0.to_string()).collect()
    };
    let empty = TempDir::new().unwrap();
    well(
        command().args(["watch", "--once", "--case"]).arg(place.path().join("case.db")).args(metrics).arg(empty.path()),
    );
    let from_the_start = series();
    let claim = "rdzvscope_findings_total{rule=\"store-claim\",severity=\"critical\"}";
    assert_eq!((value(claim), value("rdzvscope_last_packet_timestamp_seconds")), (0.0, 0.0));

    assert_eq!(pass(place.path(), &metrics).0, 1);
    assert_eq!(series(), from_the_start);
    let (claims, packets) = (value(claim), value("rdzvscope_packets_total"));
    assert!(claims >= 1.0 && packets > 100.0);
    assert_eq!(value("rdzvscope_incidents_total{severity=\"critical\",kind=\"oom\"}"), 1.0);
    // 2026-11-29, the day of the capture; the success was just now.
    assert!((1.7959e9..1.796e9).contains(&value("rdzvscope_last_packet_timestamp_seconds")));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - value("rdzvscope_last_success_timestamp_seconds")).abs() < 60.0);

    // Retention takes the observations, and not what was counted; another pass counts nothing twice.
    assert_eq!(pass(place.path(), &["--keep", "1s", metrics[0], metrics[1]]).0, 0);
    let info = well(command().args(["case", "info", "--json"]).arg(place.path().join("case.db")));
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(pass(place.path(), &metrics).0, 0);
    assert_eq!((value(claim), value("rdzvscope_packets_total")), (claims, packets), "{info}");

    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    let text = std::fs::read_to_string(&file).unwrap();
    for label in text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(['{', '}']).nth(1)) {
        for part in label.split(',') {
            assert!(["rule=", "severity=", "kind="].iter().any(|l| part.starts_with(l)), "{label}");
        }
    }
    let Some(promtool) = tool("promtool") else { return };
    let output =
        Command::new(promtool).args(["check", "metrics"]).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(output.status.success() && said(&output).trim().is_empty(), "{}", said(&output));
}

#[test]
fn a_receiver_that_is_out_of_order_holds_up_no_other_and_gets_its_alerts_later() {
    let place = TempDir::new().unwrap();
    let (socket, calls) = (place.path().join("log"), place.path().join("calls"));
    let to = format!("syslog:{}", socket.display());
    // The old name and the short one are the same flag.
    let exec = format!("echo $RDZVSCOPE_ID >> {}", calls.display());
    let (_, _, errors) = pass(place.path(), &["--exec", &exec, "--alert-to", &to]);
    assert!(errors.contains(&format!("was not delivered to syslog {}", socket.display())), "{errors}");
    let count = || std::fs::read_to_string(&calls).unwrap_or_default().lines().count();
    let first = count();
    assert!(first > 0);
    let info = |key: &str| {
        let text = well(command().args(["case", "info", "--json"]).arg(place.path().join("case.db")));
        serde_json::from_str::<Value>(&text).unwrap()[key].as_u64().unwrap()
    };
    assert_eq!(info("undelivered"), first as u64);

    let receiver = UnixDatagram::bind(&socket).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 9000];
        std::iter::from_fn(|| receiver.recv(&mut buffer).ok().map(|n| String::from_utf8(buffer[..n].to_vec()).unwrap()))
            .collect::<Vec<_>>()
    });
    pass(place.path(), &["--alert-exec", &exec, "--alert-to", &to]);
    let messages = reader.join().unwrap();
    assert_eq!((count(), messages.len()), (first, first), "the command is not run again");
    assert_eq!(info("undelivered"), 0);

    // A dissector that nobody here wrote reads them.
    assert!(messages.iter().all(|m| !m.contains('\n') && m.len() <= 8000));
    let (Some(tshark), Some(text2pcap)) = (tool("tshark"), tool("text2pcap")) else { return };
    let mut dump = String::new();
    for m in &messages {
        for (n, chunk) in m.as_bytes().chunks(16).enumerate() {
            let hex: Vec<String> = chunk.iter().map(|b| format!("{b:02x}")).collect();
            dump.push_str(&format!("{:06x} {}\n", n * 16, hex.join(" ")));
        }
        dump.push('\n');
    }
    let (text, capture) = (place.path().join("dump"), place.path().join("dump.pcap"));
    std::fs::write(&text, dump).unwrap();
    well(Command::new(text2pcap).args(["-q", "-u", "514,514"]).arg(&text).arg(&capture));
    let fields = [
        "syslog.facility",
        "syslog.level",
        "syslog.version",
        "syslog.appname",
        "syslog.procid",
        "syslog.msgid",
        "syslog.msg",
    ];
    let mut command = Command::new(tshark);
    command.arg("-r").arg(&capture).args(["-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let read = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Vec<&str>> = read.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(rows.len(), first, "{read}");
    for row in &rows {
        assert_eq!((row[0], row[2], row[3]), ("3", "1", "rdzvscope"), "{row:?}");
        // Older dissectors take the rest of the line for the message's id.
        assert!(["finding", "incident"].iter().any(|k| row[5].starts_with(k)), "{row:?}");
        assert!(row[4].parse::<u32>().is_ok() && row[6].contains("[rdzvscope@32473 id=\""), "{row:?}");
    }
    assert!(rows.iter().any(|r| r[1] == "2" && r[6].contains("store-claim")), "{read}");
}

#[test]
fn rsyslog_takes_the_structured_data_apart() {
    let Some(daemon) = tool("rsyslogd") else { return };
    let place = TempDir::new().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    // Where it was only unpacked, its libraries and modules lie beside it.
    let unpacked = checkers::root().join("target/tools/usr/lib");
    let libraries = std::fs::read_dir(&unpacked)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .find(|p| p.join("rsyslog").is_dir());
    let config = format!(
        "global(workDirectory=\"{}\")\nmodule(load=\"imuxsock\" SysSock.Use=\"off\")\nmodule(load=\"mmpstrucdata\")\n\
         input(type=\"imuxsock\" Socket=\"{}\" UseSpecialParser=\"off\" ParseHostname=\"on\" UseSysTimeStamp=\"off\")\n\
         action(type=\"mmpstrucdata\")\n\
         template(name=\"t\" type=\"string\" string=\"%syslogseverity-text% %app-name% %msgid% %$!rfc5424-sd%\\n\")\n\
         action(type=\"omfile\" file=\"{}\" template=\"t\")\n",
        place.path().display(),
        at("log"),
        at("out")
    );
    std::fs::write(at("conf"), config).unwrap();
    let mut run = Command::new(&daemon);
    run.args(["-n", "-f", &at("conf"), "-i", &at("pid")]);
    if let Some(l) = libraries.filter(|_| daemon.starts_with(checkers::root())) {
        run.env("LD_LIBRARY_PATH", &l).arg("-M").arg(l.join("rsyslog"));
    }
    let mut child = run.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !place.path().join("log").exists() {
        if begun.elapsed() > Duration::from_secs(20) || child.try_wait().unwrap().is_some() {
            let _ = child.kill();
            let _ = child.wait();
            return skipped("rsyslogd does not run here");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_, _, errors) = pass(place.path(), &["--alert-to", &format!("syslog:{}", at("log"))]);
    assert!(!errors.contains("not delivered"), "{errors}");
    let mut text = String::new();
    while !text.contains("\"kind\": \"incident\"") && begun.elapsed() < Duration::from_secs(40) {
        std::thread::sleep(Duration::from_millis(100));
        text = std::fs::read_to_string(at("out")).unwrap_or_default();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let claim = text.lines().find(|l| l.contains("store-claim")).unwrap_or_else(|| panic!("{text}"));
    let data = claim.strip_prefix("crit rdzvscope finding ").unwrap_or_else(|| panic!("{claim}"));
    let data: Value = serde_json::from_str(data).unwrap();
    let data = &data["rdzvscope@32473"];
    assert_eq!((&data["rule"], &data["query"]), (&"store-claim".into(), &"ADD".into()), "{data}");
    assert!(text.contains("\"kind\": \"incident\""), "{text}");
}

#[test]
fn the_journal_itself_takes_alerts_with_their_fields() {
    let (Some(journald), Some(journalctl)) = (tool("systemd-journald"), tool("journalctl")) else { return };
    if !is_root() {
        return skipped("a journal of one's own needs root");
    }
    let place = TempDir::new().unwrap();
    // A journal in a mount namespace: /run is this test's own there.
    let script = r#"
        mount -t tmpfs none /run && mkdir -p /run/systemd/journal || exit 90
        "$1" >"$2/journald" 2>&1 & J=$!
        for i in $(seq 100); do [ -S /run/systemd/journal/socket ] && break; sleep 0.1; done
        [ -S /run/systemd/journal/socket ] || exit 91
        "$4" watch --once --quiet --case "$2/case.db" --alert-to journald "$5" >"$2/out" 2>&1
        for i in $(seq 100); do
            "$3" -D /run/log/journal -o json --no-pager RDZVSCOPE_KIND=incident | grep -q . && break
            sleep 0.1
        done
        "$3" -D /run/log/journal -o json --no-pager SYSLOG_IDENTIFIER=rdzvscope >"$2/journal"
        kill $J; wait $J 2>/dev/null; exit 0"#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh"])
        .args([journald.as_path(), place.path(), journalctl.as_path()])
        .arg(command().get_program())
        .arg(data("incident-torch1.13/node-b.pcap"))
        .output()
        .unwrap();
    if matches!(output.status.code(), Some(90 | 91 | 1)) {
        return skipped(&format!("no journal can be run here: {}", said(&output)));
    }
    assert_eq!(std::fs::read_to_string(place.path().join("out")).unwrap(), "");
    let all = lines(&place.path().join("journal"));
    let claim = all.iter().find(|e| e["RDZVSCOPE_RULE"] == "store-claim").unwrap_or_else(|| panic!("{all:#?}"));
    for (field, value) in
        [("PRIORITY", "2"), ("RDZVSCOPE_SEVERITY", "critical"), ("RDZVSCOPE_QUERY", "ADD"), ("_TRANSPORT", "journal")]
    {
        assert_eq!(claim[field], value, "{claim:#}");
    }
    assert!(claim["RDZVSCOPE_TARGET"].as_str().unwrap().ends_with(":29500"));
    let document: Value = serde_json::from_str(claim["RDZVSCOPE_DOCUMENT"].as_str().unwrap()).unwrap();
    assert_eq!(document["id"], claim["RDZVSCOPE_ID"]);
    assert!(all.iter().any(|e| e["RDZVSCOPE_KIND"] == "incident" && e["RDZVSCOPE_INCIDENT"] == "listener-death"));
}
