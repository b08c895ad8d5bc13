//! Slurm's accounting: `sacct` as `-P` prints it (columns by their names, whatever divides them) or in columns, and the
//! records of `scontrol show job` and of the text file of `jobcomp`.

use super::super::envelope::nodeset;
use super::super::event::ToldBy;
use super::super::format::Format;
use super::super::options::Clock;
use super::super::prefix::Peeled;
use super::super::stamp::{self, Stamp};
use super::super::teller::{Saying, slurm_facts};
use super::super::text;
use super::Told;

/// The end of a job or step, in whole seconds: its processes were killed before it.
pub(crate) const ENDED: Clock = Clock { from: "accounting, end of the job", floor: 1_000_000_000, after: false };

/// How a row is divided.
enum Division {
    By(u8),
    At(Vec<(usize, usize)>),
}

struct Table {
    division: Division,
    names: Vec<Vec<u8>>,
}

/// What is open.
#[derive(Default)]
pub(crate) struct Accounts {
    table: Option<Table>,
    /// A header in columns, of which the rule of dashes must follow.
    header: Option<Vec<u8>>,
    /// The job whose rows are being read, and its best row so far.
    job: Option<(Vec<u8>, Told)>,
    /// A record of `scontrol show job`, and its first line.
    record: Option<(u64, Vec<u8>)>,
}

/// The one node that a node list names.
pub(crate) fn one_node(list: &str) -> Option<String> {
    let nodes = nodeset::expand(list)?;
    nodes.hosts.first().filter(|_| nodes.hosts.len() == 1 && !nodes.cut).map(|h| h.to_string())
}

fn killed(state: &[u8]) -> bool {
    let state = state.to_ascii_uppercase();
    state.starts_with(b"OUT_OF_ME") || state == b"OOM"
}

fn told(line: u64, id: &[u8], end: &[u8], nodes: &[u8]) -> Option<Told> {
    let mut saying = Saying::report(ToldBy::Slurm, slurm_facts(id)?);
    saying.host = std::str::from_utf8(nodes).ok().and_then(one_node);
    let stamp = stamp::any(end).map(|(stamp, _)| (stamp, ENDED));
    let peeled = Peeled { format: Some(Format::SlurmRecord), stamp, ..Peeled::default() };
    Some(Told { lines: vec![line], peeled, saying })
}

impl Accounts {
    pub(super) fn is_open(&self) -> bool {
        self.record.is_some() || self.header.is_some()
    }

    /// Takes a line; says whether it was one of these.
    pub(super) fn line(&mut self, number: u64, line: &[u8], out: &mut Vec<Told>) -> bool {
        if line.starts_with(b"JobId=") || self.record.is_some() {
            return self.record(number, line, out);
        }
        if let Some(header) = self.header.take() {
            self.ruled(&header, line);
            if self.table.is_some() {
                return true;
            }
        }
        if self.heading(line) {
            return true;
        }
        let Some(table) = &self.table else { return false };
        let cells: Vec<&[u8]> = match &table.division {
            Division::By(b) => line.split(|c| c == b).collect(),
            Division::At(spans) => {
                spans.iter().map(|(a, z)| line.get(*a..(*z).min(line.len())).unwrap_or_default()).collect()
            }
        };
        let cell = |name: &[u8]| {
            let at = table.names.iter().position(|n| n.eq_ignore_ascii_case(name))?;
            cells.get(at).map(|c| c.trim_ascii())
        };
        let (Some(id), Some(state)) = (cell(b"JobID").or_else(|| cell(b"JobIDRaw")), cell(b"State")) else {
            self.table = None;
            return false;
        };
        if !id.first().is_some_and(u8::is_ascii_digit) {
            return false;
        }
        let found = killed(state)
            .then(|| told(number, id, cell(b"End").unwrap_or_default(), cell(b"NodeList").unwrap_or_default()));
        let of_job = id.split(|b| *b == b'.').next().unwrap_or(id).to_vec();
        if self.job.as_ref().is_some_and(|(job, _)| *job != of_job) {
            out.extend(self.job.take().map(|(_, told)| told));
        }
        if let Some(found) = found.flatten() {
            self.join(of_job, found);
        }
        true
    }

    /// Joins a row to the others of its job: of job and steps the end that came first is nearest to the kill.
    fn join(&mut self, of_job: Vec<u8>, mut found: Told) {
        if let Some((_, before)) = self.job.take() {
            let at = |t: &Told| match t.peeled.stamp {
                Some((Stamp::Absolute { at, .. }, _)) => Some(at.to_utc().naive_utc()),
                Some((Stamp::Local { at, .. }, _)) => Some(at),
                _ => None,
            };
            let earlier = at(&found).is_some_and(|f| at(&before).is_none_or(|b| f < b));
            let (mut kept, other) = if earlier { (found, before) } else { (before, found) };
            kept.saying.host = kept.saying.host.or(other.saying.host);
            kept.lines.extend(other.lines);
            kept.lines.sort_unstable();
            found = kept;
        }
        self.job = Some((of_job, found));
    }

    /// The names of the columns.
    fn heading(&mut self, line: &[u8]) -> bool {
        let names = |n: &[u8]| n.eq_ignore_ascii_case(b"State");
        let at = text::find(line, b"JobID").filter(|_| line.len() < 4096);
        let Some(at) = at.filter(|_| text::has(line, b"State") || text::has(line, b"state")) else { return false };
        let after = line.get(at..).unwrap_or_default();
        let divider = after.iter().copied().find(|b| !b.is_ascii_alphanumeric());
        match divider {
            Some(b' ') => {
                self.header = Some(line.to_vec());
                true
            }
            Some(b) => {
                let cells: Vec<Vec<u8>> = line.split(|c| *c == b).map(|c| c.trim_ascii().to_vec()).collect();
                let good = cells.iter().any(|c| names(c));
                if good {
                    self.table = Some(Table { division: Division::By(b), names: cells });
                }
                good
            }
            None => false,
        }
    }

    /// The rule of dashes under a header in columns says where each begins and ends.
    fn ruled(&mut self, header: &[u8], rule: &[u8]) {
        if rule.is_empty() || !rule.iter().all(|b| matches!(b, b'-' | b' ')) {
            return;
        }
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for (at, b) in rule.iter().enumerate().filter(|(_, b)| **b == b'-') {
            match spans.last_mut() {
                Some((_, end)) if *end == at => *end = at + 1,
                _ => spans.push((at, at + usize::from(*b == b'-'))),
            }
        }
        let names =
            spans.iter().map(|(a, z)| header.get(*a..(*z).min(header.len())).unwrap_or_default().trim_ascii().to_vec());
        self.table = Some(Table { names: names.collect(), division: Division::At(spans) });
    }

    fn record(&mut self, number: u64, line: &[u8], out: &mut Vec<Told>) -> bool {
        let begins = line.starts_with(b"JobId=");
        if begins || line.trim_ascii().is_empty() {
            self.close(out);
        }
        if begins {
            self.record = Some((number, Vec::new()));
        }
        if let Some((_, so_far)) = self.record.as_mut().filter(|(_, so_far)| so_far.len() + line.len() < 64 << 10) {
            so_far.push(b' ');
            so_far.extend_from_slice(line.trim_ascii());
        }
        if begins && text::has(line, b" EndTime=") && text::has(line, b" NodeList=") {
            self.close(out);
        }
        true
    }

    fn close(&mut self, out: &mut Vec<Told>) {
        let Some((number, record)) = self.record.take() else { return };
        let field = |name: &[u8]| {
            let mut words = record.split(|b| *b == b' ');
            words.find_map(|w| w.strip_prefix(name)?.strip_prefix(b"="))
        };
        if field(b"JobState").is_some_and(killed) {
            let nodes = field(b"NodeList").filter(|n| *n != b"(null)").or_else(|| field(b"BatchHost"));
            let end = field(b"EndTime").unwrap_or_default();
            out.extend(told(number, field(b"JobId").unwrap_or_default(), end, nodes.unwrap_or_default()));
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Told>) {
        self.close(out);
        out.extend(self.job.take().map(|(_, told)| told));
    }
}
