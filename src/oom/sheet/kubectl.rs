//! What kubectl prints for people: `get events` (also `-w`, `-A`, `-o wide`), `get pods`, `describe node` and `describe
//! pod`. Times are mostly ages, which refer to when the text was written.

use super::super::event::{Facts, OomKind, ToldBy};
use super::super::format::Format;
use super::super::object::kubernetes::{LATE, message};
use super::super::options::Clock;
use super::super::prefix::Peeled;
use super::super::stamp;
use super::super::teller::Saying;
use super::super::text;
use super::super::workload::{Workload, WorkloadKind};
use super::{Told, ago, columns};
use crate::time::Timestamp;

/// An age in a text, of which only its file says when it was written.
const AGO: Clock = Clock {
    from: "age printed by kubectl, counted back from when the text was written",
    floor: 1_000_000_000,
    after: false,
};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Events,
    Pods,
}

struct Table {
    kind: Kind,
    names: Vec<(usize, Vec<u8>)>,
}

/// The object that is described.
#[derive(Default)]
struct Described {
    name: Option<String>,
    namespace: Option<String>,
    node: Option<String>,
    container: Option<String>,
    /// The line of `Reason: OOMKilled`, until `Finished:` tells when.
    killed: Option<u64>,
}

/// What is open.
#[derive(Default)]
pub(super) struct Output {
    table: Option<Table>,
    described: Option<Described>,
}

fn owned(bytes: &[u8]) -> Option<String> {
    text::name(bytes)
}

impl Output {
    pub(super) fn is_open(&self) -> bool {
        self.described.as_ref().is_some_and(|d| d.killed.is_some() || d.container.is_some())
    }

    pub(super) fn line(&mut self, number: u64, line: &[u8], written: Option<Timestamp>, out: &mut Vec<Told>) -> bool {
        if let Some((key, value)) = text::cut(line, b":")
            && key.len() < 40
            && self.field(number, line, key, value.trim_ascii(), out)
        {
            return true;
        }
        if self.heading(line) {
            return true;
        }
        let Some(table) = &self.table else { return false };
        if line.trim_ascii().is_empty() || !text::has(line, b"OOM") {
            return false;
        }
        let cells = cells(line, &table.names);
        let cell = |names: &[&str]| {
            let at =
                table.names.iter().position(|(_, n)| names.iter().any(|w| n.eq_ignore_ascii_case(w.as_bytes())))?;
            cells.get(at).copied().filter(|c| !c.is_empty())
        };
        let told = match table.kind {
            Kind::Events => self.event(&cell, written),
            Kind::Pods => pod(&cell, written),
        };
        let known = told.is_some();
        out.extend(told.map(|(peeled, saying)| Told { lines: vec![number], peeled, saying }));
        known
    }

    fn heading(&mut self, line: &[u8]) -> bool {
        let kind = if (text::has(line, b"LAST SEEN") || text::has(line, b"Age ") || text::has(line, b"LastSeen"))
            && (text::has(line, b"REASON") || text::has(line, b"Reason"))
        {
            Kind::Events
        } else if text::has(line, b"READY") && text::has(line, b"STATUS") && text::has(line, b"RESTARTS") {
            Kind::Pods
        } else {
            return false;
        };
        let names = columns(line).into_iter().map(|(at, name)| (at, name.to_vec())).collect();
        self.table = Some(Table { kind, names });
        true
    }

    /// A row of events. Its host is the node that the event is about, or that of the pod described.
    fn event<'a>(
        &self,
        cell: &dyn Fn(&[&str]) -> Option<&'a [u8]>,
        written: Option<Timestamp>,
    ) -> Option<(Peeled<'static>, Saying)> {
        let reason = cell(&["REASON", "Reason"])?;
        let text = cell(&["MESSAGE", "Message"]).unwrap_or_default();
        let mut saying = message(std::str::from_utf8(reason).ok()?, &String::from_utf8_lossy(text))?;
        let when = cell(&["LAST SEEN", "LastSeen", "Age"])?;
        let (when, rest) = text::cut(when, b" (x").unwrap_or((when, b""));
        saying.facts.occurrences =
            text::number(rest).map(|(n, _)| n).or_else(|| cell(&["COUNT", "Count"]).and_then(text::whole));
        let node = cell(&["OBJECT"])
            .and_then(|o| o.strip_prefix(b"node/").or_else(|| o.strip_prefix(b"Node/")))
            .and_then(owned);
        let source = cell(&["SOURCE"]).and_then(|s| text::cut(s, b", ")).and_then(|(_, h)| owned(h));
        let described = self.described.as_ref().filter(|_| cell(&["OBJECT"]).is_none());
        saying.host = node.or(source).or_else(|| described.and_then(|d| d.node.clone().or_else(|| d.name.clone())));
        Some((peeled(when, written), saying))
    }

    /// A line `Key: value` of a description; says whether it was one that matters here alone.
    fn field(&mut self, number: u64, line: &[u8], key: &[u8], value: &[u8], out: &mut Vec<Told>) -> bool {
        if key == b"Name" && !value.is_empty() {
            self.described = Some(Described { name: owned(value), ..Described::default() });
            self.table = None;
            return true;
        }
        let Some(d) = &mut self.described else { return false };
        let deep = line.iter().take_while(|b| **b == b' ').count();
        match (deep, key.trim_ascii()) {
            (0, b"Namespace") => d.namespace = owned(value),
            (0, b"Node") => d.node = owned(value.split(|b| *b == b'/').next().unwrap_or(value)),
            (2, name) if value.is_empty() => d.container = owned(name),
            (4.., b"Reason") => {
                d.killed = (value == b"OOMKilled").then_some(number);
                return d.killed.is_some();
            }
            (4.., b"Finished") => {
                let Some(at) = d.killed.take() else { return false };
                let workload = d.name.clone().map(|name| Workload {
                    name: Some(name.clone()),
                    namespace: d.namespace.clone(),
                    ..Workload::new(WorkloadKind::Pod, name)
                });
                let facts = Facts { kind: Some(OomKind::Cgroup), workload, ..Facts::default() };
                let mut saying = Saying::report(ToldBy::Kubernetes, facts);
                saying.host = d.node.clone();
                let stamp = stamp::any(value).map(|(stamp, _)| (stamp, LATE));
                let peeled = Peeled { format: Some(Format::Kubectl), stamp, ..Peeled::default() };
                out.push(Told { lines: vec![at, number], peeled, saying });
            }
            _ => {}
        }
        false
    }
}

fn peeled(when: &[u8], written: Option<Timestamp>) -> Peeled<'static> {
    let printed = stamp::any(when).map(|(stamp, _)| (stamp, LATE));
    let counted = || ago(when, written).map(|(stamp, _)| (stamp, AGO));
    Peeled { format: Some(Format::Kubectl), stamp: printed.or_else(counted), ..Peeled::default() }
}

/// A row of `get pods` whose status is `OOMKilled`: when it was, only the age of the last restart tells.
fn pod<'a>(
    cell: &dyn Fn(&[&str]) -> Option<&'a [u8]>,
    written: Option<Timestamp>,
) -> Option<(Peeled<'static>, Saying)> {
    let status = cell(&["STATUS"])?;
    if !text::has(status, b"OOMKilled") {
        return None;
    }
    let name = owned(cell(&["NAME"])?)?;
    let restarts = cell(&["RESTARTS"]).unwrap_or_default();
    let when = text::cut(restarts, b"(").and_then(|(_, a)| text::cut(a, b" ago")).map(|(a, _)| a);
    let workload = Workload {
        name: Some(name.clone()),
        namespace: cell(&["NAMESPACE"]).and_then(owned),
        ..Workload::new(WorkloadKind::Pod, name)
    };
    let facts = Facts { kind: Some(OomKind::Cgroup), workload: Some(workload), ..Facts::default() };
    let mut saying = Saying::report(ToldBy::Kubernetes, facts);
    saying.host = cell(&["NODE"]).filter(|n| *n != b"<none>").and_then(owned);
    Some((peeled(when.unwrap_or_default(), written), saying))
}

/// The cells of a row: where the columns of the heading begin, or, where a row does not keep to them, between blanks.
fn cells<'a>(line: &'a [u8], names: &[(usize, Vec<u8>)]) -> Vec<&'a [u8]> {
    let begins =
        |at: usize| line.get(at).is_none_or(|b| *b != b' ') && (at == 0 || line.get(at - 1).is_none_or(|b| *b == b' '));
    if names.iter().all(|(at, _)| begins(*at)) {
        let ends = names.iter().skip(1).map(|(at, _)| *at).chain([line.len()]);
        return names
            .iter()
            .zip(ends)
            .map(|((at, _), end)| line.get(*at..end.min(line.len())).unwrap_or_default().trim_ascii())
            .collect();
    }
    let parts = columns(line);
    let last = names.len().saturating_sub(1);
    let mut cells: Vec<&[u8]> = parts.iter().take(last).map(|(_, p)| *p).collect();
    cells.extend(parts.get(last).and_then(|(at, _)| line.get(*at..)).map(<[u8]>::trim_ascii));
    cells
}
