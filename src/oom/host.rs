//! Names of hosts: the same one is written short, in full, in capitals.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The first label of a name, in lower case; an address stays whole.
pub(crate) fn short(name: &str) -> String {
    let name = name.trim_end_matches('.');
    let label = if name.parse::<IpAddr>().is_ok() { name } else { name.split('.').next().unwrap_or(name) };
    label.to_ascii_lowercase()
}

/// Whether two names can be one host: equal but for case, or one is bare and the first label of the other.
pub fn same_host(a: &str, b: &str) -> bool {
    let full = |n: &str| n.trim_end_matches('.').to_ascii_lowercase();
    full(a) == full(b) || ((!a.contains('.') || !b.contains('.')) && short(a) == short(b))
}

/// One name for each host, among all the names that the logs use.
///
/// Two full names with one first label are two hosts; a bare name is the full one if only one has its first label.
#[derive(Default)]
pub(crate) struct Names {
    full: BTreeMap<String, BTreeSet<String>>,
    bare: BTreeSet<String>,
}

impl Names {
    pub(crate) fn add(&mut self, name: &str) {
        let lower = name.trim_end_matches('.').to_ascii_lowercase();
        let short = short(name);
        if short == lower {
            self.bare.insert(lower);
        } else {
            self.full.entry(short).or_default().insert(lower);
        }
    }

    /// The name that stands for `name`: the bare one, unless several full names share it.
    pub(crate) fn canonical(&self, name: &str) -> String {
        let lower = name.trim_end_matches('.').to_ascii_lowercase();
        let short = short(name);
        match self.full.get(&short) {
            Some(full) if full.len() == 1 && self.bare.contains(&short) => short,
            _ => lower,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_full_names_are_one_host_unless_two_full_ones_differ() {
        assert!(same_host("gpu-07", "GPU-07.example.com") && same_host("a.b", "A.b."));
        assert!(!same_host("gpu-07.a", "gpu-07.b") && !same_host("gpu-07", "gpu-08") && !same_host("10.0.0.1", "10"));
        let mut names = Names::default();
        ["n1", "n1.x", "n2.x", "n2.y", "n2"].iter().for_each(|n| names.add(n));
        assert_eq!(names.canonical("n1.x"), names.canonical("N1"));
        assert_ne!(names.canonical("n2.x"), names.canonical("n2.y"));
        assert_ne!(names.canonical("n2"), names.canonical("n2.y"));
    }
}
