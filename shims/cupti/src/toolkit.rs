//! The toolkit whose records the library produces.

use std::sync::atomic::{AtomicBool, Ordering};

use margay_activity::layout::Toolkit;

static IS_13: AtomicBool = AtomicBool::new(false);

/// Selects the toolkit. The libraries call this function when they are loaded.
pub fn select(toolkit: Toolkit) {
    IS_13.store(toolkit == Toolkit::Cuda13, Ordering::Relaxed);
}

/// Returns the selected toolkit.
pub(crate) fn toolkit() -> Toolkit {
    match IS_13.load(Ordering::Relaxed) {
        true => Toolkit::Cuda13,
        false => Toolkit::Cuda12,
    }
}

/// Returns the version of CUPTI (`CUPTI_API_VERSION`) that belongs to the toolkit: that of CUDA 12.9 or 13.5.
pub(crate) fn version() -> u32 {
    match toolkit() {
        Toolkit::Cuda12 => 28,
        Toolkit::Cuda13 => 130_500,
    }
}
