//! What a log held, and what the reader should know of it.

use super::envelope::nodeset::MAX_HOSTS;
use super::event::OomSighting;
use super::facts::{FactsLineError, HostFacts};
use super::format::Format;
use super::object::document;
use super::scanner::{MAX_LINE, MAX_SIGHTINGS, Scanner};
use crate::time::Timestamp;

/// A line that speaks of an OOM in words that are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUnderstood {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning, decoded lossily, not escaped.
    pub text: String,
    /// Why it gave no event.
    pub reason: &'static str,
}

/// A line in which a library tells of an error on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning, decoded lossily, not escaped.
    pub text: String,
}

/// What a log held.
#[derive(Clone, Debug, Default)]
pub struct LogSummary {
    /// The label given to the scanner.
    pub path: String,
    /// The shape of most lines looked at.
    pub format: Option<Format>,
    /// The host, if the log is of one.
    pub host: Option<String>,
    /// The first time in it.
    pub first: Option<Timestamp>,
    /// The last time in it.
    pub last: Option<Timestamp>,
    /// Lines read.
    pub lines: u64,
    /// Lines that speak of an OOM and were not understood.
    pub not_understood: u64,
    /// The first of them.
    pub examples: Vec<NotUnderstood>,
    /// The zone used for local times; `None` if no line had one.
    pub timezone: Option<String>,
    /// That zone is a guess.
    pub timezone_assumed: bool,
    /// The boot time that was used.
    pub boot_time: Option<Timestamp>,
    /// Where it comes from.
    pub boot_source: Option<&'static str>,
    /// What the reader should know, each with the flag that would settle it.
    pub warnings: Vec<String>,
    /// What was seen.
    pub sightings: Vec<OomSighting>,
    /// Lines in which a library tells of an error on a connection; the first few hundred.
    pub connection_errors: Vec<ConnectionError>,
    /// Facts of hosts, where the log is what `contrib/collect.sh` printed.
    pub facts: Vec<HostFacts>,
    /// The first lines of facts that were not understood.
    pub facts_errors: Vec<FactsLineError>,
}

impl Scanner {
    /// Puts the warnings into the summary, each with the flag that would settle it.
    pub(super) fn warn(&mut self) {
        let mut say = |n: u64, text: String| {
            if n > 0 {
                self.summary.warnings.push(text);
            }
        };
        for (host, n) in &self.without_boot {
            say(
                *n,
                format!(
                    "{n} OOM lines have only seconds since boot: --boot {host}=TIME gives them a time (`uptime -s` on the host)"
                ),
            );
        }
        let n = self.without_year;
        say(n, format!("{n} OOM lines have no year, and nothing says which: listed without a time"));
        let n = self.without_time;
        say(n, format!("{n} OOM lines have no time at all: listed without one"));
        let n = self.out_of_range;
        say(n, format!("{n} OOM lines have a time that cannot be (outside 1678 to 2261, or no date of its year)"));
        let n = self.ambiguous;
        say(n, format!("{n} OOM lines lie in an hour that the zone lives twice: the earlier instant is taken"));
        let year = match (self.span.dated, self.options.near.or(self.options.written)) {
            (Some(_), _) => "taken from other lines of the log",
            (None, Some(_)) if self.options.near.is_some() => "the one nearest to the captures",
            _ => "a guess, the latest that the file's own date allows",
        };
        say(u64::from(self.year_guessed), format!("times have no year: it is {year}"));
        say(
            u64::from(self.summary.timezone_assumed),
            "local times without a zone are taken as UTC: --log-tz [HOST=]ZONE names it".to_owned(),
        );
        let n = self.cut;
        say(n, format!("{n} lines are longer than {MAX_LINE} bytes: only their beginning was read"));
        let n = self.documents_lost;
        say(n, format!("{n} JSON documents are longer than {} bytes and were not read", document::MAX_DOCUMENT));
        let n = self.facts_not_understood;
        say(n, format!("{n} lines of collected facts were not understood"));
        let n = self.envelope.cut;
        say(n, format!("{n} nodesets name more than {} hosts: the rest was left out", MAX_HOSTS));
        let n = self.envelope.groups;
        say(
            n,
            format!("{n} blocks name a group of hosts (@GROUP) whose members are not known: gather without regrouping"),
        );
        for (why, n) in &self.refused {
            say(*n, format!("not read: {why}"));
        }
        let n = self.dropped;
        say(n, format!("{n} OOM lines beyond the first {MAX_SIGHTINGS} kills were not kept"));
    }
}
