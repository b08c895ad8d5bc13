//! The poll server: one thread that reads one request at a time, and waits for all of it.

use super::Server;
use super::action::{Action, ConnectionId, Reason, Sink};
use super::apply::Handler;
use super::connection::Phase;
use super::store::Store;

/// Bytes handed to the daemon at once.
const PIECE: usize = 64 << 10;

pub(super) fn receive(server: &Server, store: &mut Store, id: ConnectionId, segment: &[u8], sink: &mut Sink) {
    let before = store.blocked_by;
    let mut rest = segment;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rest.len().min(PIECE));
        rest = later;
        let Some(connection) = store.connections.get_mut(&id) else { break };
        if connection.phase == Phase::Unknown {
            break;
        }
        let room = store.limits.queue_bytes.saturating_sub(connection.inbox.len());
        let (taken, lost) = piece.split_at(piece.len().min(room));
        // After a loss nothing may be appended: the stream would have a hole.
        if connection.lost == 0 {
            connection.inbox.extend(taken);
            connection.lost = lost.len() as u64;
        } else {
            connection.lost = connection.lost.saturating_add(piece.len() as u64);
        }
        connection.more = !later.is_empty();
        store.ready.insert((connection.order, id));
        if !store.charge(id) {
            store.give_up(id, sink);
        }
        run(server, store, sink);
    }
    report(before, store, sink);
}

pub(super) fn end(server: &Server, store: &mut Store, id: ConnectionId, sink: &mut Sink) {
    let before = store.blocked_by;
    match store.connections.get_mut(&id) {
        None => {
            store.closed.remove(&id);
        }
        Some(connection) => {
            connection.ended = true;
            if connection.phase == Phase::Unknown {
                store.remove(id);
            } else {
                store.ready.insert((connection.order, id));
                run(server, store, sink);
            }
        }
    }
    report(before, store, sink);
}

/// Says who holds the thread now, when that has changed.
fn report(before: Option<ConnectionId>, store: &Store, sink: &mut Sink) {
    if before == store.blocked_by {
        return;
    }
    if let Some(connection) = before {
        sink.push(Action::Unblocks { connection });
    }
    if let Some(connection) = store.blocked_by {
        let request = store.connections.get(&connection).and_then(|c| c.request.as_ref());
        sink.push(Action::Blocks { connection, missing: request.map_or(0, |r| r.missing().1) });
    }
}

/// The daemon's loop: one request of each readable connection in turn, until there is nothing to read or it blocks.
fn run(server: &Server, store: &mut Store, sink: &mut Sink) {
    loop {
        let next = match store.blocked_by {
            Some(id) => store.connections.get(&id).map(|c| (c.order, id)),
            None => {
                let after = (store.cursor.saturating_add(1), ConnectionId(0));
                store.ready.range(after..).next().or(store.ready.first()).copied()
            }
        };
        let Some((order, id)) = next else { return };
        store.cursor = order;
        if turn(server, store, id, sink) {
            return;
        }
    }
}

/// One request of one connection. `true` when the daemon blocks on it.
fn turn(server: &Server, store: &mut Store, id: ConnectionId, sink: &mut Sink) -> bool {
    let Some(connection) = store.connections.get_mut(&id) else {
        store.blocked_by = None;
        return false;
    };
    let order = connection.order;
    let mut inbox = std::mem::take(&mut connection.inbox);
    let whole = inbox.make_contiguous();
    let mut input: &[u8] = whole;
    let result = Handler { server, store, id, sink }.request(&mut input);
    let used = whole.len() - input.len();
    inbox.drain(..used);
    let empty = inbox.is_empty();
    let Some(connection) = store.connections.get_mut(&id) else { return false };
    store.blocked_by = None;
    if connection.phase == Phase::Unknown {
        return false;
    }
    connection.inbox = inbox;
    store.charge(id);
    let Some(connection) = store.connections.get(&id) else { return false };
    let (ended, more, lost) = (connection.ended, connection.more, connection.lost);
    let idle = connection.request.is_none();
    match result {
        Err(reason) => store.close(id, !empty || more || lost > 0, reason, sink),
        Ok(_) if empty && lost > 0 => store.give_up(id, sink),
        Ok(false) if ended => store.close(id, false, Reason::PeerClosed, sink),
        Ok(true) if empty && !ended => {
            store.ready.remove(&(order, id));
        }
        // With an end of file to read, the next turn closes it.
        Ok(true) => {}
        Ok(false) => {
            store.ready.remove(&(order, id));
            // Without a byte of a request it holds nobody up.
            if !idle {
                store.blocked_by = Some(id);
                return true;
            }
        }
    }
    false
}
