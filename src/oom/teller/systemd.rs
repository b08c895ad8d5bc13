//! systemd's own lines on a unit that lost a process: told of the unit and of each slice above it.

use super::super::event::{Facts, Role};
use super::super::text::{self, cut};
use super::super::workload::{Workload, WorkloadKind};
use super::Saying;

/// `x.service: A process of this unit has been killed by the OOM killer.`, `x.service: Failed with result 'oom-kill'.`
pub(super) fn parse(message: &[u8]) -> Option<Saying> {
    let (unit, _) = cut(message, b": A process of this unit has been killed by the OOM killer")
        .or_else(|| cut(message, b": Failed with result 'oom-kill'"))
        .or_else(|| cut(message, b": The kernel OOM killer killed some processes in this unit"))?;
    let unit = unit.rsplit(|b| *b == b' ').next()?;
    Some(Saying::new(Role::Report, facts(unit)?))
}

/// What is known of a unit's kill.
pub(crate) fn facts(unit: &[u8]) -> Option<Facts> {
    let workload = Workload::new(WorkloadKind::Unit, text::name(unit)?);
    Some(Facts { workload: Some(workload), ..Facts::default() })
}
