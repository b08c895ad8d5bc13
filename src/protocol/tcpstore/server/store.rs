//! What a server's process holds: keys, queues, waiting and watching connections. All of it bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::action::{Action, ConnectionId, How, Reason, Sink};
use super::connection::{Connection, Ended};
use super::value::Value;

/// How much the model holds, whatever arrives. What is left out is counted in [`Store::forgotten`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes kept of one key or value; the rest is remembered as a length.
    pub value_bytes: usize,
    /// Keys kept.
    pub keys: usize,
    /// Bytes of keys and values kept; as much again of the names of keys that are waited for or watched.
    pub store_bytes: usize,
    /// Bytes kept of unfinished requests and unread input, of all connections together.
    pub pending_bytes: usize,
    /// Bytes kept of the keys of one unfinished request.
    pub request_bytes: usize,
    /// Bytes kept of a connection that the poll server does not get to.
    pub queue_bytes: usize,
    /// Bytes of replies held in one step; the rest is counted.
    pub reply_bytes: usize,
    /// Registrations for keys, of all connections together.
    pub waits: usize,
    /// Connections open, and connections remembered as closed.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            value_bytes: 64 << 10,
            keys: 65_536,
            store_bytes: 16 << 20,
            pending_bytes: 16 << 20,
            request_bytes: 1 << 20,
            queue_bytes: 256 << 10,
            reply_bytes: 1 << 20,
            waits: 65_536,
            connections: 16_384,
        }
    }
}

/// A store server's state. Clone it to try what would happen.
#[derive(Clone, Debug, Default)]
pub struct Store {
    pub(super) limits: Limits,
    keys: BTreeMap<Value, Value>,
    pub(super) queues: BTreeMap<Value, VecDeque<Value>>,
    /// Elements in all queues.
    elements: usize,
    waiting: BTreeMap<Value, BTreeMap<ConnectionId, u64>>,
    registrations: usize,
    /// Bytes of key names in `waiting` and `watchers`.
    tracked: usize,
    pending: usize,
    /// By key: descriptors, which may since belong to somebody else. Servers of 1.9 to 2.0 never clean it.
    watchers: BTreeMap<Value, BTreeMap<usize, u64>>,
    descriptors: BTreeMap<usize, ConnectionId>,
    free: BTreeSet<usize>,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) closed: BTreeMap<ConnectionId, Ended>,
    /// poll: connections with something to read, in the order in which the daemon looks at them.
    pub(super) ready: BTreeSet<(u64, ConnectionId)>,
    /// poll: the connection looked at last.
    pub(super) cursor: u64,
    /// poll: the connection that the daemon waits for.
    pub(super) blocked_by: Option<ConnectionId>,
    accepted: u64,
    bytes: usize,
    /// Length of all key names together.
    pub(super) key_bytes: u64,
    /// Changes made to `keys`.
    pub(super) writes: u64,
    forgotten: u64,
}

impl Store {
    /// A store that holds nothing.
    pub fn new(limits: Limits) -> Self {
        Store { limits, ..Store::default() }
    }

    /// A store as rank 0 leaves it when it has started: `init/` counts one worker.
    pub fn with_init() -> Self {
        Store::default().with(b"init/", b"1")
    }

    /// The same store with one more key.
    pub fn with(mut self, key: &[u8], value: &[u8]) -> Self {
        self.put(Value::from(key), Value::from(value));
        self
    }

    /// The same store with a watcher of `key` that has left since (1.9 to 2.0).
    pub fn with_gone_watcher(mut self, key: &[u8]) -> Self {
        // No connection ever gets this descriptor.
        self.watchers.entry(Value::from(key)).or_default().insert(usize::MAX, 1);
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        self.keys.get(&Value::from(key))
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of keys and values that are held.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Keys, registrations and connections that were left out for want of room: answers about them may be wrong.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The connection that holds the poll server's one thread.
    pub fn blocked_by(&self) -> Option<ConnectionId> {
        self.blocked_by
    }

    /// Whether a connection is open.
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Counts what a connection holds. `false` when all of them together now hold too much.
    pub(super) fn charge(&mut self, id: ConnectionId) -> bool {
        if let Some(connection) = self.connections.get_mut(&id) {
            let held = connection.held();
            self.pending = self.pending.saturating_sub(connection.charged).saturating_add(held);
            connection.charged = held;
        }
        self.pending <= self.limits.pending_bytes
    }

    /// Bytes held of unfinished requests and unread input.
    pub fn pending_bytes(&self) -> usize {
        self.pending
    }

    pub(super) fn open(&mut self, id: ConnectionId, validates: bool) {
        if self.connections.contains_key(&id) || self.closed.contains_key(&id) {
            return;
        }
        if self.connections.len() >= self.limits.connections {
            self.forgotten += 1;
            return;
        }
        let descriptor = self.free.pop_first().unwrap_or(self.descriptors.len());
        self.descriptors.insert(descriptor, id);
        self.accepted += 1;
        self.connections.insert(id, Connection::new(self.accepted, descriptor, validates));
    }

    /// Takes a connection out of everything but the watch list.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.clear_waits(id);
        let connection = self.connections.remove(&id)?;
        self.ready.remove(&(connection.order, id));
        if self.blocked_by == Some(id) {
            self.blocked_by = None;
        }
        self.pending = self.pending.saturating_sub(connection.charged);
        self.descriptors.remove(&connection.descriptor);
        self.free.insert(connection.descriptor);
        Some(connection)
    }

    /// The server closes a connection.
    pub(super) fn close(&mut self, id: ConnectionId, unread: bool, reason: Reason, sink: &mut Sink) {
        let Some(connection) = self.remove(id) else { return };
        let how = if unread { How::Reset } else { How::Fin };
        let request = connection.request.as_ref();
        let claim = request.and_then(|r| r.claim);
        let ended = Ended {
            how,
            reason,
            query: request.map(|r| r.operation),
            claim,
            largest: request.and_then(|r| r.largest),
            total: request.map_or(0, |r| r.total),
            served: connection.served,
        };
        if self.closed.len() >= self.limits.connections {
            self.closed.pop_first();
        }
        self.closed.insert(id, ended);
        sink.push(Action::Close { connection: id, how, reason, claim });
    }

    pub(super) fn contains(&self, key: &Value) -> bool {
        self.keys.contains_key(key)
    }

    pub(super) fn value(&self, key: &Value) -> Option<&Value> {
        self.keys.get(key)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Value> {
        self.keys.keys()
    }

    /// Sets a key and hands back what it held.
    pub(super) fn put(&mut self, key: Value, mut value: Value) -> Option<Value> {
        self.writes += 1;
        let old = self.keys.get(&key).map(|v| v.kept().len());
        let name = if old.is_some() { 0 } else { key.kept().len() };
        let bytes = self.bytes.saturating_sub(old.unwrap_or(0));
        if old.is_none()
            && (self.keys.len() >= self.limits.keys || bytes.saturating_add(name) > self.limits.store_bytes)
        {
            self.forgotten += 1;
            return None;
        }
        if bytes.saturating_add(name).saturating_add(value.kept().len()) > self.limits.store_bytes {
            value.forget();
        }
        self.bytes = bytes.saturating_add(name).saturating_add(value.kept().len());
        if old.is_none() {
            self.key_bytes = self.key_bytes.saturating_add(key.length());
        }
        self.keys.insert(key, value)
    }

    pub(super) fn append(&mut self, key: Value, value: Value) {
        let Some(held) = self.keys.get_mut(&key) else {
            self.put(key, value);
            return;
        };
        let before = held.kept().len();
        let room = self.limits.store_bytes.saturating_sub(self.bytes).saturating_add(before);
        held.append(&value, self.limits.value_bytes.min(room));
        self.bytes = self.bytes.saturating_add(held.kept().len().saturating_sub(before));
        self.writes += 1;
    }

    pub(super) fn delete(&mut self, key: &Value) -> bool {
        let Some(value) = self.keys.remove(key) else { return false };
        self.writes += 1;
        self.bytes = self.bytes.saturating_sub(value.kept().len()).saturating_sub(key.kept().len());
        self.key_bytes = self.key_bytes.saturating_sub(key.length());
        true
    }

    /// Queued elements are charged to the same budget as values.
    pub(super) fn enqueue(&mut self, name: Value, mut value: Value) {
        let new = !self.queues.contains_key(&name);
        let with_name = self.bytes.saturating_add(if new { name.kept().len() } else { 0 });
        if self.elements >= self.limits.keys
            || self.queues.len() >= self.limits.keys
            || with_name > self.limits.store_bytes
        {
            self.forgotten += 1;
            return;
        }
        if with_name.saturating_add(value.kept().len()) > self.limits.store_bytes {
            value.forget();
        }
        self.elements += 1;
        self.bytes = with_name.saturating_add(value.kept().len());
        self.queues.entry(name).or_default().push_back(value);
    }

    pub(super) fn dequeue(&mut self, name: &Value) -> Option<Value> {
        let value = self.queues.get_mut(name)?.pop_front()?;
        self.elements = self.elements.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(value.kept().len());
        Some(value)
    }

    /// A connection is to be told when `key` is set.
    pub(super) fn register(&mut self, key: &Value, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let name = key.kept().len();
        let known = connection.waits.contains(key);
        let full = !known && self.tracked.saturating_add(name) > self.limits.store_bytes;
        if self.registrations >= self.limits.waits || full {
            self.forgotten += 1;
            return;
        }
        self.registrations += 1;
        if !known {
            self.tracked += name;
            connection.waits.insert(key.clone());
        }
        *self.waiting.entry(key.clone()).or_default().entry(id).or_default() += 1;
    }

    pub(super) fn await_keys(&mut self, id: ConnectionId, keys: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.awaited = keys;
        }
    }

    pub(super) fn clear_waits(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.awaited = 0;
        for key in std::mem::take(&mut connection.waits) {
            self.tracked = self.tracked.saturating_sub(key.kept().len());
            if let Some(who) = self.waiting.get_mut(&key) {
                let times = who.remove(&id).unwrap_or(0);
                self.registrations = self.registrations.saturating_sub(times as usize);
                if who.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }

    /// `key` was set: whoever has now seen all his keys is told to stop waiting.
    pub(super) fn wake(&mut self, key: &Value, sink: &mut Sink) {
        for (id, times) in self.waiting.remove(key).unwrap_or_default() {
            self.registrations = self.registrations.saturating_sub(times as usize);
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if connection.waits.remove(key) {
                self.tracked = self.tracked.saturating_sub(key.kept().len());
            }
            // The servers count in an unsigned number that wraps, so only the step from one to none is told.
            let told = (1..=times).contains(&connection.awaited);
            connection.awaited = connection.awaited.wrapping_sub(times);
            if told {
                sink.reply(id, vec![0], 0);
            }
        }
    }

    /// An element was queued: the first that has now seen all his keys is told. Registrations stay (libuv).
    pub(super) fn wake_one(&mut self, key: &Value, sink: &mut Sink) {
        let Some(who) = self.waiting.get(key) else { return };
        for (id, times) in who {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if (1..=*times).contains(&connection.awaited) {
                connection.awaited = 0;
                sink.reply(*id, vec![0], 0);
                return;
            }
            connection.awaited = connection.awaited.wrapping_sub(*times);
        }
    }

    pub(super) fn watch(&mut self, key: Value, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let known = self.watchers.contains_key(&key);
        let name = if known { 0 } else { key.kept().len() };
        let full = !known && self.watchers.len() >= self.limits.waits;
        if full || self.tracked.saturating_add(name) > self.limits.store_bytes {
            self.forgotten += 1;
            return;
        }
        self.tracked += name;
        *self.watchers.entry(key).or_default().entry(connection.descriptor).or_default() += 1;
    }

    pub(super) fn is_watched(&self, key: &Value) -> bool {
        self.watchers.contains_key(key)
    }

    /// Who is told of changes to `key`: the connection behind each descriptor, if there is one, and how often.
    pub(super) fn watchers(&self, key: &Value) -> Vec<(Option<ConnectionId>, u64)> {
        let Some(who) = self.watchers.get(key) else { return Vec::new() };
        who.iter().map(|(descriptor, times)| (self.descriptors.get(descriptor).copied(), *times)).collect()
    }

    /// The model gives up on a connection.
    pub(super) fn give_up(&mut self, id: ConnectionId, sink: &mut Sink) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.phase = super::connection::Phase::Unknown;
            connection.inbox = VecDeque::new();
            connection.request = None;
            self.pending = self.pending.saturating_sub(std::mem::take(&mut connection.charged));
            self.ready.remove(&(connection.order, id));
        }
        if self.blocked_by == Some(id) {
            self.blocked_by = None;
        }
        sink.push(Action::Unknown { connection: id });
        // Its peer closed it while the daemon was held up: nothing more comes of it.
        if self.connections.get(&id).is_some_and(|c| c.ended) {
            self.remove(id);
        }
    }
}
