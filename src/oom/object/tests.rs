//! JSON of log stores: one kill, its host and its time, in each store's form.

use super::super::{Options, Scanner, merge};

const KILL: &str = "Out of memory: Killed process 7 (py) total-vm:9kB, anon-rss:8kB";

#[test]
fn message_time_and_host_under_their_usual_names() {
    for text in [
        format!(
            r#"{{"@timestamp":"2023-11-14T22:14:25Z","message":"{KILL}","host":{{"name":"gpu-1"}},"agent":{{"hostname":"shipper"}}}}"#
        ),
        format!(
            r#"{{"hits":{{"hits":[{{"_source":{{"@timestamp":"2023-11-14T22:14:25Z","message":"{KILL}","host":{{"hostname":"gpu-1"}}}}}}]}}}}"#
        ),
        format!(
            r#"{{"textPayload":"{KILL}","timestamp":"2023-11-14T22:14:25Z","labels":{{"compute.googleapis.com/resource_name":"gpu-1"}}}}"#
        ),
        format!(
            r#"{{"jsonPayload":{{"message":"{KILL}"}},"timestamp":"2023-11-14T22:14:25Z","resource":{{"labels":{{"node_name":"gpu-1"}}}}}}"#
        ),
        format!(
            r#"{{"events":[{{"timestamp":1700000065000,"message":"{KILL}","ingestionTime":1700000099000,"logStreamName":"gpu-1"}}]}}"#
        ),
        format!(
            r#"{{"results":[[{{"field":"@timestamp","value":"2023-11-14 22:14:25.000"}},{{"field":"@message","value":"{KILL}"}},{{"field":"@logStream","value":"gpu-1"}}]]}}"#
        ),
        format!(
            r#"{{"data":{{"resultType":"streams","result":[{{"stream":{{"host":"gpu-1"}},"values":[["1700000065000000000","{KILL}"]]}}]}}}}"#
        ),
        format!(r#"{{"labels":{{"host":"gpu-1"}},"line":"{KILL}","timestamp":"2023-11-14T22:14:25Z"}}"#),
        format!(
            r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"host.name","value":{{"stringValue":"gpu-1"}}}}]}},"scopeLogs":[{{"logRecords":[{{"timeUnixNano":"1700000065000000000","body":{{"stringValue":"{KILL}"}}}}]}}]}}]}}"#
        ),
        format!(r#"{{"message":"{KILL}","host":"gpu-1","timestamp":"2023-11-14T22:14:25Z","source_type":"journald"}}"#),
        format!(r#"{{"date":1700000065.0,"log":"{KILL}","kubernetes":{{"host":"gpu-1","pod_name":"x"}}}}"#),
        format!(
            r#"{{"preview":false,"result":{{"_raw":"{KILL}","_time":"2023-11-14T22:14:25.000+00:00","host":"gpu-1"}}}}"#
        ),
        format!(r#"{{"version":"1.1","host":"gpu-1","short_message":"{KILL}","timestamp":1700000065}}"#),
        format!(r#"{{"TimeGenerated":"2023-11-14T22:14:25Z","Computer":"gpu-1","SyslogMessage":"{KILL}"}}"#),
        format!(r#"{{"MESSAGE":"{KILL}","HOST":"gpu-1","ISODATE":"2023-11-14T22:14:25+00:00"}}"#),
        format!(
            r#"{{"message":"Nov 14 22:14:25 gpu-1 kernel: {KILL}","@timestamp":"2023-11-14T22:14:25Z","host":{{"name":"relay"}}}}"#
        ),
        format!(r#"2023-11-14T22:14:25+00:00	kern	{{"message":"{KILL}","host":"gpu-1"}}"#),
        format!(r#"{{"gpu-1":"[Tue Nov 14 22:14:25 2023] {KILL}"}}"#),
        format!(r#"{{"@timestamp":"2023-11-14T22:14:25Z","host":"gpu-1","message":"{{\"msg\":\"{KILL}\"}}"}}"#),
        format!(r#"data: {{"_HOSTNAME":"gpu-1","__REALTIME_TIMESTAMP":"1700000065000000","MESSAGE":"{KILL}"}}"#),
    ] {
        let options = Options {
            file_host: Some("file".into()),
            near: Some(crate::time::Timestamp::new(1_700_000_000, 0)),
            ..Options::default()
        };
        let mut scanner = Scanner::new("log", &options);
        scanner.line(1, text.as_bytes());
        let summary = scanner.finish();
        assert_eq!(summary.not_understood, 0, "{text}");
        let merged = merge(summary.sightings);
        let got: Vec<_> = merged.events.iter().map(|e| (e.host.as_deref(), e.time.0 / 1_000_000_000, e.pid)).collect();
        assert_eq!(got, [(Some("gpu-1"), 1_700_000_065, Some(7))], "{text}");
    }
}

#[test]
fn other_names_are_given() {
    let fields = "message=what.text,time=when,host=where".parse().unwrap();
    let options = Options { fields, ..Options::default() };
    let mut scanner = Scanner::new("log", &options);
    scanner.line(1, format!(r#"{{"what":{{"text":"{KILL}"}},"when":1700000065,"where":"gpu-1"}}"#).as_bytes());
    let merged = merge(scanner.finish().sightings);
    assert_eq!(merged.events[0].host.as_deref(), Some("gpu-1"));
    assert_eq!(merged.events[0].time.0, 1_700_000_065_000_000_000);
    assert!("nonsense".parse::<super::LogFields>().is_err() && "who=x".parse::<super::LogFields>().is_err());
}

#[test]
fn a_line_by_syslog_that_calls_itself_kernel_is_a_process() {
    for (transport, told) in
        [("kernel", "kernel"), ("syslog", "process"), ("stdout", "process"), ("journal", "process")]
    {
        let text = format!(
            r#"{{"_HOSTNAME":"h","__REALTIME_TIMESTAMP":"1700000065000000","_TRANSPORT":"{transport}","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"{KILL}"}}"#
        );
        let mut scanner = Scanner::new("log", &Options::default());
        scanner.line(1, text.as_bytes());
        let event = merge(scanner.finish().sightings).events.remove(0);
        assert_eq!(event.told_by.map(|t| t.name()), Some(told), "{transport}");
        assert_eq!(event.writer.is_some(), told == "process");
    }
}

#[test]
fn a_tree_larger_than_its_text_is_refused() {
    let text = format!("[{{\"a\":[{}1]}}]", "1,".repeat(2_000_000));
    let mut n = 0;
    assert!(super::document::objects(text.as_bytes(), &mut |_| n += 1).is_err());
    assert_eq!(n, 0);
}
