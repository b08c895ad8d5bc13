//! `journalctl -o json`: one object a line (or `json-pretty`, an object over several).
//!
//! The time is `__REALTIME_TIMESTAMP`, microseconds at which journald received the line. `_SOURCE_MONOTONIC_TIMESTAMP`
//! may be on another clock's base, so it is not used.

use super::super::text;
use super::{Format, Peeled};
use crate::oom::options::Clock;
use crate::oom::stamp::Stamp;
use crate::time::Timestamp;
use serde_json::Value;

/// An entry of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Microseconds since the epoch.
    pub(crate) micros: Option<u64>,
    pub(crate) host: Option<String>,
    pub(crate) message: Vec<u8>,
}

const RECEIVED: Clock = Clock { from: "journal, time of receipt", floor: 1_000_000 };

impl Record {
    /// Reads an entry: `MESSAGE` is a string, or an array of bytes where it is no UTF-8.
    pub(crate) fn of(object: &Value) -> Option<Record> {
        let message = match object.get("MESSAGE")? {
            Value::String(text) => text.clone().into_bytes(),
            Value::Array(bytes) => bytes.iter().map(|b| u8::try_from(b.as_u64()?).ok()).collect::<Option<Vec<u8>>>()?,
            _ => return None,
        };
        let micros = object.get("__REALTIME_TIMESTAMP").and_then(|v| match v {
            Value::String(text) => text::whole(text.as_bytes()),
            other => other.as_u64(),
        });
        let host = object.get("_HOSTNAME").and_then(Value::as_str).and_then(|h| text::name(h.as_bytes()));
        Some(Record { micros, host, message })
    }

    /// As a line without its header. A time beyond the range of [`Timestamp`] is none.
    pub(crate) fn peeled(&self, format: Format) -> Peeled<'_> {
        let at = self.micros.and_then(|m| i64::try_from(m).ok()?.checked_mul(1000)).map(Timestamp);
        Peeled {
            format,
            stamp: at.map(|at| (Stamp::Absolute { at, unit: 1000 }, RECEIVED)),
            boot: None,
            host: self.host.as_deref().map(|h| h.as_bytes().into()),
            message: self.message.as_slice().into(),
        }
    }
}
