//! Scanners without a file of probes: what they do to a connection, and what is not known of them.

use super::fleet::{Fleet, Place};
use super::matrix::{Act, Case};

/// One way to treat a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Behaviour {
    /// A SYN; the handshake is never finished.
    Syn,
    /// Connect and close at once.
    ConnectClose,
    /// Connect, say nothing for so many seconds, close.
    ConnectHold(f64),
    /// Connect, wait for a banner, close.
    Banner,
}

/// How long scanners that grab banners wait for one, in seconds.
const BANNER: f64 = 5.0;

impl Behaviour {
    /// Reads `syn`, `connect-close`, `connect-hold:S` or `banner`.
    pub fn parse(text: &str) -> Option<Behaviour> {
        match text {
            "syn" => Some(Behaviour::Syn),
            "connect-close" => Some(Behaviour::ConnectClose),
            "banner" => Some(Behaviour::Banner),
            _ => {
                let seconds = text.strip_prefix("connect-hold:")?.trim_end_matches('s').parse().ok()?;
                (0.0..=1e6).contains(&seconds).then_some(Behaviour::ConnectHold(seconds))
            }
        }
    }

    /// What is tried.
    pub fn case(self) -> Case {
        let (name, act) = match self {
            Behaviour::Syn => ("syn".to_owned(), Act::Syn),
            Behaviour::ConnectClose => ("connect-close".to_owned(), Act::Close),
            Behaviour::ConnectHold(s) => (format!("connect-hold:{s}"), Act::Hold(s)),
            Behaviour::Banner => ("banner".to_owned(), Act::Hold(BANNER)),
        };
        Case { name, act }
    }
}

/// A scanner: its name, what it does, and what of it was never tried.
type Preset = (&'static str, &'static [Behaviour], Option<&'static str>);

use Behaviour::{Banner, ConnectClose, ConnectHold, Syn};

/// masscan 1.3.2 with --banners, recorded at a decoy on 23 000 ports up to 32767: it sends the hello of a protocol on ports that
/// suggest one (23, 80, 139, 443, 445, 465, 990, 991, 995, 2083, 2087, 2096, 3389, 8140, 8443, 9050, 11211), nothing on others, and
/// none of these ports is above this one.
const SUGGESTIVE: u16 = 16_000;
/// How long it then waits for a banner, in seconds.
const MASSCAN: f64 = 30.0;

/// What these scanners are commonly known to do by default, not recorded from them; where that is open, the worse is taken.
const PRESETS: &[Preset] = &[
    ("masscan", &[Syn], None),
    (
        "masscan-banners",
        &[Syn, ConnectHold(MASSCAN)],
        Some("masscan --banners: its hello of the protocol that a port suggests"),
    ),
    ("naabu", &[Syn, ConnectClose], None),
    ("rustscan", &[ConnectClose], None),
    ("zmap", &[Syn], None),
    ("nessus", &[Syn, ConnectClose, Banner], Some("nessus: service detection and plugins")),
    ("tenable", &[Syn, ConnectClose, Banner], Some("tenable: service detection and plugins")),
    ("openvas", &[Syn, ConnectClose, Banner], Some("openvas: service detection and vulnerability tests")),
    ("qualys", &[Syn, ConnectClose, Banner], Some("qualys: service detection and vulnerability checks")),
    ("rapid7", &[Syn, ConnectClose, Banner], Some("rapid7: service fingerprinting and vulnerability checks")),
    ("nuclei", &[ConnectClose], Some("nuclei: the requests of its templates")),
    ("zgrab", &[Banner], Some("zgrab: the hello of the module in use")),
];

/// Names of the presets.
pub fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|p| p.0)
}

/// What a scanner does to a fleet, as cases; payloads that nobody tried among them.
pub fn preset(name: &str, fleet: &Fleet) -> Option<Vec<Case>> {
    let (_, behaviours, untested) = PRESETS.iter().find(|p| p.0 == name)?;
    let known = behaviours.iter().map(|b| b.case());
    let suggests = |p: &Place| matches!(p, Place::Ports(ports) if ports.iter().any(|p| *p <= SUGGESTIVE));
    let silent = *name == *"masscan-banners" && !fleet.targets.iter().any(|t| suggests(&t.place));
    let unknown = untested.filter(|_| !silent).map(|name| Case { name: name.to_owned(), act: Act::Untested });
    Some(known.chain(unknown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_and_presets() {
        assert_eq!(Behaviour::parse("connect-hold:2.5"), Some(Behaviour::ConnectHold(2.5)));
        assert_eq!(Behaviour::parse("banner"), Some(Behaviour::Banner));
        for bad in ["connect-hold", "connect-hold:-1", "connect-hold:x", "hold"] {
            assert_eq!(Behaviour::parse(bad), None);
        }
        let fleet = |port| {
            let mut fleet = Fleet::default();
            fleet.stores(&super::super::fleet::pytorch("2.15").unwrap(), None, &[port]).unwrap();
            fleet
        };
        let preset = |name| preset(name, &fleet(29_500));
        assert!(preset("masscan").unwrap().iter().all(|c| c.act != Act::Untested));
        assert!(preset("nessus").unwrap().iter().any(|c| c.act == Act::Untested));
        assert_eq!(preset("nope"), None);
        // On a store's usual port masscan waits in silence; on others it may speak.
        assert!(preset("masscan-banners").unwrap().iter().all(|c| c.act != Act::Untested));
        let low = super::preset("masscan-banners", &fleet(3389)).unwrap();
        assert!(low.iter().any(|c| c.act == Act::Untested));
        assert!(presets().all(|p| preset(p).is_some() && Behaviour::parse(p).is_none()));
    }
}
