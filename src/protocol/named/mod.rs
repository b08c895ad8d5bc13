//! Listeners that are named, not decoded: by the first bytes of both sides, by who speaks first, by their port.
//!
//! A protocol gives a [`Named`]: what a connection of its own begins with, and what a listener is called that was spoken
//! to so. What strangers did to it, as far as the wire shows, is judged here for all of them.

mod harm;
mod rules;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::observation::FlowObservation;
use super::seam::{
    Asked, Decoded, Decoder, Dissector, DistinctFlow, Evidence, Given, Lesson, ListenerView, Match, Opening, Seen,
    Study,
};
use crate::finding::Rule;
use crate::net::{Address, Endpoint};
use crate::stream::PacketRef;
use crate::vocabulary::{Protocol, Role};
pub(super) use rules::{DoorRule, TensorpipeRule};
use words::Listening;
pub use words::Words;

/// The first bytes of a connection, and its listener's port.
#[derive(Clone, Copy, Debug)]
pub struct Speech<'a> {
    /// What the client sent.
    pub client: &'a [u8],
    /// What the listener sent.
    pub server: &'a [u8],
    /// Port of the listener.
    pub port: u16,
}

/// What a listener is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name {
    /// What it is for.
    pub role: Option<Role>,
    /// The product, and its releases where the bytes tell.
    pub product: String,
}

impl Name {
    /// A product and what its listener is for.
    pub fn new(role: Role, product: &str) -> Self {
        Name { role: Some(role), product: product.to_string() }
    }
}

/// What strangers' connections do to the listeners of a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    /// Nothing that was measured.
    Nothing,
    /// The process, and the job with it, may end.
    Dies,
    /// A length is believed, and a connection that says nothing closes the listener.
    BelievesLength,
}

/// A protocol whose listeners are named.
pub struct Named {
    /// As a report calls it.
    pub protocol: Protocol,
    /// Whether a connection on any port begins as its own do.
    pub begins: fn(&Speech<'_>) -> Match,
    /// What the listener is called, where both sides have said enough.
    pub name: fn(&Speech<'_>) -> Option<Name>,
    /// Whether these bytes of a client are of its own kind.
    pub own: fn(&[u8]) -> bool,
    /// Of what many hosts run: the ports on which it is listed anywhere. Elsewhere it is listed on hosts that have a
    /// listener of a job too.
    pub usual: Option<fn(u16) -> bool>,
    /// What strangers do to it.
    pub harm: Harm,
    /// The rules that are listed with it.
    pub rules: &'static [Rule],
}

/// Whether `bytes` begin with `prefix`; undecided while too few are there.
pub fn prefix(bytes: &[u8], prefix: &[u8]) -> Match {
    let n = bytes.len().min(prefix.len());
    match bytes.get(..n) == prefix.get(..n) {
        false => Match::No,
        true if n < prefix.len() => Match::Undecided,
        true => Match::Yes,
    }
}

/// The best of several answers.
pub fn any(answers: impl IntoIterator<Item = Match>) -> Match {
    answers.into_iter().fold(Match::No, |best, m| match (best, m) {
        (Match::Yes, _) | (_, Match::Yes) => Match::Yes,
        (Match::Undecided, _) | (_, Match::Undecided) => Match::Undecided,
        _ => Match::No,
    })
}

/// Whether `needle` stands among `bytes`.
pub fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(bytes, needle).is_some()
}

/// The listeners of each flow's words.
type Names = BTreeMap<Endpoint, (Name, PacketRef)>;

impl Named {
    /// The name that most connections give, of as many the least; with the packet of the first that gives it.
    fn names(&self, given: &Given<'_>) -> Names {
        let mut names = Names::new();
        let hosts: BTreeSet<Address> = given.others.iter().map(|e| e.address).collect();
        let listed = |e: &Endpoint| self.usual.is_none_or(|usual| usual(e.port)) || hosts.contains(&e.address);
        for (endpoint, flows) in given.connections.iter().filter(|(e, _)| listed(e)) {
            let mut votes: BTreeMap<Name, (usize, PacketRef)> = BTreeMap::new();
            for flow in flows {
                let Some(words) = words(flow) else { continue };
                let Some(name) = (self.name)(&words.speech(endpoint.port)) else { continue };
                let packet = words.packet().unwrap_or(flow.connection.record.first_packet);
                votes.entry(name).or_insert((0, packet)).0 += 1;
            }
            // Of equal counts the name that says more.
            if let Some((name, (_, packet))) =
                votes.into_iter().max_by_key(|(n, (count, _))| (*count, n.role.is_some(), n.product.len()))
            {
                names.insert(*endpoint, (name, packet));
            }
        }
        names
    }
}

/// What was kept of a connection's first bytes.
fn words<'a>(flow: &DistinctFlow<'a>) -> Option<&'a Words> {
    flow.connection.observation.and_then(FlowObservation::decoded)
}

impl Dissector for Named {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn recognise(&self, opening: &Opening<'_>) -> Match {
        let Opening { client, server, port, .. } = *opening;
        (self.begins)(&Speech { client, server, port })
    }

    fn decoder(&self, _midstream: bool) -> Box<dyn Decoder> {
        Box::new(Listening::default())
    }

    /// Connections that say the same to the same end.
    fn alike(&self, seen: &FlowObservation) -> Option<u64> {
        let words = seen.decoded::<Words>()?;
        let name = (self.name)(&words.speech(seen.server().port));
        let hash = |text: &str| {
            text.bytes().fold(14_695_981_039_346_656_037u64, |h, b| (h ^ u64::from(b)).wrapping_mul(1_099_511_628_211))
        };
        Some(hash(&format!("{name:?} {:?} {:?}", (self.own)(words.client()), harm::end(&seen.record))))
    }

    /// Whoever read a flow's first bytes: the answer may name another protocol than the request.
    fn candidates(&self, seen: &Seen<'_>, _asked: &Asked<'_>, _taught: &[Lesson]) -> BTreeSet<Endpoint> {
        let named = |f: &&FlowObservation| {
            f.decoded::<Words>().is_some_and(|w| (self.name)(&w.speech(f.server().port)).is_some())
        };
        seen.flows().filter(named).map(FlowObservation::server).collect()
    }

    fn listeners(&self, given: &Given<'_>) -> BTreeSet<Endpoint> {
        self.names(given).into_keys().collect()
    }

    fn study(&self, given: &Given<'_>) -> Study {
        let names = self.names(given);
        let traffic = given.seen.traffic(|e, _| names.contains_key(&e));
        let mut study = Study::default();
        for (endpoint, (name, packet)) in &names {
            let by = Evidence { text: "the first bytes of both sides".to_string(), packet: Some(*packet) };
            study.listeners.push(ListenerView {
                version: Some(name.product.clone()),
                traffic: traffic.get(endpoint).copied(),
                ..ListenerView::new(*endpoint, name.role, by)
            });
        }
        study.findings = harm::findings(self, given, &names);
        study
    }

    fn rules(&self) -> &'static [Rule] {
        self.rules
    }
}

impl Decoded for Words {
    fn memory(&self) -> u64 {
        1 << 10
    }
}

/// Ends a decoder.
fn finished(words: Words) -> Arc<dyn Decoded> {
    Arc::new(words)
}

#[cfg(test)]
mod tests;
