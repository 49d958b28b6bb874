//! Frees device memory when the program requests it: memory of contexts, graphs and pools.

use crate::context::Context;
use crate::error::Result;
use crate::graph::free_from_outside;
use crate::mem::Allocation;
use crate::pointer::DevicePtr;
use crate::process::check_fork;

impl Context {
    /// Waits for all submitted work of the memory's context or, if the memory comes from a pool, of
    /// all contexts. Then frees the device or managed memory at `ptr`. Does nothing if `ptr` is
    /// null.
    ///
    /// # Errors
    /// [`Error::InvalidValue`](crate::Error::InvalidValue) when `ptr` is not the start of an allocation.
    pub fn free(&self, ptr: DevicePtr) -> Result<()> {
        check_fork()?;
        if ptr.is_null() {
            return Ok(());
        }
        if let Some(freed) = free_from_outside(ptr.address()) {
            let freed = freed?;
            freed.context().wait_for_everything();
            freed.set_allocated(false);
            return Ok(());
        }
        // Memory of a failed context can still be freed, because all work that might use the memory is complete or
        // dropped.
        self.wait_and_release(ptr.address(), Allocation::is_freeable)
    }

    /// Frees the device memory at `ptr` like [`Context::free`], but only if it is the allocation with this ID.
    pub(crate) fn free_by_id(&self, ptr: DevicePtr, id: u64) -> Result<()> {
        check_fork()?;
        let accept = |found: &Allocation| found.id == id && found.is_freeable();
        self.wait_and_release(ptr.address(), accept)
    }
}
