//! What `contrib/collect.sh` prints: facts of a host and its kernel's OOM lines, each line naming the host, so that
//! lines of many hosts may come mixed and behind any label: `rdzvscope/1 HOST KEY VALUE`.

use super::zone::Zone;
use super::{parse_instant, text};
use crate::net::{Address, Endpoint};
use crate::time::{NANOS, Timestamp};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What every line begins with.
pub(crate) const MARK: &[u8] = b"rdzvscope/1 ";
/// Hosts, and things of one kind of one host, that are kept.
const MAX: usize = 4096;
/// Clock and uptime are read one after the other by a shell, the latter to 10 ms; and the kernel's log clock drifts.
pub(crate) const BOOT_UNCERTAINTY_NANOS: i64 = NANOS / 10;

/// A socket that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Where; the unspecified address stands for all of the host's.
    pub endpoint: Endpoint,
    /// Process id, where it could be read.
    pub pid: Option<u64>,
    /// Its name.
    pub process: Option<String>,
    /// Version of PyTorch that the process has installed, where it could be read.
    pub torch: Option<String>,
}

/// Facts of one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostFacts {
    /// Its name.
    pub host: String,
    /// Its clock when it was asked.
    pub now: Option<Timestamp>,
    /// Its zone, as an offset or an IANA name.
    pub zone: Option<String>,
    /// When it booted, by its own clock.
    pub boot_time: Option<Timestamp>,
    /// The kernel's id of that boot.
    pub boot_id: Option<String>,
    /// How long it was suspended since, in seconds: kernel stamps do not count that time.
    pub suspend_seconds: Option<f64>,
    /// Its addresses, loopback left out.
    pub addresses: Vec<Address>,
    /// `MemTotal`, in bytes.
    pub memory_total_bytes: Option<u64>,
    /// `vm.overcommit_memory`: 0 refuses obvious excess, 1 never refuses, 2 counts strictly.
    pub overcommit_memory: Option<u8>,
    /// What listens on it.
    pub listening: Vec<Listening>,
}

/// A line that is no fact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: required `rdzvscope/1 HOST KEY VALUE` with a value fit for the key, there was {found:?}")]
pub struct FactsLineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// Its beginning.
    pub found: String,
}

impl HostFacts {
    /// The instant from which the kernel's stamps count: boot time, and the time it slept since. Right for lines
    /// printed after the last resume.
    pub fn kernel_epoch(&self) -> Option<Timestamp> {
        let slept = self.suspend_seconds.filter(|s| s.is_finite()).unwrap_or(0.0);
        self.boot_time.map(|b| b.plus_nanos((slept * NANOS as f64) as i64))
    }

    /// The zone, if it is one.
    pub fn zone(&self) -> Option<Zone> {
        self.zone.as_ref()?.parse().ok()
    }
}

/// Facts of all hosts of one text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collected {
    hosts: BTreeMap<String, HostFacts>,
}

/// What a line of the collector's is.
pub(crate) enum Line<'a> {
    /// A fact, taken (or passed over: a key of a later collector).
    Fact,
    /// A line of the host's kernel log.
    Kernel(&'a str, &'a [u8]),
    /// Not understood.
    Bad,
}

/// The part of a line from [`MARK`] on: alone, or behind the label of a task (`3: ` of `srun -l`).
pub(crate) fn marked(line: &[u8]) -> Option<&[u8]> {
    let rest = match line.first()? {
        b'0'..=b'9' | b' ' => text::number(line.trim_ascii_start())?.1.strip_prefix(b": ")?,
        _ => line,
    };
    rest.strip_prefix(MARK)
}

impl Collected {
    /// Takes what stands behind [`MARK`].
    pub(crate) fn line<'a>(&mut self, rest: &'a [u8]) -> Line<'a> {
        self.read(rest).unwrap_or(Line::Bad)
    }

    fn read<'a>(&mut self, rest: &'a [u8]) -> Option<Line<'a>> {
        let (host, rest) = text::cut(rest, b" ")?;
        let host = std::str::from_utf8(host).ok().filter(|h| super::envelope::nodeset::is_host(h))?;
        let (key, value) = text::cut(rest, b" ").unwrap_or((rest, b""));
        if key == b"kernel" {
            return Some(Line::Kernel(host, value));
        }
        if self.hosts.len() >= MAX && !self.hosts.contains_key(host) {
            return None;
        }
        let facts = self.hosts.entry(host.to_owned()).or_default();
        facts.host = host.to_owned();
        let value = std::str::from_utf8(value).ok()?.trim();
        let mut words = value.split_ascii_whitespace();
        match key {
            b"now" => facts.now = Some(parse_instant(value).ok()?),
            b"boot_time" => facts.boot_time = Some(parse_instant(value).ok()?),
            b"zone" => facts.zone = text::name(value.as_bytes()),
            b"boot_id" => facts.boot_id = text::name(value.as_bytes()),
            b"suspend_seconds" => {
                facts.suspend_seconds = Some(value.parse().ok().filter(|s: &f64| (0.0..1e9).contains(s))?);
            }
            b"memory_total_bytes" => facts.memory_total_bytes = Some(value.parse().ok()?),
            b"overcommit_memory" => facts.overcommit_memory = Some(value.parse().ok()?),
            b"address" => {
                let ip: IpAddr = words.next()?.split(['/', '%']).next()?.parse().ok()?;
                if !ip.is_loopback() && !ip.is_unspecified() && facts.addresses.len() < MAX {
                    facts.addresses.push(ip.into());
                }
            }
            b"listen" => {
                let endpoint = endpoint(words.next()?)?;
                let pid = words.next().and_then(|p| p.parse().ok());
                let process = words.next().filter(|p| *p != "-").and_then(|p| text::name(p.as_bytes()));
                if facts.listening.len() < MAX {
                    facts.listening.push(Listening { endpoint, pid, process, torch: None });
                }
            }
            b"torch" => {
                let pid: u64 = words.next()?.parse().ok()?;
                let version = text::name(words.next()?.as_bytes());
                for l in facts.listening.iter_mut().filter(|l| l.pid == Some(pid)) {
                    l.torch.clone_from(&version);
                }
            }
            _ => {}
        }
        Some(Line::Fact)
    }

    /// When the kernel's stamps of this host begin.
    pub(crate) fn kernel_epoch(&self, host: &str) -> Option<Timestamp> {
        self.of(host)?.kernel_epoch()
    }

    fn of(&self, host: &str) -> Option<&HostFacts> {
        self.hosts.get(host).or_else(|| self.hosts.values().find(|f| super::same_host(&f.host, host)))
    }

    /// All hosts, in order of their names.
    pub(crate) fn finish(self) -> Vec<HostFacts> {
        self.hosts.into_values().collect()
    }
}

/// `192.0.2.11:29500`, `[::]:29500`, `*:29500`, `::%lo:29500`.
fn endpoint(text: &str) -> Option<Endpoint> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.trim_matches(['[', ']']).split('%').next()?;
    let ip: IpAddr = if address == "*" { IpAddr::V6([0; 16].into()) } else { address.parse().ok()? };
    Some(Endpoint::new(ip.into(), port.parse().ok()?))
}

/// Reads facts alone, without the kernel's lines, out of whatever gathered them.
pub fn read_facts(text: &str) -> (Vec<HostFacts>, Vec<FactsLineError>) {
    let mut scanner = super::Scanner::new("", &super::Options::default());
    for (number, line) in (1..).zip(text.lines()) {
        scanner.line(number, line.as_bytes());
    }
    let summary = scanner.finish();
    (summary.facts, summary.facts_errors)
}

/// Whether a line is of the collector, alone or behind a label.
pub(crate) fn is_collected(line: &str) -> bool {
    let mark = String::from_utf8_lossy(MARK);
    line.find(mark.as_ref()).is_some_and(|at| at < 300)
}
