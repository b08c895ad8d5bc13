//! What the hosts' kernels grant, and what their memory bears.

use crate::protocol::tcpstore::server::{Policy, REFUSABLE_BYTES};

/// What is known of the hosts that the listeners run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Host {
    /// RAM and swap together, in bytes.
    pub memory: Option<u64>,
    /// `vm.overcommit_memory`: 0, 1 or 2.
    pub overcommit: Option<u8>,
}

impl Host {
    /// How its kernel answers requests for memory. With overcommit 2 the commit limit is taken to be all memory.
    pub fn policy(self) -> Policy {
        match (self.overcommit, self.memory) {
            (Some(1), _) => Policy::Always,
            (Some(0), Some(memory)) => Policy::Heuristic { ram_and_swap: memory },
            (Some(2), Some(memory)) => Policy::Strict { available: memory },
            _ => Policy::Unknown,
        }
    }

    /// The claim from which on a granted one ends the process, in bytes: half of the memory, because the job itself
    /// takes some; 1 GiB where memory is not known (the servers that were measured had 1.2 GiB).
    pub fn deadly(self) -> u64 {
        self.memory.map_or(REFUSABLE_BYTES, |m| (m / 2).max(1))
    }

    /// What was assumed, for the report.
    pub fn text(self) -> String {
        match (self.memory, self.overcommit) {
            (None, None) => {
                "nothing is known of the hosts: every claim below the address space is taken as granted, and one of \
1 GiB or more as deadly (--host-memory and --overcommit say better)"
                    .to_owned()
            }
            (memory, overcommit) => format!(
                "hosts with {} of RAM and swap and vm.overcommit_memory={}: a granted claim above {} is taken as deadly",
                memory.map_or_else(|| "an unknown amount".to_owned(), crate::report::size::bytes),
                overcommit.map_or_else(|| "unknown (taken as granted)".to_owned(), |o| o.to_string()),
                crate::report::size::bytes(self.deadly()),
            ),
        }
    }
}
