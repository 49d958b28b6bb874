//! The memory of a pool that can be exported to other processes. The pool's allocations are parts of one memory file.
//!
//! A process that imports the pool receives the file, and finds an allocation by the allocation's
//! offset in the file. The size of the file is the maximum size of the pool, but only pages that
//! have been accessed use memory.
//!
//! Invariant: allocations of an arena never overlap. Freed memory is zeroed before it is allocated again.

use parking_lot::Mutex;

use super::extents::Extents;
use super::shared::{Label, SharedKind, SharedMemory};
use super::space::{Backing, Record};
use super::{AddressSpace, Allocation, MemoryError, Request};

/// The memory of one pool.
#[derive(Debug)]
pub struct Arena {
    memory: SharedMemory,
    free: Mutex<Extents>,
}

impl Arena {
    /// Creates an arena of at most `bytes` bytes. `device` is the ordinal of the arena's device, or
    /// -1 for the host.
    ///
    /// # Errors
    /// [`MemoryError::System`] if the file cannot be created.
    pub fn new(bytes: u64, device: i32) -> Result<Arena, MemoryError> {
        let kind = SharedKind::Pool;
        let memory = SharedMemory::create(bytes, Label { kind, device })?;
        Ok(Arena::of(memory))
    }

    /// Creates an arena for a memory file, such as the file of another process's pool.
    pub fn of(memory: SharedMemory) -> Arena {
        let free = Mutex::new(Extents::new(0, memory.bytes()));
        Arena { memory, free }
    }

    /// Returns the memory file of the arena.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    pub(super) fn give(&self, offset: u64, len: u64) {
        // A range that cannot be zeroed is never reused, because its next owner could read the old content.
        if self.memory.empty(offset, len).is_ok() {
            self.free.lock().give(offset, len);
        }
    }
}

impl AddressSpace {
    /// Allocates memory from an arena that this process created.
    ///
    /// # Errors
    /// Returns the same errors as [`AddressSpace::alloc`].
    pub fn alloc_in(
        &self,
        arena: &std::sync::Arc<Arena>,
        request: &Request,
    ) -> Result<Allocation, MemoryError> {
        let out_of_memory = || MemoryError::OutOfMemory {
            requested: request.bytes,
            free: self.usage.free(request.kind, request.device),
        };
        let mut books = self.books.lock();
        let len = books.pages.rounded(request.bytes).filter(|&len| len != 0);
        let len = len.ok_or(MemoryError::InvalidSize(request.bytes))?;
        if !self.usage.take(request.kind, request.device, len) {
            return Err(out_of_memory());
        }
        let offset = arena.free.lock().take(len);
        let base = offset.and_then(|offset| books.pages.open_shared(&arena.memory, offset, len));
        let (Some(offset), Some(base)) = (offset, base) else {
            self.usage.give(request.kind, request.device, len);
            if let Some(offset) = offset {
                arena.give(offset, len);
            }
            return Err(out_of_memory());
        };
        drop(books);
        let allocation = Allocation::new(base, request, self.new_id());
        let place = Backing::Arena(std::sync::Arc::clone(arena), offset);
        self.enter(Record::new(allocation, place))
    }

    /// Returns the arena of the allocation that starts at `base`, and the allocation's offset in the arena; `None` if
    /// the allocation is not in an arena.
    pub fn arena_offset(&self, base: u64) -> Option<(std::sync::Arc<Arena>, u64)> {
        match self.index.read().get(&base)?.place {
            Backing::Arena(ref arena, offset) => Some((std::sync::Arc::clone(arena), offset)),
            _ => None,
        }
    }
}
