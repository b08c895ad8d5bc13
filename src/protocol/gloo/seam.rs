//! Gloo, as the rest of the house sees it.

use std::sync::Arc;

use super::{FirstBytes, HEAD_BYTES, first_bytes};
use crate::protocol::observation::FlowObservation;
use crate::protocol::seam::{
    Decoded, Decoder, Dissector, Evidence, Given, ListenerView, Match, Opening, Study, Traffic,
};
use crate::stream::{Chunk, Direction};
use crate::vocabulary::{Protocol, Role};

/// Gloo.
pub struct Gloo;

impl Dissector for Gloo {
    fn protocol(&self) -> Protocol {
        Protocol::Gloo
    }

    /// A number and a header are too little to know a pair by on any port: a store names them.
    fn recognise(&self, _opening: &Opening<'_>) -> Match {
        Match::No
    }

    fn decoder(&self, midstream: bool) -> Box<dyn Decoder> {
        Box::new(Pair { midstream, heads: Default::default() })
    }

    fn reads_late(&self) -> bool {
        false
    }

    /// Pairs that some rank connected to.
    fn study(&self, given: &Given<'_>) -> Study {
        let traffic = given.seen.traffic(|r| r.accepted() && given.connections.contains_key(&r.server()));
        let listener = |(endpoint, seen): (&_, &Traffic)| {
            let lesson = given.taught.iter().find(|l| l.protocol == Protocol::Gloo && l.endpoint == *endpoint)?;
            let by = Evidence { text: lesson.by.clone(), packet: None };
            Some(ListenerView { traffic: Some(*seen), ..ListenerView::new(*endpoint, Some(Role::Pair), by) })
        };
        Study { listeners: traffic.iter().filter_map(listener).collect(), ..Study::default() }
    }
}

/// A connection to a pair's listener: its beginnings.
struct Pair {
    midstream: bool,
    heads: [Vec<u8>; 2],
}

/// Whether a connection is a pair of Gloo's.
#[derive(Debug)]
pub struct PairFacts {
    /// Its bytes are those of a pair, or it was joined in the middle.
    pub is_pair: bool,
}

impl Decoded for PairFacts {}

impl FlowObservation {
    /// What a decoder of Gloo makes of it; `None` when none was tried.
    pub fn gloo(&self) -> Option<&PairFacts> {
        self.decoded()
    }
}

impl Decoder for Pair {
    fn chunk(&mut self, direction: Direction, chunk: &Chunk<'_>) {
        let head = &mut self.heads[direction.index()];
        if head.len() as u64 == chunk.offset {
            let room = HEAD_BYTES.saturating_sub(head.len());
            head.extend_from_slice(chunk.bytes.get(..room).unwrap_or(chunk.bytes));
        }
    }

    fn gap(&mut self, _direction: Direction, _offset: u64, _length: u64) {}

    fn is_done(&self) -> bool {
        self.heads.iter().any(|h| h.len() >= HEAD_BYTES)
    }

    fn end(self: Box<Self>) -> Arc<dyn Decoded> {
        let [client, server] = &self.heads;
        Arc::new(PairFacts { is_pair: self.midstream || first_bytes(client, server) == FirstBytes::Pair })
    }
}
