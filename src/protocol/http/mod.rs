//! HTTP/1: dashboards and metrics. It is the answer that says that a listener speaks it: anybody may send a request anywhere.

use super::named::{Harm, Name, Named, Speech};
use super::seam::Match;
use crate::vocabulary::Protocol;

const METHODS: [&[u8]; 6] = [b"GET /", b"HEAD /", b"POST /", b"PUT /", b"DELETE /", b"OPTIONS /"];
/// Ports that a product is known by.
const PORTS: [(u16, &str); 11] = [
    (80, "HTTP"),
    (6006, "TensorBoard"),
    (8080, "HTTP"),
    (8265, "Ray, dashboard"),
    (8787, "Dask, dashboard"),
    (9090, "Prometheus"),
    (9100, "node_exporter"),
    (9400, "DCGM exporter"),
    (10_250, "kubelet"),
    (44_217, "Ray, metrics"),
    (52_365, "Ray, dashboard agent"),
];
/// Bytes that are shown of what a server calls itself.
const SERVER: usize = 40;

/// The protocol.
pub static HTTP: Named = Named {
    protocol: Protocol::Http,
    begins: |s| {
        if s.client.is_empty() {
            return Match::Undecided;
        }
        let request = |m: &&&[u8]| s.client.iter().zip(m.iter()).all(|(a, b)| a == b);
        match METHODS.iter().find(request) {
            None => Match::No,
            Some(m) if s.client.len() < m.len() => Match::Undecided,
            Some(_) => Match::Yes,
        }
    },
    name: |s| {
        let named = |product| Some(Name { role: None, product });
        match s.server.starts_with(b"HTTP/1.") {
            true => named(product(s)),
            false if super::grpc::is_plain(s) => named("HTTP/2".to_string()),
            false => None,
        }
    },
    own: |client| METHODS.iter().any(|m| client.starts_with(m)),
    usual: Some(|port| PORTS.iter().any(|(p, _)| *p == port)),
    harm: Harm::Nothing,
    rules: &[],
};

fn product(s: &Speech<'_>) -> String {
    if let Some((_, name)) = PORTS.iter().find(|(port, name)| *port == s.port && *name != "HTTP") {
        return (*name).to_string();
    }
    let text = String::from_utf8_lossy(s.server);
    let called = text.lines().find_map(|l| {
        let (key, value) = l.split_once(':')?;
        key.eq_ignore_ascii_case("server").then(|| value.trim().to_string())
    });
    let metrics = s.client.starts_with(b"GET /metrics");
    match called {
        Some(name) => crate::escape::clean(name.as_bytes(), SERVER),
        None if metrics => "HTTP metrics".to_string(),
        None => "HTTP".to_string(),
    }
}
