//! A zone that nobody named: all logs miss what they should meet by one multiple of a quarter of an hour.

/// By how much a kill in a log misses what it should meet in a capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// Time of the log's line less time of the capture's event, in seconds.
    pub seconds: f64,
    /// The least that this difference can truly be: for a kill after its trigger 0, less the uncertainty of the times.
    pub least: f64,
    /// The most: for a kill after its trigger the longest lag; for a reaper's line after a death, next to nothing.
    pub most: f64,
}

/// A common offset of the logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuarterHours {
    /// How far the logs are ahead, in quarters of an hour: 32 for times of +08:00 taken as UTC.
    pub quarters: i32,
    /// How far a true difference may still lie off, in seconds: the offset itself is exact if it is a zone's.
    pub uncertainty: f64,
    /// How many logs it brings where they should be.
    pub fits: usize,
    /// The chance that an offset of no meaning would have fitted as well: 1 says that it explains nothing.
    pub chance: f64,
}

impl QuarterHours {
    /// In seconds.
    pub fn seconds(&self) -> i64 {
        i64::from(self.quarters) * 900
    }

    /// The zone to pass with `--log-tz`, of logs that were read as of a zone so many seconds east of UTC: `+08:00`.
    pub fn zone(&self, read_as_east: i32) -> String {
        let minutes = self.quarters * 15 + read_as_east / 60;
        let (sign, minutes) = if minutes < 0 { ('-', -minutes) } else { ('+', minutes) };
        format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Zones lie between -12:00 and +14:00.
const WEST: i32 = -48;
const EAST: i32 = 56;

/// The multiple of 15 minutes by which every log misses, if there is one and the logs do not fit as they are. Of several
/// that fit, the one that leaves the kills closest after their triggers; then whole hours.
pub fn common_quarter_hour(misses: &[Miss]) -> Option<QuarterHours> {
    let left = |m: &Miss, quarters: i32| m.seconds - f64::from(quarters) * 900.0;
    let fits = |m: &Miss, quarters: i32| (m.least..=m.most).contains(&left(m, quarters));
    if misses.is_empty() || misses.iter().any(|m| !m.seconds.is_finite() || fits(m, 0)) {
        return None;
    }
    let farthest = |q: i32| misses.iter().map(|m| left(m, q) - m.least).fold(0.0, f64::max);
    let quarters = (WEST..=EAST)
        .filter(|q| misses.iter().all(|m| fits(m, *q)))
        .min_by(|a, b| farthest(*a).total_cmp(&farthest(*b)).then((a % 4 != 0).cmp(&(b % 4 != 0))))?;
    let width = misses.iter().map(|m| m.most - m.least).fold(f64::INFINITY, f64::min);
    Some(QuarterHours {
        quarters,
        uncertainty: (width / 2.0).min(450.0),
        fits: misses.len(),
        chance: (farthest(quarters) / 900.0).clamp(0.0, 1.0),
    })
}
