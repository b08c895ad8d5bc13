//! The libuv server: an event loop, limits, and a buffer for requests that are incomplete.

use super::super::Operation;
use super::action::{Action, ConnectionId, Reason, Sink};
use super::apply::{Handler, set_again};
use super::connection::Phase;
use super::store::Store;
use super::{Server, VALIDATE_MAGIC};

/// The most that one read takes.
const READ: usize = 4096;

pub(super) fn receive(server: &Server, store: &mut Store, id: ConnectionId, segment: &[u8], sink: &mut Sink) {
    let mut rest = segment;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rest.len().min(READ));
        rest = later;
        if let Err(reason) = read(server, store, id, chunk, sink) {
            store.close(id, !later.is_empty(), reason, sink);
            return;
        }
    }
    if !store.charge(id) {
        store.give_up(id, sink);
    }
}

pub(super) fn end(store: &mut Store, id: ConnectionId, sink: &mut Sink) {
    if store.closed.remove(&id).is_none() && store.remove(id).is_some() {
        sink.push(Action::Close { connection: id, how: super::How::Fin, reason: Reason::PeerClosed, claim: None });
    }
}

/// One read of the event loop.
fn read(server: &Server, store: &mut Store, id: ConnectionId, chunk: &[u8], sink: &mut Sink) -> Result<(), Reason> {
    let Some(connection) = store.connections.get_mut(&id) else { return Ok(()) };
    let mut input = chunk;
    match connection.phase {
        Phase::Unknown => return Ok(()),
        Phase::ValidateAgain => return Err(Reason::ValidateAgain),
        Phase::Ignored(byte) => {
            // Measured: what starts with no query type is closed by the next segment. Of the rest nothing is said.
            if server.operation(byte).is_none() {
                return Err(Reason::NotValidated(byte));
            }
            store.give_up(id, sink);
            return Ok(());
        }
        Phase::Unvalidated => {
            let first = chunk.first().copied().unwrap_or_default();
            let magic = chunk.get(1..5).and_then(|m| m.try_into().ok()).map(u32::from_le_bytes);
            let validate = server.operation(first) == Some(Operation::Validate);
            if !validate || magic != Some(VALIDATE_MAGIC) {
                if validate && chunk.len() == 4 && server.release.split_request_bug {
                    return Err(Reason::SplitRequest);
                }
                connection.phase = if validate { Phase::ValidateAgain } else { Phase::Ignored(first) };
                sink.push(Action::Ignores { connection: id });
                return Ok(());
            }
            connection.phase = Phase::Open;
            connection.served += 1;
            input = chunk.get(5..).unwrap_or_default();
        }
        Phase::Open => {
            let pending = connection.request.take();
            if let Some(mut request) = pending {
                set_again(store, &mut request, sink);
                if let Some(connection) = store.connections.get_mut(&id) {
                    connection.request = Some(request);
                }
            }
        }
    }
    while !input.is_empty() {
        let complete = Handler { server, store, id, sink }.request(&mut input)?;
        let Some(connection) = store.connections.get(&id).filter(|c| c.phase == Phase::Open) else { return Ok(()) };
        let Some(request) = connection.request.as_ref().filter(|_| !complete) else { continue };
        let (size, missing) = request.missing();
        if server.release.split_request_bug && missing > 0 && size <= request.received {
            return Err(Reason::SplitRequest);
        }
    }
    Ok(())
}
