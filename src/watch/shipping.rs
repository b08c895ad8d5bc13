//! What was observed since, written to segments of evidence.

use super::machine::machine;
use crate::case::{Case, CaseError};
use crate::evidence::{Entry, Kind, Segments};
use crate::time::{NANOS, Timestamp};

/// Without news a segment is written this often, in nanoseconds.
const PERIOD: i64 = 60 * NANOS;
/// Records of flows that only grew go this often: a busy cluster has thousands, and each pass finds them longer.
const GROWN_PERIOD: i64 = 900 * NANOS;
/// Segments written in one go; the rest waits for the next pass.
const AT_ONCE: u32 = 256;

/// Writes what a case has not shipped yet.
#[derive(Debug)]
pub(super) struct Shipper {
    segments: Segments,
    last: Option<Timestamp>,
    grown: Option<Timestamp>,
}

impl Shipper {
    pub(super) fn new(segments: Segments, case: &mut Case) -> Result<Shipper, CaseError> {
        case.begin_shipping()?;
        Ok(Shipper { segments, last: None, grown: None })
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
        let grown = all || self.grown.is_some() && due(self.grown, GROWN_PERIOD);
        if !(all || news || due(self.last, PERIOD)) {
            return Ok(Vec::new());
        }
        let mut wrong = Vec::new();
        for _ in 0..AT_ONCE {
            let Some(mut shipment) = case.shipment(grown)? else { break };
            let origin = case.origin()?;
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
