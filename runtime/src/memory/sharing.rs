//! Allocations that other processes use (`cuIpcGetMemHandle` and related functions).
//!
//! By default, device memory is private memory of this process, because private memory is faster
//! than a memory file and can have huge pages, and because most programs do not share memory.
//! (Measured with 64 MiB on an EPYC processor, for private memory and for a memory file: first
//! access of all pages 7 ms and 190 ms; sequential read 2.0 ms and 4.3 ms; 2 million random reads
//! 14 ms and 36 ms.) When an allocation is exported, its bytes are copied into a memory file, which
//! then replaces its pages. Threads that write to the allocation wait until the copy is complete
//! (`fault::hold`), so that no write is lost. If the allocation is in a slab, the whole slab is
//! moved to a memory file; an importing process maps only the pages of the allocation.
//!
//! Invariant: an export changes neither the address nor the content of an allocation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::reservation::Rights;
use super::shared::{Label, SharedKind, SharedMemory};
use super::space::{Backing, Books, Record};
use super::{AddressSpace, Allocation, MemoryError, MemoryKind, Request};
use crate::fault::hold;

/// The memory file of an exported allocation, and the allocation's position in it.
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
    /// Makes the device memory that starts at `base` accessible to other processes. Later calls return the same file.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] unless an allocation of kind `Device` starts at `base`; [`MemoryError::System`] or
    /// [`MemoryError::Access`] if the memory cannot be moved to a file.
    pub fn export(&self, base: u64) -> Result<Export, MemoryError> {
        self.exported.store(true, Ordering::SeqCst);
        // The lock of the index is held, so that the allocation cannot be freed during the export.
        let index = self.index.read();
        let record = index
            .get(&base)
            .filter(|record| record.allocation.kind == MemoryKind::Device)
            .ok_or(MemoryError::NotAllocated(base))?;
        let mut books = self.books.lock();
        let (start, len) = match record.place {
            Backing::Piece(len) => (record.start(), books.pages.rounded(len).unwrap_or(len)),
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

    /// Maps `request.bytes` bytes at `offset` of the memory file of another process.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] if the bytes are not inside the file; [`MemoryError::OutOfMemory`] if no addresses
    /// are left.
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
    /// Replaces an accessible range of pages by a mapping of a new memory file with the same
    /// content.
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
        if let Err(error) = reservation.map_shared(start, len, &memory, 0) {
            reservation.protect(start, len, Rights::ReadWrite)?;
            return Err(error);
        }
        let memory = Arc::new(memory);
        self.shared.insert(start, Arc::clone(&memory));
        Ok(memory)
    }
}
