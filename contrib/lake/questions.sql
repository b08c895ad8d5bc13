-- Questions to the rows, in SQL that DuckDB and ClickHouse both read.

-- question: which hosts did this source touch, and what did it send them
SELECT target_host, count(*) AS findings, max(declared_bytes) AS largest FROM findings WHERE source_address = '192.0.2.250'
GROUP BY target_host ORDER BY target_host;

-- question: claims a week by dialect
SELECT date_trunc('week', time) AS week, dialect, count(*) AS claims FROM findings WHERE rule = 'store-claim' GROUP BY week, dialect ORDER BY week, dialect;

-- question: kills without a trigger
SELECT o.host AS host, o.time AS time, o.process AS process FROM oom_events o LEFT JOIN incident_hosts h ON h.oom_event = o.id
WHERE h.finding IS NULL ORDER BY o.time;

-- question: scans that reach rendezvous ports
SELECT s.source_address AS source, s.tool AS tool, count(DISTINCT f.target_host) AS hosts FROM scans s JOIN findings f ON f.source_address = s.source_address
WHERE f.protocol = 'tcpstore' GROUP BY s.source_address, s.tool ORDER BY source;

-- question: listeners that still do not validate
SELECT host, port, version FROM listeners WHERE protocol = 'tcpstore' AND validates = false ORDER BY host, port;

-- question: mean time from claim to kill, in seconds
SELECT round(avg(lag_seconds), 1) AS seconds, count(*) AS kills FROM incident_hosts WHERE finding IS NOT NULL AND oom_event IS NOT NULL;
