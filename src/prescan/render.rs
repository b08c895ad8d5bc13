//! The verdict for people: for a terminal, and for a ticket.

use std::fmt::Write as _;

use super::advice::Advice;
use super::fleet::Fleet;
use super::matrix::Matrix;
use super::remedy::Remedy;
use super::row::{Grade, Row};
use super::server_label::{alike, groups};
use crate::report::size;

/// All that is shown.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// What was tried, in a line.
    pub what: &'a str,
    /// What was assumed of the hosts.
    pub hosts: &'a str,
    /// The servers.
    pub fleet: &'a Fleet,
    /// The rows.
    pub board: &'a Matrix,
    /// The next sentence.
    pub advice: &'a Advice,
    /// What was assumed.
    pub notes: &'a [String],
    /// Whether the scan's own options leave all of the fleet alone.
    pub spared: bool,
    /// Whether all cases are listed.
    pub verbose: bool,
}

/// Width of lines of running text.
const WIDTH: usize = 100;

/// One line of the table of servers.
type Counts = ([usize; 4], Option<u64>);

fn counts(board: &Matrix, server: usize) -> Option<Counts> {
    let rows: Vec<&Row> = (0..board.cases.len()).filter_map(|c| board.row(c, server)).collect();
    let of = |grade| rows.iter().filter(|r| r.grade() == grade).count();
    let claim = rows.iter().filter_map(|r| r.allocates_bytes).max();
    Some(([Grade::Kills, Grade::Degrades, Grade::Unknown, Grade::Safe].map(of), claim))
}

/// What the verdict says in one sentence.
fn headline(page: &Page<'_>) -> String {
    let cases = (0..page.board.cases.len()).filter(|c| page.board.worst_of(*c).is_some()).count();
    let hit = |grade| (0..page.fleet.targets.len()).filter(|s| page.board.worst_at(*s) == Some(grade)).count();
    let of = page.fleet.targets.len();
    match page.board.worst() {
        None if page.spared => {
            "LEFT ALONE: the scan's own --exclude-ports names every port of these servers.".to_owned()
        }
        None => "NOTHING TRIED: the scan sends nothing to any of these servers, so nothing is said of it.".to_owned(),
        Some(Grade::Safe) if cases == 1 => "SAFE: one thing tried, nothing is hurt.".to_owned(),
        Some(Grade::Safe) => format!("SAFE: {cases} things tried, nothing is hurt."),
        Some(Grade::Unknown) => format!(
            "UNKNOWN: {} of {of} kinds of server get bytes that nobody has tried; nothing else is hurt.",
            hit(Grade::Unknown)
        ),
        Some(Grade::Degrades) => format!(
            "DEGRADES: {} of {of} kinds of server are held up or made to allocate; none is killed.",
            hit(Grade::Degrades)
        ),
        Some(Grade::Kills) => {
            format!("KILLS: {} of {of} kinds of server, and degrades {} more.", hit(Grade::Kills), hit(Grade::Degrades))
        }
    }
}

/// For a terminal.
pub fn table(page: &Page<'_>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", headline(page));
    wrap(&mut out, "", page.what);
    wrap(&mut out, "Assumed: ", page.hosts);
    page.notes.iter().for_each(|n| wrap(&mut out, "Note: ", n));
    let all = groups(page.fleet, |s| counts(page.board, s));
    let width = all.iter().map(|g| g.0.chars().count()).max().unwrap_or(0).max(6);
    let _ = writeln!(out, "\n{:<width$}  KILLS  DEGRADES  UNKNOWN  SAFE  LARGEST CLAIM", "SERVER");
    for (name, members) in &all {
        let Some(([kills, degrades, unknown, safe], claim)) = members.first().and_then(|s| counts(page.board, *s))
        else {
            continue;
        };
        let claim = claim.map_or("-".to_owned(), size::readings);
        let _ = writeln!(out, "{name:<width$}  {kills:>5}  {degrades:>8}  {unknown:>7}  {safe:>4}  {claim}");
    }
    for (grade, head) in
        [(Grade::Kills, "KILLS"), (Grade::Degrades, "DEGRADES"), (Grade::Unknown, "UNKNOWN"), (Grade::Safe, "SAFE")]
    {
        if grade == Grade::Safe && !page.verbose {
            continue;
        }
        section(&mut out, page, grade, head);
    }
    next(&mut out, page);
    out
}

/// What a server does that people are told: outcome, bytes, whether others wait, whether it kills.
type Does = (&'static str, Option<u64>, bool, bool);

fn does(row: &Row) -> Does {
    (row.outcome, row.allocates_bytes, row.blocks_server, row.kills)
}

/// What has one grade: by servers that answer alike, what several cases share said once.
fn section(out: &mut String, page: &Page<'_>, grade: Grade, head: &str) {
    let board = page.board;
    let of = |server: usize| -> Vec<(usize, &Row)> {
        (0..board.cases.len())
            .filter_map(|c| Some((c, board.row(c, server)?)))
            .filter(|(_, r)| r.grade() == grade)
            .collect()
    };
    let key = |server: usize| {
        let rows: Vec<(usize, Does)> = of(server).into_iter().map(|(c, r)| (c, does(r))).collect();
        (!rows.is_empty()).then_some(rows)
    };
    let mut begun = false;
    for (name, members) in groups(page.fleet, key) {
        let Some(last) = members.last() else { continue };
        if !begun {
            let _ = writeln!(out, "\n{head}");
            begun = true;
        }
        let _ = writeln!(out, "  {name}");
        let mut kinds: Vec<(Does, &str, Vec<&str>)> = Vec::new();
        for (c, row) in of(*last) {
            let case = board.cases.get(c).map_or("", |c| c.name.as_str());
            // Safe ones differ in the byte that they are refused for; nobody needs that said for each.
            let why = if grade == Grade::Safe { "" } else { row.explanation.as_str() };
            match kinds.iter_mut().find(|k| k.0 == does(row) && k.1 == why) {
                Some(known) => known.2.push(case),
                None => kinds.push((does(row), why, vec![case])),
            }
        }
        for ((outcome, bytes, blocks, _), why, cases) in kinds {
            let mut text = format!("{}: {outcome}", list(&cases, page.verbose));
            if let Some(bytes) = bytes {
                let _ = write!(text, " {}", size::bytes(bytes));
            }
            if blocks {
                text.push_str(", others wait");
            }
            wrap(out, "    ", &text);
            wrap(out, "      ", why);
        }
    }
}

/// Names, the first of them where there are many.
fn list(names: &[&str], all: bool) -> String {
    const MOST: usize = 6;
    if all || names.len() <= MOST + 1 {
        return names.join(", ");
    }
    format!("{} and {} more", names.iter().take(MOST).copied().collect::<Vec<_>>().join(", "), names.len() - MOST)
}

/// The advice about listeners of which something is hurt; about all where all is listed.
fn concerned<'a>(page: &'a Page<'_>) -> impl Iterator<Item = &'a Remedy> {
    let hurt = |r: &&Remedy| r.servers.iter().any(|s| page.board.worst_at(*s) > Some(Grade::Unknown));
    page.advice.listeners.iter().filter(move |r| page.verbose || hurt(r))
}

fn next(out: &mut String, page: &Page<'_>) {
    let advice = page.advice;
    if !advice.steps.is_empty() {
        let _ = writeln!(out, "\nWHAT TO CHANGE (each tried on the models)");
        for step in &advice.steps {
            wrap(out, "  - ", &format!("{}: {}", step.change, after(step)));
        }
    }
    for (i, remedy) in concerned(page).enumerate() {
        if i == 0 {
            let _ = writeln!(out, "\nWHAT CLOSES EACH LISTENER, AND WHAT STAYS OPEN");
        }
        wrap(out, "  ", &format!("{}, {}", remedy.listener, remedy.range));
        remedy.closes.iter().for_each(|c| wrap(out, "    closes: ", c));
        remedy.open.iter().for_each(|o| wrap(out, "    open:   ", o));
    }
    if !advice.remains.is_empty() {
        let _ = writeln!(out, "\nWHAT REMAINS");
        advice.remains.iter().for_each(|r| wrap(out, "  - ", r));
    }
}

fn after(step: &super::Step) -> String {
    let leaves = match step.leaves {
        "safe" => "then nothing is hurt".to_owned(),
        "unknown" => "then only what nobody has tried is left".to_owned(),
        "degrades" => "then nothing is killed".to_owned(),
        other => format!("it still {other}"),
    };
    if step.but.is_empty() { leaves } else { format!("{leaves}; {}", step.but) }
}

/// Words in lines of at most [`WIDTH`] columns, all but the first indented as far as `lead`.
fn wrap(out: &mut String, lead: &str, text: &str) {
    let indent = " ".repeat(lead.chars().count());
    let mut line = lead.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    if !line.trim().is_empty() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// For a ticket.
pub fn markdown(page: &Page<'_>) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut out = String::new();
    let _ = writeln!(out, "**{}**\n\n{}\n\nAssumed: {}\n", headline(page), cell(page.what), page.hosts);
    page.notes.iter().for_each(|n| {
        let _ = writeln!(out, "* {n}");
    });
    let _ = writeln!(out, "| server | kills | degrades | unknown | safe | largest claim |\n|---|---|---|---|---|---|");
    for (name, members) in groups(page.fleet, |s| counts(page.board, s)) {
        let Some(([kills, degrades, unknown, safe], claim)) = members.first().and_then(|s| counts(page.board, *s))
        else {
            continue;
        };
        let claim = claim.map_or("-".to_owned(), size::readings);
        let _ = writeln!(out, "| {} | {kills} | {degrades} | {unknown} | {safe} | {claim} |", cell(&name));
    }
    let kills = |c: &usize| page.board.worst_of(*c) == Some(Grade::Kills);
    for c in (0..page.board.cases.len()).filter(kills) {
        let names: Vec<String> = alike(page.board, page.fleet, c, |r| r.kills).into_iter().map(|a| a.0).collect();
        let name = page.board.cases.get(c).map_or("", |c| c.name.as_str());
        let _ = writeln!(out, "\n`{}` kills {}", cell(name), names.join("; "));
    }
    for step in &page.advice.steps {
        let _ = writeln!(out, "\n* {}: {}", cell(&step.change), after(step));
    }
    for remedy in concerned(page) {
        let _ = writeln!(out, "\n* **{}** ({})", remedy.listener, remedy.range);
        remedy.closes.iter().for_each(|c| {
            let _ = writeln!(out, "  * closes: {c}");
        });
        remedy.open.iter().for_each(|o| {
            let _ = writeln!(out, "  * stays open: {o}");
        });
    }
    page.advice.remains.iter().for_each(|r| {
        let _ = writeln!(out, "\n* remains: {r}");
    });
    out
}
