//! JSON: what each object tells, by itself and by the objects around it. One file a form, one table.

mod bounded;
mod docker;
pub(crate) mod document;
mod fields;
mod journal;
pub(crate) mod kubernetes;
mod slurm;
pub(crate) mod yaml;

use super::format::Format;
use super::options::Clock;
use super::prefix::{Peeled, Writer};
use super::stamp::Stamp;
use super::teller::Saying;
use super::{prefilter, text};
pub(crate) use fields::LOGGED;
pub use fields::LogFields;
pub(crate) use journal::Record;
use serde_json::Value;

/// What is known of a message from the objects around it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) host: Option<String>,
    /// A name that may be a host's where nothing better is known.
    pub(crate) weak: Option<String>,
    pub(crate) stamp: Option<(Stamp, Clock)>,
    pub(crate) contained: bool,
    pub(crate) format: Option<Format>,
}

/// Something told.
pub(crate) enum Found<'a> {
    /// Text of a log: lines, with what is known of them.
    Text(&'a str, &'a Context),
    /// A kill.
    Kill(Peeled<'a>, Saying),
    /// An entry of the journal.
    Entry(Record),
    /// A form that is not read, and what to give instead.
    Refused(&'static str),
}

/// Takes one form out of an object; says whether it was that form.
type Take = fn(&Value, &mut dyn FnMut(Found<'_>)) -> bool;

/// The forms that are known by more than a message. Others are read by the usual names of fields.
const FORMS: [(&str, Take); 7] = [
    ("sacct --json", |object, each| slurm::refused(object).is_some_and(|why| told(each, Found::Refused(why)))),
    ("journal entry", |object, each| Record::of(object).is_some_and(|record| told(each, Found::Entry(record)))),
    ("Kubernetes event", |object, each| kubernetes::event(object).is_some_and(|k| told(each, Found::Kill(k.0, k.1)))),
    ("pod or container status", |object, each| {
        let found = kubernetes::containers(object);
        !found.is_empty() && found.into_iter().all(|k| told(each, Found::Kill(k.0, k.1)))
    }),
    ("docker inspect", |object, each| docker::inspected(object).is_some_and(|k| told(each, Found::Kill(k.0, k.1)))),
    ("docker events", |object, each| docker::event(object).is_some_and(|k| told(each, Found::Kill(k.0, k.1)))),
    ("jobcomp", |object, each| slurm::job(object).is_some_and(|k| told(each, Found::Kill(k.0, k.1)))),
];

fn told(each: &mut dyn FnMut(Found<'_>), found: Found<'_>) -> bool {
    each(found);
    true
}

/// How deep objects may nest.
const DEPTH: usize = 16;

/// Hands on what an object and those inside it tell; says whether any was of a known form or had a message.
pub(crate) fn walk(object: &Value, fields: &LogFields, each: &mut dyn FnMut(Found<'_>)) -> bool {
    inside(object, &Context::default(), fields, DEPTH, each)
}

fn inside(value: &Value, around: &Context, fields: &LogFields, depth: usize, each: &mut dyn FnMut(Found<'_>)) -> bool {
    if depth == 0 {
        return false;
    }
    let Value::Object(map) = value else {
        let Value::Array(list) = value else { return false };
        if let Some(row) = fields::row_of_pairs(list) {
            return inside(&row, around, fields, depth - 1, each);
        }
        return list.iter().fold(false, |any, v| inside(v, around, fields, depth - 1, each) | any);
    };
    if FORMS.iter().any(|(_, take)| take(value, each)) {
        return true;
    }
    let context = fields::context(value, around, fields);
    let mut any = false;
    let mut text = |text: &str, context: &Context| {
        any = true;
        each(Found::Text(text, context));
    };
    let message = fields::message(value, fields);
    match message {
        Some((_, message)) => text(message, &context),
        None => {
            // Loki: a stream's labels, and pairs of a time and a line.
            for pair in map.get("values").and_then(Value::as_array).into_iter().flatten() {
                if let [Value::String(at), Value::String(line), ..] = pair.as_array().map_or(&[][..], Vec::as_slice) {
                    let stamp = fields::time(&Value::String(at.clone()));
                    text(line, &Context { stamp: stamp.or(context.stamp), ..context.clone() });
                }
            }
            // Salt and others: text by host; or a field that nobody foresaw.
            for (key, value) in map {
                if let Value::String(quoted) = value
                    && prefilter::quotes_kernel(quoted.as_bytes())
                {
                    let host = fields::host_key(map, key).map(str::to_owned);
                    text(quoted, &Context { host: host.or_else(|| context.host.clone()), ..context.clone() });
                }
            }
        }
    }
    for (key, value) in map {
        if message.is_some_and(|(k, _)| k == key) || !(value.is_object() || value.is_array()) {
            continue;
        }
        any |= inside(value, &context, fields, depth - 1, each);
    }
    any
}

/// Whether a field of this name holds a message.
pub(crate) fn has_message(name: &str) -> bool {
    fields::MESSAGES.contains(&name)
}

/// A text that is not empty, by its path.
fn string<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(object, |o, key| o.get(key))?.as_str().filter(|s| !s.is_empty())
}

impl Context {
    /// Adds to a line's own prefix what is known from around it.
    pub(crate) fn surround(&self, line: &mut Peeled<'_>) {
        let own = |name: &Option<String>| name.as_ref().map(|n| std::borrow::Cow::Owned(n.clone().into_bytes()));
        line.label = line.label.take().or_else(|| own(&self.host));
        line.weak = line.weak.take().or_else(|| own(&self.weak));
        line.contained |= self.contained;
        if !line.stamp.is_some_and(|(s, _)| s.is_dated()) {
            line.stamp = self.stamp.or(line.stamp);
        }
        if let Some((Stamp::Boot { nanos }, _)) = self.stamp {
            line.boot = line.boot.or(Some(nanos));
        }
        line.format = self.format.or(line.format);
    }
}

impl Record {
    /// As a line without its header. A time beyond the range of [`crate::time::Timestamp`] is none.
    pub(crate) fn peeled(&self, format: Format) -> Peeled<'_> {
        Peeled {
            format: Some(format),
            stamp: self.stamp(),
            host: self.host.as_deref().map(|h| h.as_bytes().into()),
            writer: match self.writer() {
                None => Writer::Unknown,
                Some("kernel") => Writer::Kernel,
                Some(program) => Writer::Program(text::lossy(program.as_bytes(), text::NAME).into_bytes().into()),
            },
            message: self.message.as_slice().into(),
            ..Peeled::default()
        }
    }
}

#[cfg(test)]
mod tests;
