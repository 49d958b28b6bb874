//! The numbers that decide what conditional graph nodes do. Host code reads them, device code sets them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::process::next_id;

/// A number and its handle.
pub(crate) struct ConditionalValue {
    id: u64,
    value: AtomicU32,
}

/// The values by handle; the table keeps none of them alive.
static VALUES: LazyLock<RwLock<FxHashMap<u64, Weak<ConditionalValue>>>> =
    LazyLock::new(RwLock::default);

impl Drop for ConditionalValue {
    fn drop(&mut self) {
        VALUES.write().remove(&self.id);
    }
}

impl ConditionalValue {
    pub(crate) fn new(value: u32) -> Arc<ConditionalValue> {
        let new = Arc::new(ConditionalValue {
            id: next_id(),
            value: AtomicU32::new(value),
        });
        VALUES.write().insert(new.id, Arc::downgrade(&new));
        new
    }

    /// The handle that device code passes, unique in the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn get(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, value: u32) {
        self.value.store(value, Ordering::Release);
    }
}

/// Sets the value with a handle (`cudaGraphSetConditional`); false if there is no such handle.
pub(crate) fn set(handle: u64, value: u32) -> bool {
    let found = VALUES.read().get(&handle).and_then(Weak::upgrade);
    if let Some(found) = &found {
        found.set(value);
    }
    found.is_some()
}
