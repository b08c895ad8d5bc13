//! The dialects: which byte means which query, in which PyTorch releases.

use std::fmt;

use crate::finding::DialectName;

/// A set of query-type numbers that a range of PyTorch releases speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dialect {
    /// PyTorch 1.4–1.6 (and earlier).
    A0,
    /// PyTorch 1.7–1.8: GETNUMKEYS and DELETE_KEY added.
    A1,
    /// PyTorch 1.9–2.0: COMPARE_SET inserted as 1, WATCH_KEY on a second connection.
    B,
    /// PyTorch 2.1: WATCH_KEY gone, APPEND to CANCEL_WAIT added.
    C,
    /// PyTorch 2.2 and later: VALIDATE inserted as 0, a magic number first.
    D,
}

impl Dialect {
    /// As findings name it.
    pub fn label(self) -> DialectName {
        DialectName::new(self.name(), self.releases())
    }

    /// All dialects, oldest first.
    pub const ALL: [Dialect; 5] = [Dialect::A0, Dialect::A1, Dialect::B, Dialect::C, Dialect::D];

    /// The short name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::A0 => "A0",
            Dialect::A1 => "A1",
            Dialect::B => "B",
            Dialect::C => "C",
            Dialect::D => "D",
        }
    }

    /// The releases that speak it, as people write them.
    pub fn releases(self) -> &'static str {
        match self {
            Dialect::A0 => "PyTorch 1.4-1.6",
            Dialect::A1 => "PyTorch 1.7-1.8",
            Dialect::B => "PyTorch 1.9-2.0",
            Dialect::C => "PyTorch 2.1",
            Dialect::D => "PyTorch 2.2 and later",
        }
    }

    /// Whether its servers ask for the validate magic before anything else.
    pub fn validates(self) -> bool {
        self == Dialect::D
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A query type, by PyTorch's own name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Operation {
    Validate,
    Set,
    CompareSet,
    Get,
    Add,
    Check,
    Wait,
    GetNumKeys,
    WatchKey,
    DeleteKey,
    Append,
    MultiGet,
    MultiSet,
    CancelWait,
    Ping,
    QueuePush,
    QueuePop,
    QueueLen,
    ListKeys,
    Barrier,
}

use Operation::*;

/// Query types by dialect; the index is the byte on the wire.
const A0: &[Operation] = &[Set, Get, Add, Check, Wait];
const A1: &[Operation] = &[Set, Get, Add, Check, Wait, GetNumKeys, DeleteKey];
const B: &[Operation] = &[Set, CompareSet, Get, Add, Check, Wait, GetNumKeys, WatchKey, DeleteKey];
const C: &[Operation] =
    &[Set, CompareSet, Get, Add, Check, Wait, GetNumKeys, DeleteKey, Append, MultiGet, MultiSet, CancelWait];
const D: &[Operation] = &[
    Validate, Set, CompareSet, Get, Add, Check, Wait, GetNumKeys, DeleteKey, Append, MultiGet, MultiSet, CancelWait,
    Ping, QueuePush, QueuePop, QueueLen, ListKeys, Barrier,
];

impl Dialect {
    /// Query types of this dialect; the index is the byte on the wire. D is the newest set (2.12 and later).
    pub fn operations(self) -> &'static [Operation] {
        match self {
            Dialect::A0 => A0,
            Dialect::A1 => A1,
            Dialect::B => B,
            Dialect::C => C,
            Dialect::D => D,
        }
    }

    /// What `byte` asks for in this dialect, or `None` when it is no query type.
    pub fn operation(self, byte: u8) -> Option<Operation> {
        self.operations().get(usize::from(byte)).copied()
    }

    /// The byte that asks for `operation`, where this dialect has it.
    pub fn byte(self, operation: Operation) -> Option<u8> {
        self.operations().iter().position(|o| *o == operation).map(|i| i as u8)
    }
}

impl Operation {
    /// PyTorch's own spelling: `COMPARE_SET`.
    pub fn name(self) -> &'static str {
        match self {
            Validate => "VALIDATE",
            Set => "SET",
            CompareSet => "COMPARE_SET",
            Get => "GET",
            Add => "ADD",
            Check => "CHECK",
            Wait => "WAIT",
            GetNumKeys => "GETNUMKEYS",
            WatchKey => "WATCH_KEY",
            DeleteKey => "DELETE_KEY",
            Append => "APPEND",
            MultiGet => "MULTI_GET",
            MultiSet => "MULTI_SET",
            CancelWait => "CANCEL_WAIT",
            Ping => "PING",
            QueuePush => "QUEUE_PUSH",
            QueuePop => "QUEUE_POP",
            QueueLen => "QUEUE_LEN",
            ListKeys => "LIST_KEYS",
            Barrier => "BARRIER",
        }
    }

    /// First release that has it within dialect D, as (major, minor): (2, 2) for what came with D itself.
    pub fn since_in_d(self) -> (u8, u8) {
        match self {
            Ping => (2, 5),
            QueuePush | QueuePop | QueueLen => (2, 8),
            ListKeys => (2, 10),
            Barrier => (2, 12),
            _ => (2, 2),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_three_means_something_else_in_each_era() {
        assert_eq!(Dialect::A0.operation(3), Some(Check));
        assert_eq!(Dialect::A1.operation(3), Some(Check));
        assert_eq!(Dialect::B.operation(3), Some(Add));
        assert_eq!(Dialect::C.operation(3), Some(Add));
        assert_eq!(Dialect::D.operation(3), Some(Get));
    }

    #[test]
    fn highest_query_types() {
        let highest: Vec<usize> = Dialect::ALL.iter().map(|d| d.operations().len() - 1).collect();
        assert_eq!(highest, [4, 6, 8, 11, 18]);
        for d in Dialect::ALL {
            for (i, o) in d.operations().iter().enumerate() {
                assert_eq!(d.byte(*o), Some(i as u8));
            }
        }
    }
}
