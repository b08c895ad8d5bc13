//! Naming what knocked: the protocol that the first bytes of a client speak, when it is not the listener's.
//!
//! A name says what the bytes look like, not who sent them; only a whole probe of nmap's is told by its digest.

mod binary;
mod database;
mod escape;
mod fields;
mod identity;
mod nmap;
mod nmap_probes;
mod server;
mod text;
mod tls;
mod tool;

/// What the first bytes of a client look like.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Stray {
    /// The protocol as its users write it: `HTTP`, `TLS`, `RDP`. `none` when no byte came, `constant bytes` for one byte
    /// over and over, `text` or `unknown` for what no rule knows.
    pub protocol: &'static str,
    /// What it asked for, where that can be read: the host that TLS names, an HTTP request line, an SSH banner. Escaped
    /// (printable ASCII only) and no longer than [`DETAIL`].
    pub detail: Option<String>,
    /// The tool, where the bytes name it or only it sends them: `nmap`, `curl`, `kube-probe`.
    pub tool: Option<&'static str>,
    /// The nmap service probe that these bytes are, all of them.
    pub nmap_probe: Option<&'static str>,
}

pub use identity::DETAIL;
use identity::Named;
pub use server::greeting;

/// Names the protocol of a stream from its `first` bytes, given that it is `total_length` bytes long so far.
/// Never fails; `first` may be cut anywhere. A probe is only recognised when `first` is the whole stream.
pub fn identify(first: &[u8], total_length: u64) -> Stray {
    let (protocol, detail) = name(first, total_length);
    let nmap_probe = if first.len() as u64 == total_length { nmap::probe(first) } else { None };
    let tool = nmap_probe.map(|_| "nmap").or_else(|| tool::named(first));
    Stray { protocol, detail, tool, nmap_probe }
}

fn name(first: &[u8], total_length: u64) -> Named {
    let Some(head) = first.first() else { return ("none", None) };
    if let Some(named) = text::identify(first, total_length).or_else(|| binary::identify(first, total_length)) {
        return named;
    }
    if first.len() > 1 && first.iter().all(|byte| byte == head) {
        return ("constant bytes", Some(format!("{total_length} x {head:02x}")));
    }
    let printable = first.iter().filter(|b| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)).count();
    if printable == first.len() { ("text", escape::first_line(first)) } else { ("unknown", None) }
}

#[cfg(test)]
mod tests;
