//! The clients' side: connections are made, used, cut off and made again; and the segments that this takes.

use super::client::Step;
use super::engine::{Connection, Engine, In, What};
use super::wire::{ACK, FIN, Flow, PSH, RST, SYN, Segment};

/// A packet is under way for less than this many seconds.
pub(super) const LATENCY: f64 = 1.3e-4;

impl Engine<'_, '_> {
    pub(super) fn segment(&mut self, c: usize, to_server: bool, flags: u8, payload: &[u8]) -> usize {
        let latency = 80e-6 + 40e-6 * self.r.unit();
        let now = self.now;
        let k = &mut self.connections[c];
        let side = usize::from(!to_server);
        let (seq, ack) = (k.next[side], k.next[1 - side]);
        let used = payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        k.next[side] = seq.wrapping_add(used);
        let (at_client, at_server) = if to_server { (now, now + latency) } else { (now + latency, now) };
        let ack = if flags & ACK != 0 { ack } else { 0 };
        self.network.segments.push(Segment {
            flow: k.flow,
            to_server,
            at_client,
            at_server,
            seq,
            ack,
            flags,
            payload: payload.to_vec(),
        });
        self.now += 2e-6;
        self.network.segments.len() - 1
    }

    pub(super) fn connect(&mut self, actor: usize, dialog: usize) {
        let a = &self.actors[actor];
        if dialog >= a.dialogs.len() {
            return;
        }
        self.ports = if self.ports >= 60_900 { 32_768 } else { self.ports + 1 };
        let flow = Flow {
            client_host: a.client_host,
            own: (a.own, self.ports),
            seen: (a.seen, self.ports),
            server_host: self.scene.host,
            server: (a.server, self.scene.port),
        };
        self.network.flows.push(flow);
        let c = self.connections.len();
        self.connections.push(Connection {
            actor,
            dialog,
            flow: self.network.flows.len() - 1,
            step: 0,
            token: 0,
            next: [self.r.next() as u32, self.r.next() as u32],
            have: 0,
            want: None,
            open: [true, self.alive],
            life: self.life,
            last: None,
            unread: 0,
        });
        self.segment(c, true, SYN, &[]);
        self.now += LATENCY;
        if !self.alive {
            self.connections[c].next[1] = 0;
            self.segment(c, false, RST | ACK, &[]);
            self.connections[c].open = [false, false];
            self.lost(c, true);
            return;
        }
        self.segment(c, false, SYN | ACK, &[]);
        self.now += LATENCY;
        self.segment(c, true, ACK, &[]);
        self.at(self.now + LATENCY, What::Input(c, In::Open));
        self.at(self.now + 1e-5, What::Go(c, 0));
    }

    /// The connection is gone, or was never made.
    pub(super) fn lost(&mut self, c: usize, refused: bool) {
        let (actor, dialog) = (self.connections[c].actor, self.connections[c].dialog);
        let a = &mut self.actors[actor];
        let next = if a.worker || refused {
            if a.retries == 0 {
                return;
            }
            a.retries -= 1;
            dialog
        } else {
            dialog + 1
        };
        let pause = if a.worker { 1.0 + self.r.unit() } else { self.actors[actor].pause };
        // A dialog that has not begun has nobody to hold on to: it is an actor of its own.
        let mut rest = self.actors[actor].clone();
        rest.dialogs.drain(..next.min(rest.dialogs.len()));
        self.actors[actor].retries = 0;
        rest.start = self.now + pause;
        self.actors.push(rest);
        let i = self.actors.len() - 1;
        self.at(self.actors[i].start, What::Begin(i));
    }

    pub(super) fn go(&mut self, c: usize, token: u32) {
        if self.connections[c].token != token || !self.connections[c].open[0] {
            return;
        }
        if self.connections[c].want.take().is_some() {
            // It waited long enough.
            if self.actors[self.connections[c].actor].worker {
                self.close(c, false);
                return;
            }
            self.connections[c].step += 1;
        }
        loop {
            let k = &self.connections[c];
            let steps = &self.actors[k.actor].dialogs[k.dialog];
            let Some(step) = steps.get(k.step).cloned() else { return };
            match step {
                Step::Send(bytes) => {
                    let s = self.segment(c, true, PSH | ACK, &bytes);
                    let arrives = self.network.segments[s].at_server;
                    self.now += LATENCY;
                    self.segment(c, false, ACK, &[]);
                    self.at(arrives, What::Input(c, In::Data(s)));
                    self.connections[c].unread += 1;
                    self.connections[c].step += 1;
                }
                Step::Await(bytes, patience) => {
                    let k = &mut self.connections[c];
                    if k.have >= bytes {
                        k.have -= bytes;
                        k.step += 1;
                        continue;
                    }
                    k.want = Some(bytes);
                    k.token += 1;
                    let token = k.token;
                    self.at(self.now + patience, What::Go(c, token));
                    return;
                }
                Step::Sleep(seconds) => {
                    let k = &mut self.connections[c];
                    k.step += 1;
                    k.token += 1;
                    let token = k.token;
                    self.at(self.now + seconds, What::Go(c, token));
                    return;
                }
                Step::Close(reset) => {
                    self.close(c, reset);
                    if !self.actors[self.connections[c].actor].worker {
                        self.lost(c, false);
                    }
                    return;
                }
            }
        }
    }

    /// The client closes.
    pub(super) fn close(&mut self, c: usize, reset: bool) {
        if !std::mem::replace(&mut self.connections[c].open[0], false) {
            return;
        }
        self.segment(c, true, if reset { RST | ACK } else { FIN | ACK }, &[]);
        if self.connections[c].open[1] {
            if reset {
                self.connections[c].open[1] = false;
            } else {
                self.now += LATENCY;
                self.segment(c, false, ACK, &[]);
            }
            self.at(self.now + LATENCY, What::Input(c, In::End));
        }
    }

    pub(super) fn arrive(&mut self, c: usize, bytes: usize) {
        let k = &mut self.connections[c];
        if !k.open[0] {
            return;
        }
        k.have += bytes;
        if let Some(want) = k.want.filter(|w| *w <= k.have) {
            k.have -= want;
            k.want = None;
            k.step += 1;
            k.token += 1;
            let token = k.token;
            self.at(self.now + 2e-5, What::Go(c, token));
        }
    }

    /// The server's end was closed, and the client hears of it.
    pub(super) fn cut(&mut self, c: usize, reset: bool) {
        if !std::mem::replace(&mut self.connections[c].open[0], false) {
            return;
        }
        self.connections[c].token += 1;
        if !reset {
            self.segment(c, true, FIN | ACK, &[]);
            self.now += LATENCY;
            self.segment(c, false, ACK, &[]);
        }
        self.lost(c, false);
    }
}
