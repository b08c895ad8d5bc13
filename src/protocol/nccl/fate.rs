//! What became of a bootstrap root.

use super::communicator::Communicator;
use super::judge::Stray;
use super::network::Flow;
use super::verdict::Effect;
use crate::time::Timestamp;

/// How a root ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All ranks checked in: it did its work.
    Completed,
    /// It ended before that, with an error.
    Died,
    /// Its process was ended by a signal.
    Killed,
    /// It was gone, and nothing seen says why.
    Gone,
    /// No sign of an end.
    Alive,
}

/// What became of a root.
#[derive(Clone, PartialEq, Debug)]
pub struct RootFate {
    /// How it ended.
    pub outcome: Outcome,
    /// The first sign of its end.
    pub at: Option<Timestamp>,
    /// That sign, in words.
    pub sign: String,
    /// From when on refusals count.
    pub(super) since: Timestamp,
    /// Index of the stray that ended it.
    pub(super) cause: Option<usize>,
}

/// A root that ends resets what waits for it within this many seconds.
const AT_ONCE: f64 = 1.0;

/// `own`: NCCL's own connections, whole or cut short.
pub(super) fn fate(
    flows: &[&Flow<'_>],
    own: &[&Flow<'_>],
    strays: &[Stray<'_>],
    communicator: Option<&Communicator>,
) -> RootFate {
    let accepts: Vec<Timestamp> = flows.iter().filter(|f| f.record.accepted()).map(|f| f.record.first).collect();
    let since = accepts.iter().min().copied().unwrap_or(Timestamp::MIN);
    let done = communicator.is_some_and(|c| c.is_served() && c.duplicates.is_empty() && c.other_nranks.is_empty());
    // A check-in that the listener's side resets was never read.
    let unread = own.iter().filter(|f| f.record.fin[1].get().is_none()).filter_map(|f| f.record.rst[1].get());
    let reset = unread.min();
    if done && reset.is_none() {
        return RootFate {
            outcome: Outcome::Completed,
            at: None,
            sign: "its ranks checked in and were answered".to_string(),
            since,
            cause: None,
        };
    }
    let refusal = flows.iter().filter(|f| f.record.refused() && f.record.first >= since).map(|f| f.record.first).min();
    let Some(at) = [refusal, reset].into_iter().flatten().min() else {
        return RootFate {
            outcome: Outcome::Alive,
            at: None,
            sign: "no sign of its end".to_string(),
            since,
            cause: None,
        };
    };
    let sign = if Some(at) == refusal {
        format!("from {} on it refused connections", super::judge::clock(at))
    } else {
        format!("at {} it reset a rank's check-in", super::judge::clock(at))
    };
    // Packets of one moment may be captured in another order.
    let limit = at.plus_nanos(20_000_000);
    let by_reset = Some(at) != refusal;
    let may_end = |s: &Stray<'_>| {
        s.time <= limit && s.worst() >= Effect::Allocates && !(by_reset && at.seconds_since(s.time) > AT_ONCE)
    };
    let last = |least: Effect| strays.iter().rposition(|s| may_end(s) && s.worst() >= least);
    let cause = last(Effect::Dies).or_else(|| last(Effect::Allocates));
    let outcome = match cause.and_then(|i| strays.get(i)) {
        Some(s) if s.worst() == Effect::Killed && !s.verdicts.iter().any(|(_, v)| v.effect == Effect::Dies) => {
            Outcome::Killed
        }
        Some(_) => Outcome::Died,
        None => Outcome::Gone,
    };
    RootFate { outcome, at: Some(at), sign, since, cause }
}
