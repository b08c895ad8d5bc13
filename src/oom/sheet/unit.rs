//! `systemctl status`: a unit's result, and when; the lines of the journal below it name the host.

use super::super::event::ToldBy;
use super::super::format::Format;
use super::super::options::Clock;
use super::super::prefix::{Labels, Peeled, peel};
use super::super::teller::{Saying, unit_facts};
use super::super::{stamp, text};
use super::Told;

/// The unit ends after its process was killed, as a rule at once.
const ENDED: Clock = Clock { from: "end of the unit", floor: 1_000_000_000, after: false };
/// Lines of a status in which the host may follow.
const LINES: u8 = 40;

/// The status being read.
#[derive(Default)]
pub(super) struct Status {
    unit: Option<Vec<u8>>,
    /// A kill whose host is not known yet, and how many lines may follow.
    pending: Option<(Told, u8)>,
}

impl Status {
    pub(super) fn is_open(&self) -> bool {
        self.pending.is_some()
    }

    /// Takes a line; says whether it was the status's own.
    pub(super) fn line(&mut self, number: u64, line: &[u8], out: &mut Vec<Told>) -> bool {
        if let Some((told, left)) = &mut self.pending {
            let peeled = peel(line, &Labels::default());
            if let Some(host) = &peeled.host {
                told.saying.host = text::name(host);
                self.finish(out);
                return false;
            }
            *left -= 1;
            if *left == 0 {
                self.finish(out);
            }
        }
        let marked = ["● ", "× ", "○ ", "* "].iter().find_map(|m| line.strip_prefix(m.as_bytes()));
        if let Some(rest) = marked {
            self.unit = Some(text::word(rest).0).filter(|u| u.contains(&b'.')).map(<[u8]>::to_vec);
            self.finish(out);
            return true;
        }
        let Some(facts) = self.unit.as_deref().and_then(unit_facts) else { return false };
        let Some((_, since)) = text::cut(line, b"(Result: oom-kill) since ") else { return false };
        let stamp = stamp::any(since).map(|(stamp, _)| (stamp, ENDED));
        let peeled = Peeled { format: Some(Format::Plain), stamp, ..Peeled::default() };
        self.pending =
            Some((Told { lines: vec![number], peeled, saying: Saying::report(ToldBy::Systemd, facts) }, LINES));
        true
    }

    pub(super) fn finish(&mut self, out: &mut Vec<Told>) {
        out.extend(self.pending.take().map(|(told, _)| told));
    }
}
