//! What each source sent: one pass over all findings, however many incidents ask.

use std::collections::{BTreeMap, BTreeSet};

use super::Evidence;
use crate::finding::Finding;
use crate::net::{Address, Endpoint};
use crate::vocabulary::Severity;

/// Findings by the address of their source.
#[derive(Debug)]
pub(crate) struct BySource<'a> {
    by_source: BTreeMap<Address, Vec<&'a Finding>>,
    /// Sources that tried several things or places.
    several: BTreeSet<Address>,
}

impl<'a> BySource<'a> {
    /// Of all findings.
    pub(crate) fn of(e: &Evidence<'a>) -> BySource<'a> {
        let mut by_source: BTreeMap<Address, Vec<&Finding>> = BTreeMap::new();
        let mut first: BTreeMap<Address, (Endpoint, &[u8])> = BTreeMap::new();
        let mut several = BTreeSet::new();
        for f in e.findings {
            by_source.entry(f.source.address).or_default().push(f);
            if f.stray.is_some() && f.severity >= Severity::Notice {
                let this = (f.target, f.bytes.as_slice());
                if *first.entry(f.source.address).or_insert(this) != this {
                    several.insert(f.source.address);
                }
            }
        }
        BySource { by_source, several }
    }

    /// The findings of what these sources sent, in order of time.
    pub(crate) fn by(&self, sources: &BTreeSet<Address>) -> impl Iterator<Item = &'a Finding> {
        let mut all: Vec<&Finding> = sources.iter().filter_map(|s| self.by_source.get(s)).flatten().copied().collect();
        if sources.len() > 1 {
            all.sort_by_key(|f| f.time);
        }
        all.into_iter()
    }

    /// Whether a source sent different bytes, or the same to different listeners.
    pub(crate) fn tried_several(&self, source: Address) -> bool {
        self.several.contains(&source)
    }
}
