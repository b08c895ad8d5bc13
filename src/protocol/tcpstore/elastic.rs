//! The state of an elastic job, as its agents keep it under `torch.rendezvous.<run id>`: base64 of a pickle.

use thiserror::Error;

use super::pickle::{Id, Node, Pickle, PickleError};
use crate::time::Timestamp;

/// The value that says "no state yet".
const NO_STATE: &[u8] = b"Y2FuaW1hZGFt";
/// No more agents than this are read from one state; a pickle may name one agent as often as it has bytes.
const MAX_AGENTS: usize = 4096;
/// The longest name of an agent, in bytes: DNS allows 253 (RFC 1035).
const MAX_NAME: usize = 255;

/// One agent (a `torchrun` process) of an elastic job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Agent {
    /// Its address or host name, as it gives it itself (`addr`; `fqdn` in PyTorch 1.9).
    pub address: String,
    /// Its process id.
    pub pid: i64,
    /// Its number in its process.
    pub local_id: i64,
}

/// The state of an elastic job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElasticState {
    /// The round, from 0; a restart of the workers makes a new one.
    pub round: i64,
    /// Whether all participants of the round are there.
    pub complete: bool,
    /// Whether the rendezvous is over.
    pub closed: bool,
    /// When waiting for more participants ends.
    pub deadline: Option<Timestamp>,
    /// The agents of the round, each with its rank.
    pub participants: Vec<(Agent, i64)>,
    /// Agents that wait for the next round.
    pub wait_list: Vec<Agent>,
    /// Agents beyond the largest number of participants.
    pub redundancy_list: Vec<Agent>,
    /// When each agent last said that it is alive, by its own clock.
    pub last_heartbeats: Vec<(Agent, Timestamp)>,
}

/// Why a value is not read as an elastic job's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ElasticError {
    /// A byte that base64 has no use for.
    #[error("byte {byte:#04x} at offset {at} of the value is not base64")]
    Base64 {
        /// The byte.
        byte: u8,
        /// Where.
        at: usize,
    },
    /// The pickle inside.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// The pickle holds something else than a rendezvous state.
    #[error("the pickle holds no _RendezvousState")]
    NoState,
}

/// Reads the value of `torch.rendezvous.<run id>`. `Ok(None)`: the marker for "no state yet". Nothing in the
/// pickle is executed.
///
/// # Errors
/// The value is not base64, not a pickle of plain data (or cut), or holds something else.
pub fn parse_elastic_state(value: &[u8]) -> Result<Option<ElasticState>, ElasticError> {
    if value == NO_STATE {
        return Ok(None);
    }
    let pickle = Pickle::parse(&base64(value)?)?;
    let top = pickle.top();
    let is_state =
        matches!(pickle.node(top), Some(Node::Object { class, .. }) if pickle.is_global(*class, "_RendezvousState"));
    if !is_state {
        return Err(ElasticError::NoState);
    }
    let field = |name| pickle.get(top, name);
    let flag = |name| field(name).and_then(|id| pickle.bool(id)).unwrap_or(false);
    let agents = |name| -> Vec<Agent> {
        let ids = field(name).map_or(&[][..], |id| pickle.items(id));
        ids.iter().take(MAX_AGENTS).filter_map(|id| agent(&pickle, *id)).collect()
    };
    let by_agent = |name| field(name).map_or(&[][..], |id| pickle.pairs(id)).iter().take(MAX_AGENTS);
    Ok(Some(ElasticState {
        round: field("round").and_then(|id| pickle.int(id)).ok_or(ElasticError::NoState)?,
        complete: flag("complete"),
        closed: flag("closed"),
        deadline: field("deadline").and_then(|id| instant(&pickle, id)),
        participants: by_agent("participants")
            .filter_map(|(k, v)| Some((agent(&pickle, *k)?, pickle.int(*v)?)))
            .collect(),
        wait_list: agents("wait_list"),
        redundancy_list: agents("redundancy_list"),
        last_heartbeats: by_agent("last_heartbeats")
            .filter_map(|(k, v)| Some((agent(&pickle, *k)?, instant(&pickle, *v)?)))
            .collect(),
    }))
}

fn agent(pickle: &Pickle, id: Id) -> Option<Agent> {
    let address = pickle.get(id, "addr").or_else(|| pickle.get(id, "fqdn"))?;
    Some(Agent {
        address: pickle.text(address).filter(|name| name.len() <= MAX_NAME)?.to_string(),
        pid: pickle.int(pickle.get(id, "pid")?)?,
        local_id: pickle.int(pickle.get(id, "local_id")?)?,
    })
}

/// A `datetime`, which pickles as ten bytes: year (big-endian), month, day, hour, minute, second, microseconds
/// (three bytes, big-endian). The agents write UTC, with a zone (2.x) or without (1.9).
fn instant(pickle: &Pickle, id: Id) -> Option<Timestamp> {
    let Node::Object { class, arguments, .. } = pickle.node(id)? else { return None };
    let Node::Bytes(raw) = pickle.node(*pickle.items(*arguments).first()?)? else { return None };
    let [y1, y0, month, day, hour, minute, second, u2, u1, u0] = raw.as_slice() else { return None };
    let date = chrono::NaiveDate::from_ymd_opt(
        i32::from(u16::from_be_bytes([*y1, *y0])),
        u32::from(month & 0x7f),
        u32::from(*day),
    )?;
    let micros = u32::from_be_bytes([0, *u2, *u1, *u0]);
    let time = date.and_hms_micro_opt(u32::from(*hour), u32::from(*minute), u32::from(*second), micros)?;
    let nanos = time.and_utc().timestamp_nanos_opt()?;
    pickle.is_global(*class, "datetime").then_some(Timestamp(nanos))
}

/// RFC 4648 base64 with `+` and `/`; padding is optional, bits beyond whole bytes are dropped.
fn base64(text: &[u8]) -> Result<Vec<u8>, ElasticError> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut have) = (0u32, 0);
    let end = text.iter().rposition(|b| *b != b'=').map_or(0, |i| i + 1);
    for (at, byte) in text.iter().take(end).enumerate() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(ElasticError::Base64 { byte: *byte, at }),
        };
        bits = bits << 6 | u32::from(value);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::test_support::{connections, data, decode_as};
    use super::super::{Dialect, Event, Purpose, purpose};
    use super::*;

    fn states(file: &str, port: u16, dialect: Dialect) -> Vec<ElasticState> {
        let mut found = Vec::new();
        for pieces in connections(file, port).values() {
            for e in decode_as(dialect, pieces, false) {
                let Event::Request(m) = e else { continue };
                let (Some(key), Some(value)) = (m.key(), m.value()) else { continue };
                if purpose(&key.bytes, None) == Some(Purpose::ElasticState) {
                    found.extend(parse_elastic_state(&value.bytes).unwrap());
                }
            }
        }
        found
    }

    #[test]
    fn real_agents_keep_a_state_that_can_be_read() {
        let found = states("torchrun/elastic-1.9.0-loopback.pcap", 29513, Dialect::B);
        let full = found.iter().find(|s| s.complete).unwrap();
        let node = |pid| Agent { address: "localhost".to_string(), pid, local_id: 0 };
        // As Python's pickletools shows it.
        assert_eq!((full.round, full.closed, full.deadline), (0, false, None));
        assert_eq!(full.participants, [(node(14992), 0), (node(14993), 1)]);
        assert_eq!(full.last_heartbeats[0].1.to_rfc3339(), "2026-11-29T11:58:12.840824000Z");
        assert!(full.wait_list.is_empty());
    }

    #[test]
    fn agents_of_newer_releases_write_addresses_and_zones() {
        let state = parse_elastic_state(&data("torchrun/elastic-state-2.15.base64")).unwrap().unwrap();
        let participants: Vec<_> = state.participants.iter().map(|(a, r)| (a.address.as_str(), a.pid, *r)).collect();
        assert_eq!(participants, [("192.0.2.11", 22749, 0), ("192.0.2.12", 22758, 1), ("192.0.2.13", 22763, 2)]);
        assert!(state.complete && state.closed && state.round == 0 && state.redundancy_list.is_empty());
        assert_eq!(state.last_heartbeats.len(), 3);
        assert_eq!(state.last_heartbeats[0].1.to_rfc3339(), "2026-11-29T11:30:02.911068000Z");
    }

    #[test]
    fn the_marker_is_no_state() {
        assert_eq!(parse_elastic_state(NO_STATE), Ok(None));
        assert_eq!(parse_elastic_state(b"****"), Err(ElasticError::Base64 { byte: b'*', at: 0 }));
        assert_eq!(parse_elastic_state(b""), Err(PickleError::Cut(0).into()));
        // os.system("true"): noted as a call, executed never, and no state.
        let evil = b"gAIoY29zCnN5c3RlbQpxAFgEAAAAdHJ1ZXEBdFIu";
        assert!(parse_elastic_state(evil).is_err());
    }

    proptest! {
        #[test]
        fn any_value_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), digits in "gAS[A-Za-z0-9+/]{0,200}") {
            let _ = Pickle::parse(&bytes);
            let _ = parse_elastic_state(&bytes);
            let _ = parse_elastic_state(digits.as_bytes());
        }
    }
}
