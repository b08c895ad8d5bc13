//! Exit status: 0 nothing flagged, 1 flagged, 2 trouble.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Nothing flagged.
    Clean,
    /// A finding at or above `--fail-on`, or an incident with a trigger.
    Flagged,
    /// Bad arguments, or nothing could be read.
    Trouble,
}

impl Exit {
    /// From what was found and what went wrong. Flagged wins over trouble, unless `strict`.
    pub fn of(flagged: bool, trouble: bool, nothing_read: bool, strict: bool, exit_zero: bool) -> Exit {
        match (flagged, trouble) {
            (_, true) if strict => Exit::Trouble,
            _ if nothing_read => Exit::Trouble,
            _ if exit_zero => Exit::Clean,
            (true, _) => Exit::Flagged,
            (false, true) => Exit::Trouble,
            (false, false) => Exit::Clean,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(e: Exit) -> ExitCode {
        ExitCode::from(match e {
            Exit::Clean => 0,
            Exit::Flagged => 1,
            Exit::Trouble => 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn flagged_wins_over_trouble_and_strict_over_flagged() {
        assert_eq!(Exit::of(false, false, false, false, false), Exit::Clean);
        assert_eq!(Exit::of(true, false, false, false, false), Exit::Flagged);
        assert_eq!(Exit::of(true, true, false, false, false), Exit::Flagged);
        assert_eq!(Exit::of(true, true, false, true, false), Exit::Trouble);
        assert_eq!(Exit::of(false, true, false, false, false), Exit::Trouble);
        assert_eq!(Exit::of(false, false, true, false, true), Exit::Trouble);
        assert_eq!(Exit::of(true, false, false, false, true), Exit::Clean);
    }
}
