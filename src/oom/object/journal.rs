//! `journalctl -o json`: one object a line (or `json-pretty`, an object over several).
//!
//! The time is `__REALTIME_TIMESTAMP`, microseconds at which journald received the line. `_SOURCE_MONOTONIC_TIMESTAMP`
//! may be on another clock's base, so it is not used.

use super::super::options::Clock;
use super::super::stamp::Stamp;
use super::super::text;
use crate::time::Timestamp;
use serde_json::Value;

/// An entry of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Microseconds since the epoch.
    pub(crate) micros: Option<u64>,
    pub(crate) host: Option<String>,
    pub(crate) message: Vec<u8>,
    /// How the line came into the journal: `kernel` is the kernel's alone.
    pub(crate) transport: Option<String>,
    /// What the line's writer calls itself.
    pub(crate) identifier: Option<String>,
    /// A stamp that was printed instead of the microseconds.
    pub(crate) printed: Option<Stamp>,
}

const RECEIVED: Clock = Clock { from: "journal, time of receipt", floor: 1_000_000, after: false };

impl Record {
    /// Reads an entry: `MESSAGE` is a string, or an array of bytes where it is no UTF-8, or a list of several.
    pub(crate) fn of(object: &Value) -> Option<Record> {
        let message = bytes(object.get("MESSAGE")?)?;
        let own = ["__REALTIME_TIMESTAMP", "_HOSTNAME", "_TRANSPORT", "__CURSOR", "_BOOT_ID", "SYSLOG_IDENTIFIER"];
        if !own.iter().any(|key| object.get(key).is_some()) && object.as_object().is_some_and(|o| o.len() > 1) {
            return None;
        }
        let text = |key: &str| object.get(key).and_then(Value::as_str).and_then(|h| text::name(h.as_bytes()));
        let micros = object.get("__REALTIME_TIMESTAMP").and_then(|v| match v {
            Value::String(text) => text::whole(text.as_bytes()),
            other => other.as_u64(),
        });
        Some(Record {
            micros,
            host: text("_HOSTNAME"),
            message,
            transport: text("_TRANSPORT"),
            identifier: text("SYSLOG_IDENTIFIER").or_else(|| text("_COMM")),
            printed: None,
        })
    }

    /// When it was received.
    pub(crate) fn stamp(&self) -> Option<(Stamp, Clock)> {
        let at = self.micros.and_then(|m| i64::try_from(m).ok()?.checked_mul(1000)).map(Timestamp);
        at.map(|at| Stamp::Absolute { at, unit: 1000 }).or(self.printed).map(|stamp| (stamp, RECEIVED))
    }

    /// Who wrote it: the kernel, or a program. What came by syslog or from a program's output can call itself anything.
    pub(crate) fn writer(&self) -> Option<&str> {
        match (self.transport.as_deref(), self.identifier.as_deref()) {
            (Some("kernel"), _) | (None, Some("kernel")) => Some("kernel"),
            // Only the kernel's transport is its own; only systemd itself speaks journald's protocol in its name.
            (Some(_), Some("kernel")) => Some("a process that calls itself kernel"),
            (Some("syslog" | "stdout"), Some("systemd" | "systemd-oomd")) => {
                Some("a process that calls itself systemd")
            }
            (_, Some(name)) => Some(name),
            (transport, None) => transport,
        }
    }
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Array(list) if list.iter().all(Value::is_u64) => {
            list.iter().map(|b| u8::try_from(b.as_u64()?).ok()).collect()
        }
        Value::Array(list) => bytes(list.first()?),
        _ => None,
    }
}
