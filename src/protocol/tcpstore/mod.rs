//! PyTorch's TCPStore: the rendezvous store of `torch.distributed`.

mod dialect;

pub use dialect::{Dialect, Operation};
