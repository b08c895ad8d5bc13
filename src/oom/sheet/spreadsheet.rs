//! Rows that a log store exports as CSV (Splunk, Kibana, Log Analytics, Cloud Logging): a line of names, then a line a message.

use super::super::object::has_message;
use serde_json::{Map, Value};

/// Cells of a row that are read.
const CELLS: usize = 256;

/// The names of the columns, where a line is such a heading: one of them is a message's, and there are others.
pub(crate) fn heading(line: &[u8]) -> Option<Vec<String>> {
    let names = cells(line);
    (names.len() > 1 && names.iter().all(|n| !n.is_empty() && n.len() <= 64) && names.iter().any(|n| has_message(n)))
        .then_some(names)
}

/// A row as an object with the columns' names.
pub(crate) fn row(names: &[String], line: &[u8]) -> Value {
    let pairs = names.iter().cloned().zip(cells(line).into_iter().map(Value::String));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// The cells of a line; a quoted one may hold commas, and a quote twice stands for one.
fn cells(line: &[u8]) -> Vec<String> {
    let (mut all, mut cell, mut quoted) = (Vec::new(), Vec::new(), false);
    let mut bytes = line.trim_ascii_end().iter().copied().peekable();
    while let Some(b) = bytes.next() {
        match b {
            b'"' if quoted && bytes.next_if_eq(&b'"').is_some() => cell.push(b'"'),
            b'"' => quoted = !quoted,
            b',' if !quoted && all.len() < CELLS => {
                all.push(String::from_utf8_lossy(&std::mem::take(&mut cell)).trim().to_string());
            }
            b => cell.push(b),
        }
    }
    all.push(String::from_utf8_lossy(&cell).trim().to_string());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_objects_of_their_heading() {
        let names = heading(b"\"_time\",host,_raw\r\n").unwrap();
        let value = row(&names, b"\"2026-09-21T14:13:20Z\",gpu-017,\"a \"\"b\"\", c\"\n");
        assert_eq!((value["host"].as_str(), value["_raw"].as_str()), (Some("gpu-017"), Some("a \"b\", c")));
        assert!(heading(b"message").is_none() && heading(b"a,b").is_none());
    }
}
