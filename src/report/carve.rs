//! Packets of captures, with comments that say what was found in them, as pcapng.
//!
//! Captures are read again, by packet number. Packets come out as they went in: the same bytes, times to the
//! nanosecond, link types and lengths on the wire.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::carve_flows::Flows;
use super::carve_redacted::{Masks, StandIn};
use super::escape::{clean, clean_text};
use super::model::{Finding, Report, Severity};
use super::pseudonym::Pseudonyms;
use crate::capture::{CaptureError, Limits, LinkType, Packet, Reader, Writer};
use crate::disk::NewFile;
use crate::frame::{Decoder, Frame, Limits as FrameLimits};
use crate::time::Timestamp;

/// Carved bytes that are held to be put in order of time; beyond, the file is in order piece by piece.
const SORTED_BYTES: usize = 64 << 20;

/// Why packets could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CarveError {
    /// The output is one of the captures.
    #[error("{0}: is one of the captures that are read; the output must be another file")]
    OverInput(String),
    /// The capture came through a pipe.
    #[error("a capture that came through a pipe cannot be read again; save it to a file first")]
    Pipe,
    /// No capture was read.
    #[error("a capture was required to be annotated, none was read")]
    None,
    /// Two captures print alike.
    #[error("{0}: two captures have paths that are printed so; rename one")]
    Ambiguous(String),
    /// Reading again failed.
    #[error(transparent)]
    Read(#[from] CaptureError),
    /// Writing failed.
    #[error("{path}: cannot write")]
    Write {
        /// The output, cleaned.
        path: String,
        /// Why.
        source: io::Error,
    },
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Packets.
    pub packets: u64,
    /// Of these, with a comment.
    pub comments: u64,
}

/// Writes the flows of all findings at warning or above to `path`, with a comment on each flagged packet.
///
/// A flow comes whole, from its handshake to its end, out of the capture that the finding names: what the server did
/// afterwards is part of the evidence, and a claim is judged by it when the file is analyzed again. (A listener's silence
/// and death are judged by its other connections, which are not carved.) Packets are in order of time (up to
/// 64 MiB of them; beyond that, piece by piece). `captures` are the files, in the order of `report.captures`.
///
/// With a veil, packets are made anew: ports, numbers, flags, lengths and times stay, and the first bytes of flagged
/// messages; all else is tokens.
///
/// # Errors
/// When a capture cannot be read again or `path` cannot be written.
pub fn carve(
    report: &Report,
    captures: &[PathBuf],
    path: &Path,
    veil: Option<&Pseudonyms>,
) -> Result<Written, CarveError> {
    let told = told(report, veil);
    let flagged = report.findings.iter().zip(&told.findings).filter(|(f, _)| f.severity >= Severity::Warning);
    let mut by_capture: HashMap<&str, Vec<(&Finding, &Finding)>> = HashMap::new();
    for (f, told) in flagged {
        by_capture.entry(f.capture.as_deref().unwrap_or_default()).or_default().push((f, told));
    }
    unambiguous(report, |path| by_capture.contains_key(path))?;
    not_over_input(path, captures)?;
    let mut out = Output::create(path)?;
    let mut held: Vec<Kept> = Vec::new();
    let mut bytes = 0;
    for ((capture, file), host) in report.captures.iter().zip(captures).zip(told.captures.iter().map(|c| &c.host)) {
        let Some(findings) = by_capture.get(capture.path.as_str()) else { continue };
        let comments = comments(&capture.path, findings);
        let mut flows = Flows::of(&findings.iter().map(|(f, _)| *f).collect::<Vec<_>>(), veil);
        let mut reader = open(file)?;
        while let Some(packet) = reader.next()? {
            let earlier = flows.take(&packet);
            let wanted = earlier.wanted || comments.contains_key(&packet.number);
            let mut kept: Vec<Kept> = earlier.fragments;
            if wanted {
                let comment = comments.get(&packet.number).cloned();
                match (veil, earlier.stand_in) {
                    (None, _) => kept.push(Kept { comment, ..Kept::of(&packet) }),
                    (Some(_), Some(made)) => kept.push(Kept { comment, ..Kept::made(&packet, made) }),
                    // A flagged packet that is no segment of the flow, such as a piece of a datagram.
                    (Some(_), None) => {}
                }
            }
            for mut k in kept {
                let interface = reader.summary().interfaces.get(k.interface as usize);
                let name = interface.filter(|_| veil.is_none()).map_or("", |i| i.name.as_str());
                k.snaplen = interface.and_then(|i| i.snaplen).unwrap_or(0);
                k.name = name_of(host.as_deref(), name);
                bytes += k.data.len() + size_of::<Kept>();
                held.push(k);
            }
            if bytes > SORTED_BYTES {
                out.put(&mut held)?;
                bytes = 0;
            }
        }
    }
    out.put(&mut held)?;
    out.finish()
}

/// Writes all packets of the captures that were read to `path`, with a comment on each that a finding is about, of any
/// severity. Those of one capture stay in the order of their file, and so keep their numbers where there is no other;
/// captures are merged by time. Comments that they held before are not kept.
///
/// # Errors
/// When no capture was read, one cannot be read again, or `path` cannot be written.
pub fn annotate(
    report: &Report,
    captures: &[PathBuf],
    path: &Path,
    veil: Option<&Pseudonyms>,
) -> Result<Written, CarveError> {
    not_over_input(path, captures)?;
    let told = told(report, veil);
    let findings: Vec<(&Finding, &Finding)> = report.findings.iter().zip(&told.findings).collect();
    let originals: Vec<&Finding> = report.findings.iter().collect();
    let several = report.captures.iter().filter(|c| c.first.is_some()).count() > 1;
    let mut waiting: Vec<Annotated<'_>> = Vec::new();
    for ((capture, file), told) in report.captures.iter().zip(captures).zip(&told.captures) {
        // A copy of another, and what could not be read, have no packets.
        let Some(first) = capture.first else { continue };
        let masks = veil.map(|v| (Decoder::new(FrameLimits::default()), Masks::new(v, &originals)));
        let (comments, host) = (comments(&capture.path, &findings), told.host.as_deref().filter(|_| several));
        waiting.push(Annotated { first, file, host, comments, masks, reader: None, next: None });
    }
    if waiting.is_empty() {
        return Err(CarveError::None);
    }
    let mut out = Output::create(path)?;
    let mut turns: BTreeSet<(Timestamp, usize)> = waiting.iter().enumerate().map(|(i, a)| (a.first, i)).collect();
    while let Some((_, at)) = turns.pop_first() {
        let Some(capture) = waiting.get_mut(at) else { continue };
        if let Some(next) = capture.step(&mut out)? {
            turns.insert((next, at));
        }
    }
    out.finish()
}

/// A capture that is written again with comments, up to its next packet.
struct Annotated<'r> {
    /// Time of its earliest packet: it is opened when all before it are written.
    first: Timestamp,
    file: &'r Path,
    /// Whose it is, where there are several.
    host: Option<&'r str>,
    comments: BTreeMap<u64, String>,
    masks: Option<(Decoder, Masks<'r>)>,
    reader: Option<Reader>,
    next: Option<Kept>,
}

impl Annotated<'_> {
    /// Writes the packet that waits and reads the one behind it: its time, or `None` at the end of the file.
    fn step(&mut self, out: &mut Output) -> Result<Option<Timestamp>, CarveError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(open(self.file)?),
        };
        if let Some(k) = self.next.take() {
            out.write(&k.packet(), k.snaplen, &k.name, self.comments.get(&k.number).map(String::as_str))?;
        }
        let Some(packet) = reader.next()? else {
            self.reader = None;
            return Ok(None);
        };
        let mut kept = match &mut self.masks {
            None => Kept::of(&packet),
            Some((decoder, masks)) => Kept::made(
                &packet,
                match decoder.decode(&packet) {
                    Frame::Tcp(segment) => masks.segment(&segment),
                    Frame::NotTcp(_) | Frame::Skipped(_) => masks.nothing(),
                },
            ),
        };
        let interface = reader.summary().interfaces.get(kept.interface as usize);
        kept.snaplen = interface.and_then(|i| i.snaplen).unwrap_or(0);
        let name = interface.filter(|_| self.masks.is_none()).map_or("", |i| i.name.as_str());
        kept.name = name_of(self.host, name);
        let time = kept.time;
        self.next = Some(kept);
        Ok(Some(time))
    }
}

/// One packet, kept until it is written.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    time: Timestamp,
    number: u64,
    link_type: LinkType,
    interface: u32,
    original_length: u32,
    pub(super) data: Vec<u8>,
    snaplen: u32,
    name: String,
    comment: Option<String>,
}

impl Kept {
    pub(super) fn of(p: &Packet<'_>) -> Kept {
        Kept {
            time: p.time,
            number: p.number,
            link_type: p.link_type,
            interface: p.interface,
            original_length: p.original_length,
            data: p.data.to_vec(),
            snaplen: 0,
            name: String::new(),
            comment: None,
        }
    }

    fn made(p: &Packet<'_>, stand_in: StandIn) -> Kept {
        let StandIn { data, original_length } = stand_in;
        Kept { link_type: LinkType::RAW, data, original_length, ..Kept::of(&Packet { data: &[], ..*p }) }
    }

    fn packet(&self) -> Packet<'_> {
        Packet {
            number: self.number,
            time: self.time,
            link_type: self.link_type,
            interface: self.interface,
            original_length: self.original_length,
            data: &self.data,
        }
    }
}

/// The file in the making.
struct Output {
    writer: Writer<NewFile>,
    path: String,
    written: Written,
}

impl Output {
    fn create(path: &Path) -> Result<Output, CarveError> {
        let shown = clean(path.to_string_lossy().as_bytes(), 400);
        let application = concat!("rdzvscope ", env!("CARGO_PKG_VERSION"));
        NewFile::create(path)
            .and_then(|file| Writer::new(file, application))
            .map(|writer| Output { writer, path: shown.clone(), written: Written::default() })
            .map_err(|source| CarveError::Write { path: shown, source })
    }

    fn write(&mut self, p: &Packet<'_>, snaplen: u32, name: &str, comment: Option<&str>) -> Result<(), CarveError> {
        self.written.packets += 1;
        self.written.comments += u64::from(comment.is_some());
        let path = &self.path;
        self.writer
            .write(p, snaplen, &clean(name.as_bytes(), 100), comment)
            .map_err(|source| CarveError::Write { path: path.clone(), source })
    }

    /// Writes what is held, in order of time, and lets go of it.
    fn put(&mut self, held: &mut Vec<Kept>) -> Result<(), CarveError> {
        // Stable: packets of one instant stay in the order in which they were captured.
        held.sort_by_key(|k| k.time);
        for k in held.drain(..) {
            self.write(&k.packet(), k.snaplen, &k.name, k.comment.as_deref())?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Written, CarveError> {
        let (path, written) = (self.path, self.written);
        self.writer
            .finish()
            .and_then(NewFile::finish)
            .map(|()| written)
            .map_err(|source| CarveError::Write { path, source })
    }
}

/// The report as comments tell it.
fn told<'r>(report: &'r Report, veil: Option<&Pseudonyms>) -> Cow<'r, Report> {
    veil.map_or(Cow::Borrowed(report), |v| Cow::Owned(super::redact::redacted(report, v)))
}

/// What the packets of one capture are told to be, by number. Each finding comes as it is, and as it is told.
fn comments(capture: &str, findings: &[(&Finding, &Finding)]) -> BTreeMap<u64, String> {
    let mut lines: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (f, told) in findings {
        let text = format!("rdzvscope {} {} {}: {}", f.severity, f.id, f.rule, told.explanation);
        let own = f.packet.filter(|_| f.capture.as_deref() == Some(capture));
        let seen = f.sightings.iter().filter(|s| s.capture == capture).filter_map(|s| s.packet);
        for number in own.into_iter().chain(seen) {
            let of_packet = lines.entry(number).or_default();
            if of_packet.len() < 16 {
                of_packet.push(clean_text(&text).into_owned());
            }
        }
        // The other packets of a message that came in pieces.
        for number in f.packets.iter().filter(|n| own.is_some_and(|o| o != **n)) {
            let of_packet = lines.entry(*number).or_default();
            if of_packet.len() < 16 {
                of_packet.push(format!("rdzvscope {} {} {}: a part of this message", f.severity, f.id, f.rule));
            }
        }
    }
    lines.into_iter().map(|(number, texts)| (number, texts.join(" | "))).collect()
}

/// `node-a eth0`: several captures in one file are told apart by their interfaces' names.
fn name_of(host: Option<&str>, interface: &str) -> String {
    [host.unwrap_or_default(), interface].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(" ")
}

fn open(file: &Path) -> Result<Reader, CarveError> {
    if file.as_os_str() == "-" {
        return Err(CarveError::Pipe);
    }
    Ok(Reader::open(file, &Limits::default())?)
}

fn unambiguous(report: &Report, wanted: impl Fn(&str) -> bool) -> Result<(), CarveError> {
    let mut seen = HashSet::new();
    match report.captures.iter().find(|c| !seen.insert(c.path.as_str()) && wanted(&c.path)) {
        Some(twice) => Err(CarveError::Ambiguous(twice.path.clone())),
        None => Ok(()),
    }
}

fn not_over_input(path: &Path, captures: &[PathBuf]) -> Result<(), CarveError> {
    let Ok(output) = path.canonicalize() else { return Ok(()) };
    match captures.iter().find(|c| c.canonicalize().is_ok_and(|c| c == output)) {
        Some(input) => Err(CarveError::OverInput(clean(input.to_string_lossy().as_bytes(), 400))),
        None => Ok(()),
    }
}
