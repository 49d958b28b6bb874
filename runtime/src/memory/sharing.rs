//! Allocations that other processes use (`cuIpcGetMemHandle` and related functions).
//!
//! Device memory is private memory of this process, because that is the fastest kind, gets huge pages, and most
//! programs share nothing. (Measured with 64 MiB on an EPYC: the first access takes 7 ms, for a memory file 190 ms;
//! reading in order 2.0 and 4.3 ms; 2 million random reads 14 and 36 ms.) An allocation becomes shared when it is
//! exported: its bytes are copied into a memory file, which then replaces its pages. Meanwhile writers wait
//! (`fault::hold`), so that no write is lost. Small allocations are in slabs; then the whole slab becomes shared, and
//! an importer maps only the pages of its allocation.
//!
//! Invariant: an export changes neither the address nor the content of an allocation.

use std::sync::Arc;

use super::shared::{Label, SharedKind, SharedMemory};
use super::space::{Backing, Books, Record};
use super::{AddressSpace, Allocation, MemoryError, MemoryKind, Request};
use crate::fault::hold;

/// The location of an exported allocation.
#[derive(Clone, Debug)]
pub struct Export {
    /// The memory file.
    pub memory: Arc<SharedMemory>,
    /// Offset of the allocation's first byte in the file.
    pub offset: u64,
    /// The exported allocation.
    pub allocation: Allocation,
}

impl AddressSpace {
    /// Makes the device memory that starts at `base` accessible to other processes; later calls return the same file.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] unless an allocation of kind `Device` starts there; [`MemoryError::System`].
    pub fn export(&self, base: u64) -> Result<Export, MemoryError> {
        // The lock of the index is held so that the allocation is not freed meanwhile.
        let index = self.index.read();
        let record = index
            .get(&base)
            .filter(|record| record.allocation.kind == MemoryKind::Device)
            .ok_or(MemoryError::NotAllocated(base))?;
        let mut books = self.books.lock();
        let (start, len) = match record.place {
            Backing::Piece(len) => (base, books.pages.rounded(len).unwrap_or(len)),
            Backing::Slab(slab) => (slab, books.pages.slab_len()),
            _ => return Err(MemoryError::NotAllocated(base)),
        };
        let allocation = record.allocation;
        let memory = match books.shared.get(&start) {
            Some(memory) => Arc::clone(memory),
            None => books.share(start, len, allocation.device)?,
        };
        Ok(Export {
            memory,
            offset: base - start,
            allocation,
        })
    }

    /// Maps `request.bytes` bytes at `offset` of another process's memory.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] if the bytes are not inside the file, [`MemoryError::OutOfMemory`].
    pub fn import(
        &self,
        memory: &SharedMemory,
        offset: u64,
        request: &Request,
    ) -> Result<Allocation, MemoryError> {
        let end = offset.checked_add(request.bytes);
        if request.bytes == 0 || end.is_none_or(|end| end > memory.bytes()) {
            return Err(MemoryError::InvalidSize(request.bytes));
        }
        let mut books = self.books.lock();
        let page = books.pages.reservation().page();
        let first = offset & !(page - 1);
        let len = books.pages.rounded(offset - first + request.bytes);
        let start = len.and_then(|len| books.pages.open_shared(memory, first, len));
        let (Some(start), Some(len)) = (start, len) else {
            return Err(MemoryError::OutOfMemory {
                requested: request.bytes,
                free: 0,
            });
        };
        drop(books);
        let allocation = Allocation::new(start + (offset - first), request, self.new_id());
        let place = Backing::Imported { start, len };
        self.enter(Record::new(allocation, place))
    }
}

impl Books {
    /// Replaces an accessible piece with a memory file of the same content.
    fn share(
        &mut self,
        start: u64,
        len: u64,
        device: i32,
    ) -> Result<Arc<SharedMemory>, MemoryError> {
        let kind = SharedKind::Allocation;
        let memory = SharedMemory::create(len, Label { kind, device })?;
        let reservation = self.pages.reservation();
        let _hold = hold::writers(start..start + len);
        reservation.copy_into(start, len, &memory)?;
        reservation.map_shared(start, len, &memory, 0)?;
        let memory = Arc::new(memory);
        self.shared.insert(start, Arc::clone(&memory));
        Ok(memory)
    }
}
