//! Up to three words before a time: stern (`POD CONTAINER line`), knife (`HOST line`), journald forwarders.

use super::super::stamp;
use super::{Labels, Peeled, host_word, opens};
use crate::oom::text;

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    if head.stamp.is_some() || head.weak.is_some() {
        return None;
    }
    let (first, mut after) = text::word(rest);
    let name = host_word(first)?;
    for _ in 0..3 {
        after = after.trim_ascii_start();
        let begins = after.starts_with(b"[") && opens(after, labels) || after.starts_with(b"{\"");
        if begins || stamp::any(after).is_some() {
            head.weak = Some(name.as_bytes().into());
            return Some(after);
        }
        let (word, beyond) = after.split_at_checked(after.iter().position(|b| matches!(b, b' ' | b'\t'))?)?;
        if word.len() > 64 || !word.is_ascii() && word != "›".as_bytes() {
            return None;
        }
        after = beyond;
    }
    None
}
