//! Dask's nanny, which restarts a worker that takes more than its share.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::{self, cut};
use super::{Saying, between};

/// `Worker tcp://192.0.2.7:34567 (pid=7) exceeded 95% memory budget. Restarting...`, without address and pid before 2022.
pub(super) fn parse(message: &[u8]) -> Option<Saying> {
    let (before, rest) = cut(message, b" exceeded ")?;
    if !text::has(rest, b"memory budget. Restarting") {
        return None;
    }
    let (_, worker) = text::rcut(before, b"Worker")?;
    let host = between(worker, b"://", b":").and_then(text::name);
    let pid = between(worker, b"(pid=", b")").and_then(text::whole);
    let facts = Facts { kind: Some(OomKind::Userspace), pid, ..Facts::default() };
    Some(Saying { host, ..Saying::new(Role::Killed, facts) })
}
