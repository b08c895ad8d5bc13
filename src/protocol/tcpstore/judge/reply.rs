//! Answers of a store that no store sends: malformed lengths and counts, from server to client.

use crate::finding::{Declared, Finding, KILLING_BYTES, SHOWN_BYTES, WARNING_BYTES, finding_id};
use crate::protocol::listener::Listener;
use crate::protocol::observation::FlowObservation;
use crate::protocol::tcpstore::StoreRule;
use crate::protocol::tcpstore::{Facts, Operation};
use crate::size::bytes;
use crate::stream::Direction;
use crate::vocabulary::Severity;

/// An answer that declares what no store sends: its query, the declared number, where it stands, and what is wrong.
struct Odd {
    query: Option<Operation>,
    declared: Option<u64>,
    offset: u64,
    text: String,
}

/// The finding about the first malformed answer of a connection, read in the dialect that makes most sense of it.
pub(super) fn judge(listener: &Listener, o: &FlowObservation, readings: &[&Facts]) -> Option<Finding> {
    // Of a connection that was joined midway nobody knows which request the first answers are to.
    let joined = [Direction::ToServer, Direction::ToClient].iter().all(|d| o.record.isn(*d).is_none());
    if joined || o.gaps > 0 || readings.iter().any(|f| f.server_fault.is_none() && odd_end(f, o).is_none()) {
        return None;
    }
    let best = readings.iter().filter(|f| f.server_makes_sense() || f.server_fault.is_none());
    let facts = best.max_by_key(|f| f.server_fault.as_ref().map_or(f.answers, |x| x.right))?;
    let odd = facts.server_fault.as_ref().map_or_else(
        || odd_end(facts, o),
        |f| Some(Odd { query: f.query, declared: f.declared, offset: f.place.offset, text: f.text.clone() }),
    )?;
    let k = o.packet_at(Direction::ToClient, odd.offset)?;
    let shown = o.bytes_from(Direction::ToClient, odd.offset, SHOWN_BYTES);
    let sequence = o.sequence(Direction::ToClient, odd.offset);
    let id = finding_id(StoreRule::StoreReplyLength.text().id, o.server(), o.client(), sequence, &shown);
    let length = odd.declared.filter(|_| odd.query.is_some_and(has_length));
    let mut f = Finding {
        protocol: Some("tcpstore"),
        dialect: listener.dialect_name(),
        dialect_candidates: listener.dialect_names(),
        query: odd.query.map(|q| q.name()),
        stream_offset: Some(odd.offset),
        bytes: shown,
        declared: odd.declared.map(|n| Declared {
            bytes: length,
            count: length.is_none().then_some(n),
            field: "answer",
        }),
        evidence: vec![format!("the server had answered {} time(s) rightly before", facts.answers)],
        ..Finding::new(StoreRule::StoreReplyLength.text(), id, k.time, Some(k.packet), o.server(), o.client())
    };
    let does = match length {
        Some(n) if n >= KILLING_BYTES => {
            f.severity = Severity::Critical;
            format!(
                " The client takes it for a length and allocates {} before it reads on; nothing checks it. Its kernel may refuse, and \
                 the client then fails with bad_alloc.",
                bytes(n)
            )
        }
        Some(n) => format!(" The client waits for {} that do not come.", bytes(n)),
        None => " The client fails, or takes the bytes that follow for another answer.".to_string(),
    };
    f.explanation = format!("{}.{does} The client is not to blame.", odd.text);
    Some(f)
}

/// Whether the first number of an answer is a length.
fn has_length(query: Operation) -> bool {
    matches!(query, Operation::Get | Operation::MultiGet | Operation::CompareSet)
}

/// A stream that ends inside an answer which declares more than any store's value and brought little of it.
fn odd_end(facts: &Facts, o: &FlowObservation) -> Option<Odd> {
    let u = facts.unfinished_answer.filter(|u| u.declared >= WARNING_BYTES && u.delivered < u.declared / 16)?;
    let ended = o.record.server_closed().is_some() || o.record.client_closed().is_some();
    let query = u.query.map_or("a request", |q| q.name());
    ended.then(|| Odd {
        query: u.query,
        declared: Some(u.declared),
        offset: u.message_offset,
        text: format!(
            "{query} was answered with a length of {}, of which {} bytes came",
            bytes(u.declared),
            u.delivered
        ),
    })
}
