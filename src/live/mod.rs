//! Interfaces, listened to: packets go into a case (in memory, if no file is named), and what is found is told at once.

mod error;
mod filter;
mod listen;
mod monitor;
mod ring;
mod sandbox;
mod user;

pub use error::LiveError;
pub use filter::{compile_check, filter_of, interfaces};
pub use listen::{InterfaceReader, ListenOptions};
pub use monitor::{Monitor, Tick};
pub use ring::{Budget, Ring};
pub use sandbox::{Confined, confine, drop_privileges};
