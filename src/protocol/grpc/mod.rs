//! Servers on HTTP/2: Ray, etcd, JAX's coordinator, and gRPC of whoever else. gRPC's C++ server sends its SETTINGS at once, Go's
//! waits for the client's preface.

use super::named::{Harm, Name, Named, Speech, any, contains, prefix};
use super::seam::Match;
use crate::vocabulary::{Protocol, Role};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Ray's servers.
pub static RAY: Named = Named { protocol: Protocol::Ray, name: ray, ..GRPC };
/// etcd.
pub static ETCD: Named = Named { protocol: Protocol::Etcd, name: etcd, begins: |s| any([begins(s), web(s)]), ..GRPC };
/// Others.
pub static OTHER: Named = GRPC;

const GRPC: Named = Named {
    protocol: Protocol::Grpc,
    begins,
    name: grpc,
    own: |client| client.starts_with(PREFACE),
    usual: None,
    harm: Harm::Nothing,
    rules: &[],
};

fn begins(s: &Speech<'_>) -> Match {
    let client = if s.client.is_empty() { Match::No } else { prefix(s.client, PREFACE) };
    any([client, settings(s.server)])
}

/// A SETTINGS frame on stream 0, without the flag ACK: pairs of six bytes.
fn settings(bytes: &[u8]) -> Match {
    if bytes.len() < 9 {
        return if !bytes.is_empty() && bytes.iter().zip(&[0, 0]).all(|(a, b)| a == b) {
            Match::Undecided
        } else {
            Match::No
        };
    }
    let length = bytes.get(2).copied().unwrap_or(1);
    let frame = bytes.starts_with(&[0, 0]) && bytes.get(3..9) == Some(&[4, 0, 0, 0, 0, 0]);
    if frame && length > 0 && length.is_multiple_of(6) { Match::Yes } else { Match::No }
}

/// A web request on etcd's own ports.
fn web(s: &Speech<'_>) -> Match {
    if etcd_port(s.port) && s.server.starts_with(b"HTTP/1.") { Match::Yes } else { Match::No }
}

fn etcd_port(port: u16) -> bool {
    matches!(port, 2379 | 2380)
}

fn ray(s: &Speech<'_>) -> Option<Name> {
    let spoken = settings(s.server) == Match::Yes;
    // The names of services stand in the requests; other servers of a node are known by their ports.
    let service = contains(s.client, b"/ray.rpc.");
    let what = match s.port {
        6379 => "GCS",
        8076 => "object manager",
        8077 => "node manager",
        10_001 => "client server",
        10_002..=19_999 => "core worker",
        _ => "a server",
    };
    let role = if s.port == 6379 { Role::Control } else { Role::Rpc };
    let ported = matches!(s.port, 8076 | 8077 | 10_001..=19_999);
    (spoken && (service || ported)).then(|| Name::new(role, &format!("Ray, {what}")))
}

fn etcd(s: &Speech<'_>) -> Option<Name> {
    let answers = settings(s.server) == Match::Yes || s.server.starts_with(b"HTTP/1.");
    let service = contains(s.client, b"/etcdserverpb.");
    let what = if s.port == 2380 { "etcd, peers" } else { "etcd, clients" };
    (answers && (service || etcd_port(s.port))).then(|| Name::new(Role::Store, what))
}

fn grpc(s: &Speech<'_>) -> Option<Name> {
    let coordinator = contains(s.client, b".CoordinationService/") || s.port == 8476;
    let spoken = settings(s.server) == Match::Yes && (coordinator || is_grpc(s));
    let other = || Name { role: None, product: "gRPC".to_string() };
    spoken.then(|| if coordinator { Name::new(Role::Control, "JAX, coordinator") } else { other() })
}

/// gRPC's own setting (true binary metadata, 0xfe03), or its content type.
fn is_grpc(s: &Speech<'_>) -> bool {
    const SETTING: &[u8] = &[0xfe, 3, 0, 0, 0, 1];
    contains(s.server, SETTING) || contains(s.client, SETTING) || contains(s.client, b"application/grpc")
}

/// A server on HTTP/2 that is none of gRPC.
pub(super) fn is_plain(s: &Speech<'_>) -> bool {
    settings(s.server) == Match::Yes && !is_grpc(s)
}
