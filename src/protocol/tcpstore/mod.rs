//! PyTorch's TCPStore: the rendezvous store of `torch.distributed`.

mod dialect;
pub mod release;
pub mod server;

pub use dialect::{Dialect, Operation};
