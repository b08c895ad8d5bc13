//! Alerts that are withheld: which, from when to when, and why.
//!
//! A text file, an entry a line, words of the form `key=value`, `#` begins a comment:
//!
//! ```text
//! source=192.0.2.250 rule=syn-scan,foreign-protocol reason="approved scanner, ticket 4711" until=2027-01-01
//! ```
//!
//! All words of an entry must fit. An incident with a kill is withheld by `incident=ID` alone; any other one only where
//! every one of its triggers is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::window::Window;
use crate::case::{Delivered, Withheld};
use crate::escape::clean;
use crate::net::{Address, Network};
use crate::protocol::rule;
use crate::report::model::{Finding, Incident, Report};
use crate::time::Timestamp;

/// Bytes of a list.
const MOST_BYTES: u64 = 1 << 20;

/// What is wrong with a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuppressError {
    /// It cannot be read.
    #[error("{}: cannot read: {reason}", path.display())]
    Unreadable {
        /// The list.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// A line is no entry.
    #[error("{}:{line}: {reason}{}", path.display(), more(*others))]
    Line {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was required and what was there.
        reason: String,
        /// Lines after it that are wrong too.
        others: usize,
    },
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" (and {others} more lines are wrong)") }
}

/// An entry.
#[derive(Clone, Debug, Default)]
struct Entry {
    line: usize,
    /// As it stands in the list, without its reason.
    text: String,
    sources: Vec<Network>,
    rules: Vec<String>,
    listeners: Vec<(Option<Address>, u16)>,
    incident: Option<String>,
    window: Window,
    reason: String,
}

/// A list of entries.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    entries: Vec<Entry>,
}

impl Suppressions {
    /// Reads a list; `path` is for what is said of it.
    ///
    /// # Errors
    /// The first line that is no entry, and how many more there are.
    pub fn parse(text: &str, path: &Path) -> Result<Suppressions, SuppressError> {
        let mut entries = Vec::new();
        let mut wrong: Option<(usize, String)> = None;
        let mut others = 0;
        for (line, text) in (1..).zip(text.lines()) {
            match parse_entry(line, text) {
                Ok(entry) => entries.extend(entry),
                Err(_) if wrong.is_some() => others += 1,
                Err(reason) => wrong = Some((line, reason)),
            }
        }
        match wrong {
            None => Ok(Suppressions { entries }),
            Some((line, reason)) => Err(SuppressError::Line { path: path.to_owned(), line, reason, others }),
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that hold for nothing that happens from `now` on: line and when they ended.
    pub fn expired(&self, now: Timestamp) -> impl Iterator<Item = (usize, Timestamp)> {
        self.entries.iter().filter_map(move |e| e.window.until.filter(|u| *u < now).map(|u| (e.line, u)))
    }

    /// What of a report is withheld, by id and kind.
    pub fn withheld(&self, report: &Report) -> BTreeMap<(String, String), Withheld> {
        let mut all = BTreeMap::new();
        if self.entries.is_empty() {
            return all;
        }
        let mut findings: BTreeMap<&str, &Entry> = BTreeMap::new();
        for f in &report.findings {
            if let Some(entry) = self.entries.iter().find(|e| e.fits(f)) {
                findings.insert(&f.id, entry);
                all.insert((f.id.clone(), "finding".to_string()), entry.withheld());
            }
        }
        for i in &report.incidents {
            let named = self
                .entries
                .iter()
                .find(|e| e.incident.as_deref() == Some(i.id.as_str()) && i.start.is_none_or(|t| e.window.contains(t)));
            if let Some(entry) = named.or_else(|| by_triggers(i, &findings)) {
                all.insert((i.id.clone(), "incident".to_string()), entry.withheld());
            }
        }
        all
    }

    /// Those of `notices` that are withheld: by rule, and by nothing else.
    pub fn withheld_notices(&self, notices: &[Delivered], now: Timestamp) -> BTreeMap<(String, String), Withheld> {
        let rule_of = |t: &Delivered| {
            let value: serde_json::Value = serde_json::from_str(&t.document).ok()?;
            Some(value.get("rule")?.as_str()?.to_string())
        };
        let mut all = BTreeMap::new();
        for told in notices.iter().filter(|t| t.kind == "notice") {
            let Some(rule) = rule_of(told) else { continue };
            let fits = |e: &&Entry| {
                let alone = e.sources.is_empty() && e.listeners.is_empty() && e.incident.is_none();
                alone && e.rules.contains(&rule) && e.window.contains(now)
            };
            if let Some(entry) = self.entries.iter().find(fits) {
                all.insert((told.id.clone(), told.kind.to_string()), entry.withheld());
            }
        }
        all
    }
}

/// An incident that killed nobody goes with its triggers, where all of them are withheld.
fn by_triggers<'a>(i: &Incident, findings: &BTreeMap<&str, &'a Entry>) -> Option<&'a Entry> {
    let killed = i.hosts.iter().any(|h| h.oom_event.is_some() || h.listener_died_at.is_some());
    if killed || i.hosts.is_empty() {
        return None;
    }
    let mut entry = None;
    for host in &i.hosts {
        entry = Some(*findings.get(host.trigger.as_deref()?)?);
    }
    entry
}

impl Entry {
    fn fits(&self, f: &Finding) -> bool {
        let address = |text: &str| text.parse::<std::net::IpAddr>().ok().map(Address::from);
        let source = f.source.as_ref().and_then(|s| address(&s.address));
        let target = f.target.as_ref().and_then(|t| Some((address(&t.address)?, t.port)));
        self.incident.is_none()
            && (self.sources.is_empty() || source.is_some_and(|a| self.sources.iter().any(|n| n.contains(a))))
            && (self.rules.is_empty() || self.rules.contains(&f.rule))
            && (self.listeners.is_empty()
                || target.is_some_and(|(to, port)| {
                    self.listeners.iter().any(|(a, p)| a.is_none_or(|a| a == to) && Some(*p) == port)
                }))
            && match f.time {
                Some(t) => self.window.contains(t),
                None => self.window.is_always(),
            }
    }

    fn withheld(&self) -> Withheld {
        Withheld { entry: self.text.clone(), reason: self.reason.clone() }
    }
}

/// The entry of a line; `None` for an empty one and a comment.
fn parse_entry(line: usize, text: &str) -> Result<Option<Entry>, String> {
    let words = words(text)?;
    if words.is_empty() {
        return Ok(None);
    }
    let mut e = Entry { line, ..Entry::default() };
    let mut seen: Vec<&str> = Vec::new();
    for word in &words {
        let shown = || clean(word.as_bytes(), 80);
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("key=value was required, {:?} was there (source=192.0.2.250)", shown()))?;
        if seen.contains(&key) {
            return Err(format!("{key}= stands there twice: several values are set apart by commas"));
        }
        seen.push(key);
        let each = || value.split(',').map(str::trim).filter(|v| !v.is_empty());
        match key {
            "source" => {
                e.sources = each()
                    .map(|v| v.parse::<Network>().map_err(|e| format!("source=: {e}")))
                    .collect::<Result<_, _>>()?;
            }
            "rule" => e.rules = each().map(known_rule).collect::<Result<_, _>>()?,
            "listener" => e.listeners = each().map(listener).collect::<Result<_, _>>()?,
            "incident" => e.incident = Some(value.trim().to_string()).filter(|v| !v.is_empty()),
            "reason" => e.reason = clean(value.trim().as_bytes(), 300),
            _ if e.window.take(key, value)? => {}
            _ => {
                return Err(format!(
                    "{:?} is no key: source, rule, listener, incident, from, until, hours, days and reason are",
                    clean(key.as_bytes(), 40)
                ));
            }
        }
        if value.trim().is_empty() {
            return Err(format!("{key}= has no value"));
        }
    }
    if e.reason.is_empty() {
        return Err("reason=\"…\" was required: who reads of withheld alerts must know why".to_string());
    }
    if e.sources.is_empty() && e.rules.is_empty() && e.listeners.is_empty() && e.incident.is_none() {
        return Err(
            "source=, rule=, listener= or incident= was required: an entry without any would withhold all".to_string()
        );
    }
    if e.incident.is_some() && !(e.sources.is_empty() && e.rules.is_empty() && e.listeners.is_empty()) {
        return Err("incident= names one incident: source=, rule= and listener= cannot stand beside it".to_string());
    }
    let kept: Vec<&str> = words.iter().map(String::as_str).filter(|w| !w.starts_with("reason=")).collect();
    e.text = clean(kept.join(" ").as_bytes(), 300);
    Ok(Some(e))
}

/// Words of a line; a value may stand in double quotes, with `\"` and `\\` in them.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => (quoted, begun) = (!quoted, true),
            '\\' if quoted => word.extend(chars.next()),
            '#' if !quoted && !begun => break,
            c if c.is_whitespace() && !quoted => {
                if begun {
                    all.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    if quoted {
        return Err("a quote was opened and not closed".to_string());
    }
    if begun {
        all.push(word);
    }
    Ok(all)
}

fn known_rule(id: &str) -> Result<String, String> {
    if rule(id).is_some() || id.starts_with("watch-") {
        return Ok(id.to_string());
    }
    Err(format!("rule=: {:?} is no rule (rdzvscope explain lists them)", clean(id.as_bytes(), 40)))
}

/// `ADDRESS:PORT`, `[ADDRESS]:PORT`, `*:PORT`.
fn listener(text: &str) -> Result<(Option<Address>, u16), String> {
    let wrong = || {
        let shown = clean(text.as_bytes(), 60);
        format!("listener=: 192.0.2.11:29500, [2001:db8::11]:29500 or *:29500 was required, {shown:?} was there")
    };
    let (address, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(wrong)?;
    let address = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
    if address == "*" {
        return Ok((None, port));
    }
    Ok((Some(address.parse::<std::net::IpAddr>().map_err(|_| wrong())?.into()), port))
}

/// A list on disk that may be edited while it is in use.
#[derive(Clone, Debug)]
pub struct SuppressFile {
    path: PathBuf,
    list: Suppressions,
    /// What its file looked like when it was read: length and time of change.
    seen: Option<(u64, std::time::SystemTime)>,
}

impl SuppressFile {
    /// Reads a list.
    ///
    /// # Errors
    /// When it cannot be read, or a line is no entry.
    pub fn open(path: &Path) -> Result<SuppressFile, SuppressError> {
        let mut file = SuppressFile { path: path.to_owned(), list: Suppressions::default(), seen: None };
        file.refresh()?;
        Ok(file)
    }

    /// Reads it again where it has changed. What is wrong is said once for each change.
    ///
    /// # Errors
    /// As [`SuppressFile::open`]; the list as it was before is kept then.
    pub fn refresh(&mut self) -> Result<(), SuppressError> {
        let failed = |e: std::io::Error| SuppressError::Unreadable { path: self.path.clone(), reason: e.to_string() };
        crate::disk::require_regular_file(&self.path).map_err(failed)?;
        let meta = std::fs::metadata(&self.path).map_err(failed)?;
        let seen = (meta.len(), meta.modified().map_err(failed)?);
        if self.seen == Some(seen) {
            return Ok(());
        }
        if meta.len() > MOST_BYTES {
            let reason = format!("{MOST_BYTES} bytes or less were required, {} were there", meta.len());
            return Err(SuppressError::Unreadable { path: self.path.clone(), reason });
        }
        let text = crate::disk::read_small(&self.path, MOST_BYTES).map_err(failed)?;
        let text = String::from_utf8(text).map_err(|e| failed(std::io::Error::other(e)))?;
        self.seen = Some(seen);
        self.list = Suppressions::parse(&text, &self.path)?;
        Ok(())
    }

    /// The list.
    pub fn list(&self) -> &Suppressions {
        &self.list
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
#[path = "suppress_tests.rs"]
mod tests;
