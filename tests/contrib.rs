//! What lies in `contrib/`, read by the programs that it is for.

mod checkers;
mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use checkers::{is_root, root, skipped, tool, well};
use common::command;

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join("contrib").join(name)).unwrap()
}

const UNITS: [&str; 5] = [
    "rdzvscope-capture.service",
    "rdzvscope-watch.service",
    "rdzvscope-once.service",
    "rdzvscope-once.timer",
    "rdzvscope-live.service",
];

fn binary() -> String {
    command().get_program().to_string_lossy().into_owned()
}

/// The units in a place of their own, with the binary that is tested and tcpdump wherever it is.
fn units(place: &Path) {
    let dump = tool("tcpdump").map_or("/bin/true".to_string(), |p| p.display().to_string());
    for name in UNITS {
        let text = read(name).replace("/usr/local/bin/rdzvscope", &binary()).replace("/usr/bin/tcpdump", &dump);
        std::fs::write(place.join(name), text).unwrap();
    }
}

#[test]
fn systemd_reads_the_units_without_a_complaint_and_finds_them_confined() {
    let Some(analyze) = tool("systemd-analyze") else { return };
    let place = TempDir::new().unwrap();
    units(place.path());
    for name in UNITS {
        let said = well(Command::new(&analyze).args(["verify", "--man=no"]).arg(place.path().join(name)));
        assert_eq!(said.trim(), "", "{name}");
    }
    for (name, most) in [("watch", 15), ("once", 15), ("live", 30), ("capture", 45)] {
        let unit = place.path().join(format!("rdzvscope-{name}.service"));
        // In tenths: how much of the system a unit could reach if it were taken over.
        well(Command::new(&analyze).args(["security", "--offline=true", &format!("--threshold={most}")]).arg(unit));
    }
}

#[test]
fn the_training_host_comes_first_and_the_witness_last() {
    for name in ["watch", "once", "live"] {
        let unit = read(&format!("rdzvscope-{name}.service"));
        for line in ["OOMScoreAdjust=1000", "MemoryMax=1G", "CPUQuota=50%", "ProtectSystem=strict", "User=rdzvscope"] {
            assert!(unit.lines().any(|l| l == line), "{name}: {line}");
        }
        // One pass that flags something has done its work; what runs for ever and ends has not, whatever its status.
        let ends = |line: &str| unit.lines().any(|l| l == line);
        assert_eq!((ends("SuccessExitStatus=1"), ends("Restart=always")), (name == "once", name != "once"), "{name}");
        // What is typed there is understood: a flag that is none would end it with status 2.
        let line = unit.lines().find_map(|l| l.strip_prefix("ExecStart=")).unwrap();
        let arguments: Vec<&str> = line.split(' ').skip(1).collect();
        let output = command().args(&arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "{line}: {}", checkers::said(&output));
    }
    let unit = read("rdzvscope-capture.service");
    for line in ["OOMScoreAdjust=-900", "MemoryMax=256M"] {
        assert!(unit.lines().any(|l| l == line), "{line}");
    }
    let line = unit.lines().find_map(|l| l.strip_prefix("ExecStart=")).unwrap();
    for flag in ["-U", "--immediate-mode", "-Z tcpdump", "-C 50 -W 64"] {
        assert!(line.contains(flag), "{flag}");
    }
    let filter = line.split('"').nth(1).unwrap();
    assert!(read("kubernetes/daemonset.yaml").contains(filter), "the DaemonSet captures something else");
    let Some(dump) = tool("tcpdump") else { return };
    for link in ["EN10MB", "LINUX_SLL2"] {
        well(Command::new(&dump).args(["-y", link, "-d", filter]));
    }
}

#[test]
fn users_and_directories_are_made_as_the_units_need_them() {
    let (Some(users), Some(files)) = (tool("systemd-sysusers"), tool("systemd-tmpfiles")) else { return };
    if !is_root() {
        return skipped("systemd-sysusers --root needs root");
    }
    let place = TempDir::new().unwrap();
    for folder in ["etc", "var/lib", "run"] {
        std::fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    let at = format!("--root={}", place.path().display());
    well(Command::new(users).arg(&at).arg(root().join("contrib/rdzvscope.sysusers.conf")));
    well(Command::new(files).args([&at, "--create"]).arg(root().join("contrib/rdzvscope.tmpfiles.conf")));
    let passwd = std::fs::read_to_string(place.path().join("etc/passwd")).unwrap();
    let group = std::fs::read_to_string(place.path().join("etc/group")).unwrap();
    let id = |text: &str, name: &str| {
        let line =
            text.lines().find(|l| l.starts_with(&format!("{name}:"))).unwrap_or_else(|| panic!("{name}: {text}"));
        line.split(':').nth(2).unwrap().parse::<u32>().unwrap()
    };
    assert!(group.lines().any(|l| l.starts_with("systemd-journal:") && l.ends_with(":rdzvscope")), "{group}");
    use std::os::unix::fs::MetadataExt;
    let ring = std::fs::metadata(place.path().join("var/lib/rdzvscope-capture")).unwrap();
    assert_eq!(
        (ring.mode() & 0o7777, ring.uid(), ring.gid()),
        (0o2750, id(&passwd, "tcpdump"), id(&group, "rdzvscope"))
    );
    // The list that the units name is there, and is one.
    let list = place.path().join("etc/rdzvscope/suppress");
    let case = place.path().join("case.db");
    well(
        command()
            .args(["watch", "--once", "--suppress"])
            .arg(list)
            .arg("--case")
            .arg(case)
            .arg(place.path().join("run")),
    );
}

#[test]
fn logrotate_understands_its_file() {
    let Some(logrotate) = tool("logrotate") else { return };
    let place = TempDir::new().unwrap();
    let file = place.path().join("rdzvscope");
    let (user, group) = (well(Command::new("id").arg("-un")), well(Command::new("id").arg("-gn")));
    let owner = format!("{} {}", user.trim(), group.trim());
    let log = place.path().join("alerts.jsonl");
    std::fs::write(&log, "{}\n").unwrap();
    let text = read("rdzvscope.logrotate").replace("rdzvscope rdzvscope", &owner);
    std::fs::write(&file, text.replace("/var/lib/rdzvscope/alerts.jsonl", log.to_str().unwrap())).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    well(Command::new(logrotate).arg("--force").arg("--state").arg(place.path().join("state")).arg(&file));
    assert!(place.path().join("alerts.jsonl.1").exists());
}

#[test]
fn the_line_for_cron_runs() {
    let text = read("rdzvscope.cron");
    let line = text.lines().rfind(|l| !l.starts_with('#')).unwrap();
    let (times, rest) = line.split_at(line.match_indices(' ').nth(4).unwrap().0);
    assert_eq!(times.split(' ').count(), 5);
    let (user, shell) = rest.trim().split_once(' ').unwrap();
    assert_eq!(user, "rdzvscope");
    assert!(!shell.contains('%'), "cron takes % for a line feed");
    let place = TempDir::new().unwrap();
    std::fs::write(place.path().join("kern.log"), "").unwrap();
    let socket = std::os::unix::net::UnixDatagram::bind(place.path().join("log")).unwrap();
    let at = |p: &str| place.path().join(p).display().to_string();
    let shell = shell
        .replace(" rdzvscope ", &format!(" {} ", binary()))
        .replace("/var/lib/rdzvscope-capture", &common::data("scans").display().to_string())
        .replace("/var/lib/rdzvscope/case.db", &at("case.db"))
        .replace("/var/log/kern.log", &at("kern.log"))
        .replace("syslog", &format!("syslog:{}", at("log")))
        .replace("/var/lib/prometheus/node-exporter/rdzvscope.prom", &at("m.prom"));
    let reader = std::thread::spawn(move || {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut buffer = [0; 9000];
        std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
    });
    let output = Command::new("/bin/sh").args(["-c", &shell]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", checkers::said(&output));
    assert_eq!(output.stdout, b"", "cron would mail it");
    assert!(place.path().join("m.prom").exists());
    assert!(reader.join().unwrap() > 0);
}

#[test]
fn the_example_of_a_list_is_one() {
    let place = TempDir::new().unwrap();
    let list = root().join("contrib/suppress.example");
    let run = command()
        .args(["watch", "--once", "--suppress"])
        .arg(list)
        .arg("--case")
        .arg(place.path().join("c.db"))
        .arg(place.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", checkers::said(&run));
}

fn prometheus(name: &str) -> PathBuf {
    root().join("contrib/prometheus").join(name)
}

#[test]
fn promtool_runs_the_rules_and_five_hundred_nodes_are_one_page() {
    let Some(promtool) = tool("promtool") else { return };
    well(Command::new(&promtool).args(["check", "rules"]).arg(prometheus("rules.yml")));
    well(Command::new(&promtool).args(["test", "rules"]).arg(prometheus("rules_test.yml")));

    // One scan goes over 500 nodes within ten minutes; on each three claims, on every third a kill.
    let place = TempDir::new().unwrap();
    std::fs::copy(prometheus("rules.yml"), place.path().join("rules.yml")).unwrap();
    let mut test =
        String::from("rule_files: [rules.yml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n");
    for n in 0..500 {
        let (minute, node) = (5 + n % 10, format!("node-{n:03}"));
        let mut series = |name: &str, labels: &str, to: u32| {
            let rest = 60 - minute;
            test.push_str(&format!(
                "      - series: '{name}{{instance=\"{node}\",cluster=\"c1\",{labels}}}'\n        values: '0x{minute} {to}x{rest}'\n"
            ));
        };
        series("rdzvscope_findings_total", "rule=\"store-claim\",severity=\"critical\"", 3);
        series("rdzvscope_findings_total", "rule=\"syn-scan\",severity=\"info\"", 1);
        series("rdzvscope_incidents_total", "severity=\"critical\",kind=\"oom\"", u32::from(n % 3 == 0));
    }
    test.push_str(
        "    promql_expr_test:\n\
         \x20     - expr: count(ALERTS{severity=\"page\",alertstate=\"firing\"})\n        eval_time: 16m\n        exp_samples: [{value: 1}]\n\
         \x20     - expr: count(count_over_time(ALERTS{severity=\"page\"}[1h]))\n        eval_time: 1h\n        exp_samples: [{value: 1}]\n\
         \x20     - expr: count(count_over_time(ALERTS{alertname=\"RdzvscopeHostHit\"}[1h]))\n        eval_time: 1h\n        exp_samples: [{value: 500}]\n\
         \x20   alert_rule_test:\n      - eval_time: 16m\n        alertname: RdzvscopeHostsHitTogether\n        exp_alerts:\n\
         \x20         - exp_labels: {severity: page, cluster: c1}\n            exp_annotations:\n\
         \x20             summary: \"500 hosts were hit by strays on rendezvous ports, or lost processes to the OOM killer, within 15 minutes\"\n",
    );
    let action = read("prometheus/rules.yml");
    let action = action.lines().map(str::trim).find(|l| l.starts_with("action: \"Who sent it")).unwrap().to_string();
    test.push_str(&format!("              {action}\n"));
    let file = place.path().join("test.yml");
    std::fs::write(&file, test).unwrap();
    well(Command::new(&promtool).args(["test", "rules"]).arg(file));
}

/// A receiver of webhooks: what it was sent.
fn receiver() -> (u16, std::sync::mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut text = Vec::new();
            let mut buffer = [0; 65536];
            let body = loop {
                let Ok(n @ 1..) = stream.read(&mut buffer) else { break None };
                text.extend_from_slice(&buffer[..n]);
                let Some(at) = text.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(&text[..at]).to_ascii_lowercase();
                let length =
                    head.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok()).unwrap_or(0);
                if text.len() >= at + 4 + length {
                    break Some(text[at + 4..].to_vec());
                }
            };
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            if let Some(Ok(value)) = body.map(|b| serde_json::from_slice::<Value>(&b)) {
                let _ = send.send(value);
            }
        }
    });
    (port, receive)
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn alertmanager_makes_one_page_of_one_scan() {
    let Some(amtool) = tool("amtool") else { return };
    well(Command::new(&amtool).arg("check-config").arg(prometheus("alertmanager.yml")));
    let Some(server) = tool("prometheus-alertmanager").or_else(|| tool("alertmanager")) else { return };
    let place = TempDir::new().unwrap();
    let (pager, pages) = receiver();
    let (desk, tickets) = receiver();
    let config = read("prometheus/alertmanager.yml")
        .replace("http://pager.invalid/", &format!("http://127.0.0.1:{pager}/"))
        .replace("http://tickets.invalid/", &format!("http://127.0.0.1:{desk}/"))
        .replace("group_wait: 1m", "group_wait: 3s")
        .replace("group_wait: 30s", "group_wait: 1s");
    let file = place.path().join("alertmanager.yml");
    std::fs::write(&file, config).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Debian's has its templates at a fixed place: where it was only unpacked, that place is lent to it alone.
    let share = root().join("target/tools/usr/share");
    let mut begin = if server.starts_with(root()) {
        if !is_root() {
            return skipped("an Alertmanager that is not installed needs root to run");
        }
        if !common::can_unshare(&["--mount", "--propagation", "private"]) {
            return skipped(
                "an Alertmanager that is not installed needs mounts of its own, which are not to be had here",
            );
        }
        let mut begin = Command::new("unshare");
        let script = "mount --bind \"$0\" /usr/share && exec \"$@\"";
        begin.args(["--mount", "--propagation", "private", "/bin/sh", "-c", script]).arg(share).arg(server);
        begin
    } else {
        Command::new(server)
    };
    let _server = Ended(
        begin
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", place.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut alerts = vec![
        serde_json::json!({"labels": {"alertname": "RdzvscopeHostsHitTogether", "severity": "page", "cluster": "c1"}}),
    ];
    for n in 0..500 {
        for name in ["RdzvscopeHostHit", "RdzvscopeBehind"] {
            let instance = format!("node-{n:03}");
            alerts.push(serde_json::json!({"labels": {"alertname": name, "severity": "ticket", "cluster": "c1", "instance": instance}}));
        }
    }
    let body = serde_json::to_vec(&alerts).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "Alertmanager does not answer");
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = format!(
            "POST /api/v2/alerts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        break;
    }
    let page = pages.recv_timeout(Duration::from_secs(30)).expect("one page");
    assert_eq!(page["alerts"].as_array().unwrap().len(), 1);
    assert_eq!(page["groupLabels"], serde_json::json!({"cluster": "c1"}));
    // The tickets of the hosts that the page speaks of say nothing; those of another matter are one.
    let ticket = tickets.recv_timeout(Duration::from_secs(30)).expect("one ticket");
    assert_eq!(ticket["groupLabels"]["alertname"], "RdzvscopeBehind");
    assert_eq!(ticket["alerts"].as_array().unwrap().len(), 500);
    std::thread::sleep(Duration::from_secs(4));
    assert!(pages.try_recv().is_err() && tickets.try_recv().is_err(), "a second notification");
}

/// The metrics that a run writes.
fn metrics() -> String {
    let place = TempDir::new().unwrap();
    let file = place.path().join("m.prom");
    well(
        command()
            .args(["watch", "--once", "--case"])
            .arg(place.path().join("c.db"))
            .arg("--metrics")
            .arg(&file)
            .arg(place.path()),
    );
    std::fs::read_to_string(file).unwrap()
}

fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(o) => o.iter().for_each(|(k, v)| match v {
            Value::String(s) if k == key => found.push(s),
            v => strings(v, key, found),
        }),
        Value::Array(a) => a.iter().for_each(|v| strings(v, key, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_and_the_rules_ask_for_metrics_that_are_written() {
    let metrics = metrics();
    let dashboard: Value = serde_json::from_str(&read("prometheus/dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 10);
    let name = regex_lite::Regex::new(r"\brdzvscope_[a-z_]+\b").unwrap();
    let rules = read("prometheus/rules.yml");
    for text in expressions.iter().copied().chain([rules.as_str()]) {
        for m in name.find_iter(text) {
            assert!(metrics.contains(&format!("\n# TYPE {} ", m.as_str())), "nobody writes {}", m.as_str());
        }
    }
    let ids: Vec<u64> = dashboard["panels"].as_array().unwrap().iter().map(|p| p["id"].as_u64().unwrap()).collect();
    assert!(ids.windows(2).all(|w| w[0] < w[1]));
    // Prometheus parses them, with what Grafana puts in the place of its own words.
    let Some(promtool) = tool("promtool") else { return };
    let place = TempDir::new().unwrap();
    let mut file = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (n, expression) in expressions.iter().enumerate() {
        let plain = expression.replace("$__rate_interval", "5m").replace("$cluster", ".*").replace("$instance", ".*");
        file.push_str(&format!(
            "      - record: panel:{n}\n        expr: {}\n",
            serde_json::to_string(&plain).unwrap()
        ));
    }
    let path = place.path().join("rules.yml");
    std::fs::write(&path, file).unwrap();
    well(Command::new(promtool).args(["check", "rules"]).arg(path));
}

#[test]
fn kubernetes_own_schemas_accept_the_daemonset() {
    let file = root().join("contrib/kubernetes/daemonset.yaml");
    let python =
        format!("{}:{}", root().join("target/tools/python").display(), std::env::var("PYTHONPATH").unwrap_or_default());
    let text = read("kubernetes/daemonset.yaml");
    // What no schema asks for.
    for needle in [
        "automountServiceAccountToken: false",
        "readOnlyRootFilesystem: true",
        "runAsNonRoot: true",
        "drop: [ALL]",
        "- --immediate-mode",
    ] {
        assert!(text.contains(needle), "{needle}");
    }
    assert!(!text.contains("privileged: true"));
    let there = Command::new("python3").env("PYTHONPATH", &python).args(["-c", "import kubernetes_validate"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        return skipped("kubernetes-validate is not installed (tools/setup.sh test)");
    }
    let script = "import sys, yaml, kubernetes_validate as k\n\
                  docs = list(yaml.safe_load_all(open(sys.argv[1])))\n\
                  assert [d['kind'] for d in docs] == ['Namespace', 'ConfigMap', 'DaemonSet'], docs\n\
                  [k.validate(d, k.latest_version(), strict=True) for d in docs]\n\
                  docs[2]['spec']['template']['spec']['hostNetwerk'] = True\n\
                  try: k.validate(docs[2], k.latest_version(), strict=True)\n\
                  except k.ValidationError: sys.exit(0)\n\
                  sys.exit('a typing error went through')";
    well(Command::new("python3").env("PYTHONPATH", &python).args(["-c", script]).arg(file));
}
