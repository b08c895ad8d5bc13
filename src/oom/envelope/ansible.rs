//! Ansible's ways of saying whose output follows.

use super::nodeset::is_host;
use serde_json::Value;

/// What a header of Ansible's begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header<'a> {
    /// `gpu-017 | CHANGED | rc=0 >>`: the lines that follow are that host's.
    Lines(&'a str),
    /// `gpu-017 | SUCCESS => {`, `ok: [gpu-017] => {`: JSON, of which the first bytes are given.
    Json(&'a str, &'a [u8]),
    /// `gpu-017 | CHANGED | rc=0 | (stdout) a\nb`: all lines in one, with escaped line ends.
    OneLine(&'a str, &'a [u8]),
    /// `PLAY [all] ***`: no host's.
    Other,
}

/// Reads a header.
pub(crate) fn header(line: &[u8]) -> Option<Header<'_>> {
    if (line.starts_with(b"PLAY ") || line.starts_with(b"TASK [")) && line.ends_with(b"**") {
        return Some(Header::Other);
    }
    ad_hoc(line).or_else(|| task(line))
}

/// `HOST | STATUS …`
fn ad_hoc(line: &[u8]) -> Option<Header<'_>> {
    const STATUS: [&[u8]; 6] = [b"CHANGED", b"SUCCESS", b"FAILED!", b"FAILED", b"UNREACHABLE!", b"SKIPPED"];
    let end = line.iter().take(254).position(|b| *b == b' ')?;
    let host = line.get(..end).and_then(name)?;
    let rest = line.get(end..)?.strip_prefix(b" | ")?;
    let rest = STATUS.iter().find_map(|s| rest.strip_prefix(*s))?;
    if let Some(json) = rest.strip_prefix(b" => ") {
        return json.starts_with(b"{").then_some(Header::Json(host, json));
    }
    let code = rest.strip_prefix(b" | rc=")?;
    let code = code.strip_prefix(b"-").unwrap_or(code);
    let rest = code.after_digits()?;
    match rest {
        b" >>" => Some(Header::Lines(host)),
        _ => Some(Header::OneLine(host, rest.strip_prefix(b" | (stdout) ")?)),
    }
}

/// Whether a line is a whole output with its line ends written as `\\n`.
pub(crate) fn is_one_line(line: &[u8]) -> bool {
    line.get(..512).unwrap_or(line).windows(11).any(|w| w == b" | (stdout)")
        && matches!(ad_hoc(line), Some(Header::OneLine(..)))
}

trait Digits {
    fn after_digits(&self) -> Option<&[u8]>;
}

impl Digits for [u8] {
    /// What follows at least one digit.
    fn after_digits(&self) -> Option<&[u8]> {
        let n = self.iter().take_while(|b| b.is_ascii_digit()).count();
        (n > 0).then(|| self.get(n..)).flatten()
    }
}

/// `ok: [HOST] => {`, `changed: [HOST -> DELEGATE] => (item=x) => {…}`, `fatal: [HOST]: FAILED! => {…}`
fn task(line: &[u8]) -> Option<Header<'_>> {
    const RESULTS: [&[u8]; 6] = [b"ok: [", b"changed: [", b"failed: [", b"fatal: [", b"skipping: [", b"unreachable: ["];
    let rest = RESULTS.iter().find_map(|r| line.strip_prefix(*r))?;
    let end = rest.iter().take(512).position(|b| *b == b']')?;
    let who = rest.get(..end)?;
    let host = name(who.split(|b| *b == b' ').next()?)?;
    let tail = rest.get(end + 1..)?;
    if let Some((_, json)) = super::super::text::cut(tail, b"=> {") {
        let from = line.len().checked_sub(json.len().checked_add(1)?)?;
        return Some(Header::Json(host, line.get(from..)?));
    }
    (tail.is_empty() || tail.starts_with(b" =>")).then_some(Header::Lines(host))
}

fn name(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|h| is_host(h))
}

/// Hands on what commands printed, by host: `stdout_lines` (or `stdout`) of one result, of `debug: var=…`, or of all
/// results of the JSON callback (`plays[].tasks[].hosts{}`). Says whether there was any.
pub(crate) fn outputs(object: &Value, each: &mut dyn FnMut(Option<&str>, &str)) -> bool {
    let Some(plays) = object.get("plays").and_then(Value::as_array) else {
        return result(object, None, each);
    };
    let mut any = false;
    for task in plays.iter().filter_map(|p| p.get("tasks")?.as_array()).flatten() {
        for (host, of_host) in task.get("hosts").and_then(Value::as_object).into_iter().flatten() {
            any |= result(of_host, Some(host.as_str()).filter(|h| is_host(h)), each);
        }
    }
    any
}

fn result(object: &Value, host: Option<&str>, each: &mut dyn FnMut(Option<&str>, &str)) -> bool {
    let Some(object) = object.as_object() else { return false };
    let mut any = false;
    let lists = object.iter().filter(|(k, _)| *k == "stdout_lines" || k.ends_with(".stdout_lines"));
    for line in lists.filter_map(|(_, v)| v.as_array()).flatten().filter_map(Value::as_str) {
        any = true;
        each(host, line);
    }
    if !any {
        let texts = object.iter().filter(|(k, _)| *k == "stdout" || k.ends_with(".stdout"));
        for line in texts.filter_map(|(_, v)| v.as_str()).flat_map(str::lines) {
            any = true;
            each(host, line);
        }
    }
    // Results of a loop.
    for item in object.get("results").and_then(Value::as_array).into_iter().flatten() {
        any |= item.get("results").is_none() && result(item, host, each);
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_each_form() {
        for (line, want) in [
            (&b"gpu-017 | CHANGED | rc=0 >>"[..], Some(Header::Lines("gpu-017"))),
            (b"gpu-017 | FAILED | rc=-1 >>", Some(Header::Lines("gpu-017"))),
            (b"gpu-017 | UNREACHABLE! => {", Some(Header::Json("gpu-017", b"{"))),
            (b"gpu-017 | CHANGED | rc=0 | (stdout) a\\nb", Some(Header::OneLine("gpu-017", b"a\\nb"))),
            (b"ok: [gpu-017] => {", Some(Header::Json("gpu-017", b"{"))),
            (b"changed: [gpu-017 -> gpu-018] => {\"a\": 1}", Some(Header::Json("gpu-017", b"{\"a\": 1}"))),
            (b"fatal: [gpu-017]: FAILED! => {\"a\": 1}", Some(Header::Json("gpu-017", b"{\"a\": 1}"))),
            (b"ok: [gpu-017]", Some(Header::Lines("gpu-017"))),
            (b"TASK [command] ****", Some(Header::Other)),
            (b"a | b", None),
            (b"gpu 017 | CHANGED | rc=0 >>", None),
            (b"x | CHANGED | rc= >>", None),
            (b"ok: [", None),
        ] {
            assert_eq!(header(line), want, "{}", String::from_utf8_lossy(line));
        }
    }
}
