//! What became of a listener after a claim: silence, death.

use super::listener::{Death, Listener};
use super::tcpstore::StoreRule;
use crate::finding::{Finding, WARNING_BYTES, finding_id, is_open_claim, largest_claim};
use crate::vocabulary::Severity;

/// A listener silent for less than this after a claim was merely busy.
const SILENT_SECONDS: f64 = 2.0;
/// A listener that died held its claim for at least this long: what is refused or not allocated is over sooner.
const HELD_SECONDS: f64 = 0.03;
/// A death this long after a claim that was never answered is tied to it, as long as the listener was silent between.
const TIED_SECONDS: f64 = 900.0;

/// The claims after which the listener never did anything again, until it died or was seen no more: the first of each
/// life, with that life's death.
pub fn fatal_claims<'a>(listener: &Listener, claims: &[&'a Finding]) -> Vec<(&'a Finding, Option<Death>)> {
    let mut fatal: Vec<(&Finding, Option<Death>)> = Vec::new();
    // Where the capture holds nothing that the listener sent on the claim's connection, nobody knows whether it answered.
    let told = |f: &&Finding| !f.one_direction && is_open_claim(f) && largest_claim(f) >= WARNING_BYTES;
    for f in claims.iter().copied().filter(told) {
        // What came after a fatal claim in the same life was never read.
        let held = |(_, death): &(&Finding, Option<Death>)| death.is_none_or(|d| d.time >= f.time);
        if fatal.last().is_some_and(held) {
            continue;
        }
        let (silent, next) = listener.silence_after(f.time);
        let death = listener.death_after(f.time);
        let least = if death.is_some() { HELD_SECONDS } else { SILENT_SECONDS };
        if silent >= least && next == death.map(|d| d.time) {
            fatal.push((f, death));
        }
    }
    fatal
}

/// Says, of what was sent to a listener after the claim that silenced it, that it was never read.
pub fn mark_unread(listener: &Listener, findings: &mut [Finding]) {
    let claims: Vec<&Finding> = findings.iter().collect();
    let held: Vec<_> =
        fatal_claims(listener, &claims).iter().map(|(f, d)| (f.time, f.packet, d.map(|d| d.time))).collect();
    for f in findings.iter_mut() {
        let before = held.partition_point(|(time, ..)| *time < f.time);
        let Some((time, packet, died)) = before.checked_sub(1).and_then(|i| held.get(i)) else { continue };
        if died.is_some_and(|d| d < f.time) {
            continue;
        }
        f.evidence.push(format!(
            "never read: the listener had been silent since the claim in packet {} of {:.1} s before",
            packet.map_or(0, |p| p.number),
            f.time.seconds_since(*time)
        ));
        if is_open_claim(f) {
            f.explanation.push_str(" This one was never read: the listener was already held by an earlier claim.");
        }
    }
}

/// Findings about the listener itself. `claims`: the findings of its connections, in order of time.
pub fn judge(listener: &Listener, claims: &[&Finding]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let fatal = fatal_claims(listener, claims);
    let mut tied = false;
    for (f, death) in &fatal {
        findings.push(silent(listener, f));
        if let Some(death) = death.filter(|d| d.time.seconds_since(f.time) <= TIED_SECONDS) {
            findings.push(died(listener, &death, Some(f)));
            tied = true;
        }
    }
    // A job that ends in order closes its connections too; resets, and refusals after, are no order.
    if let Some(death) = listener.death.filter(|d| !tied && d.reset >= 2 && d.refused >= 1) {
        findings.push(died(listener, &death, None));
    }
    findings
}

fn about(listener: &Listener, rule: StoreRule, like: Option<&Finding>) -> Finding {
    let source = like.map_or(listener.endpoint, |f| f.source);
    let time = like.map_or_else(Default::default, |f| f.time);
    Finding {
        protocol: Some("tcpstore"),
        dialect: listener.dialect_name(),
        dialect_candidates: listener.dialect_names(),
        ..Finding::new(rule.text(), String::new(), time, None, source, listener.endpoint)
    }
}

fn silent(listener: &Listener, claim: &Finding) -> Finding {
    let (seconds, next) = listener.silence_after(claim.time);
    let mut f = about(listener, StoreRule::ListenerSilent, Some(claim));
    f.id = finding_id(f.rule, claim.source, claim.target, claim.stream_offset.unwrap_or(0) as u32, claim.id.as_bytes());
    f.packet = claim.packet;
    f.packets = claim.packet.into_iter().collect();
    f.sightings = claim.sightings.clone();
    f.explanation = format!(
        "After this claim the listener sent nothing on any connection for {seconds:.1} s, {}.",
        if next.is_some() { "until it died" } else { "to the end of the capture" }
    );
    f
}

fn died(listener: &Listener, death: &Death, claim: Option<&Finding>) -> Finding {
    let mut f = about(listener, StoreRule::ListenerDied, claim);
    f.time = death.time;
    f.id = match claim {
        Some(c) => finding_id(f.rule, c.source, c.target, c.stream_offset.unwrap_or(0) as u32, c.id.as_bytes()),
        None => finding_id(f.rule, listener.endpoint, listener.endpoint, 0, &death.time.0.to_be_bytes()),
    };
    f.packet = Some(death.packet);
    f.packets = vec![death.packet];
    if claim.is_none() {
        f.severity = Severity::Warning;
    }
    let signs = format!(
        "{} open connection{} closed from its side within a moment ({} by reset), {} later attempt{} refused",
        death.closed,
        if death.closed == 1 { " was" } else { "s were" },
        death.reset,
        death.refused,
        if death.refused == 1 { " was" } else { "s were" },
    );
    f.explanation = match claim {
        Some(c) => format!(
            "The listener died {:.1} s after a claim of {} bytes that it never answered: {signs}.",
            death.time.seconds_since(c.time),
            largest_claim(c)
        ),
        None => format!("The listener died, with no claim before it: {signs}."),
    };
    f
}
