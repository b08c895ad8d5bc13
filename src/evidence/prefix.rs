//! Lines as `pdsh` prints them.

use std::io::{self, BufRead};

/// A host's name in front of a line is no longer than this.
const MAX_PREFIX: usize = 255;

/// What `pdsh` put in front of a line, and the line: `node-a: {…}`. IPv6 addresses have colons of their own.
pub(super) fn peeled(line: &[u8]) -> (Option<&str>, &[u8]) {
    if line.starts_with(b"{") {
        return (None, line);
    }
    let Some(at) = line.windows(3).take(MAX_PREFIX).position(|w| w == b": {") else { return (None, line) };
    let host = line.get(..at).and_then(|h| std::str::from_utf8(h).ok()).map(str::trim);
    let host = host.filter(|h| !h.is_empty() && !h.contains(|c: char| c.is_whitespace() || c.is_control()));
    match host {
        Some(host) => (Some(host), line.get(at + 2..).unwrap_or_default()),
        None => (None, line),
    }
}

/// The task that `srun -l` put in front of a line, and the line: ` 3: {…`. A task's number is no host.
pub(super) fn labelled(line: &[u8]) -> Option<(u64, &[u8])> {
    let line = line.trim_ascii_start();
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    let body = line.get(digits..)?.strip_prefix(b": ").filter(|_| (1..=9).contains(&digits))?;
    let number = std::str::from_utf8(line.get(..digits)?).ok()?.parse().ok()?;
    Some((number, body))
}

/// Passes over the rest of a line.
pub(super) fn pass_over(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let (used, end) = {
            let buffer = input.fill_buf()?;
            match buffer.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            }
        };
        input.consume(used);
        if end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_no_host() {
        assert_eq!(labelled(b" 3: {\"x\":1}"), Some((3, &b"{\"x\":1}"[..])));
        assert_eq!(labelled(b"12: "), Some((12, &b""[..])));
        for other in [&b"2001:db8::1: {}"[..], b"192.0.2.1: {}", b"{\"a\":1}", b": {}", b"9999999999: x", b"n1: {}"] {
            assert_eq!(labelled(other), None);
        }
    }

    #[test]
    fn a_host_in_front_of_a_line_is_peeled() {
        assert_eq!(peeled(b"node-a: {\"x\":1}"), (Some("node-a"), &b"{\"x\":1}"[..]));
        assert_eq!(peeled(b"2001:db8::1: {}"), (Some("2001:db8::1"), &b"{}"[..]));
        assert_eq!(peeled(b"{\"a\": {}}"), (None, &b"{\"a\": {}}"[..]));
        assert_eq!(peeled(b"pdsh@vm: node-a: {}").0, None);
        assert_eq!(peeled(b"x"), (None, &b"x"[..]));
    }
}
