//! Memory over time: what monitoring recorded, and the climb before a kill.
//!
//! Read are CSV (`host,time,used_bytes` or `used_percent`), `sar -r`, `sadf -d`, `sadf -j`, and range queries of
//! Prometheus as JSON.

mod climb;
mod csv;
mod prometheus;
mod sar;
mod series;

pub use climb::{Climb, onset};
use series::Collector;
pub use series::Series;
pub use series::{CurveFormat, Read};

use crate::oom::Options;

/// The form of a text, or `None` if it is none of them. `head` may be its beginning only.
pub fn sniff(head: &str) -> Option<CurveFormat> {
    let first = head.lines().map(str::trim).find(|l| !l.is_empty())?;
    if first.starts_with('{') {
        if head.contains("\"sysstat\"") {
            return Some(CurveFormat::SadfJson);
        }
        return (head.contains("\"resultType\"") && head.contains("\"matrix\"")).then_some(CurveFormat::Prometheus);
    }
    if first.starts_with("# hostname;interval;timestamp;") {
        return Some(CurveFormat::SadfDatabase);
    }
    if first.starts_with("Linux ") && head.lines().take(50).any(|l| l.contains("memused")) {
        return Some(CurveFormat::Sar);
    }
    csv::columns(first).map(|_| CurveFormat::Csv)
}

/// Reads a text of whatever form; `None` if it is none. Of `options` count the zones, `near` (for dates in an order
/// that the text does not say), `explicit_host`, which wins over the text, and `file_host`, which loses to it.
pub fn read(text: &str, options: &Options) -> Option<Read> {
    let form = sniff(text)?;
    let mut to = Collector::default();
    match form {
        CurveFormat::Csv => csv::read(text, options, &mut to),
        CurveFormat::Sar => sar::read(text, options, &mut to),
        CurveFormat::SadfDatabase => sar::read_database(text, options, &mut to),
        CurveFormat::SadfJson => sar::read_json(text, options, &mut to),
        CurveFormat::Prometheus => prometheus::read(text, options, &mut to),
    }
    Some(to.finish(form))
}

#[cfg(test)]
mod tests;
