//! One listener's life: clients, strays, its host's memory, and what of all that goes over the network.
//!
//! What the server says to whom is the recorded behaviour of its release (`protocol::tcpstore::server`). When it is busy, when
//! memory is gone, who dies and what the kernel of its host does meanwhile is worked out here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rdzvscope::protocol::tcpstore::server::{Action, ConnectionId, How, Limits, Server, Store, hang_up, open, step};

use super::client::Step;
use super::machine::{Machine, Victim, dying};
use super::random::Random;
use super::wire::{ACK, FIN, Flow, Network, PSH, RST, SYN, Segment};

/// Somebody who connects, once or again and again.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) client_host: Option<usize>,
    pub(crate) own: IpAddr,
    pub(crate) seen: IpAddr,
    pub(crate) server: IpAddr,
    pub(crate) start: f64,
    /// One connection after the other.
    pub(crate) dialogs: Vec<Vec<Step>>,
    /// Seconds between them.
    pub(crate) pause: f64,
    /// A worker gives up when it is not answered, and comes back so often when it is cut off.
    pub(crate) worker: bool,
    pub(crate) retries: u32,
    /// Whose deed a claim of it is; see `plan`.
    pub(crate) campaign: usize,
}

/// Why a process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This segment completed a claim that the store was filling.
    Claim { segment: usize, bytes: u64, campaign: usize },
    /// The host ran out of memory for other reasons, and the process held a claim besides.
    Both,
    /// Neither a claim nor anything else on the network.
    Other,
}

/// A kill by the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kill {
    pub(crate) host: usize,
    pub(crate) at: f64,
    /// When its sockets were closed and the reaper wrote its line.
    pub(crate) died: f64,
    pub(crate) pid: u32,
    pub(crate) process: &'static str,
    pub(crate) total_vm: u64,
    pub(crate) rss: u64,
    /// Killed by the limit of its cgroup.
    pub(crate) limited: bool,
    pub(crate) cause: Cause,
    /// Whether the process killed is the one that the store lives in.
    pub(crate) store: bool,
}

enum What {
    Begin(usize),
    Go(usize, u32),
    Input(usize, In),
    Arrive(usize, usize),
    Cut(usize, bool),
    Kill { life: u32, victim: Victim, rss: u64, cause: Cause },
    Background,
    Collapse,
    Ends(u32),
    Gone(u32),
    Lives,
}

#[derive(Clone)]
enum In {
    Open,
    Data(usize),
    End,
}

struct Connection {
    actor: usize,
    dialog: usize,
    flow: usize,
    step: usize,
    token: u32,
    next: [u32; 2],
    have: usize,
    want: Option<usize>,
    open: [bool; 2],
    life: u32,
    last: Option<usize>,
    unread: u32,
}

/// What is to be played.
pub(crate) struct Scene<'a> {
    pub(crate) host: usize,
    pub(crate) machine: &'a Machine,
    pub(crate) server: Server,
    pub(crate) port: u16,
    /// Begin and end of the job.
    pub(crate) span: (f64, f64),
    /// Seconds after which it is started again when it died.
    pub(crate) restart: Option<f64>,
    pub(crate) strays: Vec<Actor>,
    /// Kills of rank 0 for which nobody on the network is to blame.
    pub(crate) background: Vec<f64>,
    /// When the job falls because a process elsewhere was killed.
    pub(crate) collapses: Vec<f64>,
    /// The workers of a life that begins then.
    pub(crate) workers: &'a mut dyn FnMut(f64) -> Vec<Actor>,
    pub(crate) key0: Vec<u8>,
}

/// Plays it.
pub(crate) fn play(scene: Scene<'_>, network: &mut Network, r: &mut Random, pids: &mut dyn FnMut() -> u32) -> Vec<Kill> {
    let mut e = Engine {
        store: Store::new(Limits::default()),
        server: scene.server.on(scene.machine.policy()),
        now: 0.0,
        queue: BTreeMap::new(),
        sequence: 0,
        actors: Vec::new(),
        connections: Vec::new(),
        life: 0,
        alive: false,
        doomed: false,
        busy: 0.0,
        held: None,
        pid: 0,
        kills: Vec::new(),
        ports: 32_768 + r.below(20_000) as u16,
        scene,
        network,
        r,
        pids,
    };
    e.run();
    e.kills
}

struct Engine<'a, 'b> {
    scene: Scene<'a>,
    server: Server,
    store: Store,
    now: f64,
    queue: BTreeMap<(i64, u64), What>,
    sequence: u64,
    actors: Vec<Actor>,
    connections: Vec<Connection>,
    life: u32,
    alive: bool,
    /// The kernel has chosen it, or will: it reads no more.
    doomed: bool,
    /// The thread fills memory until then.
    busy: f64,
    /// The connection whose claim is held, and how much.
    held: Option<(usize, u64)>,
    pid: u32,
    kills: Vec<Kill>,
    ports: u16,
    network: &'b mut Network,
    r: &'b mut Random,
    pids: &'b mut dyn FnMut() -> u32,
}

impl Engine<'_, '_> {
    fn at(&mut self, time: f64, what: What) {
        self.sequence += 1;
        self.queue.insert(((time * 1e9) as i64, self.sequence), what);
    }

    fn run(&mut self) {
        let (begin, _) = self.scene.span;
        self.at(begin, What::Lives);
        for actor in std::mem::take(&mut self.scene.strays) {
            self.actors.push(actor);
            let i = self.actors.len() - 1;
            self.at(self.actors[i].start, What::Begin(i));
        }
        for time in self.scene.background.clone() {
            self.at(time, What::Background);
        }
        for time in self.scene.collapses.clone() {
            self.at(time, What::Collapse);
        }
        while let Some(((time, _), what)) = self.queue.pop_first() {
            self.now = time as f64 / 1e9;
            self.happen(what);
        }
    }

    fn happen(&mut self, what: What) {
        let now = self.now;
        match what {
            What::Begin(actor) => self.connect(actor, 0),
            What::Go(c, token) => self.go(c, token),
            What::Input(c, input) => self.input(c, input),
            What::Arrive(c, bytes) => self.arrive(c, bytes),
            What::Cut(c, reset) => self.cut(c, reset),
            What::Kill { life, victim, rss, cause } if life == self.life && self.alive => {
                self.kill(victim, rss, cause);
            }
            What::Kill { .. } => {}
            What::Background => self.background(),
            What::Collapse if self.alive && now > self.scene.span.0 + 60.0 => self.collapse(),
            What::Ends(life) if life == self.life && self.alive && !self.doomed && now >= self.busy => {
                self.at(now + 0.5, What::Gone(life));
            }
            What::Collapse | What::Ends(_) => {}
            What::Gone(life) if life == self.life && self.alive => self.gone(),
            What::Gone(_) => {}
            What::Lives => self.lives(),
        }
    }

    fn lives(&mut self) {
        self.life += 1;
        (self.alive, self.doomed, self.busy, self.held) = (true, false, 0.0, None);
        self.pid = (self.pids)();
        self.store = Store::new(Limits::default()).with(b"init/", b"1").with(&self.scene.key0.clone(), &[7; 64]);
        for actor in (self.scene.workers)(self.now) {
            self.actors.push(actor);
            let i = self.actors.len() - 1;
            self.at(self.actors[i].start, What::Begin(i));
        }
        let (life, end) = (self.life, self.scene.span.1);
        self.at(end, What::Ends(life));
    }

    fn segment(&mut self, c: usize, to_server: bool, flags: u8, payload: &[u8]) -> usize {
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

    fn connect(&mut self, actor: usize, dialog: usize) {
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
        self.now += 1e-4;
        if !self.alive {
            self.connections[c].next[1] = 0;
            self.segment(c, false, RST | ACK, &[]);
            self.connections[c].open = [false, false];
            self.lost(c, true);
            return;
        }
        self.segment(c, false, SYN | ACK, &[]);
        self.now += 1e-4;
        self.segment(c, true, ACK, &[]);
        self.at(self.now + 1e-4, What::Input(c, In::Open));
        self.at(self.now + 1e-5, What::Go(c, 0));
    }

    /// The connection is gone, or was never made.
    fn lost(&mut self, c: usize, refused: bool) {
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

    fn go(&mut self, c: usize, token: u32) {
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
                    self.now += 1.2e-4;
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
    fn close(&mut self, c: usize, reset: bool) {
        if !std::mem::replace(&mut self.connections[c].open[0], false) {
            return;
        }
        self.segment(c, true, if reset { RST | ACK } else { FIN | ACK }, &[]);
        if self.connections[c].open[1] {
            if reset {
                self.connections[c].open[1] = false;
            } else {
                self.now += 1e-4;
                self.segment(c, false, ACK, &[]);
            }
            self.at(self.now + 1e-4, What::Input(c, In::End));
        }
    }

    fn arrive(&mut self, c: usize, bytes: usize) {
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
    fn cut(&mut self, c: usize, reset: bool) {
        if !std::mem::replace(&mut self.connections[c].open[0], false) {
            return;
        }
        self.connections[c].token += 1;
        if !reset {
            self.segment(c, true, FIN | ACK, &[]);
            self.now += 1e-4;
            self.segment(c, false, ACK, &[]);
        }
        self.lost(c, false);
    }

    fn input(&mut self, c: usize, input: In) {
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
        }
    }

    fn act(&mut self, action: Action) {
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
    fn end(&mut self, c: usize, reset: bool) {
        if !std::mem::replace(&mut self.connections[c].open[1], false) {
            return;
        }
        self.segment(c, false, if reset { RST | ACK } else { FIN | ACK }, &[]);
        if self.connections[c].open[0] {
            self.at(self.now + 1e-4, What::Cut(c, reset));
        } else if !reset {
            self.now += 1e-4;
            self.segment(c, true, ACK, &[]);
        }
    }

    fn allocate(&mut self, c: usize, bytes: u64) {
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

    fn kill(&mut self, victim: Victim, rss: u64, cause: Cause) {
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
    fn background(&mut self) {
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
            self.kills.push(Kill {
                host,
                at,
                died,
                pid,
                process,
                total_vm,
                rss,
                limited: false,
                cause,
                store: false,
            });
            return;
        }
        let held = self.held.map_or(0, |h| h.1);
        let cause = if held > rss / 10 { Cause::Both } else { Cause::Other };
        self.kill(Victim::Rank0, rss + held, cause);
    }

    /// A process of the job died elsewhere: the launcher takes down the others.
    fn collapse(&mut self) {
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
    fn gone(&mut self) {
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
