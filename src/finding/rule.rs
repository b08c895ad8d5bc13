//! The rules, as `rdzvscope explain` prints them.

use crate::vocabulary::Severity;

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name in reports and scripts; never renamed.
    pub id: &'static str,
    /// The severity it has unless something seen makes it another.
    pub severity: Severity,
    /// What it flags, in a line.
    pub title: &'static str,
    /// What it means and why it matters.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Declares the rules of a protocol: an enumeration whose variants have an id, a severity, and what is told of them.
macro_rules! rules {
    ($(#[$meta:meta])* $name:ident $($variant:ident { $($field:ident: $value:expr),+ $(,)? })+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name {
            $($variant),+
        }

        impl $name {
            /// All of them, in order of id.
            pub(crate) const ALL: &'static [Rule] = &[$(Rule { $($field: $value),+ }),+];

            /// What is told of it.
            pub(crate) fn text(self) -> &'static Rule {
                &Self::ALL[self as usize]
            }
        }
    };
}
pub(crate) use rules;

rules! {
    /// The rules of captures themselves.
    CaptureRule

    ClockStep {
        id: "clock-step",
        severity: Severity::Notice,
        title: "a capture whose clock was set while it ran",
        meaning: "The time of a packet is earlier than that of the packet before by more than a second, or later by more than a day. \
The clock of the capturing host was set, or the record is damaged. Packets stay in the order of the file; times on both \
sides of the step are of two clocks, and lags across it mean nothing.",
        remedy: "Give --since or --until to stay on one side of the step, and run a time service that slews (chrony) on the host.",
    }
}
