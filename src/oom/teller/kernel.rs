//! What the kernel says around a kill, from 2.6.32 to 6.x: message text without time or host.
//!
//! A process names itself: `comm` may hold blanks, brackets, commas, bytes that are no text, even `) total-vm:1kB`.
//! So every pattern is anchored on what the kernel prints *after* the name, at its last occurrence.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::{self, cut, find, has, number, rcut, rfind, whole};
use super::super::workload;
use super::Saying;

/// Pages as `N pages RAM` counts them: 4 KiB on x86-64 and on most arm64 kernels. An arm64 kernel with 64 KiB pages
/// would be read sixteen times too small; the line does not say.
const PAGE: u64 = 4096;

/// Reads one message. `None`: not of the OOM killer, or a number in it is out of range.
pub(crate) fn parse(message: &[u8]) -> Option<Saying> {
    // The order matters: a line with figures is the kill itself, whatever else its process name imitates.
    if let Some((msg, after)) = cut(message, b"Killed process ") {
        return killed(msg, after);
    }
    if let Some((_, after)) = cut(message, b"oom_reaper: reaped process ") {
        return reaped(after);
    }
    if let Some((_, after)) = cut(message, b"oom-kill:constraint=") {
        return constraint(after);
    }
    if let Some((msg, after)) = cut(message, b"Kill process ") {
        return marker(msg, after);
    }
    if let Some((name, after)) = rcut(message, b" invoked oom-killer: ") {
        return invoked(name, after);
    }
    dump(message)
}

fn kind_of(msg: &[u8]) -> Option<OomKind> {
    if has(msg, b"emory cgroup out of memory") {
        Some(OomKind::Cgroup)
    } else if has(msg, b"ut of memory") {
        Some(OomKind::Host)
    } else {
        None
    }
}

/// `N (C) total-vm:…` (4.x on), `N (C), UID N, total-vm:…` (EL7), `N, UID N, (C) total-vm:…` (EL6), or `N (C)` alone.
fn killed(msg: &[u8], after: &[u8]) -> Option<Saying> {
    let (pid, rest) = number(after)?;
    let mut facts = Facts { kind: kind_of(msg), pid: Some(pid), ..Facts::default() };
    let rest = match rest.strip_prefix(b", UID ") {
        Some(el6) => {
            let (uid, rest) = number(el6)?;
            facts.uid = Some(uid);
            rest.strip_prefix(b", (")?
        }
        None => rest.strip_prefix(b" (")?,
    };
    let plain = rfind(rest, b") total-vm:");
    let with_uid = rfind(rest, b", total-vm:").and_then(|end| {
        let at = rfind(rest.get(..end)?, b"), UID ")?;
        let (uid, tail) = number(rest.get(at + b"), UID ".len()..end)?)?;
        tail.is_empty().then_some((at, end, uid))
    });
    let (comm, figures) = match (plain, with_uid) {
        (plain, Some((at, end, uid))) if plain.is_none_or(|p| p < at) => {
            facts.uid = Some(uid);
            (rest.get(..at)?, rest.get(end + b", ".len()..)?)
        }
        (Some(at), _) => (rest.get(..at)?, rest.get(at + b") ".len()..)?),
        (None, _) => {
            let (comm, _) = rcut(rest, b")")?;
            facts.process = text::name(comm);
            return Some(Saying::new(Role::Killed, facts));
        }
    };
    facts.process = text::name(comm);
    figures_of(figures, &mut facts)?;
    Some(Saying::new(Role::Killed, facts))
}

/// `total-vm:1kB, anon-rss:2kB, …, UID:0 pgtables:4kB oom_score_adj:0`. `pgtables` is not read: it held bytes labelled
/// kB until 5.4. `None` when a number is out of range or `total-vm` is none.
fn figures_of(text: &[u8], facts: &mut Facts) -> Option<()> {
    for item in text.split(|b| *b == b' ' || *b == b',').filter(|i| !i.is_empty()).take(32) {
        let Some((key, value)) = cut(item, b":") else { continue };
        let bytes = || whole(value.strip_suffix(b"kB")?)?.checked_mul(1024);
        match key {
            b"total-vm" => facts.total_vm = Some(bytes()?),
            b"anon-rss" => facts.anon_rss = Some(bytes()?),
            b"file-rss" => facts.file_rss = Some(bytes()?),
            b"shmem-rss" => facts.shmem_rss = Some(bytes()?),
            b"UID" => facts.uid = whole(value),
            b"oom_score_adj" => facts.score_adj = signed(value),
            _ => {}
        }
    }
    facts.total_vm.map(|_| ())
}

fn signed(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, bytes),
    };
    let n = i64::try_from(whole(digits)?).ok()?;
    Some(if negative { -n } else { n })
}

/// `N (C), now anon-rss:0kB, …`.
fn reaped(after: &[u8]) -> Option<Saying> {
    let (pid, rest) = number(after)?;
    let (comm, _) = rcut(rest.strip_prefix(b" (")?, b"), now anon-rss:").or_else(|| rcut(rest.get(2..)?, b")"))?;
    Some(Saying::new(Role::Reaped, Facts { pid: Some(pid), process: text::name(comm), ..Facts::default() }))
}

/// `CONSTRAINT_NONE,nodemask=…,task_memcg=PATH,task=C,pid=N,uid=N`. Read from the end: path and name may hold commas.
fn constraint(after: &[u8]) -> Option<Saying> {
    /// The longest `comm`.
    const COMM: usize = 15;
    let (rest, uid) = rcut(after, b",uid=")?;
    let (rest, pid) = rcut(rest, b",pid=")?;
    let (rest, paths) = cut(rest, b",task_memcg=")?;
    // The first `,task=` that leaves a name the kernel can print; a longer one is the last.
    let key = b",task=";
    let earliest = paths.len().saturating_sub(COMM + key.len());
    let at = paths.get(earliest..).and_then(|p| find(p, key)).map(|p| p + earliest).or_else(|| rfind(paths, key))?;
    let (path, comm) = (paths.get(..at)?, paths.get(at + key.len()..)?);
    let limit = cut(rest, b",oom_memcg=").map(|(_, path)| path);
    let constraint = rest.split(|b| *b == b',').next().unwrap_or_default();
    let kind = if limit.is_some() { Some(OomKind::Cgroup) } else { has(rest, b",global_oom").then_some(OomKind::Host) };
    let facts = Facts {
        kind,
        pid: Some(whole(pid)?),
        uid: number(uid).map(|(n, _)| n),
        process: text::name(comm),
        cgroup: Some(text::lossy(path, text::PATH)),
        limit_cgroup: limit.map(|p| text::lossy(p, text::PATH)),
        constraint: text::name(constraint),
        workload: workload::from_cgroup(path),
        ..Facts::default()
    };
    Some(Saying::new(Role::Constraint, facts))
}

/// `Kill process N (C) score S or sacrifice child`: the process named need not be the one killed, the next line says.
fn marker(msg: &[u8], after: &[u8]) -> Option<Saying> {
    let (_, rest) = number(after)?;
    let (_, score) = rcut(rest, b") score ")?;
    let facts = Facts { kind: kind_of(msg), score: number(score).map(|(n, _)| n), ..Facts::default() };
    Some(Saying::new(Role::Dump, facts))
}

/// `C invoked oom-killer: gfp_mask=…`.
fn invoked(name: &[u8], after: &[u8]) -> Option<Saying> {
    has(after, b"gfp_mask=")
        .then(|| Saying::new(Role::Invoked, Facts { invoked_by: text::name(name), ..Facts::default() }))
}

/// Lines of the dump between `invoked` and the kill, and the ends without a victim.
fn dump(message: &[u8]) -> Option<Saying> {
    let message = message.trim_ascii();
    let mut facts = Facts::default();
    if let Some(pages) = message.strip_suffix(b" pages RAM") {
        facts.host_memory = Some(whole(pages)?.checked_mul(PAGE)?);
    } else if let Some(swap) = message.strip_prefix(b"Total swap = ") {
        facts.host_swap = Some(whole(swap.strip_suffix(b"kB")?)?.checked_mul(1024)?);
    } else if let Some((path, limit)) =
        message.strip_prefix(b"Task in ").and_then(|m| cut(m, b" killed as a result of limit of "))
    {
        facts.kind = Some(OomKind::Cgroup);
        facts.cgroup = Some(text::lossy(path, text::PATH));
        facts.limit_cgroup = Some(text::lossy(limit, text::PATH));
        facts.workload = workload::from_cgroup(path);
    } else if let Some((path, _)) = cut(message, b"Memory cgroup stats for ").and_then(|(_, m)| cut(m, b":")) {
        facts.limit_cgroup = Some(text::lossy(path, text::PATH));
    } else if let Some(rest) = message.strip_prefix(b"memory: usage ") {
        let kib = |b: &[u8]| number(b).and_then(|(n, r)| r.starts_with(b"kB").then(|| n.checked_mul(1024)).flatten());
        facts.usage_bytes = kib(rest);
        // A cgroup without a limit prints the largest number there is.
        facts.limit_bytes = cut(rest, b"limit ").and_then(|(_, l)| kib(l)).filter(|l| *l < 1 << 62);
    } else if has(message, b"Kernel panic - not syncing: Out of memory")
        || has(message, b"Kernel panic - not syncing: System is deadlocked on memory")
        || has(message, b"ut of memory and no killable processes")
    {
        facts.kind = kind_of(message);
        return Some(Saying::new(Role::Invoked, facts));
    } else {
        return None;
    }
    Some(Saying::new(Role::Dump, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(message: &[u8]) -> Facts {
        parse(message).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(message))).facts
    }

    #[test]
    fn kills_of_every_generation() {
        for (message, kind, uid) in [
            (
                &b"Out of memory: Killed process 48211 (pt_main_thread) total-vm:981467136kB, anon-rss:514238464kB, file-rss:71220kB, shmem-rss:16384kB, UID:1000 pgtables:1013248kB oom_score_adj:-5"[..],
                Some(OomKind::Host),
                Some(1000),
            ),
            (b"Memory cgroup out of memory: Killed process 48211 (pt_main_thread) total-vm:981467136kB, anon-rss:514238464kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:-5", Some(OomKind::Cgroup), Some(1000)),
            (b"Out of memory (oom_kill_allocating_task): Killed process 48211 (pt_main_thread) total-vm:981467136kB, anon-rss:514238464kB, file-rss:0kB", Some(OomKind::Host), None),
            (b"Killed process 48211 (pt_main_thread) total-vm:981467136kB, anon-rss:514238464kB, file-rss:71220kB, shmem-rss:16384kB", None, None),
            (b"Killed process 48211 (pt_main_thread), UID 1000, total-vm:981467136kB, anon-rss:514238464kB, file-rss:0kB, shmem-rss:0kB", None, Some(1000)),
            (b"Killed process 48211, UID 1000, (pt_main_thread) total-vm:981467136kB, anon-rss:514238464kB, file-rss:0kB", None, Some(1000)),
        ] {
            let f = facts(message);
            assert_eq!(f.figures(), Some((48211, 981_467_136 * 1024, 514_238_464 * 1024)));
            assert_eq!((f.kind, f.uid, f.process.as_deref()), (kind, uid, Some("pt_main_thread")));
        }
    }

    #[test]
    fn a_name_cannot_forge_its_figures() {
        let f = facts(b"Out of memory: Killed process 7 (a) total-vm:9kB) total-vm:2kB, anon-rss:1kB, file-rss:0kB");
        assert_eq!((f.process.as_deref(), f.total_vm), (Some("a) total-vm:9kB"), Some(2048)));
        let f = facts(b"Killed process 7 (x), UID 9, t), UID 5, total-vm:2kB, anon-rss:1kB, file-rss:0kB");
        assert_eq!((f.process.as_deref(), f.uid), (Some("x), UID 9, t"), Some(5)));
        let f = facts(b"Killed process 7 ([\xff k] ) invoked oom-killer: gfp_mask=) total-vm:2kB, anon-rss:1kB");
        assert_eq!(f.process.as_deref(), Some("[\u{fffd} k] ) invoked oom-killer: gfp_mask="));
        let f = facts(b"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,b,task_memcg=/a,b/job_9,task=x,task=y,pid=5,uid=0");
        assert_eq!((f.process.as_deref(), f.cgroup.as_deref()), (Some("x,task=y"), Some("/a,b/job_9")));
        assert_eq!((f.kind, f.limit_cgroup.as_deref()), (Some(OomKind::Cgroup), Some("/a,b")));
    }

    #[test]
    fn numbers_out_of_range_are_not_understood() {
        for message in [
            &b"Killed process 7 (x) total-vm:18446744073709551615kB, anon-rss:1kB"[..],
            b"Killed process 99999999999999999999 (x) total-vm:1kB, anon-rss:1kB",
            b"99999999999999999999 pages RAM",
            b"18446744073709551615 pages RAM",
            b"Total swap = 18446744073709551615kB",
            b"Killed process 7 (x) total-vm:-1kB",
            b"Killed process ",
        ] {
            assert_eq!(parse(message), None);
        }
    }

    #[test]
    fn the_other_lines_of_a_kill() {
        assert_eq!(
            facts(b"pt tcp store invoked oom-killer: gfp_mask=0x0, order=0").invoked_by.as_deref(),
            Some("pt tcp store")
        );
        assert_eq!(facts(b"memory: usage 337920kB, limit 337920kB, failcnt 288").limit_bytes, Some(337_920 << 10));
        assert_eq!(facts(b"6291358 pages RAM").host_memory, Some(6_291_358 * 4096));
        assert_eq!(facts(b"Total swap = 8kB").host_swap, Some(8192));
        assert_eq!(
            facts(b"oom_reaper: reaped process 7 (a) b), now anon-rss:0kB, file-rss:0kB").process.as_deref(),
            Some("a) b")
        );
        let f = facts(b"Task in /docker/x killed as a result of limit of /docker");
        assert_eq!((f.cgroup.as_deref(), f.limit_cgroup.as_deref()), (Some("/docker/x"), Some("/docker")));
        let f = facts(b"Out of memory: Kill process 2592 (python3) score 912 or sacrifice child");
        assert_eq!((f.pid, f.score, f.kind), (None, Some(912), Some(OomKind::Host)));
        assert_eq!(parse(b"? oom_kill_process+0x10/0x20"), None);
    }
}
