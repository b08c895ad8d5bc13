//! Ctrl-C: reading stops and the report so far is printed; a second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// A flag that the first SIGINT sets; `None` where signals cannot be had.
pub(super) fn on_interrupt() -> Option<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    // Registered first, it looks at the flag before the same signal sets it: only a second one finds it set.
    flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop)).ok()?;
    flag::register(SIGINT, Arc::clone(&stop)).ok()?;
    Some(stop)
}
