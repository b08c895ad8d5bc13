//! Captures of hosts: what each saw, less what was lost; and which packet of which file a segment became.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::host::Host;
use super::log::BASE;
use super::random::Random;
use super::wire::{Network, frame};

/// The number of the packet that a segment is: in the capture of the server's host, in that of the client's.
pub(crate) type Places = Vec<[Option<u32>; 2]>;

/// Writes `captures/HOST.pcap` of every host that has one.
pub(crate) fn write(directory: &Path, hosts: &[Host], network: &Network, seed: u64) -> io::Result<Places> {
    let mut places: Places = vec![[None; 2]; network.segments.len()];
    let mut seen: Vec<Vec<(f64, usize, bool)>> = vec![Vec::new(); hosts.len()];
    for (i, s) in network.segments.iter().enumerate() {
        let flow = &network.flows[s.flow];
        if flow.client_host == Some(flow.server_host) {
            continue;
        }
        seen[flow.server_host].push((s.at_server, i, true));
        if let Some(client) = flow.client_host {
            seen[client].push((s.at_client, i, false));
        }
    }
    for (n, (host, mut packets)) in hosts.iter().zip(seen).enumerate() {
        let Some(c) = &host.capture else { continue };
        let mut r = Random::of(seed, &format!("loss {n}"));
        packets.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut out = BufWriter::new(std::fs::File::create(directory.join(format!("{}.pcap", host.name)))?);
        let magic = if c.nanoseconds { 0xa1b2_3c4du32 } else { 0xa1b2_c3d4 };
        for word in [magic, 0x0004_0002, 0, 0, c.snaplen as u32, 1] {
            out.write_all(&word.to_le_bytes())?;
        }
        let mut number = 0;
        for (at, i, server) in packets {
            let lost = at < c.from || at > c.to || c.gap.is_some_and(|(a, b)| (a..b).contains(&at));
            if lost || r.chance(c.loss) {
                continue;
            }
            number += 1;
            let s = &network.segments[i];
            places[i][usize::from(!server)] = Some(number);
            let bytes = frame(&network.flows[s.flow], s, server);
            let kept = bytes.len().min(c.snaplen);
            let nanos = BASE * 1_000_000_000 + ((at + host.clock) * 1e9) as i64;
            let (seconds, rest) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
            let rest = if c.nanoseconds { rest } else { rest / 1000 };
            for word in [seconds as u32, rest as u32, kept as u32, bytes.len() as u32] {
                out.write_all(&word.to_le_bytes())?;
            }
            out.write_all(&bytes[..kept])?;
        }
        out.flush()?;
    }
    Ok(places)
}
