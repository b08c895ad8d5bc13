//! What the handlers do with what was read: the same for both servers but where a line says otherwise.

use super::super::{Dialect, Operation};
use super::action::{Action, Allocation, Claim, ConnectionId, Field, Reason, Sink};
use super::connection::Phase;
use super::request::{Event, Request};
use super::store::Store;
use super::value::Value;
use super::{
    Backend, MAX_KEY_BYTES, MAX_KEYS, MAX_VALUE_BYTES, NOTEWORTHY_BYTES, REFUSABLE_BYTES, Server, VALIDATE_MAGIC,
};

/// Bytes to send. Beyond its room, and after a value that is not held in full, only lengths are counted.
struct Out {
    bytes: Vec<u8>,
    omitted: u64,
    room: usize,
    full: bool,
}

impl Out {
    fn new(room: usize) -> Self {
        Out { bytes: Vec::new(), omitted: 0, room, full: false }
    }

    fn raw(&mut self, bytes: &[u8]) {
        if self.omitted == 0 && self.bytes.len().saturating_add(bytes.len()) <= self.room {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.full |= self.omitted == 0;
            self.omitted = self.omitted.saturating_add(bytes.len() as u64);
        }
    }

    fn value(&mut self, value: &Value) {
        self.raw(&value.length().to_le_bytes());
        self.raw(value.kept());
        self.omitted = self.omitted.saturating_add(value.cut());
    }

    fn send(self, to: ConnectionId, sink: &mut Sink) {
        sink.reply(to, self.bytes, self.omitted);
        if self.full {
            sink.exhaust();
        }
    }
}

/// Handles requests of one connection.
pub(super) struct Handler<'a> {
    pub(super) server: &'a Server,
    pub(super) store: &'a mut Store,
    pub(super) id: ConnectionId,
    pub(super) sink: &'a mut Sink,
}

impl Handler<'_> {
    /// Reads one request from `input`, or what has arrived of it. `true` when it is complete.
    ///
    /// On an error the request stays with the connection, for the record.
    pub(super) fn request(&mut self, input: &mut &[u8]) -> Result<bool, Reason> {
        let Some(connection) = self.store.connections.get_mut(&self.id) else { return Ok(false) };
        let mut request = match connection.request.take() {
            Some(request) => request,
            None => {
                let Some((&byte, rest)) = input.split_first() else { return Ok(false) };
                *input = rest;
                let operation = self.server.operation(byte);
                match (connection.phase, operation) {
                    (Phase::Unvalidated, Some(Operation::Validate)) => Request::new(Operation::Validate),
                    (Phase::Unvalidated, _) => return Err(Reason::NotValidate(byte)),
                    (_, None | Some(Operation::Validate)) => return Err(Reason::UnknownQuery(byte)),
                    (_, Some(operation)) => Request::new(operation),
                }
            }
        };
        let result = self.advance(&mut request, input);
        if let Some(connection) = self.store.connections.get_mut(&self.id) {
            match result {
                Ok(true) => {
                    connection.served += 1;
                    connection.last = Some(request.operation);
                }
                _ => connection.request = Some(request),
            }
        }
        result
    }

    fn advance(&mut self, request: &mut Request, input: &mut &[u8]) -> Result<bool, Reason> {
        loop {
            match request.advance(input, self.store.limits.value_bytes) {
                Event::NeedMore => return Ok(false),
                Event::Length(field, declared) => self.sized(request, field, u128::from(declared), input.len())?,
                Event::Count(declared) => self.counted(request, declared, input.len())?,
                Event::Key(key) => self.key(request, key)?,
                Event::Bytes(value) => self.value(request, value),
                Event::Number(number) => request.argument = number,
                // A key that was not held cannot be answered for.
                Event::Done if request.overflow && request.operation != Operation::MultiSet => {
                    self.store.give_up(self.id, self.sink);
                    return Ok(true);
                }
                Event::Done => {
                    self.done(request)?;
                    return Ok(true);
                }
            }
        }
    }

    /// A key or value is announced: libuv compares it with its limits, poll makes a container of that size.
    fn sized(&mut self, request: &mut Request, field: Field, bytes: u128, arrived: usize) -> Result<(), Reason> {
        if self.server.backend == Backend::Libuv {
            return match field {
                Field::Key if bytes > u128::from(MAX_KEY_BYTES) => Err(Reason::KeyTooLong),
                Field::Value if bytes > u128::from(MAX_VALUE_BYTES) => Err(Reason::ValueTooLong),
                _ => Ok(()),
            };
        }
        self.allocate(request, bytes, bytes <= arrived as u128)
    }

    /// A number of keys is announced: CHECK and WAIT make so many empty strings, MULTI_GET and MULTI_SET loop.
    fn counted(&mut self, request: &mut Request, count: u64, arrived: usize) -> Result<(), Reason> {
        if self.server.backend == Backend::Libuv {
            return if count > MAX_KEYS { Err(Reason::TooManyKeys) } else { Ok(()) };
        }
        if !matches!(request.operation, Operation::Check | Operation::Wait) {
            return Ok(());
        }
        let bytes = u128::from(count) * u128::from(self.server.string_bytes);
        self.allocate(request, bytes, u128::from(count) * 8 <= arrived as u128)
    }

    fn allocate(&mut self, request: &mut Request, bytes: u128, delivered: bool) -> Result<(), Reason> {
        let Ok(signed) = i64::try_from(bytes) else { return Err(Reason::LengthError) };
        let bytes = signed.unsigned_abs();
        if bytes >= self.server.address_space || (bytes > 0 && !self.server.policy.grants(bytes)) {
            return Err(Reason::BadAlloc);
        }
        if delivered || bytes == 0 {
            return Ok(());
        }
        let nothing = Claim { operation: request.operation, field: Field::Key, declared: bytes };
        let claim = request.claim.unwrap_or(nothing);
        let refusable = bytes >= REFUSABLE_BYTES && !self.server.policy.known();
        let allocation = Allocation { claim, bytes, resident: true, refusable };
        request.allocated(allocation);
        if bytes >= NOTEWORTHY_BYTES {
            self.sink.push(Action::Allocate { connection: self.id, allocation });
        }
        Ok(())
    }

    fn key(&mut self, request: &mut Request, key: Value) -> Result<(), Reason> {
        let poll = self.server.backend == Backend::Poll;
        match request.operation {
            Operation::MultiGet if poll => {
                let Some(value) = self.store.value(&key) else { return Err(Reason::MissingKey) };
                let mut out = Out::new(self.sink.room());
                out.value(value);
                out.send(self.id, self.sink);
            }
            // Nothing changes under a poll server while it reads, so each key can be looked up at once.
            Operation::Check | Operation::Wait if poll => {
                let present = self.store.contains(&key);
                request.all_present &= present;
                // Sources of that time register for keys that exist already too, and count them. Read, not measured.
                let registers = !present || matches!(self.server.release.dialect, Dialect::A0 | Dialect::A1);
                if request.operation == Operation::Wait && registers {
                    self.hold(request, key);
                }
            }
            Operation::Check | Operation::Wait | Operation::MultiGet => self.hold(request, key),
            _ => request.key = Some(key),
        }
        Ok(())
    }

    fn hold(&mut self, request: &mut Request, key: Value) {
        if request.hold(key.kept().len(), self.store.limits.request_bytes) {
            request.keys.push(key);
        }
    }

    fn value(&mut self, request: &mut Request, value: Value) {
        if request.operation != Operation::MultiSet {
            request.values.push(value);
            return;
        }
        // Each pair is set as soon as it is complete, by both servers.
        let key = request.key.take().unwrap_or_default();
        if self.server.backend == Backend::Libuv && request.hold(key.kept().len() + value.kept().len(), PAIRS_BYTES) {
            request.pairs.push((key.clone(), value.clone()));
        }
        self.store.put(key.clone(), value);
        self.store.wake(&key, self.sink);
        request.applied_at = self.store.writes;
    }

    fn done(&mut self, request: &mut Request) -> Result<(), Reason> {
        let uv = self.server.backend == Backend::Libuv;
        let id = self.id;
        let key = request.key.take().unwrap_or_default();
        let mut values = std::mem::take(&mut request.values).into_iter();
        let mut out = Out::new(self.sink.room());
        match request.operation {
            Operation::Validate => {
                let magic = request.argument as u32;
                if magic != VALIDATE_MAGIC {
                    return Err(Reason::WrongMagic(magic));
                }
                if let Some(connection) = self.store.connections.get_mut(&id) {
                    connection.phase = Phase::Open;
                }
            }
            Operation::Set => {
                let new = values.next().unwrap_or_default();
                let old = self.store.put(key.clone(), new.clone());
                self.store.wake(&key, self.sink);
                self.tell(&key, u8::from(old.is_none()), &old.unwrap_or_default(), &new)?;
            }
            Operation::CompareSet => self.compare_set(key, values.next(), values.next())?,
            Operation::Get => match self.store.value(&key) {
                Some(value) => out.value(value),
                None if uv => out.value(&Value::default()),
                None => return Err(Reason::MissingKey),
            },
            Operation::Add => self.add(key, request.argument as i64)?,
            Operation::Check => {
                let ready = if uv { self.present(request) } else { request.all_present };
                out.raw(&[u8::from(!ready)]);
            }
            Operation::Wait => self.wait(request),
            Operation::GetNumKeys => out.raw(&(self.store.len() as u64).to_le_bytes()),
            Operation::WatchKey => {
                self.store.watch(key, id);
                out.raw(&[3]);
            }
            Operation::DeleteKey => {
                if let Some(old) = self.store.value(&key).filter(|_| self.store.is_watched(&key)).cloned() {
                    self.tell(&key, 2, &old, &Value::default())?;
                }
                out.raw(&u64::from(self.store.delete(&key)).to_le_bytes());
            }
            Operation::Append => {
                self.store.append(key.clone(), values.next().unwrap_or_default());
                self.store.wake(&key, self.sink);
            }
            Operation::MultiGet => {
                for key in &request.keys {
                    out.value(self.store.value(key).unwrap_or(&Value::default()));
                }
            }
            Operation::MultiSet => {}
            Operation::CancelWait => {
                self.store.clear_waits(id);
                out.raw(&[1]);
            }
            Operation::Ping => out.raw(&(request.argument as u32).to_le_bytes()),
            Operation::QueuePush => {
                self.store.enqueue(key.clone(), values.next().unwrap_or_default());
                self.store.wake_one(&key, self.sink);
            }
            Operation::QueuePop => {
                out.raw(&self.queued(&key).to_le_bytes());
                if let Some(value) = self.store.dequeue(&key) {
                    out.value(&value);
                }
            }
            Operation::QueueLen => out.raw(&self.queued(&key).to_le_bytes()),
            Operation::ListKeys => {
                out.raw(&(self.store.len() as u64).to_le_bytes());
                if self.sink.holds() {
                    self.store.names().for_each(|name| out.value(name));
                } else {
                    out.omitted = self.store.key_bytes.saturating_add(8 * self.store.len() as u64);
                }
            }
            Operation::Barrier => self.barrier(key, request.argument as i64)?,
        }
        out.send(id, self.sink);
        Ok(())
    }

    fn queued(&self, name: &Value) -> u64 {
        self.store.queues.get(name).map_or(0, |q| q.len() as u64)
    }

    fn present(&self, request: &Request) -> bool {
        request.keys.iter().all(|key| self.store.contains(key) || self.queued(key) > 0)
    }

    fn wait(&mut self, request: &mut Request) {
        let ready = if self.server.backend == Backend::Libuv { self.present(request) } else { request.all_present };
        if ready {
            return self.sink.reply(self.id, vec![0], 0);
        }
        let mut awaited = 0;
        for key in std::mem::take(&mut request.keys) {
            if self.server.backend == Backend::Poll || !self.store.contains(&key) {
                self.store.register(&key, self.id);
                awaited += 1;
            }
        }
        self.store.await_keys(self.id, awaited);
        self.sink.push(Action::Waits { connection: self.id, keys: awaited });
    }

    fn compare_set(&mut self, key: Value, expected: Option<Value>, desired: Option<Value>) -> Result<(), Reason> {
        let (expected, desired) = (expected.unwrap_or_default(), desired.unwrap_or_default());
        let mut out = Out::new(self.sink.room());
        let changes = self.store.value(&key).map_or(expected.length() == 0, |old| *old == expected);
        if changes {
            out.value(&desired);
            let old = self.store.put(key.clone(), desired.clone());
            self.tell(&key, u8::from(old.is_none()), &expected, &desired)?;
        } else {
            // A missing key with something expected is answered as if that were there.
            out.value(self.store.value(&key).unwrap_or(&expected));
        }
        // Only libuv tells those who wait for the key.
        if self.server.backend == Backend::Libuv {
            self.store.wake(&key, self.sink);
        }
        out.send(self.id, self.sink);
        Ok(())
    }

    fn add(&mut self, key: Value, delta: i64) -> Result<(), Reason> {
        let base = self.number(&key)?.unwrap_or(0);
        let sum = base.wrapping_add(delta);
        let new = Value::from(sum.to_string().as_bytes());
        let old = self.store.put(key.clone(), new.clone());
        if self.server.backend == Backend::Libuv {
            self.store.wake(&key, self.sink);
            self.sink.reply(self.id, sum.to_le_bytes().to_vec(), 0);
            return Ok(());
        }
        self.sink.reply(self.id, sum.to_le_bytes().to_vec(), 0);
        self.store.wake(&key, self.sink);
        self.tell(&key, u8::from(old.is_none()), &old.unwrap_or_default(), &new)
    }

    /// The number that a counter holds, `None` when the key is missing.
    fn number(&self, key: &Value) -> Result<Option<i64>, Reason> {
        self.store.value(key).map(|value| value.number().ok_or(Reason::NotANumber)).transpose()
    }

    fn barrier(&mut self, key: Value, world_size: i64) -> Result<(), Reason> {
        let arrived = self.number(&key)?.unwrap_or(0).wrapping_add(1);
        self.store.put(key.clone(), Value::from(arrived.to_string().as_bytes()));
        if arrived >= world_size {
            self.sink.reply(self.id, vec![0], 0);
            self.store.wake(&key, self.sink);
        } else {
            self.store.register(&key, self.id);
            self.store.await_keys(self.id, 1);
            self.sink.push(Action::Waits { connection: self.id, keys: 1 });
        }
        Ok(())
    }

    /// Watchers of a key are told of its change (1.9 to 2.0). A descriptor that nobody holds makes the send fail.
    fn tell(&mut self, key: &Value, kind: u8, old: &Value, new: &Value) -> Result<(), Reason> {
        for (watcher, times) in self.store.watchers(key) {
            let Some(watcher) = watcher else { return Err(Reason::WatcherGone) };
            let mut out = Out::new(self.sink.room());
            out.raw(&[kind]);
            out.value(key);
            out.value(old);
            out.value(new);
            let again = (out.bytes.len() as u64).saturating_add(out.omitted);
            for _ in 0..times.min(MOST_FRAMES) {
                self.sink.reply(watcher, out.bytes.clone(), out.omitted);
            }
            let more = times.saturating_sub(MOST_FRAMES).saturating_mul(again);
            self.sink.reply(watcher, Vec::new(), more);
            if out.full {
                self.sink.exhaust();
            }
        }
        Ok(())
    }
}

/// Bytes held of an unfinished MULTI_SET, to apply it again; small, because every chunk applies it.
const PAIRS_BYTES: usize = 16 << 10;
/// One watcher that registered more often than this for one key gets the rest of its frames counted, not built.
const MOST_FRAMES: u64 = 16;

/// libuv reads an unfinished MULTI_SET again from its start with every chunk, and sets its leading pairs again.
pub(super) fn set_again(store: &mut Store, request: &mut Request, sink: &mut Sink) {
    if store.writes == request.applied_at {
        return;
    }
    for (key, value) in &request.pairs {
        store.put(key.clone(), value.clone());
        store.wake(key, sink);
    }
    request.applied_at = store.writes;
}
