//! Files of container runtimes: CRI (`TIME stderr F line`) and Docker's json-file (`{"log":…,"time":…}`).
//!
//! Their time is that at which the line was printed: of a line with a time of its own that one counts, unless it lacks
//! a year.

use super::super::options::Clock;
use super::super::stamp::{Stamp, iso_stamp};
use super::{Format, Peeled, peel};
use serde_json::Value;
use std::borrow::Cow;

const PRINTED: Clock = Clock { from: "container log, time of printing", floor: 1_000_000_000 };

/// `2023-11-14T22:14:25.512040123Z stderr F line`; of a part (`P`) what is there.
pub(crate) fn cri(line: &[u8]) -> Option<Peeled<'_>> {
    let (stamp, rest) = iso_stamp(line)?;
    let rest = rest.strip_prefix(b" stdout ").or_else(|| rest.strip_prefix(b" stderr "))?;
    let inner = rest.strip_prefix(b"F ").or_else(|| rest.strip_prefix(b"P "))?;
    Some(wrapped(Format::Cri, stamp, peel(inner)))
}

fn wrapped(format: Format, printed: Stamp, inner: Peeled<'_>) -> Peeled<'_> {
    let own = inner.stamp.filter(|(s, _)| matches!(s, Stamp::Absolute { .. } | Stamp::Local { .. }));
    Peeled { format, stamp: own.or(Some((printed, PRINTED))), ..inner }
}

/// A record of Docker's json-file driver.
pub(crate) fn docker(object: &Value) -> Option<Peeled<'static>> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let (log, time) = (text("log")?, text("time")?);
    let (stamp, _) = iso_stamp(time.as_bytes())?;
    let inner = peel(log.trim_end().as_bytes());
    let owned = Peeled {
        format: inner.format,
        stamp: inner.stamp,
        boot: inner.boot,
        host: inner.host.map(|h| Cow::Owned(h.into_owned())),
        message: Cow::Owned(inner.message.into_owned()),
    };
    Some(wrapped(Format::DockerLog, stamp, owned))
}
