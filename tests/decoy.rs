//! `decoy` against recordings of real servers and real clients, against real nmap, and against crowds.

#[path = "decoy/behaviour.rs"]
mod behaviour;
#[path = "decoy/crowd.rs"]
mod crowd;
#[path = "decoy/nmap.rs"]
mod nmap;
#[path = "common/recorded.rs"]
mod recorded;
#[path = "common/skip.rs"]
mod skip;
#[path = "decoy/syn.rs"]
mod syn;
#[path = "decoy/traces.rs"]
mod traces;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rdzvscope::api::decoy::{Bounds, Decoy, Entry, ListenerRole, Summary};
use rdzvscope::api::prescan::Host;
use recorded::{hex, load, unhex};
use skip::skipped;

/// A decoy on a thread of its own.
struct Stage {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Summary, Vec<Entry>)>,
}

impl Stage {
    fn new(part: &str, empty: bool) -> Stage {
        let part = ListenerRole::parse(part).unwrap();
        let decoy = Decoy::new(vec![(part, "127.0.0.1:0".parse().unwrap())], Host::default(), empty, false).unwrap();
        let address = decoy.listeners().next().unwrap().0;
        let bounds = Bounds { time: Some(Duration::from_secs(120)), ..Bounds::default() };
        let stop = Arc::clone(&bounds.stop);
        let thread = std::thread::spawn(move || {
            let mut entries = Vec::new();
            let summary = decoy.run(&bounds, &mut |e| {
                entries.push(e.clone());
                Ok(())
            });
            (summary.unwrap(), entries)
        });
        Stage { address, stop, thread }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn end(self) -> (Summary, Vec<Entry>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// What comes within `wait`, and how the connection stands then: `open`, `closed`, `reset`.
fn answer(stream: &mut TcpStream, wait: Duration) -> (Vec<u8>, &'static str) {
    stream.set_read_timeout(Some(wait)).unwrap();
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (all, "closed"),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&e.kind()) => return (all, "open"),
            Err(_) => return (all, "reset"),
        }
    }
}

fn exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Whether the server took it. The kernel reports a reset once: to a writer, if that comes first.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}
