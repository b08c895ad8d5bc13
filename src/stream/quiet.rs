//! Clients that said nothing.

use super::FlowRecord;

/// A connection without a byte, closed by its client within this many seconds.
const BRIEF: f64 = 10.0;

/// What a client that sent nothing did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quiet {
    /// A SYN that was answered, and no handshake.
    HalfOpen,
    /// A handshake, no byte, closed by the client.
    ConnectAndClose,
}

/// What a client that sent nothing, and was sent nothing, did; `None` where it did neither, or stayed.
pub fn quiet(r: &FlowRecord) -> Option<Quiet> {
    r.syn.get()?;
    if r.bytes[0] > 0 || r.bytes[1] > 0 || !r.accepted() {
        return None;
    }
    let closed = r.client_closed()?;
    let syn_ack = r.syn_ack.get()?;
    // The scanner's kernel answers a SYN-ACK it never asked for with a reset: SYN and RST are all it sends.
    if r.half_open() {
        return Some(Quiet::HalfOpen);
    }
    (closed.seconds_since(syn_ack) <= BRIEF).then_some(Quiet::ConnectAndClose)
}
