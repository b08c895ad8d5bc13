//! Readings of memory over time, one series a host.

use crate::oom::Options;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// One reading. Of the two values at least one is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Memory used, in bytes.
    pub used_bytes: Option<f64>,
    /// Memory used, in percent of all (0 to 100).
    pub used_percent: Option<f64>,
}

/// Readings of one host, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The host.
    pub host: String,
    /// The readings.
    pub samples: Vec<Sample>,
    /// Times rest on a guessed zone (`--log-tz` settles it).
    pub time_is_assumed: bool,
}

/// Readings as they come in.
#[derive(Default)]
pub(super) struct Collector {
    hosts: BTreeMap<String, Series>,
    errors: Vec<LineError>,
    not_understood: u64,
    kept: u64,
    dropped: u64,
}

impl Collector {
    pub(super) fn add(&mut self, host: &str, sample: Sample, assumed: bool) {
        let sound = |v: Option<f64>| v.filter(|v| v.is_finite() && *v >= 0.0);
        let sample =
            Sample { used_bytes: sound(sample.used_bytes), used_percent: sound(sample.used_percent), ..sample };
        if sample.used_bytes.is_none() && sample.used_percent.is_none() {
            return;
        }
        if self.kept >= MAX_SAMPLES || (self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(host)) {
            self.dropped += 1;
            return;
        }
        self.kept += 1;
        let series = self.hosts.entry(host.to_owned()).or_default();
        series.time_is_assumed |= assumed;
        series.samples.push(sample);
    }

    /// Notes a line, counted from 0.
    pub(super) fn bad(&mut self, line: usize, required: &'static str, found: &str) {
        self.not_understood += 1;
        if self.errors.len() < MAX_ERRORS {
            let found = found.trim().chars().take(80).collect();
            self.errors.push(LineError { line: line as u64 + 1, required, found });
        }
    }

    pub(super) fn finish(self, form: CurveFormat) -> Read {
        let series = self.hosts.into_iter().map(|(host, mut s)| {
            s.host = host;
            s.samples.sort_by_key(|s| s.at);
            s.samples.dedup_by_key(|s| s.at);
            s
        });
        Read {
            form,
            series: series.collect(),
            errors: self.errors,
            not_understood: self.not_understood,
            dropped: self.dropped,
        }
    }
}

/// The host that a reading is of.
pub(super) fn host<'a>(options: &'a Options, own: Option<&'a str>) -> Option<&'a str> {
    let own = own.filter(|h| !h.is_empty() && h.len() <= 253);
    options.explicit_host.as_deref().or(own).or(options.file_host.as_deref())
}

/// The instant of a local time of a host, and whether its zone is a guess.
pub(super) fn local(options: &Options, host: &str, at: chrono::NaiveDateTime) -> Option<(Timestamp, bool)> {
    let (zone, assumed) = options.zone_of(Some(host));
    let instants = zone.instants(at)?;
    Some((instants.first, assumed || instants.second.is_some()))
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveFormat {
    /// `host,time,used_bytes`
    Csv,
    /// `sar -r`
    Sar,
    /// `sadf -d`
    SadfDatabase,
    /// `sadf -j`
    SadfJson,
    /// A range query's answer.
    Prometheus,
}

impl CurveFormat {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CurveFormat::Csv => "memory-csv",
            CurveFormat::Sar => "sar",
            CurveFormat::SadfDatabase => "sadf",
            CurveFormat::SadfJson => "sadf-json",
            CurveFormat::Prometheus => "prometheus",
        }
    }
}

/// A line that gave no reading where one was required.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: required {required}, there was {found:?}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// What the form requires.
    pub required: &'static str,
    /// The line's beginning.
    pub found: String,
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The form.
    pub form: CurveFormat,
    /// By host, in order of names.
    pub series: Vec<Series>,
    /// The first lines that were not understood.
    pub errors: Vec<LineError>,
    /// How many there were.
    pub not_understood: u64,
    /// Readings beyond the bound, not kept.
    pub dropped: u64,
}

/// Hosts kept of one text.
pub(super) const MAX_HOSTS: usize = 10_000;

/// Readings kept of one text.
pub(super) const MAX_SAMPLES: u64 = 4_000_000;

/// Errors kept of one text.
pub(super) const MAX_ERRORS: usize = 100;
