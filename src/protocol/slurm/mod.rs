//! Slurm: messages with a length (big-endian) and a protocol version; a step's standard streams begin with a signature.

use super::named::{Harm, Name, Named, Speech};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

/// Lengths of messages that are taken for real, in bytes.
const LENGTHS: std::ops::RangeInclusive<u32> = 16..=1 << 20;
/// Protocol versions are 256 times these: 36 is 20.11.
const VERSIONS: [(u8, &str); 8] = [
    (36, "20.11"),
    (37, "21.08"),
    (38, "22.05"),
    (39, "23.02"),
    (40, "23.11"),
    (41, "24.05"),
    (42, "24.11"),
    (43, "25.05"),
];

/// The protocol.
pub static SLURM: Named = Named {
    protocol: Protocol::Slurm,
    begins: |s| {
        if s.client.is_empty() {
            return Match::Undecided;
        }
        message(s.client)
    },
    name,
    own: |client| message(client) == Match::Yes,
    usual: None,
    harm: Harm::Dies,
    rules: &[],
};

fn message(bytes: &[u8]) -> Match {
    let Some(length) = bytes.first_chunk() else {
        return if bytes.first() == Some(&0) { Match::Undecided } else { Match::No };
    };
    if !LENGTHS.contains(&u32::from_be_bytes(*length)) {
        return Match::No;
    }
    match (bytes.get(4), bytes.get(5)) {
        (None, _) => Match::Undecided,
        (Some(v), rest) if VERSIONS.iter().any(|(n, _)| n == v) => match rest {
            None => Match::Undecided,
            Some(0) => Match::Yes,
            Some(_) => Match::No,
        },
        _ => Match::No,
    }
}

fn name(s: &Speech<'_>) -> Option<Name> {
    if message(s.client) != Match::Yes {
        return None;
    }
    let release = VERSIONS.iter().find(|(n, _)| s.client.get(4) == Some(n)).map_or("", |(_, release)| release);
    // A length of 32: version, node, two flags and a signature.
    let streams = s.client.starts_with(&[0, 0, 0, 0x20]);
    if !streams && message(s.server) != Match::Yes {
        return None;
    }
    let (role, what) = match s.port {
        6817 => (Role::Control, "slurmctld"),
        6818 => (Role::Control, "slurmd"),
        _ if streams => (Role::Io, "srun, standard streams of a step"),
        _ => (Role::Control, "srun, messages"),
    };
    Some(Name::new(role, &format!("Slurm {release}, {what}")))
}
