//! Ray's memory monitor, which kills workers before the kernel would.

use super::super::event::{Facts, OomKind, Role};
use super::super::text;
use super::{Saying, between};

/// `N Workers (tasks / actors) killed due to memory pressure (OOM), … at node (ID: …, IP: 192.0.2.7)`, and
/// `Memory on the node (IP: …, ID: …) where the task (…, pid=7, …) was running was …, which exceeds the memory usage threshold`.
pub(super) fn parse(message: &[u8]) -> Option<Saying> {
    let mut facts = Facts { kind: Some(OomKind::Userspace), ..Facts::default() };
    if let Some((before, _)) = text::cut(message, b" Workers (tasks / actors) killed due to memory pressure (OOM)") {
        let digits = before.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let count = text::whole(before.get(before.len() - digits..)?).filter(|n| *n > 0)?;
        facts.occurrences = Some(count);
    } else if text::has(message, b"exceeds the memory usage threshold") && text::has(message, b"emory on the node") {
        facts.pid = between(message, b"pid=", b",").and_then(text::whole);
        facts.process = between(message, b", name=", b",").and_then(text::name);
    } else {
        return None;
    }
    let ip = text::cut(message, b"IP: ").map(|(_, ip)| ip);
    let ip = ip.and_then(|ip| ip.split(|b| matches!(b, b',' | b')')).next()).and_then(text::name);
    Some(Saying { host: ip, ..Saying::new(Role::Report, facts) })
}
