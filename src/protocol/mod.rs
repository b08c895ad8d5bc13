//! Chunks → messages and observations: TCPStore, NCCL bootstrap, Gloo, and whatever else knocks.

pub mod stray;
pub mod tcpstore;
