//! The other listeners of a training node, known by what strays did to them: rows of measurements, no models.
//!
//! `rows.tsv` holds every outcome that was measured with a real job running, or reported. A verdict is the row of the
//! probe at the listener; where there is none, that of a whole scan which it survived; else nothing is known.

mod effect;

use std::sync::OnceLock;

use super::fleet::{FleetError, Place};
use super::matrix::Act;
use super::row::{Grade, Row};
pub use effect::{Effect, effect};

const ROWS: &str = include_str!("rows.tsv");

/// What one probe did to a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The probe, as it was recorded.
    pub probe: &'static str,
    /// What happened.
    pub outcome: &'static str,
    /// What became of the job.
    pub job: &'static str,
    /// `measured`, or `report: ` and where.
    pub seen: &'static str,
    /// It was a scan of all listeners of the node.
    pub of_node: bool,
}

/// A listener of one release of a product.
#[derive(Debug)]
pub struct Door {
    /// The product.
    pub product: &'static str,
    /// The release.
    pub version: &'static str,
    /// The listener.
    pub listener: &'static str,
    /// Which ports it takes.
    pub ports: &'static str,
    /// What is known of its kind.
    pub family: &'static Family,
    /// What was measured or reported.
    pub rows: Vec<Measured>,
}

/// Listeners of one kind, in all releases.
#[derive(Debug)]
pub struct Family {
    /// As `--node` names it.
    pub key: &'static str,
    /// As a report names what it speaks, and what for.
    protocol: &'static str,
    role: &'static str,
    /// What products and listeners begin with that are of it.
    product: &'static str,
    listener: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The releases that something is said of, what closes it, and what stays open.
    pub remedy: (&'static str, &'static [&'static str], &'static [&'static str]),
}

const SYN_ONLY: &str = "nmap -sS alone: a half-open scan never reaches the process";

/// The first that fits a row of measurements is its family.
const FAMILIES: &[Family] = &[
    Family {
        key: "mpich",
        protocol: "mpi",
        role: "control",
        product: "MPICH",
        listener: "mpiexec",
        name: "mpiexec's control port",
        remedy: (
            "MPICH up to 4.0",
            &["MPICH 4.1 or later (PR 5900): the control port asks for a signature first", SYN_ONLY],
            &[
                "whoever connects ends the job, up to 4.0; its port is chosen by the kernel (MPICH_PORT_RANGE limits it)",
            ],
        ),
    },
    Family {
        key: "mpich",
        protocol: "mpi",
        role: "peer",
        product: "MPICH",
        listener: "",
        name: "rank listener of MPICH",
        remedy: (
            "MPICH with ch3:nemesis (3.x)",
            &["MPICH with ch4 over UCX (4.0 and later)", SYN_ONLY],
            &["nothing asks a rank's peer who it is; its port is chosen by the kernel"],
        ),
    },
    Family {
        key: "openmpi",
        protocol: "mpi",
        role: "btl",
        product: "Open MPI",
        listener: "Open MPI rank: BTL",
        name: "BTL listener of an Open MPI rank",
        remedy: (
            "Open MPI 4.1 and 5.0",
            &[
                SYN_ONLY,
                "a connect scan (-sT) without version detection",
                "btl_tcp_if_include on a network that is not scanned",
            ],
            &["4 to 22 bytes and an open connection stop the job for as long as it stays open"],
        ),
    },
    Family {
        key: "openmpi",
        protocol: "mpi",
        role: "oob",
        product: "Open MPI",
        listener: "",
        name: "out-of-band listener of Open MPI",
        remedy: (
            "Open MPI after 1.8.5",
            &["Open MPI 1.8.6 or later: a connection that closes early is passed over"],
            &["log lines only, in what was measured"],
        ),
    },
    Family {
        key: "srun",
        protocol: "slurm",
        role: "io",
        product: "Slurm",
        listener: "srun",
        name: "srun's ports",
        remedy: (
            "Slurm 22.05",
            &["SrunPortRange left out of scans (--exclude-ports)", SYN_ONLY],
            &["a connection that is held stops the job's output; some payloads end srun and with it the job"],
        ),
    },
    Family {
        key: "slurmctld",
        protocol: "slurm",
        role: "control",
        product: "Slurm",
        listener: "slurmctld",
        name: "slurmctld",
        remedy: ("Slurm 22.05", &["nothing that a scanner was seen to send hurts it"], &["log lines"]),
    },
    Family {
        key: "slurmd",
        protocol: "slurm",
        role: "control",
        product: "Slurm",
        listener: "slurmd",
        name: "slurmd",
        remedy: ("Slurm 22.05", &["nothing that a scanner was seen to send hurts it"], &["log lines"]),
    },
    Family {
        key: "gloo",
        protocol: "gloo",
        role: "pair",
        product: "Gloo",
        listener: "",
        name: "Gloo listener",
        remedy: (
            "PyTorch 1.4 to 2.15",
            &[
                "scanning when no group is being formed: no init, new_group or restart of a member",
                "PyTorch 2.1 or later: a stray no longer takes a pair's place by connecting",
                SYN_ONLY,
            ],
            &[
                "up to 2.0 whoever connects first is taken for the peer; from 2.8 on each connection costs one of the rank's descriptors until the group ends",
                "its port is chosen by the kernel",
            ],
        ),
    },
    Family {
        key: "tensorpipe",
        protocol: "tensorpipe",
        role: "rpc",
        product: "torch.distributed.rpc",
        listener: "",
        name: "TensorPipe listener",
        remedy: (
            "PyTorch 1.13 (no release is known to close it)",
            &[SYN_ONLY, "the hosts left out while jobs use torch.distributed.rpc"],
            &[
                "a length is believed and allocated; a connection that closes early closes the listener for good",
                "17 ports a process, chosen by the kernel",
            ],
        ),
    },
    Family {
        key: "zmq",
        protocol: "zmq",
        role: "rpc",
        product: "PyZMQ",
        listener: "",
        name: "ZeroMQ socket",
        remedy: (
            "libzmq 4.3",
            &[
                "nmap -sV alone: it knows the greeting and sends nothing",
                "a receiver that guards recv and unpickling, and CURVE where peers are known",
            ],
            &[
                "bytes of strangers are delivered as messages (ZMTP 1.0): what the application does with them is its own",
            ],
        ),
    },
    Family {
        key: "zmq",
        protocol: "zmq",
        role: "rpc",
        product: "libzmq",
        listener: "",
        name: "ZeroMQ socket",
        remedy: ("libzmq before 4.1", &["libzmq 4.3"], &["bytes of strangers are delivered as messages"]),
    },
    Family {
        key: "sglang",
        protocol: "zmq",
        role: "rpc",
        product: "SGLang",
        listener: "",
        name: "SGLang's scheduler",
        remedy: (
            "SGLang before PR 17890",
            &["a release with PR 17890 (January 2026)"],
            &["other receivers of pickles"],
        ),
    },
    Family {
        key: "ray",
        protocol: "ray",
        role: "rpc",
        product: "Ray",
        listener: "",
        name: "Ray's listeners",
        remedy: ("Ray 2.60", &["nothing that a scanner was seen to send hurts it"], &["log lines, about 11 KB a scan"]),
    },
    Family {
        key: "jax",
        protocol: "grpc",
        role: "control",
        product: "JAX",
        listener: "",
        name: "JAX's coordinator",
        remedy: ("JAX 0.10", &["nothing that a scanner was seen to send hurts it"], &["log lines"]),
    },
    Family {
        key: "etcd",
        protocol: "etcd",
        role: "store",
        product: "etcd",
        listener: "",
        name: "etcd",
        remedy: (
            "etcd 3.4",
            &["nothing that a scanner was seen to send hurts it"],
            &["whoever reaches it without TLS reads and writes keys"],
        ),
    },
    Family {
        key: "redis",
        protocol: "redis",
        role: "store",
        product: "Redis",
        listener: "",
        name: "Redis",
        remedy: (
            "Redis 7.0",
            &["nothing that a scanner was seen to send hurts it"],
            &["whoever reaches it without a password reads and writes keys"],
        ),
    },
    Family {
        key: "dask",
        protocol: "dask",
        role: "control",
        product: "Dask",
        listener: "",
        name: "Dask's listeners",
        remedy: (
            "Dask 2026.8",
            &["a release after 2024.10: the scheduler logs an error and goes on"],
            &["about 2 KB of log a probe"],
        ),
    },
    Family {
        key: "ucx",
        protocol: "ucx",
        role: "peer",
        product: "UCX",
        listener: "",
        name: "UCX listener",
        remedy: (
            "UCX 1.13",
            &["UCX 1.8 or later: a magic number comes first (PR 4612)"],
            &["log lines that name the scanner"],
        ),
    },
    Family {
        key: "tensorboard",
        protocol: "http",
        role: "io",
        product: "TensorBoard",
        listener: "",
        name: "TensorBoard",
        remedy: ("TensorBoard 2.21", &["nothing that a scanner was seen to send hurts it"], &["log lines"]),
    },
    Family {
        key: "ldms",
        protocol: "unknown",
        role: "control",
        product: "LDMS",
        listener: "",
        name: "ldmsd",
        remedy: (
            "ldmsd of 2025",
            &["the port left out of scans"],
            &["descriptors run out, then accept() fails for ever"],
        ),
    },
];

/// What `listener` of a whole node's scan begins with.
const WHOLE_NODE: &str = "all listeners of one node";

/// All listeners of which something is known.
pub fn doors() -> &'static [Door] {
    static DOORS: OnceLock<Vec<Door>> = OnceLock::new();
    DOORS.get_or_init(read)
}

fn read() -> Vec<Door> {
    let mut doors: Vec<Door> = Vec::new();
    let mut of_nodes: Vec<(&str, &str, &str, Measured)> = Vec::new();
    let mut at: Option<[&'static str; 4]> = None;
    for line in ROWS.lines().filter(|l| !l.starts_with('#')) {
        if let Some(head) = line.strip_prefix('=') {
            let mut f = head.split('\t');
            at = Some([(); 4].map(|()| f.next().unwrap_or_default()));
            continue;
        }
        let Some([product, version, listener, ports]) = at else { continue };
        let mut f = line.split('\t');
        let [outcome, job, seen, probes] = [(); 4].map(|()| f.next().unwrap_or_default());
        for probe in probes.split('|') {
            let of_node = listener.contains(" + ") || listener.starts_with(WHOLE_NODE);
            let row = Measured { probe, outcome, job, seen, of_node };
            if of_node {
                of_nodes.push((product, version, listener, row));
                continue;
            }
            match doors.iter_mut().find(|d| (d.product, d.version, d.listener) == (product, version, listener)) {
                Some(door) => door.rows.push(row),
                None => {
                    let fits = |f: &&Family| product.starts_with(f.product) && listener.contains(f.listener);
                    let Some(family) = FAMILIES.iter().find(fits) else { continue };
                    doors.push(Door { product, version, listener, ports, family, rows: vec![row] });
                }
            }
        }
    }
    for (product, version, listeners, row) in of_nodes {
        for door in doors.iter_mut().filter(|d| (d.product, d.version) == (product, version)) {
            if listeners.starts_with(WHOLE_NODE) || listeners.split(" + ").any(|l| l == door.listener) {
                door.rows.push(row.clone());
            }
        }
    }
    doors
}

impl Door {
    /// What it is called.
    pub fn name(&self) -> String {
        let said = self.listener.starts_with(self.product);
        if said { self.listener.to_string() } else { format!("{}: {}", self.product, self.listener) }
    }

    /// As a report names what it speaks.
    pub fn protocol(&self) -> &'static str {
        self.family.protocol
    }

    /// As a report names what it is for.
    pub fn role(&self) -> &'static str {
        self.family.role
    }

    /// Where it listens: a port or a range that its rule begins with, else one that the kernel chooses.
    pub fn place(&self) -> Place {
        let word = self.ports.split([' ', '/', '(', ',']).next().unwrap_or_default();
        let named: Vec<u16> = self.listener.rsplit(' ').next().and_then(|w| w.parse().ok()).into_iter().collect();
        match (word.trim_end_matches('+').split_once('-'), word.trim_end_matches('+').parse::<u16>()) {
            _ if !named.is_empty() => Place::Ports(named),
            // The first free port from 1024 on: on a node some ranks later at the most.
            (None, Ok(1024)) => Place::Ports((1024..=1100).collect()),
            (None, Ok(port)) => Place::Ports(vec![port]),
            (Some((from, to)), _) => match (from.parse::<u16>(), to.parse::<u16>()) {
                (Ok(from), Ok(to)) if from <= to => Place::Ports((from..=to).collect()),
                _ => Place::Ephemeral,
            },
            _ => Place::Ephemeral,
        }
    }

    /// What was measured of these probes, the worst of them. What hurt somebody on the node hurt a listener that others of
    /// its rows hurt too.
    fn worst(&self, is: impl Fn(&Measured) -> bool) -> Option<(&Measured, Effect)> {
        let rows = self.rows.iter().filter(|r| is(r)).map(|r| (r, effect(r.outcome, r.job)));
        let rows = rows.filter(|(r, e)| !r.of_node || e.grade() <= Grade::Unknown || self.is_fragile());
        rows.max_by_key(|(r, e)| (e.grade(), !r.of_node))
    }

    /// Whether anything that was tried at it alone hurt.
    fn is_fragile(&self) -> bool {
        self.rows.iter().any(|r| !r.of_node && effect(r.outcome, r.job).grade() > Grade::Unknown)
    }

    /// What it does about one thing that a scan does; `blank` has its names.
    pub(super) fn row(&self, case: &str, act: &Act, blank: Row) -> Row {
        let found = match act {
            Act::Syn => self.worst(|r| r.probe.starts_with("nmap -sS")),
            Act::Close => self
                .worst(|r| r.probe == "connect+close")
                .or_else(|| self.worst(|r| r.probe.starts_with("nmap -sT") || r.probe == "connect+close all")),
            Act::Silence(_) => self.worst(|r| r.probe.starts_with("NULL")),
            Act::Hold(_) => self.worst(|r| ["NULL", "silent", "no bytes held"].iter().any(|p| r.probe.starts_with(p))),
            Act::Segments(segments) => {
                let held = |r: &Measured, name: &str| r.probe.strip_prefix(name).is_some_and(|x| x.starts_with('('));
                let named = |name: &str| self.worst(|r| r.probe == name).or_else(|| self.worst(|r| held(r, name)));
                named(case).or_else(|| {
                    let bytes = segments.concat();
                    let known = crate::protocol::stray::identify(&bytes, bytes.len() as u64);
                    named(known.nmap_probe?)
                })
            }
            Act::Untested => self.worst(|r| case.starts_with("-sC") && r.probe == "nmap -sC"),
        };
        // What was not tried alone was part of a scan that the listener survived.
        let found = found.or_else(|| match act {
            Act::Segments(_) | Act::Silence(_) => {
                self.worst(|r| r.probe == "nmap -sV --version-all").filter(|(_, e)| e.grade() == Grade::Safe)
            }
            _ => None,
        });
        let blank = Row { allocates_bytes: self.declares(act), ..blank };
        match (found, act) {
            (None, Act::Segments(_)) if blank.allocates_bytes.is_some() => Effect::ALLOCATES.row(
                blank,
                format!(
                    "{}: the first eight bytes are a length, which is believed and allocated [source]",
                    self.name()
                ),
            ),
            (Some((row, effect)), _) => {
                effect.row(blank, format!("{}: {}{} [{}]", self.name(), row.outcome, self.of(row), row.seen))
            }
            (None, Act::Syn) => Effect::WAITS.row(
                blank,
                "The handshake is not finished: the process never learns of it (measured at five of these products)."
                    .to_owned(),
            ),
            (None, _) => Row {
                explanation: format!("{}: nothing was measured of this, and nothing is reported.", self.name()),
                ..blank
            },
        }
    }

    /// The bytes that a payload makes TensorPipe allocate: a length of eight bytes, little-endian, comes first.
    fn declares(&self, act: &Act) -> Option<u64> {
        let Act::Segments(segments) = act else { return None };
        (self.protocol() == "tensorpipe").then_some(())?;
        segments.concat().first_chunk().map(|length| u64::from_le_bytes(*length))
    }

    fn of(&self, row: &Measured) -> String {
        let job = if row.job == "none" || row.job == "see outcome" {
            String::new()
        } else {
            format!("; the job: {}", row.job)
        };
        let whole =
            if row.of_node { format!(" (of {} at all listeners of the node)", row.probe) } else { String::new() };
        format!("{job}{whole}")
    }
}

/// Reads `mpich:4.0,openmpi:5,srun,zmq`: doors by the name of their kind, and by the beginning of their release.
///
/// # Errors
/// What is no such list.
pub fn node(text: &str) -> Result<Vec<(&'static Door, String)>, FleetError> {
    let mut all: Vec<(&'static Door, String)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (key, version) = part.split_once(':').unwrap_or((part, ""));
        let key = match key.trim().to_ascii_lowercase().as_str() {
            "ompi" | "open-mpi" => "openmpi".to_owned(),
            "zeromq" | "pyzmq" => "zmq".to_owned(),
            "rpc" => "tensorpipe".to_owned(),
            key => key.to_owned(),
        };
        let of_kind = |d: &&Door| d.family.key == key || key == "slurm" && d.family.protocol == "slurm";
        let kind: Vec<&Door> = doors().iter().filter(of_kind).collect();
        if kind.is_empty() {
            return Err(FleetError::Node(part.chars().take(60).collect(), keys().join(", ")));
        }
        let version = version.trim().trim_start_matches('v');
        let named: Vec<&Door> = kind.iter().copied().filter(|d| is_release(d.version, version)).collect();
        if named.is_empty() {
            return Err(FleetError::Unmeasured(part.chars().take(60).collect(), releases(&kind)));
        }
        all.extend(named.into_iter().map(|d| (d, d.version.to_owned())));
    }
    if all.is_empty() { Err(FleetError::Node(text.chars().take(60).collect(), keys().join(", "))) } else { Ok(all) }
}

/// The names that `--node` takes.
pub fn keys() -> Vec<&'static str> {
    let mut all: Vec<&str> = FAMILIES.iter().map(|f| f.key).collect();
    all.push("slurm");
    all.sort_unstable();
    all.dedup();
    all
}

fn releases(doors: &[&Door]) -> String {
    let mut all: Vec<&str> = doors.iter().map(|d| d.version).collect();
    all.dedup();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// Whether `4.0` means `4.0.2 (Debian 12)`: one of the numbers of a measured release begins with it, part by part.
fn is_release(measured: &str, asked: &str) -> bool {
    asked.is_empty()
        || numbers(measured).any(|n| {
            let (mut a, mut b) = (n.split('.'), asked.split('.'));
            b.all(|part| a.next() == Some(part))
        })
}

/// The release numbers in a name such as `4.0.2 (Debian 12)`.
fn numbers(measured: &str) -> impl Iterator<Item = &str> {
    let words = measured.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let numbers = words.filter(|w| w.contains(|c: char| c.is_ascii_digit()));
    numbers.filter(|w| w.contains('.') || !measured.contains('.'))
}

/// Whether a measured release lies in what a report says of a listener: `PyTorch 1.4–2.0`, `2.8 and later`, `4.0`.
fn is_within(measured: &str, told: &str) -> bool {
    let digits = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit());
    let Some(range) = told.split(' ').find(digits) else { return true };
    let parts = |n: &str| n.split('.').map_while(|p| p.parse().ok()).collect::<Vec<u32>>();
    let (since, until) = match range.split_once(['–', '-']) {
        Some((since, until)) => (parts(since), Some(parts(until))),
        None if told.contains("later") => (parts(range), None),
        None => return is_release(measured, range),
    };
    numbers(measured).map(parts).any(|n| {
        let upto = |u: &Vec<u32>| n.get(..u.len().min(n.len())).unwrap_or_default() <= u.as_slice();
        n >= since && until.as_ref().is_none_or(upto)
    })
}

/// Doors for a listener of a report: its protocol, and the release where one is told.
pub(super) fn of_listener(protocol: &str, role: &str, version: &str) -> Vec<&'static Door> {
    let all: Vec<&Door> = doors().iter().filter(|d| d.protocol() == protocol && protocol != "unknown").collect();
    let product = |d: &&&Door| version.is_empty() || version.split(' ').any(|w| !w.is_empty() && d.product.contains(w));
    let narrowed = |all: Vec<&'static Door>, keep: &dyn Fn(&&&'static Door) -> bool| {
        let kept: Vec<&Door> = all.iter().filter(keep).copied().collect();
        if kept.is_empty() { all } else { kept }
    };
    let all = narrowed(all, &|d| d.role() == role);
    let all = narrowed(all, &product);
    narrowed(all, &|d| is_within(d.version, version))
}

#[cfg(test)]
mod tests;
