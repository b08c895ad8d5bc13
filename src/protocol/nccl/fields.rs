//! The fields of each message in the order of the wire: names and widths in bytes.

use super::wire::i32_at;

/// What stands in a message that is not looked into.
pub const PAYLOAD: &str = "payload";

type Widths = &'static [(&'static str, u64)];

const HANDSHAKE: Widths = &[("magic", 8), ("type", 4)];
const CHECK_IN_OLD: Widths = &[("rank", 4), ("nranks", 4), ("reply address", 64), ("ring address", 64)];
const CHECK_IN: Widths = &[("rank", 4), ("nranks", 4), ("reply address", 28), ("ring address", 28)];
const CHECK_IN_ROOTS: Widths =
    &[("rank", 4), ("nranks", 4), ("iroot", 4), ("nroots", 4), ("reply address", 28), ("ring address", 128)];
const CHECK_IN_OFFSET: Widths = &[
    ("rank", 4),
    ("nranks", 4),
    ("iroot", 4),
    ("nroots", 4),
    ("offset", 4),
    ("reply address", 28),
    ("ring address", 128),
];
/// Of 2.26 and later; earlier slots end before the hashes, those of 2.23 before the RAS address.
const SLOT: Widths = &[
    ("peer address", 28),
    ("proxy address", 28),
    ("UDS hash", 8),
    ("RAS address", 28),
    ("pid", 4),
    ("CUDA device", 4),
    ("NVML device", 4),
    ("padding", 4),
    ("host hash", 8),
    ("pid hash", 8),
];
const PROXY: Widths = &[("type", 4), ("connection", 8), ("request size", 4), ("reply size", 4)];
const PROXY_INIT_OLD: Widths = &[("type", 4), ("transport", 4), ("send", 4), ("local rank", 4)];
const CONNINIT: Widths =
    &[("type", 4), ("padding", 4), ("NCCL version", 4), ("RAS address", 28), ("peers hash", 8), ("dead peers hash", 8)];
const CONNINIT_ACK: Widths = &[("type", 4), ("padding", 4), ("nack", 4)];
const KEEPALIVE: Widths = &[
    ("type", 4),
    ("padding", 4),
    ("peers hash", 8),
    ("dead peers hash", 8),
    ("link mask", 4),
    ("padding", 4),
    ("time", 16),
    ("nack", 4),
    ("padding", 4),
];

/// Names and widths of the fields of a message of `length` bytes that begins with `head`; `kind` is what lines call it,
/// `carried` the bytes of data that it carries. The widths add up to `length`.
pub fn fields(kind: &str, length: u64, head: &[u8], carried: u64) -> Vec<(&'static str, u64)> {
    let framed = |rest: Widths| [&[("size", 4)], rest].concat();
    let number = i32_at(head, 0).unwrap_or(0);
    let mut all = match kind {
        "handshake" => HANDSHAKE.to_vec(),
        "check-in" => framed(match length {
            140 => CHECK_IN_OLD,
            68 => CHECK_IN,
            176 => CHECK_IN_ROOTS,
            _ => CHECK_IN_OFFSET,
        }),
        "reply" => framed(&[("next address", 128)]),
        "ring address" => framed(&[("address", 64)]),
        "ring slot" => framed(SLOT),
        "peer" => framed(&[("rank", 4), ("tag", 4)]),
        "data" => framed(&[]),
        "proxy request" if number == 1 && length == 16 => PROXY_INIT_OLD.to_vec(),
        "proxy request" => {
            let size = i32_at(head, 12).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            [PROXY, &[(PAYLOAD, size), ("operation id", 8)]].concat()
        }
        "proxy reply" => match length.checked_sub(carried) {
            Some(16) => vec![("operation id", 8), ("result", 4), ("size", 4)],
            Some(12) => vec![("operation id", 8), ("size", 4)],
            _ => Vec::new(),
        },
        "allocation" => vec![("size", 8)],
        "NET index" => vec![("index", 1)],
        "RAS" => match i32_at(head, 4) {
            Some(1) => [&[("length", 4)], CONNINIT].concat(),
            Some(2) => [&[("length", 4)], CONNINIT_ACK].concat(),
            Some(3) => [&[("length", 4)], KEEPALIVE].concat(),
            _ => vec![("length", 4), ("type", 4), ("padding", 4)],
        },
        "RAS text" => vec![("line", length)],
        _ => Vec::new(),
    };
    let mut left = length;
    for (_, width) in &mut all {
        *width = left.min(*width);
        left -= *width;
    }
    all.push((PAYLOAD, left));
    all.retain(|(_, width)| *width > 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_take_the_whole_message() {
        for kind in
            ["handshake", "check-in", "reply", "ring slot", "peer", "data", "proxy request", "proxy reply", "RAS"]
        {
            for length in [0u64, 1, 4, 12, 16, 20, 60, 68, 140, 176, 180, 1 << 40] {
                let head = [0xffu8; 32];
                let all = fields(kind, length, &head, 4);
                assert_eq!(all.iter().map(|(_, n)| n).sum::<u64>(), length, "{kind} {all:?}");
            }
        }
        let names = |kind, length, head: &[u8]| fields(kind, length, head, 0).iter().map(|f| f.0).collect::<Vec<_>>();
        assert_eq!(names("check-in", 176, &[])[3..6], ["iroot", "nroots", "reply address"]);
        assert_eq!(names("proxy request", 4, &[8, 0, 0, 0]), ["type"]);
        assert_eq!(names("peer", 8, &[4, 0, 0, 0]), ["size", "rank"]);
    }
}
