-- Views over the rows that `rdzvscope report --rows DIR` and `merge --rows DIR` write. Set the folder first: SET VARIABLE rows = 'rows';
-- Several folders, one a night, are read together with a pattern: SET VARIABLE rows = 'rows/*';
-- Types are fixed here and nowhere guessed: times have nine digits, sizes are unsigned.
CREATE OR REPLACE MACRO nanoseconds(t) AS make_timestamp_ns(
    epoch_us(strptime(left(t, 26), '%Y-%m-%dT%H:%M:%S.%f')) * 1000 + substring(t, 27, 3)::BIGINT);
CREATE OR REPLACE VIEW findings AS SELECT * REPLACE (nanoseconds(time) AS time) FROM read_json(getvariable('rows') || '/findings.jsonl',
    format = 'newline_delimited', columns = {id: 'VARCHAR', rule: 'VARCHAR', severity: 'VARCHAR', time: 'VARCHAR', capture: 'VARCHAR', packet: 'UBIGINT',
    source_address: 'VARCHAR', source_port: 'USMALLINT', target_address: 'VARCHAR', target_port: 'USMALLINT', target_host: 'VARCHAR', community_id: 'VARCHAR',
    protocol: 'VARCHAR', dialect: 'VARCHAR', query: 'VARCHAR', stream_offset: 'UBIGINT', declared_bytes: 'UBIGINT', declared_count: 'UBIGINT',
    acknowledged: 'VARCHAR', occurrences: 'UBIGINT', stray_protocol: 'VARCHAR', stray_tool: 'VARCHAR', stray_probe: 'VARCHAR', outcome: 'VARCHAR',
    allocates_bytes: 'UBIGINT', explanation: 'VARCHAR'});
CREATE OR REPLACE VIEW oom_events AS SELECT * REPLACE (nanoseconds(time) AS time) FROM read_json(getvariable('rows') || '/oom_events.jsonl',
    format = 'newline_delimited', columns = {id: 'VARCHAR', host: 'VARCHAR', time: 'VARCHAR', kind: 'VARCHAR', process: 'VARCHAR', pid: 'UBIGINT',
    total_vm_bytes: 'UBIGINT', anon_rss_bytes: 'UBIGINT', workload_kind: 'VARCHAR', workload_id: 'VARCHAR'});
CREATE OR REPLACE VIEW incidents AS SELECT * REPLACE (nanoseconds(start) AS start, nanoseconds("end") AS "end")
    FROM read_json(getvariable('rows') || '/incidents.jsonl', format = 'newline_delimited', columns = {id: 'VARCHAR', kind: 'VARCHAR', scope: 'VARCHAR',
    verdict: 'VARCHAR', start: 'VARCHAR', "end": 'VARCHAR', cause: 'VARCHAR', source_address: 'VARCHAR', source_tool: 'VARCHAR', summary: 'VARCHAR'});
CREATE OR REPLACE VIEW incident_hosts AS SELECT * FROM read_json(getvariable('rows') || '/incident_hosts.jsonl', format = 'newline_delimited',
    columns = {incident: 'VARCHAR', incident_verdict: 'VARCHAR', host: 'VARCHAR', address: 'VARCHAR', oom_event: 'VARCHAR', finding: 'VARCHAR',
    lag_seconds: 'DOUBLE', declared_bytes: 'UBIGINT', verdict: 'VARCHAR', coverage: 'VARCHAR'});
CREATE OR REPLACE VIEW listeners AS SELECT * REPLACE (nanoseconds(first_seen) AS first_seen, nanoseconds(last_seen) AS last_seen, nanoseconds(died_at) AS died_at)
    FROM read_json(getvariable('rows') || '/listeners.jsonl', format = 'newline_delimited', columns = {id: 'VARCHAR', address: 'VARCHAR', port: 'USMALLINT',
    host: 'VARCHAR', protocol: 'VARCHAR', role: 'VARCHAR', dialect: 'VARCHAR', version: 'VARCHAR', backend: 'VARCHAR', validates: 'BOOLEAN',
    connections: 'UBIGINT', first_seen: 'VARCHAR', last_seen: 'VARCHAR', died_at: 'VARCHAR'});
CREATE OR REPLACE VIEW scans AS SELECT * REPLACE (nanoseconds(first) AS first, nanoseconds(last) AS last) FROM read_json(getvariable('rows') || '/scans.jsonl',
    format = 'newline_delimited', columns = {id: 'VARCHAR', source_address: 'VARCHAR', source_label: 'VARCHAR', tool: 'VARCHAR', profile: 'VARCHAR',
    first: 'VARCHAR', last: 'VARCHAR', hosts: 'UBIGINT', ports: 'UBIGINT', connections: 'UBIGINT'});
