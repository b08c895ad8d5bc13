//! `prescan --policy`, `--policy-dir` and `--check`: what products are told, and whether it still holds.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::exit::Exit;
use super::output::{Sink, complain, shown};
use crate::net::{Address, Network};
use crate::policy::{Coverage, PolicyError, Product, Scope, nets};
use crate::prescan::{Fleet, ProbeFile};

/// A policy has at most this many bytes when it is read again.
const MAX_POLICY: u64 = 16 << 20;

/// What is tried: a policy is about the fleet, whatever is scanned.
const TRIAL: [&str; 7] = ["probes", "command", "profile", "payload", "capture", "behaviour", "write_probes"];

/// Flags of `prescan` about policies.
#[derive(clap::Args, Debug)]
pub(super) struct PolicyArgs {
    /// Write a policy that leaves the fleet alone, instead of asking: for nmap, nmap-hosts, nmap-detection, masscan,
    /// naabu, nessus, tenable, tenable-ports, qualys, qualys-ports, openvas, openvas-hosts, nftables, kubernetes,
    /// suricata, zeek
    #[arg(long, value_name = "PRODUCT", value_parser = product, conflicts_with_all = TRIAL)]
    pub(super) policy: Option<Product>,
    /// Write all of them into a new directory
    #[arg(long, value_name = "DIR", conflicts_with = "policy", conflicts_with_all = TRIAL)]
    pub(super) policy_dir: Option<PathBuf>,
    /// Whether this policy, or directory of policies, still covers the fleet: 0 yes, 1 it has outgrown it
    #[arg(long, value_name = "OLD", conflicts_with = "policy_dir", conflicts_with_all = TRIAL)]
    pub(super) check: Option<PathBuf>,
    /// Networks of training hosts (may repeat; lists allowed)
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(super) net: Vec<Network>,
}

fn product(name: &str) -> Result<Product, String> {
    Product::parse(name).ok_or_else(|| {
        let all: Vec<&str> = Product::ALL.iter().map(|p| p.name()).collect();
        format!("one of {} was required", all.join(", "))
    })
}

impl PolicyArgs {
    /// Whether one of them asks for something else than a trial.
    pub(super) fn wanted(&self) -> bool {
        self.policy.is_some() || self.policy_dir.is_some() || self.check.is_some()
    }

    /// What is to be left alone.
    pub(super) fn scope(
        &self,
        fleet: &Fleet,
        inventory: Option<&Value>,
        scanner: Option<Address>,
        fixed: &[u16],
        source: String,
    ) -> Scope {
        let scanners: Vec<Network> = scanner.map(Network::of).into_iter().collect();
        let mut scope = Scope::new(fleet, inventory.map(|d| (d, fixed)), &self.net, &scanners);
        scope.date = chrono::Utc::now().format("%Y-%m-%d").to_string();
        scope.source = source;
        let file = ProbeFile::installed().and_then(|p| ProbeFile::read(&p).ok());
        scope.excluded_by_nmap = file.map(|f| f.excluded).unwrap_or_default();
        scope
    }

    /// Does it.
    pub(super) fn run(&self, scope: &Scope, output: Option<&Path>, quiet: bool) -> anyhow::Result<Exit> {
        if scope.on_loopback > 0 {
            complain(&format!(
                "listeners of the inventory on loopback, where no scan reaches them, are left out: {}",
                scope.on_loopback
            ));
        }
        if let Some(old) = &self.check {
            return check(old, self.policy, scope, quiet);
        }
        if let Some(directory) = &self.policy_dir {
            let directory = Staged::new(directory)?;
            for (product, why) in write_all(&directory.path, scope)? {
                complain(&format!("no policy for {}: {why}", product.name()));
            }
            directory.keep()?;
        } else if let Some(product) = self.policy {
            let text = product.write(scope)?;
            match output {
                Some(path) => {
                    let (mut file, _) = Sink::new(Some(path), Default::default())?;
                    let written = file.write_all(text.as_bytes()).and_then(|()| file.finish());
                    written.with_context(|| format!("{}: cannot write", shown(path)))?;
                }
                None => io::stdout().lock().write_all(text.as_bytes())?,
            }
        }
        let covers_hosts = self.policy.is_none_or(Product::excludes_hosts);
        let nowhere: Vec<&str> = scope.nowhere().into_iter().map(|l| l.role.as_str()).collect();
        if nowhere.is_empty() || !covers_hosts {
            return Ok(Exit::Clean);
        }
        complain(&format!(
            "not covered: {}. The kernel chooses their ports, so their hosts have to be excluded: name them with --inventory or --net",
            nowhere.join(", ")
        ));
        Ok(Exit::Flagged)
    }
}

/// Writes every policy that there is something to tell; gives those that there is not, and why.
pub(super) fn write_all(directory: &Path, scope: &Scope) -> anyhow::Result<Vec<(Product, PolicyError)>> {
    let mut without = Vec::new();
    for product in Product::ALL {
        match product.write(scope) {
            Ok(text) => {
                let path = directory.join(product.file());
                std::fs::write(&path, text).with_context(|| format!("{}: cannot write", shown(&path)))?;
            }
            Err(PolicyError::Nothing) => return Err(PolicyError::Nothing.into()),
            Err(why) => without.push((product, why)),
        }
    }
    Ok(without)
}

/// A directory that is there whole, or not at all: filled beside its place, then renamed.
pub(super) struct Staged {
    /// Where to write.
    pub(super) path: PathBuf,
    place: PathBuf,
    kept: bool,
}

impl Staged {
    /// Begins one. A place where something is already is refused.
    pub(super) fn new(place: &Path) -> anyhow::Result<Staged> {
        match std::fs::read_dir(place) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    bail!("{}: a new or empty directory was required, this one is not empty", shown(place));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                return Err(e).with_context(|| format!("{}: a new or empty directory was required", shown(place)));
            }
        }
        let name = place.file_name().with_context(|| format!("{}: a directory's name was required", shown(place)))?;
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(format!(".{}.partial", std::process::id()));
        let path = place.with_file_name(partial);
        std::fs::create_dir(&path).with_context(|| format!("{}: cannot create", shown(&path)))?;
        Ok(Staged { path, place: place.to_owned(), kept: false })
    }

    /// Puts it into its place.
    pub(super) fn keep(mut self) -> anyhow::Result<()> {
        std::fs::rename(&self.path, &self.place).with_context(|| format!("{}: cannot create", shown(&self.place)))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Writes a new file whole.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut f| f.write_all(bytes)).with_context(|| format!("{}: cannot write", shown(path)))
}

/// The policies at a path, with the product that a file of a directory is for.
fn old_ones(path: &Path) -> anyhow::Result<Vec<(PathBuf, Option<Product>)>> {
    if !path.is_dir() {
        return Ok(vec![(path.to_owned(), None)]);
    }
    let inner = path.join("policies");
    let base = if inner.is_dir() { inner } else { path.to_owned() };
    let there = Product::ALL.into_iter().map(|p| (base.join(p.file()), Some(p))).filter(|(f, _)| f.is_file());
    let all: Vec<_> = there.collect();
    if all.is_empty() {
        bail!("{}: none of the policies that --policy-dir writes is there", shown(path));
    }
    Ok(all)
}

fn check(path: &Path, product: Option<Product>, scope: &Scope, quiet: bool) -> anyhow::Result<Exit> {
    use std::io::Read as _;
    let mut outgrown = false;
    let mut trouble = false;
    let mut out = io::stdout().lock();
    for (file, known) in old_ones(path)? {
        let mut text = String::new();
        let read = std::fs::File::open(&file).and_then(|f| f.take(MAX_POLICY).read_to_string(&mut text));
        read.with_context(|| format!("{}: cannot read", shown(&file)))?;
        let coverage = match Coverage::read(&text, product.or(known)) {
            Ok(coverage) => coverage,
            Err(why) => {
                complain(&format!("{}: {why}", shown(&file)));
                trouble = true;
                continue;
            }
        };
        let lacks = coverage.lacks(scope);
        outgrown |= !lacks.is_empty();
        if quiet {
            continue;
        }
        let name = coverage.product.map_or("policy", Product::name);
        let date = coverage.date.as_deref().filter(|d| !d.is_empty()).map_or(String::new(), |d| format!(" of {d}"));
        let holds = match (lacks.is_empty(), coverage.is_about(scope)) {
            (true, true) => "still covers the fleet",
            (true, false) => "has nothing to say about this fleet",
            (false, _) => "does not cover:",
        };
        writeln!(out, "{} ({name}{date}): {holds}", shown(&file))?;
        for what in &lacks {
            writeln!(out, "  {what}")?;
        }
        let stale = nets::some(&stale(&coverage, scope));
        if lacks.is_empty() && !stale.is_empty() {
            writeln!(out, "  it leaves {stale} alone, where nothing of the fleet was seen")?;
        }
    }
    if scope.listeners.is_empty() {
        bail!("no listener of a fleet to hold it against (--inventory, --pytorch, --nccl)");
    }
    Ok(Exit::of(outgrown, trouble, false, trouble, false))
}

/// Hosts that are left alone, and of which none belongs to the fleet: a gap in the scan that nobody needs any more.
fn stale(coverage: &Coverage, scope: &Scope) -> Vec<Network> {
    let needed = |n: &Network| nets::touches(&scope.hosts, n) || nets::touches(&scope.members, n);
    coverage.hosts.iter().filter(|n| !needed(n)).copied().collect()
}
