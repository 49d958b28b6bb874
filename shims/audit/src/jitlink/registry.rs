//! The links that clients hold, by number.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::code;
use super::link::Link;

static LINKS: Mutex<BTreeMap<usize, Link>> = Mutex::new(BTreeMap::new());

fn links() -> MutexGuard<'static, BTreeMap<usize, Link>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a link; the handle is for the client.
pub(super) fn insert(link: Link) -> *mut c_void {
    let mut links = links();
    // Spaced like addresses, which some clients take handles for.
    let handle = links.last_key_value().map_or(16, |(last, _)| last + 16);
    links.insert(handle, link);
    handle as *mut c_void
}

/// Takes a link from its client.
pub(super) fn remove(handle: *mut c_void) -> Option<Link> {
    links().remove(&(handle as usize))
}

/// Does something with a link. Only one thread links at a time.
pub(super) fn with(handle: *mut c_void, act: impl FnOnce(&mut Link) -> c_int) -> c_int {
    match links().get_mut(&(handle as usize)) {
        Some(link) => act(link),
        None => code::INVALID_INPUT,
    }
}
