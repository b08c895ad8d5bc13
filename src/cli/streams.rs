//! `rdzvscope streams`: the flows of captures, and their bytes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::exit::Exit;
use super::output::{Sink, shown};
use super::select::{SelectArgs, Selected};
use crate::analysis::{Totals, walk};
use crate::escape;
use crate::flows::{Files, FlowSummary, Follow, FollowFormat, Streams};
use crate::report::size::{grouped, span};
use crate::report::{Align, Columns};
use crate::stream::Direction;

/// How the documents begin.
const LIST: &str = "{\"schema\":\"rdzvscope.streams/1\",\"flows\":[";
const INDEX: &str = "{\"schema\":\"rdzvscope.streams/1\",\"streams\":[";

/// Arguments of `streams`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  rdzvscope streams node-a.pcap
  rdzvscope streams captures/ --all --format jsonl
  rdzvscope streams node-a.pcap --host 192.0.2.250 --write scan/
  rdzvscope streams node-a.pcap --follow 84 --as hex

Without --all and --port: the flows to listeners that are stores, or may be.")]
pub(super) struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// All flows, not only those to stores
    #[arg(long)]
    all: bool,
    /// Write the bytes of each stream to a file in this new or empty directory, and an index.json
    #[arg(long, value_name = "DIR", conflicts_with = "follow")]
    write: Option<PathBuf>,
    /// Print the bytes of the flow with this number, in the order they were sent
    #[arg(long, value_name = "N")]
    follow: Option<u64>,
    /// FollowFormat of the bytes that --follow prints
    #[arg(long = "as", value_name = "FORM", value_enum, default_value = "text", requires = "follow")]
    form: Shape,
    /// The direction that --follow prints
    #[arg(long, value_name = "WHICH", value_enum, default_value = "both", requires = "follow")]
    direction: Which,
    /// FollowFormat of the list
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Shape {
    /// Lines of text, everything else escaped
    Text,
    /// Hexadecimal
    Hex,
    /// The bytes alone
    Raw,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Which {
    /// Both, as they came
    Both,
    /// From the client
    ToServer,
    /// From the listener
    ToClient,
}

/// Runs it.
pub(super) fn run(a: Args) -> anyhow::Result<Exit> {
    if a.select.redact.asked() && (a.follow.is_some() || a.write.is_some()) {
        anyhow::bail!("--redact does not go with --follow or --write: these give the bytes as they were sent");
    }
    let selected = a.select.read(a.all)?;
    let (out, terminal) = a.select.out()?;
    if let Some(number) = a.follow {
        return follow(&a, &selected, number, out, terminal);
    }
    let mut files = match &a.write {
        Some(directory) => Some(Files::create(directory)?),
        None => None,
    };
    let mut index = match &a.write {
        Some(directory) => Some(Index::create(directory)?),
        None => None,
    };
    let mut list = List::new(a.select.form(a.format).unwrap_or(Format::Table), out);
    let mut listed = 0;
    let mut written: anyhow::Result<()> = Ok(());
    let sink = |mut flow: FlowSummary| {
        if let Some(veil) = &selected.veil {
            flow.redact(veil);
        }
        listed += 1;
        written = list.flow(&selected, &flow).map_err(Into::into);
        if let (Ok(()), Some(index)) = (&written, &mut index) {
            written = index.flow(&flow);
        }
        written.is_ok() && !a.select.enough(listed)
    };
    let mut visitor = Streams::new(&selected.known, &selected.selection, files.as_mut(), sink);
    let totals = walk(&selected.known, &selected.options.ports, selected.options.memory, &mut visitor);
    written?;
    if let Some(files) = files {
        files.failure()?;
    }
    if let Some(index) = index {
        index.finish()?;
    }
    list.finish(&selected, &totals)?;
    selected.complain(&totals);
    Ok(Exit::of(false, selected.known.trouble, selected.known.nothing_read, false, false))
}

fn follow(a: &Args, selected: &Selected, number: u64, out: Sink, terminal: bool) -> anyhow::Result<Exit> {
    let form = match a.form {
        Shape::Text => FollowFormat::Text,
        Shape::Hex => FollowFormat::Hex,
        Shape::Raw if terminal => {
            anyhow::bail!("--as raw prints bytes as they are; a file or a pipe was required, a terminal was there")
        }
        Shape::Raw => FollowFormat::Raw,
    };
    let only = match a.direction {
        Which::Both => None,
        Which::ToServer => Some(Direction::ToServer),
        Which::ToClient => Some(Direction::ToClient),
    };
    let mut visitor = Follow::new(&selected.known, number, form, only, out);
    let totals = walk(&selected.known, &selected.options.ports, selected.options.memory, &mut visitor);
    let Some(out) = visitor.finish()? else {
        anyhow::bail!(
            "--follow {number}: there is no such flow; there are {} (streams --all lists them)",
            totals.flows
        );
    };
    out.finish()?;
    selected.complain(&totals);
    Ok(Exit::of(false, selected.known.trouble, selected.known.nothing_read, false, false))
}

/// The list of flows in one of its forms, written as flows end.
enum List {
    Table(Columns<Sink>),
    Lines(Sink),
    Document(Sink, bool),
}

/// How flows are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    /// For a terminal
    Table,
    /// One JSON document
    Json,
    /// JSON, one direction a line
    Jsonl,
}

impl List {
    fn new(format: Format, out: Sink) -> List {
        const HEADS: [(&str, Align); 8] = [
            ("N", Align::Right),
            ("CLIENT", Align::Left),
            ("SERVER", Align::Left),
            ("TO SERVER", Align::Right),
            ("TO CLIENT", Align::Right),
            ("GAPS", Align::Right),
            ("DURATION", Align::Right),
            ("SPEAKS", Align::Left),
        ];
        match format {
            Format::Table => List::Table(Columns::new(out, " ", &HEADS)),
            Format::Jsonl => List::Lines(out),
            Format::Json => List::Document(out, false),
        }
    }

    fn flow(&mut self, selected: &Selected, flow: &FlowSummary) -> io::Result<()> {
        match self {
            List::Table(table) => {
                let (cells, below) = row(flow);
                table.row(cells, below)
            }
            List::Lines(out) => flow.stream_documents().try_for_each(|s| writeln!(out, "{}", json_line(&s)?)),
            List::Document(out, begun) => {
                let before = if *begun { "," } else { LIST };
                *begun = true;
                write!(out, "{before}\n{}", json_line(&flow.document(&selected.known.labels))?)
            }
        }
    }

    fn finish(self, selected: &Selected, totals: &Totals) -> io::Result<()> {
        match self {
            List::Table(table) => table.finish()?.finish(),
            List::Lines(out) => out.finish(),
            List::Document(mut out, begun) => {
                let before = if begun { "" } else { LIST };
                let totals = json!({
                    "packets": totals.packets,
                    "flows": totals.flows,
                    "duplicates": totals.duplicates,
                    "evicted_flows": totals.evicted_flows,
                    "evicted_bytes": totals.evicted_bytes,
                });
                let captures = json!(selected.known.labels);
                writeln!(out, "{before}\n],\"captures\":{captures},\"totals\":{totals}}}")?;
                out.finish()
            }
        }
    }
}

fn json_line(value: &impl serde::Serialize) -> io::Result<String> {
    serde_json::to_string(value).map(escape::json).map_err(io::Error::other)
}

/// Columns that an endpoint gets; longer ones stand below.
const ENDPOINT: usize = 21;

fn row(flow: &FlowSummary) -> (Vec<String>, Vec<String>) {
    let (client, server) = (flow.client_text(), flow.server_text());
    let cut = |end: &str| escape::clean(end.as_bytes(), ENDPOINT);
    let gaps: u64 = flow.streams.iter().map(|s| s.counters.gap_bytes + s.counters.cut_bytes).sum();
    let cells = vec![
        flow.number.to_string(),
        cut(&client),
        cut(&server),
        grouped(flow.streams[0].counters.delivered),
        grouped(flow.streams[1].counters.delivered),
        grouped(gaps),
        span(flow.seconds()),
        escape::clean(flow.speech.text().as_bytes(), 14),
    ];
    let mut below = Vec::new();
    if client.len() > ENDPOINT || server.len() > ENDPOINT {
        below.push(format!("{client} > {server}"));
    }
    let mut line = format!("{}  {}  packet {}", flow.id_text(), flow.first, flow.first_packet.number);
    let duplicates: u64 = flow.streams.iter().map(|s| s.duplicates).sum();
    if duplicates > 0 {
        line.push_str(&format!("  {duplicates} seen twice"));
    }
    below.push(line);
    for (stream, way) in flow.streams.iter().zip(["to the server", "to the client"]) {
        below.extend(stream.counters.left_out().map(|left| format!("not in the stream {way}: {left}")));
    }
    (cells, below)
}

/// The index of a directory of streams.
struct Index {
    path: PathBuf,
    out: io::BufWriter<std::fs::File>,
    begun: bool,
}

impl Index {
    fn create(directory: &Path) -> anyhow::Result<Index> {
        let path = directory.join("index.json");
        let file = crate::disk::private().create_new(true).open(&path);
        let file = file.with_context(|| format!("{}: cannot create", shown(&path)))?;
        Ok(Index { path, out: io::BufWriter::new(file), begun: false })
    }

    fn flow(&mut self, flow: &FlowSummary) -> anyhow::Result<()> {
        for file in flow.file_documents() {
            let before = if self.begun { "," } else { INDEX };
            self.begun = true;
            let line = json_line(&file)?;
            write!(self.out, "{before}\n{line}").with_context(|| format!("{}: cannot write", shown(&self.path)))?;
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        let before = if self.begun { "" } else { INDEX };
        let written = writeln!(self.out, "{before}\n]}}").and_then(|()| self.out.flush());
        written.with_context(|| format!("{}: cannot write", shown(&self.path)))
    }
}
