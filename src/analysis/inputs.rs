//! Which file is what: paths are sniffed, never believed by name.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::capture::{Kind, Limits, sniff_path, unpacked};
use crate::names::{Names, short};
use crate::words::InputKind;

/// One file, with what it is.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// As reports name it.
    pub(super) label: String,
    /// Where it is; `-` is standard input.
    pub(super) path: PathBuf,
    /// What it is.
    pub(super) kind: InputKind,
    /// The host of `HOST=PATH`.
    pub(super) host: Option<String>,
    /// Named on the command line, not found in a directory.
    pub(super) named: bool,
}

/// A path that is not read, and why.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) label: String,
    pub(super) error: String,
    /// Named on the command line: trouble, not only a note.
    pub(super) named: bool,
    pub(super) warning_only: bool,
}

/// What the paths hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    pub(super) sources: Vec<Source>,
    pub(super) refused: Vec<Refused>,
    /// Lines of the sources, by position, where the logs themselves are not to be read: what was kept of them.
    pub(super) kept: Vec<Vec<(u64, Vec<u8>)>>,
    /// Files seen so far, links resolved: named twice, or named and in a directory that is named, they are one input.
    seen: std::collections::BTreeSet<PathBuf>,
}

/// How deep directories are followed.
const MAX_DEPTH: usize = 16;

impl Inputs {
    /// Adds a path of any kind.
    pub(super) fn add(&mut self, path: &Path) {
        if path == Path::new("-") {
            self.sources.push(Source {
                label: "-".to_string(),
                path: path.to_path_buf(),
                kind: InputKind::Capture,
                host: None,
                named: true,
            });
            return;
        }
        self.walk(path, None, None, true, 0);
    }

    /// Adds a path that was named as a log (a directory: everything in it that is text).
    pub(super) fn add_log(&mut self, path: &Path, host: Option<&str>) {
        self.walk(path, Some(InputKind::Log), host, true, 0);
    }

    fn walk(&mut self, path: &Path, as_kind: Option<InputKind>, host: Option<&str>, named: bool, depth: usize) {
        let label = path.to_string_lossy().into_owned();
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) => return self.refuse(label, format!("cannot open: {e}"), named),
        };
        if !meta.is_dir() {
            return self.file(path, label, as_kind, host, named);
        }
        if depth >= MAX_DEPTH {
            return self.refuse(label, format!("directories nest deeper than {MAX_DEPTH}"), named);
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(e) => return self.refuse(label, format!("cannot list: {e}"), named),
        };
        let mut children: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        children.sort();
        for child in children {
            let name = child.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            // Files that another program is still copying, and hidden ones, are not ours.
            if name.starts_with('.') || name.ends_with(".part") || name.ends_with('~') {
                continue;
            }
            // A link to a directory may lead round in a circle.
            let link = fs::symlink_metadata(&child).is_ok_and(|m| m.is_symlink());
            if link && child.is_dir() {
                continue;
            }
            self.walk(&child, as_kind, host, false, depth + 1);
        }
    }

    fn file(&mut self, path: &Path, label: String, as_kind: Option<InputKind>, host: Option<&str>, named: bool) {
        if let Ok(real) = fs::canonicalize(path)
            && !self.seen.insert(real)
        {
            return;
        }
        let sniffed = match sniff_path(path) {
            Ok(s) => s,
            Err(e) => return self.refuse(label, format!("cannot read: {e}"), named),
        };
        let kind = match sniffed.kind {
            Kind::Capture(_) | Kind::HeaderOnly(_) if as_kind.is_none() => InputKind::Capture,
            Kind::Text => match as_kind {
                Some(kind) => kind,
                None => match text_kind(path) {
                    Some(kind) => kind,
                    None if named => {
                        return self.refuse(
                            label,
                            "not understood: text that is no log of a known format and no hosts list".to_string(),
                            true,
                        );
                    }
                    None => return self.pass_over(label, "text that is no log of a known format and no hosts list"),
                },
            },
            Kind::Empty => {
                self.refused.push(Refused { label, error: "empty: 0 bytes".to_string(), named, warning_only: true });
                return;
            }
            // A stray control character makes no log unreadable.
            Kind::Unknown if as_kind == Some(InputKind::Log) && text_kind(path) == Some(InputKind::Log) => {
                InputKind::Log
            }
            other if as_kind.is_some() => {
                return self.refuse(label, format!("not a log: text was required, {other} was there"), named);
            }
            other if named => {
                return self.refuse(
                    label,
                    format!("not understood: a capture, a log or a hosts list was required, {other} was there"),
                    true,
                );
            }
            other => return self.pass_over(label, &other.to_string()),
        };
        self.sources.push(Source { label, path: path.to_path_buf(), kind, host: host.map(str::to_string), named });
    }

    fn refuse(&mut self, label: String, error: String, named: bool) {
        self.refused.push(Refused { label, error, named, warning_only: false });
    }

    /// Something in a directory that is none of ours: counted, no trouble.
    fn pass_over(&mut self, label: String, what: &str) {
        self.refused.push(Refused { label, error: format!("passed over: {what}"), named: false, warning_only: true });
    }
}

/// What a text is: a hosts list, a log (a line with a time or an OOM wording near its beginning), or nothing known.
fn text_kind(path: &Path) -> Option<InputKind> {
    let mut head = Vec::new();
    unpacked(path, &Limits::default()).ok()?.take(64 << 10).read_to_end(&mut head).ok()?;
    let text = String::from_utf8_lossy(&head);
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')).take(200).collect();
    if lines.is_empty() {
        return None;
    }
    let hosts = lines.iter().filter(|l| is_hosts_line(l)).count();
    if hosts * 2 > lines.len() {
        return Some(InputKind::Hosts);
    }
    crate::oom::looks_like_a_log(&head).then_some(InputKind::Log)
}

fn is_hosts_line(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let address = words.next().map(|w| w.split('%').next().unwrap_or(w));
    let name = words.next();
    address.is_some_and(|a| a.parse::<std::net::IpAddr>().is_ok())
        && name.is_some_and(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)))
}

/// A capture's name without what rotation and compression add: `node-c-rot-20261129-112916.pcap` and
/// `node-c-rot-20261129-112932.pcap.gz` are both `node-c-rot--`. Files of one directory with one such name may be one
/// capture.
pub(super) fn rotation_stem(path: &Path) -> (PathBuf, String) {
    let parent = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut stem = name.as_str();
    for ending in [".gz", ".zst", ".lz4", ".xz", ".bz2"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    (parent, stem.chars().filter(|c| !c.is_ascii_digit()).collect())
}

/// The host that a file's path suggests: what `pattern` captures of it, the longest leading part of its name that
/// `names` knows, or its directory's name where that is known.
pub(super) fn host_of_file(path: &Path, names: &Names, pattern: Option<&regex_lite::Regex>) -> Option<String> {
    let whole = path.to_string_lossy();
    if let Some(found) = pattern.and_then(|p| p.captures(&whole)) {
        let part = found.name("host").or_else(|| found.get(1)).or_else(|| found.get(0));
        if let Some(host) = part.map(|m| m.as_str()).filter(|h| !h.is_empty()) {
            return Some(names.canonical(host).to_string());
        }
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    let parent = path.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    names.of_file(&name).or_else(|| parent.as_deref().filter(|p| names.knows(p))).map(str::to_string)
}

/// A file's name up to its first dot: what an operator most likely called the host.
pub(super) fn plain_stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let stem = short(&name);
    (!stem.is_empty()).then_some(stem)
}
