//! `rdzvscope messages`: every decoded message.

use std::io::{self, Write};

use super::exit::Exit;
use super::output::{Sink, complain};
use super::select::{SelectArgs, Selected};
use crate::analysis::walk;
use crate::escape;
use crate::flows::{Item, KINDS, Keep, MessageLine, Messages, Tongue};
use crate::protocol::tcpstore::Dialect;
use crate::report::{Align, Columns};
use crate::stream::Direction;

/// Arguments of `messages`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  rdzvscope messages node-a.pcap
  rdzvscope messages captures/ --query ADD,WAIT --key store_based_barrier
  rdzvscope messages node-a.pcap --host 192.0.2.250 -x
  rdzvscope messages captures/ --undecoded

A line a request to a store, with its answer; callbacks of watched keys have lines of their own, and so has every
message of NCCL. Data of NCCL's NET/Socket and of Gloo's pairs is one line, bulk, a direction.

Exit status: 0; 1 with --undecoded when bytes are left over; 2 trouble.")]
pub(super) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// Only these query types, or kinds of NCCL's messages
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = query)]
    query: Vec<&'static str>,
    /// Only messages whose first key contains this
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// All fields in hexadecimal, each with its name
    #[arg(short = 'x', long)]
    hex: bool,
    /// Values, not only their lengths
    #[arg(long)]
    show_values: bool,
    /// Instead of messages: the bytes of recognised streams that no message accounts for
    #[arg(long, conflicts_with_all = ["query", "key", "hex", "show_values"])]
    undecoded: bool,
    /// MessageFormat of the list
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<MessageFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum MessageFormat {
    /// For a terminal
    Table,
    /// One JSON document
    Json,
    /// JSON, one object a line
    Jsonl,
}

fn query(text: &str) -> Result<&'static str, String> {
    let plain = |s: &str| s.replace(['_', '-', ' '], "").to_ascii_uppercase();
    let all = || Dialect::ALL.iter().flat_map(|d| d.operations()).map(|o| o.name()).chain(KINDS);
    all().find(|o| plain(o) == plain(text)).ok_or_else(|| {
        let mut names: Vec<&str> = all().collect();
        names.sort_unstable();
        names.dedup();
        format!("one of {} was required, {text:?} was there", names.join(", "))
    })
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    let selected = a.select.read(false)?;
    let (out, _) = a.select.out()?;
    let form = a.select.form(a.format).unwrap_or(MessageFormat::Table);
    let mut list = List::new(form, out, a.undecoded);
    let mut listed = 0;
    let mut written: io::Result<()> = Ok(());
    let mut left = false;
    let sink = |item: Item| {
        written = match item {
            Item::Message(mut m) if !a.undecoded && a.wants(&m) => {
                selected.veil.iter().for_each(|veil| m.redact(veil));
                listed += 1;
                list.message(&selected, &m)
            }
            Item::Undecoded(mut range) if a.undecoded => {
                left = true;
                listed += 1;
                selected.veil.iter().for_each(|veil| range.redact(veil));
                list.line(|| match form {
                    MessageFormat::Table => Ok(range.text(&selected.known.labels)),
                    MessageFormat::Json | MessageFormat::Jsonl => range.json(&selected.known.labels),
                })
            }
            _ => Ok(()),
        };
        written.is_ok() && !a.select.enough(listed)
    };
    let keep = Keep { values: a.show_values, fields: a.hex };
    let memory = selected.options.memory;
    let mut visitor = Messages::new(&selected.known, &selected.selection, keep, memory, sink);
    let totals = walk(&selected.known, &selected.options.ports, memory, &mut visitor);
    visitor.finish();
    written?;
    list.finish()?;
    selected.complain(&totals);
    for (endpoint, known) in selected.known.listeners.iter().filter(|(_, k)| k.dialect.is_none()) {
        let accepted = known.listener.accepted;
        let endpoint = selected.veil.as_ref().map_or_else(|| endpoint.to_string(), |v| v.endpoint(*endpoint));
        complain(&format!(
            "{endpoint}: {accepted} connections contradict every dialect together; they are not decoded"
        ));
    }
    Ok(Exit::of(left, selected.known.trouble, selected.known.nothing_read, false, false))
}

impl Args {
    fn wants(&self, m: &MessageLine) -> bool {
        let query = self.query.is_empty() || self.query.contains(&m.query);
        let key = self.key.as_ref().is_none_or(|wanted| {
            let key = m.key.as_ref().map_or(&[][..], |k| &k.bytes);
            memchr::memmem::find(key, wanted.as_bytes()).is_some()
        });
        query && key
    }
}

/// The list in one of its forms.
enum List {
    Table(Columns<Sink>),
    Lines(Sink),
    /// One document; whether it holds a message yet.
    Document(Sink, bool),
}

/// How the document begins.
const DOCUMENT: &str = "{\"schema\":\"rdzvscope.messages/1\",\"messages\":[";

impl List {
    fn new(format: MessageFormat, out: Sink, plain: bool) -> List {
        const HEADS: [(&str, Align); 8] = [
            ("TIME", Align::Left),
            ("PACKET", Align::Right),
            ("FLOW", Align::Right),
            ("", Align::Left),
            ("QUERY", Align::Left),
            ("KEY", Align::Left),
            ("VALUE", Align::Right),
            ("ANSWER", Align::Left),
        ];
        match format {
            MessageFormat::Table if !plain => List::Table(Columns::new(out, " ", &HEADS)),
            MessageFormat::Json => List::Document(out, false),
            MessageFormat::Table | MessageFormat::Jsonl => List::Lines(out),
        }
    }

    fn line(&mut self, text: impl FnOnce() -> serde_json::Result<String>) -> io::Result<()> {
        match self {
            List::Table(_) => Ok(()),
            List::Lines(out) => writeln!(out, "{}", escape::json(text().map_err(io::Error::other)?)),
            List::Document(out, begun) => {
                let before = if std::mem::replace(begun, true) { "," } else { DOCUMENT };
                write!(out, "{before}\n{}", escape::json(text().map_err(io::Error::other)?))
            }
        }
    }

    fn message(&mut self, selected: &Selected, m: &MessageLine) -> io::Result<()> {
        match self {
            List::Table(table) => table.row(cells(m), below(m)?),
            List::Lines(_) | List::Document(..) => self.line(|| m.json(&selected.known.labels)),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            List::Table(table) => table.finish()?.finish(),
            List::Lines(out) => out.finish(),
            List::Document(mut out, begun) => {
                writeln!(out, "{}\n]}}", if begun { "" } else { DOCUMENT })?;
                out.finish()
            }
        }
    }
}

/// Columns that a key gets.
const KEY: usize = 26;
/// Columns that a line below a message gets.
const REST: usize = 96;

fn cells(m: &MessageLine) -> Vec<String> {
    let time = m.time.to_utc().format("%H:%M:%S%.6f").to_string();
    let mut key = m.key_text(KEY).unwrap_or_default();
    if m.key_count > 1 {
        let more = format!(" +{}", m.key_count - 1);
        let room = KEY.saturating_sub(more.len());
        key = format!("{}{more}", m.key_text(room).unwrap_or_default());
    }
    if let Some((detail, _)) = details(m) {
        key = detail;
    }
    if let Some((field, declared, delivered)) = m.unfinished {
        key = escape::clean(format!("{delivered} of {declared}, {field}").as_bytes(), KEY);
    }
    let doubt = if m.candidates.len() > 1 { "?" } else { "" };
    vec![
        time,
        m.packet.to_string(),
        m.flow.to_string(),
        format!("{}{doubt}", m.tongue.short()),
        m.query.to_string(),
        key,
        m.value_bytes.map_or(String::new(), |n| n.to_string()),
        answer(m),
    ]
}

/// What a message of NCCL says: as much of it as a column holds, and the rest.
fn details(m: &MessageLine) -> Option<(String, String)> {
    let text = m.detail.as_ref()?;
    let (first, rest) = text.split_once(", ").unwrap_or((text, ""));
    let shown = escape::clean(first.as_bytes(), KEY);
    Some((shown, escape::clean(rest.as_bytes(), REST)))
}

fn answer(m: &MessageLine) -> String {
    if m.unfinished.is_some() {
        return "(unfinished)".to_string();
    }
    let Some(a) = &m.answer else {
        let back = !matches!(m.tongue, Tongue::Store(_)) && m.direction == Direction::ToClient.name();
        return if back { "to the client" } else { "" }.to_string();
    };
    // A pong's number is the process id that the client sent.
    let number = a.number.filter(|_| a.kind != "pong").map_or(String::new(), |n| format!(" {n}"));
    let kind = if a.kind == "number" { "" } else { a.kind };
    let latency = match a.latency {
        // Two capturing queues, or two clocks: no time from question to answer.
        s if s < 0.0 => "captured before it was asked".to_string(),
        s if s.abs() < 0.001 => format!("{:.0} us", s * 1e6),
        s if s.abs() < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.1} s"),
    };
    format!("{}, {latency}", format!("{kind}{number}").trim())
}

fn below(m: &MessageLine) -> io::Result<Vec<String>> {
    let mut text = Vec::new();
    if let Some((_, rest)) = details(m).filter(|(_, rest)| !rest.is_empty()) {
        writeln!(text, "{rest}")?;
    }
    if let Some(value) = m.value_text(90) {
        writeln!(text, "value {value}")?;
    }
    m.fields.iter().try_for_each(|f| f.write(&mut text))?;
    if let Some(a) = m.answer.as_ref().filter(|a| !a.fields.is_empty()) {
        writeln!(text, "{} answers in packet {}:", Direction::ToClient.name(), a.packet)?;
        a.fields.iter().try_for_each(|f| f.write(&mut text))?;
    }
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_types_are_known_by_their_names() {
        assert_eq!(query("compare_set"), Ok("COMPARE_SET"));
        assert_eq!(query("GETNUMKEYS").map(|q| q.len() > 5), Ok(true));
        assert_eq!(query("watch-key"), Ok("WATCH_KEY"));
        assert_eq!(query("net_index"), Ok("NET index"));
        assert!(query("FETCH").unwrap_err().contains("QUEUE_PUSH"));
    }
}
