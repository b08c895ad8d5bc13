//! [`Packet`](crate::capture::Packet) → [`Segment`]: link layers, tunnels, IP, fragments.

mod cooked;
mod counters;
mod cursor;
mod decoder;
mod ethernet;
mod fragments;
mod ip;
mod limits;
mod segment;
mod tcp;
mod tunnel;

pub use counters::Skip;
pub use decoder::{Decoder, Frame, Glance, Limits, glance};
pub use segment::{Flags, OuterLayer, Segment};
pub use tcp::{Checksum, verify_checksum};

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
