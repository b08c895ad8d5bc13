//! Hosts: addresses, memory, clocks; what is captured and logged of them, and what is lost.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::machine::Machine;
use super::random::Random;

const GIB: u64 = 1 << 30;

/// A host.
pub(crate) struct Host {
    pub(crate) name: String,
    /// The first is the one that jobs use; a second is of another network.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) machine: Machine,
    /// How far its clock is ahead, in seconds: of its captures and its logs alike.
    pub(crate) clock: f64,
    /// It lies behind a gateway that hides who connects.
    pub(crate) behind_gateway: bool,
    pub(crate) capture: Option<Capture>,
    pub(crate) log: Option<Log>,
    /// When it booted, in seconds since the simulation began.
    pub(crate) boot: f64,
}

/// What of its traffic is captured.
pub(crate) struct Capture {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) gap: Option<(f64, f64)>,
    /// How many of the packets are lost.
    pub(crate) loss: f64,
    pub(crate) snaplen: usize,
    pub(crate) nanoseconds: bool,
}

/// How its kernel log was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `dmesg --time-format iso`.
    Iso,
    /// `journalctl -k -o json`.
    Journal,
    /// RFC 3164: local time, no zone, no year.
    Syslog,
    /// RFC 5424 time, with a zone.
    Precise,
    /// `dmesg`: seconds since boot.
    Raw,
    /// `dmesg -T`: local time, no zone.
    Human,
}

/// Its kernel log.
pub(crate) struct Log {
    pub(crate) format: Format,
    /// How far the log's times are ahead of the host's clock: `dmesg` counts on where a clock was set.
    pub(crate) drift: f64,
    /// The host's zone, in seconds east of Greenwich.
    pub(crate) zone: i32,
    /// The user knows when the host booted.
    pub(crate) boot_told: bool,
}

impl Log {
    /// Whether its times are local ones that name no zone.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.format, Format::Syslog | Format::Human)
    }
}

/// What all hosts of a cluster have in common.
pub(crate) struct Site {
    pub(crate) span: f64,
    pub(crate) zone: i32,
    /// The user passes `--log-tz`.
    pub(crate) zone_told: bool,
    formats: Vec<(Format, f64)>,
    /// Share of hosts with two addresses, and whether the second is of IPv6.
    dual: f64,
    six: bool,
    gateway: f64,
    /// How many captures are missing or damaged.
    damage: f64,
    boots_told: f64,
}

impl Site {
    pub(crate) fn draw(r: &mut Random, span: f64) -> Site {
        let mut formats: Vec<(Format, f64)> =
            [Format::Iso, Format::Journal, Format::Syslog, Format::Precise, Format::Raw, Format::Human]
                .map(|f| (f, r.decades(0.02, 1.0)))
                .to_vec();
        r.shuffle(&mut formats);
        let zone = r.weighted(&[(0, 0.5), (8 * 3600, 0.2), (-5 * 3600, 0.15), (19_800, 0.1), (3600, 0.05)]);
        Site {
            span,
            zone,
            zone_told: r.chance(0.6),
            formats,
            dual: r.pick(&[0.0, 0.1, 0.6]),
            six: r.chance(0.5),
            gateway: r.pick(&[0.0, 0.0, 0.3]),
            damage: r.pick(&[0.05, 0.2, 0.5]),
            boots_told: r.pick(&[0.0, 0.5, 1.0]),
        }
    }

    pub(crate) fn host(&self, r: &mut Random, n: usize) -> Host {
        let low = (n + 1) as u8;
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, low))];
        if r.chance(self.dual) {
            addresses.push(match self.six {
                true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(low))),
                false => IpAddr::V4(Ipv4Addr::new(198, 51, 100, low)),
            });
        }
        Host {
            name: format!("gpu-{n:03}"),
            addresses,
            machine: machine(r),
            clock: r.weighted(&[(0, 0.85), (1, 0.1), (2, 0.03), (3, 0.02)]) as f64,
            behind_gateway: r.chance(self.gateway),
            capture: self.capture(r),
            log: self.log(r),
            boot: -r.decades(3600.0, 40.0 * 86_400.0),
        }
        .with_clock(r)
    }

    fn capture(&self, r: &mut Random) -> Option<Capture> {
        let mut c =
            Capture { from: 0.0, to: self.span, gap: None, loss: 0.0, snaplen: 262_144, nanoseconds: r.chance(0.3) };
        if !r.chance(self.damage) {
            return Some(c);
        }
        match r.below(7) {
            0 | 1 => return None,
            2 => c.to = r.between(0.1, 0.95) * self.span,
            3 => c.from = r.between(0.05, 0.8) * self.span,
            4 => {
                let from = r.between(0.0, 0.9) * self.span;
                c.gap = Some((from, from + r.decades(10.0, 1200.0)));
            }
            5 => c.loss = r.pick(&[0.001, 0.01, 0.05, 0.3]),
            _ => c.snaplen = r.pick(&[96, 128, 256]),
        }
        Some(c)
    }

    fn log(&self, r: &mut Random) -> Option<Log> {
        if r.chance(0.04) {
            return None;
        }
        let format = r.weighted(&self.formats);
        let of_boot = matches!(format, Format::Iso | Format::Human);
        let drift = if of_boot && r.chance(0.06) { r.decades(1.0, 900.0) * r.pick(&[-1.0, 1.0]) } else { 0.0 };
        let zone = if r.chance(0.02) { r.pick(&[0, 8 * 3600, -8 * 3600]) } else { self.zone };
        Some(Log { format, drift, zone, boot_told: r.chance(self.boots_told) })
    }
}

impl Host {
    /// `clock` was the kind of its error: kept in step, off by seconds, by minutes, by hours.
    fn with_clock(mut self, r: &mut Random) -> Host {
        let size = match self.clock as u8 {
            0 => r.between(0.0, 0.005),
            1 => r.decades(0.2, 30.0),
            2 => r.decades(60.0, 900.0),
            _ => 3600.0 * f64::from(1 + r.below(8) as u32),
        };
        self.clock = size * r.pick(&[-1.0, 1.0]);
        self
    }

    /// The address with which this host speaks to `peer`.
    pub(crate) fn facing(&self, peer: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|a| a.is_ipv4() == peer.is_ipv4())
    }
}

fn machine(r: &mut Random) -> Machine {
    let ram = r.weighted(&[(24, 0.1), (64, 0.1), (256, 0.2), (512, 0.2), (1024, 0.2), (2048, 0.2)]) * GIB;
    let used = (ram as f64 * r.between(0.1, 0.85)) as u64;
    let rank0_rss = (used as f64 / r.pick(&[1.2, 2.0, 4.0, 8.0])) as u64;
    let besides = match r.weighted(&[(0, 0.86), (1, 0.1), (2, 0.04)]) {
        0 => r.decades(8e9, 110e9),
        1 => r.decades(110e9, 500e9),
        // Drivers that map all of a host's memory: the address space of an innocent process looks like a claim.
        _ => r.between(0.85e12, 1.15e12),
    };
    let room = ram.saturating_sub(rank0_rss);
    let limit = r.chance(0.2).then(|| rank0_rss + (room as f64 * r.between(0.05, 0.7)) as u64);
    let hog = r.chance(0.06).then_some((used as f64 * 0.8) as u64);
    Machine {
        ram,
        overcommit: r.weighted(&[(1, 0.5), (0, 0.4), (2, 0.1)]),
        used,
        rate: r.between(1e9, 5e9),
        limit,
        hog,
        rank0_vm: rank0_rss + besides as u64,
        rank0_rss,
    }
}
