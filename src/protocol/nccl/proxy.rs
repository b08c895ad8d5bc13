//! The proxy service (2.12 and later): requests and replies, whose layout depends on the release.

use std::collections::VecDeque;

use super::event::{Event, Fault, Place};
use super::piece_buffer::{Machine, Need};
use super::version::Versions;
use super::wire::{i32_at, u64_at};
use crate::stream::Direction;

/// Requests that wait for their reply; a client of NCCL has a few.
const EXPECTED: usize = 1024;
/// The largest payload that is taken for real; the largest seen is 20 680 bytes.
const MAX_PAYLOAD: i32 = 1 << 20;

const INIT: i32 = 1;
const CLOSE: i32 = 6;
const STOP: i32 = 8;
const LAST: i32 = 12;

/// A request whose reply has not come.
#[derive(Clone, Copy, Debug)]
struct Expected {
    id: Option<u64>,
    size: i32,
    old_init: bool,
}

/// What both directions of a proxy connection know.
#[derive(Debug, Default)]
pub(super) struct Proxy {
    expected: VecDeque<Expected>,
    /// Whether requests end in an operation id (2.17 and later); `None` until one was seen.
    with_id: Option<bool>,
    /// Bytes of a reply's header: 12 (2.17, 2.18) or 16 (2.19 and later).
    header: Option<usize>,
}

impl Proxy {
    fn expect(&mut self, e: Expected) {
        if self.expected.len() < EXPECTED {
            self.expected.push_back(e);
        }
    }

    fn answered(&mut self, id: u64) -> Option<Expected> {
        let at = self.expected.iter().position(|e| e.id == Some(id))?;
        self.expected.remove(at)
    }
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Type,
    /// The next twelve bytes of an Init: they differ by release.
    Init(u64),
    /// An Init that looks new: its reply size decides. Holds what it is if it is old.
    InitReply {
        transport: i32,
        place: Place,
    },
    /// NcclConnection, request size, reply size.
    Head(i32, u64),
    Payload(Pending),
    /// After the payload: an operation id, or the next request.
    After(Pending),
    /// The second half of an operation id.
    RestOfId(Pending, u32),
    Id(Pending),
    Stopped,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    kind: i32,
    transport: Option<i32>,
    sizes: (i32, i32),
    offset: u64,
}

/// The decoder of the requests.
#[derive(Debug)]
pub(super) struct Requests {
    ask: Ask,
    handshake: bool,
    last: Place,
}

impl Requests {
    pub(super) fn new(handshake: bool) -> Self {
        Requests { ask: Ask::Type, handshake, last: Place::default() }
    }

    /// The first type, where it was needed to know that this is a proxy connection.
    pub(super) fn first(&mut self, kind: i32, place: Place, out: &mut dyn FnMut(Event)) {
        self.last = place;
        self.kind(kind, place, out);
    }

    fn kind(&mut self, kind: i32, place: Place, out: &mut dyn FnMut(Event)) {
        self.ask = match kind {
            INIT => Ask::Init(place.offset),
            CLOSE..=STOP => {
                out(Event::ProxyRequest { kind, transport: None, sizes: (0, 0), place });
                Ask::Type
            }
            2..=LAST => Ask::Head(kind, place.offset),
            _ => self.stop(Fault::ProxyType(kind), place, out),
        };
    }

    fn stop(&self, fault: Fault, place: Place, out: &mut dyn FnMut(Event)) -> Ask {
        out(Event::Malformed { direction: Direction::ToServer, fault, place });
        Ask::Stopped
    }

    fn old_init(&self, transport: i32, place: Place, proxy: &mut Proxy, out: &mut dyn FnMut(Event)) {
        if self.handshake {
            let versions = Versions::new(21602, 21799);
            out(Event::Versions { versions, by: "the proxy's Init without sizes", place });
        } else {
            out(Event::Versions {
                versions: Versions::new(21200, 21599),
                by: "a proxy service without a handshake",
                place,
            });
        }
        out(Event::ProxyRequest { kind: INIT, transport: Some(transport), sizes: (0, 8), place });
        proxy.expect(Expected { id: None, size: 8, old_init: true });
    }

    /// After a request's last byte but its id.
    fn complete(&mut self, p: Pending, id: Option<u64>, place: Place, proxy: &mut Proxy, out: &mut dyn FnMut(Event)) {
        out(Event::ProxyRequest {
            kind: p.kind,
            transport: p.transport,
            sizes: p.sizes,
            place: Place { offset: p.offset, ..place },
        });
        if id.is_some() {
            // Expected without an id until now.
            if proxy.with_id.is_none() {
                proxy.expected.retain(|e| e.id.is_some() || e.old_init);
            }
            proxy.expect(Expected { id, size: p.sizes.1, old_init: false });
        }
        self.ask = Ask::Type;
    }

    fn sizes(&mut self, p: Pending, place: Place, proxy: &mut Proxy, out: &mut dyn FnMut(Event)) {
        let (request, reply) = p.sizes;
        let odd = [request, reply].into_iter().find(|n| !(0..=MAX_PAYLOAD).contains(n));
        self.ask = match odd {
            Some(n) => self.stop(Fault::ProxySize(n), place, out),
            None if request > 0 => Ask::Payload(p),
            None => self.after(p, proxy),
        };
    }

    fn after(&self, p: Pending, proxy: &mut Proxy) -> Ask {
        match proxy.with_id {
            Some(true) => Ask::Id(p),
            _ => {
                proxy.expect(Expected { id: None, size: p.sizes.1, old_init: false });
                Ask::After(p)
            }
        }
    }

    pub(super) fn end(&mut self, proxy: &mut Proxy, held: bool, out: &mut dyn FnMut(Event)) {
        if held {
            return;
        }
        match self.ask {
            Ask::InitReply { transport, place } => {
                self.old_init(transport, place, proxy, out);
                self.ask = Ask::Type;
            }
            Ask::After(p) => self.complete(p, None, self.last, proxy, out),
            _ => {}
        }
    }
}

impl Machine<Proxy> for Requests {
    fn need(&mut self, _: &mut Proxy) -> Need {
        match self.ask {
            Ask::Type | Ask::InitReply { .. } | Ask::After(_) | Ask::RestOfId(..) => Need::Bytes(4),
            Ask::Init(_) => Need::Bytes(12),
            Ask::Head(..) => Need::Bytes(16),
            Ask::Payload(p) => Need::Skip(p.sizes.0.max(1) as u64),
            Ask::Id(_) => Need::Bytes(8),
            Ask::Stopped => Need::Lost,
        }
    }

    fn take(&mut self, bytes: &[u8], place: Place, proxy: &mut Proxy, out: &mut dyn FnMut(Event)) {
        let word = |at| i32_at(bytes, at).unwrap_or(0);
        match self.ask {
            Ask::Type => self.kind(word(0), place, out),
            Ask::Init(offset) => {
                let at = Place { offset, ..place };
                let (transport, send, last) = (word(0), word(4), word(8));
                if transport == 0 && send == 0 && last == 20 {
                    self.ask = Ask::InitReply { transport, place: at };
                } else if (0..=4).contains(&transport) && (0..=1).contains(&send) && last >= 0 {
                    self.old_init(transport, at, proxy, out);
                    self.ask = Ask::Type;
                } else {
                    self.ask = self.stop(Fault::ProxySize(last), at, out);
                }
            }
            Ask::InitReply { transport, place: at } => {
                let size = word(0);
                if (1..=LAST).contains(&size) {
                    self.old_init(transport, at, proxy, out);
                    self.kind(size, place, out);
                } else {
                    let versions = if size == 24 { Versions::new(23000, 23299) } else { Versions::new(21800, 22999) };
                    out(Event::Versions { versions, by: "the reply size of the proxy's Init", place });
                    proxy.with_id = Some(true);
                    let p = Pending { kind: INIT, transport: None, sizes: (20, size), offset: at.offset };
                    self.sizes(p, at, proxy, out);
                }
            }
            Ask::Head(kind, offset) => {
                let p = Pending { kind, transport: None, sizes: (word(8), word(12)), offset };
                self.sizes(p, Place { offset, ..place }, proxy, out);
            }
            Ask::Payload(p) => self.ask = self.after(p, proxy),
            Ask::After(p) if (1..=LAST).contains(&word(0)) => {
                proxy.with_id = Some(false);
                self.complete(p, None, self.last, proxy, out);
                self.kind(word(0), place, out);
            }
            Ask::After(p) => self.ask = Ask::RestOfId(p, word(0) as u32),
            Ask::RestOfId(p, low) => {
                let id = u64::from(low) | u64::from(word(0) as u32) << 32;
                out(Event::Versions {
                    versions: Versions::new(21700, 23299),
                    by: "a proxy request with an operation id",
                    place,
                });
                self.complete(p, Some(id), place, proxy, out);
                proxy.with_id = Some(true);
            }
            Ask::Id(p) => self.complete(p, u64_at(bytes, 0), place, proxy, out),
            Ask::Stopped => {}
        }
        self.last = place;
    }

    fn open(&self) -> Option<u64> {
        match self.ask {
            Ask::After(p) => Some(p.offset),
            Ask::InitReply { place, .. } => Some(place.offset),
            _ => self.message().map(|(_, offset, _)| offset),
        }
    }

    fn message(&self) -> Option<(&'static str, u64, u64)> {
        match self.ask {
            Ask::Type | Ask::After(_) | Ask::InitReply { .. } | Ask::Stopped => None,
            Ask::Init(offset) => Some(("proxy request", offset, 16)),
            Ask::Head(_, offset) => Some(("proxy request", offset, 20)),
            Ask::Payload(p) | Ask::Id(p) | Ask::RestOfId(p, _) => {
                Some(("proxy request", p.offset, 20 + p.sizes.0.max(0) as u64))
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Idle,
    /// A raw reply, or the payload of one with a header.
    Payload {
        size: i32,
        result: Option<i32>,
        offset: u64,
    },
    /// The pointer of an old Init came: a suffix of `/dev/shm/nccl-` may follow.
    Suffix,
    /// Twelve bytes of a header: its length is not known, or is 16.
    Rest {
        id: u64,
        third: i32,
        offset: u64,
    },
    Stopped,
}

/// The decoder of the replies.
#[derive(Debug)]
pub(super) struct Replies {
    answer: Answer,
}

impl Replies {
    pub(super) fn new() -> Self {
        Replies { answer: Answer::Idle }
    }

    fn payload(&mut self, size: i32, result: Option<i32>, place: Place, out: &mut dyn FnMut(Event)) {
        self.answer = match size {
            0 => {
                out(Event::ProxyReply { result, size, place });
                Answer::Idle
            }
            1..=MAX_PAYLOAD => Answer::Payload { size, result, offset: place.offset },
            _ => {
                out(Event::Malformed { direction: Direction::ToClient, fault: Fault::ProxySize(size), place });
                Answer::Stopped
            }
        };
    }
}

impl Machine<Proxy> for Replies {
    fn need(&mut self, proxy: &mut Proxy) -> Need {
        if let Answer::Suffix = self.answer {
            // The client asks again only after it has all of the reply.
            if proxy.expected.is_empty() && proxy.with_id != Some(true) {
                return Need::Bytes(6);
            }
            self.answer = Answer::Idle;
        }
        match self.answer {
            Answer::Stopped => Need::Lost,
            Answer::Payload { size, .. } => Need::Skip(size.max(1) as u64),
            Answer::Rest { .. } => Need::Bytes(4),
            Answer::Suffix => Need::Bytes(6),
            Answer::Idle if proxy.with_id == Some(true) && proxy.expected.front().is_none_or(|e| e.id.is_some()) => {
                Need::Bytes(12)
            }
            Answer::Idle => {
                while proxy.expected.front().is_some_and(|e| e.size <= 0) {
                    proxy.expected.pop_front();
                }
                match proxy.expected.front() {
                    Some(e) if e.old_init => Need::Bytes(8),
                    Some(e) => Need::Skip(e.size as u64),
                    None => Need::Lost,
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8], place: Place, proxy: &mut Proxy, out: &mut dyn FnMut(Event)) {
        match self.answer {
            Answer::Idle if bytes.len() == 12 => {
                let (id, third) = (u64_at(bytes, 0).unwrap_or(0), i32_at(bytes, 8).unwrap_or(0));
                let header = proxy.header.unwrap_or_else(|| {
                    let short = proxy.expected.iter().any(|e| e.id == Some(id) && e.size == third && third != 0);
                    let (n, since, until) = if short { (12, 21700, 21899) } else { (16, 21900, 23299) };
                    let by = "the header of the proxy's replies";
                    out(Event::Versions { versions: Versions::new(since, until), by, place });
                    n
                });
                proxy.header = Some(header);
                if header == 16 {
                    self.answer = Answer::Rest { id, third, offset: place.offset };
                } else {
                    proxy.answered(id);
                    self.payload(third, None, place, out);
                }
            }
            Answer::Rest { id, third, offset } => {
                proxy.answered(id);
                self.payload(i32_at(bytes, 0).unwrap_or(0), Some(third), Place { offset, ..place }, out);
            }
            Answer::Payload { size, result, offset } => {
                out(Event::ProxyReply { result, size, place: Place { offset, ..place } });
                self.answer = Answer::Idle;
            }
            Answer::Idle => {
                let Some(e) = proxy.expected.pop_front() else { return };
                out(Event::ProxyReply { result: None, size: e.size, place });
                self.answer = if e.old_init { Answer::Suffix } else { Answer::Idle };
            }
            Answer::Suffix => {
                out(Event::ProxySuffix(place));
                self.answer = Answer::Idle;
            }
            Answer::Stopped => {}
        }
    }

    fn message(&self) -> Option<(&'static str, u64, u64)> {
        match self.answer {
            Answer::Payload { size, offset, .. } => Some(("proxy reply", offset, size.max(0) as u64)),
            Answer::Rest { offset, .. } => Some(("proxy reply", offset, 16)),
            _ => None,
        }
    }
}
