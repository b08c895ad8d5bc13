//! TCPStore, as the rest of the house sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::infer_dialect::releases;
use super::{Candidates, Declared, Decoding, Dialect, Facts, first_bytes};
use super::{StoreRule, judge};
use crate::finding::Rule;
use crate::net::Endpoint;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{
    Asked, Decoded, Decoder, Dissector, Given, Lesson, Match, Opening, Seen, Study, client_speaks_first,
};
use crate::stream::{Chunk, Direction};
use crate::vocabulary::Protocol;

/// PyTorch's TCPStore.
pub struct Tcpstore;

/// What the decoders of all dialects make of one connection, oldest dialect first.
#[derive(Debug)]
pub struct Readings(Vec<Facts>);

/// What a claim takes as a finding and in a report, in bytes.
const CLAIM_MEMORY: u64 = 6 << 10;

impl Decoded for Readings {
    fn memory(&self) -> u64 {
        let own = |f: &Facts| size_of::<Facts>() + f.declared.capacity() * size_of::<Declared>();
        let claims = self.0.iter().map(|f| f.declared_count).max().unwrap_or(0);
        self.0.iter().map(own).sum::<usize>() as u64 + claims.min(16) * CLAIM_MEMORY
    }
}

impl FlowObservation {
    /// What a TCPStore decoder of each dialect makes of it; empty when none was tried.
    pub fn store(&self) -> &[Facts] {
        self.decoded::<Readings>().map_or(&[], |r| &r.0)
    }

    /// What a TCPStore decoder of `dialect` makes of it.
    pub fn facts(&self, dialect: Dialect) -> Option<&Facts> {
        self.store().iter().find(|f| f.dialect == dialect)
    }

    /// The oldest and the newest release of PyTorch that the store's client can be, where its requests tell.
    pub fn client_releases(&self) -> (Option<(u8, u8)>, Option<(u8, u8)>) {
        let sound = self.facts(Dialect::D).filter(|f| f.reading.is_sound());
        sound.map_or((None, None), |f| releases(&f.reading))
    }
}

/// One connection, read in every dialect: which one it is may become known much later.
struct Readers(Vec<Decoding>);

impl Decoder for Readers {
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        self.0.iter_mut().for_each(|r| r.chunk(direction, chunk));
    }

    fn gap(&mut self, direction: Direction, offset: u64, length: u64) {
        self.0.iter_mut().for_each(|r| r.gap(direction, offset, length));
    }

    /// None in a connection that a dialect accounts for, both ways: what others read into it is nothing.
    fn claims(&self) -> Option<u64> {
        let all = || self.0.iter().map(Decoding::facts);
        let honest = all().any(|f| f.declared_count == 0 && f.answers > 0 && f.is_clean());
        Some(if honest { 0 } else { all().map(|f| f.declared_count).sum() })
    }

    fn end(self: Box<Self>) -> Arc<dyn Decoded> {
        // Collected in place they would keep the room of the decoders they come from, for as long as the analysis runs.
        let mut facts = Vec::with_capacity(self.0.len());
        facts.extend(self.0.into_iter().map(Decoding::end));
        Facts::share(&mut facts);
        Arc::new(Readings(facts))
    }
}

impl Dissector for Tcpstore {
    fn protocol(&self) -> Protocol {
        Protocol::Tcpstore
    }

    fn recognise(&self, opening: &Opening<'_>) -> Match {
        client_speaks_first(opening).unwrap_or_else(|| match first_bytes(opening.client) {
            Candidates::No => Match::No,
            Candidates::NotEnoughBytes => Match::Undecided,
            Candidates::Store { .. } => Match::Yes,
        })
    }

    fn decoder(&self, midstream: bool) -> Box<dyn Decoder> {
        Box::new(Readers(Dialect::ALL.iter().map(|d| Decoding::new(*d, midstream)).collect()))
    }

    /// An honest client is known by what it asked for; what it wrote does not matter. Of a stray all bytes do, and how the
    /// connection ended.
    fn alike(&self, o: &FlowObservation) -> Option<u64> {
        let all = o.store();
        if all.iter().any(|f| f.declared_count > 0 || f.learned.teaches()) {
            return None;
        }
        let mut hash = Sha256::new();
        let clean = all.iter().any(|f| f.is_clean() && f.answers > 0 && f.unanswered == 0 && f.unfinished.is_none());
        if clean {
            for f in all {
                hash.update([u8::from(f.reading.is_sound()), u8::from(f.is_clean()), u8::from(f.begins_well())]);
                hash.update(f.operations.to_le_bytes());
            }
        } else {
            if !o.kept_whole[0] || all.iter().any(|f| f.plausible > 0 || f.greetings > 0 && f.is_clean()) {
                return None;
            }
            for k in &o.kept[0] {
                hash.update((k.bytes.len() as u64).to_le_bytes());
                hash.update(&k.bytes);
            }
            hash.update(o.record.bytes[0].to_le_bytes());
            hash.update([o.ending(), u8::from(o.record.bytes[1] > 0)]);
        }
        let digest = hash.finalize();
        Some(digest.iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b)) ^ u64::from(clean))
    }

    /// The endpoints that are stores, or may be: somebody spoke to them as to a store, or their port is one of those
    /// watched (or another stream named them) and something answered or was sent there.
    fn candidates(&self, seen: &Seen<'_>, asked: &Asked<'_>, taught: &[Lesson]) -> BTreeSet<Endpoint> {
        let speaks = |f: &&FlowObservation| {
            f.store().iter().any(|x| x.reading.is_sound() || x.is_clean() && x.validate.is_none())
        };
        let mut found: BTreeSet<Endpoint> = seen.flows().filter(speaks).map(FlowObservation::server).collect();
        let named: BTreeSet<Endpoint> =
            taught.iter().filter(|l| l.protocol == Protocol::Tcpstore).map(|l| l.endpoint).collect();
        let ports = asked.ports.of(asked.place(Protocol::Tcpstore));
        for r in seen.records() {
            let watched = ports.is_some_and(|p| p.contains(r.server().port)) || named.contains(&r.server());
            if watched && (r.accepted() || r.bytes[0] > 0) {
                found.insert(r.server());
            }
        }
        found.extend(seen.ordinary().map(|o| o.server).filter(|e| named.contains(e)));
        found
    }

    fn rules(&self) -> &'static [Rule] {
        StoreRule::ALL
    }

    fn study(&self, given: &Given<'_>) -> Study {
        let watched = judge::listeners(given);
        let findings = judge::findings(given, &watched);
        Study { watched, findings, ..Study::default() }
    }
}
