//! `rdzvscope prescan`: what a scan would do, before it is run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;

use super::args;
use super::attest::{self, Paper};
use super::exit::Exit;
use super::inventory;
use super::output::{Sink, by_name, complain, shown};
use super::policy::PolicyArgs;
use super::terminal::PagerArgs;
use crate::analysis::Options;
use crate::prescan::{
    Act, Advice, Behaviour, Case, Fleet, Grade, Host, Matrix, Page, Plan, ProbeFile, Profile, Row, advise, doors,
    markdown, nccl, payload, preset, presets, pytorch, table,
};
use crate::protocol::checked::later;
use crate::protocol::tcpstore::server::Backend;

/// Arguments of `prescan`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  rdzvscope prescan nmap -sS -sV -p 1-65535
  rdzvscope prescan --profile 'nmap -sS -sV -p 1-65535' --pytorch 1.13,2.1 --nccl 2.26
  rdzvscope prescan --profile 'nmap -sV -p 29500' --inventory report.json --write-probes safe-probes
  rdzvscope prescan --capture scan.pcap --source 192.0.2.250 --pytorch all
  rdzvscope prescan --payload 0300000b06e0000000000000 --pytorch 1.13
  rdzvscope prescan --inventory case.db --policy nmap
  rdzvscope prescan --profile 'nmap -sS -p-' --node mpich:4.0,openmpi:5,srun,tensorpipe,zmq,ray
  rdzvscope prescan --profile 'nmap -sV' --inventory case.db --net 192.0.2.0/24 --attest approval

Exit status: 0 nothing is hurt; 1 something is killed, degraded, or gets bytes that nobody has tried; 2 nothing to try.
Of --policy and --check: 0 covered; 1 something is not; 2 trouble.")]
pub(super) struct Args {
    /// nmap's file of service probes [default: the installed one]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "capture", "behaviour"], hide_short_help = true)]
    probes: Option<PathBuf>,
    /// The scan's own command line; prescan's long flags may stand before or behind it
    #[arg(value_name = "nmap ...", trailing_var_arg = true, allow_hyphen_values = true, conflicts_with_all = ["profile", "payload", "capture", "behaviour"])]
    command: Vec<String>,
    /// Only what this nmap command sends, in its order
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["payload", "capture", "behaviour"], allow_hyphen_values = true, hide_short_help = true)]
    profile: Option<String>,
    /// Bytes in hex, or a file of them; segments that are sent one after the other are parted by commas (may repeat)
    #[arg(long, value_name = "HEX[,HEX...]|FILE")]
    payload: Vec<String>,
    /// What clients sent in a recorded scan (may repeat)
    #[arg(long, value_name = "CAPTURE")]
    capture: Vec<PathBuf>,
    /// The scanner: of a capture only what it sent; whom a policy shuts out
    #[arg(long, value_name = "ADDRESS")]
    source: Option<std::net::IpAddr>,
    /// syn, connect-close, connect-hold:SECONDS, banner, or a scanner: masscan, naabu, nessus, ... (may repeat)
    #[arg(long, visible_alias = "behavior", value_name = "WHAT")]
    behaviour: Vec<String>,
    /// Releases of PyTorch: 1.13, 1.4-2.1, 2.2-, all; lists of these
    #[arg(long, value_name = "LIST|RANGE")]
    pytorch: Option<String>,
    /// Only stores with this server
    #[arg(long, value_name = "WHICH", value_enum, hide_short_help = true)]
    backend: Option<Which>,
    /// Releases of NCCL, with or without a listener: 2.26, root:2.26.2, proxy:2.16, all
    #[arg(long, value_name = "LIST")]
    nccl: Option<String>,
    /// Other listeners of a node: mpich:4.0, srun, gloo:1.13, zmq, ...
    #[arg(long, value_name = "LIST")]
    node: Option<String>,
    /// The listeners of a case file, or of a report that analyze --format json wrote
    #[arg(long, value_name = "CASE|JSON")]
    inventory: Option<PathBuf>,
    /// Ports of the stores [default: 29500,29400,23456]; of an inventory, ports that are always the same
    #[arg(long, value_name = "LIST", value_parser = args::ports, hide_short_help = true)]
    port: Vec<std::vec::Vec<u16>>,
    /// RAM and swap of the hosts
    #[arg(long, value_name = "SIZE", value_parser = args::size, hide_short_help = true)]
    host_memory: Option<u64>,
    /// vm.overcommit_memory of the hosts
    #[arg(long, value_name = "0|1|2", value_parser = clap::value_parser!(u8).range(0..=2), hide_short_help = true)]
    overcommit: Option<u8>,
    /// Bytes that nobody has tried do not count
    #[arg(long, hide_short_help = true)]
    accept_unknown: bool,
    /// Write the probes without those that kill stores (or degrade, when none kills), for nmap --versiondb
    #[arg(long, value_name = "FILE", conflicts_with_all = ["payload", "capture", "behaviour"])]
    write_probes: Option<PathBuf>,
    #[command(flatten)]
    policies: PolicyArgs,
    /// Write report, policies, checksums and a form to be signed into a new directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["policy", "policy_dir", "check"])]
    attest: Option<PathBuf>,
    /// Form of the verdict [default: by -o, else table]
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Format>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format", hide_short_help = true)]
    json: bool,
    /// Write the verdict there instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// List what is safe too, and explain each
    #[arg(short, long)]
    verbose: bool,
    /// Print nothing; only the exit status tells
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Which {
    /// The server with one thread
    Poll,
    /// The server with an event loop (2.2 and later)
    Libuv,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    /// For a terminal
    Table,
    /// For a ticket
    Markdown,
    /// One JSON document
    Json,
    /// JSON, one line for each probe and server
    Jsonl,
}

/// What is tried.
struct Question {
    plan: Option<Plan>,
    board: Matrix,
    what: String,
    notes: Vec<String>,
    trouble: bool,
}

impl Question {
    /// Whether the scan's own options leave all of the fleet alone.
    fn spared(&self, fleet: &Fleet) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.spares(fleet))
    }
}

/// Runs it.
pub(super) fn run(mut a: Args) -> anyhow::Result<Exit> {
    if !a.command.is_empty() {
        a.profile = Some(a.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "));
    }
    let host = Host { memory: a.host_memory, overcommit: a.overcommit };
    if a.source.is_some() && a.capture.is_empty() && a.attest.is_none() && !a.policies.wanted() {
        bail!(
            "--source ADDRESS says whose bytes of a --capture are meant, or whom a --policy shuts out: none of them is there"
        );
    }
    let document = a.inventory.as_deref().map(inventory::load).transpose()?;
    let fleet = fleet(&a, document.as_ref())?;
    let fixed: Vec<u16> = a.port.iter().flatten().copied().collect();
    let scope = a.policies.scope(&fleet, document.as_ref(), a.source.map(Into::into), &fixed, source(&a));
    if a.policies.wanted() {
        return a.policies.run(&scope, a.output.as_deref(), a.quiet);
    }
    let question = if a.payload.is_empty() && a.capture.is_empty() && a.behaviour.is_empty() {
        probes(&a, &fleet, host)?
    } else {
        own(&a, &fleet, host)?
    };
    let spared = question.spared(&fleet);
    let tried = spared || question.board.rows().next().is_some();
    anyhow::ensure!(
        tried || a.attest.is_none(),
        "nothing was tried, and an approval of nothing is none{}",
        question.notes.iter().map(|n| format!("; {n}")).collect::<String>()
    );
    let advice = advise(question.plan.as_ref(), &question.board, &fleet, host);
    if let (Some(path), Some(plan)) = (&a.write_probes, &question.plan) {
        write_probes(path, plan, &advice)?;
    }
    if let Some(directory) = &a.attest {
        let form = |format| {
            let mut text = Vec::new();
            write(&a, format, &fleet, host, &question, &advice, &mut text).map(|()| text)
        };
        let paper = Paper {
            report: [form(Format::Json)?, form(Format::Markdown)?],
            tried: &question.what,
            hosts: host.text(),
            fleet: &fleet,
            scope: &scope,
            board: &question.board,
            advice: &advice,
            notes: fleet.notes.iter().chain(&question.notes).map(String::as_str).collect(),
        };
        attest::write(directory, &paper)?;
        if !a.quiet {
            complain(&format!("{}: report, policies, SHA256SUMS and sign-off.md are there", shown(directory)));
        }
    }
    let asked = a.json.then_some(Format::Json).or(a.format);
    let format = asked.or_else(|| by_name(a.output.as_deref())).unwrap_or(Format::Table);
    if !a.quiet || a.output.is_some() {
        match &a.output {
            Some(path) => {
                let (mut file, _) = Sink::new(Some(path), PagerArgs::default())?;
                write(&a, format, &fleet, host, &question, &advice, &mut file)?;
                file.finish().with_context(|| format!("{}: cannot write", shown(path)))?;
            }
            None => write(&a, format, &fleet, host, &question, &advice, BufWriter::new(io::stdout().lock()))?,
        }
    }
    let flagged = match question.board.worst() {
        None | Some(Grade::Safe) => false,
        Some(Grade::Unknown) => !a.accept_unknown,
        Some(_) => true,
    };
    Ok(Exit::of(flagged, question.trouble, !tried, false, false))
}

/// A scan's command line that was given as one word, flags of prescan after it: what `--profile` means.
pub(super) fn profile_of_word(arguments: Vec<OsString>) -> Vec<OsString> {
    let is_scan = |word: &OsString| {
        let words = word.to_string_lossy();
        let mut words = words.split_whitespace();
        words.next().is_some_and(|w| w == "nmap" || w.ends_with("/nmap")) && words.next().is_some()
    };
    let at = arguments.iter().position(is_scan).filter(|at| {
        arguments.get(1).is_some_and(|c| c == "prescan")
            && at.checked_sub(1).and_then(|b| arguments.get(b)).is_some_and(|f| f != "--profile")
    });
    let mut all = arguments;
    if let Some(at) = at {
        all.insert(at, "--profile".into());
    }
    all
}

/// Flags of prescan that stand behind the scan's own command line, put before it: nmap has none of their names.
pub(super) fn own_flags_first(command: &clap::Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let nmap = |word: &OsString| word == "nmap" || word.to_string_lossy().ends_with("/nmap");
    let at = arguments.iter().position(nmap).filter(|_| arguments.get(1).is_some_and(|c| c == "prescan"));
    let (Some(at), Some(prescan)) = (at, command.find_subcommand("prescan")) else { return arguments };
    if arguments.get(at - 1).is_some_and(|before| before == "--profile") {
        return arguments;
    }
    let (mut before, mut scan) = (arguments, Vec::new());
    let mut rest = before.split_off(at).into_iter();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy().into_owned();
        let (name, value) = text.split_once('=').map_or((text.as_str(), None), |(n, v)| (n, Some(v)));
        let own = name.strip_prefix("--").and_then(|n| prescan.get_arguments().find(|a| a.get_long() == Some(n)));
        match own {
            Some(flag) => {
                before.push(word);
                if value.is_none() && flag.get_action().takes_values() {
                    before.extend(rest.next());
                }
            }
            None => scan.push(word),
        }
    }
    before.extend(scan);
    before
}

/// A word of a command line, so that it is one word again when the line is read.
fn quoted(word: &str) -> String {
    let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c));
    if plain { word.to_string() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// What the fleet was made from, in words.
fn source(a: &Args) -> String {
    let clean = |text: &str| crate::escape::clean(text.as_bytes(), 100);
    let named = [("--pytorch", &a.pytorch), ("--nccl", &a.nccl), ("--node", &a.node)];
    let mut parts: Vec<String> = a.inventory.iter().map(|p| shown(p)).collect();
    parts.extend(named.iter().filter_map(|(flag, v)| Some(format!("{flag} {}", clean(v.as_deref()?)))));
    if parts.is_empty() { "all known servers".to_owned() } else { parts.join(" ") }
}

fn fleet(a: &Args, document: Option<&serde_json::Value>) -> anyhow::Result<Fleet> {
    let mut fleet = Fleet::default();
    let mut ports: Vec<u16> = a.port.iter().flatten().copied().collect();
    if ports.is_empty() {
        ports = Options::default().ports.iter().collect();
        ports.sort_unstable_by_key(|p| (*p != 29_500, *p));
    }
    let backend = a.backend.map(|b| if b == Which::Poll { Backend::Poll } else { Backend::Libuv });
    if let (Some(path), Some(document)) = (&a.inventory, document) {
        fleet.inventory(&shown(path), document)?;
    }
    let named = a.pytorch.is_some() || a.nccl.is_some() || a.inventory.is_some() || a.node.is_some();
    let releases = match &a.pytorch {
        Some(list) => pytorch(list)?,
        None if !named || (backend.is_some() && a.inventory.is_none() && a.nccl.is_none() && a.node.is_none()) => {
            pytorch("all")?
        }
        None => Vec::new(),
    };
    fleet.stores(&releases, backend, &ports)?;
    match &a.nccl {
        Some(list) => fleet.nccl(&nccl(list)?),
        None if !named && backend.is_none() => fleet.nccl(&nccl("all")?),
        None => {}
    }
    let named = |list: &Option<String>, product: &str| -> Vec<String> {
        let parts = list.as_deref().unwrap_or_default().split([',', '-', '–']);
        parts.filter_map(|v| later(product, v.rsplit(':').next().unwrap_or(v))).collect()
    };
    fleet.notes.extend(named(&a.pytorch, "pytorch"));
    fleet.notes.extend(named(&a.nccl, "nccl"));
    if let Some(list) = &a.node {
        fleet.doors(&doors::node(list)?);
    }
    if !releases.is_empty() && a.port.is_empty() {
        let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        fleet.notes.push(format!("stores were taken to listen on the ports {list} (--port says better; torchrun's worker stores are on ports that the kernel chose)"));
    }
    Ok(fleet)
}

/// nmap's probes.
fn probes(a: &Args, fleet: &Fleet, host: Host) -> anyhow::Result<Question> {
    let profile = a.profile.as_deref().map(Profile::parse).transpose()?;
    let named = a.probes.clone().or_else(|| profile.as_ref().and_then(|p| p.probes.clone()));
    let path = match named.or_else(ProbeFile::installed) {
        Some(path) => path,
        None => bail!(
            "No probes at hand: nmap is not installed here, and its probes are not shipped. Ways out: --probes FILE (nmap-service-probes of \
the scanning machine), --capture FILE (a recorded scan), --payload HEX, --behaviour {}, or `rdzvscope decoy` for the scanner itself",
            presets().collect::<Vec<_>>().join("|")
        ),
    };
    let file = ProbeFile::read(&path)?;
    let count = file.probes.len();
    let plan = Plan::new(file, profile, fleet);
    let board = plan.board(fleet, host);
    let what = match &a.profile {
        Some(command) => format!(
            "Tried: {}, with the {count} TCP probes of {}",
            crate::escape::clean(command.trim().as_bytes(), 300),
            shown(&path)
        ),
        None => format!(
            "Tried: each of the {count} TCP probes of {}, on a connection of its own (--profile restricts them to what a scan sends)",
            shown(&path)
        ),
    };
    let notes = plan.notes.clone();
    Ok(Question { plan: Some(plan), board, what, notes, trouble: false })
}

/// Bytes of one's own, recorded ones, behaviours.
fn own(a: &Args, fleet: &Fleet, host: Host) -> anyhow::Result<Question> {
    let mut cases = Vec::new();
    let mut notes = Vec::new();
    let mut trouble = false;
    for (i, text) in a.payload.iter().enumerate() {
        let name = if a.payload.len() == 1 { "payload".to_owned() } else { format!("payload {}", i + 1) };
        cases.push(Case { name, act: Act::Segments(bytes(text)?) });
    }
    if !a.capture.is_empty() {
        let recorded = payload::recorded(a.capture.clone(), a.source.map(Into::into));
        for (path, error) in &recorded.errors {
            complain(&format!("{path}: {error}"));
            trouble = true;
        }
        notes.extend(recorded.growing);
        if recorded.cut > 0 {
            notes.push(format!(
                "{} connections are not whole in the capture: what is there of them was tried",
                recorded.cut
            ));
        }
        notes.push(format!(
            "{} connections of the capture carried {} different payloads{}",
            recorded.connections,
            recorded.cases.iter().filter(|c| c.act != Act::Close).count(),
            if a.source.is_none() {
                "; those of the job itself are among them (--source ADDRESS names the scanner)"
            } else {
                ""
            }
        ));
        cases.extend(recorded.cases);
    }
    for name in &a.behaviour {
        match (Behaviour::parse(name), preset(name, fleet)) {
            (Some(behaviour), _) => cases.push(behaviour.case()),
            (None, Some(preset)) => cases.extend(preset),
            (None, None) => bail!(
                "--behaviour: syn, connect-close, connect-hold:SECONDS, banner or a scanner ({}) was required, {:?} was there",
                presets().collect::<Vec<_>>().join(", "),
                name.chars().take(60).collect::<String>()
            ),
        }
    }
    if cases.is_empty() {
        bail!("nothing to try: no client of the capture sent a byte that can be read");
    }
    let what = match cases.as_slice() {
        [Case { name, act: Act::Segments(s) }] => {
            format!("Tried: {name}, {} bytes in {} segments", s.iter().map(Vec::len).sum::<usize>(), s.len())
        }
        [Case { name, .. }] => format!("Tried: {name}"),
        cases => format!("Tried: {} payloads and ways to connect", cases.len()),
    };
    let board = Matrix::ask(cases, fleet, host, |_, _| true);
    Ok(Question { plan: None, board, what, notes, trouble })
}

fn bytes(text: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    use std::io::Read as _;
    if let Some(segments) = payload::hex(text) {
        return Ok(segments);
    }
    let path = Path::new(text);
    if !path.is_file() {
        let there: String = text.chars().take(60).collect();
        bail!("--payload: bytes in hex (0300000b,06e0) or a file was required, {there:?} was there");
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("{}: cannot read", shown(path)))?;
    file.take(1 << 20).read_to_end(&mut bytes).with_context(|| format!("{}: cannot read", shown(path)))?;
    if bytes.is_empty() {
        bail!("--payload {}: at least one byte was required, the file is empty", shown(path));
    }
    Ok(vec![bytes])
}

fn write_probes(path: &Path, plan: &Plan, advice: &Advice) -> anyhow::Result<()> {
    let hurting = &advice.left_out;
    let names: BTreeSet<&str> = hurting.iter().map(String::as_str).collect();
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("{}: cannot create a new file", shown(path)))?;
    file.write_all(&plan.file.without(&names)).with_context(|| format!("{}: cannot write", shown(path)))?;
    complain(&format!(
        "{}: {} of {} probes left out{}; use it with nmap --versiondb {}",
        shown(path),
        names.len(),
        plan.file.probes.len(),
        if names.is_empty() { String::new() } else { format!(" ({})", hurting.join(", ")) },
        shown(path)
    ));
    Ok(())
}

/// The one document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    verdict: &'static str,
    tried: &'a str,
    hosts: String,
    notes: Vec<String>,
    advice: &'a Advice,
    rows: Vec<&'a Row>,
}

fn write(
    a: &Args,
    format: Format,
    fleet: &Fleet,
    host: Host,
    q: &Question,
    advice: &Advice,
    mut out: impl Write,
) -> anyhow::Result<()> {
    let hosts = host.text();
    let notes: Vec<String> = fleet.notes.iter().chain(&q.notes).cloned().collect();
    let page = Page {
        what: &q.what,
        hosts: &hosts,
        fleet,
        board: &q.board,
        advice,
        notes: &notes,
        spared: q.spared(fleet),
        verbose: a.verbose,
    };
    match format {
        Format::Table => out.write_all(table(&page).as_bytes())?,
        Format::Markdown => out.write_all(markdown(&page).as_bytes())?,
        Format::Jsonl => {
            for row in q.board.rows() {
                serde_json::to_writer(&mut out, row)?;
                out.write_all(b"\n")?;
            }
        }
        Format::Json => {
            let none = if q.spared(fleet) { "left-alone" } else { "nothing-tried" };
            let verdict = q.board.worst().map_or(none, Grade::name);
            let rows = q.board.rows().collect();
            let document = Document {
                schema: "rdzvscope.prescan/1",
                verdict,
                tried: &q.what,
                hosts,
                notes: notes.clone(),
                advice,
                rows,
            };
            serde_json::to_writer(&mut out, &document)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}
