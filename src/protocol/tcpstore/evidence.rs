//! Who speaks the store's protocol, on whatever port, and in which dialect.

use std::fmt;

use super::dialect::{Dialect, Operation};
use super::plausible::{self, Plausible};

/// A set of dialects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DialectSet(u8);

impl DialectSet {
    /// No dialect.
    pub const NONE: DialectSet = DialectSet(0);
    /// Every dialect.
    pub const ALL: DialectSet = DialectSet(0b1_1111);

    fn bit(dialect: Dialect) -> u8 {
        1 << dialect as u8
    }

    /// Adds one.
    pub fn insert(&mut self, dialect: Dialect) {
        self.0 |= Self::bit(dialect);
    }

    /// Takes one out; whether it was in.
    pub fn remove(&mut self, dialect: Dialect) -> bool {
        let had = self.contains(dialect);
        self.0 &= !Self::bit(dialect);
        had
    }

    /// Whether it is in.
    pub fn contains(self, dialect: Dialect) -> bool {
        self.0 & Self::bit(dialect) != 0
    }

    /// Those in both.
    pub fn intersection(self, other: DialectSet) -> DialectSet {
        DialectSet(self.0 & other.0)
    }

    /// Those in either.
    pub fn union(self, other: DialectSet) -> DialectSet {
        DialectSet(self.0 | other.0)
    }

    /// How many.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Oldest first.
    pub fn iter(self) -> impl Iterator<Item = Dialect> {
        Dialect::ALL.into_iter().filter(move |d| self.contains(*d))
    }
}

impl FromIterator<Dialect> for DialectSet {
    fn from_iter<I: IntoIterator<Item = Dialect>>(dialects: I) -> Self {
        let mut set = DialectSet::NONE;
        dialects.into_iter().for_each(|d| set.insert(d));
        set
    }
}

/// `B, C`.
impl fmt::Display for DialectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for DialectSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Whether bytes of a client are a store client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Candidates {
    /// They may be, so far.
    NotEnoughBytes,
    /// They are not.
    No,
    /// They are, in one of these dialects.
    Store {
        /// Which.
        dialects: DialectSet,
        /// The magic number, or the worker counter `init/`: nothing else begins so. Otherwise a plausible
        /// request with a key in the store's form.
        certain: bool,
    },
}

/// Judges the first bytes that a client sent on a connection, on any port. At most the first 50 are looked at;
/// fewer may do.
///
/// A client begins with VALIDATE (2.2 and later), with ADD `init/`, or, where it does not wait for workers, with
/// any request that names a key but GET and MULTI_GET, which always follow a WAIT.
pub fn first_bytes(client: &[u8]) -> Candidates {
    let Some(first) = client.first() else { return Candidates::NotEnoughBytes };
    let may_begin = |d, q| match d {
        Dialect::D => q == Operation::Validate,
        _ => !matches!(q, Operation::Get | Operation::MultiGet),
    };
    let mut dialects = DialectSet::NONE;
    let mut certain = false;
    let mut undecided = false;
    for dialect in Dialect::ALL {
        let Some(query) = dialect.operation(*first).filter(|q| may_begin(dialect, *q)) else { continue };
        match plausible::request(dialect, client) {
            Plausible::No => {}
            Plausible::More => undecided = true,
            Plausible::Yes => {
                dialects.insert(dialect);
                certain |= query == Operation::Validate
                    || (query == Operation::Add && client.get(9..14) == Some(b"init/".as_slice()));
            }
        }
    }
    match (dialects.is_empty(), undecided) {
        (true, true) => Candidates::NotEnoughBytes,
        (true, false) => Candidates::No,
        (false, _) => Candidates::Store { dialects, certain },
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{connections, data, unhex};
    use super::*;
    use Dialect::*;

    fn store(dialects: &[Dialect], certain: bool) -> Candidates {
        Candidates::Store { dialects: dialects.iter().copied().collect(), certain }
    }

    #[test]
    fn clients_are_known_by_how_they_begin() {
        assert_eq!(first_bytes(&unhex("00cef7853c")), store(&[D], true));
        assert_eq!(first_bytes(&unhex("00cef785")), Candidates::NotEnoughBytes);
        assert_eq!(first_bytes(&unhex("03 0500000000000000 696e69742f 0100000000000000")), store(&[B, C], true));
        assert_eq!(first_bytes(&unhex("02 0500000000000000 696e69742f 0100000000000000")), store(&[A0, A1], true));
        // The elastic agent of 1.9 begins with COMPARE_SET.
        let agent = unhex("01 1700000000000000 2f746f7263682e72656e64657a766f75732e6a6f623432 0000000000000000");
        assert_eq!(first_bytes(&agent), store(&[B, C], false));
        assert_eq!(first_bytes(&agent[..1]), Candidates::NotEnoughBytes);
    }

    #[test]
    fn recorded_clients_are_found() {
        for (version, dialect) in [("1.4.0", A0), ("1.13.0", B), ("2.1.2", C), ("2.2.2", D), ("2.15.0", D)] {
            for pieces in connections(&format!("api/store-api-{version}.pcap"), 29500).values() {
                let client: Vec<u8> = pieces
                    .iter()
                    .filter(|p| p.direction == crate::protocol::tcpstore::Direction::Client)
                    .flat_map(|p| p.bytes.iter().copied())
                    .take(64)
                    .collect();
                if !client.is_empty() {
                    let verdict = first_bytes(&client);
                    let Candidates::Store { dialects, certain: true } = verdict else {
                        panic!("{version}: {verdict:?}")
                    };
                    assert!(dialects.contains(dialect), "{version}: {dialects}");
                }
            }
        }
    }

    #[test]
    fn other_protocols_are_not_stores() {
        let greetings: Vec<serde_json::Value> = serde_json::from_slice(&data("outcomes/greetings.json")).unwrap();
        for g in &greetings {
            let name = g["name"].as_str().unwrap();
            let verdict = first_bytes(&unhex(g["first_bytes"].as_str().unwrap()));
            if name.contains("TCPStore") {
                assert_ne!(verdict, Candidates::No, "{name}");
            } else if name.contains("no bytes") {
                assert_eq!(verdict, Candidates::NotEnoughBytes);
            } else {
                let short = g["length"].as_u64().unwrap() < 9 && verdict == Candidates::NotEnoughBytes;
                assert!(verdict == Candidates::No || short, "{name}: {verdict:?}");
            }
        }
    }

    #[test]
    fn nccl_and_gloo_are_not_stores() {
        let mut judged = 0;
        for (file, store_port) in [
            ("nccl/2.26.2-real-4ranks-netsocket.pcap", 0u16),
            ("gloo/gloo-1.8.0.pcap", 29511),
            ("store-and-nccl/torch2.15-nccl2.26-node-a.pcap", 29500),
        ] {
            for (flow, client) in super::super::test_support::first_bytes_of_flows(file) {
                if flow.1 != store_port && flow.0 != store_port {
                    let verdict = first_bytes(&client);
                    let short = client.len() < 18 && verdict == Candidates::NotEnoughBytes;
                    assert!(verdict == Candidates::No || short, "{file} {flow:?}: {verdict:?}");
                    judged += 1;
                }
            }
        }
        assert!(judged > 40, "{judged}");
    }
}
