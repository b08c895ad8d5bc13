-- Tables over the rows that `rdzvscope report --rows DIR` writes, for ClickHouse: load them by
--   clickhouse client -q "INSERT INTO findings SELECT * FROM input('...') FORMAT JSONEachRow" < rows/findings.jsonl
-- Keys are the report's ids: the same fact has the same id on every re-read, so that a ReplacingMergeTree holds it once.
CREATE TABLE IF NOT EXISTS findings (id String, rule LowCardinality(String), severity LowCardinality(String), time Nullable(DateTime64(9, 'UTC')),
    capture Nullable(String), packet Nullable(UInt64), source_address Nullable(String), source_port Nullable(UInt16), target_address Nullable(String),
    target_port Nullable(UInt16), target_host Nullable(String), community_id Nullable(String), protocol LowCardinality(Nullable(String)),
    dialect LowCardinality(Nullable(String)), query LowCardinality(Nullable(String)), stream_offset Nullable(UInt64), declared_bytes Nullable(UInt64),
    declared_count Nullable(UInt64), acknowledged LowCardinality(Nullable(String)), occurrences Nullable(UInt64), stray_protocol Nullable(String),
    stray_tool Nullable(String), stray_probe Nullable(String), outcome LowCardinality(Nullable(String)), allocates_bytes Nullable(UInt64),
    explanation Nullable(String)) ENGINE = ReplacingMergeTree ORDER BY id;
CREATE TABLE IF NOT EXISTS oom_events (id String, host Nullable(String), time Nullable(DateTime64(9, 'UTC')), kind LowCardinality(Nullable(String)),
    process Nullable(String), pid Nullable(UInt64), total_vm_bytes Nullable(UInt64), anon_rss_bytes Nullable(UInt64), workload_kind Nullable(String),
    workload_id Nullable(String)) ENGINE = ReplacingMergeTree ORDER BY id;
CREATE TABLE IF NOT EXISTS incidents (id String, kind LowCardinality(String), scope LowCardinality(Nullable(String)), verdict LowCardinality(Nullable(String)),
    start Nullable(DateTime64(9, 'UTC')), end Nullable(DateTime64(9, 'UTC')), cause LowCardinality(Nullable(String)), source_address Nullable(String),
    source_tool Nullable(String), summary Nullable(String)) ENGINE = ReplacingMergeTree ORDER BY id;
CREATE TABLE IF NOT EXISTS incident_hosts (incident String, incident_verdict LowCardinality(Nullable(String)), host String, address Nullable(String),
    oom_event Nullable(String), finding Nullable(String), lag_seconds Nullable(Float64), declared_bytes Nullable(UInt64),
    verdict LowCardinality(Nullable(String)), coverage LowCardinality(Nullable(String))) ENGINE = ReplacingMergeTree ORDER BY (incident, host);
CREATE TABLE IF NOT EXISTS listeners (id String, address Nullable(String), port Nullable(UInt16), host Nullable(String), protocol LowCardinality(Nullable(String)),
    role LowCardinality(Nullable(String)), dialect LowCardinality(Nullable(String)), version Nullable(String), backend LowCardinality(Nullable(String)),
    validates Nullable(Bool), connections Nullable(UInt64), first_seen Nullable(DateTime64(9, 'UTC')), last_seen Nullable(DateTime64(9, 'UTC')),
    died_at Nullable(DateTime64(9, 'UTC'))) ENGINE = ReplacingMergeTree ORDER BY id;
CREATE TABLE IF NOT EXISTS scans (id String, source_address Nullable(String), source_label Nullable(String), tool Nullable(String), profile Nullable(String),
    first Nullable(DateTime64(9, 'UTC')), last Nullable(DateTime64(9, 'UTC')), hosts Nullable(UInt64), ports Nullable(UInt64),
    connections Nullable(UInt64)) ENGINE = ReplacingMergeTree ORDER BY id;
