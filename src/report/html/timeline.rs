//! The timeline as inline SVG: hosts as rows, time from left to right.

use std::collections::BTreeSet;

use super::liveness::rows_of_job;
use super::markup::Html;
use super::track::{Band, Kind, Mark, Row, bands, extent, rows_of_findings, rows_of_incident};
use crate::report::escape::clean;
use crate::report::model::{Incident, Job, Report};
use crate::report::size::{Times, span};
use crate::time::{NANOS, Timestamp};

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 40.0;
const ROW: f64 = 76.0;
const BAND: f64 = 34.0;
const TOP: f64 = 10.0;
const AXIS: f64 = 34.0;

/// The timeline of one incident.
pub(super) fn of_incident(h: &mut Html, report: &Report, incident: &Incident, times: &Times) {
    let rows = rows_of_incident(report, incident, times);
    figure(h, report, &rows, times, incident.hosts.len() + incident.survivors.len());
}

/// Without an incident: who was sent what, when.
pub(super) fn of_findings(h: &mut Html, report: &Report, times: &Times) {
    let rows = rows_of_findings(report, times);
    if !rows.is_empty() {
        h.raw("<section><h2>What reached the listeners</h2>\n");
        figure(h, report, &rows, times, rows.len());
        h.raw("</section>\n");
    }
}

/// Who of a job joined, and who fell silent.
pub(super) fn of_job(h: &mut Html, report: &Report, job: &Job, times: &Times) {
    let rows = rows_of_job(job, times);
    if !rows.is_empty() {
        figure(h, report, &rows, times, rows.len());
    }
}

fn figure(h: &mut Html, report: &Report, rows: &[Row], times: &Times, hosts: usize) {
    let bands = bands(report, rows);
    let kinds: BTreeSet<Kind> = rows.iter().flat_map(|r| r.marks.iter().map(|m| m.kind)).collect();
    let Some((first, last)) = extent(rows, &bands) else { return };
    let scale = Scale::over(first, last);
    let height = TOP + bands.len() as f64 * BAND + rows.len() as f64 * ROW + AXIS;
    h.raw("<figure class=\"timeline\"><div class=\"scroll\">\n");
    let view = format!("0 0 {WIDTH} {height}");
    let label = format!("Timeline of {hosts} hosts from {} to {}", times.short(first), times.short(last));
    h.open("svg", &[("viewBox", &view), ("role", "img"), ("aria-label", &label)]).line();
    h.raw("<defs><pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" ");
    h.raw("patternTransform=\"rotate(45)\"><rect class=\"hatch-ground\" width=\"7\" height=\"7\"></rect>");
    h.raw("<line class=\"hatch-line\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\"></line></pattern></defs>\n");
    axis(h, &scale, height - AXIS, times);
    let mut y = TOP;
    for band in &bands {
        draw_band(h, &scale, band, y);
        y += BAND;
    }
    for row in rows {
        draw_row(h, &scale, row, y, times);
        y += ROW;
    }
    h.raw("</svg></div>\n");
    legend(h, &kinds, rows);
    if hosts > rows.len() {
        let text = format!("{} more hosts are in the table.", hosts - rows.len());
        h.leaf("p", &[("class", "muted")], &text);
    }
    h.raw("</figure>\n");
}

/// From instants to places.
struct Scale {
    from: Timestamp,
    nanos: f64,
}

impl Scale {
    /// With some room at both ends.
    fn over(first: Timestamp, last: Timestamp) -> Scale {
        let nanos = (last.seconds_since(first) * NANOS as f64).max(1e6);
        let room = nanos * 0.03;
        Scale { from: first.plus_nanos(-(room as i64)), nanos: nanos + 2.0 * room }
    }

    fn x(&self, time: Timestamp) -> f64 {
        let share = time.seconds_since(self.from) * NANOS as f64 / self.nanos;
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Round instants, at most eleven, and whether they need more than seconds.
    fn ticks(&self) -> (Vec<Timestamp>, bool) {
        const STEPS: [i64; 26] = [
            100_000,
            200_000,
            500_000,
            1_000_000,
            2_000_000,
            5_000_000,
            10_000_000,
            20_000_000,
            50_000_000,
            100_000_000,
            200_000_000,
            500_000_000,
            NANOS,
            2 * NANOS,
            5 * NANOS,
            10 * NANOS,
            15 * NANOS,
            30 * NANOS,
            60 * NANOS,
            120 * NANOS,
            300 * NANOS,
            600 * NANOS,
            1_800 * NANOS,
            3_600 * NANOS,
            21_600 * NANOS,
            86_400 * NANOS,
        ];
        let fits = |step: &i64| self.nanos / *step as f64 <= 10.0;
        // Beyond ten days, as many whole days as it takes.
        let days = (self.nanos / (10.0 * 86_400e9)).ceil().max(1.0) as i64;
        let step = STEPS.into_iter().find(fits).unwrap_or(days.saturating_mul(86_400 * NANOS));
        let mut ticks = Vec::new();
        let mut at = self.from.0.div_euclid(step).saturating_add(1).saturating_mul(step);
        let end = self.from.0.saturating_add(self.nanos as i64);
        while at <= end && ticks.len() < 12 {
            ticks.push(Timestamp(at));
            at = at.saturating_add(step);
        }
        (ticks, step < NANOS)
    }
}

fn n(value: f64) -> String {
    format!("{value:.1}")
}

fn axis(h: &mut Html, scale: &Scale, y: f64, times: &Times) {
    let (ticks, fine) = scale.ticks();
    for tick in ticks {
        let x = n(scale.x(tick));
        h.shape("line", &[("class", "grid"), ("x1", &x), ("y1", &n(TOP)), ("x2", &x), ("y2", &n(y))], "");
        let text = times.within(tick, if fine { 0.001 } else { 1.0 });
        let text = text.trim_end_matches('Z');
        h.leaf("text", &[("class", "tick"), ("x", &x), ("y", &n(y + 16.0)), ("text-anchor", "middle")], text).line();
    }
    let (x1, x2) = (n(LEFT), n(WIDTH - RIGHT));
    h.shape("line", &[("class", "axis"), ("x1", &x1), ("y1", &n(y)), ("x2", &x2), ("y2", &n(y))], "");
    h.leaf("text", &[("class", "tick"), ("x", "0"), ("y", &n(y + 16.0))], "UTC").line();
}

fn draw_band(h: &mut Html, scale: &Scale, band: &Band, y: f64) {
    name(h, &band.name, "", y + 20.0);
    let (x1, x2) = (scale.x(band.span.0), scale.x(band.span.1));
    let length = span(band.span.1.seconds_since(band.span.0));
    let text = format!("scan: {}, {length}", if band.sub.is_empty() { "unknown tool" } else { &band.sub });
    let (x, width) = (n(x1), n((x2 - x1).max(2.0)));
    let place =
        [("class", "scan"), ("x", x.as_str()), ("y", &n(y + 5.0)), ("width", &width), ("height", "22"), ("rx", "4")];
    h.shape("rect", &place, &text);
    // Where the bar is short, its text stands beside it: before it when there is no room after it.
    let needed = text.chars().count() as f64 * 6.6 + 16.0;
    let (x, anchor, class) = match x2 - x1 {
        w if w >= needed => (x1 + 8.0, "start", "scan-text"),
        _ if x2 + needed < WIDTH => (x2 + 6.0, "start", "scan-text"),
        _ => (x1 - 6.0, "end", "scan-text"),
    };
    h.leaf("text", &[("class", class), ("x", &n(x)), ("y", &n(y + 20.0)), ("text-anchor", anchor)], &text).line();
}

fn name(h: &mut Html, name: &str, sub: &str, y: f64) {
    h.leaf("text", &[("class", "host"), ("x", "0"), ("y", &n(y))], &clean(name.as_bytes(), 19));
    if !sub.is_empty() {
        h.leaf("text", &[("class", "host-sub"), ("x", "0"), ("y", &n(y + 15.0))], &clean(sub.as_bytes(), 21));
    }
    h.line();
}

fn draw_row(h: &mut Html, scale: &Scale, row: &Row, y: f64, times: &Times) {
    let middle = y + 40.0;
    let (x1, x2) = (n(LEFT), n(WIDTH - RIGHT));
    h.shape("line", &[("class", "row"), ("x1", &x1), ("y1", &n(y)), ("x2", &x2), ("y2", &n(y))], "");
    name(h, &row.name, &row.sub, middle - 2.0);
    if let Some((from, to)) = row.scan {
        let (x, width) = (n(scale.x(from) - 6.0), n(scale.x(to) - scale.x(from) + 12.0));
        let (top, title) =
            (n(middle - 13.0), format!("messages of strangers, {} to {}", times.short(from), times.short(to)));
        let place =
            [("class", "reach"), ("x", x.as_str()), ("y", &top), ("width", &width), ("height", "26"), ("rx", "4")];
        h.shape("rect", &place, &title);
    }
    if let Some((from, to)) = row.silence {
        let (x, width) = (n(scale.x(from)), n((scale.x(to) - scale.x(from)).max(1.0)));
        let (top, title) = (n(middle - 8.0), format!("silent for {}", span(to.seconds_since(from))));
        let place = [("class", "silence"), ("x", x.as_str()), ("y", &top), ("width", &width), ("height", "16")];
        h.shape("rect", &place, &title);
    }
    if let Some((from, to, text)) = &row.lag {
        lag(h, scale.x(*from), scale.x(*to), y + 17.0, text);
    }
    for mark in &row.marks {
        draw_mark(h, scale.x(mark.time), middle, mark);
    }
    h.line();
    // The two times that matter, below their marks and never over one another.
    let trigger = row.marks.iter().rfind(|m| m.kind == Kind::Trigger);
    let trigger = trigger.or(row.marks.iter().rfind(|m| m.kind == Kind::Silent));
    let kill = row.marks.iter().rfind(|m| m.kind == Kind::Kill).or(row.marks.iter().rfind(|m| m.kind == Kind::Death));
    let apart = match (trigger, kill) {
        (Some(t), Some(k)) => scale.x(k.time) - scale.x(t.time) > 150.0,
        _ => true,
    };
    for (mark, shown) in [(trigger, true), (kill, apart)] {
        let Some(mark) = mark.filter(|_| shown) else { continue };
        let x = scale.x(mark.time).clamp(LEFT + 34.0, WIDTH - 34.0);
        let text = times.within(mark.time, 0.001);
        h.leaf("text", &[("class", "when"), ("x", &n(x)), ("y", &n(middle + 28.0)), ("text-anchor", "middle")], &text);
    }
    h.line();
}

/// A dimension line with its figure.
fn lag(h: &mut Html, x1: f64, x2: f64, y: f64, text: &str) {
    let half = text.chars().count() as f64 * 3.6 + 6.0;
    let middle = (x1 + x2) / 2.0;
    let line = |h: &mut Html, from: (f64, f64), to: (f64, f64)| {
        let (ax, ay, bx, by) = (n(from.0), n(from.1), n(to.0), n(to.1));
        h.shape("line", &[("class", "lag"), ("x1", &ax), ("y1", &ay), ("x2", &bx), ("y2", &by)], "");
    };
    if x2 - x1 > 2.0 * half {
        line(h, (x1, y), (middle - half, y));
        line(h, (middle + half, y), (x2, y));
    } else {
        line(h, (x1, y), (x2, y));
    }
    line(h, (x1, y - 5.0), (x1, y + 12.0));
    line(h, (x2, y - 5.0), (x2, y + 12.0));
    let (x, anchor) = if x2 - x1 > 2.0 * half { (middle, "middle") } else { (x2 + 6.0, "start") };
    h.leaf("text", &[("class", "lag-text"), ("x", &n(x)), ("y", &n(y + 4.0)), ("text-anchor", anchor)], text);
}

fn draw_mark(h: &mut Html, x: f64, y: f64, mark: &Mark) {
    let title = mark.title.as_str();
    match mark.kind {
        Kind::Stray => {
            h.shape("circle", &[("class", "stray"), ("cx", &n(x)), ("cy", &n(y)), ("r", "3")], title);
        }
        Kind::Joined => {
            let d = format!("M{} {} l9 5 l-9 5 Z", n(x - 4.5), n(y - 5.0));
            h.shape("path", &[("class", "joined"), ("d", &d)], title);
        }
        Kind::Left => {
            let d = format!("M{} {} l-9 5 l9 5 Z", n(x + 4.5), n(y - 5.0));
            h.shape("path", &[("class", "left"), ("d", &d)], title);
        }
        Kind::Dump => {
            let (x, y) = (n(x - 6.0), n(y - 6.0));
            let place = [("class", "dumped"), ("x", &*x), ("y", &y), ("width", "12"), ("height", "12"), ("rx", "2")];
            h.shape("rect", &place, title);
        }
        Kind::Silent => {
            let d = format!("M{} {} v18 M{} {} v18", n(x - 3.0), n(y - 9.0), n(x + 3.0), n(y - 9.0));
            h.shape("path", &[("class", "fell-silent"), ("d", &d)], title);
        }
        Kind::Lesser => diamond(h, "lesser", x, y, 6.0, title),
        Kind::Claim => diamond(h, "claim", x, y, 7.0, title),
        Kind::Trigger => diamond(h, "trigger", x, y, 9.5, title),
        Kind::Death => {
            let d = format!(
                "M{} {} h8 M{} {} v26 M{} {} h8",
                n(x - 4.0),
                n(y - 13.0),
                n(x),
                n(y - 13.0),
                n(x - 4.0),
                n(y + 13.0)
            );
            h.shape("path", &[("class", "death"), ("d", &d)], title);
        }
        Kind::Kill => {
            h.open("g", &[("class", "kill")]);
            h.leaf("title", &[], title);
            h.shape("circle", &[("cx", &n(x)), ("cy", &n(y)), ("r", "9")], "");
            let d = format!("M{} {} l8 8 m0 -8 l-8 8", n(x - 4.0), n(y - 4.0));
            h.shape("path", &[("d", &d)], "").close("g");
        }
    }
}

fn diamond(h: &mut Html, class: &'static str, x: f64, y: f64, r: f64, title: &str) {
    let d = format!("M{} {} L{} {} L{} {} L{} {} Z", n(x), n(y - r), n(x + r), n(y), n(x), n(y + r), n(x - r), n(y));
    h.shape("path", &[("class", class), ("d", &d)], title);
}

/// Only what is drawn is explained.
fn legend(h: &mut Html, kinds: &BTreeSet<Kind>, rows: &[Row]) {
    h.raw("<figcaption class=\"legend\">\n");
    for (kind, text) in [
        (Kind::Joined, "joined the job"),
        (Kind::Silent, "last sign of life before keep-alives stay away"),
        (Kind::Left, "left, or taken out"),
        (Kind::Dump, "dump asked for, or communicator aborted"),
        (Kind::Stray, "stray, closed or ignored"),
        (Kind::Lesser, "lesser or refused claim"),
        (Kind::Claim, "claim that a server honours"),
        (Kind::Trigger, "claim that set it off"),
    ] {
        if !kinds.contains(&kind) {
            continue;
        }
        key(h, text, |h| draw_mark(h, 11.0, 11.0, &Mark { kind, time: Timestamp(0), title: String::new() }));
    }
    if rows.iter().any(|r| r.silence.is_some()) {
        key(h, "silent", |h| {
            h.raw("<rect class=\"silence\" x=\"0\" y=\"3\" width=\"22\" height=\"16\"></rect>");
        });
    }
    for (kind, text) in [(Kind::Kill, "OOM kill"), (Kind::Death, "listener gone")] {
        if !kinds.contains(&kind) {
            continue;
        }
        key(h, text, |h| draw_mark(h, 11.0, 11.0, &Mark { kind, time: Timestamp(0), title: String::new() }));
    }
    if rows.iter().any(|r| r.scan.is_some()) {
        key(h, "strangers reach the host", |h| {
            h.raw("<rect class=\"reach\" x=\"0\" y=\"2\" width=\"22\" height=\"18\" rx=\"4\"></rect>");
        });
    }
    h.raw("</figcaption>\n");
}

fn key(h: &mut Html, text: &str, draw: impl FnOnce(&mut Html)) {
    h.raw("<span><svg class=\"key\" viewBox=\"-3 -3 28 28\" aria-hidden=\"true\">");
    draw(h);
    h.raw("</svg>").text(text).raw("</span>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_within() {
        for (from, to) in [(0, 1), (0, NANOS), (5, 72 * NANOS), (0, 40 * 86_400 * NANOS), (i64::MIN, i64::MAX)] {
            let scale = Scale::over(Timestamp(from), Timestamp(to));
            let (ticks, _) = scale.ticks();
            assert!(ticks.len() <= 12, "{from} {to}: {ticks:?}");
            assert!(ticks.iter().all(|t| (LEFT..=WIDTH - RIGHT).contains(&scale.x(*t))), "{from} {to}: {ticks:?}");
        }
        let minute = Scale::over(Timestamp(0), Timestamp(72 * NANOS));
        let (ticks, fine) = minute.ticks();
        assert!(!fine && ticks.contains(&Timestamp(30 * NANOS)) && ticks.len() >= 5, "{ticks:?}");
    }
}
