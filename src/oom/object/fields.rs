//! Log stores and shippers: message, time and host under their usual names (CloudWatch, Google Cloud, Loki, Elastic,
//! Splunk, Fluent Bit, Vector, OpenTelemetry, Graylog, Azure, Datadog, rsyslog and syslog-ng templates).

use super::super::format::Format;
use super::super::options::Clock;
use super::super::prefix::{can_be_host, is_nameless};
use super::super::stamp::{self, Stamp};
use super::super::text;
use super::{Context, string};
use serde_json::{Map, Value};

/// Names of fields that the user gives: `--log-field message=…,time=…,host=…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFields {
    /// The message.
    pub message: Option<String>,
    /// The time.
    pub time: Option<String>,
    /// The host.
    pub host: Option<String>,
}

impl std::str::FromStr for LogFields {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let mut fields = LogFields::default();
        for part in given.split(',') {
            let (name, field) = part.split_once('=').ok_or("wanted message=FIELD, time=FIELD or host=FIELD")?;
            let slot = match name.trim() {
                "message" => &mut fields.message,
                "time" => &mut fields.time,
                "host" => &mut fields.host,
                _ => return Err(format!("{name:?} is none of message, time and host")),
            };
            *slot = Some(field.trim().to_owned());
        }
        Ok(fields)
    }
}

impl std::fmt::Display for LogFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [("message", &self.message), ("time", &self.time), ("host", &self.host)];
        let given: Vec<String> = parts.iter().filter_map(|(k, v)| Some(format!("{k}={}", v.as_ref()?))).collect();
        f.write_str(&given.join(","))
    }
}

pub(super) const MESSAGES: [&str; 22] = [
    "message",
    "MESSAGE",
    "msg",
    "log",
    "textPayload",
    "line",
    "_raw",
    "body",
    "Body",
    "short_message",
    "full_message",
    "SyslogMessage",
    "@message",
    "Message",
    "event.original",
    "original",
    "content",
    "text",
    "rawmsg",
    "raw_message",
    "entry",
    "_msg",
];
const TIMES: [&str; 26] = [
    "@timestamp",
    "timestamp",
    "time",
    "ts",
    "date",
    "eventTime",
    "EventTime",
    "TimeGenerated",
    "timeUnixNano",
    "observedTimeUnixNano",
    "_time",
    "timereported",
    "isodate",
    "ISODATE",
    "DATE",
    "datetime",
    "Timestamp",
    "receiveTimestamp",
    "__REALTIME_TIMESTAMP",
    "_SOURCE_REALTIME_TIMESTAMP",
    "t",
    "Time",
    "logged_at",
    "timegenerated",
    "eventtime",
    "created",
];
const HOSTS: [&[&str]; 31] = [
    &["_HOSTNAME"],
    &["hostname"],
    &["host", "hostname"],
    &["host", "name"],
    &["host"],
    &["HOST"],
    &["Hostname"],
    &["HostName"],
    &["Computer"],
    &["host.name"],
    &["host.hostname"],
    &["host_name"],
    &["node"],
    &["nodename"],
    &["node_name"],
    &["nodeName"],
    &["kubernetes", "host"],
    &["kubernetes", "node_name"],
    &["kubernetes", "node", "name"],
    &["k8s.node.name"],
    &["labels", "host"],
    &["labels", "hostname"],
    &["labels", "instance"],
    &["labels", "node"],
    &["labels", "node_name"],
    &["labels", "compute.googleapis.com/resource_name"],
    &["resource", "labels", "node_name"],
    &["beat", "hostname"],
    &["server"],
    &["instance"],
    &["fromhost"],
];
const WEAK: [&[&str]; 8] = [
    &["logStreamName"],
    &["logStream"],
    &["@logStream"],
    &["agent", "hostname"],
    &["agent", "name"],
    &["resource", "labels", "instance_id"],
    &["kubernetes", "pod_name"],
    &["resource", "labels", "pod_name"],
];

pub(crate) const LOGGED: Clock = Clock { from: "time of the log store's record", floor: 1_000_000, after: false };

/// By the path that the user gave: a name, or names with points between them.
fn given<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.get(path).or_else(|| path.split('.').try_fold(object, |o, key| o.get(key)))
}

/// The message of an object, and under which key.
pub(super) fn message<'a>(object: &'a Value, fields: &LogFields) -> Option<(&'a str, &'a str)> {
    let text = |value: &'a Value| {
        value.as_str().or_else(|| string(value, &["stringValue"])).or_else(|| string(value, &["original"]))
    };
    if let Some(path) = &fields.message
        && let Some(found) = given(object, path).and_then(text)
    {
        return Some(("", found));
    }
    let map = object.as_object()?;
    MESSAGES.iter().find_map(|key| map.get_key_value(*key)).and_then(|(key, value)| Some((key.as_str(), text(value)?)))
}

/// A time as text or number; a number below a thousand million is seconds since boot (`dmesg -J`).
pub(super) fn time(value: &Value) -> Option<(Stamp, Clock)> {
    let printed = match value {
        Value::String(text) => text.clone(),
        Value::Number(n) => n.to_string(),
        Value::Object(parts) => {
            // Google's protocol buffers as JSON.
            let seconds = parts.get("seconds")?;
            let nanos = parts.get("nanos").and_then(Value::as_u64).unwrap_or(0);
            format!("{}.{nanos:09}", seconds.as_str().map_or_else(|| seconds.to_string(), str::to_owned))
        }
        _ => return None,
    };
    let printed = printed.trim().as_bytes();
    let found = stamp::any(printed).or_else(|| stamp::boot(printed).filter(|_| value.is_number()));
    found.map(|(stamp, _)| {
        (stamp, if matches!(stamp, Stamp::Boot { .. }) { super::super::prefix::KERNEL } else { LOGGED })
    })
}

fn host(text: &str) -> Option<String> {
    let bare = text.strip_suffix(':').unwrap_or(text);
    // Prometheus-like instances have a port.
    let bare = bare
        .rsplit_once(':')
        .filter(|(h, p)| !h.contains(':') && text::whole(p.as_bytes()).is_some())
        .map_or(bare, |(h, _)| h);
    (super::super::envelope::nodeset::is_host(bare) && !is_nameless(bare.as_bytes())).then(|| bare.to_owned())
}

/// What an object adds to what is known from around it.
pub(super) fn context(object: &Value, around: &Context, fields: &LogFields) -> Context {
    let mut known = around.clone();
    let listed = |path: &[&str]| {
        // OpenTelemetry lists attributes as key and value.
        let attributes = ["attributes", "resource"].iter().filter_map(|key| object.get(key));
        let lists = attributes.filter_map(|a| a.as_array().or_else(|| a.get("attributes")?.as_array()));
        let pair = lists.flatten().find(|a| a.get("key").and_then(Value::as_str) == path.first().copied());
        pair.and_then(|a| string(a, &["value", "stringValue"]))
    };
    let own = |path: &[&str]| {
        string(object, path)
            .or_else(|| string(object.get("stream")?, path))
            .or_else(|| string(object.get("attributes")?, path))
            .or_else(|| listed(path))
    };
    let told = fields.host.as_ref().and_then(|path| given(object, path)?.as_str()).and_then(host);
    if let Some(host) = told.or_else(|| HOSTS.iter().filter_map(|path| own(path)).find_map(host)) {
        known.host = Some(host);
    }
    if let Some(weak) = WEAK.iter().filter_map(|path| own(path)).find_map(host) {
        known.weak = Some(weak);
    }
    let times = || TIMES.iter().filter_map(|key| object.get(key)).find_map(time);
    if let Some(stamp) = fields.time.as_ref().and_then(|path| time(given(object, path)?)).or_else(times) {
        known.stamp = Some(stamp);
    }
    let stream = string(object, &["stream"]).is_some_and(|s| s == "stdout" || s == "stderr");
    if stream {
        known.contained = true;
        known.stamp = known.stamp.map(|(stamp, _)| (stamp, super::super::prefix::PRINTED));
    }
    known.format = Some(if stream && object.get("log").is_some() { Format::DockerLog } else { Format::Json });
    known
}

/// A key that is a host, in an object whose keys all can be (salt's `{"gpu-1": "text"}`).
pub(super) fn host_key<'a>(map: &Map<String, Value>, key: &'a str) -> Option<&'a str> {
    let telling = |k: &str| can_be_host(k) && k.bytes().any(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    map.iter().all(|(k, v)| telling(k) && !v.is_number()).then_some(key)
}

/// CloudWatch Insights prints a row as a list of fields and values.
pub(super) fn row_of_pairs(list: &[Value]) -> Option<Value> {
    let pairs = list.iter().map(|pair| Some((string(pair, &["field"])?.to_owned(), pair.get("value")?.clone())));
    let row: Map<String, Value> = pairs.collect::<Option<_>>()?;
    (!row.is_empty()).then_some(Value::Object(row))
}
