//! Clusters in which everything is known: who scanned whom, who was killed, and of what. They are written as a user would
//! have them (captures, logs, a list of hosts) and the truth beside them, which the analyzer never sees.

#![allow(dead_code)]

mod capture;
mod client;
mod connection;
mod engine;
mod generate;
mod host;
mod log;
mod machine;
mod plan;
mod probe;
mod process;
mod random;
pub(crate) mod score;
mod truth;
mod wire;

pub(crate) use generate::generate;
