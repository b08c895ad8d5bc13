//! What the kernel grants.

/// How the host's kernel answers a request for memory (`vm.overcommit_memory`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Nothing is known: taken as granted, and the verdict says so.
    Unknown,
    /// `1`: whatever fits the address space.
    Always,
    /// `0`: refused when one request exceeds all RAM and swap together, in bytes.
    Heuristic {
        /// RAM plus swap.
        ram_and_swap: u64,
    },
    /// `2`: refused beyond the commit limit.
    Strict {
        /// Bytes still uncommitted: `CommitLimit` less `Committed_AS`.
        available: u64,
    },
    /// Refused from this size up, whatever the cause (an rlimit, a measurement).
    RefuseFrom(u64),
}

impl Policy {
    /// Whether it grants one request of `bytes`.
    pub fn grants(self, bytes: u64) -> bool {
        match self {
            Policy::Unknown | Policy::Always => true,
            Policy::Heuristic { ram_and_swap } => bytes <= ram_and_swap,
            Policy::Strict { available } => bytes <= available,
            Policy::RefuseFrom(limit) => bytes < limit,
        }
    }

    /// Whether the answer is known.
    pub fn known(self) -> bool {
        self != Policy::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_refused_by_a_small_host_and_granted_by_a_large_one() {
        let probe = 962_696_183_808;
        assert!(!Policy::Heuristic { ram_and_swap: 24 << 30 }.grants(probe));
        assert!(Policy::Heuristic { ram_and_swap: 1 << 40 }.grants(probe));
        assert!(Policy::Always.grants(probe) && Policy::Unknown.grants(probe));
        assert!(!Policy::Strict { available: probe - 1 }.grants(probe));
        assert!(!Policy::RefuseFrom(probe).grants(probe));
    }
}
