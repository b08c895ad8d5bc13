//! Marks of quoting: `> ` of mail, list marks, quotation marks, `data: ` of server-sent events, record separators.

use super::{Labels, Peeled, opens};

pub(super) fn take<'a>(_: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    match rest.first()? {
        b'>' => Some(rest.get(1..)?),
        b'\x1e' | b'\t' => Some(rest.get(1..)?),
        b'|' | b'-' | b'*' | b'"' | b'\'' | b'`' => {
            let n = rest.iter().take_while(|b| matches!(b, b'|' | b'-' | b'*' | b'"' | b'\'' | b'`' | b' ')).count();
            let after = rest.get(n..)?;
            (n <= 6 && opens(after, labels)).then_some(after)
        }
        b'd' => rest.strip_prefix(b"data: ").filter(|r| r.starts_with(b"{") || opens(r, labels)),
        b'M' => rest.strip_prefix(b"MESSAGE="),
        _ => None,
    }
}
