//! nmap's file of service probes, as its owner installed it. It is read where it is, and never shipped.
//!
//! Its format: <https://nmap.org/book/vscan-fileformat.html>. Of a probe, what decides whether and when it is sent is kept;
//! patterns of answers are passed over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::ports::Ports;

/// Where distributions put it.
pub(super) const PLACES: &[&str] = &[
    "/usr/share/nmap/nmap-service-probes",
    "/usr/local/share/nmap/nmap-service-probes",
    "/opt/homebrew/share/nmap/nmap-service-probes",
];
/// More than any such file has.
const MAX_FILE: u64 = 64 << 20;
/// nmap's rarity of a probe that names none.
const DEFAULT_RARITY: u8 = 5;
/// Milliseconds that nmap waits for an answer when a probe says nothing else.
const DEFAULT_WAIT: u32 = 5000;

/// Why a file of probes is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The system refused.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A line that nmap would refuse too.
    #[error("{path}: line {line}: {required} was required, {there:?} was there")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What nmap wants there.
        required: &'static str,
        /// The line's beginning.
        there: String,
    },
    /// It holds no TCP probe.
    #[error("{path}: a file of nmap service probes was required (lines that begin with \"Probe TCP\"); it holds none")]
    None {
        /// The file.
        path: PathBuf,
    },
}

/// One TCP probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// What it sends; nothing for the NULL probe.
    pub payload: Vec<u8>,
    /// How seldom it is of use, 1 to 9: sent when no higher than the intensity.
    pub rarity: u8,
    /// Ports on which it is sent whatever its rarity.
    pub ports: Ports,
    /// The same, inside TLS.
    pub sslports: Ports,
    /// How long nmap waits for an answer, in milliseconds.
    pub wait_ms: u32,
    lines: (usize, usize),
}

/// A file of probes.
#[derive(Clone, Debug, Default)]
pub struct ProbeFile {
    /// Where it was read.
    pub path: PathBuf,
    /// The probes that send something over TCP, in their order.
    pub probes: Vec<Probe>,
    /// How long nmap stays silent first, in milliseconds; `None` when there is no NULL probe.
    pub null_wait_ms: Option<u32>,
    /// Ports that its version detection leaves alone.
    pub excluded: Ports,
    text: Vec<u8>,
}

impl ProbeFile {
    /// The installed one.
    pub fn installed() -> Option<PathBuf> {
        let data = std::env::var_os("NMAPDIR").map(|d| Path::new(&d).join("nmap-service-probes"));
        data.into_iter().chain(PLACES.iter().map(PathBuf::from)).find(|p| p.is_file())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no such file, or has a line that nmap refuses.
    pub fn read(path: &Path) -> Result<ProbeFile, ProbeError> {
        use std::io::Read as _;
        let failed = |error| ProbeError::Io { path: path.to_path_buf(), error };
        let mut text = Vec::new();
        std::fs::File::open(path).map_err(failed)?.take(MAX_FILE).read_to_end(&mut text).map_err(failed)?;
        ProbeFile::parse(path, text)
    }

    /// The same from the file's bytes.
    ///
    /// # Errors
    /// As [`ProbeFile::read`].
    pub fn parse(path: &Path, text: Vec<u8>) -> Result<ProbeFile, ProbeError> {
        let mut file = ProbeFile { path: path.to_path_buf(), ..ProbeFile::default() };
        let mut current: Option<Probe> = None;
        let mut total = 0;
        for (at, raw) in text.split(|b| *b == b'\n').enumerate() {
            total = at + 1;
            let shown = || String::from_utf8_lossy(raw.get(..80).unwrap_or(raw)).into_owned();
            let bad = |required| ProbeError::Line { path: path.to_path_buf(), line: at + 1, required, there: shown() };
            let line = raw.trim_ascii_end();
            let (word, rest) = match line.iter().position(|b| *b == b' ') {
                Some(i) => line.split_at(i),
                None => (line, &[][..]),
            };
            let rest = rest.trim_ascii_start();
            let words = || std::str::from_utf8(rest).unwrap_or_default();
            let ports = || Ports::parse(words()).map_err(|_| bad("a list of ports"));
            match (word, &mut current) {
                (b"Probe", _) => {
                    file.keep(current.take(), at);
                    current = probe(rest, at).ok_or_else(|| bad("Probe TCP|UDP name q|bytes|"))?;
                }
                (b"Exclude", _) => file.excluded = ports()?,
                (b"rarity", Some(p)) => {
                    let rarity = words().parse().ok().filter(|r| (1..=9).contains(r));
                    p.rarity = rarity.ok_or_else(|| bad("a rarity from 1 to 9"))?;
                }
                (b"ports", Some(p)) => p.ports = ports()?,
                (b"sslports", Some(p)) => p.sslports = ports()?,
                (b"totalwaitms", Some(p)) => {
                    p.wait_ms = words().parse().map_err(|_| bad("a number of milliseconds"))?;
                }
                _ => {}
            }
        }
        file.keep(current, total);
        file.text = text;
        if file.probes.is_empty() {
            return Err(ProbeError::None { path: file.path });
        }
        Ok(file)
    }

    fn keep(&mut self, probe: Option<Probe>, end: usize) {
        let Some(mut probe) = probe else { return };
        probe.lines.1 = end;
        if probe.payload.is_empty() {
            self.null_wait_ms.get_or_insert(probe.wait_ms);
        } else {
            self.probes.push(probe);
        }
    }

    /// The file without some of its probes, for `nmap --versiondb`. Fallbacks to them go too: nmap refuses unknown ones.
    pub fn without(&self, names: &BTreeSet<&str>) -> Vec<u8> {
        let gone = |at: usize| {
            self.probes.iter().any(|p| (p.lines.0..p.lines.1).contains(&at) && names.contains(p.name.as_str()))
        };
        let mut out = Vec::with_capacity(self.text.len());
        for (at, line) in self.text.split_inclusive(|b| *b == b'\n').enumerate() {
            if gone(at) {
                continue;
            }
            match line.strip_prefix(b"fallback ").map(String::from_utf8_lossy) {
                Some(list) => {
                    let left: Vec<&str> = list.trim().split(',').filter(|n| !names.contains(n.trim())).collect();
                    if !left.is_empty() {
                        out.extend_from_slice(format!("fallback {}\n", left.join(",")).as_bytes());
                    }
                }
                None => out.extend_from_slice(line),
            }
        }
        out
    }
}

/// `TCP name q|bytes|`; inner `None` for a probe of another protocol.
#[allow(clippy::option_option)]
fn probe(rest: &[u8], at: usize) -> Option<Option<Probe>> {
    let mut words = rest.splitn(3, |b| *b == b' ');
    let (protocol, name, body) = (words.next()?, words.next()?, words.next()?.trim_ascii_start());
    match protocol {
        b"UDP" => return Some(None),
        b"TCP" => {}
        _ => return None,
    }
    let (delimiter, body) = body.strip_prefix(b"q")?.split_first()?;
    let end = body.iter().position(|b| b == delimiter)?;
    Some(Some(Probe {
        name: String::from_utf8_lossy(name).into_owned(),
        payload: unescape(body.get(..end)?)?,
        rarity: DEFAULT_RARITY,
        ports: Ports::default(),
        sslports: Ports::default(),
        wait_ms: DEFAULT_WAIT,
        lines: (at, at),
    }))
}

/// C-like escapes. `None` where nmap refuses: a letter or digit that escapes nothing.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'0' => 0,
            b'a' => 7,
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'v' => 11,
            b'f' => 12,
            b'r' => 13,
            b'x' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other if other.is_ascii_alphanumeric() => return None,
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# c\nExclude T:9100-9107\nProbe TCP NULL q||\ntotalwaitms 6000\nmatch x m|^a| p/b/\n\
Probe TCP One q|\\r\\n\\x00\\0\\\\|\nrarity 1\nports 21,80-85\nsslports 443\nfallback Two\n\
Probe UDP One q|zz|\nrarity 9\nports 1\nProbe TCP Two q=a|b=\nmatch y m|^|\ntotalwaitms 7500\nfallback One,Two\n";

    fn parse(text: &str) -> Result<ProbeFile, ProbeError> {
        ProbeFile::parse(Path::new("p"), text.as_bytes().to_vec())
    }

    #[test]
    fn probes_escapes_hints_and_defaults() {
        let f = parse(FILE).unwrap();
        assert_eq!(f.null_wait_ms, Some(6000));
        assert!(f.excluded.contains(9107));
        let (one, two) = (&f.probes[0], &f.probes[1]);
        assert_eq!((one.name.as_str(), &one.payload[..], one.rarity), ("One", &b"\r\n\0\0\\"[..], 1));
        // What follows a UDP probe is not the TCP probe's before it.
        assert!(one.ports.contains(83) && !one.ports.contains(1) && one.sslports.contains(443));
        assert_eq!((two.name.as_str(), &two.payload[..], two.rarity, two.wait_ms), ("Two", &b"a|b"[..], 5, 7500));
    }

    #[test]
    fn probes_taken_out_leave_no_fallback_behind() {
        let f = parse(FILE).unwrap();
        let text = String::from_utf8(f.without(&["Two"].into())).unwrap();
        assert!(text.contains("Probe TCP One") && !text.contains("Two") && text.contains("Probe UDP One"));
        let again = parse(&text).unwrap();
        assert_eq!((again.probes.len(), again.null_wait_ms), (1, Some(6000)));
        assert_eq!(f.without(&BTreeSet::new()), FILE.as_bytes());
    }

    #[test]
    fn what_nmap_refuses_is_refused() {
        for bad in ["Probe TCP a q|\\q|\n", "Probe XXX a q|a|\n", "Probe TCP a q|a\n", "Probe TCP a q|a|\nrarity 12\n"]
        {
            assert!(matches!(parse(bad), Err(ProbeError::Line { line: 1 | 2, .. })), "{bad}");
        }
        assert!(matches!(parse("nothing\n"), Err(ProbeError::None { .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut text in proptest::collection::vec(proptest::num::u8::ANY, 0..300), head in proptest::bool::ANY) {
            if head {
                text.splice(0..0, *b"Probe TCP x q|");
            }
            let _ = ProbeFile::parse(Path::new("p"), text);
        }
    }
}
