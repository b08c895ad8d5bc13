//! Each rule of docs/verdicts.md, one by one.

use super::*;
use crate::finding::{Effect, Finding, Stray};
use crate::oom::{OomEvent, OomKind};
use crate::protocol::listener::{Candidate, Death, KnownBy, Listener};
use crate::protocol::tcpstore::server::{Backend, Policy};
use crate::protocol::tcpstore::{Dialect, StoreRule};
use crate::stream::{Activity, PacketRef};
use crate::vocabulary::{CoverageLevel, Outcome, Severity};

const CLAIM: u64 = 962_696_183_808;
const PORT: u16 = 29500;

fn at(seconds: f64) -> Timestamp {
    Timestamp((seconds * 1e9) as i64)
}

fn host(n: u8) -> Endpoint {
    Endpoint::new(Address::v4([192, 0, 2, n]), PORT)
}

fn packet(n: u64) -> PacketRef {
    PacketRef { capture: 0, number: n }
}

fn effect(dialect: Dialect, outcome: Outcome, bytes: u64) -> Effect {
    Effect {
        dialect: dialect.label(),
        backend: "poll",
        outcome,
        allocates_bytes: (outcome == Outcome::Allocates).then_some(bytes),
        resident: Some(true),
        blocks_server: true,
        condition: None,
        query: Some(if dialect < Dialect::B { "CHECK" } else { "ADD" }),
        declared: None,
        explanation: String::new(),
    }
}

fn claim(n: u8, time: f64) -> Finding {
    let source = Endpoint::new(Address::v4([192, 0, 2, 250]), 4000 + u16::from(n));
    Finding {
        dialect: Some(Dialect::B.label()),
        claims: true,
        dialect_candidates: vec![Dialect::B.label()],
        bytes: vec![3, 0, 0, 0x2a],
        stray: Some(Stray { protocol: "RDP".into(), tool: None, probe: None }),
        effects: vec![effect(Dialect::B, Outcome::Allocates, CLAIM)],
        ..Finding::new(
            StoreRule::StoreClaim.text(),
            format!("claim-{n}-{time}"),
            at(time),
            Some(packet(1)),
            source,
            host(n),
        )
    }
}

fn kill(n: u8, time: f64, total_vm: Option<u64>) -> OomEvent {
    OomEvent {
        id: format!("kill-{n}-{time}"),
        host: Some(format!("n{n}")),
        time: at(time),
        uncertainty_nanos: 1000,
        time_source: "test",
        process: Some("python3".into()),
        pid: Some(1),
        total_vm_bytes: total_vm,
        occurrences: 1,
        ..OomEvent::default()
    }
}

/// A listener that was active at these times.
fn listener(n: u8, active: &[f64], died: Option<f64>) -> Listener {
    let mut activity = Activity::default();
    active.iter().for_each(|t| activity.note(at(*t), packet(9)));
    let death = died.map(|t| Death { time: at(t), packet: packet(9), closed: 3, reset: 1, refused: 2 });
    Listener {
        endpoint: host(n),
        known_by: KnownBy::Speech,
        named_by: None,
        candidates: vec![Candidate { dialect: Dialect::B, backend: Backend::Poll }],
        evidence: Vec::new(),
        since: None,
        until: None,
        policy: Policy::Unknown,
        accepted: 3,
        first_seen: Some(at(0.0)),
        last_seen: Some(at(1e6)),
        death,
        deaths: death.into_iter().collect(),
        restarts: Vec::new(),
        last_accept: None,
        apart: 0.25,
        foreign: None,
        activity,
        heard: true,
    }
}

struct Case {
    events: Vec<OomEvent>,
    findings: Vec<Finding>,
    listeners: Vec<Listener>,
    log_days: std::collections::BTreeMap<String, f64>,
}

impl Case {
    fn incidents(&self) -> Vec<Incident> {
        let mut names = Names::default();
        let mut watch = Watch::default();
        for n in 1..=9 {
            names.add(&format!("n{n}"), host(n).address);
            let w = HostWatch { from: at(0.0), to: at(1e6), own: true, one_way: false, drops: None, gaps: 0 };
            watch.by_address.insert(host(n).address, vec![w]);
        }
        incidents(&Evidence {
            events: &self.events,
            findings: &self.findings,
            listeners: &self.listeners,
            names: &names,
            watch: &watch,
            log_days: &self.log_days,
            window: 120.0,
            max_lag: 900.0,
            curves: &[],
            clocks: &Default::default(),
            scanners: &Default::default(),
            nat: &Default::default(),
        })
    }

    fn verdict(&self) -> Verdict {
        let all = self.incidents();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].verdict
    }
}

/// One host; the claim at 100 s, the kill at 140 s.
fn one(total_vm: Option<u64>, active: &[f64], died: Option<f64>) -> Case {
    Case {
        events: vec![kill(1, 140.0, total_vm)],
        findings: vec![claim(1, 100.0)],
        listeners: vec![listener(1, active, died)],
        log_days: Default::default(),
    }
}

const FITS: Option<u64> = Some(CLAIM + (1 << 30));

#[test]
fn two_facts_that_agree_confirm() {
    assert_eq!(one(FITS, &[99.0], Some(142.0)).verdict(), Verdict::Confirmed, "size, silence and death");
    assert_eq!(one(FITS, &[99.0], None).verdict(), Verdict::Confirmed, "size and silence");
    assert_eq!(one(None, &[99.0], Some(142.0)).verdict(), Verdict::Confirmed, "silence and death");
}

#[test]
fn one_fact_makes_it_probable() {
    assert_eq!(one(None, &[99.0], None).verdict(), Verdict::Probable, "silence alone");
}

#[test]
fn a_sign_of_life_between_claim_and_kill_clears_the_claim() {
    assert_eq!(one(FITS, &[99.0, 120.0], Some(142.0)).verdict(), Verdict::Unexplained);
}

#[test]
fn a_single_packet_that_clears_a_claim_is_named() {
    let reasons = |active: &[f64]| one(FITS, active, Some(142.0)).incidents()[0].hosts[0].reasons.join("\n");
    let alone = reasons(&[99.0, 120.0]);
    assert!(alone.contains("lived on") && alone.contains("cleared by packet 9 alone"), "{alone}");
    let several = reasons(&[99.0, 120.0, 125.0]);
    assert!(several.contains("lived on") && !several.contains("alone"), "{several}");
}

#[test]
fn a_size_that_contradicts_clears_the_claim() {
    assert_eq!(one(Some(CLAIM / 2), &[99.0], Some(142.0)).verdict(), Verdict::Unexplained, "it never got so much");
    let mut lesser = one(Some(CLAIM), &[99.0], Some(142.0));
    lesser.findings[0].effects[0].allocates_bytes = Some(256 << 20);
    assert_eq!(lesser.verdict(), Verdict::Unexplained, "256 MiB explain no process of a terabyte");
}

#[test]
fn order_and_lag_count() {
    let mut late = one(FITS, &[99.0], None);
    late.findings[0].time = at(141.0);
    assert_eq!(late.verdict(), Verdict::Unexplained, "a claim after the kill");
    let mut early = one(FITS, &[99.0], None);
    early.events[0].time = at(100.0 + 901.0);
    assert_eq!(early.verdict(), Verdict::Unexplained, "longer ago than --max-lag");
}

#[test]
fn a_refused_claim_is_no_trigger() {
    let mut refused = one(FITS, &[99.0], None);
    refused.findings[0].rule = "store-claim-refused";
    refused.findings[0].claims = false;
    refused.findings[0].severity = Severity::Warning;
    assert_eq!(refused.verdict(), Verdict::Unexplained);
}

#[test]
fn an_open_dialect_caps_at_probable_until_size_selects() {
    let open = |vm| {
        let mut case = one(vm, &[99.0], Some(142.0));
        let f = &mut case.findings[0];
        f.dialect = None;
        f.effects = vec![
            effect(Dialect::A1, Outcome::Allocates, CLAIM * 8),
            effect(Dialect::B, Outcome::Allocates, CLAIM),
            effect(Dialect::D, Outcome::Closes, 0),
        ];
        case
    };
    assert_eq!(open(None).verdict(), Verdict::Probable, "one candidate would have closed");
    let selected = open(FITS).incidents();
    assert_eq!(selected[0].verdict, Verdict::Confirmed);
    let trigger = selected[0].hosts[0].trigger.as_ref().unwrap();
    assert!(trigger.selected && trigger.effect == 1, "{trigger:?}");
}

#[test]
fn a_guessed_time_caps_at_probable_until_size_and_death_settle_it() {
    let guessed = |vm, died| {
        let mut case = one(vm, &[99.0], died);
        case.events[0].time_is_assumed = true;
        case
    };
    assert_eq!(guessed(FITS, None).verdict(), Verdict::Probable);
    assert_eq!(guessed(FITS, Some(142.0)).verdict(), Verdict::Confirmed);
}

#[test]
fn without_a_kill_in_any_log_a_death_is_probable_at_best() {
    let case = Case {
        events: Vec::new(),
        findings: vec![claim(1, 100.0)],
        listeners: vec![listener(1, &[99.0], Some(142.0))],
        log_days: Default::default(),
    };
    let all = case.incidents();
    assert_eq!((all[0].kind, all[0].verdict), (IncidentKind::ListenerDeath, Verdict::Probable));
    assert!(all[0].settled_by.iter().any(|s| s.contains("--oom n1=")));
}

#[test]
fn a_common_source_makes_one_incident_whatever_the_time_between() {
    let mut case = one(FITS, &[99.0], None);
    case.events.push(kill(2, 5000.0, FITS));
    case.findings.push(claim(2, 4960.0));
    case.listeners.push(listener(2, &[4959.0], None));
    let all = case.incidents();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].scope, all[0].verdict), (Scope::Synchronized, Verdict::Confirmed));
    // Another source and another payload: another incident.
    case.findings[1].source.address = Address::v4([192, 0, 2, 251]);
    case.findings[1].bytes = vec![1, 2, 3];
    assert_eq!(case.incidents().len(), 2);
}

#[test]
fn one_explained_host_does_not_explain_the_others() {
    let mut case = one(FITS, &[99.0], None);
    case.events.push(kill(2, 150.0, Some(1 << 30)));
    let all = case.incidents();
    assert_eq!((all.len(), all[0].verdict), (1, Verdict::Probable));
    assert_eq!(all[0].hosts.iter().filter(|h| h.verdict == Verdict::Unexplained).count(), 1);
    // Outside the window it is a failure of its own.
    case.events[1].time = at(140.0 + 121.0);
    assert_eq!(case.incidents().len(), 2);
}

#[test]
fn a_kill_on_a_host_nobody_watched_is_not_observed() {
    let mut case = one(FITS, &[99.0], None);
    case.events[0].host = Some("elsewhere".into());
    case.findings.clear();
    let all = case.incidents();
    assert_eq!((all[0].verdict, all[0].hosts[0].coverage), (Verdict::Unexplained, CoverageLevel::NotObserved));
    assert!(all[0].hosts[0].reasons[0].contains("not observed"));
}

#[test]
fn gpu_memory_is_no_evidence() {
    let mut case = one(FITS, &[99.0], None);
    case.events[0].kind = OomKind::Gpu;
    assert!(case.incidents().is_empty());
}

#[test]
fn who_got_the_same_and_lived_is_listed_with_the_reason() {
    let mut case = one(FITS, &[99.0], None);
    let mut refused = claim(3, 101.0);
    refused.rule = "store-claim-refused";
    refused.claims = false;
    refused.severity = Severity::Warning;
    let mut validates = claim(4, 102.0);
    validates.rule = "foreign-protocol";
    validates.severity = Severity::Notice;
    let mut modern = listener(4, &[103.0], None);
    modern.candidates = vec![Candidate { dialect: Dialect::D, backend: Backend::Libuv }];
    case.findings.extend([refused, validates, claim(5, 103.0)]);
    case.listeners.extend([listener(3, &[101.0], None), modern, listener(5, &[99.0], None)]);
    let all = case.incidents();
    let reasons: Vec<&str> = all[0].survivors.iter().map(|s| s.reason.as_str()).collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(
        reasons[0].contains("refused") && reasons[1].contains("magic") && reasons[2].contains("may hold"),
        "{reasons:?}"
    );
}

#[test]
fn chance_is_estimated_from_the_hosts_own_rates_or_not_at_all() {
    let mut case = one(FITS, &[99.0], None);
    case.events.push(kill(2, 150.0, FITS));
    case.findings.push(claim(2, 110.0));
    case.listeners.push(listener(2, &[99.0], None));
    let chance = |case: &Case| case.incidents()[0].chance.clone().unwrap();
    assert_eq!(chance(&case).expected_per_year, None, "no log reaches far enough");
    case.log_days = [("n1".to_string(), 30.0), ("n2".to_string(), 30.0)].into();
    let quiet = chance(&case).expected_per_year.unwrap();
    assert!(quiet < 1e-3, "{quiet}: two hosts that are never killed fall together within 10 s");
    for i in 0..60 {
        case.events.push(kill(1, 1e5 + 40_000.0 * f64::from(i), Some(1 << 30)));
        case.events.push(kill(2, 2e5 + 40_000.0 * f64::from(i), Some(1 << 30)));
    }
    let all = case.incidents();
    let busy = all.iter().find(|i| i.scope == Scope::Synchronized && i.hosts.len() == 2).and_then(|i| i.chance.clone());
    assert!(busy.unwrap().expected_per_year.unwrap() > quiet * 100.0);
}

/// A listener that died at each of these times; its resets are what was seen of it then.
fn mortal(n: u8, active: &[f64], deaths: &[f64]) -> Listener {
    let of = |t: &f64| Death { time: at(*t), packet: packet(9), closed: 3, reset: 1, refused: 2 };
    let deaths: Vec<Death> = deaths.iter().map(of).collect();
    let mut l = listener(n, active, None);
    deaths.iter().for_each(|d| l.activity.note(d.time, d.packet));
    Listener { death: deaths.first().copied(), deaths, ..l }
}

#[test]
fn a_claim_ends_with_the_life_that_it_was_sent_to() {
    let mut case = one(FITS, &[99.0], None);
    case.listeners = vec![mortal(1, &[99.0], &[110.0])];
    case.events[0].time = at(300.0);
    let all = case.incidents();
    let verdict = |kind| all.iter().find(|i| i.kind == kind).map(|i| i.verdict);
    assert_eq!(verdict(IncidentKind::Oom), Some(Verdict::Unexplained), "it had died three minutes before the kill");
    assert_eq!(verdict(IncidentKind::ListenerDeath), Some(Verdict::Probable), "and that is told by itself");
}

#[test]
fn each_life_has_its_own_trigger() {
    let mut case = one(FITS, &[], None);
    case.listeners = vec![mortal(1, &[99.0, 300.0, 459.0], &[142.0, 502.0])];
    case.findings.push(claim(1, 460.0));
    case.events.push(kill(1, 500.0, FITS));
    let all = case.incidents();
    let parts: Vec<_> = all[0].hosts.iter().map(|h| (h.trigger.as_ref().unwrap().finding, h.verdict)).collect();
    assert_eq!(parts, [(0, Verdict::Confirmed), (1, Verdict::Confirmed)]);
}

#[test]
fn after_a_restart_a_sign_of_life_clears_as_before() {
    let mut case = one(FITS, &[], None);
    case.listeners = vec![mortal(1, &[20.0, 80.0, 99.0, 120.0], &[50.0, 142.0])];
    assert_eq!(
        case.verdict(),
        Verdict::Unexplained,
        "it answered at 120 s; that it had died at 50 s is another matter"
    );
}

#[test]
fn a_process_far_larger_than_the_claim_neither_proves_nor_clears_it() {
    let large = Some(CLAIM + (700 << 30));
    assert_eq!(one(large, &[99.0], Some(142.0)).verdict(), Verdict::Confirmed, "silence and death");
    assert_eq!(one(large, &[99.0], None).verdict(), Verdict::Probable, "silence alone");
}

#[test]
fn a_terabyte_takes_a_while_to_be_given_back() {
    let mut case = one(None, &[99.0], Some(240.0));
    assert_eq!(case.verdict(), Verdict::Probable, "100 s after the kill it is another event");
    case.events[0].anon_rss_bytes = Some(1 << 40);
    assert_eq!(case.verdict(), Verdict::Confirmed);
}

#[test]
fn a_log_that_tells_of_no_kill_speaks_against_one() {
    let mut case = Case {
        events: Vec::new(),
        findings: vec![claim(1, 100.0)],
        listeners: vec![listener(1, &[99.0], Some(142.0))],
        log_days: Default::default(),
    };
    assert_eq!(case.verdict(), Verdict::Probable);
    case.log_days = [("n1".to_string(), 6.0)].into();
    assert_eq!(case.verdict(), Verdict::Possible, "the log was given, and holds no kill");
    case.findings[0].dialect = None;
    assert!(case.incidents().is_empty(), "and the server may be one that ignores such bytes");
}

#[test]
fn a_death_seen_by_another_clock_is_no_sign_of_life() {
    // A client's capture, 4 ms behind, shows the death a little earlier.
    assert_eq!(one(FITS, &[99.0, 141.996], Some(142.0)).verdict(), Verdict::Confirmed);
}
