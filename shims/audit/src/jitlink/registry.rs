//! A map from handles to the links that have not been destroyed.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::code;
use super::link::Link;

static LINKS: Mutex<BTreeMap<usize, Link>> = Mutex::new(BTreeMap::new());

fn links() -> MutexGuard<'static, BTreeMap<usize, Link>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores a link and returns the handle with which the client refers to it.
pub(super) fn insert(link: Link) -> *mut c_void {
    let mut links = links();
    // Handles are spaced like addresses, because some clients treat them as pointers.
    let handle = links.last_key_value().map_or(16, |(last, _)| last + 16);
    links.insert(handle, link);
    handle as *mut c_void
}

/// Removes the link of a handle and returns it.
pub(super) fn remove(handle: *mut c_void) -> Option<Link> {
    links().remove(&(handle as usize))
}

/// Calls `act` with the link of a handle. The registry is locked during the call, so only one
/// thread at a time uses a link.
pub(super) fn with(handle: *mut c_void, act: impl FnOnce(&mut Link) -> c_int) -> c_int {
    match links().get_mut(&(handle as usize)) {
        Some(link) => act(link),
        None => code::INVALID_INPUT,
    }
}
