//! `HOST PROGRAM[PID]: ` behind a time, or `PROGRAM: ` alone.

use super::{Labels, Peeled, Writer, host_word, level};
use crate::oom::{prefilter, text};

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], _: &Labels) -> Option<&'a [u8]> {
    let open = std::mem::take(&mut head.open);
    let (first, after) = text::word(rest);
    if let Some(after) = program(head, first, after, open) {
        return Some(after);
    }
    if !open || head.host.is_some() || level::is_level(first) {
        head.open = open && level::is_level(first);
        return None;
    }
    let host = host_word(first)?;
    let rest = after.trim_ascii_start();
    let (second, beyond) = text::word(rest);
    // Of the ring buffer only the kernel's name and a program with its number tell a host from a word of the message.
    let boot_alone = head.stamp.is_some_and(|(s, _)| matches!(s, super::super::stamp::Stamp::Boot { .. }));
    let sure = second == b"kernel:" || second.ends_with(b"]:") && second.contains(&b'[');
    let named = sure || !boot_alone && is_program(second);
    let facility = || super::facility::take(&mut Peeled::default(), rest, &Labels::default()).is_some();
    let begins = prefilter::kernel_words(rest) == Some(0) || rest.starts_with(b"[") && !boot_alone || facility();
    if !named && (!begins || boot_alone) {
        return None;
    }
    head.host = Some(host.as_bytes().into());
    if let Some(after) = program(head, second, beyond, true).filter(|_| named) {
        return Some(after);
    }
    Some(rest)
}

/// A word that ends in a colon and is no beginning of what the kernel says of a kill.
fn is_program(word: &[u8]) -> bool {
    word.len() > 1
        && word.ends_with(b":")
        && !word.starts_with(b"oom")
        && !word.eq_ignore_ascii_case(b"memory:")
        && word.iter().all(|b| b.is_ascii_graphic() && !b"\"{},;=".contains(b))
}

/// Programs that are believed without a time before them or a number behind.
const KNOWN: [&[u8]; 14] = [
    b"kernel",
    b"systemd",
    b"systemd-oomd",
    b"earlyoom",
    b"kubelet",
    b"containerd",
    b"dockerd",
    b"crio",
    b"slurmstepd",
    b"slurmd",
    b"slurmctld",
    b"node-problem-detector",
    b"pbs_mom",
    b"klogd",
];

fn program<'a>(head: &mut Peeled<'a>, word: &'a [u8], after: &'a [u8], behind: bool) -> Option<&'a [u8]> {
    let bare = word.strip_suffix(b":")?;
    let name = match text::cut(bare, b"[") {
        Some((name, pid)) if pid.ends_with(b"]") => name,
        _ => bare,
    };
    let number = name.len() < bare.len();
    if name.is_empty() || !is_program(word) || !(behind || number || KNOWN.contains(&name)) {
        return None;
    }
    match name {
        b"kernel" if !number => {
            if head.writer == Writer::Unknown {
                head.writer = Writer::Kernel;
            }
        }
        name => head.writer = Writer::Program(name.into()),
    }
    Some(after.strip_prefix(b" ").unwrap_or(after))
}
