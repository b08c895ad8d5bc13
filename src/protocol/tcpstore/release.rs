//! The releases: what each PyTorch version's store speaks, offers and gets wrong. A new version is a new row.
//!
//! Rows hold for `x.y.0` and are assumed for its patch releases: those checked by header (2.1.2, 2.2.2) are equal.

use std::fmt;

use super::server::Backend;
use super::{Dialect, Operation};

/// Whether a release has the libuv server, and who gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Libuv {
    /// Not compiled in.
    Absent,
    /// `use_libuv=True`, `USE_LIBUV=1` or `?use_libuv=1` asks for it.
    OptIn,
    /// `TCPStore(...)` and `env://` start it; torchrun's c10d rendezvous store is still poll (2.4).
    Default,
    /// Everything starts it unless told otherwise (2.5 and later). Windows builds stay with poll.
    Everywhere,
}

/// The build of a wheel, which decides the size of a `std::string`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// PyPI wheel for Linux on x86-64: old C++ ABI up to 2.6.
    WheelX86,
    /// PyPI wheel for Linux on aarch64: old C++ ABI up to 2.5.
    WheelArm,
    /// Built by a distribution or vendor with the C++11 ABI.
    Distribution,
    /// Built with libc++ (macOS).
    Libcxx,
}

/// One minor release of PyTorch, as its store server sees the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// The numbers it speaks.
    pub dialect: Dialect,
    /// The highest query-type byte that its libuv server (else its poll server) accepts.
    pub highest: u8,
    /// The libuv server.
    pub libuv: Libuv,
    /// Its libuv server closes a connection whose request arrives in pieces, when the missing field is no longer than
    /// what arrived of that request. Measured in 2.2.0; gone in 2.3.0.
    pub split_request_bug: bool,
    /// Whether accepting a connection makes the poll server look its address up in the DNS.
    pub reverse_dns_poll: bool,
    /// The same for the libuv server.
    pub reverse_dns_libuv: bool,
    /// What changed here, for people.
    pub changed: &'static str,
}

const fn row(major: u8, minor: u8, dialect: Dialect, highest: u8, libuv: Libuv, changed: &'static str) -> Release {
    let split_request_bug = major == 2 && minor == 2;
    let (reverse_dns_poll, reverse_dns_libuv) = (major == 2 && minor >= 5, major == 2 && minor >= 6);
    Release { major, minor, dialect, highest, libuv, split_request_bug, reverse_dns_poll, reverse_dns_libuv, changed }
}

use Dialect::{A0, A1, B, C, D};
use Libuv::{Absent, Default as DefaultUv, Everywhere, OptIn};

/// Oldest first.
const TABLE: &[Release] = &[
    row(1, 4, A0, 4, Absent, ""),
    row(1, 5, A0, 4, Absent, ""),
    row(1, 6, A0, 4, Absent, ""),
    row(1, 7, A1, 6, Absent, "GETNUMKEYS and DELETE_KEY (#45401)"),
    row(1, 8, A1, 6, Absent, ""),
    row(1, 9, B, 8, Absent, "COMPARE_SET inserted as 1 (#51593), WATCH_KEY and a second connection (#56217)"),
    row(1, 10, B, 8, Absent, ""),
    row(1, 11, B, 8, Absent, ""),
    row(1, 12, B, 8, Absent, ""),
    row(1, 13, B, 8, Absent, ""),
    row(2, 0, B, 8, Absent, ""),
    row(2, 1, C, 11, Absent, "APPEND to CANCEL_WAIT (#100383), WATCH_KEY removed (#105014)"),
    row(2, 2, D, 12, OptIn, "VALIDATE first (#107607, fixes #106294); libuv server (#108066)"),
    row(2, 3, D, 12, OptIn, "libuv: requests split over reads no longer close the connection"),
    row(2, 4, D, 12, DefaultUv, "libuv server by default (#127957)"),
    row(2, 5, D, 13, Everywhere, "PING (#129985); torchrun's rendezvous store uses libuv (#134882)"),
    row(2, 6, D, 13, Everywhere, ""),
    row(2, 7, D, 13, Everywhere, ""),
    row(2, 8, D, 16, Everywhere, "QUEUE_PUSH, QUEUE_POP, QUEUE_LEN (#150969)"),
    row(2, 9, D, 16, Everywhere, ""),
    row(2, 10, D, 17, Everywhere, "LIST_KEYS (#167883)"),
    row(2, 11, D, 17, Everywhere, ""),
    row(2, 12, D, 18, Everywhere, "BARRIER (#174920)"),
    row(2, 13, D, 18, Everywhere, ""),
    row(2, 14, D, 18, Everywhere, ""),
    row(2, 15, D, 18, Everywhere, ""),
];

impl Release {
    /// Every release that was looked at, oldest first.
    pub const ALL: &'static [Release] = TABLE;

    /// The row of `major.minor`, or `None` when that release was never looked at.
    pub fn find(major: u8, minor: u8) -> Option<Release> {
        TABLE.iter().copied().find(|r| (r.major, r.minor) == (major, minor))
    }

    /// The row of a version as people and wheels write it: `2.1`, `2.1.2`, `1.13.0a0+git7c98e70`, `v2.4.0`. A minor release that is
    /// later than all rows has the newest (`protocol::checked::later` is what to say of it).
    pub fn parse(version: &str) -> Option<Release> {
        let mut parts = version.trim().trim_start_matches('v').split('.');
        let major = parts.next()?.parse().ok()?;
        let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
        let minor = minor.parse().ok()?;
        let newest = TABLE.last().copied().filter(|r| r.major == major && r.minor < minor);
        Release::find(major, minor).or(newest)
    }

    /// The newest release of a dialect: the one that stands for it in verdicts.
    pub fn newest(dialect: Dialect) -> Release {
        TABLE.iter().rev().copied().find(|r| r.dialect == dialect).unwrap_or(TABLE[TABLE.len() - 1])
    }

    /// Whether a server of this kind exists in this release.
    pub fn has(self, backend: Backend) -> bool {
        backend == Backend::Poll || self.libuv != Libuv::Absent
    }

    /// What `TCPStore(...)` starts when nobody chooses.
    pub fn default_backend(self) -> Backend {
        match self.libuv {
            Libuv::Absent | Libuv::OptIn => Backend::Poll,
            Libuv::Default | Libuv::Everywhere => Backend::Libuv,
        }
    }

    /// What torchrun's c10d rendezvous starts when nobody chooses: libuv one release later.
    pub fn rendezvous_backend(self) -> Backend {
        if self.libuv == Libuv::Everywhere { Backend::Libuv } else { Backend::Poll }
    }

    /// What `byte` asks a server of this release for, or `None` when it closes the connection on it.
    ///
    /// The poll server never learned the queue operations.
    pub fn operation(self, backend: Backend, byte: u8) -> Option<Operation> {
        use Operation::{QueueLen, QueuePop, QueuePush};
        let operation = self.dialect.operation(byte).filter(|_| byte <= self.highest)?;
        let queue = matches!(operation, QueuePush | QueuePop | QueueLen);
        (!(queue && backend == Backend::Poll)).then_some(operation)
    }

    /// Bytes of one `std::string` in this release's build: what one entry of a declared key count costs.
    pub fn string_bytes(self, build: Build) -> u64 {
        let old_up_to = |minor| if (self.major, self.minor) <= (2, minor) { 8 } else { 32 };
        match build {
            Build::WheelX86 => old_up_to(6),
            Build::WheelArm => old_up_to(5),
            Build::Distribution => 32,
            Build::Libcxx => 24,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_query_type_of_each_row_is_one_of_its_dialect() {
        for r in Release::ALL {
            assert!(usize::from(r.highest) < r.dialect.operations().len(), "{r}");
            if r.dialect == Dialect::D {
                let known = r.dialect.operations().iter().filter(|o| o.since_in_d() <= (r.major, r.minor)).count();
                assert_eq!(known, usize::from(r.highest) + 1, "{r}");
            }
        }
        assert!(Release::ALL.windows(2).all(|w| (w[0].major, w[0].minor) < (w[1].major, w[1].minor)));
    }

    #[test]
    fn versions_parse_as_wheels_write_them() {
        for (text, want) in [("2.1.2", (2, 1)), ("1.13.0a0+git7c98e70", (1, 13)), ("v2.4", (2, 4)), ("2.15.0", (2, 15))]
        {
            let r = Release::parse(text).unwrap();
            assert_eq!((r.major, r.minor), want);
        }
        assert_eq!(Release::parse("2.99.1"), Release::ALL.last().copied());
        assert_eq!((Release::parse("3.0"), Release::parse("1.14")), (None, None));
        assert_eq!(Release::parse("two"), None);
    }

    #[test]
    fn defaults_and_abi_switch_where_they_were_measured() {
        let r = |minor| Release::find(2, minor).unwrap();
        assert_eq!((r(3).default_backend(), r(4).default_backend()), (Backend::Poll, Backend::Libuv));
        assert_eq!((r(4).rendezvous_backend(), r(5).rendezvous_backend()), (Backend::Poll, Backend::Libuv));
        assert_eq!((r(6).string_bytes(Build::WheelX86), r(7).string_bytes(Build::WheelX86)), (8, 32));
        assert_eq!((r(5).string_bytes(Build::WheelArm), r(6).string_bytes(Build::WheelArm)), (8, 32));
        assert_eq!(r(8).operation(Backend::Poll, 14), None);
        assert_eq!(r(8).operation(Backend::Libuv, 14), Some(Operation::QueuePush));
        assert_eq!(r(4).operation(Backend::Libuv, 13), None);
    }
}
