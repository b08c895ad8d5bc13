//! What stands in brackets: seconds since boot with the delta of `dmesg -d`, `dmesg -T`, ISO times (Slurm, Talos),
//! `[Sep21 14:13]` of `dmesg -e`, caller ids, `[pod/NAME/CONTAINER]` of kubectl, `[HOST] out:` of fabric, levels.

use super::super::format::Format;
use super::super::options::Clock;
use super::super::stamp::{self, SECOND, Stamp};
use super::super::text;
use super::{Labels, Peeled, date, host_word, level, opens};

/// `dmesg -T` drops the fraction of the boot time and that of the record: the kill was up to two seconds later.
const LATER: Clock = Clock { from: "dmesg -T: up to 2 s before the kill", floor: 2 * SECOND, after: true };

pub(super) fn take<'a>(head: &mut Peeled<'a>, rest: &'a [u8], labels: &Labels) -> Option<&'a [u8]> {
    let inner = rest.strip_prefix(b"[")?;
    if let Some((found, after)) = time(inner) {
        match found {
            Some((stamp, format)) => {
                let clock = match format {
                    Format::DmesgTime => LATER,
                    _ => date::KERNEL,
                };
                head.stamped(stamp, clock, format);
                head.open = format == Format::DmesgRaw;
            }
            None => head.open = false,
        }
        return Some(after.strip_prefix(b":").unwrap_or(after));
    }
    let end = inner.iter().take(512).position(|b| *b == b']')?;
    let (inside, after) = (inner.get(..end)?, inner.get(end + 1..)?);
    if let Some(pod) = inside.strip_prefix(b"pod/") {
        let (name, container) = text::cut(pod, b"/")?;
        let name = host_word(name).filter(|_| !container.is_empty())?;
        head.weak = Some(name.as_bytes().into());
        head.contained = true;
        return Some(after);
    }
    let bare = inside.trim_ascii();
    let caller =
        |c: &[u8]| c.strip_prefix(b"T").or_else(|| c.strip_prefix(b"C")).is_some_and(|n| text::whole(n).is_some());
    if (caller(bare) && head.stamp.is_some()) || level::is_level(bare) {
        return Some(after.strip_prefix(b":").unwrap_or(after));
    }
    // fabric, and tools that put the host in brackets.
    let out = after.strip_prefix(b" out: ").or_else(|| after.strip_prefix(b" err: "));
    let mut words = inside.split(|b| *b == b' ');
    let name = words.next().and_then(host_word)?;
    let next = out.or_else(|| after.strip_prefix(b":").or(Some(after)).filter(|a| opens(a, labels)))?;
    match words.next() {
        None if head.stamp.is_none() => head.label = Some(name.rsplit('@').next().unwrap_or(name).as_bytes().into()),
        // kubetail prints `[pod container]`.
        Some(_) if head.stamp.is_none() => {
            head.weak = Some(name.as_bytes().into());
            head.contained = true;
        }
        _ => {}
    }
    Some(next)
}

/// A stamp and the bracket that closes it. `None` within: a delta alone, of `dmesg -d` or `-e`.
fn time(inner: &[u8]) -> Option<(Option<(Stamp, Format)>, &[u8])> {
    let bare = inner.trim_ascii_start();
    if let Some(delta) = bare.strip_prefix(b"<").or_else(|| bare.strip_prefix(b"+")) {
        let (_, rest) = stamp::boot(delta)?;
        let rest = rest.strip_prefix(b">").unwrap_or(rest);
        return Some((None, rest.strip_prefix(b"]")?));
    }
    let (found, format, rest) = match stamp::boot(inner) {
        // Ten digits and more are seconds since 1970; a point behind the fraction is an address.
        Some((stamp, rest))
            if text::number(bare).is_none_or(|(_, r)| bare.len() - r.len() < 10) && !rest.starts_with(b".") =>
        {
            (stamp, Format::DmesgRaw, rest)
        }
        _ => {
            let (stamp, rest) = stamp::any(bare)?;
            let iso = bare.first().is_some_and(u8::is_ascii_digit);
            (stamp, if iso { Format::Slurm } else { Format::DmesgTime }, rest)
        }
    };
    let rest = rest.trim_ascii_start();
    if let Some(delta) = rest.strip_prefix(b"<") {
        return Some((Some((found, format)), text::cut(delta, b">]").filter(|(d, _)| d.len() < 24)?.1));
    }
    // Ray and others put the level and ids into the bracket.
    let end = rest.iter().take(64).position(|b| *b == b']')?;
    let within = rest.get(..end)?;
    let plain = within.iter().all(|b| b.is_ascii_alphanumeric() || b" .:=_-,".contains(b));
    plain.then_some((Some((found, format)), rest.get(end + 1..)?))
}
