//! What comes of one connection: in a word, and in words.

use super::super::{Dialect, Operation};
use super::action::{Action, Allocation, Claim, ConnectionId, Field, How, Reason};
use super::connection::Phase;
use super::store::Store;
use super::{Backend, NOTEWORTHY_BYTES, Server, explain, step};

/// The contract's words for what a server does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Outcome {
    Replies,
    Waits,
    Closes,
    Allocates,
    Dies,
    Spins,
    Unknown,
}

impl Outcome {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Replies => "replies",
            Outcome::Waits => "waits",
            Outcome::Closes => "closes",
            Outcome::Allocates => "allocates",
            Outcome::Dies => "dies",
            Outcome::Spins => "spins",
            Outcome::Unknown => "unknown",
        }
    }
}

/// What a server does with the segments of one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The word.
    pub outcome: Outcome,
    /// Where it ends when a granted allocation is survived; else the same as `outcome`.
    pub then: Outcome,
    /// Bytes of the largest container made for data that never came; `None` when there was none.
    pub allocates_bytes: Option<u64>,
    /// Bytes of all of them together.
    pub total_bytes: u64,
    /// Whether they are written at once, and not merely reserved.
    pub resident: bool,
    /// Whether the whole store stands still, for this allocation or for bytes that do not come.
    pub blocks_server: bool,
    /// Bytes of the field in hand that it waits for.
    pub missing_bytes: u64,
    /// What it hangs on, when it does.
    pub condition: Option<String>,
    /// The query type in hand, else the last one served.
    pub query: Option<Operation>,
    /// The field that decided.
    pub field: Option<Field>,
    /// What that field declared: bytes, or entries for a count.
    pub declared: Option<u64>,
    /// How and why the connection is closed.
    pub closed: Option<(How, Reason)>,
    /// Bytes sent back.
    pub reply_bytes: u64,
    /// Requests served to their end.
    pub served: u64,
    /// For a reader at four in the morning.
    pub explanation: String,
}

const ONLY: ConnectionId = ConnectionId(u64::MAX);

/// What `server` does with `segments`, one after the other, when its store holds only `init/`.
pub fn verdict(server: &Server, segments: &[&[u8]]) -> Verdict {
    verdict_on(server, Store::with_init(), segments)
}

/// What `server` does with `segments` on a new connection, when its store is in this state.
pub fn verdict_on(server: &Server, mut store: Store, segments: &[&[u8]]) -> Verdict {
    let mut reply_bytes = 0u64;
    super::open(server, &mut store, ONLY);
    for segment in segments {
        for action in step(server, &mut store, ONLY, segment) {
            if let Action::Reply { connection: ONLY, bytes, omitted } = action {
                reply_bytes = reply_bytes.saturating_add(bytes.len() as u64).saturating_add(omitted);
            }
        }
    }
    let facts = Facts::of(&store, reply_bytes);
    let then = facts.then();
    let largest = facts.largest.filter(|_| then != Outcome::Unknown);
    let noteworthy = largest.filter(|a| a.bytes >= NOTEWORTHY_BYTES);
    let outcome = if noteworthy.is_some() { Outcome::Allocates } else { then };
    let claim = noteworthy.map(|a| a.claim).or(facts.claim);
    let condition = noteworthy.filter(|a| a.refusable).map(|a| explain::condition(a.bytes));
    Verdict {
        outcome,
        then,
        allocates_bytes: largest.map(|a| a.bytes),
        total_bytes: facts.total,
        resident: largest.is_some_and(|a| a.resident),
        blocks_server: facts.blocked || noteworthy.is_some(),
        missing_bytes: facts.missing,
        condition,
        query: claim.map(|c| c.operation).or(facts.query),
        field: claim.map(|c| c.field),
        declared: claim.map(|c| c.declared),
        closed: facts.closed,
        reply_bytes,
        served: facts.served,
        explanation: explain::explain(server, &facts, noteworthy),
    }
}

/// The state of the one connection after its last segment.
pub(super) struct Facts {
    pub(super) closed: Option<(How, Reason)>,
    pub(super) largest: Option<Allocation>,
    pub(super) total: u64,
    pub(super) claim: Option<Claim>,
    pub(super) query: Option<Operation>,
    pub(super) blocked: bool,
    pub(super) missing: u64,
    pub(super) in_hand: bool,
    pub(super) phase: Phase,
    pub(super) awaited: u64,
    pub(super) served: u64,
    pub(super) reply_bytes: u64,
}

impl Facts {
    fn of(store: &Store, reply_bytes: u64) -> Facts {
        let mut facts = Facts {
            closed: None,
            largest: None,
            total: 0,
            claim: None,
            query: None,
            blocked: store.blocked_by() == Some(ONLY),
            missing: 0,
            in_hand: false,
            phase: Phase::Unknown,
            awaited: 0,
            served: 0,
            reply_bytes,
        };
        if let Some(ended) = store.closed.get(&ONLY) {
            facts.closed = Some((ended.how, ended.reason));
            (facts.largest, facts.total) = (ended.largest, ended.total);
            (facts.claim, facts.query, facts.served) = (ended.claim, ended.query, ended.served);
            facts.phase = Phase::Open;
        } else if let Some(connection) = store.connections.get(&ONLY) {
            facts.phase = connection.phase;
            (facts.awaited, facts.served, facts.query) = (connection.awaited, connection.served, connection.last);
            if let Some(request) = &connection.request {
                (facts.largest, facts.total) = (request.largest, request.total);
                (facts.claim, facts.query) = (request.claim, Some(request.operation));
                facts.missing = request.missing().1;
                facts.in_hand = true;
            }
        }
        facts
    }

    pub(super) fn then(&self) -> Outcome {
        match self {
            Facts { closed: Some(_), .. } => Outcome::Closes,
            Facts { phase: Phase::Unknown, .. } => Outcome::Unknown,
            Facts { reply_bytes: 1.., .. } => Outcome::Replies,
            _ => Outcome::Waits,
        }
    }
}

/// What the servers of one dialect do: one verdict, or two for D, each with its label.
///
/// The newest release of the dialect stands for it, from an x86-64 wheel, on a host that nothing is known about.
pub fn verdicts_for_dialect(dialect: Dialect, segments: &[&[u8]]) -> Vec<(&'static str, Verdict)> {
    Server::of_dialect(dialect).into_iter().map(|(label, server)| (label, verdict(&server, segments))).collect()
}

/// The same for every dialect: `A0`, `A1`, `B`, `C`, `D-poll`, `D-libuv`.
pub fn verdicts(segments: &[&[u8]]) -> Vec<(&'static str, Verdict)> {
    Dialect::ALL.iter().flat_map(|dialect| verdicts_for_dialect(*dialect, segments)).collect()
}

/// Whether a request left incomplete stops other clients of this server.
pub(super) fn blocks(server: &Server) -> bool {
    server.backend == Backend::Poll
}
