//! sysstat: `sar -r`, `sadf -d … -- -r`, `sadf -j … -- -r`. Its kB are of 1024 bytes; text has local time.

use super::series::{Collector, Sample, host, local};
use crate::oom::{Options, instant_or_local};
use crate::time::{NANOS, Timestamp};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use serde_json::Value;

const KB: f64 = 1024.0;

/// Which of the columns behind the time hold what.
#[derive(Clone, Copy, Default)]
struct Columns {
    used: Option<usize>,
    percent: Option<usize>,
}

impl Columns {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Columns {
        let mut columns = Columns::default();
        for (at, name) in names.enumerate() {
            match name {
                "kbmemused" => columns.used = Some(at),
                "%memused" => columns.percent = Some(at),
                _ => {}
            }
        }
        columns
    }

    fn sample(self, at: Timestamp, cells: &[&str]) -> Option<Sample> {
        // Some locales print a decimal comma.
        let cell = |at: Option<usize>| cells.get(at?)?.replace(',', ".").parse::<f64>().ok();
        let sample = Sample { at, used_bytes: cell(self.used).map(|kb| kb * KB), used_percent: cell(self.percent) };
        (sample.used_bytes.is_some() || sample.used_percent.is_some()).then_some(sample)
    }
}

/// `sar -r`: a head with host and date, lines of names, lines that begin with a clock.
pub(super) fn read(text: &str, options: &Options, to: &mut Collector) {
    const REQUIRED: &str = "a clock and the columns of `sar -r`, below a head with host and date";
    let mut head: Option<(String, NaiveDate)> = None;
    let mut columns = Columns::default();
    let mut last: Option<NaiveTime> = None;
    for (number, line) in text.lines().enumerate() {
        if let Some(rest) = line.strip_prefix("Linux ") {
            head = opening(rest, options);
            last = None;
            if head.is_none() {
                to.bad(number, "Linux RELEASE (HOST) DATE", line);
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        let Some(first) = words.first().filter(|w| !w.starts_with("Average") && !w.ends_with(':')) else { continue };
        let halved = words.get(1).is_some_and(|w| matches!(*w, "AM" | "PM"));
        let cells = words.get(if halved { 2 } else { 1 }..).unwrap_or_default();
        if line.contains("memused") {
            columns = Columns::of(cells.iter().copied());
            continue;
        }
        if line.contains("LINUX RESTART") || cells.first().is_some_and(|c| c.parse::<f64>().is_err()) {
            // Names of another report's columns.
            columns = if line.contains("RESTART") { columns } else { Columns::default() };
            continue;
        }
        let taken = clock(first, words.get(1).copied().filter(|_| halved)).and_then(|time| {
            let (own, date) = head.as_mut()?;
            if last.is_some_and(|l| time < l) {
                *date = date.succ_opt()?;
            }
            last = Some(time);
            let host = host(options, Some(own.as_str()))?;
            let (at, assumed) = local(options, host, date.and_time(time))?;
            if let Some(sample) = columns.sample(at, cells) {
                to.add(host, sample, assumed);
            }
            Some(())
        });
        if taken.is_none() {
            to.bad(number, REQUIRED, line);
        }
    }
}

/// `6.1.0 (node-a) \t11/29/26 \t_x86_64_`
fn opening(rest: &str, options: &Options) -> Option<(String, NaiveDate)> {
    let (_, rest) = rest.split_once('(')?;
    let (host, rest) = rest.split_once(')')?;
    Some((host.to_owned(), date(rest.split_whitespace().next()?, options)?))
}

/// `2026-11-29`, `11/29/26`, `11/29/2026`, `29.11.2026`. Of day and month the order that is possible, then the one nearer
/// to `near`, then the month first.
fn date(text: &str, options: &Options) -> Option<NaiveDate> {
    let parts: Vec<u32> = text.split(['/', '-', '.']).take(4).map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let [a, b, c] = parts.as_slice() else { return None };
    let make = |y: u32, m: u32, d: u32| {
        let y = if y < 100 { y + 2000 } else { y };
        NaiveDate::from_ymd_opt(i32::try_from(y).ok()?, m, d)
    };
    if *a > 31 {
        return make(*a, *b, *c);
    }
    let month_first = make(*c, *a, *b).filter(|_| !text.contains('.'));
    let day_first = make(*c, *b, *a);
    match (month_first, day_first, options.near) {
        (Some(m), Some(d), Some(near)) => {
            let away = |x: NaiveDate| (x - near.to_utc().date_naive()).abs();
            Some(if away(d) < away(m) { d } else { m })
        }
        (m, d, _) => m.or(d),
    }
}

fn clock(text: &str, half: Option<&str>) -> Option<NaiveTime> {
    let time = NaiveTime::parse_from_str(text, "%H:%M:%S").ok()?;
    use chrono::Timelike;
    match (half, time.hour()) {
        (None, _) => Some(time),
        (Some("AM"), 12) => time.with_hour(0),
        (Some("PM"), h) if h < 12 => time.with_hour(h + 12),
        _ => Some(time),
    }
}

/// `node-a;1;2026-11-29 14:01:56 UTC;15020324;…` below `# hostname;interval;timestamp;…`.
pub(super) fn read_database(text: &str, options: &Options, to: &mut Collector) {
    const REQUIRED: &str = "hostname;interval;timestamp;… of `sadf -d -- -r`";
    let mut columns = Columns::default();
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let cells: Vec<&str> = line.split(';').take(64).collect();
        if line.starts_with('#') {
            columns = Columns::of(cells.iter().skip(3).copied());
            continue;
        }
        if line.contains("LINUX-RESTART") || line.contains("COMMENT") {
            continue;
        }
        let taken = cells.first().zip(cells.get(2)).and_then(|(own, time)| {
            let host = host(options, Some(own))?;
            let (at, assumed) = instant(time, options, host)?;
            if let Some(sample) = columns.sample(at, cells.get(3..)?) {
                to.add(host, sample, assumed);
            }
            Some(())
        });
        if taken.is_none() {
            to.bad(number, REQUIRED, line);
        }
    }
}

/// `2026-11-29 14:01:56 UTC`, the same without `UTC` (local), or seconds since 1970.
fn instant(text: &str, options: &Options, host: &str) -> Option<(Timestamp, bool)> {
    let text = text.trim();
    if let Some(utc) = text.strip_suffix(" UTC") {
        let naive = NaiveDateTime::parse_from_str(utc, "%Y-%m-%d %H:%M:%S").ok()?;
        return Some((Timestamp::new(naive.and_utc().timestamp(), 0), false));
    }
    match instant_or_local(text)? {
        Ok(at) => Some((at, false)),
        Err(naive) => local(options, host, naive),
    }
}

/// `{"sysstat":{"hosts":[{"nodename":…,"statistics":[{"timestamp":{…},"memory":{…}}]}]}}`
pub(super) fn read_json(text: &str, options: &Options, to: &mut Collector) {
    let whole: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(e) => {
            let line = e.line().saturating_sub(1);
            return to.bad(line, "JSON, whole", text.lines().nth(line).unwrap_or_default());
        }
    };
    let hosts = whole.get("sysstat").and_then(|s| s.get("hosts")).and_then(Value::as_array);
    for of_host in hosts.into_iter().flatten() {
        let Some(host) = host(options, of_host.get("nodename").and_then(Value::as_str)) else { continue };
        for statistic in of_host.get("statistics").and_then(Value::as_array).into_iter().flatten() {
            let taken = statistic.get("timestamp").and_then(|t| {
                let text = |key: &str| t.get(key).and_then(Value::as_str);
                let naive = format!("{} {}", text("date")?, text("time")?);
                let naive = NaiveDateTime::parse_from_str(&naive, "%Y-%m-%d %H:%M:%S").ok()?;
                let utc = t.get("utc").and_then(Value::as_i64) == Some(1) || text("tz") == Some("UTC");
                let at = if utc {
                    Some((Timestamp(naive.and_utc().timestamp().checked_mul(NANOS)?), false))
                } else {
                    local(options, host, naive)
                };
                let (at, assumed) = at?;
                let number = |key: &str| statistic.get("memory")?.get(key)?.as_f64();
                let used_bytes = number("memused").map(|kb| kb * KB);
                to.add(host, Sample { at, used_bytes, used_percent: number("memused-percent") }, assumed);
                Some(())
            });
            if taken.is_none() {
                to.bad(0, "a timestamp with date and time", &statistic.to_string());
            }
        }
    }
}
