//! One connection, as the server's process and its kernel hold it.

use std::collections::{BTreeSet, VecDeque};

use super::super::Operation;
use super::action::{Allocation, Claim, How, Reason};
use super::request::Request;
use super::value::Value;

/// How far a connection has come with validation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing has been read, and VALIDATE must come first.
    Unvalidated,
    /// Requests are served.
    Open,
    /// libuv: the first segment began with this byte and was ignored.
    Ignored(u8),
    /// libuv: VALIDATE was wrong or incomplete in the first segment.
    ValidateAgain,
    /// The model says no more.
    Unknown,
}

/// State of one connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Place in the order of arrival: the poll server looks at its descriptors in this order.
    pub(super) order: u64,
    /// Its descriptor: the lowest that was free.
    pub(super) descriptor: usize,
    pub(super) phase: Phase,
    /// Received and not yet read (poll server).
    pub(super) inbox: VecDeque<u8>,
    /// Bytes that arrived and were not held.
    pub(super) lost: u64,
    /// More of the segment in hand is still to come into `inbox`.
    pub(super) more: bool,
    /// The peer has closed its end.
    pub(super) ended: bool,
    /// The request in hand.
    pub(super) request: Option<Request>,
    /// Keys that it is registered for.
    pub(super) waits: BTreeSet<Value>,
    /// How many of them must still be set.
    pub(super) awaited: u64,
    /// Requests served to the end.
    pub(super) served: u64,
    /// The last of them.
    pub(super) last: Option<Operation>,
    /// Bytes of `inbox` and `request`, as last counted into [`super::Store`].
    pub(super) charged: usize,
}

impl Connection {
    pub(super) fn new(order: u64, descriptor: usize, validates: bool) -> Self {
        Connection {
            order,
            descriptor,
            phase: if validates { Phase::Unvalidated } else { Phase::Open },
            inbox: VecDeque::new(),
            lost: 0,
            more: false,
            ended: false,
            request: None,
            waits: BTreeSet::new(),
            awaited: 0,
            served: 0,
            last: None,
            charged: 0,
        }
    }

    /// Bytes that it holds of what has arrived.
    pub(super) fn held(&self) -> usize {
        self.inbox.len().saturating_add(self.request.as_ref().map_or(0, Request::held_bytes))
    }
}

/// What is remembered of a connection that the server closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) how: How,
    pub(super) reason: Reason,
    pub(super) query: Option<Operation>,
    pub(super) claim: Option<Claim>,
    pub(super) largest: Option<Allocation>,
    pub(super) total: u64,
    pub(super) served: u64,
}
