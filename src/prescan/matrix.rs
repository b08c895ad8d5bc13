//! Every case at every server.

use super::fleet::{Fleet, Kind, Target};
use super::host::Host;
use super::row::{Grade, Row};
use crate::protocol::nccl::{self, Effect, Role, Version};
use crate::protocol::tcpstore::server::{Backend, Outcome, Server, verdict};

/// The magic of the listeners that are asked: random in life, known to no scanner.
pub const MAGIC: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a client does on one connection.
#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    /// Sends these segments, one after the other, waits for an answer, closes.
    Segments(Vec<Vec<u8>>),
    /// Never finishes the handshake.
    Syn,
    /// Connects and closes.
    Close,
    /// Connects, stays silent for so many seconds, closes.
    Hold(f64),
    /// Connects and stays silent for so many seconds; the same connection then carries the next case.
    Silence(f64),
    /// Sends what nobody has tried.
    Untested,
}

/// One thing that a scan does, with its name.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// The probe's name.
    pub name: String,
    /// What it is.
    pub act: Act,
}

/// The rows of cases and servers.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// What is tried.
    pub cases: Vec<Case>,
    /// Row of case c at server s: `rows[c * servers + s]`. `None`: the scan does not do that to this server.
    rows: Vec<Option<Row>>,
    servers: usize,
}

impl Matrix {
    /// Asks every server about every case for which `sent` holds (indices of case and server).
    pub fn ask(cases: Vec<Case>, fleet: &Fleet, host: Host, sent: impl Fn(usize, usize) -> bool) -> Matrix {
        let mut rows = Vec::with_capacity(cases.len().saturating_mul(fleet.targets.len()));
        for (c, case) in cases.iter().enumerate() {
            for (t, target) in fleet.targets.iter().enumerate() {
                rows.push(sent(c, t).then(|| row(case, target, host)));
            }
        }
        Matrix { cases, rows, servers: fleet.targets.len() }
    }

    /// The same, of those for which `sent` holds only.
    pub fn only(&self, sent: impl Fn(usize, usize) -> bool) -> Matrix {
        let keep = |(i, row): (usize, &Option<Row>)| {
            row.clone().filter(|_| sent(i / self.servers.max(1), i % self.servers.max(1)))
        };
        Matrix {
            cases: self.cases.clone(),
            rows: self.rows.iter().enumerate().map(keep).collect(),
            servers: self.servers,
        }
    }

    /// All rows, case by case.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flatten()
    }

    /// The row of a case at a server.
    pub fn row(&self, case: usize, server: usize) -> Option<&Row> {
        (server < self.servers).then(|| self.rows.get(case * self.servers + server)).flatten().and_then(Option::as_ref)
    }

    /// The worst of a case, where it is done at all.
    pub fn worst_of(&self, case: usize) -> Option<Grade> {
        (0..self.servers).filter_map(|s| self.row(case, s)).map(Row::grade).max()
    }

    /// The worst at a server.
    pub fn worst_at(&self, server: usize) -> Option<Grade> {
        (0..self.cases.len()).filter_map(|c| self.row(c, server)).map(Row::grade).max()
    }

    /// The worst of all.
    pub fn worst(&self) -> Option<Grade> {
        self.rows().map(Row::grade).max()
    }

    /// How many rows have this grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.rows().filter(|r| r.grade() == grade).count()
    }
}

fn row(case: &Case, target: &Target, host: Host) -> Row {
    let blank = Row {
        probe: case.name.clone(),
        protocol: target.protocol(),
        version: target.version.clone(),
        backend: target.backend(),
        outcome: Outcome::Unknown.name(),
        allocates_bytes: None,
        blocks_server: false,
        kills: false,
        explanation: String::new(),
        role: target.role(),
    };
    match (&case.act, target.kind) {
        (act, Kind::Door(door)) => door.row(&case.name, act, blank),
        (Act::Untested, _) => Row {
            explanation: "Nobody has tried these bytes: record the scanner against `rdzvscope decoy --record`, and ask again with --capture."
                .to_owned(),
            ..blank
        },
        (Act::Syn, _) => Row {
            outcome: Outcome::Waits.name(),
            explanation: "The handshake is not finished: the server's process never learns of it.".to_owned(),
            ..blank
        },
        (act, Kind::Store(server)) => store(act, &server.on(host.policy()), host, blank),
        (act, Kind::Nccl(role, version)) => listener(act, role, version, blank),
    }
}

fn store(act: &Act, server: &Server, host: Host, blank: Row) -> Row {
    let Act::Segments(segments) = act else {
        let looks_up = match server.backend {
            Backend::Poll => server.release.reverse_dns_poll,
            Backend::Libuv => server.release.reverse_dns_libuv,
        };
        let name =
            "Accepting it looks the client's name up in the DNS; a resolver that does not answer holds the store up.";
        let (outcome, what) = match act {
            Act::Hold(s) | Act::Silence(s) => {
                (Outcome::Waits, format!("Nothing is asked for {s} s: the store serves others meanwhile."))
            }
            _ => (
                Outcome::Closes,
                "The connection is closed before anything is asked; others are not affected.".to_owned(),
            ),
        };
        let explanation = if looks_up { format!("{what} {name}") } else { what };
        return Row { outcome: outcome.name(), explanation, ..blank };
    };
    let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
    let v = verdict(server, &segments);
    let claims = v.outcome == Outcome::Allocates;
    let explanation = match &v.condition {
        Some(condition) if claims => format!("{} ({condition})", v.explanation),
        _ => v.explanation,
    };
    Row {
        outcome: v.outcome.name(),
        allocates_bytes: v.allocates_bytes.filter(|_| claims),
        blocks_server: v.blocks_server,
        kills: claims && v.total_bytes >= host.deadly(),
        explanation,
        ..blank
    }
}

/// The worse of what happens while the connection is open and of what happens when it closes.
fn listener(act: &Act, role: Role, version: Version, blank: Row) -> Row {
    let none = Vec::new();
    let (segments, held) = match act {
        Act::Segments(segments) => (segments, true),
        Act::Hold(_) | Act::Silence(_) => (&none, true),
        _ => (&none, false),
    };
    let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
    let ask = |closes| nccl::verdict(role, version, MAGIC, &[], &segments, closes);
    let closing = ask(!matches!(act, Act::Silence(_)));
    let v = if held { [ask(false), closing].into_iter().max_by_key(|v| v.effect).unwrap_or(closing) } else { closing };
    let name = role.name();
    let (outcome, kills, what) = match v.effect {
        Effect::Serves => (Outcome::Waits, false, format!("The {name} takes it for one of NCCL's own connections.")),
        Effect::Closes => (Outcome::Closes, false, format!("The {name} closes it and goes on.")),
        Effect::Waits => (
            Outcome::Waits,
            false,
            format!(
                "The {name} serves one connection at a time, without a timeout: whoever checks in meanwhile waits until this one closes."
            ),
        ),
        Effect::Allocates => (Outcome::Allocates, false, format!("The {name} makes room for {}.", v.reason)),
        Effect::Spins => (Outcome::Spins, false, format!("The {name} spins on one core: {}.", v.reason)),
        Effect::Dies => {
            (Outcome::Dies, true, format!("The {name} fails, and the start of the communicator with it: {}.", v.reason))
        }
        Effect::Killed => (Outcome::Dies, true, format!("A signal ends the process of the {name}: {}.", v.reason)),
    };
    Row { outcome: outcome.name(), blocks_server: v.effect == Effect::Waits, kills, explanation: what, ..blank }
}

#[cfg(test)]
mod tests {
    use super::super::fleet;
    use super::*;

    fn ask(segments: &[&[u8]], pytorch: &str, nccl: Option<&str>, host: Host) -> Matrix {
        let mut f = Fleet::default();
        f.stores(&fleet::pytorch(pytorch).unwrap(), None, &[29500]).unwrap();
        f.nccl(&nccl.map_or(Vec::new(), |n| fleet::nccl(n).unwrap()));
        let act = Act::Segments(segments.iter().map(|s| s.to_vec()).collect());
        Matrix::ask(vec![Case { name: "p".into(), act }], &f, host, |_, _| true)
    }

    const COOKIE: &[u8] = b"\x03\0\0\x2a\x25\xe0\0\0\0\0\0Cookie: mstshash=nmap\r\n\x01\0\x08\0\x03\0\0\0";

    #[test]
    fn the_incident_beforehand() {
        let board = ask(&[COOKIE], "2.1-2.2", None, Host::default());
        let grades: Vec<_> = board.rows().map(|r| (r.version.as_str(), r.backend.unwrap(), r.grade())).collect();
        assert_eq!(
            grades,
            [("2.1", "poll", Grade::Kills), ("2.2", "poll", Grade::Safe), ("2.2", "libuv", Grade::Safe)]
        );
        assert_eq!(board.row(0, 0).unwrap().allocates_bytes, Some(962_696_183_808));
        // A small host whose kernel refuses obvious excess lives.
        let small = Host { memory: Some(24 << 30), overcommit: Some(0) };
        assert_eq!(ask(&[COOKIE], "2.1", None, small).worst(), Some(Grade::Safe));
        let grants = Host { memory: Some(24 << 30), overcommit: Some(1) };
        assert_eq!(ask(&[COOKIE], "2.1", None, grants).worst(), Some(Grade::Kills));
        let large = Host { memory: Some(8 << 40), overcommit: Some(1) };
        assert_eq!(ask(&[COOKIE], "2.1", None, large).worst(), Some(Grade::Degrades));
    }

    #[test]
    fn roots_that_wait_die_or_close() {
        let of = |segments: &[&[u8]], version: &str| {
            let board = ask(segments, "2.15", Some(version), Host::default());
            let row = board.rows().last().unwrap().clone();
            (row.outcome, row.blocks_server, row.kills)
        };
        assert_eq!(of(&[b"GET / HTTP/1.0\r\n\r\n"], "root:2.26"), ("closes", false, false));
        assert_eq!(of(&[b"\r\n\r\n"], "root:2.26"), ("dies", false, true));
        assert_eq!(of(&[b"\r\n\r\n"], "root:2.27.3"), ("waits", true, false));
        assert_eq!(of(&[b"GET / HTTP/1.0\r\n\r\n"], "proxy:2.26"), ("spins", false, false));
    }
}
