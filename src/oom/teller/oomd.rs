//! systemd-oomd, and systemd's own report of what it killed. No pid: a whole unit dies.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::{self, cut, has};
use super::super::workload::{self, Workload, WorkloadKind};
use super::Saying;

/// `Killed /system.slice/x.service due to memory pressure …`, `Marked /… for killing due to …`, or
/// `x.service: systemd-oomd killed 9 process(es) in this unit.`
pub(crate) fn parse(message: &[u8]) -> Option<Saying> {
    if let Some((unit, rest)) = cut(message, b": systemd-oomd killed ") {
        let (count, rest) = text::number(rest)?;
        let unit = unit.rsplit(|b| *b == b' ').next().unwrap_or_default();
        let facts = Facts {
            kind: Some(OomKind::Userspace),
            workload: text::name(unit).map(|id| Workload::new(WorkloadKind::Unit, id)),
            ..Facts::default()
        };
        return (count > 0 && has(rest, b"process")).then(|| Saying::new(Role::Report, facts));
    }
    let (role, path) = if let Some((_, rest)) = cut(message, b"Killed /") {
        (Role::Killed, cut(rest, b" due to memory ")?.0)
    } else {
        (Role::Report, cut(cut(message, b"Marked /")?.1, b" for killing due to memory ")?.0)
    };
    let path = [b"/", path].concat();
    let facts = Facts {
        kind: Some(OomKind::Userspace),
        cgroup: Some(text::lossy(&path, text::PATH)),
        workload: workload::from_cgroup(&path),
        ..Facts::default()
    };
    Some(Saying::new(role, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_wordings_name_the_unit() {
        for (message, role) in [
            (&b"systemd-oomd[840]: Killed /system.slice/train.service due to memory pressure for /system.slice being 85.03% > 80.00% for > 20s with reclaim activity"[..], Role::Killed),
            (b"Marked /system.slice/train.service for killing due to memory pressure for /system.slice being 85.03% > 80.00% for > 2s with reclaim activity", Role::Report),
            (b"systemd[1]: train.service: systemd-oomd killed 9 process(es) in this unit.", Role::Report),
            (b"Killed /system.slice/train.service due to memory used (1) / total (2) and swap used (1) / total (2) being more than 90.00%", Role::Killed),
        ] {
            let saying = parse(message).expect("understood");
            assert_eq!((saying.role, saying.facts.kind), (role, Some(OomKind::Userspace)));
            assert_eq!(saying.facts.workload.map(|w| w.id).as_deref(), Some("train.service"));
        }
        assert_eq!(parse(b"Killed /x because"), None);
    }
}
