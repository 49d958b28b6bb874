//! Handles, the version, and the cache of heuristics, which has a capacity but no entries.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handle::{self, Owner};
use crate::host;
use crate::library::{create_for, number};
use crate::status::{Outcome, need};

/// The owners whose handles are handles of cuBLASLt.
pub(crate) const OWNERS: &[Owner] = &[Owner::Lt, Owner::Cublas];

/// `cublasLtCreate`.
///
/// # Safety
/// None. The same holds for the other functions of this module.
pub(crate) unsafe fn create(place: *mut usize) -> Outcome {
    create_for(place, Owner::Lt)
}

/// `cublasLtDestroy`.
pub(crate) unsafe fn destroy(handle: usize) -> Outcome {
    need(handle != 0, 0)?;
    handle::remove(handle, Owner::Lt)?;
    Ok(())
}

/// `cublasLtGetVersion`.
pub(crate) unsafe fn version<const TOOLKIT: usize>() -> usize {
    number::<TOOLKIT>().unsigned_abs() as usize
}

static CAPACITY: AtomicUsize = AtomicUsize::new(8192);

/// `cublasLtHeuristicsCacheGetCapacity`.
pub(crate) unsafe fn cache_capacity(place: *mut usize) -> Outcome {
    let capacity = CAPACITY.load(Ordering::Relaxed);
    need(host::write(place, capacity).is_some(), 0)
}

/// `cublasLtHeuristicsCacheSetCapacity`.
pub(crate) unsafe fn set_cache_capacity(capacity: usize) -> Outcome {
    CAPACITY.store(capacity, Ordering::Relaxed);
    Ok(())
}

/// `cublasLtGetEnvironmentMode`, a setting without documentation.
pub(crate) unsafe fn environment_mode(handle: usize, place: *mut i32) -> Outcome {
    let mode = handle::get(handle, OWNERS)?.settings.lock().environment;
    need(host::write(place, mode).is_some(), 0)
}

/// `cublasLtSetEnvironmentMode`.
pub(crate) unsafe fn set_environment_mode(handle: usize, mode: i32) -> Outcome {
    handle::get(handle, OWNERS)?.settings.lock().environment = mode;
    Ok(())
}
