//! Evidence that is taken: into a central case as it arrives, or from captures and logs for others to take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::captures::CaptureIndex;
use super::content_head::Stat;
use super::error::WatchError;
use super::logs;
use super::news::{conclude, conclude_from, told};
use crate::alert::Alerts;
use crate::analysis::{Analysis, Options, OriginSettings, Stored, survey};
use crate::case::{self, Case, Delivered};
use crate::evidence::{
    AllowedSigners, Entry, EvidenceError, FactSet, FlowFact, Kind, LEAN, gather, host_names, list_segments, read_file,
    settle,
};
use crate::stream::ordinary;
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// Bytes of packed facts that one analysis gives away: segments of streams beyond it stay where they are.
const GIVE: usize = 64 << 20;
/// Memory that one analysis takes to gather facts.
const KEEP: u64 = 512 << 20;

/// What one pass over arriving evidence came to.
#[derive(Debug, Default)]
pub struct Ingested {
    /// Segments that came.
    pub segments: u64,
    /// What is new, or graver than before.
    pub fresh: Vec<Delivered>,
    /// All that the case tells, where it was looked at anew.
    pub analysis: Option<Analysis>,
    /// What went wrong, in words.
    pub wrong: Vec<String>,
    /// Something cannot be read.
    pub trouble: bool,
}

/// A case that takes the evidence of many hosts.
#[derive(Debug)]
pub struct Central {
    case: Case,
    paths: Vec<PathBuf>,
    alerts: Alerts,
    alert_on: Severity,
    limits: case::Limits,
    signers: Option<AllowedSigners>,
    /// What the evidence of each origin came to, and when all of it was read. What arrives is read into it: an incident grows
    /// by what a segment brings, whatever else the case holds.
    gathered: BTreeMap<String, Stored>,
    read: Option<Instant>,
    /// Origins that something came of since.
    touched: BTreeSet<String>,
}

/// What the case lets go by age leaves memory as late as this.
const READ_AGAIN: Duration = Duration::from_secs(3600);

impl Central {
    /// Takes segments from `paths`, files or directories, into `case`.
    pub fn new(
        case: Case,
        paths: Vec<PathBuf>,
        (alerts, alert_on): (Alerts, Severity),
        limits: case::Limits,
    ) -> Central {
        Central {
            case,
            paths,
            alerts,
            alert_on,
            limits,
            signers: None,
            gathered: BTreeMap::new(),
            read: None,
            touched: BTreeSet::new(),
        }
    }

    /// The case.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// One pass: takes what came, concludes, delivers. `stop` is asked between segments; `options` makes options of what
    /// the evidence says of the flags of those who gathered it.
    ///
    /// # Errors
    /// The case's, evidence of a later version, and those of `options`.
    pub fn pass(
        &mut self,
        now: Timestamp,
        stop: &dyn Fn() -> bool,
        options: &dyn Fn(&[OriginSettings]) -> Result<(Options, Vec<String>), String>,
    ) -> Result<Ingested, WatchError> {
        let mut taken = Ingested::default();
        self.take(now, stop, &mut taken)?;
        if self.case.is_fresh()? && !stop() {
            self.gather()?;
            let mut origins: Vec<_> = self.gathered.values().flat_map(|s| s.origins.iter().cloned()).collect();
            origins.sort();
            let (options, unused) = options(&origins).map_err(WatchError::SiteFacts)?;
            let gathered = &self.gathered;
            let load = |case: &Case| {
                let mut all = Stored::default();
                gathered.values().for_each(|s| all.join(s.clone()));
                settle(&mut all);
                all.join(case.load_own()?);
                Ok(all)
            };
            let mut analysis = conclude_from(&mut self.case, &options, &load, &mut |_, _| {})?;
            analysis.report.notes.extend(unused.iter().cloned());
            taken.wrong.extend(unused);
            let deliver = self.alerts.is_any().then_some(self.alert_on);
            let withheld = self.alerts.withheld(&analysis.report, &mut taken.wrong);
            taken.fresh = self.case.tell_but(&told(&analysis.report, deliver), &withheld, true, now)?;
            taken.analysis = Some(analysis);
        }
        taken.wrong.extend(self.alerts.deliver(&mut self.case, now)?);
        if !self.case.prune(&self.limits, now)?.is_nothing() && self.read.is_some_and(|t| t.elapsed() > READ_AGAIN) {
            self.read = None;
        }
        Ok(taken)
    }

    /// With signers, what they have not signed is not taken.
    pub fn trusting(self, signers: Option<AllowedSigners>) -> Central {
        Central { signers, ..self }
    }

    /// Names of the host that an origin speaks for, as far as the case knows it.
    fn names_of(&self, origin: &str) -> BTreeSet<String> {
        let facts = self.case.evidence_of(Some(origin)).unwrap_or_default();
        host_names(&facts).remove(origin).unwrap_or_default()
    }

    /// Reads the evidence of the origins that something came of; at first, of all: whoever waits for segments does so beforehand.
    ///
    /// # Errors
    /// The case's.
    pub fn gather(&mut self) -> Result<(), WatchError> {
        let all = if self.read.is_none() {
            self.gathered.clear();
            self.read = Some(Instant::now());
            self.case.evidence_origins()?
        } else {
            self.touched.iter().cloned().collect()
        };
        self.touched.clear();
        for origin in all {
            let facts = self.case.evidence_of(Some(&origin))?;
            self.gathered.insert(origin, gather(facts));
        }
        Ok(())
    }

    fn take(&mut self, now: Timestamp, stop: &dyn Fn() -> bool, taken: &mut Ingested) -> Result<(), WatchError> {
        for path in &self.paths {
            let found = match list_segments(path) {
                Ok((found, refused)) => {
                    for (path, e) in refused {
                        taken.trouble = true;
                        taken.wrong.push(format!("{}: cannot list: {e}", path.display()));
                    }
                    found
                }
                Err(e) => {
                    taken.trouble = true;
                    taken.wrong.push(format!("{}: {e}", path.display()));
                    continue;
                }
            };
            for file in found {
                if stop() {
                    return Ok(());
                }
                let stat = match Stat::of(&file) {
                    Ok(stat) => stat,
                    // Whoever fetches or tidies took it away in between.
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(e) => {
                        taken.trouble = true;
                        taken.wrong.push(format!("{}: cannot read: {e}", file.display()));
                        continue;
                    }
                };
                if self.case.has_arrived(&file, stat.size, stat.modified)? {
                    continue;
                }
                let reader = match &self.signers {
                    Some(signers) => signers.read(&file, |origin| self.names_of(origin)),
                    None => match read_file(&file) {
                        Err(e @ EvidenceError::Newer { .. }) => return Err(e.into()),
                        read => read.map_err(|e| e.to_string()),
                    },
                };
                let mut reader = match reader {
                    Ok(reader) => reader,
                    Err(why) => {
                        taken.trouble = true;
                        taken.wrong.push(why);
                        continue;
                    }
                };
                taken.trouble |= !reader.wrong.is_empty();
                taken.wrong.extend(reader.wrong);
                // Of a host's day in one segment the case keeps what conclusions rest on.
                let many = (ordinary::MANY, ordinary::LISTENERS);
                let packed = reader.facts.lean(&BTreeSet::new(), many);
                packed.map_err(|source| self.case.io("cannot pack evidence", source))?;
                self.touched.extend(reader.facts.origins());
                self.case.take_evidence(&reader.facts, (&file, stat.size, stat.modified), now)?;
                taken.segments += 1;
            }
        }
        Ok(())
    }
}

/// What captures and logs hold, as evidence: the facts that a case would keep of them. They are read for it once more; a
/// capture on standard input cannot be, and is named as one that is not there.
///
/// # Errors
/// The case's (memory). `lean`: ordinary connections are counted.
pub fn evidence_of(options: &Options, setup: Option<&str>, lean: bool) -> Result<FactSet, WatchError> {
    let mut case = Case::in_memory()?;
    if let Some(setup) = setup {
        case.set_meta("setup", setup)?;
    }
    let mut refused: Vec<(String, String)> = Vec::new();
    let paths: Vec<PathBuf> = options.paths.iter().filter(|p| p.as_os_str() != "-").cloned().collect();
    if paths.len() < options.paths.len() {
        refused.push(("-".to_string(), "a capture on standard input is read once: it is in no evidence".to_string()));
    }
    let found = survey(&paths, &options.oom);
    refused.extend(found.refused.iter().map(|(p, e)| (p.to_string_lossy().into_owned(), e.clone())));
    for path in found.hosts.iter().chain(&options.hosts) {
        match crate::disk::read_small(path, crate::disk::SMALL_FILE) {
            Ok(content) => drop(case.save_hosts(path, &content)?),
            Err(e) => refused.push((path.to_string_lossy().into_owned(), format!("cannot read: {e}"))),
        }
    }
    let mut shelf = CaptureIndex::load(&case)?;
    let stop = || options.stop.as_ref().is_some_and(|s| s.load(std::sync::atomic::Ordering::Relaxed));
    let limits = case::Limits { size: KEEP, ..case::Limits::default() };
    shelf.read(&mut case, options, &found.captures, &limits, &stop)?;
    if shelf.full {
        let text = format!(
            "captures were left out when their facts took {} MiB: watch --evidence has no such limit",
            KEEP >> 20
        );
        refused.push(("(evidence)".to_string(), text));
    }
    let mut rows = case.logs()?;
    // All of a log, its last line too where it has no end.
    let later = Timestamp(i64::MAX);
    for log in &found.logs {
        match logs::follow(&mut case, &mut rows, log, later) {
            Ok(_) => {}
            Err(logs::Failed::Io(e)) => refused.push((log.path.to_string_lossy().into_owned(), e.to_string())),
            Err(logs::Failed::Watch(e)) => return Err(e),
        }
    }
    conclude(&mut case, options, &mut |_, _| {})?;
    let mut pile = FactSet::default();
    let origin = case.origin()?;
    let (mut room, mut left) = (GIVE, 0u64);
    let all = case.pile()?;
    for ((set, ..), fact) in all.flows.into_values().flatten() {
        pile.put_flow(&origin, set, FlowFact { segment: 1, ..fact });
    }
    for ((_, kind, key), mut entry) in all.entries {
        if kind == Kind::Segments {
            if entry.data.len() > room {
                left += 1;
                continue;
            }
            room -= entry.data.len();
        }
        // When a log was read is no fact of the log.
        if kind == Kind::Lines {
            entry.last = None;
        }
        entry.segment = 1;
        pile.put(&origin, kind, key, entry);
    }
    if left > 0 {
        let text = format!("{left} packed batches of streams were left out to stay below {} MiB", GIVE >> 20);
        refused.push(("(evidence)".to_string(), text));
    }
    for (path, error) in refused {
        let data = serde_json::json!({ "error": error }).to_string().into_bytes();
        pile.put(&origin, Kind::Refused, path, Entry { data, segment: 1, ..Entry::default() });
    }
    pile.entries.retain(|(_, kind, _), _| *kind != Kind::Segment);
    if lean {
        pile.lean(&BTreeSet::new(), LEAN).map_err(|source| case.io("cannot pack evidence", source))?;
    }
    Ok(pile.named_by_content())
}
