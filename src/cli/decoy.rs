//! `rdzvscope decoy`: a listener that answers as a server of a given release would, and never allocates.

use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;

use super::args;
use super::exit::Exit;
use super::output::{complain, shown};
use crate::decoy::{Bounds, Decoy, ListenerRole, Recorder, Summary};
use crate::prescan::Host;
use crate::protocol::checked::later;

/// Arguments of `decoy`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  rdzvscope decoy --as tcpstore:1.13 --listen 127.0.0.1:29500
  rdzvscope decoy --as tcpstore:1.13 --as nccl-root:2.26 --listen 29500 --listen 45999 --for 10m
  rdzvscope decoy --as tcpstore:2.15/libuv --listen 29500 --record scan.pcapng
  rdzvscope decoy --as tcpstore:1.13 --listen 192.0.2.20:29500 --connections 100

Prints a JSON line for each listener, each connection when it has ended, and a summary. It runs until it is interrupted, or until --for or --connections end it. A decoy that is not on loopback is reached by whoever reaches that address.

Exit status: 0 nothing that came would have hurt; 1 something would have; 2 it could not listen, or nobody came.")]
pub(super) struct Args {
    /// What to stand in for: tcpstore:VERSION[/poll|/libuv], nccl-root:VERSION, -reply, -ring, -peer, -proxy, -net, -ras (may repeat)
    #[arg(long = "as", value_name = "PART", required = true, value_parser = ListenerRole::parse)]
    parts: Vec<ListenerRole>,
    /// Where to listen: ADDRESS:PORT, or PORT on loopback; one for each --as, or many for one
    #[arg(long, value_name = "[ADDRESS:]PORT", required = true, value_parser = address)]
    listen: Vec<SocketAddr>,
    /// Stop after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = args::duration)]
    time: Option<f64>,
    /// Stop when so many connections have ended
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Connections open at once; more are reset
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000), hide_short_help = true)]
    max_open: u32,
    /// Record what is exchanged there (pcapng)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Stores begin empty: not even init/ is there
    #[arg(long, hide_short_help = true)]
    empty: bool,
    /// A listener that would be gone is gone: it does not listen any more
    #[arg(long, hide_short_help = true)]
    mortal: bool,
    /// RAM and swap of the host that is stood in for
    #[arg(long, value_name = "SIZE", value_parser = args::size, hide_short_help = true)]
    host_memory: Option<u64>,
    /// vm.overcommit_memory of that host
    #[arg(long, value_name = "0|1|2", value_parser = clap::value_parser!(u8).range(0..=2), hide_short_help = true)]
    overcommit: Option<u8>,
    /// Print nothing but the summary
    #[arg(short, long)]
    quiet: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let port = text.strip_prefix(':').unwrap_or(text).parse().map(local);
    port.or_else(|_| text.parse())
        .map_err(|_| format!("[ADDRESS:]PORT was required (127.0.0.1:29500, [::1]:29500, 29500), {text:?} was there"))
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    let parts: Vec<(ListenerRole, SocketAddr)> = match (a.parts.as_slice(), a.listen.as_slice()) {
        ([part], listen) => listen.iter().map(|l| (part.clone(), *l)).collect(),
        (parts, listen) if parts.len() == listen.len() => parts.iter().cloned().zip(listen.iter().copied()).collect(),
        (parts, listen) => bail!(
            "one --listen for each --as was required, {} --as and {} --listen were there",
            parts.len(),
            listen.len()
        ),
    };
    for (part, address) in parts.iter().filter(|(_, a)| !a.ip().is_loopback()) {
        complain(&format!("{} listens on {address}: whoever reaches that address reaches the decoy", part.name));
    }
    for (part, _) in &parts {
        let (product, version) = part.name.split_once(':').unwrap_or_default();
        let product = if product == "tcpstore" { "pytorch" } else { "nccl" };
        if let Some(note) = later(product, version.split('/').next().unwrap_or(version)) {
            complain(&note);
        }
    }
    let host = Host { memory: a.host_memory, overcommit: a.overcommit };
    let mut decoy = Decoy::new(parts, host, a.empty, a.mortal)?;
    if let Some(path) = &a.record {
        let file = crate::disk::private().create_new(true).open(path);
        let file = file.with_context(|| format!("{}: cannot create a new file", shown(path)))?;
        decoy.record(Recorder::new(Box::new(BufWriter::new(file)))?);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    let mut out = io::stdout().lock();
    if !a.quiet {
        for (address, name) in decoy.listeners() {
            let address = crate::net::Endpoint::new(address.ip().into(), address.port());
            writeln!(out, "{}", json!({"type": "listening", "listen": address.to_string(), "as": name}))?;
        }
        out.flush()?;
    }
    let bounds = Bounds {
        time: a.time.map(Duration::from_secs_f64),
        connections: a.connections,
        open: usize::try_from(a.max_open).unwrap_or(usize::MAX),
        stop,
    };
    let summary = decoy.run(&bounds, &mut |entry| {
        if a.quiet {
            return Ok(());
        }
        serde_json::to_writer(&mut out, entry)?;
        out.write_all(b"\n")?;
        out.flush()
    })?;
    serde_json::to_writer(&mut out, &summary)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(status(&summary))
}

fn status(s: &Summary) -> Exit {
    if s.connections == 0 {
        complain("nobody came");
        return Exit::Trouble;
    }
    if s.kills > 0 || s.degrades > 0 || s.unknown > 0 { Exit::Flagged } else { Exit::Clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_unless_told_otherwise() {
        assert_eq!(address("29500"), Ok("127.0.0.1:29500".parse().unwrap()));
        assert_eq!(address(":29500"), Ok("127.0.0.1:29500".parse().unwrap()));
        assert_eq!(address("[::1]:5"), Ok("[::1]:5".parse().unwrap()));
        assert!(address("localhost").is_err() && address("70000").is_err());
    }
}
