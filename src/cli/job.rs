//! The report of a Slurm job: what `sacct -P` and `scontrol show job` say of its nodes, its time, its steps and how they ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;

use super::output::shown;
use super::window::Window;
use crate::disk::read_small;
use crate::escape::clean;
use crate::names::short;
use crate::oom::{Zone, expand_nodeset, instant_or_local};
use crate::report::model::Report;
use crate::report::table::{by_weight, cause};
use crate::time::{NANOS, Timestamp};

/// Bytes of such a file.
const MAX_BYTES: u64 = 16 << 20;
/// How far local times of an unknown zone may be from UTC, in nanoseconds.
const ANY_ZONE: i64 = 14 * 3600 * NANOS;
/// Accounting notes the end of a step some seconds before or after the kernel's line.
const SLACK: i64 = 60 * NANOS;

/// The flag.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Selection")]
pub(super) struct JobArgs {
    /// Only the nodes and the time of a Slurm job, as `sacct -P` or `scontrol show job` printed it; - is standard input
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) job: Option<PathBuf>,
}

/// A job, or a step of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    state: String,
    nodes: BTreeSet<String>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    steps: BTreeMap<String, Run>,
}

/// All jobs of a file, by their ids.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    jobs: BTreeMap<String, Run>,
    zone: Option<Zone>,
    /// Times of which no zone is known were widened.
    widened: bool,
}

impl JobArgs {
    /// Reads the file that the flag names, its local times in `zone`.
    pub(super) fn read(&self, zone: Option<Zone>) -> anyhow::Result<Option<Jobs>> {
        let Some(path) = &self.job else { return Ok(None) };
        let bytes = read_small(path, MAX_BYTES).with_context(|| format!("{}: cannot read", shown(path)))?;
        let mut jobs = Jobs { zone, ..Jobs::default() };
        jobs.parse(&String::from_utf8_lossy(&bytes));
        anyhow::ensure!(
            !jobs.jobs.is_empty(),
            "{}: no job in it: the output of `sacct -P -o JobID,State,Start,End,NodeList` or `scontrol show job` was required",
            shown(path)
        );
        Ok(Some(jobs))
    }
}

impl Jobs {
    fn parse(&mut self, text: &str) {
        let mut names: Vec<&str> = Vec::new();
        let mut record: Option<String> = None;
        for line in text.lines() {
            if line.starts_with("JobId=") {
                record = None;
            }
            let cells: Vec<&str> = line.split('|').collect();
            if cells.iter().any(|c| *c == "JobID" || *c == "JobIDRaw") {
                names = cells;
            } else if cells.len() > 1 && record.is_none() {
                let cell = |name: &str| names.iter().position(|n| *n == name).and_then(|i| cells.get(i)).copied();
                self.row(cell("JobID").or_else(|| cell("JobIDRaw")).unwrap_or_default(), &cell);
            } else {
                let word = |name: &str| line.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
                if let Some(id) = word("JobId") {
                    let of_array =
                        word("ArrayJobId").zip(word("ArrayTaskId")).map(|(job, task)| format!("{job}_{task}"));
                    record = Some(of_array.unwrap_or_else(|| id.to_string()));
                }
                if let Some(id) = &record {
                    let field = |name: &str| match name {
                        "State" => word("JobState"),
                        "Start" => word("StartTime"),
                        "End" => word("EndTime"),
                        _ => word(name),
                    };
                    self.row(id, &field);
                }
            }
        }
    }

    /// What one row of accounting, or one line of a record, says.
    fn row<'a>(&mut self, id: &str, cell: &dyn Fn(&str) -> Option<&'a str>) {
        if !id.starts_with(|c: char| c.is_ascii_digit()) || id.len() > 64 {
            return;
        }
        let (start, end) = (self.instant(cell("Start"), false), self.instant(cell("End"), true));
        let nodes = cell("NodeList").and_then(expand_nodeset).map(|n| n.hosts);
        let (job, step) = id.split_once('.').map_or((id, None), |(job, step)| (job, Some(step)));
        let job = self.jobs.entry(clean(job.as_bytes(), 64)).or_default();
        let run = match step {
            Some(step) => job.steps.entry(clean(step.as_bytes(), 64)).or_default(),
            None => job,
        };
        if let Some(state) = cell("State").and_then(|s| s.split_whitespace().next()) {
            run.state = clean(state.as_bytes(), 32);
        }
        run.nodes.extend(nodes.into_iter().flatten().map(|n| n.to_string()));
        (run.start, run.end) = (start.or(run.start), end.or(run.end));
    }

    /// A time; a local one of no known zone is the earliest or the latest that it may be.
    fn instant(&mut self, text: Option<&str>, latest: bool) -> Option<Timestamp> {
        match (instant_or_local(text?)?, self.zone) {
            (Ok(at), _) => Some(at),
            (Err(local), Some(zone)) => zone.instants(local).map(|i| i.first),
            (Err(local), None) => {
                self.widened = true;
                let utc = local.and_utc().timestamp_nanos_opt()?;
                Some(Timestamp(utc.saturating_add(if latest { ANY_ZONE } else { -ANY_ZONE })))
            }
        }
    }

    /// Leaves out of a report what is not of these jobs' nodes and time, and says first how each job and step ended, and why.
    pub(super) fn keep(&self, report: &mut Report) {
        let all = || self.jobs.values().flat_map(|j| std::iter::once(j).chain(j.steps.values()));
        let hosts: BTreeSet<String> = all().flat_map(|r| r.nodes.iter().cloned()).collect();
        let end =
            if all().any(|r| r.start.is_some() && r.end.is_none()) { None } else { all().filter_map(|r| r.end).max() };
        Window {
            since: all().filter_map(|r| r.start).min(),
            until: end.map(|e| e.plus_nanos(SLACK)),
            host: hosts.into_iter().collect(),
        }
        .keep(report);
        let mut notes: Vec<String> = self.jobs.iter().flat_map(|(id, job)| lines(report, id, job)).collect();
        notes.push("what is of other nodes or times than the job's is left out (--job)".to_string());
        if self.widened {
            notes.push(
                "the job's times name no zone: all that may be meant counts; --log-tz ZONE narrows it".to_string(),
            );
        }
        if all().all(|r| r.nodes.is_empty()) {
            notes.push(
                "accounting names no nodes, so all hosts count: sacct -P -o JobID,State,Start,End,NodeList".to_string(),
            );
        }
        notes.append(&mut report.notes);
        report.notes = notes;
    }
}

/// How a job ended: its numbered steps that failed, else the batch script or the job as a whole.
fn lines(report: &Report, id: &str, job: &Run) -> Vec<String> {
    let failed = |r: &Run| !matches!(r.state.as_str(), "COMPLETED" | "RUNNING" | "PENDING" | "");
    let numbered = |step: &&String| step.starts_with(|c: char| c.is_ascii_digit());
    let steps: Vec<_> = job.steps.iter().filter(|(_, r)| failed(r)).collect();
    let mut told: Vec<_> = steps.iter().filter(|(s, _)| numbered(s)).collect();
    if told.is_empty() {
        told = steps.iter().filter(|(s, _)| *s != "extern").collect();
    }
    let line = |what: String, run: &Run| {
        let nodes = if run.nodes.is_empty() { &job.nodes } else { &run.nodes };
        format!("{what}: {}", ended(report, run, nodes, job))
    };
    if told.is_empty() {
        return vec![line(format!("job {id}"), job)];
    }
    told.into_iter().map(|(step, run)| line(format!("job {id}, step {step}"), run)).collect()
}

fn ended(report: &Report, run: &Run, nodes: &BTreeSet<String>, job: &Run) -> String {
    let (start, end) = (run.start.or(job.start), run.end.or(job.end).map(|e| e.plus_nanos(SLACK)));
    let names: BTreeSet<String> = nodes.iter().map(|n| short(n)).collect();
    let meant = |host: &str| names.is_empty() || names.contains(&short(host));
    let inside = |t: Timestamp| start.is_none_or(|s| t >= s) && end.is_none_or(|e| t <= e);
    let kills = report.oom_events.iter().filter(|e| e.time.is_none_or(inside)).filter_map(|e| e.host.as_deref());
    let killed: BTreeSet<String> = kills.filter(|h| meant(h)).map(short).collect();
    let of = match nodes.len() {
        0 => "nodes that accounting does not name".to_string(),
        1 => "1 node".to_string(),
        n => format!("{n} nodes"),
    };
    let state = if run.state.is_empty() { "state not told" } else { &run.state };
    if killed.is_empty() {
        return format!("{state} on {of}: no kill on them is told of");
    }
    let incident = by_weight(report).into_iter().find(|i| i.hosts.iter().any(|h| killed.contains(&short(&h.host))));
    let why = incident.map(|i| format!(", {}", cause(report, i))).unwrap_or_default();
    format!("{state} on {} of {of}{why}", killed.len()).replace(crate::report::table::HARD_SPACE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str, zone: Option<Zone>) -> Jobs {
        let mut jobs = Jobs { zone, ..Jobs::default() };
        jobs.parse(text);
        jobs
    }

    #[test]
    fn accounting_and_records_say_the_same() {
        let sacct = "JobID|State|Start|End|NodeList\n774|FAILED|2026-11-29T11:00:00|2026-11-29T11:20:00|node-[a-c]\n";
        let sacct = sacct.replace("[a-c]", "[1-3]");
        let scontrol = "JobId=774 JobName=x\n   JobState=FAILED Reason=NonZeroExitCode\n   StartTime=2026-11-29T11:00:00 \
                        EndTime=2026-11-29T11:20:00\n   NodeList=node-[1-3]\n   BatchHost=node-1\n\n";
        let (a, b) = (jobs(&sacct, Some(Zone::UTC)), jobs(scontrol, Some(Zone::UTC)));
        assert_eq!(a.jobs, b.jobs);
        assert_eq!(a.jobs["774"].nodes.len(), 3);
        // Without a zone the times reach as far as any zone may.
        let wide = jobs(&sacct, None);
        assert!(
            wide.widened && wide.jobs["774"].start < a.jobs["774"].start && wide.jobs["774"].end > a.jobs["774"].end
        );
    }

    #[test]
    fn steps_and_arrays_have_their_own_states() {
        let text = "JobID|State|NodeList\n4_1|FAILED|n1\n4_1.batch|FAILED|n1\n4_1.0|OUT_OF_MEMORY|n1\n4_1.extern|COMPLETED|n1\n";
        let all = jobs(text, None);
        let told = lines(&Report::default(), "4_1", &all.jobs["4_1"]);
        assert_eq!(told, ["job 4_1, step 0: OUT_OF_MEMORY on 1 node: no kill on them is told of"]);
        assert!(jobs("x|y\nnothing\n|||\nJobId=\n", None).jobs.is_empty());
    }
}
