//! Which file is what: paths are sniffed, never believed by name.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::capture::{Kind, Limits, sniff_path, unpacked};
use crate::curve;
use crate::hosts;
use crate::names::{Names, short};
use crate::vocabulary::InputKind;

/// What a file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Packets.
    Capture,
    /// Lines that may tell of kills.
    Log,
    /// Hosts and addresses; of some forms, a log at once.
    List(hosts::ListFormat),
    /// Memory over time.
    Curve,
}

impl Shape {
    /// The kind in JSON.
    pub(super) fn kind(self) -> InputKind {
        match self {
            Shape::Capture => InputKind::Capture,
            Shape::Log => InputKind::Log,
            Shape::List(hosts::ListFormat::Kubernetes) => InputKind::Kubernetes,
            Shape::List(hosts::ListFormat::Collected) | Shape::Curve => InputKind::Facts,
            Shape::List(_) => InputKind::Hosts,
        }
    }

    /// Whether it may tell of kills.
    pub(super) fn is_log(self) -> bool {
        matches!(self, Shape::Log | Shape::List(hosts::ListFormat::Kubernetes | hosts::ListFormat::Collected))
    }
}

/// One file, with what it is.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// As reports name it.
    pub(super) label: String,
    /// Where it is; `-` is standard input.
    pub(super) path: PathBuf,
    /// What it is.
    pub(super) shape: Shape,
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
                shape: Shape::Capture,
                host: None,
                named: true,
            });
            return;
        }
        self.walk(path, None, None, true, 0);
    }

    /// Adds a path that was named as a log (a directory: everything in it that is text).
    pub(super) fn add_log(&mut self, path: &Path, host: Option<&str>) {
        if path == Path::new("-") {
            let (label, host) = ("-".to_string(), host.map(str::to_string));
            return self.sources.push(Source { label, path: path.to_path_buf(), shape: Shape::Log, host, named: true });
        }
        self.walk(path, Some(Shape::Log), host, true, 0);
    }

    fn walk(&mut self, path: &Path, as_shape: Option<Shape>, host: Option<&str>, named: bool, depth: usize) {
        let label = path.to_string_lossy().into_owned();
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) => return self.refuse(label, format!("cannot open: {e}"), named),
        };
        if !meta.is_dir() {
            return self.file(path, label, as_shape, host, named);
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
            self.walk(&child, as_shape, host, false, depth + 1);
        }
    }

    fn file(&mut self, path: &Path, label: String, as_shape: Option<Shape>, host: Option<&str>, named: bool) {
        if let Ok(real) = fs::canonicalize(path)
            && !self.seen.insert(real.clone())
        {
            return self.rename(&real, host);
        }
        let sniffed = match sniff_path(path) {
            Ok(s) => s,
            Err(e) => return self.refuse(label, format!("cannot read: {e}"), named),
        };
        const TEXTS: &str = "no log of a known format, no list of hosts and no memory curve";
        let shape = match sniffed.kind {
            Kind::Capture(_) | Kind::HeaderOnly(_) if as_shape.is_none() => Shape::Capture,
            Kind::Text => match (text_shape(path), as_shape) {
                // What was named as a log is one; lists and curves that lie beside logs are what they are.
                (Some(found), Some(_)) if found.is_log() || !named || found == Shape::Curve => found,
                (_, Some(shape)) => shape,
                (Some(found), None) => found,
                (None, None) if named => {
                    return self.refuse(label, format!("not understood: text that is {TEXTS}"), true);
                }
                (None, None) => return self.pass_over(label, &format!("text that is {TEXTS}")),
            },
            Kind::Empty => {
                self.refused.push(Refused { label, error: "empty: 0 bytes".to_string(), named, warning_only: true });
                return;
            }
            // A stray control character makes no log unreadable.
            Kind::Unknown if as_shape == Some(Shape::Log) && text_shape(path).is_some_and(Shape::is_log) => Shape::Log,
            other if as_shape.is_some() => {
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
        self.sources.push(Source { label, path: path.to_path_buf(), shape, host: host.map(str::to_string), named });
    }

    /// A file that was found before gets the host of `HOST=PATH`, in whatever order both were given.
    fn rename(&mut self, real: &Path, host: Option<&str>) {
        let Some(host) = host else { return };
        let same = |s: &&mut Source| fs::canonicalize(&s.path).is_ok_and(|p| p == real);
        if let Some(known) = self.sources.iter_mut().find(same) {
            known.host = Some(host.to_string());
            known.named = true;
        }
    }

    fn refuse(&mut self, label: String, error: String, named: bool) {
        self.refused.push(Refused { label, error, named, warning_only: false });
    }

    /// Something in a directory that is none of ours: counted, no trouble.
    fn pass_over(&mut self, label: String, what: &str) {
        self.refused.push(Refused { label, error: format!("passed over: {what}"), named: false, warning_only: true });
    }
}

/// What a text is, by its beginning: a memory curve, a list of hosts, a log (a line with a time or an OOM wording), or
/// nothing known.
fn text_shape(path: &Path) -> Option<Shape> {
    let mut head = Vec::new();
    unpacked(path, &Limits::default()).ok()?.take(64 << 10).read_to_end(&mut head).ok()?;
    let text = String::from_utf8_lossy(&head);
    if curve::sniff(&text).is_some() {
        return Some(Shape::Curve);
    }
    let is_log = || crate::oom::looks_like_a_log(&head);
    match hosts::sniff(&text) {
        // Output of Ansible names hosts as its inventories do.
        Some(hosts::ListFormat::Ansible) if is_log() => Some(Shape::Log),
        // An object a line is what `kubectl get events -w` prints, and no list of nodes.
        Some(hosts::ListFormat::Kubernetes) if text.lines().take(2).all(|l| l.starts_with('{') && l.len() > 1) => {
            Some(Shape::Log)
        }
        Some(form) => Some(Shape::List(form)),
        // A long document may have its first kill beyond what was looked at.
        None => (is_log() || is_document(&text)).then_some(Shape::Log),
    }
}

/// What a text would be read as, in words, where it lies in a directory that is read; reports of our own repeat words of
/// logs, and are none.
pub(super) fn text_of_inputs(path: &Path) -> Option<&'static str> {
    if !matches!(sniff_path(path).ok()?.kind, Kind::Text) {
        return None;
    }
    let mut head = Vec::new();
    fs::File::open(path).ok()?.take(64 << 10).read_to_end(&mut head).ok()?;
    let head = String::from_utf8_lossy(&head);
    if OWN_REPORTS.iter().any(|begins| head.starts_with(begins))
        || head.lines().take(20).any(|l| l.starts_with("Times are ") || l.contains(" observed. Times are "))
    {
        return None;
    }
    Some(match text_shape(path)?.kind() {
        InputKind::Log => "a log",
        InputKind::Hosts => "a list of hosts",
        InputKind::Kubernetes => "a document of Kubernetes",
        InputKind::Facts => "facts of a host",
        InputKind::Capture => "a capture",
    })
}

/// How reports begin: Markdown, CSV, HTML, JSON, JSON lines. The table has a line that says in which zone its times are.
const OWN_REPORTS: [&str; 5] =
    ["### ", "id,rule,severity,", "<!DOCTYPE html>", "{\n  \"schema\": \"rdzvscope", "{\"type\":\"report\""];

/// Lists of events (`kubectl get events -o json`), outputs of Ansible, a journal.
fn is_document(head: &str) -> bool {
    let has = |words: [&str; 2]| words.iter().all(|w| head.contains(w));
    head.trim_start().starts_with(['{', '['])
        && (has(["\"kind\"", "\"Event\""])
            || has(["\"plays\"", "\"play\""])
            || has(["\"stdout\"", "\"rc\""])
            || has(["\"MESSAGE\"", "\"_HOSTNAME\""]))
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

/// A file's name up to its first dot: what an operator most likely called the host. Standard input names none.
pub(super) fn plain_stem(path: &Path) -> Option<String> {
    if path == Path::new("-") {
        return None;
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    let stem = short(&name);
    (!stem.is_empty()).then_some(stem)
}
