//! Values that control conditional graph nodes: device code sets them, and the runtime reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::object_table::Table;
use crate::process::next_id;

/// A value that controls a conditional node, and the handle of this value.
pub(crate) struct ConditionalValue {
    id: u64,
    value: AtomicU32,
}

/// All conditional values, by handle.
static VALUES: Table<u64, ConditionalValue> = Table::new();

impl Drop for ConditionalValue {
    fn drop(&mut self) {
        VALUES.remove(&self.id);
    }
}

impl ConditionalValue {
    pub(crate) fn new(value: u32) -> Arc<ConditionalValue> {
        let new = Arc::new(ConditionalValue {
            id: next_id(),
            value: AtomicU32::new(value),
        });
        VALUES.add(new.id, Arc::downgrade(&new));
        new
    }

    /// Returns the handle that device code passes to `cudaGraphSetConditional`. The handle is unique in the process.
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

/// Sets the value with this handle (`cudaGraphSetConditional`); returns false if no such handle exists.
pub(crate) fn set(handle: u64, value: u32) -> bool {
    let found = VALUES.get(&handle);
    if let Some(found) = &found {
        found.set(value);
    }
    found.is_some()
}
