//! All interfaces together: threads that listen, one that concludes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::error::LiveError;
use super::filter::Widening;
use super::listen::{Desk, InterfaceReader, ListenOptions};
use super::ring::Ring;
use crate::alert::Alerts;
use crate::analysis::{
    Analysis, Concluded, GrowingSet, Options, RecentFlows, StoredCapture, StoredSet, analyze_stored,
};
use crate::capture::Summary;
use crate::case::{
    CaptureRow, CaptureState, Case, Delivered, Limits, Withheld, new_set, save_batch, save_capture, save_late,
};
use crate::net::Endpoint;
use crate::time::Timestamp;
use crate::vocabulary::Severity;
use crate::watch::{conclude, fetch_wanted, told};

/// Memory that a flow takes while it is concluded from, about: the flows that are kept are `--memory` divided by it.
const FLOW_MEMORY: u64 = 4096;
/// Packets after which flows are counted: there are no more than packets.
const COUNT_EVERY: u64 = 10_000;

/// How long an interface that went away is left alone before it is opened again, at first and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What one tick came to.
#[derive(Debug, Default)]
pub struct Tick {
    /// Packets since the last one.
    pub packets: u64,
    /// What is new, or graver than before.
    pub fresh: Vec<Delivered>,
    /// All that is known now.
    pub analysis: Option<Analysis>,
    /// What went wrong, in words.
    pub wrong: Vec<String>,
    /// What is no alert, by id and kind: why.
    pub withheld: BTreeMap<(String, String), Withheld>,
    /// What is worth a line: how the filter grew.
    pub said: Vec<String>,
    /// Interfaces that are still listened to.
    pub listening: usize,
    /// One went away and cannot be opened again by this process.
    pub gone: bool,
}

struct MonitoredInterface {
    name: String,
    row: CaptureRow,
    desk: Arc<Mutex<Desk>>,
    thread: Option<JoinHandle<()>>,
    drops: u64,
    said: Option<String>,
    left_out: u64,
    /// When it is opened again, and how long that is after the last time.
    again: Option<(Instant, Duration)>,
}

/// Starts the thread that listens.
fn spawn(reader: InterfaceReader, id: u32, desk: &Arc<Mutex<Desk>>, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (desk, stop) = (Arc::clone(desk), Arc::clone(stop));
    std::thread::spawn(move || reader.run(id, &desk, &stop))
}

/// A conclusion that is being drawn.
struct Running {
    thread: JoinHandle<Concluded>,
    /// Batches that were kept when it began.
    batches: u64,
    begun: Instant,
}

/// Interfaces that are listened to, and the case that their packets go into.
pub struct Monitor {
    case: Case,
    options: Options,
    posts: Vec<MonitoredInterface>,
    stop: Arc<AtomicBool>,
    limits: Limits,
    /// When it was concluded last, and how long that took.
    concluded: Option<(Instant, Duration)>,
    /// Packets since flows were counted.
    since_counted: u64,
    widening: Widening,
    /// The filter is the user's own, and stays as it is.
    own_filter: bool,
    /// How interfaces are opened again.
    listen: ListenOptions,
    running: Option<Running>,
    /// Batches that were kept so far.
    batches: u64,
    /// What came lately, and when it was looked at last, and how long that took.
    recent: RecentFlows,
    looked: Option<(Instant, Duration)>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("posts", &self.posts.len()).finish_non_exhaustive()
    }
}

impl Monitor {
    /// Starts to listen. Where the filter is not the user's own it grows by the listeners that traffic names.
    ///
    /// # Errors
    /// The case's.
    pub fn start(
        mut case: Case,
        options: Options,
        listeners: Vec<(InterfaceReader, Option<Ring>)>,
        limits: Limits,
        (listen, own_filter): (ListenOptions, bool),
        now: Timestamp,
    ) -> Result<Monitor, LiveError> {
        let widening = Widening::new(options.ports.iter().chain(options.nccl_ports.iter()).collect());
        let recent = RecentFlows::of(&case.load()?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut posts = Vec::new();
        for (listener, ring) in listeners {
            let name = listener.name.clone();
            let path = format!("live:{name}");
            let mut row = CaptureRow {
                id: 0,
                set: 0,
                path: path.clone(),
                inode: (0, 0),
                size: 0,
                modified: now.0,
                head_length: 0,
                head_hash: [0; 32],
                consumed: 0,
                offset: 0,
                state: CaptureState::Finished,
                first: Some(now),
                last: None,
                summary: None,
                error: None,
            };
            case.transaction("cannot begin a capture", |tx| {
                row.set = new_set(tx, &(PathBuf::new(), path.clone()))?;
                save_capture(tx, &mut row)
            })?;
            let summary = Summary::of_interface(&name, listener.link, Some(listener.snaplen));
            let intake = GrowingSet::new(&options, &StoredSet { key: row.set, ..StoredSet::default() });
            let desk = Arc::new(Mutex::new(Desk {
                intake,
                summary,
                ring,
                ended: None,
                drops: 0,
                filter: None,
                said: Vec::new(),
            }));
            let thread = Some(spawn(listener, row.id, &desk, &stop));
            posts.push(MonitoredInterface { name, row, desk, thread, drops: 0, said: None, left_out: 0, again: None });
        }
        let (concluded, running) = (None, None);
        let (since_counted, batches) = (0, 0);
        Ok(Monitor {
            case,
            options,
            posts,
            stop,
            limits,
            concluded,
            since_counted,
            widening,
            own_filter,
            listen,
            running,
            batches,
            recent,
            looked: None,
        })
    }

    /// Takes what came, concludes, and says what is new.
    ///
    /// # Errors
    /// The case's.
    pub fn tick(&mut self, now: Timestamp, alert_on: Severity, alerts: &mut Alerts) -> Result<Tick, LiveError> {
        let mut tick = Tick::default();
        for post in &mut self.posts {
            let taken = {
                let Ok(mut desk) = post.desk.lock() else { continue };
                let drops = desk.drops;
                if let Some(i) = desk.summary.interfaces.first_mut() {
                    i.drops = Some(drops);
                }
                let left_out = desk.ring.as_ref().map_or(0, Ring::left_out);
                tick.wrong.append(&mut desk.said);
                (desk.intake.take(), desk.summary.clone(), desk.ended.clone(), drops, left_out)
            };
            let (batch, summary, ended, drops, left_out) = taken;
            let doing = "cannot pack segments";
            let batch = batch.map_err(|source| LiveError::Io { path: self.case.path().to_owned(), doing, source })?;
            if drops > post.drops {
                let text = format!(
                    "{}: the kernel dropped {} packets: what they held is not known",
                    post.name,
                    drops - post.drops
                );
                tick.wrong.push(text);
                self.case.count_drops(drops - post.drops)?;
                post.drops = drops;
            }
            if left_out > post.left_out {
                let text = format!(
                    "{}: {} packets were not written: the budget is used up",
                    post.name,
                    left_out - post.left_out
                );
                tick.wrong.push(text);
                post.left_out = left_out;
            }
            if ended.is_some() && ended != post.said {
                tick.wrong.push(format!("{}: {}", post.name, ended.as_deref().unwrap_or_default()));
                post.said = ended;
            }
            tick.listening += usize::from(post.thread.as_ref().is_some_and(|t| !t.is_finished()));
            if batch.packets == 0 {
                continue;
            }
            tick.packets += batch.packets;
            self.batches += 1;
            post.row.consumed = summary.packets;
            post.row.offset = summary.bytes;
            post.row.first = summary.first().or(post.row.first);
            post.row.last = summary.last();
            if let Some(segments) = &batch.segments {
                let (id, path) = (post.row.id, PathBuf::from(&post.row.path));
                let capture = StoredCapture { id, path, summary: Some(summary.clone()), error: None };
                self.recent.take(post.row.set, capture, segments, &batch.claims);
            }
            post.row.summary = Some(summary);
            let row = &mut post.row;
            self.case.transaction("cannot keep what came", |tx| {
                save_batch(tx, row.set, row.id, &batch)?;
                save_capture(tx, row)
            })?;
        }
        self.listen_again(&mut tick);
        self.conclude(now, alert_on, alerts, &mut tick)?;
        self.look(now, alert_on, alerts, &mut tick)?;
        let mut pruned = !self.case.prune(&self.limits, now)?.is_nothing();
        self.since_counted += tick.packets;
        if self.since_counted >= COUNT_EVERY {
            self.since_counted = 0;
            pruned |= !self.case.prune_flows(self.options.memory / FLOW_MEMORY)?.is_nothing();
        }
        if pruned {
            self.forget()?;
        }
        Ok(tick)
    }

    /// Concludes from all that is kept, in a thread of its own: what comes in the meantime is kept at once. It takes longer
    /// the more is kept, and may take a third of a processor: claims do not wait for it. At the end, after
    /// [`Monitor::stop`], it is waited for.
    fn conclude(
        &mut self,
        now: Timestamp,
        alert_on: Severity,
        alerts: &mut Alerts,
        tick: &mut Tick,
    ) -> Result<(), LiveError> {
        let last = self.stop.load(Ordering::Relaxed);
        if self.running.as_ref().is_some_and(|r| last || r.thread.is_finished())
            && let Some(running) = self.running.take()
            && let Ok(concluded) = running.thread.join()
        {
            let whole = running.batches == self.batches;
            let desks: BTreeMap<i64, Arc<Mutex<Desk>>> =
                self.posts.iter().map(|p| (p.row.set, Arc::clone(&p.desk))).collect();
            fetch_wanted(&mut self.case, &concluded.wanted, &mut |set, listeners| {
                if let Some(mut desk) = desks.get(&set).and_then(|d| d.lock().ok()) {
                    desk.intake.promote(listeners.iter().copied());
                }
            })?;
            let missed = concluded.wanted.iter().any(|(set, _)| *set >= 0);
            self.tell(concluded.analysis, whole && !missed, (now, alert_on), alerts, tick)?;
            self.concluded = Some((Instant::now(), running.begun.elapsed()));
        }
        if last {
            if self.case.is_fresh()? {
                let analysis = conclude(&mut self.case, &self.options, &mut |_, _| {})?;
                self.tell(analysis, true, (now, alert_on), alerts, tick)?;
            }
            return Ok(());
        }
        let due = self.concluded.is_none_or(|(at, took)| at.elapsed() >= took * 2);
        if due && self.running.is_none() && self.case.is_fresh()? {
            let (stored, options) = (self.case.load()?, self.options.clone());
            let thread = std::thread::spawn(move || analyze_stored(&options, stored));
            self.running = Some(Running { thread, batches: self.batches, begun: Instant::now() });
        }
        Ok(())
    }

    /// Tells of claims in what came lately, whatever else is kept and however long a conclusion takes. It takes at most a fifth of
    /// a processor.
    fn look(
        &mut self,
        now: Timestamp,
        alert_on: Severity,
        alerts: &mut Alerts,
        tick: &mut Tick,
    ) -> Result<(), LiveError> {
        let due = self.looked.is_none_or(|(at, took)| at.elapsed() >= took * 4);
        if !due || tick.analysis.is_some() || self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let begun = Instant::now();
        if let Some(mut analysis) = self.recent.look(&self.options) {
            analysis.report.findings.retain(|f| f.declared.is_some());
            analysis.report.incidents.clear();
            self.tell(analysis, false, (now, alert_on), alerts, tick)?;
        }
        self.looked = Some((Instant::now(), begun.elapsed()));
        Ok(())
    }

    /// Says what an analysis tells that is new. `whole`: it is of all that is kept.
    fn tell(
        &mut self,
        analysis: Analysis,
        whole: bool,
        (now, alert_on): (Timestamp, Severity),
        alerts: &mut Alerts,
        tick: &mut Tick,
    ) -> Result<(), LiveError> {
        let deliver_from = alerts.is_any().then_some(alert_on);
        let withheld = alerts.withheld(&analysis.report, &mut tick.wrong);
        let fresh = self.case.tell_but(&told(&analysis.report, deliver_from), &withheld, whole, now)?;
        tick.withheld.extend(withheld);
        tick.fresh.extend(fresh);
        self.widen_by(&analysis, tick)?;
        tick.analysis = Some(analysis);
        if tick.fresh.iter().any(|t| t.kind == "incident" || t.rank >= Severity::Warning as i64) {
            self.keep_packets(tick);
        }
        Ok(())
    }

    /// Opens interfaces again that went away: after a second, then after twice as long each time, up to a minute.
    fn listen_again(&mut self, tick: &mut Tick) {
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        for post in &mut self.posts {
            if post.thread.as_ref().is_some_and(|t| !t.is_finished()) {
                continue;
            }
            let (at, wait) = *post.again.get_or_insert_with(|| (Instant::now() + FIRST_WAIT, FIRST_WAIT));
            if Instant::now() < at {
                continue;
            }
            match InterfaceReader::open(&post.name, &self.listen) {
                Ok(reader) => {
                    tick.said.push(format!("{}: listening again", post.name));
                    tick.listening += 1;
                    post.again = None;
                    post.said = None;
                    if let Ok(mut desk) = post.desk.lock() {
                        desk.ended = None;
                    }
                    post.thread = Some(spawn(reader, post.row.id, &post.desk, &self.stop));
                }
                Err(e) => {
                    // Whoever gave up the right to open an interface cannot open it again: another process must.
                    tick.gone |= e.is_permission();
                    let wait = (wait * 2).min(LONGEST_WAIT);
                    post.again = Some((Instant::now() + wait, wait));
                }
            }
        }
    }

    /// Keeps what is sent to listeners that the traffic named, from now on, and hands every interface a filter that lets it
    /// through.
    fn widen_by(&mut self, analysis: &Analysis, tick: &mut Tick) -> Result<(), LiveError> {
        let Some(wider) = self.widening.learn(analysis) else { return Ok(()) };
        let listeners: Vec<Endpoint> = wider.learnt.iter().map(|(e, _)| *e).collect();
        for post in &self.posts {
            let set = post.row.set;
            self.case
                .transaction("cannot keep what was learnt", |tx| save_late(tx, set, listeners.iter().copied(), &[]))?;
            if let Ok(mut desk) = post.desk.lock() {
                desk.intake.promote(listeners.iter().copied());
                desk.filter = (!self.own_filter).then(|| wider.filter.clone());
            }
        }
        if self.own_filter {
            return Ok(());
        }
        self.listen.filter = wider.filter.clone();
        for (endpoint, how) in &wider.learnt {
            tick.said.push(format!("from now on also {endpoint}: {how}"));
        }
        if wider.left_out > 0 {
            tick.wrong.push(format!(
                "{} more listeners became known than the filter has room for: only the connections to them are seen \
                 (--filter tcp decodes them all)",
                wider.left_out
            ));
        }
        Ok(())
    }

    fn keep_packets(&mut self, tick: &mut Tick) {
        for post in &self.posts {
            let Ok(mut desk) = post.desk.lock() else { continue };
            if let Some(Err(e)) = desk.ring.as_mut().map(Ring::found) {
                tick.wrong.push(format!("{}: packets around a finding cannot be kept: {e}", post.name));
            }
        }
    }

    /// Engines forget what the case has let go.
    fn forget(&mut self) -> Result<(), LiveError> {
        let Some(oldest) = self.case.oldest_flow()? else { return Ok(()) };
        for post in &self.posts {
            if let Ok(mut desk) = post.desk.lock() {
                desk.intake.forget_before(oldest);
            }
        }
        Ok(())
    }

    /// The case.
    pub fn case(&mut self) -> &mut Case {
        &mut self.case
    }

    /// Stops to listen; what came until now waits for one more [`Monitor::tick`].
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for post in &mut self.posts {
            if let Some(thread) = post.thread.take() {
                let _ = thread.join();
            }
            if let Ok(mut desk) = post.desk.lock()
                && let Some(ring) = &mut desk.ring
            {
                let _ = ring.flush();
            }
        }
    }
}
