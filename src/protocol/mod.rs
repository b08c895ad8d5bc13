//! Chunks → messages and observations: TCPStore, NCCL bootstrap, Gloo, and whatever else knocks.

pub mod gloo;
pub mod listener;
pub mod nccl;
pub mod observation;
pub mod stray;
pub mod tcpstore;
