//! nmap's probes as cases, and which of them a profile sends to which server.

use super::fleet::{EPHEMERAL, Fleet, Place};
use super::host::Host;
use super::matrix::{Act, Case, Matrix};
use super::ports::Ports;
use super::probes::{Probe, ProbeFile};
use super::profile::{Chosen, Profile, Scan};

/// A file of probes, and the scan that sends them: all of them where there is none.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file.
    pub file: ProbeFile,
    /// The scan.
    pub profile: Option<Profile>,
    /// The ports that it scans.
    scanned: Ports,
    cases: Vec<(Step, Case)>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// The port of `torch.distributed`.
const USUAL: u16 = 29_500;

/// What a case is to nmap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The port scan.
    Scan,
    /// The silence before the first probe.
    Null,
    /// A probe, by index.
    Probe(usize),
    /// What one of nmap's own scripts sends with version detection, to services that it has not recognised.
    Script,
    /// Bytes that no model was asked about.
    Untested,
}

/// Scripts of the category `version` that run on any port of an unknown service (nmap 7.93, seen at a decoy), from this
/// intensity on, and what they send: skypev2-version an HTTP request, rpc-grind an RPC null call with a random transaction id
/// (here 0; no server looks at it).
const SCRIPT_INTENSITY: u8 = 7;
const SCRIPTS: [(&str, &[u8]); 2] = [
    ("skypev2-version (nmap script)", b"GET / HTTP/1.0\r\n\r\n"),
    (
        "rpc-grind (nmap script)",
        b"\x80\0\0\x28\0\0\0\0\0\0\0\0\0\0\0\x02\0\x01\x86\xa0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ),
];

impl Plan {
    /// Cases in the order in which they reach the first of the fleet's ports.
    pub fn new(file: ProbeFile, profile: Option<Profile>, fleet: &Fleet) -> Plan {
        let mut notes = profile.as_ref().map_or(Vec::new(), |p| p.notes.clone());
        let mut cases = Vec::new();
        let mut scanned = Ports::all();
        if let Some(p) = &profile {
            let (ports, note) = p.scanned(&file.path);
            scanned = ports;
            notes.extend(note);
            let (name, act) = match p.scan {
                Scan::Connect => ("port scan (-sT)", Act::Close),
                _ => ("port scan (-sS)", Act::Syn),
            };
            if p.scan != Scan::Nothing {
                cases.push((Step::Scan, Case { name: name.to_owned(), act }));
            }
        }
        if let Some(ms) = file.null_wait_ms.filter(|_| profile.as_ref().is_none_or(|p| p.version)) {
            cases.push((Step::Null, Case { name: "NULL".to_owned(), act: Act::Silence(f64::from(ms) / 1000.0) }));
        }
        let port = fleet.targets.iter().find_map(|t| match &t.place {
            Place::Ports(ports) => ports.iter().copied().find(|p| scanned.contains(*p)),
            // One that no probe names stands for most.
            Place::Ephemeral => {
                let mut open = (EPHEMERAL.0..=EPHEMERAL.1).filter(|p| scanned.contains(*p));
                let first = open.next();
                let plain = |p: &u16| !file.probes.iter().any(|probe| probe.ports.contains(*p));
                first.filter(plain).or_else(|| open.find(plain)).or(first)
            }
        });
        for i in order(&file, profile.as_ref(), port.unwrap_or(EPHEMERAL.0)) {
            let Some(probe) = file.probes.get(i) else { continue };
            let act = Act::Segments(vec![probe.payload.clone()]);
            cases.push((Step::Probe(i), Case { name: probe.name.clone(), act }));
        }
        if profile.as_ref().is_some_and(|p| p.version) {
            let script = |(name, bytes): (&str, &[u8])| {
                (Step::Script, Case { name: name.to_owned(), act: Act::Segments(vec![bytes.to_vec()]) })
            };
            cases.extend(SCRIPTS.map(script));
        }
        let untested = profile.iter().flat_map(|p| &p.untested);
        cases.extend(untested.map(|name| (Step::Untested, Case { name: name.clone(), act: Act::Untested })));
        let mut plan = Plan { file, profile, scanned, cases, notes };
        let untouched = plan.untouched(fleet);
        plan.notes.extend(untouched);
        plan
    }

    /// Whether the scan's own `--exclude-ports` leaves every server of the fleet alone.
    pub fn spares(&self, fleet: &Fleet) -> bool {
        let excluded = |p: &u16| self.profile.as_ref().is_some_and(|profile| profile.excluded.contains(*p));
        let spared = |place: &Place| match place {
            Place::Ports(ports) => ports.iter().all(excluded),
            Place::Ephemeral => false,
        };
        !fleet.targets.is_empty() && fleet.targets.iter().all(|t| spared(&t.place))
    }

    /// What of the fleet the scan does not reach, and what it may reach that the fleet does not name: a sentence each.
    fn untouched(&self, fleet: &Fleet) -> Vec<String> {
        let Some(profile) = &self.profile else { return Vec::new() };
        if profile.scan == Scan::Nothing {
            return vec!["this command touches no TCP port".to_owned()];
        }
        let fixed = fleet.targets.iter().filter_map(|t| match &t.place {
            Place::Ports(ports) => Some(ports),
            Place::Ephemeral => None,
        });
        let fixed = Ports::of(&fixed.flatten().copied().collect::<Vec<_>>());
        let outside = fixed.filter(|p| !self.scanned.contains(p));
        let excluded = fixed.filter(|p| self.scanned.contains(p) && profile.excluded.contains(p));
        let mut said = Vec::new();
        if !outside.is_empty() {
            let among = match &profile.chosen {
                Chosen::Common(n) => format!("among nmap's {} default ports", thousands(*n)),
                Chosen::Ports(_) => "among the ports of this scan".to_owned(),
            };
            // The port that everybody uses first.
            let first = if outside.contains(USUAL) { USUAL } else { outside.ranges().first().map_or(0, |r| r.0) };
            let others = outside.filter(|p| p != first).text();
            let others = if others.is_empty() { others } else { format!(" (nor are {others})") };
            said.push(format!(
                "{first} is not {among}{others}, so nothing was tried there; the stores of torchrun lie on ports that the \
                 kernel chose: -p 1-65535 reaches them, --inventory names them"
            ));
        }
        if !excluded.is_empty() {
            said.push(format!("--exclude-ports leaves out {} of the fleet: nothing was tried there", excluded.text()));
        }
        let within = |p: &u16| (EPHEMERAL.0..=EPHEMERAL.1).contains(p);
        let named = fleet.targets.iter().any(|t| match &t.place {
            Place::Ephemeral => true,
            Place::Ports(ports) => ports.iter().any(within),
        });
        let chosen = Ports::range(EPHEMERAL.0, EPHEMERAL.1).filter(|p| self.scanned.contains(p));
        if !named && !chosen.is_empty() {
            said.push(format!(
                "the scan reaches ports that the kernel chooses ({}): worker stores of torchrun, NCCL's bootstrap and proxy \
                 listeners and Gloo's pairs may lie there, and none of them was tried (--inventory and --nccl name them)",
                span_text(&chosen)
            ));
        }
        said
    }

    /// Those of `ports` that the profile scans.
    pub fn scanned(&self, ports: &Ports) -> Ports {
        let left_out = self.profile.as_ref().map(|p| &p.excluded);
        ports.filter(|p| self.scanned.contains(p) && left_out.is_none_or(|x| !x.contains(p)))
    }

    /// Everything that the profile sends, at every server.
    pub fn board(&self, fleet: &Fleet, host: Host) -> Matrix {
        let sent = self.sent(fleet, self.profile.as_ref(), &Ports::default(), &Ports::default());
        Matrix::ask(self.cases.iter().map(|c| c.1.clone()).collect(), fleet, host, |c, t| sent[c][t])
    }

    /// The rows of `board` that are left when the profile is another.
    pub fn under(&self, board: &Matrix, fleet: &Fleet, profile: &Profile) -> Matrix {
        let sent = self.sent(fleet, Some(profile), &Ports::default(), &Ports::default());
        board.only(|c, t| sent.get(c).and_then(|row| row.get(t)).copied().unwrap_or(false))
    }

    /// The rows that are left when these ports are not scanned at all.
    pub fn excluding(&self, board: &Matrix, fleet: &Fleet, ports: &Ports) -> Matrix {
        let sent = self.sent(fleet, self.profile.as_ref(), ports, &Ports::default());
        board.only(|c, t| sent.get(c).and_then(|row| row.get(t)).copied().unwrap_or(false))
    }

    /// The rows that are left when version detection leaves these ports alone.
    pub fn without_detection(&self, board: &Matrix, fleet: &Fleet, ports: &Ports) -> Matrix {
        let sent = self.sent(fleet, self.profile.as_ref(), &Ports::default(), ports);
        board.only(|c, t| sent.get(c).and_then(|row| row.get(t)).copied().unwrap_or(false))
    }

    /// By case and server, whether it is sent.
    fn sent(&self, fleet: &Fleet, profile: Option<&Profile>, excluded: &Ports, undetected: &Ports) -> Vec<Vec<bool>> {
        let Some(profile) = profile else {
            return vec![vec![true; fleet.targets.len()]; self.cases.len()];
        };
        let mut places: Vec<(&Place, Vec<bool>)> = Vec::new();
        for target in &fleet.targets {
            if !places.iter().any(|(p, _)| *p == &target.place) {
                let open: Vec<u16> = match &target.place {
                    Place::Ports(ports) => ports.clone(),
                    Place::Ephemeral => (EPHEMERAL.0..=EPHEMERAL.1).collect(),
                };
                let scanned =
                    |p: &u16| self.scanned.contains(*p) && !profile.excluded.contains(*p) && !excluded.contains(*p);
                let open: Vec<u16> = open.into_iter().filter(scanned).collect();
                let detected =
                    |p: &&u16| (profile.all_ports || !self.file.excluded.contains(**p)) && !undetected.contains(**p);
                let detected: Vec<u16> =
                    if profile.version { open.iter().filter(detected).copied().collect() } else { Vec::new() };
                let of = |step: &Step| match step {
                    Step::Scan => !open.is_empty(),
                    Step::Untested => !open.is_empty(),
                    Step::Null => !detected.is_empty(),
                    Step::Script => profile.intensity >= SCRIPT_INTENSITY && !detected.is_empty(),
                    Step::Probe(i) => {
                        self.file.probes.get(*i).is_some_and(|p| reaches(p, profile.intensity, &detected))
                    }
                };
                places.push((&target.place, self.cases.iter().map(|c| of(&c.0)).collect()));
            }
        }
        let at = |case: usize, place: &Place| {
            places.iter().find(|(p, _)| *p == place).and_then(|(_, sent)| sent.get(case)).copied().unwrap_or(false)
        };
        (0..self.cases.len()).map(|c| fleet.targets.iter().map(|t| at(c, &t.place)).collect()).collect()
    }
}

fn reaches(probe: &Probe, intensity: u8, ports: &[u16]) -> bool {
    (probe.rarity <= intensity && !ports.is_empty()) || ports.iter().any(|p| probe.ports.contains(*p))
}

/// `1,000`, as nmap's own manual writes it.
fn thousands(n: usize) -> String {
    if n < 1000 { n.to_string() } else { format!("{},{:03}", n / 1000, n % 1000) }
}

/// A set of ports; of one in many parts only the ends.
fn span_text(ports: &Ports) -> String {
    match ports.ranges().as_slice() {
        [(a, _), _, _, _, .., (_, b)] => format!("between {a} and {b}"),
        _ => ports.text(),
    }
}

/// Indices of probes: as they reach `port`, then the others.
fn order(file: &ProbeFile, profile: Option<&Profile>, port: u16) -> Vec<usize> {
    let Some(_) = profile else { return (0..file.probes.len()).collect() };
    let hinted = |i: &usize| file.probes.get(*i).is_some_and(|p| p.ports.contains(port));
    let (mut first, others): (Vec<usize>, Vec<usize>) = (0..file.probes.len()).partition(hinted);
    first.extend(others);
    first
}
