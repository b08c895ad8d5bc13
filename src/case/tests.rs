use super::schema::{APPLICATION_ID, SCHEMA};
use super::{Case, CaseError, Mode, Told};
use crate::time::Timestamp;

fn told(id: &str, rank: i64) -> Told {
    Told { id: id.into(), kind: "finding", rank, time: None, document: "{}".into(), deliver: true }
}

#[test]
fn a_finding_is_told_once_and_again_only_when_it_is_graver() {
    let mut case = Case::in_memory().unwrap();
    assert_eq!(case.tell(&[told("a", 1), told("b", 1)], true, Timestamp(0)).unwrap().len(), 2);
    assert_eq!(case.tell(&[told("a", 1), told("b", 2)], true, Timestamp(0)).unwrap(), [told("b", 2)]);
    let letters = case.letters(10).unwrap();
    assert_eq!(letters.iter().map(|l| l.id.as_str()).collect::<Vec<_>>(), ["a", "b", "b"]);
    case.tried(letters[0].sequence, false, Timestamp(1)).unwrap();
    case.tried(letters[1].sequence, true, Timestamp(1)).unwrap();
    let left = case.letters(10).unwrap();
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
