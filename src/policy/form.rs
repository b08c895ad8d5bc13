//! The page that is signed before a scan is let loose.

use std::fmt::Write as _;

use super::nets::some;
use super::product::{PolicyError, Product};
use super::scope::Scope;
use crate::prescan::{Act, Advice, Fleet, Grade, Matrix};

/// Lines of a list on the page; the report has the rest.
const MOST: usize = 8;

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalForm<'a> {
    /// What was tried, in a line.
    pub tried: &'a str,
    /// What was assumed of the hosts.
    pub hosts: &'a str,
    /// The servers.
    pub fleet: &'a Fleet,
    /// The listeners.
    pub scope: &'a Scope,
    /// What was found.
    pub board: &'a Matrix,
    /// What was advised.
    pub advice: &'a Advice,
    /// What was assumed.
    pub notes: &'a [&'a str],
    /// Policies that could not be written, and why.
    pub without: &'a [(Product, PolicyError)],
}

/// One page of Markdown.
pub fn sign_off(f: &ApprovalForm<'_>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# Approval of a scan: {}\n", f.scope.date);
    let _ = writeln!(
        out,
        "Attached: report.md, report.json, policies/. SHA256SUMS holds for all of them (`sha256sum -c SHA256SUMS`).\n"
    );
    row(&mut out, "Verdict", &verdict(f.board));
    row(&mut out, "Profile", f.tried);
    row(&mut out, "Scope", &scope(f.scope));
    row(&mut out, "Fleet", &fleet(f));
    row(&mut out, "Assumed", f.hosts);
    section(
        &mut out,
        "Conditions: changes of the scan, each tried on the models",
        f.advice.steps.iter().map(|s| {
            let but = if s.but.is_empty() { String::new() } else { format!("; {}", s.but) };
            format!("[ ] {} (leaves: {}{but})", s.change, s.leaves)
        }),
    );
    let open = f.advice.listeners.iter().flat_map(|r| r.open.iter().map(move |o| format!("{}: {o}", r.listener)));
    section(&mut out, "Residual risk", open.chain(f.advice.remains.iter().cloned()));
    let mut controls = vec![
        "[ ] nftables or NetworkPolicy from policies/, loaded before the scan".to_owned(),
        "[ ] Suricata or Zeek signatures from policies/, watched during the scan".to_owned(),
        "[ ] captures of the training hosts over the window of the scan, for the counter-proof".to_owned(),
    ];
    controls.extend(f.without.iter().map(|(p, why)| format!("not written: {}: {why}", p.name())));
    section(&mut out, "Compensating control (tick what is in place)", controls.into_iter());
    section(&mut out, "Not tested", not_tested(f).into_iter());
    out.push_str(
        "## Window and signatures\n\nThe scan runs from ____________ to ____________ UTC, from the address(es) ____________________.\n\n\
| role | name | date | signature |\n|---|---|---|---|\n| owner of the training cluster | | | |\n| owner of the scan | | | |\n\n\
After the scan: `rdzvscope analyze WINDOW --oom LOGS --source SCANNER`, result attached: [ ] nothing flagged  [ ] see incident ______\n",
    );
    out
}

/// One row, that no text from elsewhere can break.
fn row(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "**{name}.** {}\n", text.replace(['\n', '\r'], " "));
}

fn section(out: &mut String, name: &str, items: impl Iterator<Item = String>) {
    let mut all: Vec<String> = Vec::new();
    items.for_each(|i| {
        if !all.contains(&i) {
            all.push(i);
        }
    });
    let _ = writeln!(out, "## {name}\n");
    if all.is_empty() {
        out.push_str("* none\n");
    }
    all.iter().take(MOST).for_each(|i| {
        let _ = writeln!(out, "* {}", i.replace(['\n', '\r'], " "));
    });
    if all.len() > MOST {
        let _ = writeln!(out, "* and {} more in report.md and report.json", all.len() - MOST);
    }
    out.push('\n');
}

fn verdict(board: &Matrix) -> String {
    let worst = board.worst().unwrap_or(Grade::Safe);
    let count = |g| board.count(g);
    format!(
        "{}: of {} trials (a thing that the scan sends, at one kind of server) {} kill, {} degrade, {} are unknown, {} are safe.",
        worst.name().to_uppercase(),
        board.rows().count(),
        count(Grade::Kills),
        count(Grade::Degrades),
        count(Grade::Unknown),
        count(Grade::Safe)
    )
}

fn scope(s: &Scope) -> String {
    let mut parts = Vec::new();
    if !s.ports.is_empty() {
        let one = matches!(s.ports.ranges().as_slice(), [(from, to)] if from == to);
        parts.push(format!("the port{} {}", if one { "" } else { "s" }, s.ports.text()));
    }
    if !s.hosts.is_empty() {
        parts.push(format!("the hosts {} whole", some(&s.hosts)));
    }
    let mut text = format!(
        "The policies leave alone {}.",
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
    );
    if !s.nowhere().is_empty() {
        text.push_str(" NOT COVERED: listeners on ports that the kernel chooses, on hosts that nobody named.");
    }
    text
}

fn fleet(f: &ApprovalForm<'_>) -> String {
    let seen = match &f.scope.last_seen {
        Some(seen) => format!("last seen {seen}"),
        None => "from a list of releases, not from a capture: nobody looked whether it is complete".to_owned(),
    };
    let known = f.scope.listeners.iter().filter(|l| l.address.is_some()).count();
    format!(
        "{} kinds of server, {known} listeners with an address, from {}; {seen}. Made on {}: `rdzvscope prescan --check policies` says whether it has changed.",
        f.fleet.targets.len(),
        f.scope.source,
        f.scope.date
    )
}

fn not_tested(f: &ApprovalForm<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let untested = f
        .board
        .cases
        .iter()
        .filter(|c| c.act == Act::Untested)
        .map(|c| format!("{}: bytes that nobody has tried", c.name));
    all.extend(untested);
    all.push("the verdict is that of models of PyTorch 1.4 to 2.15 and NCCL 2.4 to 2.32; the tests hold them against recordings of real servers".to_owned());
    all.push("other services on these hosts; UDP; the load that the scan itself puts on hosts and network".to_owned());
    all.extend(f.notes.iter().map(|n| (*n).to_owned()));
    all
}
