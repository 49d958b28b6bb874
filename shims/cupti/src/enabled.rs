//! What the client has enabled.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use margay_activity::Kind;

/// The kinds that the client has enabled, one bit for each number.
static ENABLED: AtomicU64 = AtomicU64::new(0);
/// Whether kernels get times of queueing and submission.
static LATENCY: AtomicBool = AtomicBool::new(false);

/// Returns whether the client has enabled a kind.
pub(crate) fn is_enabled(kind: Kind) -> bool {
    ENABLED.load(Ordering::Relaxed) >> (kind as u32) & 1 != 0
}

/// Returns whether kernels get times of queueing and submission.
pub(crate) fn latency_wanted() -> bool {
    LATENCY.load(Ordering::Relaxed)
}

/// Notes that the client has enabled or disabled a kind.
pub(crate) fn set(kind: Kind, on: bool) {
    let bit = 1 << (kind as u32);
    match on {
        true => ENABLED.fetch_or(bit, Ordering::Relaxed),
        false => ENABLED.fetch_and(!bit, Ordering::Relaxed),
    };
}

/// Selects whether kernels get times of queueing and submission.
pub(crate) fn set_latency(on: bool) {
    LATENCY.store(on, Ordering::Relaxed);
}

/// Forgets what the client has enabled.
pub(crate) fn forget() {
    ENABLED.store(0, Ordering::Relaxed);
    LATENCY.store(false, Ordering::Relaxed);
}
