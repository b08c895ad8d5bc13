//! The lines of one kill, brought together within one log.
//!
//! Between `X invoked oom-killer` and `Killed process` a dump of hundreds of lines may stand, and lines of other hosts.
//! What is still open at the end of a log is handed on as it is: `merge` joins it with the rest in the next file.

use super::event::{OomSighting, Role, Source};
use std::collections::{BTreeMap, VecDeque};

/// How long a dump may take before its kill: a serial console is slow.
pub(crate) const DUMP_NANOS: i64 = 60 * crate::time::NANOS;
/// Kills of a host that may still be reaped.
const RECENT: usize = 16;
/// Hosts whose lines may be interleaved in one log.
const HOSTS: usize = 4096;
/// Lines kept for one kill.
pub(crate) const LINES: usize = 64;

#[derive(Default)]
struct PendingKill {
    /// `invoked` and the dump after it, not yet followed by a victim.
    context: Option<OomSighting>,
    /// `oom-kill:` not yet followed by `Killed process`.
    constraint: Option<OomSighting>,
    recent: VecDeque<OomSighting>,
}

/// What is open, by host, and what is done.
#[derive(Default)]
pub(crate) struct Assembly {
    open: BTreeMap<Option<String>, PendingKill>,
    done: Vec<OomSighting>,
}

/// Joins `other` to `to`: facts that are missing, and all lines.
pub(crate) fn absorb(to: &mut OomSighting, other: OomSighting) {
    to.facts.fill(&other.facts);
    to.reaped_at = to.reaped_at.or(other.reaped_at);
    to.reaped_boot_nanos = to.reaped_boot_nanos.or(other.reaped_boot_nanos);
    to.told_by = to.told_by.into_iter().chain(other.told_by).min();
    let room = LINES.saturating_sub(to.sources.len());
    to.sources.extend(other.sources.into_iter().take(room));
    to.sources.sort_by_key(|s: &Source| s.line);
}

/// Whether `later` can be the kill of the dump that began with `context`.
fn near(context: &OomSighting, later: &OomSighting) -> bool {
    match (context.clock(), later.clock()) {
        (Some((a, from)), Some((b, to))) if a == b => (0..=DUMP_NANOS).contains(&to.saturating_sub(from)),
        _ => true,
    }
}

impl OomSighting {
    /// Its time for comparing with others of the host: since 1970 (0), or since boot (1).
    pub(crate) fn clock(&self) -> Option<(u8, i64)> {
        self.time.map(|t| (0, t.at.0)).or(self.boot_nanos.map(|n| (1, n)))
    }
}

impl Assembly {
    /// Takes one line's sighting.
    pub(crate) fn push(&mut self, sighting: OomSighting) {
        if self.open.len() >= HOSTS && !self.open.contains_key(&sighting.host) {
            self.done.push(sighting);
            return;
        }
        let open = self.open.entry(sighting.host.clone()).or_default();
        match sighting.role {
            Role::Report => self.done.push(sighting),
            // A panic ends what an allocation began.
            Role::Invoked if sighting.facts.invoked_by.is_none() => match &mut open.context {
                Some(context) if near(context, &sighting) => absorb(context, sighting),
                _ => self.done.extend(open.context.replace(sighting)),
            },
            Role::Invoked => self.done.extend(open.context.replace(sighting)),
            Role::Dump => match &mut open.context {
                Some(context) if near(context, &sighting) => absorb(context, sighting),
                _ => self.done.extend(open.context.replace(sighting)),
            },
            Role::Constraint => {
                let sighting = Self::with_context(&mut open.context, sighting, &mut self.done);
                self.done.extend(open.constraint.replace(sighting));
            }
            Role::Killed => {
                let mut kill = sighting;
                match open.constraint.take() {
                    Some(c) if c.facts.pid == kill.facts.pid && near(&c, &kill) => absorb(&mut kill, c),
                    other => self.done.extend(other),
                }
                let kill = Self::with_context(&mut open.context, kill, &mut self.done);
                open.recent.push_back(kill);
                if open.recent.len() > RECENT {
                    self.done.extend(open.recent.pop_front());
                }
            }
            Role::Reaped => match open.recent.iter_mut().rev().find(|k| k.facts.pid == sighting.facts.pid) {
                Some(kill) => absorb(kill, sighting),
                None => self.done.push(sighting),
            },
        }
    }

    fn with_context(
        context: &mut Option<OomSighting>,
        mut kill: OomSighting,
        done: &mut Vec<OomSighting>,
    ) -> OomSighting {
        match context.take() {
            Some(c) if near(&c, &kill) => absorb(&mut kill, c),
            other => done.extend(other),
        }
        kill
    }

    /// The last sighting that is done.
    pub(crate) fn last(&mut self) -> Option<&mut OomSighting> {
        self.done.last_mut()
    }

    /// How many sightings are done.
    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    /// Everything, in order of the first line.
    pub(crate) fn finish(mut self) -> Vec<OomSighting> {
        for (_, open) in self.open {
            self.done.extend(open.context.into_iter().chain(open.constraint).chain(open.recent));
        }
        self.done.sort_by_key(|s| s.sources.first().map(|s| s.line));
        self.done
    }
}
