//! The bytes themselves: type, length and payload in colours, and how to look at the frame elsewhere.

use super::markup::Html;
use crate::report::model::{Finding, Incident, Report, Severity};
use crate::report::size::{Times, grouped};
use crate::report::table::{claim, decoded, dialect_words, effect, effect_that_holds, endpoint, quoted};
use crate::report::view::{self, triggers};

/// Frames shown.
const FRAMES: usize = 24;
/// Bytes shown of each.
const BYTES: usize = 256;

/// What a byte is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HexSpan {
    Type,
    Length,
    Payload,
    Other,
}

impl HexSpan {
    fn class(self) -> &'static str {
        match self {
            HexSpan::Type => "ty",
            HexSpan::Length => "le",
            HexSpan::Payload => "pa",
            HexSpan::Other => "ot",
        }
    }
}

/// The frames of all triggers, then those of the other findings at warning or above that hold bytes.
pub(super) fn section(h: &mut Html, report: &Report, incidents: &[&Incident], times: &Times) {
    let mut seen = std::collections::HashSet::new();
    let mut others: Vec<&Finding> = report.findings.iter().filter(|f| f.severity >= Severity::Warning).collect();
    others.sort_by_key(|f| std::cmp::Reverse(f.severity));
    let all = incidents.iter().flat_map(|i| triggers(report, i)).chain(others);
    let shown: Vec<&Finding> = all.filter(|f| f.bytes_hex.is_some() && seen.insert(f.id.as_str())).collect();
    if shown.is_empty() {
        return;
    }
    h.raw("<section id=\"bytes\">\n<h2>The bytes</h2>\n<p class=\"legend\"><span class=\"ty\">query type</span> ");
    h.raw("<span class=\"le\">declared length or count (little-endian)</span> <span class=\"pa\">payload</span></p>\n");
    h.raw("<div class=\"frames\">\n");
    for f in shown.iter().take(FRAMES) {
        frame(h, f, times);
    }
    h.raw("</div>\n");
    super::section::rest(h, shown.len(), FRAMES, "frames");
    h.raw("</section>\n");
}

fn frame(h: &mut Html, f: &Finding, times: &Times) {
    h.open("article", &[("class", "frame"), ("id", &format!("f-{}", f.id))]).raw("<h3>");
    let host = f.target.as_ref().map_or("", |t| t.host.as_deref().unwrap_or(&t.address));
    h.text(host).raw(" <small>");
    let capture = f.capture.as_deref().unwrap_or("no capture");
    h.text(&f.packet.map_or(capture.to_string(), |p| format!("packet {p} of {capture}")));
    h.raw("</small></h3>\n<p>");
    let source = f.source.as_ref().map_or(String::new(), |s| endpoint(&s.address, s.port));
    let target = f.target.as_ref().map_or(String::new(), |t| endpoint(&t.address, t.port));
    let time = f.time.map_or(String::new(), |t| format!(", {}", times.short(t)));
    h.text(&format!("{source} → {target}{time}"));
    if let Some(id) = &f.community_id {
        h.text(", community id ").leaf("code", &[], id);
    }
    for o in &f.outer {
        let id = o.id.map_or(String::new(), |id| format!(" {id}"));
        h.text(&format!("; inside {}{id}, {} → {}", o.kind, o.source, o.target));
    }
    h.raw("</p>\n<p>Read as <b>").prose(&claim(f).replace('\u{a0}', " ")).raw("</b>");
    if let Some(dialect) = &f.dialect {
        h.text(&format!(", dialect {}", dialect_words(dialect)));
    }
    if let Some(n) = f.delivered_bytes {
        h.text(&format!("; {} bytes of it were delivered", grouped(n)));
    }
    h.raw(".</p>\n");
    dump(h, f, f.bytes_hex.as_deref().unwrap_or_default());
    if let Some(other) = &f.alternate_bytes_hex {
        h.raw("<p>The overlapping segment says instead:</p>");
        dump(h, f, other);
    }
    h.raw("<details><summary>Why it is read so, and how to check it</summary><ul>");
    for e in &f.evidence {
        h.leaf("li", &[], e);
    }
    match &f.effect {
        Some(e) => {
            h.leaf("li", &[], &effect_that_holds(f, e));
        }
        None => {
            for e in f.effects.iter().take(8) {
                h.leaf("li", &[], &format!("perhaps: {}", effect(e)));
            }
        }
    }
    h.raw("</ul>");
    if let (Some(capture), Some(packet)) = (f.capture.as_deref().filter(|c| view::is_file(c)), f.packet) {
        let command = format!("tshark -r {} -Y frame.number=={packet} -x", quoted(capture));
        h.raw("<pre class=\"command\">").text(&command).raw("</pre>");
    }
    for s in f.sightings.iter().take(8) {
        let packet = s.packet.map_or(String::new(), |p| format!(", packet {p}"));
        h.leaf("p", &[("class", "muted")], &format!("also in {}{packet}", s.capture));
    }
    h.raw("</details></article>\n");
}

fn dump(h: &mut Html, f: &Finding, hex: &str) {
    let Some(bytes) = decoded(hex, BYTES) else { return };
    let parts = parts(f, &bytes);
    h.raw("<pre class=\"dump\">");
    for (row, (line, of)) in bytes.chunks(16).zip(parts.chunks(16)).enumerate() {
        h.leaf("i", &[], &format!("{:04x}", row * 16)).text("  ");
        runs(h, line, of, |b| format!("{b:02x}"), |at| if at % 8 == 7 { "  " } else { " " });
        let missing = 16 - line.len();
        h.text(&" ".repeat(missing * 3 + usize::from(line.len() < 8) + usize::from(missing > 0)));
        let ascii = |b| if (0x20..0x7f).contains(&b) { char::from(b).to_string() } else { ".".to_string() };
        runs(h, line, of, ascii, |_| "");
        h.line();
    }
    h.raw("</pre>\n");
    let more = (hex.len() / 2).saturating_sub(bytes.len());
    super::section::rest(h, bytes.len() + more, bytes.len(), "bytes");
}

/// Bytes of one part in one element, with what stands between two of them.
fn runs(
    h: &mut Html,
    line: &[u8],
    parts: &[HexSpan],
    show: impl Fn(u8) -> String,
    after: impl Fn(usize) -> &'static str,
) {
    let mut open = None;
    for (at, (b, part)) in line.iter().zip(parts).enumerate() {
        let between = if at > 0 { after(at - 1) } else { "" };
        if open == Some(*part) {
            h.text(between);
        } else {
            if open.is_some() {
                h.close("span");
            }
            h.text(between).open("span", &[("class", part.class())]);
            open = Some(*part);
        }
        h.text(&show(*b));
    }
    if open.is_some() {
        h.close("span").text(line.len().checked_sub(1).map_or("", after));
    }
}

/// The length field is where the declared number stands in the bytes, little-endian, after the type: it is looked for,
/// not assumed, so that no byte is coloured as what it is not.
fn parts(f: &Finding, bytes: &[u8]) -> Vec<HexSpan> {
    let mut parts = vec![HexSpan::Other; bytes.len()];
    if f.query.is_some()
        && let Some(first) = parts.first_mut()
    {
        *first = HexSpan::Type;
    }
    let declared = f.declared.as_ref().and_then(|d| d.bytes.or(d.count)).filter(|n| *n > 0);
    let Some(number) = declared else { return parts };
    let wide = number.to_le_bytes();
    let narrow = u32::try_from(number).map(u32::to_le_bytes).ok();
    let found = bytes.windows(8).skip(1).position(|w| w == wide).map(|at| (at + 1, 8)).or_else(|| {
        let narrow = narrow?;
        bytes.windows(4).skip(1).position(|w| w == narrow).map(|at| (at + 1, 4))
    });
    if let Some((at, width)) = found {
        for (i, part) in parts.iter_mut().enumerate().skip(at) {
            *part = if i < at + width { HexSpan::Length } else { HexSpan::Payload };
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Declared;

    #[test]
    fn the_length_field_is_found_not_assumed() {
        let bytes = decoded("0300002a25e00000000000436f", 99).unwrap();
        let mut f = Finding { query: Some("ADD".into()), ..Finding::default() };
        f.declared = Some(Declared { bytes: Some(962_696_183_808), ..Declared::default() });
        let words: String = parts(&f, &bytes).iter().map(|p| p.class()).collect();
        assert_eq!(words, format!("ty{}{}", "le".repeat(8), "pa".repeat(4)));
        f.declared = Some(Declared { bytes: Some(7), ..Declared::default() });
        assert!(parts(&f, &bytes).iter().skip(1).all(|p| *p == HexSpan::Other));
        assert!(parts(&f, &[]).is_empty());
    }
}
