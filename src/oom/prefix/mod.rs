//! What stands before a message: a stack of stamps, hosts, services, file names, levels and quotes, in any order that
//! tools put them there. Each recogniser is one file; it takes its part off the front of what is left of the line.

mod bracket;
mod date;
mod facility;
mod fields;
mod file;
mod klog;
mod kmsg;
mod label;
mod level;
mod priority;
mod program;
mod quote;
mod runtime;
mod words;

use super::options::Clock;
use super::stamp::Stamp;
use super::{format::Format, prefilter, text};
pub(crate) use date::KERNEL;
pub(crate) use file::host_of_file;
pub(crate) use label::{Labels, can_be_host};
pub(crate) use runtime::PRINTED;
use std::borrow::Cow;

/// A recogniser of one part.
struct Prefix {
    /// What it recognises.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the table is documentation, and held against the parts by tests")
    )]
    name: &'static str,
    /// What a line gains by it.
    #[cfg_attr(not(test), expect(dead_code, reason = "as above"))]
    yields: &'static str,
    /// Takes the part off, notes what it says, and gives what follows.
    take: for<'a> fn(&mut Peeled<'a>, &'a [u8], &Labels) -> Option<&'a [u8]>,
}

/// The recognisers, in the order in which they are tried on what is left.
const PREFIXES: [Prefix; 14] = [
    Prefix { name: "quote", yields: "nothing", take: quote::take },
    Prefix { name: "kmsg record", yields: "seconds since boot, writer", take: kmsg::take },
    Prefix { name: "priority", yields: "writer; all of an RFC 5424 header", take: priority::take },
    Prefix { name: "brackets", yields: "time, pod, host", take: bracket::take },
    Prefix { name: "runtime", yields: "container", take: runtime::take },
    Prefix { name: "file", yields: "file's host", take: file::take },
    Prefix { name: "klog", yields: "time", take: klog::take },
    Prefix { name: "date", yields: "time", take: date::take },
    Prefix { name: "facility", yields: "writer", take: facility::take },
    Prefix { name: "fields", yields: "time, host, message", take: fields::take },
    Prefix { name: "program", yields: "host, writer", take: program::take },
    Prefix { name: "label", yields: "collector's host", take: label::take },
    Prefix { name: "level", yields: "nothing", take: level::take },
    Prefix { name: "words", yields: "pod or service", take: words::take },
];

/// Parts that a line may have before its message.
const MAX_PARTS: usize = 16;

/// Who wrote a line, as its prefix tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writer<'a> {
    /// Nothing says.
    #[default]
    Unknown,
    /// The kernel.
    Kernel,
    /// A program of this name.
    Program(Cow<'a, [u8]>),
}

/// A line without its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peeled<'a> {
    pub(crate) format: Option<Format>,
    pub(crate) stamp: Option<(Stamp, Clock)>,
    /// Nanoseconds since boot, where printed.
    pub(crate) boot: Option<i64>,
    /// The host that the line names itself.
    pub(crate) host: Option<Cow<'a, [u8]>>,
    /// The host that a collecting tool put before the line.
    pub(crate) label: Option<Cow<'a, [u8]>>,
    /// What may be a host where nothing better is known: a pod, a service, a file's name.
    pub(crate) weak: Option<Cow<'a, [u8]>>,
    pub(crate) writer: Writer<'a>,
    /// The line is of a container's output.
    pub(crate) contained: bool,
    pub(crate) message: Cow<'a, [u8]>,
    /// What was taken last may be followed by the name of a host.
    pub(crate) open: bool,
}

impl<'a> Peeled<'a> {
    /// Notes a time. A later part is nearer to the message: its time is the message's own, unless it says less.
    fn stamped(&mut self, stamp: Stamp, clock: Clock, format: Format) {
        match (&self.stamp, stamp) {
            (_, Stamp::Boot { nanos }) => {
                self.boot = self.boot.or(Some(nanos));
                self.stamp = self.stamp.or(Some((stamp, clock)));
            }
            (None | Some((Stamp::Boot { .. }, _)), _) => self.stamp = Some((stamp, clock)),
            (Some(_), stamp) if stamp.is_dated() => self.stamp = Some((stamp, clock)),
            (Some(_), _) => {}
        }
        self.format = self.format.or(Some(format));
    }

    /// The host that the line names, unless it says that it has none.
    pub(crate) fn own_host(&self) -> Option<String> {
        self.host.as_deref().filter(|h| !is_nameless(h)).and_then(text::name)
    }

    /// The same with everything copied.
    pub(crate) fn owned(self) -> Peeled<'static> {
        let own = |part: Option<Cow<'_, [u8]>>| part.map(|p| Cow::Owned(p.into_owned()));
        Peeled {
            format: self.format,
            stamp: self.stamp,
            boot: self.boot,
            host: own(self.host),
            label: own(self.label),
            weak: own(self.weak),
            writer: match self.writer {
                Writer::Unknown => Writer::Unknown,
                Writer::Kernel => Writer::Kernel,
                Writer::Program(p) => Writer::Program(Cow::Owned(p.into_owned())),
            },
            contained: self.contained,
            message: Cow::Owned(self.message.into_owned()),
            open: self.open,
        }
    }
}

/// Takes everything off the front of a line that is no message. Never fails.
pub(crate) fn peel<'a>(line: &'a [u8], labels: &Labels) -> Peeled<'a> {
    let mut peeled = Peeled::default();
    let mut rest = line.trim_ascii_start();
    for _ in 0..MAX_PARTS {
        let Some(after) = PREFIXES.iter().find_map(|p| (p.take)(&mut peeled, rest, labels)) else { break };
        rest = after.trim_ascii_start();
    }
    // Words that no part explains may stand before the kernel's own; a time among them is the line's.
    let json = rest.trim_ascii_end().ends_with(b"}") && text::has(rest, b"{\"");
    if let Some(at) = prefilter::kernel_words(rest).filter(|at| *at > 0 && rest.get(at - 1) == Some(&b' ') && !json) {
        let (before, message) = rest.split_at_checked(at).unwrap_or((&[], rest));
        let starts =
            before.iter().enumerate().filter(|(_, b)| matches!(b, b' ' | b'\t' | b'"' | b'(' | b'[' | b'=')).take(32);
        let stamp = starts.filter_map(|(at, _)| super::stamp::any(before.get(at + 1..)?)).next();
        if let (None, Some((stamp, _))) = (peeled.stamp, stamp) {
            peeled.stamped(stamp, date::RECEIVED, Format::Plain);
        }
        rest = message;
    }
    peeled.message = Cow::Borrowed(rest);
    peeled
}

/// Whether what follows a label can begin a line of a log: a stamp, JSON, the kernel's words for a kill, another label.
fn opens(rest: &[u8], labels: &Labels) -> bool {
    opens_within(rest, labels, 2)
}

fn opens_within(rest: &[u8], labels: &Labels, depth: u8) -> bool {
    let rest = rest.trim_ascii_start();
    let Some(first) = rest.first() else { return false };
    const OTHERS: [&[u8]; 5] = [b"{\"", b"__CURSOR=", b"__REALTIME_TIMESTAMP=", super::facts::MARK, b"kernel: "];
    if rest == b"{" || OTHERS.iter().any(|k| rest.starts_with(k)) || prefilter::kernel_words(rest) == Some(0) {
        return true;
    }
    let part = |take: for<'a> fn(&mut Peeled<'a>, &'a [u8], &Labels) -> Option<&'a [u8]>| {
        take(&mut Peeled::default(), rest, labels).is_some()
    };
    match first {
        b'<' => part(priority::take),
        b'[' => part(bracket::take),
        b'0'..=b'9' if part(kmsg::take) => true,
        _ => {
            part(date::take)
                || part(klog::take)
                || part(facility::take)
                || part(fields::take)
                || depth > 0 && label::take_within(&mut Peeled::default(), rest, labels, depth - 1).is_some()
        }
    }
}

/// Names that hosts give themselves when they have none.
pub(crate) fn is_nameless(host: &[u8]) -> bool {
    const NONE: [&[u8]; 8] =
        [b"localhost", b"localhost.localdomain", b"(none)", b"-", b"unknown", b"?", b"null", b"localhost6"];
    NONE.iter().any(|n| n.eq_ignore_ascii_case(host))
}

/// A word as a host's name.
pub(crate) fn host_word(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word)
        .ok()
        .filter(|w| super::envelope::nodeset::is_host(w) || text::whole(word).is_none() && is_nameless(word))
}

#[cfg(test)]
mod tests;
