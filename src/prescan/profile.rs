//! An nmap command line: what it sends, to which ports, in which order.
//!
//! nmap first finds open ports, then, with `-sV`, connects to each: it stays silent (the NULL probe), sends the probes whose
//! `ports` name the port, whatever their rarity, then those whose rarity is no higher than the intensity, both in the order of
//! the file, each on a connection of its own (the first on that of the NULL probe).

use std::path::{Path, PathBuf};

use super::ports::Ports;
use super::probes::{Probe, ProbeFile};
use super::services::most_common;

/// nmap's default intensity.
const DEFAULT_INTENSITY: u8 = 7;
/// Ports that nmap scans when none are named, and with `-F`.
const DEFAULT_PORTS: usize = 1000;
const FAST_PORTS: usize = 100;

/// Why a command line says nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProfileError {
    /// A quote that does not end.
    #[error("--profile: a quote does not end")]
    Quote,
    /// An option whose value is missing or of another kind.
    #[error("--profile: {option}: {required} was required, {there:?} was there")]
    Value {
        /// The option.
        option: String,
        /// What nmap wants.
        required: &'static str,
        /// What was there.
        there: String,
    },
    /// Another program.
    #[error(
        "--profile: an nmap command line was required, {0:?} was there (--behaviour has presets for other scanners)"
    )]
    Program(String),
}

/// How open ports are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// No handshake is finished: `-sS` and its kin.
    HalfOpen,
    /// Connect and close: `-sT`.
    Connect,
    /// No TCP port is touched: `-sL`, `-sn`, `-sU`.
    Nothing,
}

/// What is scanned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// These ports.
    Ports(Ports),
    /// So many of the most common ones.
    Common(usize),
}

/// A scan by nmap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// How open ports are found.
    pub scan: Scan,
    /// Whether versions are detected.
    pub version: bool,
    /// Up to which rarity probes are sent.
    pub intensity: u8,
    /// The ports.
    pub chosen: Chosen,
    /// Ports that are left out (`--exclude-ports`).
    pub excluded: Ports,
    /// Whether the file's `Exclude` is ignored (`--allports`).
    pub all_ports: bool,
    /// Another file of probes.
    pub probes: Option<PathBuf>,
    /// What sends bytes that no model was asked about.
    pub untested: Vec<String>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// Options that take a value in the next word.
const WITH_VALUE: &[&str] = &[
    "-iL",
    "-iR",
    "-e",
    "-g",
    "-S",
    "-D",
    "-oN",
    "-oX",
    "-oS",
    "-oG",
    "-oA",
    "-oM",
    "-oH",
    "-m",
    "-i",
    "-sI",
    "-b",
    "-T",
    "-d",
    "--exclude",
    "--excludefile",
    "--source-port",
    "--proxy",
    "--proxies",
    "--data",
    "--data-string",
    "--data-length",
    "--ttl",
    "--ip-options",
    "--spoof-mac",
    "--stylesheet",
    "--datadir",
    "--servicedb",
    "--script-args",
    "--script-args-file",
    "--script-timeout",
    "--script-help",
    "--min-rate",
    "--max-rate",
    "--host-timeout",
    "--scan-delay",
    "--max-scan-delay",
    "--max-retries",
    "--dns-servers",
    "--scanflags",
    "--mtu",
    "--resume",
    "--max-os-tries",
    "--stats-every",
    "--min-parallelism",
    "--max-parallelism",
    "--min-hostgroup",
    "--max-hostgroup",
    "--min-rtt-timeout",
    "--max-rtt-timeout",
    "--initial-rtt-timeout",
    "--port-ratio",
    "--discovery-ignore-rst",
];

/// Words of a command line, quotes as a shell has them.
fn words(line: &str) -> Result<Vec<String>, ProfileError> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', q) if q != Some('\'') => word.get_or_insert_default().extend(chars.next()),
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => all.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(ProfileError::Quote);
    }
    all.extend(word);
    Ok(all)
}

impl Profile {
    /// Reads a command line.
    ///
    /// # Errors
    /// When it is not nmap's, or an option that counts has no value that nmap takes.
    pub fn parse(line: &str) -> Result<Profile, ProfileError> {
        let words = words(line)?;
        let mut p = Profile {
            scan: Scan::Connect,
            version: false,
            intensity: DEFAULT_INTENSITY,
            chosen: Chosen::Common(DEFAULT_PORTS),
            excluded: Ports::default(),
            all_ports: false,
            probes: None,
            untested: Vec::new(),
            notes: Vec::new(),
        };
        let mut scans: Vec<Scan> = Vec::new();
        let mut at = words.iter().skip_while(|w| ["sudo", "doas"].contains(&w.as_str())).peekable();
        match at.peek() {
            Some(w) if Path::new(w).file_name().is_some_and(|n| n == "nmap") => {
                at.next();
            }
            Some(w) if !w.starts_with('-') => return Err(ProfileError::Program(w.chars().take(60).collect())),
            _ => {}
        }
        while let Some(word) = at.next() {
            let (option, joined) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option.replace('_', "-"), Some(value.to_owned())),
                _ => (if word.starts_with("--") { word.replace('_', "-") } else { word.clone() }, None),
            };
            let mut value = |required: &'static str| {
                joined.clone().or_else(|| at.next().cloned()).ok_or_else(|| ProfileError::Value {
                    option: option.clone(),
                    required,
                    there: String::new(),
                })
            };
            match option.as_str() {
                "-sV" => p.version = true,
                "-A" => {
                    p.version = true;
                    p.script("-A (default scripts)");
                }
                "-sC" => p.script("-sC (default scripts)"),
                "--script" => {
                    let which = value("scripts")?;
                    p.script(&format!("--script {which}"));
                }
                "-sR" => p.version = true,
                "--version-light" => p.intensity = 2,
                "--version-all" => p.intensity = 9,
                "--version-intensity" => {
                    let text = value("an intensity from 0 to 9")?;
                    p.intensity = number(&option, &text, "an intensity from 0 to 9").and_then(|n: u8| {
                        if n <= 9 { Ok(n) } else { Err(wrong(&option, &text, "an intensity from 0 to 9")) }
                    })?;
                }
                "--versiondb" => p.probes = Some(value("a file of probes")?.into()),
                "--allports" => p.all_ports = true,
                "-p" => {
                    let text = value("ports")?;
                    p.ports(&option, &text)?;
                }
                "-F" => p.chosen = Chosen::Common(FAST_PORTS),
                "--top-ports" => {
                    let text = value("a number of ports")?;
                    p.chosen = Chosen::Common(number(&option, &text, "a number of ports")?);
                }
                "--exclude-ports" => {
                    let text = value("ports")?;
                    p.excluded = Ports::parse(&text).map_err(|_| wrong(&option, &text, "ports"))?;
                }
                "-sL" | "-sn" | "-sP" => scans.push(Scan::Nothing),
                "--unprivileged" => p.notes.push("--unprivileged: nmap falls back to -sT".to_owned()),
                other if other.starts_with("-p") && !other.starts_with("--") => {
                    p.ports("-p", other.get(2..).unwrap_or_default())?;
                }
                other if other.starts_with("-s") && other.len() > 2 && !other.starts_with("--") => {
                    for letter in other.chars().skip(2) {
                        match letter {
                            'V' | 'R' => p.version = true,
                            'C' => p.script("-sC (default scripts)"),
                            'T' => scans.push(Scan::Connect),
                            'S' | 'A' | 'W' | 'M' | 'N' | 'F' | 'X' | 'I' => scans.push(Scan::HalfOpen),
                            'U' | 'O' | 'Y' | 'Z' => scans.push(Scan::Nothing),
                            _ => p.notes.push(format!("{other} is no scan that is known here")),
                        }
                    }
                    if other == "-sI" {
                        at.next();
                    }
                }
                other if WITH_VALUE.contains(&other) => {
                    // -T4 and -d2 stand in one word; -T 4 in two.
                    if !matches!(other, "-d") {
                        value("a value")?;
                    }
                    if other == "-iL" || other == "--datadir" {
                        p.notes.push(format!("{other}: the file was not read"));
                    }
                }
                _ => {}
            }
        }
        p.scan = if scans.contains(&Scan::Connect) {
            Scan::Connect
        } else if scans.contains(&Scan::HalfOpen) {
            Scan::HalfOpen
        } else if scans.is_empty() {
            p.notes.push(
                "no -s option names the scan: run as root nmap does -sS, else -sT; the worse, -sT, was taken"
                    .to_owned(),
            );
            Scan::Connect
        } else {
            Scan::Nothing
        };
        if words.iter().any(|w| w == "--unprivileged") && p.scan == Scan::HalfOpen {
            p.scan = Scan::Connect;
        }
        Ok(p)
    }

    fn script(&mut self, which: &str) {
        let which = crate::escape::clean(which.as_bytes(), 60);
        self.untested.push(format!("nmap {which}"));
    }

    fn ports(&mut self, option: &str, text: &str) -> Result<(), ProfileError> {
        self.chosen = match Ports::parse(text) {
            Ok(ports) => Chosen::Ports(ports),
            // Names of services: which ports they are is nmap's affair; every port is the worst.
            Err(part) if part.chars().any(|c| c.is_ascii_alphabetic() || c == '*') => {
                let part = crate::escape::clean(part.as_bytes(), 40);
                self.notes.push(format!("-p {part}: names of services are not looked up; every port was taken"));
                Chosen::Ports(Ports::all())
            }
            Err(part) => return Err(wrong(option, &part, "ports")),
        };
        Ok(())
    }

    /// The ports it scans. `file` says where nmap's list of services may stand.
    pub fn scanned(&self, file: &Path) -> (Ports, Option<String>) {
        match &self.chosen {
            Chosen::Ports(ports) => (ports.clone(), None),
            Chosen::Common(count) => match most_common(file, *count) {
                Some(ports) => (ports, None),
                None => (
                    Ports::all(),
                    Some(format!("nmap's list of the {count} most common ports was not found; every port was taken")),
                ),
            },
        }
    }

    /// What is sent to `port` when it is open, in order, after the silence of the NULL probe.
    pub fn sequence<'a>(&self, file: &'a ProbeFile, port: u16) -> Vec<&'a Probe> {
        if !self.version || (!self.all_ports && file.excluded.contains(port)) {
            return Vec::new();
        }
        let hinted = file.probes.iter().filter(|p| p.ports.contains(port));
        let others = file.probes.iter().filter(|p| !p.ports.contains(port) && p.rarity <= self.intensity);
        hinted.chain(others).collect()
    }
}

fn wrong(option: &str, there: &str, required: &'static str) -> ProfileError {
    ProfileError::Value { option: option.to_owned(), required, there: there.chars().take(60).collect() }
}

fn number<T: std::str::FromStr>(option: &str, text: &str, required: &'static str) -> Result<T, ProfileError> {
    text.trim().parse().map_err(|_| wrong(option, text, required))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Profile {
        Profile::parse(line).unwrap()
    }

    #[test]
    fn what_the_incident_ran() {
        let p = parse("nmap -sS -sV -Pn -n -p 22,80,29500 192.0.2.0/24");
        assert_eq!((p.scan, p.version, p.intensity), (Scan::HalfOpen, true, 7));
        assert_eq!(p.chosen, Chosen::Ports(Ports::of(&[22, 80, 29500])));
        assert!(p.notes.is_empty() && p.untested.is_empty());
    }

    #[test]
    fn options_in_all_their_spellings() {
        assert_eq!(parse("sudo /usr/bin/nmap -sSV --version-light -p- x").intensity, 2);
        assert_eq!(parse("-sV --version_intensity=5 -p29500").chosen, Chosen::Ports(Ports::of(&[29500])));
        assert_eq!(parse("nmap -sV --version-all").intensity, 9);
        assert_eq!(parse("nmap -F x").chosen, Chosen::Common(100));
        assert_eq!(parse("nmap -oX out.xml --exclude-ports 29500,29400 -T4 -sT x").excluded.text(), "29400,29500");
        assert_eq!(parse("nmap --versiondb 'my probes' -sV x").probes, Some("my probes".into()));
        assert_eq!(parse("nmap -A x").untested, ["nmap -A (default scripts)"]);
        assert_eq!(parse("nmap -sC --script 'default and safe' x").untested.len(), 2);
        assert_eq!(parse("nmap -sn x").scan, Scan::Nothing);
        let p = parse("nmap x");
        assert_eq!((p.scan, p.version, p.notes.len()), (Scan::Connect, false, 1));
        for bad in ["nmap 'x", "nmap --version-intensity 12 -sV", "nmap -p", "masscan -p80 x", "nmap -p 9-3"] {
            assert!(Profile::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hinted_probes_come_first_and_whatever_their_rarity() {
        let text = "Probe TCP A q|a|\nrarity 1\nProbe TCP B q|b|\nrarity 9\nports 29500\nProbe TCP C q|c|\nrarity 6\nProbe TCP D q|d|\nrarity 7\n";
        let file = ProbeFile::parse(Path::new("p"), format!("Exclude T:9100\n{text}").into_bytes()).unwrap();
        let names =
            |line: &str, port| parse(line).sequence(&file, port).iter().map(|p| p.name.clone()).collect::<String>();
        assert_eq!(names("nmap -sV --version-intensity 6", 29500), "BAC");
        assert_eq!(names("nmap -sV", 29501), "ACD");
        assert_eq!((names("nmap -sV", 9100), names("nmap -sV --allports", 9100)), (String::new(), "ACD".to_owned()));
        assert_eq!(names("nmap -sS", 29500), "");
    }
}
