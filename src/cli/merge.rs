//! `rdzvscope merge`: evidence of many hosts, joined.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::alerts::{AlertArgs, DeliveryResult, Metrics, give_up_calls};
use super::args;
use super::exit::Exit;
use super::output::{complain, shown};
use super::report::Common;
use super::site_facts::SiteFacts;
use super::watch::{is_flagged, now, stop_flag};
use super::whose_word::accepted;
use crate::analysis::{OriginSettings, analyze_stored};
use crate::case::{Case, Limits, Mode};
use crate::evidence::{AllowedSigners, FactSet, LineReader, host_names, join_files, list_segments, read_file};
use crate::vocabulary::Severity;
use crate::watch::{Central, Lock};

/// Arguments of `merge`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Evidence of many hosts joined into one report",
    after_help = "Examples:
  rdzvscope merge node-a.db node-b.db evidence/
  pdsh -a 'rdzvscope analyze /var/lib/pcap --oom /var/log --format jsonl' | rdzvscope merge -
  rdzvscope merge --case central.db --follow /srv/evidence --alert-exec 'notify-oncall'

The order does not matter, nor whether something is given twice: the report is that of analyze over all captures and logs.

Exit status: 0 nothing flagged, 1 flagged (with --follow --once: something new), 2 trouble."
)]
pub(super) struct Args {
    /// Case files, segments of evidence, directories of these; - is lines on standard input
    #[arg(value_name = "EVIDENCE", required_unless_present = "follow", conflicts_with = "follow")]
    evidence: Vec<PathBuf>,
    /// Take segments from there as they arrive, and tell what is new as JSON lines (may repeat)
    #[arg(long, value_name = "DIR", requires = "case")]
    follow: Vec<PathBuf>,
    /// The case that keeps what was taken; made where it is not there
    #[arg(long, value_name = "FILE", requires = "follow")]
    case: Option<PathBuf>,
    /// Take only segments that the host they speak for has signed: FILE lists the keys, as ssh-keygen's allowed_signers
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    trust: Option<PathBuf>,
    /// One pass over what arrived, then end
    #[arg(long, requires = "follow")]
    once: bool,
    /// Time between two passes
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::duration, hide_short_help = true)]
    interval: f64,
    /// How long what was taken is kept
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = args::duration, hide_short_help = true)]
    keep: f64,
    /// How large the case may grow
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = args::size, hide_short_help = true)]
    case_max: u64,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    common: Common,
}

/// Runs it.
pub(super) fn run(a: Args, arguments: &[OsString]) -> anyhow::Result<Exit> {
    if let Some(case) = a.case.clone() {
        return follow(a, &case, arguments);
    }
    anyhow::ensure!(!a.alerts.asked(), "alerts are of what arrives: --follow DIR and --case FILE were required");
    let standard = |p: &PathBuf| p.as_os_str() == "-";
    anyhow::ensure!(
        !(a.evidence.iter().any(standard) && a.common.job.job.as_ref().is_some_and(standard)),
        "standard input is evidence or accounting, not both: --job FILE was required"
    );
    let signers = a.signers()?;
    give_up_calls(a.alerts.no_seccomp, signers.is_some());
    let mut all = Joined { signers, ..Joined::default() };
    for path in &a.evidence {
        all.take(path, true)?;
    }
    // Evidence that is printed again is all of it; what is concluded from needs less.
    let again = a.common.is_whole() && a.common.output.is_evidence();
    if again {
        for path in std::mem::take(&mut all.files) {
            all.read(read_file(&path)?);
        }
    }
    let facts = if again { all.pile.clone() } else { FactSet::default() };
    let joined = join_files(&all.files, all.pile)?;
    all.wrong.extend(joined.wrong);
    all.remarks.extend(joined.remarks);
    all.wrong.iter().for_each(|w| complain(w));
    let mut stored = joined.stored;
    a.common.add_hosts(&mut stored)?;
    let (claimed, unused) = accepted(&stored.origins);
    stored.notes.extend(unused);
    let setup = claimed.join(a.common.join.setup());
    let options = a.common.join.options(&setup, arguments)?;
    let trouble = !all.wrong.is_empty();
    stored.notes.extend(all.wrong);
    stored.notes.extend(all.remarks);
    let mut analysis = analyze_stored(&options, stored).analysis;
    a.common.keep(&options, &mut analysis.report)?;
    a.common.finish(&analysis, &facts, trouble)
}

impl Args {
    fn signers(&self) -> anyhow::Result<Option<AllowedSigners>> {
        self.trust.as_deref().map(AllowedSigners::open).transpose().map_err(anyhow::Error::msg)
    }
}

/// What was read so far.
#[derive(Default)]
struct Joined {
    /// Whose signatures count; `None`: nothing need be signed.
    signers: Option<AllowedSigners>,
    /// Names of the hosts that origins speak for, where they were signed for.
    names: BTreeMap<String, BTreeSet<String>>,
    /// What came from cases and by standard input.
    pile: FactSet,
    /// Files, which are read one origin after the other.
    files: Vec<PathBuf>,
    wrong: Vec<String>,
    remarks: Vec<String>,
}

impl Joined {
    /// Takes a case, a segment, a directory of these, or lines on standard input.
    fn take(&mut self, path: &Path, named: bool) -> anyhow::Result<()> {
        if path == Path::new("-") {
            anyhow::ensure!(self.signers.is_none(), "what comes by standard input is not signed: --trust takes files");
            self.read(LineReader::new("standard input").read(&mut std::io::stdin().lock())?);
            return Ok(());
        }
        let failed = |e: std::io::Error| anyhow::anyhow!("{}: cannot read: {e}", path.display());
        if path.is_dir() {
            let (found, refused) = list_segments(path).map_err(failed)?;
            for (path, e) in refused {
                self.wrong.push(format!("{}: cannot list: {e}", shown(&path)));
            }
            if found.is_empty() {
                self.wrong.push(format!("{}: holds no segment of evidence (*.jsonl)", shown(path)));
            }
            return found.iter().try_for_each(|p| self.take(p, false));
        }
        let mut head = [0u8; 16];
        let read = std::fs::File::open(path).and_then(|mut f| f.read(&mut head));
        match read {
            // Whoever fetches or tidies took it away in between.
            Err(e) if !named => {
                self.wrong.push(format!("{}: cannot read: {e}", shown(path)));
                return Ok(());
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                anyhow::bail!("{}: no such case file, and no evidence", path.display())
            }
            Err(e) => return Err(failed(e)),
            Ok(_) => {}
        }
        if let Some(signers) = &self.signers {
            let known = |origin: &str| self.names.get(origin).cloned().unwrap_or_default();
            match signers.read(path, known) {
                Ok(reader) => {
                    self.names.extend(host_names(&reader.facts));
                    self.read(reader);
                }
                Err(why) => self.wrong.push(why),
            }
            return Ok(());
        }
        if head == *b"SQLite format 3\0" {
            let mut facts = Case::open(path, Mode::Read)?.pile()?;
            let oversize = facts.oversize();
            facts.remove(&oversize);
            self.wrong.extend(oversize.iter().map(|o| format!("{}: {o}", shown(path))));
            self.pile.join(facts);
            return Ok(());
        }
        self.files.push(path.to_owned());
        Ok(())
    }

    fn read(&mut self, reader: LineReader) {
        self.pile.join(reader.facts);
        self.wrong.extend(reader.wrong);
        self.remarks.extend(reader.remarks);
    }
}

/// Takes evidence as it arrives.
fn follow(a: Args, path: &Path, arguments: &[OsString]) -> anyhow::Result<Exit> {
    if a.alerts.alert_test {
        return a.alerts.test();
    }
    let _lock = Lock::take(path)?;
    let mut case = Case::open(path, Mode::Create)?;
    if !case.evidence_is_weighed()? {
        for removed in case.remove_oversize()? {
            complain(&format!("{}: removed: {removed}", path.display()));
        }
    }
    for list in &a.common.join.clocks.hosts {
        let content = super::report::list(list)?;
        case.save_hosts(list, &content)?;
    }
    let own = SiteFacts::of_case(&case)?.join(a.common.join.setup());
    own.keep(&case)?;
    let options = |origins: &[OriginSettings]| {
        let (claimed, unused) = accepted(origins);
        let options = a.common.join.options(&claimed.join(own.clone()), arguments);
        options.map(|o| (o, unused)).map_err(|e| format!("{e:#}"))
    };
    options(&[]).map_err(anyhow::Error::msg)?;
    let signers = a.signers()?;
    let alerting = a.alerts.alerting(Severity::Critical)?;
    let alerting_any = alerting.alerts.is_any();
    let mut metrics = Metrics::begin(&alerting, &case)?;
    let limits = Limits { age: a.keep, size: a.case_max };
    give_up_calls(alerting.no_seccomp, alerting.alerts.exec.is_some() || signers.is_some());
    let mut central = Central::new(case, a.follow.clone(), (alerting.alerts, alerting.on), limits).trusting(signers);
    if !a.once {
        central.gather()?;
    }
    let stop = stop_flag()?;
    let stopped = || stop.load(Ordering::Relaxed);
    let mut said = BTreeSet::new();
    loop {
        let begun = Instant::now();
        let pass = central.pass(now(), &stopped, &options)?;
        let wrong: BTreeSet<String> = pass.wrong.iter().cloned().collect();
        wrong.difference(&said).for_each(|w| complain(w));
        if !a.common.output.quiet {
            let mut out = std::io::stdout().lock();
            for told in &pass.fresh {
                writeln!(out, "{}", told.document)?;
            }
            out.flush()?;
        }
        metrics.after(
            central.case(),
            DeliveryResult { well: !pass.trouble && pass.wrong.is_empty(), lag: 0, problems: pass.wrong.len() },
        )?;
        if a.once {
            let report = pass.analysis.as_ref().map(|a| &a.report);
            let flagged = report.is_some_and(|r| pass.fresh.iter().any(|t| is_flagged(t, r, a.common.status.fail_on)));
            let waiting = alerting_any && central.case().undelivered()? > 0;
            return Ok(Exit::of(flagged || waiting, pass.trouble, false, false, false));
        }
        said = wrong;
        let rest = Duration::from_secs_f64(a.interval).max(begun.elapsed().saturating_mul(4));
        let until = Instant::now() + rest;
        while Instant::now() < until && !stopped() {
            std::thread::sleep(Duration::from_millis(100).min(until.saturating_duration_since(Instant::now())));
        }
        if stopped() {
            return Ok(Exit::Clean);
        }
    }
}
