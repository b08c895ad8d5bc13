//! Log text → OOM events.
