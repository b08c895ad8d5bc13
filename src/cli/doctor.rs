//! `rdzvscope doctor`: what is missing on this machine, and the fix. It reads /proc, /sys and the file system only.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::exit::Exit;
use super::output::shown;
use crate::syscalls::is_refused_here;

/// Arguments of `doctor`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  rdzvscope doctor /var/captures\n\nExit status: 0 nothing is missing, 1 something is."
)]
pub(super) struct Args {
    /// A directory for captures or a case file, whose disk is looked at
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

/// What one look found.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// As it should be.
    Good,
    /// Something that only some uses need.
    Note,
    /// Something is missing.
    Missing,
}

/// One line of the answer.
#[derive(Debug)]
struct Look {
    what: &'static str,
    state: State,
    found: String,
    fix: Option<String>,
}

impl Look {
    fn new(what: &'static str, state: State, found: impl Into<String>, fix: Option<&str>) -> Look {
        Look { what, state, found: found.into(), fix: fix.map(str::to_string) }
    }
}

/// Runs it.
pub(super) fn run(a: &Args) -> anyhow::Result<Exit> {
    let looks = [
        capture_rights(&read("/proc/self/status")),
        groups(&read("/proc/self/status"), &read("/etc/group")),
        kernel_log(&read("/proc/sys/kernel/dmesg_restrict")),
        disk(&a.directory),
        clock(),
        timezone(),
        libpcap(),
        landlock(&read("/sys/kernel/security/lsm"), &read("/proc/sys/kernel/osrelease")),
        seccomp(),
        memory(&read("/proc/meminfo"), &read("/proc/sys/vm/overcommit_memory")),
        offload(),
    ];
    let mut out = std::io::stdout().lock();
    for look in &looks {
        let mark = match look.state {
            State::Good => "ok     ",
            State::Note => "note   ",
            State::Missing => "MISSING",
        };
        writeln!(out, "{mark}  {:<12} {}", look.what, look.found)?;
        if let Some(fix) = &look.fix {
            writeln!(out, "         {:<12} fix: {fix}", "")?;
        }
    }
    let missing = looks.iter().filter(|l| l.state == State::Missing).count();
    let text = match missing {
        0 => "Nothing is missing to analyze files.".to_string(),
        n => format!("{n} thing(s) are missing."),
    };
    writeln!(out, "{text}")?;
    Ok(if missing > 0 { Exit::Flagged } else { Exit::Clean })
}

fn read(path: &str) -> String {
    fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

/// A field of /proc/self/status.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// CAP_NET_RAW, bit 13 of the effective set: without it no interface is captured from.
fn capture_rights(status: &str) -> Look {
    const NET_RAW: u32 = 13;
    let effective = field(status, "CapEff").and_then(|c| u64::from_str_radix(c, 16).ok());
    let fix = "sudo setcap cap_net_raw+ep \"$(command -v rdzvscope)\", or read what tcpdump writes: tcpdump -w - | rdzvscope analyze -";
    match effective {
        None => Look::new("rights", State::Note, "no /proc/self/status: rights are not known", None),
        Some(c) if c >> NET_RAW & 1 == 1 => {
            Look::new("rights", State::Good, "may capture (CAP_NET_RAW); files need no rights at all", None)
        }
        Some(_) => Look::new("rights", State::Note, "no CAP_NET_RAW: files are read, interfaces are not", Some(fix)),
    }
}

/// Groups that may read system logs.
fn groups(status: &str, database: &str) -> Look {
    let ids: Vec<&str> = field(status, "Groups").unwrap_or_default().split_whitespace().collect();
    let root = field(status, "Uid").and_then(|u| u.split_whitespace().nth(1)) == Some("0");
    let mut own = database.lines().filter_map(|l| {
        let mut cells = l.split(':');
        let (name, id) = (cells.next()?, cells.nth(1)?);
        (ids.contains(&id) && ["adm", "systemd-journal", "wheel"].contains(&name)).then_some(name)
    });
    match (root, own.next()) {
        (true, _) => Look::new("groups", State::Good, "root: all logs can be read", None),
        (_, Some(group)) => {
            Look::new("groups", State::Good, format!("member of {group}: system logs can be read"), None)
        }
        _ => Look::new(
            "groups",
            State::Note,
            "neither adm nor systemd-journal: /var/log and the journal may be closed",
            Some("sudo usermod -aG adm,systemd-journal \"$USER\", then log in again"),
        ),
    }
}

fn kernel_log(restrict: &str) -> Look {
    match restrict.trim() {
        "1" => Look::new(
            "kernel log",
            State::Note,
            "kernel.dmesg_restrict=1: dmesg is root's",
            Some("collect with sudo dmesg --time-format iso, or journalctl -k -o short-iso-precise"),
        ),
        "0" => Look::new("kernel log", State::Good, "dmesg can be read", None),
        _ => Look::new("kernel log", State::Note, "kernel.dmesg_restrict is not known", None),
    }
}

/// Whether a directory can be written to, and what its file system is mounted as.
fn disk(directory: &Path) -> Look {
    let name = shown(directory);
    let Ok(real) = fs::canonicalize(directory) else {
        return Look::new(
            "disk",
            State::Missing,
            format!("{name} cannot be opened"),
            Some("name a directory that exists"),
        );
    };
    let mounts = read("/proc/self/mounts");
    let mount = mounts
        .lines()
        .filter_map(|l| {
            let mut words = l.split(' ');
            Some((words.nth(1)?, words.next()?, words.next()?))
        })
        .filter(|(at, ..)| real.starts_with(at))
        .max_by_key(|(at, ..)| at.len());
    let (kind, flags) = mount.map_or(("unknown", ""), |m| (m.1, m.2));
    if flags.split(',').any(|f| f == "ro") || fs::metadata(&real).is_ok_and(|m| m.permissions().readonly()) {
        return Look::new(
            "disk",
            State::Missing,
            format!("{name} is read-only ({kind})"),
            Some("name another directory"),
        );
    }
    match kind {
        "tmpfs" | "ramfs" => Look::new(
            "disk",
            State::Note,
            format!("{name} lies in memory ({kind})"),
            Some("keep captures and case files on a disk: they are gone after a reboot"),
        ),
        "nfs" | "nfs4" | "cifs" | "fuse.sshfs" | "lustre" => Look::new(
            "disk",
            State::Note,
            format!("{name} lies on a network ({kind})"),
            Some("a case file wants a local disk; captures may stay there"),
        ),
        _ => Look::new("disk", State::Good, format!("{name} is writable ({kind}); df {name} tells what is free"), None),
    }
}

/// Whether something keeps the clock: without it, offsets between hosts have to be found from packets.
fn clock() -> Look {
    let known = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd"];
    let running = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok).find_map(|e| {
        let comm = fs::read_to_string(e.path().join("comm")).ok()?;
        known.iter().find(|k| comm.trim() == **k).copied()
    });
    let synchronized = Path::new("/run/systemd/timesync/synchronized").exists();
    match (running, synchronized) {
        (Some(name), _) => Look::new("clock", State::Good, format!("kept by {name}"), None),
        (None, true) => Look::new("clock", State::Good, "synchronized (systemd-timesyncd)", None),
        _ => Look::new(
            "clock",
            State::Note,
            "nothing is seen to keep it (in a container its host may)",
            Some("run chronyd on every host; here, offsets are found from packets and deaths and are at best probable"),
        ),
    }
}

fn timezone() -> Look {
    let link = fs::read_link("/etc/localtime").ok();
    let name = link.as_deref().and_then(|l| l.to_str()?.split_once("zoneinfo/").map(|(_, z)| z.to_string()));
    match name {
        Some(z) if z.ends_with("UTC") => {
            Look::new("time zone", State::Good, "UTC: local times in logs need no flag", None)
        }
        Some(z) => {
            let flag = format!("pass --log-tz {z} for logs of hosts like this one (dmesg -T, syslog)");
            Look::new("time zone", State::Note, z, Some(&flag))
        }
        None => Look::new("time zone", State::Note, "not known from /etc/localtime (UTC is usual then)", None),
    }
}

/// libpcap is wanted for live capture alone.
fn libpcap() -> Look {
    if cfg!(target_feature = "crt-static") {
        return Look::new("libpcap", State::Good, "built in: this program is static", None);
    }
    let places =
        ["/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let found = places.iter().find_map(|p| {
        fs::read_dir(p)
            .ok()?
            .filter_map(Result::ok)
            .map(|e| e.path())
            .find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libpcap.so")))
    });
    match found {
        Some(path) => Look::new("libpcap", State::Good, shown(&path), None),
        None => Look::new(
            "libpcap",
            State::Note,
            "not found: files and pipes are read without it, interfaces are not",
            Some("apt install libpcap0.8, or dnf install libpcap"),
        ),
    }
}

/// Landlock came with Linux 5.13; it confines what reads hostile bytes.
fn landlock(modules: &str, release: &str) -> Look {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let on = modules.trim().split(',').any(|m| m == "landlock");
    match (on, modules.trim().is_empty(), version >= (5, 13)) {
        (true, ..) => Look::new("Landlock", State::Good, "the kernel has it", None),
        (_, true, true) => Look::new("Landlock", State::Note, "the list of security modules cannot be read", None),
        (_, _, true) => Look::new(
            "Landlock",
            State::Note,
            "the kernel has not switched it on",
            Some("boot with lsm=landlock,… (see /sys/kernel/security/lsm)"),
        ),
        _ => Look::new("Landlock", State::Note, format!("Linux {}.{} is older than 5.13", version.0, version.1), None),
    }
}

/// Filters of system calls, tried: `watch`, `live` and `merge` give up what they do not need.
fn seccomp() -> Look {
    match is_refused_here() {
        Ok(true) => Look::new("seccomp", State::Good, "active: a system call that is not needed was refused", None),
        Ok(false) => Look::new("seccomp", State::Note, "the filter was taken, but nothing was refused", None),
        Err(e) => Look::new("seccomp", State::Note, format!("not active: {e}"), None),
    }
}

/// What the kernel of this host would grant to an absurd claim.
fn memory(info: &str, overcommit: &str) -> Look {
    let kib = |name: &str| -> u64 {
        let value = field(info, name).and_then(|v| v.split_whitespace().next()?.parse().ok());
        value.unwrap_or(0)
    };
    let (total, swap) = (kib("MemTotal"), kib("SwapTotal"));
    let mode = overcommit.trim();
    let size = format!(
        "{:.1} GiB and {:.1} GiB of swap, vm.overcommit_memory={mode}",
        total as f64 / 1048576.0,
        swap as f64 / 1048576.0
    );
    match mode {
        "1" => Look::new(
            "memory",
            State::Note,
            format!("{size}: any claim is granted"),
            Some("sysctl vm.overcommit_memory=0 refuses claims beyond memory and swap"),
        ),
        "0" | "2" => Look::new("memory", State::Good, size, None),
        _ => Look::new("memory", State::Note, "not known", None),
    }
}

/// Where cards join segments, captured packets are larger than those on the wire: no trouble, but worth knowing.
fn offload() -> Look {
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> =
        interfaces.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n != "lo").collect();
    names.sort();
    let list = crate::escape::clean(names.join(", ").as_bytes(), 120);
    match names.len() {
        0 => Look::new("interfaces", State::Note, "none but lo", None),
        _ => Look::new("interfaces", State::Good, list, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_from_the_effective_set() {
        let status = |caps: &str| format!("Name:\tx\nCapEff:\t{caps}\n");
        assert_eq!(capture_rights(&status("0000000000002000")).state, State::Good);
        let without = capture_rights(&status("0000000000001fff"));
        assert!(without.state == State::Note && without.fix.is_some_and(|f| f.contains("setcap")));
    }

    #[test]
    fn groups_of_logs_are_known_by_their_numbers() {
        let status = "Uid:\t1000\t1000\t1000\t1000\nGroups:\t4 27\n";
        assert_eq!(groups(status, "root:x:0:\nadm:x:4:syslog\n").state, State::Good);
        assert_eq!(groups(status, "adm:x:44:\n").state, State::Note);
        assert_eq!(groups("Uid:\t0\t0\t0\t0\n", "").state, State::Good);
    }

    #[test]
    fn kernels_without_landlock_and_hosts_that_grant_anything_are_told() {
        assert_eq!(landlock("lockdown,capability,landlock,yama\n", "6.1.0").state, State::Good);
        assert!(landlock("capability\n", "6.1.0").fix.is_some());
        assert!(landlock("capability\n", "5.4.0").found.contains("older"));
        let info = "MemTotal:       24690000 kB\nSwapTotal:      0 kB\n";
        assert!(memory(info, "1\n").found.contains("any claim is granted"));
        assert_eq!(memory(info, "0\n").state, State::Good);
    }

    #[test]
    fn a_directory_that_is_not_there_is_missing() {
        assert_eq!(disk(Path::new("/nowhere/at/all")).state, State::Missing);
    }
}
