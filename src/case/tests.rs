use super::schema::{APPLICATION_ID, SCHEMA};
use super::{Case, CaseError, Delivered, Mode};
use crate::time::Timestamp;

fn told(id: &str, rank: i64) -> Delivered {
    Delivered { id: id.into(), kind: "finding", rank, time: None, document: "{}".into(), deliver: true }
}

#[test]
fn a_finding_is_told_once_and_again_only_when_it_is_graver() {
    let mut case = Case::in_memory().unwrap();
    assert_eq!(case.tell(&[told("a", 1), told("b", 1)], true, Timestamp(0)).unwrap().len(), 2);
    assert_eq!(case.tell(&[told("a", 1), told("b", 2)], true, Timestamp(0)).unwrap(), [told("b", 2)]);
    let mut letters = case.letters(0, 10).unwrap();
    assert_eq!(letters.iter().map(|l| l.id.as_str()).collect::<Vec<_>>(), ["a", "b", "b"]);
    letters[0].done.push("exec notify".into());
    case.tried(&letters[0], false, Timestamp(1)).unwrap();
    case.tried(&letters[1], true, Timestamp(1)).unwrap();
    let left = case.letters(0, 10).unwrap();
    assert_eq!(left[0].done, ["exec notify"]);
    assert_eq!(case.letters(left[0].sequence, 10).unwrap().len(), 1);
    assert_eq!(left.iter().map(|l| (l.id.as_str(), l.attempts)).collect::<Vec<_>>(), [("a", 1), ("b", 0)]);
}

#[test]
fn a_later_schema_and_a_foreign_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("case.db");
    assert!(matches!(Case::open(&path, Mode::Write), Err(CaseError::Missing { .. })));
    drop(Case::open(&path, Mode::Create).unwrap());
    assert_eq!(Case::open(&path, Mode::Read).unwrap().info().unwrap().schema, SCHEMA);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(&format!("PRAGMA user_version={}", SCHEMA + 1)).unwrap();
    drop(db);
    for mode in [Mode::Read, Mode::Write, Mode::Create] {
        assert!(matches!(Case::open(&path, mode), Err(CaseError::Newer { .. })));
    }
    let foreign = directory.path().join("other.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(Case::open(&foreign, Mode::Write), Err(CaseError::Foreign { .. })));
    std::fs::write(directory.path().join("text.db"), vec![b'x'; 8192]).unwrap();
    assert!(matches!(Case::open(&directory.path().join("text.db"), Mode::Write), Err(CaseError::Sqlite { .. })));
}

#[test]
fn an_older_schema_is_copied_before_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("case.db");
    let mut case = Case::open(&path, Mode::Create).unwrap();
    case.set_meta("k", "v").unwrap();
    let steps: Vec<&str> = std::iter::repeat_n("", SCHEMA as usize).chain(["CREATE TABLE later (x)"]).collect();
    case.backup(&directory.path().join("copy")).unwrap();
    case.migrate(SCHEMA, &steps).unwrap();
    drop(case);
    assert!(matches!(Case::open(&path, Mode::Read), Err(CaseError::Newer { .. })));
    let copy = Case::open(&directory.path().join("copy"), Mode::Read).unwrap();
    assert_eq!(copy.meta("k").unwrap().as_deref(), Some("v"));
    let id: i32 = copy.pragma("application_id").unwrap();
    assert_eq!(id, APPLICATION_ID);
    assert!(copy.backup(&directory.path().join("copy")).is_err(), "a copy never overwrites a file");
}

#[test]
fn what_an_older_case_told_is_counted_when_it_is_brought_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("case.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(super::schema::MIGRATIONS[0]).unwrap();
    db.execute_batch(&format!("PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version=1;")).unwrap();
    let finding = r#"{"type":"finding","rule":"store-claim","severity":"critical"}"#;
    for (id, kind, rank, document) in [
        ("a", "finding", 3, finding),
        ("b", "finding", 3, finding),
        ("i", "incident", 1i64 << 32, r#"{"type":"incident","kind":"oom"}"#),
    ] {
        let sql = "INSERT INTO told (id, kind, rank, told_at, document) VALUES (?1, ?2, ?3, 0, ?4)";
        db.execute(sql, rusqlite::params![id, kind, rank, document]).unwrap();
    }
    db.execute("INSERT INTO outbox (id, kind, document) VALUES ('a', 'finding', '{}')", []).unwrap();
    drop(db);
    let case = Case::open(&path, Mode::Create).unwrap();
    let count = |name: &str, label: &str| {
        let all = case.counters().unwrap();
        all.iter()
            .filter(|c| c.name == name && (c.labels.rule == label || c.labels.kind == label))
            .map(|c| c.value)
            .sum::<u64>()
    };
    assert_eq!((count("findings", "store-claim"), count("incidents", "oom"), count("packets", "")), (2, 1, 0));
    assert_eq!(case.letters(0, 9).unwrap()[0].done, Vec::<String>::new());
    assert!(directory.path().join("case.db.schema-1").exists());
}

#[test]
fn what_is_withheld_is_remembered_and_counted_and_no_alert() {
    use super::Withheld;
    let mut case = Case::in_memory().unwrap();
    let finding = |id: &str, severity: &str, rank| {
        let document = format!(r#"{{"rule":"syn-scan","severity":"{severity}"}}"#);
        Delivered { document, ..told(id, rank) }
    };
    let why = Withheld { entry: "rule=syn-scan".into(), reason: "r".into() };
    let withheld = [(("a".to_string(), "finding".to_string()), why)].into();
    let all = [finding("a", "info", 1), finding("b", "info", 1)];
    assert_eq!(case.tell_but(&all, &withheld, true, Timestamp(5)).unwrap().len(), 2);
    assert_eq!(case.tell_but(&all, &withheld, true, Timestamp(6)).unwrap().len(), 0);
    assert_eq!(case.letters(0, 9).unwrap().iter().map(|l| l.id.as_str()).collect::<Vec<_>>(), ["b"]);
    let row = &case.withheld().unwrap()[0];
    assert_eq!((row.entry.as_str(), row.reason.as_str(), row.count), ("rule=syn-scan", "r", 1));
    // Graver: told and counted again, under its new severity.
    case.tell(&[finding("b", "warning", 2), finding("b", "warning", 3)], true, Timestamp(7)).unwrap();
    let counted: Vec<_> = (case.counters().unwrap().into_iter())
        .filter(|c| c.value > 0)
        .map(|c| (c.name, c.labels.severity, c.value))
        .collect();
    let of = |name: &str, severity: &str| (name.to_string(), severity.to_string(), 1);
    assert_eq!(counted, [of("findings", "info"), of("findings", "warning"), of("withheld", "info")]);
}

#[test]
fn a_case_of_the_first_schema_is_brought_up_to_date_and_a_copy_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("case.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(super::schema::MIGRATIONS[0]).unwrap();
    db.execute_batch(&format!(
        "PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version=1;
         INSERT INTO meta VALUES ('k', 'v');
         INSERT INTO log VALUES (1, 'kern.log', NULL, 0, 0, 0, x'', 5, 1, 5, 77);
         INSERT INTO log_part (log_id, data) VALUES (1, x'28b52ffd0000010000');
         INSERT INTO told VALUES ('a', 'finding', 1, NULL, 0, '{{}}');"
    ))
    .unwrap();
    drop(db);
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Case::open(&path, Mode::Read), Err(CaseError::Older { found: 1, .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before, "reading changes nothing");
    let mut case = Case::open(&path, Mode::Write).unwrap();
    assert_eq!(case.meta("k").unwrap().as_deref(), Some("v"));
    assert_eq!(case.origin().unwrap().len(), 16);
    assert_eq!(case.tell(&[told("a", 1)], false, Timestamp(0)).unwrap(), [], "what was told stays told");
    let seen: i64 = case.db.query_row("SELECT seen FROM log_part", [], |r| r.get(0)).unwrap();
    assert_eq!((case.info().unwrap().schema, seen), (SCHEMA, 77));
    let copy = directory.path().join("case.db.schema-1");
    let copied = rusqlite::Connection::open(&copy).unwrap();
    let version: i32 = copied.pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    assert_eq!(version, 1);
    let other = Case::open(&directory.path().join("other.db"), Mode::Create).unwrap();
    assert_ne!(case.origin().unwrap(), other.origin().unwrap());
}

#[test]
fn log_lines_and_evidence_are_let_go_with_the_rest() {
    use crate::evidence::{Entry, FactSet, Kind, key_of};
    let mut case = Case::in_memory().unwrap();
    let day = 86_400_000_000_000i64;
    let mut pile = FactSet::default();
    for n in 0..40 {
        let entry = Entry { last: Some(Timestamp(n * day)), data: vec![0; 1000], ..Entry::default() };
        pile.put("o", Kind::Segments, key_of(&[1, n as u64, 1, 0, 0, 1]), entry);
    }
    let at = (std::path::Path::new("x.jsonl"), 1, 1);
    assert!(case.take_evidence(&pile, at, Timestamp(40 * day)).unwrap());
    assert!(!case.take_evidence(&pile, at, Timestamp(40 * day)).unwrap(), "the same says nothing new");
    assert!(case.has_arrived(at.0, 1, 1).unwrap() && !case.has_arrived(at.0, 2, 1).unwrap());
    let mut row = crate::case::LogRow {
        id: 0,
        path: "kmsg".into(),
        host: None,
        inode: (0, 0),
        head_length: 0,
        head_hash: [0; 32],
        offset: 0,
        lines: 1,
        kept: 0,
    };
    for n in [1, 39] {
        case.transaction("x", |tx| super::save_log(tx, &mut row, &[(1, b"x".to_vec())], Timestamp(n * day))).unwrap();
    }
    let count = |case: &Case, table: &str| -> i64 {
        case.db.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap()
    };
    let limits = super::Limits { age: 10.0 * 86_400.0, size: 1 << 30 };
    // A clock far ahead lets go no more than the newest observation does.
    case.prune(&limits, Timestamp(9000 * day)).unwrap();
    assert_eq!((count(&case, "evidence"), count(&case, "log_part"), count(&case, "log")), (11, 1, 1));
    // A budget that is too small for all: the oldest go first.
    let used = case.used().unwrap();
    case.prune(&super::Limits { size: used - 8000, ..limits }, Timestamp(40 * day)).unwrap();
    assert!(count(&case, "evidence") < 11 && count(&case, "evidence") > 0);
    let oldest: i64 = case.db.query_row("SELECT min(last) FROM evidence", [], |r| r.get(0)).unwrap();
    assert!(oldest > 29 * day);
}

#[test]
fn the_oldest_flows_go_where_there_are_too_many() {
    let mut case = Case::in_memory().unwrap();
    case.transaction("t", |tx| {
        let set = super::new_set(tx, &("d".into(), "s".into()))?;
        for i in 0..1000i64 {
            let sql = "INSERT INTO flow (set_id, capture_id, packet, last, data) VALUES (?1, 1, ?2, ?2, x'00')";
            tx.execute(sql, rusqlite::params![set, i])?;
        }
        Ok(())
    })
    .unwrap();
    assert!(case.prune_flows(1000).unwrap().is_nothing());
    assert_eq!(case.prune_flows(500).unwrap().flows, 550);
    assert_eq!(case.info().unwrap().flows, 450);
    assert!(case.prune_flows(500).unwrap().is_nothing());
}
