use super::*;
use crate::report::model::{IncidentHost, Sender, Severity, Target};

fn list(text: &str) -> Suppressions {
    Suppressions::parse(text, Path::new("list")).unwrap()
}

fn finding(id: &str, rule: &str, source: &str, target: &str, port: u16) -> Finding {
    Finding {
        id: id.to_string(),
        rule: rule.to_string(),
        severity: Severity::Critical,
        time: crate::oom::parse_instant("2026-11-29T03:00:00Z").ok(),
        source: Some(Sender { address: source.to_string(), port: Some(41_000) }),
        target: Some(Target { address: target.to_string(), port: Some(port), host: None }),
        ..Finding::default()
    }
}

fn report(hosts: Vec<IncidentHost>) -> Report {
    Report {
        findings: vec![
            finding("a", "store-claim", "192.0.2.250", "192.0.2.11", 29500),
            finding("b", "syn-scan", "192.0.2.250", "192.0.2.12", 29400),
            finding("c", "store-claim", "2001:db8::250", "2001:db8::11", 29500),
        ],
        incidents: vec![Incident { id: "i".to_string(), hosts, ..Incident::default() }],
        ..Report::default()
    }
}

fn names(list: &Suppressions, report: &Report) -> String {
    list.withheld(report).keys().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn all_words_of_an_entry_must_fit() {
    for (text, expected) in [
        ("source=192.0.2.0/24 reason=r", "ab"),
        ("source=192.0.2.0/24 rule=syn-scan reason=r", "b"),
        ("source=192.0.2.1,2001:db8::/32 reason=r", "c"),
        ("listener=*:29500 reason=r", "ac"),
        ("listener=[2001:db8::11]:29500,192.0.2.12:29400 reason=r", "bc"),
        ("listener=192.0.2.11:29500 rule=syn-scan reason=r", ""),
        ("rule=store-claim hours=02:00-04:00 reason=r", "ac"),
        ("rule=store-claim hours=04:00-06:00 reason=r", ""),
        ("rule=store-claim until=2026-11-28 reason=r", ""),
        ("\n# nothing\n  rule=syn-scan reason=\"a \\\"b\\\" # c\" # d\n", "b"),
    ] {
        assert_eq!(names(&list(text), &report(Vec::new())), expected, "{text}");
    }
    let quoted = list("rule=syn-scan reason=\"a \\\"b\\\" # c\" # d").withheld(&report(Vec::new()));
    assert_eq!(
        quoted.values().next().unwrap(),
        &Withheld { entry: "rule=syn-scan".into(), reason: "a \"b\" # c".into() }
    );
}

#[test]
fn an_incident_with_a_kill_needs_an_entry_of_its_own() {
    let host = |trigger: &str, kill: Option<&str>| IncidentHost {
        trigger: Some(trigger.to_string()),
        oom_event: kill.map(str::to_string),
        ..IncidentHost::default()
    };
    let all = list("rule=store-claim reason=r\nsource=192.0.2.0/24 reason=s");
    assert_eq!(names(&all, &report(vec![host("a", None), host("b", None)])), "abci");
    assert_eq!(names(&all, &report(vec![host("a", None), host("b", Some("k"))])), "abc");
    let dead = IncidentHost { listener_died_at: Some(Timestamp(1)), ..host("a", None) };
    assert_eq!(names(&all, &report(vec![dead])), "abc");
    // One trigger that nobody expected, or none at all.
    assert_eq!(names(&list("rule=syn-scan reason=r"), &report(vec![host("a", None), host("b", None)])), "b");
    assert_eq!(names(&all, &report(vec![IncidentHost::default()])), "abc");
    assert_eq!(names(&list("incident=i reason=known"), &report(vec![host("b", Some("k"))])), "i");
    assert_eq!(names(&list("incident=j reason=known"), &report(vec![host("b", Some("k"))])), "");
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_its_number() {
    for (text, needle) in [
        ("source=192.0.2.1", "reason="),
        ("reason=all", "would withhold all"),
        ("source=node-a reason=r", "\"node-a\" was there"),
        ("rule=sotre-claim reason=r", "\"sotre-claim\" is no rule"),
        ("listener=29500 reason=r", "*:29500 was required"),
        ("sorce=192.0.2.1 reason=r", "\"sorce\" is no key"),
        ("192.0.2.1 reason=r", "key=value was required"),
        ("source=192.0.2.1 source=192.0.2.2 reason=r", "twice"),
        ("source= reason=r", "no value"),
        ("source=192.0.2.1 reason=\"r", "not closed"),
        ("incident=i rule=syn-scan reason=r", "cannot stand beside it"),
        ("rule=syn-scan until=later reason=r", "until=: 2027-01-01"),
    ] {
        let error = Suppressions::parse(&format!("# first\n\n{text}\n{text}\n"), Path::new("a/list")).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("a/list:3: ") && said.contains(needle) && said.contains("1 more"), "{said}");
    }
    assert_eq!(list("rule=syn-scan until=2026-01-01 reason=r").expired(Timestamp(i64::MAX)).count(), 1);
}

#[test]
fn a_list_is_read_again_when_it_changes_and_a_bad_one_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("list");
    assert!(SuppressFile::open(&path).is_err());
    std::fs::write(&path, "rule=syn-scan reason=r\n").unwrap();
    let mut file = SuppressFile::open(&path).unwrap();
    std::fs::write(&path, "rule=syn-scan reason=r\nrule=\n").unwrap();
    assert!(file.refresh().is_err());
    assert_eq!(file.list().len(), 1);
    assert_eq!(file.refresh(), Ok(()), "it is said once");
    std::fs::write(&path, "rule=syn-scan reason=r\nrule=store-claim reason=r\n").unwrap();
    file.refresh().unwrap();
    assert_eq!(file.list().len(), 2);
    std::fs::remove_file(&path).unwrap();
    assert!(file.refresh().is_err());
    assert_eq!(file.list().len(), 2);
}
