//! NCCL releases, and ranges of them: nothing on the bootstrap wire says which release speaks, so layouts narrow it.

use std::fmt;

/// A release, as `NCCL_VERSION_CODE` has it since 2.9: major × 10000 + minor × 100 + patch (2.26.2 is 22602).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u32);

impl Version {
    /// The oldest release whose protocol is known.
    pub const OLDEST: Version = Version(20402);
    /// The newest release whose protocol is known.
    pub const NEWEST: Version = Version(23299);

    /// From the code that RAS sends.
    pub fn from_code(code: u32) -> Option<Version> {
        (20400..30000).contains(&code).then_some(Version(code))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minor, patch) = (self.0 / 100 % 100, self.0 % 100);
        write!(f, "{}.{minor}", self.0 / 10000)?;
        if patch == 99 { Ok(()) } else { write!(f, ".{patch}") }
    }
}

/// All releases from `since` to `until`, both included. `until` with patch 99 stands for a whole minor release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Versions {
    /// The oldest.
    pub since: Version,
    /// The newest.
    pub until: Version,
}

impl Default for Versions {
    fn default() -> Self {
        Versions::ALL
    }
}

impl Versions {
    /// Every release whose protocol is known.
    pub const ALL: Versions = Versions { since: Version::OLDEST, until: Version::NEWEST };
    /// No handshake.
    pub const BARE: Versions = Versions { since: Version::OLDEST, until: Version(21599) };
    /// With the handshake of magic and type.
    pub const HANDSHAKE: Versions = Versions { since: Version(21602), until: Version::NEWEST };

    /// From two codes.
    pub const fn new(since: u32, until: u32) -> Self {
        Versions { since: Version(since), until: Version(until) }
    }

    /// Exactly one release.
    pub fn exactly(v: Version) -> Self {
        Versions { since: v, until: v }
    }

    /// What both allow; `None` when they contradict each other.
    pub fn and(self, other: Versions) -> Option<Versions> {
        let (since, until) = (self.since.max(other.since), self.until.min(other.until));
        (since <= until).then_some(Versions { since, until })
    }

    /// Whether `v` is one of them.
    pub fn contains(self, v: Version) -> bool {
        self.since <= v && v <= self.until
    }

    /// Releases that stand for all of them: one for each behaviour that differs.
    pub fn representatives(self) -> impl Iterator<Item = Version> {
        REPRESENTATIVES
            .iter()
            .map(|c| Version(*c))
            .filter(move |v| self.contains(*v))
            .chain((!REPRESENTATIVES.iter().any(|c| self.contains(Version(*c)))).then_some(self.since))
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.since == self.until { self.since.fmt(f) } else { write!(f, "{}–{}", self.since, self.until) }
    }
}

/// One release on each side of every turning point of the protocol page.
const REPRESENTATIVES: &[u32] = &[
    20708, 20803, 21104, 21403, 21602, 21705, 21803, 21903, 22005, 22203, 22304, 22403, 22602, 22703, 22803, 22809,
    22902, 23004, 23007, 23203,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_narrow_and_print() {
        assert_eq!(Version::from_code(22602).unwrap().to_string(), "2.26.2");
        assert_eq!(Version::from_code(7), None);
        let v = Versions::HANDSHAKE.and(Versions::new(22600, 22899)).unwrap();
        assert_eq!(v.to_string(), "2.26.0–2.28");
        assert_eq!(v.and(Versions::BARE), None);
        assert_eq!(v.representatives().map(|v| v.0).collect::<Vec<_>>(), [22602, 22703, 22803, 22809]);
        assert_eq!(Versions::exactly(Version(22605)).representatives().collect::<Vec<_>>(), [Version(22605)]);
    }
}
