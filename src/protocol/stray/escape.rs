//! Bytes from the wire as text that no terminal or page can stumble over.

use super::identity::DETAIL;

/// Printable ASCII as it is, everything else (and the backslash) as `\xHH`, `\r`, `\n`, `\t`, `\\`; cut to
/// [`DETAIL`] characters, the last of them `...` when something is missing.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        let more: String =
            byte.escape_ascii().filter(|c| *c != b'\\' || *byte != b'\'' && *byte != b'"').map(char::from).collect();
        if out.len() + more.len() > DETAIL - 3 {
            out.push_str("...");
            break;
        }
        out.push_str(&more);
    }
    out
}

/// The first line of `bytes` without its end, escaped; `None` when it is empty.
pub(super) fn first_line(bytes: &[u8]) -> Option<String> {
    let line = line(bytes).0;
    (!line.is_empty()).then(|| escaped(line))
}

/// The first line without its end, and whether its end was there.
pub(super) fn line(bytes: &[u8]) -> (&[u8], bool) {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return (bytes, false) };
    let line = bytes.get(..end).unwrap_or_default();
    (line.strip_suffix(b"\r").unwrap_or(line), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_ascii_and_nothing_grows() {
        assert_eq!(escaped(b"a\x1b[31m\"'\\\xe2\x80\xae\r\n\0"), r#"a\x1b[31m"'\\\xe2\x80\xae\r\n\x00"#);
        let long = escaped(&[0xff; 10_000]);
        assert!(long.len() <= DETAIL && long.ends_with("..."));
        assert_eq!(first_line(b"one\r\ntwo"), Some("one".into()));
        assert_eq!((first_line(b"\r\n"), line(b"abc")), (None, (&b"abc"[..], false)));
    }
}
