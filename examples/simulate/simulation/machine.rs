//! A host's memory: what its kernel grants, how fast a process fills it, and who is killed when it is gone.

use rdzvscope::api::protocol::tcpstore::server::Policy;

/// A host, as far as its memory goes. Sizes are bytes.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) ram: u64,
    /// `vm.overcommit_memory`.
    pub(crate) overcommit: u8,
    /// What all its processes hold while the job runs.
    pub(crate) used: u64,
    /// Bytes a second that one thread fills with zeros.
    pub(crate) rate: f64,
    /// What the job's memory cgroup may hold, if it is in one.
    pub(crate) limit: Option<u64>,
    /// Another process that holds so much: more than rank 0, and so the first to be killed.
    pub(crate) hog: Option<u64>,
    /// What rank 0 has of address space, and of memory, before anybody speaks to its store.
    pub(crate) rank0_vm: u64,
    pub(crate) rank0_rss: u64,
}

/// What becomes of one allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Filling {
    /// Seconds until the process that holds most is killed, and whether that is rank 0, with what it then holds.
    pub(crate) kills: [Option<(f64, Victim, u64)>; 2],
    /// Seconds until it is filled, if it ever is.
    pub(crate) done: Option<f64>,
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Rank0,
    Hog,
}

impl Machine {
    pub(crate) fn policy(&self) -> Policy {
        match self.overcommit {
            0 => Policy::Heuristic { ram_and_swap: self.ram },
            1 => Policy::Always,
            _ => Policy::Strict { available: (self.ram / 2).saturating_sub(self.used.min(self.ram / 2)) },
        }
    }

    /// What rank 0 can still take.
    pub(crate) fn free(&self) -> u64 {
        let host = self.ram.saturating_sub(self.used);
        self.limit.map_or(host, |l| host.min(l.saturating_sub(self.rank0_rss)))
    }

    /// Rank 0 asks for `bytes`, is granted them, and fills them.
    pub(crate) fn fill(&self, bytes: u64) -> Filling {
        let free = self.free();
        if bytes <= free {
            return Filling { kills: [None, None], done: Some(bytes as f64 / self.rate) };
        }
        let seconds = |bytes: u64| bytes as f64 / self.rate;
        let hog = self.hog.filter(|h| self.limit.is_none() && *h > self.rank0_rss + free);
        match hog {
            None => Filling { kills: [Some((seconds(free), Victim::Rank0, self.rank0_rss + free)), None], done: None },
            Some(hog) => {
                let first = Some((seconds(free), Victim::Hog, hog));
                let all = free + hog;
                if bytes <= all {
                    return Filling { kills: [first, None], done: Some(seconds(bytes)) };
                }
                let second = Some((seconds(all), Victim::Rank0, self.rank0_rss + all));
                Filling { kills: [first, second], done: None }
            }
        }
    }
}

/// Seconds from a kill until the process's sockets are closed: the kernel gives back its memory first.
pub(crate) fn dying(rss: u64, unit: f64) -> f64 {
    (1.4 + rss as f64 / 13e9) * (0.75 + 0.5 * unit)
}
