//! `docs/doors.md`: the rows as a security team reads them.

use std::fmt::Write as _;

use super::super::super::row::Grade;
use super::super::{Door, doors, effect};

const HEAD: &str = "# The doors of a training node, and what a scan does to each

Made from the measurements that `prescan --node` answers from (`src/prescan/doors/rows.tsv`): what strays did to the listeners that
a training job opens besides its store and NCCL, each with a small real job running. Where a payload that no ordinary scanner
sends hurts a listener, this page says the effect and no more.

*Half-open* is `nmap -sS`, *connect* a connection that is closed at once (`nmap -sT`, a health check), *held* one that stays and
says nothing, *probes* the payloads of a version scan. **kills**: the process or the job ends, or the listener takes nobody any
more. **degrades**: the job waits, or memory or descriptors are lost. **safe**: closed or ignored. A dash: not measured.

";

const TAIL: &str = "
## What was not measured

Stock vLLM, SGLang and Megatron programs; Horovod; Intel MPI; libfabric; DCGM; TensorPipe of PyTorch 2.x; Slurm newer than 22.05 or
with munge, PMIx or TLS; PMIx over TCP; listeners on IPv6; UDP; Nessus, Qualys and OpenVAS; scans longer than 150 s.
";

/// The page.
pub fn page() -> String {
    let mut out = HEAD.to_string();
    out.push_str("| product | release | listener | ports | half-open | connect | held | probes | seen |\n|---|---|---|---|---|---|---|---|---|\n");
    for door in doors() {
        let of = |is: &dyn Fn(&str) -> bool| cell(door, is);
        let held = |p: &str| {
            p.starts_with("NULL")
                || p.starts_with("silent")
                || p.starts_with("no bytes held")
                || p.starts_with("50 silent")
        };
        let connect = |p: &str| p.starts_with("connect+") || p.starts_with("nmap -sT");
        let half = |p: &str| p.starts_with("nmap -sS");
        let rest = |p: &str| !held(p) && !connect(p) && !half(p) && p != "none" && !p.starts_with("control");
        let mut seen: Vec<&str> = door.rows.iter().map(|r| r.seen).collect();
        seen.sort_unstable();
        seen.dedup();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            door.product,
            door.version,
            door.listener,
            if door.ports.is_empty() { "-" } else { door.ports },
            of(&half),
            of(&connect),
            of(&held),
            of(&rest),
            seen.join("; ")
        );
    }
    out.push_str("\n## What closes them\n");
    let mut told: Vec<(&str, &str)> = Vec::new();
    for door in doors() {
        let (range, closes, open) = door.family.remedy;
        if told.contains(&(door.family.name, range)) {
            continue;
        }
        told.push((door.family.name, range));
        let _ = writeln!(out, "\n**{}** ({range})", door.family.name);
        let closes = closes.iter().map(|c| format!("* closes it: {c}\n"));
        let open = open.iter().map(|o| format!("* stays open: {o}\n"));
        let _ = write!(out, "\n{}", closes.chain(open).collect::<String>());
    }
    out.push_str(TAIL);
    out
}

/// The worst of some probes, and how many were as bad: `kills (13 of 18)`.
fn cell(door: &Door, is: &dyn Fn(&str) -> bool) -> String {
    let grades: Vec<Grade> =
        door.rows.iter().filter(|r| !r.of_node && is(r.probe)).map(|r| effect(r.outcome, r.job).grade()).collect();
    let Some(worst) = grades.iter().max() else {
        let survived =
            door.rows.iter().any(|r| r.of_node && is(r.probe) && effect(r.outcome, r.job).grade() == Grade::Safe);
        return if survived { "safe" } else { "-" }.to_string();
    };
    let count = grades.iter().filter(|g| *g == worst).count();
    match (worst, grades.len()) {
        (Grade::Safe | Grade::Unknown, _) | (_, 1) => worst.name().to_string(),
        (_, all) => format!("**{}** ({count} of {all})", worst.name()),
    }
}
