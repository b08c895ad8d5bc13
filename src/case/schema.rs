//! Tables, and how older ones become these.

/// Marks a SQLite file as a case: `rdzv`.
pub(super) const APPLICATION_ID: i32 = 0x7264_7a76;

/// What brings a case from the schema of this index to the next one.
pub(super) const MIGRATIONS: [&str; 3] = [V1, COUNTERS, EVIDENCE];

/// The schema that this version writes.
pub(super) const SCHEMA: i32 = MIGRATIONS.len() as i32;

const V1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE capture_set (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    directory TEXT NOT NULL, stem TEXT NOT NULL,
    first INTEGER, last INTEGER,
    counters TEXT NOT NULL DEFAULT '[]', skipped TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX capture_set_stem ON capture_set (directory, stem, id);
CREATE TABLE capture (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    set_id INTEGER NOT NULL REFERENCES capture_set (id) ON DELETE CASCADE,
    path TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL,
    size INTEGER NOT NULL, modified INTEGER NOT NULL,
    head_length INTEGER NOT NULL, head_hash BLOB NOT NULL,
    consumed INTEGER NOT NULL, offset INTEGER NOT NULL,
    state TEXT NOT NULL, first INTEGER, last INTEGER,
    summary TEXT, error TEXT
);
CREATE INDEX capture_path ON capture (path, id);
CREATE INDEX capture_set_id ON capture (set_id);
CREATE TABLE segment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    set_id INTEGER NOT NULL REFERENCES capture_set (id) ON DELETE CASCADE,
    capture_id INTEGER NOT NULL, late INTEGER NOT NULL,
    first INTEGER, last INTEGER, data BLOB NOT NULL
);
CREATE INDEX segment_set ON segment (set_id, late, id);
CREATE TABLE flow (
    set_id INTEGER NOT NULL REFERENCES capture_set (id) ON DELETE CASCADE,
    capture_id INTEGER NOT NULL, packet INTEGER NOT NULL,
    last INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (set_id, capture_id, packet)
) WITHOUT ROWID;
CREATE TABLE promoted (
    set_id INTEGER NOT NULL REFERENCES capture_set (id) ON DELETE CASCADE,
    endpoint TEXT NOT NULL, PRIMARY KEY (set_id, endpoint)
) WITHOUT ROWID;
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL, host TEXT, device INTEGER NOT NULL, inode INTEGER NOT NULL,
    head_length INTEGER NOT NULL, head_hash BLOB NOT NULL,
    offset INTEGER NOT NULL, lines INTEGER NOT NULL, kept INTEGER NOT NULL, seen INTEGER NOT NULL
);
CREATE INDEX log_path ON log (path, id);
CREATE TABLE log_part (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    log_id INTEGER NOT NULL REFERENCES log (id) ON DELETE CASCADE, data BLOB NOT NULL
);
CREATE INDEX log_part_log ON log_part (log_id, id);
CREATE TABLE hosts (path TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE told (
    id TEXT NOT NULL, kind TEXT NOT NULL, rank INTEGER NOT NULL, time INTEGER,
    told_at INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (id, kind)
) WITHOUT ROWID;
CREATE TABLE outbox (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL, kind TEXT NOT NULL, document TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, sent_at INTEGER
);
CREATE INDEX outbox_unsent ON outbox (sequence) WHERE sent_at IS NULL;
";

/// Who has an alert already, what is counted whatever is let go, and what was withheld.
const COUNTERS: &str = "
ALTER TABLE outbox ADD COLUMN done TEXT NOT NULL DEFAULT '[]';
CREATE TABLE counter (
    name TEXT NOT NULL, rule TEXT NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL,
    value INTEGER NOT NULL, PRIMARY KEY (name, rule, severity, kind)
) WITHOUT ROWID;
CREATE TABLE withheld (
    entry TEXT PRIMARY KEY, reason TEXT NOT NULL, count INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counter (name, rule, severity, kind, value)
    SELECT 'findings', json_extract(document, '$.rule'), json_extract(document, '$.severity'), '', count(*)
    FROM told WHERE kind = 'finding' AND json_extract(document, '$.severity') IS NOT NULL GROUP BY 2, 3;
INSERT INTO counter (name, rule, severity, kind, value)
    SELECT 'incidents', '', CASE WHEN rank >= 4294967296 THEN 'critical' ELSE 'warning' END,
           json_extract(document, '$.kind'), count(*)
    FROM told WHERE kind = 'incident' AND json_extract(document, '$.kind') IS NOT NULL GROUP BY 3, 4;
INSERT INTO counter (name, rule, severity, kind, value)
    SELECT 'packets', '', '', '', coalesce(sum(consumed), 0) FROM capture;
";

/// Evidence: what is to be shipped, and what came from others. Earlier nights. When lines of logs came.
const EVIDENCE: &str = "
ALTER TABLE capture_set ADD COLUMN unshipped INTEGER NOT NULL DEFAULT 1;
ALTER TABLE capture ADD COLUMN unshipped INTEGER NOT NULL DEFAULT 1;
ALTER TABLE flow ADD COLUMN unshipped INTEGER;
CREATE INDEX flow_unshipped ON flow (unshipped) WHERE unshipped IS NOT NULL;
ALTER TABLE log ADD COLUMN unshipped INTEGER NOT NULL DEFAULT 1;
ALTER TABLE hosts ADD COLUMN unshipped INTEGER NOT NULL DEFAULT 1;
ALTER TABLE log_part ADD COLUMN seen INTEGER;
UPDATE log_part SET seen=(SELECT seen FROM log WHERE log.id=log_part.log_id);
CREATE TABLE evidence (
    origin TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    rank INTEGER NOT NULL, segment INTEGER NOT NULL, last INTEGER, data BLOB NOT NULL,
    PRIMARY KEY (origin, kind, key)
) WITHOUT ROWID;
CREATE INDEX evidence_last ON evidence (last) WHERE last IS NOT NULL;
CREATE TABLE arrived (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, seen INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE sighting (
    source TEXT NOT NULL, tool TEXT NOT NULL, day INTEGER NOT NULL, hour INTEGER NOT NULL,
    first INTEGER NOT NULL, findings INTEGER NOT NULL, PRIMARY KEY (source, tool, day, hour)
) WITHOUT ROWID;
INSERT OR IGNORE INTO meta (key, value) VALUES ('origin', lower(hex(randomblob(8))));
";
