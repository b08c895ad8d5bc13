//! How far reading is, for whoever waits at a terminal; and whether to stop.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::options::Options;

/// Packets between two looks at the clockwork.
const EVERY: u32 = 256;
/// Between two lines on the terminal.
const PERIOD: Duration = Duration::from_millis(500);
/// A run shorter than this says nothing.
const QUIET: Duration = Duration::from_millis(1500);

/// Shared by all threads that read.
#[derive(Clone, Default)]
pub(super) struct Progress {
    stop: Option<Arc<AtomicBool>>,
    done: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

/// One reader's part, kept apart so that a packet costs an addition.
pub(super) struct Meter<'a> {
    progress: &'a Progress,
    bytes: u64,
    packets: u32,
}

/// The line on the terminal; it ends when this is dropped.
pub(super) struct ProgressLine {
    progress: Progress,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(super) fn new(options: &Options) -> Progress {
        Progress { stop: options.stop.clone(), ..Progress::default() }
    }

    /// Whether somebody asked to stop.
    pub(super) fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|s| s.load(Ordering::Relaxed))
    }

    /// More bytes are going to be read.
    pub(super) fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// For one capture.
    pub(super) fn meter(&self) -> Meter<'_> {
        Meter { progress: self, bytes: 0, packets: 0 }
    }

    /// Begins to tell, if `options` want it and standard error is a terminal.
    pub(super) fn line(&self, options: &Options) -> Option<ProgressLine> {
        if !options.progress || !std::io::stderr().is_terminal() {
            return None;
        }
        let (progress, begun) = (self.clone(), Instant::now());
        let told = self.clone();
        let thread = std::thread::spawn(move || {
            while !told.over.load(Ordering::Relaxed) {
                std::thread::park_timeout(PERIOD);
                if begun.elapsed() >= QUIET && !told.over.load(Ordering::Relaxed) {
                    let text =
                        text(told.done.load(Ordering::Relaxed), told.total.load(Ordering::Relaxed), begun.elapsed());
                    let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
                }
            }
            if begun.elapsed() >= QUIET {
                let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
            }
        });
        Some(ProgressLine { progress, thread: Some(thread) })
    }
}

/// `12.4 of 80.0 GB, 1.3 GB/s, 52 s left`. Compressed captures give more bytes than their files have: then the total is
/// no longer told.
fn text(done: u64, total: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-3);
    let giga = |b: f64| if b >= 1e9 { format!("{:.1} GB", b / 1e9) } else { format!("{:.0} MB", b / 1e6) };
    if done >= total || rate < 1.0 {
        return format!("read {}, {}/s", giga(done as f64), giga(rate));
    }
    let left = (total - done) as f64 / rate;
    let left = if left >= 120.0 { format!("{:.0} min", left / 60.0) } else { format!("{left:.0} s") };
    format!("read {} of {}, {}/s, {left} left", giga(done as f64), giga(total as f64), giga(rate))
}

impl Meter<'_> {
    /// Notes a packet; `false` when reading is to stop.
    #[inline]
    pub(super) fn packet(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64 + 16;
        self.packets += 1;
        self.packets < EVERY || self.flush()
    }

    #[cold]
    fn flush(&mut self) -> bool {
        self.progress.done.fetch_add(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        self.packets = 0;
        !self.progress.stopped()
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.progress.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_rate_and_time_left_are_told() {
        assert_eq!(text(1 << 30, 4 << 30, Duration::from_secs(1)), "read 1.1 GB of 4.3 GB, 1.1 GB/s, 3 s left");
        assert_eq!(text(5_000_000, 1_000_000, Duration::from_secs(2)), "read 5 MB, 2 MB/s");
        assert_eq!(text(0, 10, Duration::ZERO), "read 0 MB, 0 MB/s");
    }

    #[test]
    fn a_reader_notices_that_it_is_to_stop() {
        let stop = Arc::new(AtomicBool::new(false));
        let progress = Progress::new(&Options { stop: Some(stop.clone()), ..Options::default() });
        let mut meter = progress.meter();
        assert!((0..2 * EVERY).all(|_| meter.packet(84)));
        stop.store(true, Ordering::Relaxed);
        assert!(!(0..EVERY).all(|_| meter.packet(84)));
        assert_eq!(progress.done.load(Ordering::Relaxed), u64::from(3 * EVERY) * 100);
    }
}
