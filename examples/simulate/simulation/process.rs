//! The server's side: what the process reads, answers, allocates, and dies of.

use rdzvscope::api::protocol::tcpstore::server::{Action, ConnectionId, How, hang_up, open, step};

use super::connection::LATENCY;
use super::engine::{Cause, Engine, In, Kill, What};
use super::machine::{Victim, dying};
use super::wire::{ACK, FIN, PSH, RST};

impl Engine<'_, '_> {
    pub(super) fn input(&mut self, c: usize, input: In) {
        let now = self.now;
        if self.connections[c].life != self.life || !self.alive || self.doomed {
            return;
        }
        if now < self.busy {
            self.at(self.busy, What::Input(c, input));
            return;
        }
        let id = ConnectionId(c as u64);
        let actions = match input {
            In::Open => {
                open(&self.server, &mut self.store, id);
                Vec::new()
            }
            In::Data(s) => {
                let k = &mut self.connections[c];
                (k.last, k.unread) = (Some(s), k.unread.saturating_sub(1));
                let payload = self.network.segments[s].payload.clone();
                step(&self.server, &mut self.store, id, &payload)
            }
            In::End => hang_up(&self.server, &mut self.store, id),
        };
        self.now += 3e-5;
        for action in actions {
            self.act(action);
            if self.doomed {
                // It dies while it fills what it was granted: what the model says comes next never does.
                break;
            }
            self.now = self.now.max(self.busy);
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Reply { connection, bytes, .. } => {
                let c = connection.0 as usize;
                if self.connections[c].open[1] {
                    let s = self.segment(c, false, PSH | ACK, &bytes);
                    let arrives = self.network.segments[s].at_client;
                    self.at(arrives, What::Arrive(c, bytes.len()));
                }
            }
            Action::Close { connection, how, .. } => {
                let c = connection.0 as usize;
                if self.held.is_some_and(|h| h.0 == c) {
                    self.held = None;
                }
                self.end(c, how == How::Reset);
            }
            Action::Allocate { connection, allocation } => self.allocate(connection.0 as usize, allocation.bytes),
            Action::Blocks { .. }
            | Action::Unblocks { .. }
            | Action::Waits { .. }
            | Action::Ignores { .. }
            | Action::Unknown { .. } => {}
        }
    }

    /// The server's end of a connection is closed.
    pub(super) fn end(&mut self, c: usize, reset: bool) {
        if !std::mem::replace(&mut self.connections[c].open[1], false) {
            return;
        }
        self.segment(c, false, if reset { RST | ACK } else { FIN | ACK }, &[]);
        if self.connections[c].open[0] {
            self.at(self.now + LATENCY, What::Cut(c, reset));
        } else if !reset {
            self.now += LATENCY;
            self.segment(c, true, ACK, &[]);
        }
    }

    pub(super) fn allocate(&mut self, c: usize, bytes: u64) {
        const NOTHING: u64 = 16 << 20;
        if bytes < NOTHING || self.doomed {
            return;
        }
        self.held = Some((c, bytes));
        let filling = self.scene.machine.fill(bytes);
        let segment = self.connections[c].last.unwrap_or_default();
        let campaign = self.actors[self.connections[c].actor].campaign;
        let (now, life) = (self.now, self.life);
        for (seconds, victim, rss) in filling.kills.into_iter().flatten() {
            let cause = Cause::Claim { segment, bytes, campaign };
            self.at(now + seconds, What::Kill { life, victim, rss, cause });
        }
        self.busy = now + filling.done.unwrap_or(f64::MAX / 4.0);
        self.doomed = filling.done.is_none();
        if self.doomed {
            self.busy = 0.0;
        }
    }

    pub(super) fn kill(&mut self, victim: Victim, rss: u64, cause: Cause) {
        let m = self.scene.machine;
        let (store, held) = (victim == Victim::Rank0, self.held.map_or(0, |h| h.1));
        let died = self.now + dying(rss, self.r.unit());
        let (pid, process, total_vm) = match victim {
            Victim::Rank0 => (self.pid, "python3", m.rank0_vm + held),
            Victim::Hog => ((self.pids)(), "ray::worker", rss + (3 << 30)),
        };
        let limited = m.limit.is_some() && m.free() < m.ram.saturating_sub(m.used);
        self.kills.push(Kill {
            host: self.scene.host,
            at: self.now,
            died,
            pid,
            process,
            total_vm,
            rss,
            limited,
            cause,
            store,
        });
        if store {
            self.doomed = true;
            let life = self.life;
            self.at(died, What::Gone(life));
        }
    }

    /// Memory runs out for reasons of its own, and rank 0 is what the kernel takes.
    pub(super) fn background(&mut self) {
        if self.doomed || self.now < self.busy {
            return;
        }
        let rss = self.scene.machine.rank0_rss;
        if !self.alive {
            let (pid, unit) = ((self.pids)(), self.r.unit());
            let (at, died) = (self.now, self.now + dying(rss, unit));
            let total_vm = self.scene.machine.rank0_vm;
            let (host, cause) = (self.scene.host, Cause::Other);
            let process = "python3";
            self.kills.push(Kill { host, at, died, pid, process, total_vm, rss, limited: false, cause, store: false });
            return;
        }
        let held = self.held.map_or(0, |h| h.1);
        let cause = if held > rss / 10 { Cause::Both } else { Cause::Other };
        self.kill(Victim::Rank0, rss + held, cause);
    }

    /// A process of the job died elsewhere: the launcher takes down the others.
    pub(super) fn collapse(&mut self) {
        if self.kills.last().is_some_and(|k| k.store && k.died > self.now) {
            return;
        }
        for c in 0..self.connections.len() {
            let k = &self.connections[c];
            if k.open[0] && k.life == self.life && self.actors[k.actor].worker {
                self.connections[c].token += 1;
                let actor = self.connections[c].actor;
                self.actors[actor].retries = 0;
                let reset = self.r.chance(0.3);
                self.close(c, reset);
            }
        }
        let (life, gone) = (self.life, self.now + self.r.unit() * 5.0);
        self.at(gone, What::Gone(life));
    }

    /// The process's sockets are closed.
    pub(super) fn gone(&mut self) {
        let killed = self.kills.last().is_some_and(|k| k.store && k.pid == self.pid);
        if let Some(segment) = self.held.filter(|_| !killed).and_then(|h| self.connections[h.0].last) {
            self.ended.push(segment);
        }
        (self.alive, self.doomed, self.busy, self.held) = (false, false, 0.0, None);
        for c in 0..self.connections.len() {
            if self.connections[c].open[1] && self.connections[c].life == self.life {
                let reset = self.connections[c].unread > 0;
                self.end(c, reset);
            }
        }
        if let Some(after) = self.scene.restart
            && self.now + after < self.scene.span.1 - 60.0
        {
            self.at(self.now + after, What::Lives);
        }
    }
}
