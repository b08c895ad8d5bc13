//! One listener's life: clients, strays, its host's memory, and what of all that goes over the network.
//!
//! What the server says to whom is the recorded behaviour of its release (`protocol::tcpstore::server`). When it is busy, when
//! memory is gone, who dies and what the kernel of its host does meanwhile is worked out here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rdzvscope::api::protocol::tcpstore::server::{Limits, Server, Store};

use super::client::Step;
use super::machine::{Machine, Victim};
use super::random::Random;
use super::wire::Network;

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

pub(super) enum What {
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
pub(super) enum In {
    Open,
    Data(usize),
    End,
}

pub(super) struct Connection {
    pub(super) actor: usize,
    pub(super) dialog: usize,
    pub(super) flow: usize,
    pub(super) step: usize,
    pub(super) token: u32,
    pub(super) next: [u32; 2],
    pub(super) have: usize,
    pub(super) want: Option<usize>,
    pub(super) open: [bool; 2],
    pub(super) life: u32,
    pub(super) last: Option<usize>,
    pub(super) unread: u32,
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

/// Plays it: the kills, and the claims that held a store until its job was ended by other hands.
pub(crate) fn play(
    scene: Scene<'_>,
    network: &mut Network,
    r: &mut Random,
    pids: &mut dyn FnMut() -> u32,
) -> (Vec<Kill>, Vec<usize>) {
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
        ended: Vec::new(),
        ports: 32_768 + r.below(20_000) as u16,
        scene,
        network,
        r,
        pids,
    };
    e.run();
    (e.kills, e.ended)
}

pub(super) struct Engine<'a, 'b> {
    pub(super) scene: Scene<'a>,
    pub(super) server: Server,
    pub(super) store: Store,
    pub(super) now: f64,
    pub(super) queue: BTreeMap<(i64, u64), What>,
    pub(super) sequence: u64,
    pub(super) actors: Vec<Actor>,
    pub(super) connections: Vec<Connection>,
    pub(super) life: u32,
    pub(super) alive: bool,
    /// The kernel has chosen it, or will: it reads no more.
    pub(super) doomed: bool,
    /// The thread fills memory until then.
    pub(super) busy: f64,
    /// The connection whose claim is held, and how much.
    pub(super) held: Option<(usize, u64)>,
    pub(super) pid: u32,
    pub(super) kills: Vec<Kill>,
    /// Claims that held a store until its job was ended by other hands: the segments that completed them.
    pub(super) ended: Vec<usize>,
    pub(super) ports: u16,
    pub(super) network: &'b mut Network,
    pub(super) r: &'b mut Random,
    pub(super) pids: &'b mut dyn FnMut() -> u32,
}

impl Engine<'_, '_> {
    pub(super) fn at(&mut self, time: f64, what: What) {
        self.sequence += 1;
        // Rounded up: never before the time asked for.
        self.queue.insert(((time * 1e9).ceil() as i64 + 1, self.sequence), what);
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
}
