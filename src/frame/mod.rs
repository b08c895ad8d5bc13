//! [`Packet`](crate::capture::Packet) → [`Segment`]: link layers, tunnels, IP, fragments.

mod segment;

pub use segment::{Flags, OuterLayer, Segment};
