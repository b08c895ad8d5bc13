//! The YAML that kubectl prints, object by object: block mappings and lists, plain and quoted scalars that may go on over
//! several lines, literal blocks. No anchors, tags or flow collections but empty ones: the API server prints none.

use serde_json::{Map, Value};

/// The largest object, in bytes.
const MAX_OBJECT: usize = 4 << 20;
/// How deep objects may nest.
const DEPTH: usize = 64;

/// The object being read.
#[derive(Default)]
pub(crate) struct Objects {
    text: Vec<u8>,
    /// The number of its first line.
    first: u64,
}

/// Whether a line begins such a text.
pub(crate) fn opens(line: &[u8]) -> bool {
    line.starts_with(b"apiVersion: ")
}

impl Objects {
    /// Takes a line; at the beginning of another object gives the one before, with its first line.
    pub(crate) fn line(&mut self, number: u64, line: &[u8]) -> Option<(Value, u64)> {
        let begins = line.starts_with(b"- ") || line.starts_with(b"---");
        let done = if begins { self.finish() } else { None };
        if self.text.is_empty() {
            self.first = number;
        }
        if self.text.len() + line.len() < MAX_OBJECT && !line.starts_with(b"---") {
            match line.strip_prefix(b"- ") {
                Some(rest) => {
                    self.text.extend_from_slice(b"  ");
                    self.text.extend_from_slice(rest);
                }
                None => self.text.extend_from_slice(line),
            }
            self.text.push(b'\n');
        }
        done
    }

    /// The last object.
    pub(crate) fn finish(&mut self) -> Option<(Value, u64)> {
        let text = std::mem::take(&mut self.text);
        let text = String::from_utf8_lossy(&text);
        let mut lines: Vec<(usize, &str)> = text
            .lines()
            .map(|l| (l.len() - l.trim_start_matches(' ').len(), l.trim()))
            .filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
            .collect();
        let indent = lines.first()?.0;
        let mut at = 0;
        Some((block(&mut lines, &mut at, indent, DEPTH), self.first))
    }
}

fn is_item(line: &str) -> bool {
    line == "-" || line.starts_with("- ")
}

fn block(lines: &mut [(usize, &str)], at: &mut usize, indent: usize, depth: usize) -> Value {
    let Some((_, first)) = lines.get(*at).copied().filter(|_| depth > 0) else { return Value::Null };
    if !is_item(first) && key(first).is_none() {
        *at += 1;
        return scalar(first, lines, at, indent);
    }
    let (mut map, mut list) = (Map::new(), Vec::new());
    while let Some((deep, line)) = lines.get(*at).copied() {
        if deep < indent || deep == indent && is_item(first) && !is_item(line) {
            break;
        }
        if deep == indent && is_item(line) && is_item(first) {
            // What follows the dash is a block of its own, two columns further in.
            if let Some(slot) = lines.get_mut(*at) {
                *slot = (indent + 2, line.get(1..).unwrap_or_default().trim_start());
            }
            list.push(block(lines, at, indent + 2, depth - 1));
            continue;
        }
        *at += 1;
        let Some((name, rest)) = key(line).filter(|_| deep == indent && !is_item(line)) else { continue };
        let below = lines.get(*at).copied();
        let value = match (rest, below) {
            ("", Some((d, l))) if d > indent || d == indent && is_item(l) => block(lines, at, d, depth - 1),
            ("", _) => Value::Null,
            ("|" | "|-" | "|+" | ">" | ">-" | ">+", _) => literal(lines, at, indent),
            (text, _) => scalar(text, lines, at, indent),
        };
        map.insert(name.trim_matches(['"', '\'']).to_owned(), value);
    }
    if is_item(first) { Value::Array(list) } else { Value::Object(map) }
}

/// `key: value` or `key:`.
fn key(line: &str) -> Option<(&str, &str)> {
    if line.starts_with(['"', '\'']) && !line.contains("\": ") && !line.contains("': ") && !line.ends_with(':') {
        return None;
    }
    line.strip_suffix(':').map(|k| (k, "")).or_else(|| line.split_once(": ").map(|(k, v)| (k, v.trim())))
}

fn literal(lines: &[(usize, &str)], at: &mut usize, indent: usize) -> Value {
    let mut text = Vec::new();
    while let Some((_, line)) = lines.get(*at).filter(|(d, _)| *d > indent) {
        text.push(*line);
        *at += 1;
    }
    Value::String(text.join("\n"))
}

fn scalar(text: &str, lines: &[(usize, &str)], at: &mut usize, indent: usize) -> Value {
    let mut text = text.to_owned();
    while let Some((_, line)) = lines.get(*at).filter(|(d, _)| *d > indent) {
        text.push(' ');
        text.push_str(line);
        *at += 1;
    }
    if let Some(single) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return Value::String(single.replace("''", "'"));
    }
    match text.as_str() {
        "{}" => Value::Object(Map::new()),
        "[]" => Value::Array(Vec::new()),
        // Numbers, words and double quotes are written as in JSON.
        other => serde_json::from_str(other)
            .ok()
            .filter(|v: &Value| !v.is_object() && !v.is_array())
            .unwrap_or(Value::String(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Value> {
        let mut objects = Objects::default();
        let mut all: Vec<Value> =
            (1..).zip(text.lines()).filter_map(|(n, l)| objects.line(n, l.as_bytes())).map(|(v, _)| v).collect();
        all.extend(objects.finish().map(|(v, _)| v));
        all
    }

    #[test]
    fn objects_of_a_list_one_by_one() {
        let got = read(
            "apiVersion: v1\nitems:\n- apiVersion: v1\n  count: 4\n  involvedObject:\n    kind: Node\n    name: gpu-1\n  message: 'it''s long,\n    goes on'\n  list:\n  - a: 1\n    b: \"x\\ty\"\n  - c\n  note: |-\n    one\n    two\n- kind: Pod\n  empty: {}\n",
        );
        assert_eq!(got.len(), 3);
        assert_eq!(
            got[1],
            serde_json::json!({"apiVersion": "v1", "count": 4, "involvedObject": {"kind": "Node", "name": "gpu-1"},
            "message": "it's long, goes on", "list": [{"a": 1, "b": "x\ty"}, "c"], "note": "one\ntwo"})
        );
        assert_eq!(got[2], serde_json::json!({"kind": "Pod", "empty": {}}));
    }

    #[test]
    fn nonsense_ends() {
        for text in ["- - - -", ":", "a:\n  - b:\n c", "'", "- ", &"a:\n".repeat(500), &"- ".repeat(5000)] {
            read(text);
        }
    }
}
