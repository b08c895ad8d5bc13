//! Rules of notices: alerts about the watching itself.

use crate::finding::Rule;
use crate::vocabulary::Severity;

/// Many findings of one source that became one alert.
pub(crate) const FLOOD: &str = "alert-flood";
/// An alert that was asked for, to see whether it arrives.
pub(crate) const TEST: &str = "alert-test";

/// The rules, by id.
const RULES: [Rule; 5] = [
    Rule {
        id: FLOOD,
        severity: Severity::Critical,
        title: "many findings of one source, folded into one alert",
        meaning: "One source caused so many findings at once that one alert stands for them: it says how many there are, of \
which rule, and at which listeners. The first finding at each listener is an alert of its own; all of them stand in the report.",
        remedy: "See the report of the case (rdzvscope report --case FILE --format html) and stop the source.",
    },
    Rule {
        id: TEST,
        severity: Severity::Notice,
        title: "a test",
        meaning: "Somebody ran rdzvscope with --alert-test to see whether alerts arrive. Nothing happened on the wire.",
        remedy: "Nothing to do.",
    },
    Rule {
        id: "watch-overwritten",
        severity: Severity::Warning,
        title: "a capture was overwritten before it was read to its end",
        meaning: "The program that rotates captures took a file's name again before all of it was analyzed, or changed a file \
while it was read. Packets may be lost.",
        remedy: "Use a larger ring, or let watch pass more often (--interval).",
    },
    Rule {
        id: "watch-stopped",
        severity: Severity::Warning,
        title: "a capture does not grow any more",
        meaning: "Nothing was added to a capture for longer than --stall. The capturing program has ended, its filter lets nothing \
through, or its disk is full: what happens now is not seen.",
        remedy: "Look whether the capturing program runs, and start it again.",
    },
    Rule {
        id: "watch-unreadable",
        severity: Severity::Warning,
        title: "a capture or log cannot be read",
        meaning: "A file that is watched cannot be opened or read. What it holds is not analyzed.",
        remedy: "Let the user that watch runs as read the file; see rdzvscope doctor.",
    },
];

/// Ids of all of them.
pub(crate) fn notice_rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter()
}

/// The rule of an id.
pub(crate) fn notice_rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.id == id)
}
