//! One interface.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::error::LiveError;
use super::ring::Ring;
use crate::analysis::GrowingSet;
use crate::capture::{LinkType, Packet, Summary};
use crate::time::Timestamp;

/// How long a thread rests when no packet waits: longer from time to time. The kernel's buffer holds what comes.
const SHORTEST_REST: Duration = Duration::from_micros(200);
const LONGEST_REST: Duration = Duration::from_millis(20);
/// Milliseconds after which the kernel hands over a block of packets that is not full yet.
const HANDED_OVER_MS: i32 = 50;

/// Bytes that wait to be taken into the case beyond which nothing more is read: the kernel drops what finds no room, and
/// counts it.
const MOST_PENDING: usize = 64 << 20;

/// How an interface is listened to.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Most bytes taken of a packet.
    pub snaplen: u32,
    /// Bytes of the kernel's buffer.
    pub buffer: u32,
    /// Take packets that are for other hosts too.
    pub promiscuous: bool,
    /// What the kernel lets through.
    pub filter: String,
}

/// What one interface has brought, shared between the thread that listens and the one that concludes.
pub(super) struct Desk {
    pub(super) intake: GrowingSet,
    pub(super) summary: Summary,
    pub(super) ring: Option<Ring>,
    pub(super) ended: Option<String>,
    pub(super) drops: u64,
    /// A filter that is to take the place of the present one.
    pub(super) filter: Option<String>,
    /// What is to be said once.
    pub(super) said: Vec<String>,
}

/// An interface that is open.
pub struct InterfaceReader {
    /// Its name.
    pub name: String,
    pub(super) capture: pcap::Capture<pcap::Active>,
    pub(super) link: LinkType,
    pub(super) snaplen: u32,
}

impl std::fmt::Debug for InterfaceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterfaceReader").field("name", &self.name).field("link", &self.link).finish_non_exhaustive()
    }
}

impl InterfaceReader {
    /// Opens an interface (`any`: all of them).
    ///
    /// # Errors
    /// libpcap's: no such interface, no privilege, a filter it does not understand.
    pub fn open(name: &str, options: &ListenOptions) -> Result<InterfaceReader, LiveError> {
        let failed = |source| LiveError::Open { interface: name.to_string(), source };
        let bytes = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let mut capture = pcap::Capture::from_device(name)
            .map_err(failed)?
            .snaplen(bytes(options.snaplen))
            .buffer_size(bytes(options.buffer))
            .promisc(options.promiscuous)
            // Not the immediate mode: its ring has a slot of the snap length for each packet, so that 16 MiB hold some
            // hundred packets, whatever their size. This one is filled to the last byte, and handed over this often.
            .timeout(HANDED_OVER_MS)
            .precision(pcap::Precision::Nano)
            .open()
            .map_err(failed)?;
        capture.filter(&options.filter, true).map_err(|source| LiveError::Filter {
            interface: name.to_string(),
            filter: options.filter.clone(),
            source,
        })?;
        // It is asked, not waited for: a thread that waits for a packet cannot be told to stop.
        let capture = capture.setnonblock().map_err(failed)?;
        let link = LinkType(u32::try_from(capture.get_datalink().0).unwrap_or(u32::MAX));
        // libpcap's numbers of these are not those of files.
        let link = match link.0 {
            12 | 14 => LinkType::RAW,
            _ => link,
        };
        Ok(InterfaceReader { name: name.to_string(), capture, link, snaplen: options.snaplen })
    }

    /// Listens until `stop` is set or the interface goes away.
    pub(super) fn run(mut self, id: u32, desk: &Arc<Mutex<Desk>>, stop: &AtomicBool) {
        let mut since_stats = std::time::Instant::now();
        // One that was opened again goes on counting.
        let mut number = desk.lock().map_or(0, |d| d.summary.packets);
        let mut dropped = (0u32, 0u32);
        let mut rest = SHORTEST_REST;
        let mut full = false;
        while !stop.load(Ordering::Relaxed) {
            let mut ended = None;
            if full {
                std::thread::sleep(LONGEST_REST);
                let Ok(desk) = desk.lock() else { return };
                full = desk.intake.pending() > MOST_PENDING;
                if full {
                    continue;
                }
            }
            match self.capture.next_packet() {
                Ok(p) => {
                    rest = SHORTEST_REST;
                    number += 1;
                    let time = Timestamp::new(p.header.ts.tv_sec, p.header.ts.tv_usec);
                    let packet = Packet {
                        number,
                        time,
                        link_type: self.link,
                        interface: 0,
                        original_length: p.header.len,
                        data: p.data,
                    };
                    let Ok(mut desk) = desk.lock() else { return };
                    desk.summary.count(time, p.header.caplen, p.header.len);
                    desk.intake.packet(id, &packet);
                    full = desk.intake.pending() > MOST_PENDING;
                    let (snaplen, name) = (self.snaplen, self.name.as_str());
                    let failure = desk.ring.as_mut().and_then(|r| r.write(&packet, snaplen, name).err());
                    if let Some(e) = failure {
                        desk.ring = None;
                        desk.ended = Some(format!("packets are not written any more: {e}"));
                    }
                }
                Err(pcap::Error::TimeoutExpired) => {
                    std::thread::sleep(rest);
                    rest = (rest * 2).min(LONGEST_REST);
                }
                Err(e) => ended = Some(e.to_string()),
            }
            if since_stats.elapsed().as_millis() >= 500 || ended.is_some() {
                since_stats = std::time::Instant::now();
                let stats = self.capture.stats().ok();
                let Ok(mut desk) = desk.lock() else { return };
                if let Some(s) = stats {
                    // The kernel counts in 32 bits, and begins again.
                    desk.drops += u64::from(s.dropped.wrapping_sub(dropped.0));
                    desk.drops += u64::from(s.if_dropped.wrapping_sub(dropped.1));
                    dropped = (s.dropped, s.if_dropped);
                }
                if let Some(filter) = desk.filter.take()
                    && let Err(e) = self.capture.filter(&filter, true)
                {
                    // The filter before is still in force.
                    desk.said.push(format!("{}: the filter cannot be widened: {e}", self.name));
                }
                if let Some(e) = ended {
                    desk.ended = Some(e);
                    return;
                }
            }
        }
    }
}
