//! Pass by pass.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use super::captures::{CaptureIndex, Event};
use super::error::WatchError;
use super::kernel;
use super::logs;
use super::news::{conclude, notice, told};
use super::shipping::Shipper;
use super::stall::stalls;
use crate::alert::Alerts;
use crate::analysis::{Analysis, Named, Options, survey};
use crate::case::{Case, Delivered, Limits, Withheld};
use crate::evidence::Segments;
use crate::time::Timestamp;
use crate::vocabulary::Severity;

/// What is watched, and how.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Directories (or files) of captures; logs in them are read too.
    pub paths: Vec<PathBuf>,
    /// Logs.
    pub oom: Vec<Named>,
    /// The journal's kernel messages.
    pub journal: bool,
    /// The kernel's own buffer of messages, `/dev/kmsg`.
    pub kmsg: bool,
    /// Where evidence is written to.
    pub evidence: Option<Segments>,
    /// Hosts lists.
    pub hosts: Vec<PathBuf>,
    /// Where alerts go.
    pub alerts: Alerts,
    /// Findings of at least this severity are alerts.
    pub alert_on: Severity,
    /// Seconds after which a capture that does not grow is said to have stopped; `None`: never.
    pub stall: Option<f64>,
    /// How much is kept.
    pub limits: Limits,
    /// Passes follow each other: after a conclusion that took long, several only read. A ring does not wait.
    pub paced: bool,
}

/// What one pass came to.
#[derive(Debug, Default)]
pub struct Pass {
    /// Packets that were read.
    pub packets: u64,
    /// Lines of logs that were read.
    pub lines: u64,
    /// Bytes of captures that lie there and were not analyzed.
    pub lag: u64,
    /// What is new, or graver than before.
    pub fresh: Vec<Delivered>,
    /// All that the case tells, where it was looked at anew.
    pub analysis: Option<Analysis>,
    /// What went wrong, in words.
    pub wrong: Vec<String>,
    /// Something that was named or lies there cannot be read.
    pub trouble: bool,
    /// How many files and directories could not be read.
    pub unreadable: u64,
    /// What is no alert, by id and kind: why.
    pub withheld: BTreeMap<(String, String), Withheld>,
}

impl Pass {
    /// Adds what the next part of it came to.
    fn join(&mut self, next: Pass) {
        self.packets += next.packets;
        self.lines += next.lines;
        (self.lag, self.unreadable) = (next.lag, next.unreadable);
        self.fresh.extend(next.fresh);
        self.analysis = next.analysis.or(self.analysis.take());
        let known = std::mem::take(&mut self.wrong);
        let new = next.wrong.into_iter().filter(|w| !known.contains(w)).collect::<Vec<_>>();
        self.wrong = known.into_iter().chain(new).collect();
        self.trouble |= next.trouble;
        self.withheld.extend(next.withheld);
    }

    /// Whether something that was told is no alert.
    pub fn is_withheld(&self, told: &Delivered) -> bool {
        self.withheld.contains_key(&(told.id.clone(), told.kind.to_string()))
    }

    /// What was withheld in this pass, counted by entry.
    pub fn withheld_counts(&self) -> Vec<(&Withheld, usize)> {
        withheld_counts(&self.fresh, &self.withheld)
    }
}

/// How many of `fresh` each entry withholds.
pub fn withheld_counts<'a>(
    fresh: &[Delivered],
    withheld: &'a BTreeMap<(String, String), Withheld>,
) -> Vec<(&'a Withheld, usize)> {
    let mut counts: BTreeMap<&str, (&Withheld, usize)> = BTreeMap::new();
    for told in fresh {
        if let Some(w) = withheld.get(&(told.id.clone(), told.kind.to_string())) {
            counts.entry(&w.entry).or_insert((w, 0)).1 += 1;
        }
    }
    counts.into_values().collect()
}

/// Reads directories into a case, again and again.
pub struct Watcher {
    case: Case,
    options: Options,
    wish: Wish,
    shelf: CaptureIndex,
    shipper: Option<Shipper>,
    /// The last pass let something go.
    room_made: bool,
    /// When to conclude again at the earliest.
    not_before: Option<Instant>,
}

impl Watcher {
    /// A watcher that goes on where the case ends.
    ///
    /// # Errors
    /// The case's.
    pub fn new(case: Case, options: Options, wish: Wish) -> Result<Watcher, WatchError> {
        let shelf = CaptureIndex::load(&case)?;
        let mut case = case;
        let shipper = wish.evidence.clone().map(|s| Shipper::new(s, &mut case)).transpose()?;
        Ok(Watcher { case, options, wish, shelf, shipper, room_made: false, not_before: None })
    }

    /// The case.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// One pass: reads what is new, concludes, and delivers. `stop` is asked now and then.
    ///
    /// # Errors
    /// The case's. What was committed before stays.
    pub fn pass(&mut self, now: Timestamp, stop: &dyn Fn() -> bool) -> Result<Pass, WatchError> {
        let mut pass = self.part(now, stop)?;
        // A case that was full was made room in: what lies there still is read on.
        while self.shelf.full && self.room_made && !stop() {
            let next = self.part(now, stop)?;
            pass.join(next);
        }
        if self.shelf.full && !self.room_made {
            pass.trouble = true;
            pass.wrong
                .push("the case file is full, and nothing in it is old enough to go: give it more (--case-max)".into());
        }
        Ok(pass)
    }

    /// As much of a pass as the case has room for.
    fn part(&mut self, now: Timestamp, stop: &dyn Fn() -> bool) -> Result<Pass, WatchError> {
        let mut pass = Pass::default();
        let mut notices = Vec::new();
        let deliver = self.wish.alerts.is_any();
        let found = survey(&self.wish.paths, &self.wish.oom);
        for (path, error) in &found.refused {
            pass.trouble = true;
            pass.unreadable += 1;
            pass.lag += std::fs::metadata(path).map_or(0, |m| m.len());
            pass.wrong.push(format!("{}: {error}", path.display()));
            notices.push(notice("watch-unreadable", path, "", error, now, deliver));
        }
        for path in found.hosts.iter().chain(&self.wish.hosts) {
            match crate::disk::read_small(path, crate::disk::SMALL_FILE) {
                Ok(content) => {
                    self.case.save_hosts(path, &content)?;
                }
                Err(e) => {
                    pass.trouble = true;
                    pass.wrong.push(format!("{}: cannot read: {e}", path.display()));
                }
            }
        }
        let limits = self.wish.limits;
        self.shelf.read(&mut self.case, &self.options, &found.captures, &limits, stop)?;
        pass.packets = self.shelf.packets;
        for event in std::mem::take(&mut self.shelf.events) {
            self.say(event, now, &mut pass, &mut notices);
        }
        self.read_logs(&found.logs, now, &mut pass)?;
        if let Some(limit) = self.wish.stall {
            for s in stalls(&self.shelf, &found, limit, now) {
                pass.wrong.push(format!("{}: {}", s.path.display(), s.text));
                notices.push(notice("watch-stopped", &s.path, &s.key, &s.text, now, deliver));
            }
        }
        if !notices.is_empty() {
            pass.withheld.extend(self.wish.alerts.withheld_notices(&notices, now));
            pass.fresh.extend(self.case.tell_but(&notices, &pass.withheld, false, now)?);
        }
        let due = self.not_before.is_none_or(|t| Instant::now() >= t) || !self.wish.paced || self.shelf.full;
        if due && !stop() {
            self.tell(now, &mut pass)?;
        }
        pass.wrong.extend(self.wish.alerts.deliver(&mut self.case, now)?);
        if let Some(shipper) = &mut self.shipper {
            let trouble = shipper.ship(&mut self.case, now, !pass.fresh.is_empty(), false)?;
            pass.trouble |= !trouble.is_empty();
            pass.wrong.extend(trouble);
        }
        let pruned = self.case.prune(&self.wish.limits, now)?;
        self.room_made = !pruned.is_nothing();
        if self.room_made {
            let full = self.shelf.full;
            self.shelf = CaptureIndex::load(&self.case)?;
            self.shelf.full = full;
        }
        Ok(pass)
    }

    /// Concludes from what was observed since the last conclusion, if anything was.
    fn tell(&mut self, now: Timestamp, pass: &mut Pass) -> Result<(), WatchError> {
        if !self.case.is_fresh()? {
            return Ok(());
        }
        let begun = Instant::now();
        let shelf = &mut self.shelf;
        let analysis = conclude(&mut self.case, &self.options, &mut |set, _| shelf.forget(set))?;
        let deliver = self.wish.alerts.is_any().then_some(self.wish.alert_on);
        let all = told(&analysis.report, deliver);
        pass.withheld.extend(self.wish.alerts.withheld(&analysis.report, &mut pass.wrong));
        pass.fresh.extend(self.case.tell_but(&all, &pass.withheld, true, now)?);
        pass.analysis = Some(analysis);
        // The training host has other things to do.
        self.not_before = Some(Instant::now() + begun.elapsed().saturating_mul(4));
        Ok(())
    }

    /// The last pass is over: concludes from what was only read, delivers, ships all that waits.
    ///
    /// # Errors
    /// The case's.
    pub fn finish(&mut self, now: Timestamp) -> Result<Pass, WatchError> {
        let mut pass = Pass::default();
        self.tell(now, &mut pass)?;
        if !pass.fresh.is_empty() {
            pass.wrong.extend(self.wish.alerts.deliver(&mut self.case, now)?);
        }
        if let Some(shipper) = &mut self.shipper {
            let trouble = shipper.ship(&mut self.case, now, true, true)?;
            pass.trouble |= !trouble.is_empty();
            pass.wrong.extend(trouble);
        }
        Ok(pass)
    }

    fn say(&self, event: Event, now: Timestamp, pass: &mut Pass, notices: &mut Vec<Delivered>) {
        let deliver = self.wish.alerts.is_any();
        let (rule, path, key, text) = match event {
            Event::Overwritten(path) => {
                let text = "another capture has taken its name before it was known to be read to its end: packets may \
                            be lost (a larger ring, or a pass more often, would have kept them)";
                ("watch-overwritten", path, now.0.to_string(), text.to_string())
            }
            Event::Changed(path) => {
                ("watch-overwritten", path, now.0.to_string(), "it was overwritten while it was read: what was read of it in this pass was thrown away, and it is read again".to_string())
            }
            Event::Unreadable(path, error, bytes) => {
                pass.trouble = true;
                pass.unreadable += 1;
                pass.lag += bytes;
                ("watch-unreadable", path, String::new(), error)
            }
        };
        let shown = path.display().to_string();
        let prefix = format!("{shown}: ");
        let text = text.strip_prefix(&prefix).unwrap_or(&text).to_string();
        pass.wrong.push(format!("{shown}: {text}"));
        notices.push(notice(rule, &path, &key, &text, now, deliver));
    }

    fn read_logs(&mut self, found: &[Named], now: Timestamp, pass: &mut Pass) -> Result<(), WatchError> {
        let mut rows = self.case.logs()?;
        for log in found {
            match logs::follow(&mut self.case, &mut rows, log, now) {
                Ok(lines) => pass.lines += lines,
                Err(logs::Failed::Io(e)) => {
                    pass.trouble = true;
                    pass.wrong.push(format!("{}: cannot read: {e}", log.path.display()));
                }
                Err(logs::Failed::Watch(e)) => return Err(e),
            }
        }
        let mut wrong = Vec::new();
        if self.wish.journal {
            wrong.extend(kernel::journal(&mut self.case, now)?);
        }
        if self.wish.kmsg {
            let (lines, trouble) = kernel::kmsg(&mut self.case, now)?;
            pass.lines += lines;
            wrong.extend(trouble);
        }
        pass.trouble |= !wrong.is_empty();
        pass.wrong.extend(wrong);
        Ok(())
    }
}
