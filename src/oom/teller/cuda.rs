//! CUDA out of memory: GPU memory, never host memory. Read so that it can be told apart.

use super::super::event::{Facts, OomKind, Role};
use super::super::text::has;
use super::Saying;

/// PyTorch's exception and the runtime's own error.
pub(crate) fn parse(message: &[u8]) -> Option<Saying> {
    let gpu = has(message, b"CUDA out of memory")
        || has(message, b"CUDA error: out of memory")
        || has(message, b"cudaErrorMemoryAllocation")
        || has(message, b"CUDA_ERROR_OUT_OF_MEMORY")
        || has(message, b"HIP out of memory");
    gpu.then(|| Saying::new(Role::Report, Facts { kind: Some(OomKind::Gpu), ..Facts::default() }))
}
