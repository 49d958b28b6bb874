//! The virtual memory interface: ranges of addresses that the program reserves, physical allocations that it makes,
//! and mappings of these in those, with rights.
//!
//! Ranges lie inside the device's one reservation, so that kernels' checks, guards and faults need to know nothing of
//! them. A physical allocation is a memory file: mapped twice it shows the same bytes, and another process can map it.
//!
//! Rights are kept for each device and for the host; the pages have the union of them, because all devices are this
//! process. So an access faults when nobody has the right, and not when only another device has it.
//!
//! Invariant: a mapping lies in one range, mappings never overlap, and every page of a range that is not mapped is
//! closed. A mapping keeps its physical allocation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reservation::Rights;
use super::shared::{Label, SharedKind, SharedMemory};
use super::space::{Backing, Record};
use super::usage::Charge;
use super::{AddressSpace, Allocation, MemoryError, MemoryKind};

/// Sizes and addresses of the interface are multiples of this.
pub const GRANULARITY: u64 = 2 << 20;

/// What somebody may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Access {
    /// Nothing.
    #[default]
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// A physical allocation.
#[derive(Debug)]
pub struct Physical {
    memory: SharedMemory,
    id: u64,
    exportable: bool,
    flags: u64,
    _charge: Option<Charge>,
}

impl Physical {
    /// Bytes.
    pub fn size(&self) -> u64 {
        self.memory.bytes()
    }

    /// Ordinal of its device; -1: the host.
    pub fn device(&self) -> i32 {
        self.memory.label().device
    }

    /// Unique among all memory, never 0, never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether it was made to be given to other processes.
    pub fn is_exportable(&self) -> bool {
        self.exportable
    }

    /// What the caller keeps with it.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// The file.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

/// A range that the program reserved, and what was taken for it.
#[derive(Clone, Copy, Debug)]
struct Range {
    len: u64,
    taken: (u64, u64),
}

#[derive(Debug)]
struct Mapping {
    len: u64,
    physical: Arc<Physical>,
    /// By device; the host comes last.
    access: Vec<Access>,
}

/// All ranges and mappings.
#[derive(Debug, Default)]
pub(super) struct Virtual {
    ranges: BTreeMap<u64, Range>,
    mappings: BTreeMap<u64, Mapping>,
}

impl Virtual {
    /// The range that holds `len` bytes at `base`.
    fn range(&self, base: u64, len: u64) -> Option<(u64, u64)> {
        let (&start, range) = self.ranges.range(..=base).next_back()?;
        let offset = base - start;
        (offset < range.len && len <= range.len - offset).then_some((start, range.len))
    }

    /// The starts of the mappings that make up exactly `len` bytes at `base`.
    fn exactly(&self, base: u64, len: u64) -> Option<Vec<u64>> {
        let end = base.checked_add(len)?;
        let mut at = base;
        let mut starts = Vec::new();
        while at < end {
            starts.push(at);
            at += self.mappings.get(&at)?.len;
        }
        (at == end && !starts.is_empty()).then_some(starts)
    }

    /// Whether something is mapped in `len` bytes at `base`.
    fn is_mapped(&self, base: u64, len: u64) -> bool {
        let last = self.mappings.range(..base + len).next_back();
        last.is_some_and(|(start, mapping)| start + mapping.len > base)
    }

    fn mapping(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.len).then_some((start, mapping))
    }
}

fn is_granular(value: u64) -> bool {
    value.is_multiple_of(GRANULARITY)
}

impl AddressSpace {
    /// Reserves `len` bytes of addresses, a multiple of the granularity, at a multiple of `align` (0: any); at `hint`
    /// if that is free.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`], [`MemoryError::OutOfMemory`].
    pub fn reserve(&self, len: u64, align: u64, hint: u64) -> Result<u64, MemoryError> {
        if len == 0 || !is_granular(len) || (align != 0 && !align.is_power_of_two()) {
            return Err(MemoryError::InvalidSize(len));
        }
        let align = align.max(GRANULARITY);
        let hint = (hint != 0 && hint.is_multiple_of(align)).then_some(hint);
        let mut all = self.virtual_memory.lock();
        let found = self.books.lock().pages.reserve(len, align, hint);
        let (base, taken) = found.ok_or(MemoryError::OutOfMemory {
            requested: len,
            free: 0,
        })?;
        all.ranges.insert(base, Range { len, taken });
        Ok(base)
    }

    /// Gives back the addresses that [`AddressSpace::reserve`] gave.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] when base and length are not those of a range, or something is mapped in it.
    pub fn unreserve(&self, base: u64, len: u64) -> Result<(), MemoryError> {
        let mut all = self.virtual_memory.lock();
        let range = all.ranges.get(&base).filter(|range| range.len == len);
        let taken = range.ok_or(MemoryError::NotAllocated(base))?.taken;
        if all.is_mapped(base, len) {
            return Err(MemoryError::NotAllocated(base));
        }
        all.ranges.remove(&base);
        self.books.lock().pages.unreserve(taken);
        Ok(())
    }

    /// Makes a physical allocation of a device, or of the host (-1).
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] unless the size is a multiple of the granularity,
    /// [`MemoryError::OutOfMemory`].
    pub fn create_physical(
        &self,
        bytes: u64,
        device: i32,
        exportable: bool,
        flags: u64,
    ) -> Result<Arc<Physical>, MemoryError> {
        if bytes == 0 || !is_granular(bytes) {
            return Err(MemoryError::InvalidSize(bytes));
        }
        let charge = Charge::new(&self.usage, device, bytes).ok_or(MemoryError::OutOfMemory {
            requested: bytes,
            free: self.usage.free(MemoryKind::Mapped, device),
        })?;
        let kind = SharedKind::Physical;
        let memory = SharedMemory::create(bytes, Label { kind, device })?;
        Ok(Arc::new(Physical {
            memory,
            id: self.new_id(),
            exportable,
            flags,
            _charge: Some(charge),
        }))
    }

    /// Another process's physical allocation.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] when the file holds something else.
    pub fn import_physical(&self, memory: SharedMemory) -> Result<Arc<Physical>, MemoryError> {
        let is_one = memory.label().kind == SharedKind::Physical;
        if !is_one || memory.bytes() == 0 || !is_granular(memory.bytes()) {
            return Err(MemoryError::NotShared);
        }
        Ok(Arc::new(Physical {
            memory,
            id: self.new_id(),
            exportable: true,
            flags: 0,
            _charge: None,
        }))
    }

    /// Maps the first `len` bytes of a physical allocation at `base`, without rights.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] for a length that is none; [`MemoryError::NotAllocated`] when the addresses are
    /// not inside one range, or partly mapped; [`MemoryError::System`].
    pub fn map(&self, base: u64, len: u64, physical: &Arc<Physical>) -> Result<(), MemoryError> {
        if len == 0 || !is_granular(len) || !is_granular(base) || len > physical.size() {
            return Err(MemoryError::InvalidSize(len));
        }
        let mut all = self.virtual_memory.lock();
        if all.range(base, len).is_none() || all.is_mapped(base, len) {
            return Err(MemoryError::NotAllocated(base));
        }
        {
            let books = self.books.lock();
            let reservation = books.pages.reservation();
            reservation.map_shared(base, len, &physical.memory, 0)?;
            reservation.protect(base, len, Rights::None)?;
        }
        let access = vec![Access::None; self.usage.devices() + 1];
        let physical = Arc::clone(physical);
        let allocation = Allocation {
            base,
            size: len,
            kind: MemoryKind::Mapped,
            device: physical.device(),
            owner: 0,
            flags: 0,
            id: physical.id,
        };
        all.mappings.insert(
            base,
            Mapping {
                len,
                physical,
                access,
            },
        );
        let place = Backing::Foreign;
        self.index
            .write()
            .insert(base, Record::new(allocation, place));
        Ok(())
    }

    /// Undoes whole mappings that make up `len` bytes at `base`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] when they do not.
    pub fn unmap(&self, base: u64, len: u64) -> Result<(), MemoryError> {
        let mut all = self.virtual_memory.lock();
        let starts = all.exactly(base, len);
        let starts = starts.ok_or(MemoryError::NotAllocated(base))?;
        for start in starts {
            self.index.write().remove(&start);
            if let Some(mapping) = all.mappings.remove(&start) {
                let books = self.books.lock();
                books.pages.reservation().reset(start, mapping.len)?;
            }
        }
        Ok(())
    }

    /// Changes what a device, or the host (-1), may do with whole mappings that make up `len` bytes at `base`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] when they do not.
    pub fn set_access(
        &self,
        base: u64,
        len: u64,
        device: i32,
        access: Access,
    ) -> Result<(), MemoryError> {
        let mut all = self.virtual_memory.lock();
        let starts = all.exactly(base, len);
        let starts = starts.ok_or(MemoryError::NotAllocated(base))?;
        for start in starts {
            let Some(mapping) = all.mappings.get_mut(&start) else {
                continue;
            };
            let place = usize::try_from(device).unwrap_or(mapping.access.len() - 1);
            if let Some(slot) = mapping.access.get_mut(place) {
                *slot = access;
            }
            let rights = match mapping.access.iter().max() {
                Some(Access::ReadWrite) => Rights::ReadWrite,
                Some(Access::Read) => Rights::Read,
                _ => Rights::None,
            };
            let books = self.books.lock();
            let reservation = books.pages.reservation();
            reservation.protect(start, mapping.len, rights)?;
        }
        Ok(())
    }

    /// What a device, or the host (-1), may do at a mapped address; `None` when nothing is mapped there.
    pub fn access(&self, address: u64, device: i32) -> Option<Access> {
        let all = self.virtual_memory.lock();
        let (_, mapping) = all.mapping(address)?;
        let place = usize::try_from(device).unwrap_or(mapping.access.len() - 1);
        mapping.access.get(place).copied()
    }

    /// The physical allocation that is mapped at an address.
    pub fn physical_at(&self, address: u64) -> Option<Arc<Physical>> {
        let all = self.virtual_memory.lock();
        all.mapping(address).map(|(_, m)| Arc::clone(&m.physical))
    }

    /// The range that the program reserved around an address: start and length.
    pub fn range_at(&self, address: u64) -> Option<(u64, u64)> {
        self.virtual_memory.lock().range(address, 1)
    }
}

#[cfg(test)]
#[path = "virtual_memory_tests.rs"]
mod tests;
