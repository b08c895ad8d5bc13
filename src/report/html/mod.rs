//! The report as one page: nothing is loaded from anywhere, everything from outside is escaped, it prints, it follows the
//! reader's light or dark scheme, and without its one small script all of it can still be read.

mod findings;
mod hex;
mod incident;
mod inventory;
mod liveness;
mod markup;
mod section;
mod summary;
mod timeline;
mod track;

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::model::Report;
use super::size::Zone;
use super::table::{by_weight, headline, quiet};
use super::view::times;
use markup::Html;

/// The one script, as it stands between its tags.
const SCRIPT: &str = concat!("\n", include_str!("sort.js"));

/// What a browser is told about the page: it may load nothing, and run the one script that has this hash.
fn policy() -> String {
    let hash = data_encoding::BASE64.encode(&Sha256::digest(SCRIPT));
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'")
}

/// Incidents that get pictures and tables; the others are named.
const INCIDENTS: usize = 12;

/// Writes [`render`]'s text.
///
/// # Errors
/// Whatever `out` fails with; a broken pipe is the caller's to forgive.
pub fn write_html(report: &Report, out: &mut impl Write) -> io::Result<()> {
    out.write_all(render(report).as_bytes())
}

/// The whole page.
pub fn render(report: &Report) -> String {
    let incidents = by_weight(report);
    let times = times(report, Zone::Utc);
    let title = incidents.first().map_or_else(|| quiet(report), |i| headline(report, i));
    let mut h = Html::default();
    h.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    h.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy())]).line();
    h.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    h.raw("<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n");
    h.leaf("title", &[], &title).line();
    h.raw("<style>\n").raw(include_str!("style.css")).raw("</style>\n</head>\n<body>\n");
    summary::header(&mut h, report, &incidents, &times);
    h.raw("<main>\n");
    for (at, one) in incidents.iter().take(INCIDENTS).enumerate() {
        incident::section(&mut h, report, one, &times, (incidents.len() > 1).then_some(at + 1));
    }
    if incidents.len() > INCIDENTS {
        h.raw("<section><h2>Further incidents</h2><ul>");
        for one in incidents.iter().skip(INCIDENTS).take(500) {
            h.leaf("li", &[], &headline(report, one));
        }
        h.raw("</ul></section>\n");
    }
    if incidents.is_empty() {
        timeline::of_findings(&mut h, report, &times);
    }
    hex::section(&mut h, report, &incidents, &times);
    findings::section(&mut h, report, &times);
    inventory::oom_events(&mut h, report, &times);
    inventory::listeners(&mut h, report, &times);
    inventory::scans(&mut h, report, &times);
    inventory::jobs(&mut h, report, &times);
    inventory::clocks(&mut h, report);
    inventory::inputs(&mut h, report, &times);
    h.raw("</main>\n");
    inventory::footer(&mut h, report);
    h.raw("<script>").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    h.finish()
}
