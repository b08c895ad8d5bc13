//! One connection of a store, both ways, in one dialect.

use super::decoder_answer::Expected;
use super::decoder_answers::Answers;
use super::decoder_requests::{Requests, Signal};
use super::dialect::Dialect;
use super::event::{Direction, Event};
pub use super::options::DecodeOptions;
use crate::stream::Chunk;

/// The decoder of one connection in one dialect.
///
/// Feed it both streams in the order the packets were seen. Where chunks are cut does not matter; where packets
/// end decides only whether a zero is the late answer to a WAIT that was given up
/// ([`Answer::stale`](super::Answer::stale)): a server sends each answer at once.
///
/// Memory: under 1 KiB at rest; in a message, what [`DecodeOptions`] keeps. Never a declared length.
#[derive(Debug)]
pub struct Connection {
    requests: Requests,
    answers: Answers,
    options: DecodeOptions,
    dialect: Dialect,
}

impl Connection {
    /// A connection from its first byte on.
    pub fn new(dialect: Dialect, options: DecodeOptions) -> Self {
        Connection { requests: Requests::new(dialect), answers: Answers::new(dialect), options, dialect }
    }

    /// A connection whose beginning the capture does not hold: decoding begins at the first plausible request.
    pub fn joined_midstream(dialect: Dialect, options: DecodeOptions) -> Self {
        let mut connection = Connection::new(dialect, options);
        connection.requests.joined_midstream();
        connection.answers.joined_midstream();
        connection
    }

    /// The dialect that is assumed.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Bytes of the client's stream. Bytes before what was already fed are dropped; a hole counts as a gap.
    pub fn client(&mut self, chunk: &Chunk<'_>, out: &mut impl FnMut(Event)) {
        let Connection { requests, answers, options, .. } = self;
        requests.feed(chunk, options, &mut |signal| pass_on(signal, answers, options, out));
    }

    /// Bytes of the server's stream. Bytes before what was already fed are dropped; a hole counts as a gap.
    pub fn server(&mut self, chunk: &Chunk<'_>, out: &mut impl FnMut(Event)) {
        self.answers.feed(chunk, &self.options, out);
    }

    /// `length` bytes from `offset` on that the capture does not hold.
    ///
    /// A hole inside one key or value is counted over; any other loses the message it falls in (its captured
    /// bytes are [`Event::Undecoded`]), and decoding goes on at the next plausible request.
    pub fn gap(&mut self, direction: Direction, offset: u64, length: u64, out: &mut impl FnMut(Event)) {
        let Connection { requests, answers, options, .. } = self;
        match direction {
            Direction::Client => {
                requests.gap(offset, length, options, &mut |signal| pass_on(signal, answers, options, out));
            }
            Direction::Server => answers.gap(offset, length, options, out),
        }
    }

    /// The end of one stream: reports what is unfinished, undecoded and unanswered in it. Whoever sees the end of
    /// a connection calls it for the client, then for the server.
    pub fn end(&mut self, direction: Direction, out: &mut impl FnMut(Event)) {
        let Connection { requests, answers, options, .. } = self;
        match direction {
            Direction::Client => requests.end(&mut |signal| pass_on(signal, answers, options, out)),
            Direction::Server => answers.end(options, out),
        }
    }
}

/// Hands an event on, and tells the server's side what it means there.
fn pass_on(signal: Signal, answers: &mut Answers, options: &DecodeOptions, out: &mut impl FnMut(Event)) {
    match signal {
        Signal::Event(Event::Request(message)) => {
            let expected = Expected::of(&message);
            answers.settle(options, out);
            // The request comes before whatever early bytes turn out to answer it.
            out(Event::Request(message));
            answers.expect(expected, options, out);
        }
        Signal::Event(event) => out(event),
        Signal::Lost => answers.lose(),
    }
}
