//! What was observed since, written to segments of evidence.

use super::machine::machine;
use std::collections::BTreeSet;

use crate::case::{Case, CaseError};
use crate::evidence::{Entry, Kind, LEAN, Segments};
use crate::net::Endpoint;
use crate::stream::{FlowRecord, ordinary};
use crate::time::{NANOS, Timestamp};

/// Without news a segment is written this often, in nanoseconds.
const PERIOD: i64 = 60 * NANOS;
/// Records of flows that only grew go this often: a busy cluster has thousands, and each pass finds them longer.
const GROWN_PERIOD: i64 = 900 * NANOS;
/// The same of lean evidence; ordinary connections are counted, and flows that only grew go, with every other of these.
const LEAN_PERIOD: i64 = 3 * 3600 * NANOS;
/// Segments written in one go; the rest waits for the next pass.
const AT_ONCE: u32 = 256;

/// Writes what a case has not shipped yet.
#[derive(Debug)]
pub(super) struct Shipper {
    segments: Segments,
    last: Option<Timestamp>,
    grown: Option<Timestamp>,
    lean: Option<Lean>,
}

/// What lean evidence needs to know.
#[derive(Debug, Default)]
struct Lean {
    /// Listeners whose connections all go.
    spared: BTreeSet<Endpoint>,
    /// The last batch of segments that was looked at.
    batch: i64,
}

impl Shipper {
    pub(super) fn new(segments: Segments, case: &mut Case) -> Result<Shipper, CaseError> {
        case.begin_shipping()?;
        let lean = segments.is_lean().then(Lean::default);
        Ok(Shipper { segments, last: None, grown: None, lean })
    }

    /// Ships, where it is time to or there is `news`; `all`: to the last record. What went wrong, in words: it stays
    /// marked, and goes with the next pass.
    pub(super) fn ship(
        &mut self,
        case: &mut Case,
        now: Timestamp,
        news: bool,
        all: bool,
    ) -> Result<Vec<String>, CaseError> {
        // A clock that was set back must not hold it up.
        let due = |last: Option<Timestamp>, period: i64| {
            last.is_none_or(|l| !(l.0..l.0.saturating_add(period)).contains(&now.0))
        };
        let (period, grown_period) =
            if self.lean.is_some() { (LEAN_PERIOD, 2 * LEAN_PERIOD) } else { (PERIOD, GROWN_PERIOD) };
        let grown = all || self.grown.is_some() && due(self.grown, grown_period);
        if !(all || news || due(self.last, period)) {
            return Ok(Vec::new());
        }
        let mut wrong = Vec::new();
        for _ in 0..AT_ONCE {
            if let Some(lean) = &mut self.lean {
                case.read_listeners(&mut lean.spared, &mut lean.batch)?;
            }
            let spared = self.lean.as_ref().map(|l| &l.spared);
            let waits = |r: &FlowRecord| {
                let open = || ordinary::may_become(r) && (!grown || !all && !r.has_ended());
                spared.is_some_and(|s| !s.contains(&r.server()) && open())
            };
            let Some(mut shipment) = case.shipment(grown, &waits)? else { break };
            let origin = case.origin()?;
            if let Some(spared) = spared {
                let packed = shipment.pile.lean(spared, LEAN);
                packed.map_err(|source| case.io("cannot pack evidence", source))?;
            }
            if let Some(body) = machine() {
                let entry =
                    Entry { segment: shipment.segment, data: body.to_string().into_bytes(), ..Entry::default() };
                shipment.pile.put(&origin, Kind::Machine, String::new(), entry);
            }
            if let Err(e) = self.segments.write(&origin, shipment.segment, &shipment.pile) {
                let directory = self.segments.directory().display();
                wrong.push(format!("{directory}: cannot write evidence: {e}; it is kept and tried again"));
                return Ok(wrong);
            }
            // Killed before this, it goes once more under the same number: whoever joins evidence does not mind.
            case.shipped(&shipment)?;
            if !shipment.more {
                break;
            }
        }
        self.last = Some(now);
        if grown || self.grown.is_none() {
            self.grown = Some(now);
        }
        match self.segments.prune(&case.origin()?) {
            Ok(0) => {}
            Ok(n) => wrong.push(format!(
                "{}: {n} segments of evidence were removed to stay within --evidence-max: were they fetched?",
                self.segments.directory().display()
            )),
            Err(e) => wrong.push(format!("{}: cannot look for old evidence: {e}", self.segments.directory().display())),
        }
        Ok(wrong)
    }
}
