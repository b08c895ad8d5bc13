//! Kernel logs, as the usual commands print them.

use chrono::{DateTime, FixedOffset, Utc};

use super::engine::Kill;
use super::host::{Format, Host, Log};

/// When the simulation begins: 2026-11-29T08:00:00Z, in seconds since 1970.
pub(crate) const BASE: i64 = 1_795_939_200;

/// The time `seconds` after the simulation began, of a zone.
fn instant(seconds: f64, zone: i32) -> DateTime<FixedOffset> {
    let nanos = BASE * 1_000_000_000 + (seconds * 1e9) as i64;
    let zone = FixedOffset::east_opt(zone).expect("a zone of less than a day");
    DateTime::<Utc>::from_timestamp_nanos(nanos).with_timezone(&zone)
}

/// When a host booted, as its own clock has it.
pub(crate) fn boot(host: &Host) -> String {
    instant(host.boot + host.clock, 0).format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// A line: when, as the kernel counts, and what.
type Line = (f64, String);

fn kill(k: &Kill, lines: &mut Vec<Line>) {
    let kb = |bytes: u64| bytes / 1024;
    let (process, pid) = (k.process, k.pid);
    let (constraint, whose, message) = if k.limited {
        ("CONSTRAINT_MEMCG", "oom_memcg=/kubepods/pod7f", "Memory cgroup out of memory")
    } else {
        ("CONSTRAINT_NONE", "global_oom", "Out of memory")
    };
    let invoked = if k.store { process } else { "python3" };
    let mut add = |after: f64, text: String| lines.push((k.at + after, text));
    add(
        -0.0014,
        format!(
            "{invoked} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0"
        ),
    );
    add(-0.0012, "Mem-Info:".to_string());
    add(
        -0.00003,
        format!(
            "oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0-1,{whose},task_memcg=/system.slice/train.service,task={process},pid={pid},uid=1000"
        ),
    );
    add(
        0.0,
        format!(
            "{message}: Killed process {pid} ({process}) total-vm:{}kB, anon-rss:{}kB, file-rss:68kB, shmem-rss:0kB, UID:1000 pgtables:{}kB oom_score_adj:0",
            kb(k.total_vm),
            kb(k.rss),
            kb(k.rss) / 500
        ),
    );
    add(
        k.died - k.at - 0.02,
        format!("oom_reaper: reaped process {pid} ({process}), now anon-rss:0kB, file-rss:68kB, shmem-rss:0kB"),
    );
}

/// The log of a host with these kills.
pub(crate) fn text(host: &Host, log: &Log, kills: &[&Kill], span: f64) -> String {
    let mut lines: Vec<Line> = Vec::new();
    kills.iter().for_each(|k| kill(k, &mut lines));
    let first = host.boot.max(-6.0 * 86_400.0) + 20.0;
    let mut at = first;
    while at < span {
        lines.push((at, "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged".to_string()));
        at += 25_200.0;
    }
    lines.push((span - 1.0, "eth0: left promiscuous mode".to_string()));
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out = String::new();
    for (at, message) in lines {
        let wall = at + host.clock + log.drift;
        let local = instant(wall, log.zone);
        let name = &host.name;
        let since = at - host.boot;
        let line = match log.format {
            Format::Iso => format!("{} {message}", local.format("%Y-%m-%dT%H:%M:%S,%6f%:z")),
            Format::Journal => serde_json::json!({
                "__REALTIME_TIMESTAMP": (local.timestamp_micros()).to_string(),
                "_HOSTNAME": name, "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": message,
            })
            .to_string(),
            Format::Syslog => format!("{} {name} kernel: [{since:12.6}] {message}", local.format("%b %e %H:%M:%S")),
            Format::Precise => format!("{} {name} kernel: {message}", local.format("%Y-%m-%dT%H:%M:%S%.6f%:z")),
            Format::Raw => format!("[{since:12.6}] {message}"),
            Format::Human => format!("[{}] {message}", local.format("%a %b %e %H:%M:%S %Y")),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}
