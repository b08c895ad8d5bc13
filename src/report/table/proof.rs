//! The frames themselves, so that every trigger can be checked by hand.

use super::evidence::{claim, dialect_words, effect, effect_that_holds, endpoint};
use super::page::{Page, hard, t};
use super::verdict::by_weight;
use crate::report::escape::{clean, columns};
use crate::report::model::{Finding, Report, Severity};
use crate::report::size;
use crate::report::view::{is_file, triggers};

/// Proofs unless verbose.
const PROOFS: usize = 8;
/// Bytes shown of each message.
const BYTES: usize = 64;

/// The proof of each trigger, then of the other critical findings.
pub(super) fn proofs(page: &mut Page, report: &Report) {
    let mut shown: Vec<&Finding> = Vec::new();
    let others = report
        .findings
        .iter()
        .filter(|f| f.severity >= if page.verbose() { Severity::Warning } else { Severity::Critical });
    let all = by_weight(report).into_iter().flat_map(|incident| triggers(report, incident)).chain(others);
    let mut seen = std::collections::BTreeSet::new();
    for finding in all {
        if seen.insert(finding.id.as_str()) {
            shown.push(finding);
        }
    }
    if shown.is_empty() {
        return;
    }
    page.heading("Evidence, to be checked by hand");
    for (at, finding) in shown.iter().take(page.at_most(PROOFS)).enumerate() {
        if at > 0 {
            page.gap();
        }
        proof(page, finding);
    }
    page.gap();
    page.rest(shown.len().saturating_sub(page.at_most(PROOFS)), "more frame", "more frames", 0);
}

fn proof(page: &mut Page, finding: &Finding) {
    let capture = finding.capture.as_deref().map_or("no capture".into(), t);
    let packet = finding.packet.map_or(String::new(), |packet| format!("packet {packet} of "));
    let host = finding.target.as_ref().and_then(|target| target.host.as_deref());
    let host = host.map_or(String::new(), |host| format!(" (to {})", clean(host.as_bytes(), 40)));
    page.hang(&format!("{packet}{capture}{host}"), 0, 4);
    let source = finding.source.as_ref().map(|s| endpoint(&s.address, s.port));
    let target = finding.target.as_ref().map(|t| endpoint(&t.address, t.port));
    if source.is_some() || target.is_some() {
        let unknown = || "unknown".to_string();
        let mut text = format!("{} → {}", source.unwrap_or_else(unknown), target.unwrap_or_else(unknown));
        if let Some(time) = finding.time {
            text.push_str(&format!(", {}", hard(&page.times.short(time))));
        }
        if let Some(id) = &finding.community_id {
            text.push_str(&format!(", {}", hard(&format!("community id {}", t(id)))));
        }
        page.hang(&text, 2, 4);
    }
    for outer in &finding.outer {
        let id = outer.id.map_or(String::new(), |id| format!(" {id}"));
        page.hang(&format!("inside {}{id}, {} → {}", t(&outer.kind), t(&outer.source), t(&outer.target)), 2, 4);
    }
    reading(page, finding);
    bytes(page, "", finding.bytes_hex.as_deref());
    bytes(page, "the overlapping segment says instead", finding.alternate_bytes_hex.as_deref());
    sightings(page, finding);
    if let (Some(capture), Some(packet)) = (finding.capture.as_deref(), finding.packet) {
        command(page, "tshark", capture, &format!("-Y frame.number=={packet} -x"));
    }
}

/// What the bytes were read as, and why.
fn reading(page: &mut Page, finding: &Finding) {
    let mut parts = Vec::new();
    parts.extend(finding.stream_offset.map(|offset| format!("stream offset {}", hard(&size::grouped(offset)))));
    if let Some(stray) = &finding.stray {
        let named = |name: &Option<String>| name.as_deref().map(|name| clean(name.as_bytes(), 40));
        let protocol = named(&stray.protocol).map(|protocol| format!("({protocol})"));
        let names: Vec<_> = [named(&stray.tool), named(&stray.probe), protocol].into_iter().flatten().collect();
        if !names.is_empty() {
            parts.push(format!("sent as {}", names.join(" ")));
        }
    }
    let claim = claim(finding);
    if !claim.is_empty() {
        parts.push(format!("read as {claim}"));
    }
    parts.extend(finding.delivered_bytes.map(|n| hard(&format!("{} delivered", size::bytes(n)))));
    if !parts.is_empty() {
        page.hang(&parts.join("; "), 2, 4);
    }
    let protocol = finding.protocol.as_deref().map_or(String::new(), |p| format!("{} ", clean(p.as_bytes(), 20)));
    match (&finding.dialect, finding.dialect_candidates.as_slice()) {
        (Some(dialect), _) => page.hang(&format!("dialect {protocol}{}", dialect_words(dialect)), 2, 4),
        (None, []) => {}
        (None, candidates) => {
            let candidates: Vec<_> = candidates.iter().take(12).map(|c| dialect_words(c)).collect();
            page.hang(&format!("dialect {protocol}unknown; it may be {}", candidates.join(", ")), 2, 4);
        }
    }
    for why in &finding.evidence {
        page.hang(&format!("because {}", t(why)), 4, 6);
    }
    match &finding.effect {
        Some(holds) => page.hang(&effect_that_holds(finding, holds), 2, 4),
        None => {
            for candidate in finding.effects.iter().take(page.at_most(8)) {
                page.hang(&format!("perhaps: {}", effect(candidate)), 2, 4);
            }
        }
    }
}

/// Bytes, sixteen a line, with their ASCII reading.
fn bytes(page: &mut Page, label: &str, hex: Option<&str>) {
    let Some(hex) = hex.filter(|hex| !hex.is_empty()) else { return };
    if !label.is_empty() {
        page.hang(label, 2, 4);
    }
    let Some(bytes) = decoded(hex, BYTES) else {
        page.hang(&t(hex), 4, 4);
        return;
    };
    // Sixteen bytes with offset and ASCII take 77 columns, which every page has.
    for (at, line) in bytes.chunks(16).enumerate() {
        let mut digits = String::new();
        for (i, byte) in line.iter().enumerate() {
            digits.push_str(if i == 8 { "  " } else { " " });
            digits.push_str(&format!("{byte:02x}"));
        }
        let ascii: String = line.iter().map(|b| if (0x20..0x7f).contains(b) { char::from(*b) } else { '.' }).collect();
        page.exactly(&format!("    {:04x} {digits:<49}  {ascii}", at * 16).replace(' ', "\u{a0}"));
    }
    let more = hex.len() / 2 - bytes.len();
    if more > 0 {
        page.hang(&format!("and {} more", hard(&size::bytes(more as u64))), 4, 4);
    }
}

/// The first `most` bytes of a hexadecimal text, or `None` when it is none.
pub(in crate::report) fn decoded(hex: &str, most: usize) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|v| u8::try_from(v).ok());
    digits
        .chunks_exact(2)
        .take(most)
        .map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        })
        .collect()
}

fn sightings(page: &mut Page, finding: &Finding) {
    if finding.sightings.is_empty() {
        return;
    }
    let mut places: Vec<_> = finding
        .sightings
        .iter()
        .take(page.at_most(4))
        .map(|s| match s.packet {
            Some(packet) => format!("{} #{packet}", t(&s.capture)),
            None => t(&s.capture).into_owned(),
        })
        .collect();
    let hidden = finding.sightings.len() - places.len();
    if hidden > 0 {
        places.push(format!("{hidden} more"));
    }
    page.hang(&format!("also in {}", places.join(", ")), 2, 4);
}

/// A command about a capture, in a form that a shell takes back even where it is broken: `tshark -r FILE OPTIONS`.
pub(super) fn command(page: &mut Page, program: &str, capture: &str, options: &str) {
    if !is_file(capture) {
        return;
    }
    let path = quoted(capture);
    let whole = format!("  {program} -r {path} {options}");
    if columns(&whole) <= page.width() {
        page.exactly(whole.trim_end());
    } else if columns(&path) + program.len() + 8 <= page.width() && path == clean(path.as_bytes(), usize::MAX) {
        page.exactly(&format!("  {program} -r {path} \\"));
        page.exactly(&format!("    {options}"));
    } else {
        // Pieces of one word: a backslash at the line's end joins it with the next line's beginning.
        page.exactly(&format!("  {program} \\"));
        page.exactly(&format!("    {options} -r \\"));
        let chars: Vec<char> = t(capture).chars().collect();
        // Wide characters and the escapes of an ASCII page take up to ten columns each.
        let a_line = if capture.is_ascii() { page.width() - 8 } else { page.width() / 12 };
        let mut pieces = chars.chunks(a_line.max(1)).peekable();
        while let Some(piece) = pieces.next() {
            let piece = quoted(&piece.iter().collect::<String>());
            page.exactly(&if pieces.peek().is_some() { format!("{piece}\\") } else { piece });
        }
    }
}

/// A word as a shell takes it.
pub(in crate::report) fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./:@%+=,-".contains(&b);
    let word = t(word);
    if !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_one_word() {
        assert_eq!(quoted("captures/node-a.pcap"), "captures/node-a.pcap");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("x; rm -rf '$HOME'"), "'x; rm -rf '\\''$HOME'\\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn hexadecimal_or_nothing() {
        assert_eq!(decoded("0300ff", 9), Some(vec![3, 0, 255]));
        assert_eq!(decoded("0300ff", 1), Some(vec![3]));
        assert_eq!(decoded("030", 9), None);
        assert_eq!(decoded("zz", 9), None);
        assert_eq!(decoded("é", 9), None);
    }
}
