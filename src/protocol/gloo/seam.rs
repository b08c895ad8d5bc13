//! Gloo, as the rest of the house sees it.

pub use super::facts::PairFacts;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::first_bytes::{NUMBER, operation};
use super::group::{Groups, speaks};
use super::judge::judge;
use super::rules::GlooRule;
use super::{FirstBytes, HEAD_BYTES, first_bytes};
use crate::finding::{Finding, Rule};
use crate::net::Endpoint;
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{
    Asked, Decoded, Decoder, Dissector, Evidence, Given, Lesson, ListenerView, LoggedError, Match, Opening, Seen,
    Study, Traffic, own_candidates,
};
use crate::stream::{Chunk, Direction};
use crate::vocabulary::{Protocol, Role};

/// Gloo.
pub struct Gloo;

/// Whether the first bytes hold what a pair exchanges, behind a number or without one.
fn exchanges(client: &[u8], server: &[u8]) -> [bool; 2] {
    let pair = |bytes: &[u8]| operation(bytes) == FirstBytes::Pair;
    [pair(client) || client.get(NUMBER..).is_some_and(pair), pair(server)]
}

impl Dissector for Gloo {
    fn corroborate(&self, findings: &mut [Finding], errors: &[LoggedError]) {
        let own = |f: &&mut Finding| GlooRule::ALL.iter().any(|r| r.id == f.rule);
        super::logged::corroborate(findings.iter_mut().filter(own), errors);
    }

    fn protocol(&self) -> Protocol {
        Protocol::Gloo
    }

    /// By an operation's header: a number alone is too little to know a pair by on any port.
    fn recognise(&self, opening: &Opening<'_>) -> Match {
        match first_bytes(opening.client, opening.server) {
            FirstBytes::No => Match::No,
            _ if exchanges(opening.client, opening.server) != [false; 2] => Match::Yes,
            _ => Match::Undecided,
        }
    }

    fn decoder(&self, midstream: bool) -> Box<dyn Decoder> {
        Box::new(Pair { midstream, heads: Default::default(), from: [None; 2] })
    }

    /// Strangers are counted one by one. What merely might have been a pair is another protocol's to tell apart.
    fn alike(&self, o: &FlowObservation) -> Option<u64> {
        o.gloo().filter(|f| !f.is_pair && o.decoded.len() > 1).map(|_| 0)
    }

    /// Of a connection that was joined in the middle either side may be the listener.
    fn candidates(&self, seen: &Seen<'_>, asked: &Asked<'_>, taught: &[Lesson]) -> BTreeSet<Endpoint> {
        let mut all = own_candidates(Protocol::Gloo, seen, asked, taught);
        let joined = seen.flows().filter(|f| speaks(f) && f.record.isn(Direction::ToServer).is_none());
        all.extend(joined.map(FlowObservation::client));
        all
    }

    /// Those that a store names, and those that were spoken to as pairs are, by somebody.
    fn listeners(&self, given: &Given<'_>) -> BTreeSet<Endpoint> {
        let told = given.taught.iter().filter(|l| l.protocol == Protocol::Gloo).map(|l| l.endpoint);
        let flows = given.seen.flows().filter(|f| speaks(f));
        let ends = flows.flat_map(|f| {
            let joined = f.record.isn(Direction::ToServer).is_none();
            [Some(f.server()), joined.then(|| f.client())].into_iter().flatten()
        });
        told.chain(ends).filter(|e| given.listeners.contains(e)).collect()
    }

    fn rules(&self) -> &'static [Rule] {
        GlooRule::ALL
    }

    /// Listeners that somebody connected to.
    fn study(&self, given: &Given<'_>) -> Study {
        let groups = Groups::of(given);
        let traffic = given.seen.traffic(|e, accepted| accepted > 0 && given.connections.contains_key(&e));
        let listener = |(endpoint, seen): (&Endpoint, &Traffic)| {
            let lesson = given.taught.iter().find(|l| l.protocol == Protocol::Gloo && l.endpoint == *endpoint);
            let by = match lesson {
                Some(lesson) => Evidence { text: lesson.by.clone(), packet: None },
                None => {
                    let own = given.connections.get(endpoint)?.iter().filter_map(|g| g.connection.observation);
                    let packet = own.filter(|o| speaks(o)).find_map(|o| Some(o.kept.iter().flatten().next()?.packet));
                    Evidence { text: "what its peers sent".to_string(), packet }
                }
            };
            Some(ListenerView {
                traffic: Some(*seen),
                version: groups.releases(*endpoint).map(str::to_string),
                ..ListenerView::new(*endpoint, Some(Role::Pair), by)
            })
        };
        let judged = |(endpoint, connections): (&Endpoint, &Vec<_>)| judge(&groups, *endpoint, connections);
        let findings: Vec<Finding> = given.connections.iter().flat_map(judged).collect();
        Study { listeners: traffic.iter().filter_map(listener).collect(), findings, ..Study::default() }
    }
}

/// A connection to a pair's listener: its beginnings.
struct Pair {
    midstream: bool,
    heads: [Vec<u8>; 2],
    /// Offsets of the first bytes.
    from: [Option<u64>; 2],
}

impl FlowObservation {
    /// What a decoder of Gloo makes of it; `None` when none was tried.
    pub fn gloo(&self) -> Option<&PairFacts> {
        self.decoded()
    }
}

impl Decoder for Pair {
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        let (head, from) = (&mut self.heads[direction.index()], &mut self.from[direction.index()]);
        if from.get_or_insert(chunk.offset).saturating_add(head.len() as u64) == chunk.offset {
            let room = HEAD_BYTES.saturating_sub(head.len());
            head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
        }
    }

    fn gap(&mut self, _direction: Direction, _offset: u64, _length: u64) {}

    fn is_done(&self) -> bool {
        let [client, server] = &self.heads;
        self.heads.iter().all(|h| h.len() >= HEAD_BYTES) && exchanges(client, server) != [false; 2]
    }

    fn end(self: Box<Self>) -> Arc<dyn Decoded> {
        let [client, server] = &self.heads;
        let said = exchanges(client, server);
        Arc::new(PairFacts {
            is_pair: self.midstream || first_bytes(client, server) == FirstBytes::Pair,
            speaks: said[0] || self.midstream && said[1],
        })
    }
}
