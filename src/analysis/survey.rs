//! What lies in directories, without reading it.

use std::path::PathBuf;

use super::inputs::{Inputs, Shape};
use super::options::Named;

/// What paths hold.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Captures.
    pub captures: Vec<PathBuf>,
    /// Files that are empty so far.
    pub empty: Vec<PathBuf>,
    /// Logs.
    pub logs: Vec<Named>,
    /// Hosts lists.
    pub hosts: Vec<PathBuf>,
    /// What cannot be read: its path, and why.
    pub refused: Vec<(PathBuf, String)>,
}

/// Looks at `paths` and, for logs, at `oom`.
pub fn survey(paths: &[PathBuf], oom: &[Named]) -> Survey {
    let mut inputs = Inputs::default();
    paths.iter().for_each(|p| inputs.add(p));
    oom.iter().for_each(|o| inputs.add_log(&o.path, o.host.as_deref()));
    let mut found = Survey::default();
    for s in inputs.sources {
        if matches!(s.shape, Shape::List(_)) {
            found.hosts.push(s.path.clone());
        }
        if s.shape == Shape::Capture {
            found.captures.push(s.path);
        } else if s.shape.is_log() {
            found.logs.push(Named { host: s.host, path: s.path });
        }
    }
    let empty = inputs.refused.iter().filter(|r| r.error.starts_with("empty:"));
    found.empty = empty.map(|r| PathBuf::from(&r.label)).collect();
    let refused = inputs.refused.into_iter().filter(|r| !r.warning_only);
    found.refused = refused.map(|r| (PathBuf::from(r.label), r.error)).collect();
    found
}

/// What a text in an input directory would be read as; `None` for what is passed over, and for reports of our own.
pub fn read_as(path: &std::path::Path) -> Option<&'static str> {
    super::inputs::text_of_inputs(path)
}

/// The name that rotated files of one capture have in common: their directory, and the name without its digits and
/// without what compression adds.
pub fn capture_stem(path: &std::path::Path) -> (PathBuf, String) {
    super::inputs::rotation_stem(path)
}

/// A file that begins more than this before the end of the one before it is no continuation of it, in nanoseconds.
pub const CONTINUES_NANOS: i64 = super::sets::AHEAD_NANOS;
