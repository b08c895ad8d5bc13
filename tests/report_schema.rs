//! The published JSON Schema and the documents that are written must agree.

mod samples;

use jsonschema::Validator;
use rdzvscope::api::report::json::{write_json, write_jsonl};
use rdzvscope::api::report::model::*;
use serde_json::{Value, json};

fn schema() -> Value {
    serde_json::from_str(include_str!("../docs/report.schema.json")).unwrap()
}

fn validator() -> Validator {
    let schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn document(report: &Report) -> Value {
    let mut out = Vec::new();
    write_json(report, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn complaints(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[test]
fn what_is_written_is_valid() {
    let validator = validator();
    let hostile = samples::hostile("\\u{202e}\\x1b");
    let hostile = Report {
        findings: hostile.findings.into_iter().map(|f| Finding { bytes_hex: None, ..f }).collect(),
        ..hostile
    };
    let nulls = Report {
        inputs: vec![Input::default()],
        captures: vec![Capture::default()],
        listeners: vec![Listener::default()],
        jobs: vec![Job::default()],
        communicators: vec![Communicator::default()],
        scans: vec![Scan::default()],
        clocks: vec![Clock::default()],
        findings: vec![Finding { time_uncertainty_seconds: Some(f64::INFINITY), ..Finding::default() }],
        oom_events: vec![OomEvent::default()],
        incidents: vec![Incident { hosts: vec![IncidentHost::default()], ..Incident::default() }],
        ..Report::default()
    };
    for report in [Report::default(), nulls, samples::incident(), samples::unexplained(), samples::full(), hostile] {
        assert_eq!(complaints(&validator, &document(&report)), Vec::<String>::new());
    }
}

/// Every path to a value of the document, as a JSON pointer.
fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                pointers(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            // The objects of a list are alike: the first stands for all of them.
            if let Some(first) = list.first() {
                pointers(first, format!("{at}/0"), found);
            }
        }
        _ => {}
    }
    if !at.is_empty() {
        found.push(at);
    }
}

#[test]
fn no_field_may_be_missing_added_or_of_another_type() {
    let validator = validator();
    let whole = document(&samples::full());
    let mut all = Vec::new();
    pointers(&whole, String::new(), &mut all);
    assert!(all.len() > 200, "{}", all.len());
    for pointer in all {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        if parent.ends_with("/skipped") {
            continue;
        }
        let mut wrong = whole.clone();
        *wrong.pointer_mut(&pointer).unwrap() = json!([[{}]]);
        assert!(!validator.is_valid(&wrong), "{pointer} may be of any type");
        let mut missing = whole.clone();
        if let Some(parent) = missing.pointer_mut(parent).unwrap().as_object_mut() {
            parent.remove(key);
            parent.insert("added".into(), Value::Null);
            assert!(!validator.is_valid(&missing), "{pointer} may be absent, or another stand beside it");
            let mut added = whole.clone();
            added.pointer_mut(pointer.rsplit_once('/').unwrap().0).unwrap()["added"] = Value::Null;
            assert!(!validator.is_valid(&added), "a field may be added beside {pointer}");
            let mut absent = whole.clone();
            absent.pointer_mut(pointer.rsplit_once('/').unwrap().0).unwrap().as_object_mut().unwrap().remove(key);
            assert!(!validator.is_valid(&absent), "{pointer} may be absent");
        }
    }
}

#[test]
fn words_outside_the_contract_are_refused() {
    let validator = validator();
    let whole = document(&samples::full());
    for pointer in [
        "/schema",
        "/inputs/0/kind",
        "/coverage/hosts/0/coverage",
        "/listeners/0/protocol",
        "/listeners/0/role",
        "/findings/0/severity",
        "/findings/0/effect/outcome",
        "/findings/0/time",
        "/findings/0/bytes_hex",
        "/oom_events/0/kind",
        "/oom_events/0/workload/kind",
        "/incidents/0/kind",
        "/incidents/0/scope",
        "/incidents/0/verdict",
        "/incidents/0/cause",
        "/incidents/0/hosts/0/verdict",
    ] {
        let mut wrong = whole.clone();
        *wrong.pointer_mut(pointer).unwrap() = json!("Something Else");
        assert!(!validator.is_valid(&wrong), "{pointer} takes any word");
    }
}

#[test]
fn the_words_of_schema_and_program_are_the_same() {
    let schema = schema();
    let same = |name: &str, words: Vec<&str>| {
        let listed: Vec<&str> =
            schema["$defs"][name]["enum"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
        assert_eq!(listed, words, "{name}");
    };
    macro_rules! same {
        ($($name:literal = $words:ty),+ $(,)?) => {
            $(same($name, <$words>::ALL.iter().map(|w| w.text()).collect());)+
        };
    }
    same!(
        "input_kind" = InputKind,
        "coverage_level" = CoverageLevel,
        "protocol" = Protocol,
        "role" = Role,
        "severity" = Severity,
        "outcome" = Outcome,
        "oom_kind" = OomKind,
        "workload_kind" = WorkloadKind,
        "incident_kind" = IncidentKind,
        "scope" = Scope,
        "verdict" = Verdict,
        "cause" = Cause,
        "sign_kind" = SignKind,
        "turn" = JobEvent,
    );
}

#[test]
fn keys_are_written_in_the_order_of_the_contract() {
    let mut out = Vec::new();
    write_json(&samples::full(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let order = |start: &str, keys: &str| {
        let mut rest = &text[text.find(start).unwrap()..];
        for key in keys.split(' ') {
            let at = rest.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} of {start} comes too early"));
            rest = &rest[at + key.len() + 2..];
        }
    };
    order(
        "{",
        "schema tool arguments inputs captures coverage listeners jobs communicators scans clocks findings oom_events \
         incidents totals incomplete notes",
    );
    order(
        "\"findings\": [\n    {",
        "id rule severity time time_uncertainty_seconds capture packet packets sightings source target outer \
         community_id protocol dialect dialect_candidates query stream_offset bytes_hex alternate_bytes_hex declared \
         delivered_bytes occurrences stray effects effect explanation",
    );
    order(
        "\"incidents\": [\n    {",
        "id kind scope verdict start end hosts host address oom_event trigger lag_seconds lag_uncertainty_seconds \
         listener_died_at verdict reasons coverage source address tool label may_be_nat cause chance \
         expected_per_year window_seconds method survivors host address listener reason summary",
    );
    order(
        "\"totals\": {",
        "packets bytes flows gaps evicted_flows evicted_bytes bad_checksums overlap_conflicts duplicates skipped unread",
    );
}

#[test]
fn a_line_is_the_same_object_with_its_type() {
    let report = samples::full();
    let whole = document(&report);
    let mut out = Vec::new();
    write_jsonl(&report, &mut out).unwrap();
    let mut findings = Vec::new();
    for line in String::from_utf8(out).unwrap().lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let kind = value.as_object_mut().unwrap().remove("type").unwrap();
        match kind.as_str().unwrap() {
            "finding" => findings.push(value),
            "coverage" => assert_eq!(value, whole["coverage"]),
            "report" => assert_eq!((&value["schema"], &value["totals"]), (&whole["schema"], &whole["totals"])),
            _ => {}
        }
    }
    assert_eq!(Value::Array(findings), whole["findings"]);
}
