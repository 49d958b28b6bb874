//! The virtual memory interface (`cuMemAddressReserve`, `cuMemCreate`, `cuMemMap` and related functions). The program
//! reserves address ranges, creates physical allocations, maps these allocations in the ranges, and sets access rights.
//!
//! The program's ranges are inside the reserved range of the [`AddressSpace`], so that address
//! checks, guards and fault handling treat them like other device memory. A physical allocation is
//! a memory file. All mappings of the file contain the same bytes, and other processes can also map
//! the file.
//!
//! Rights are stored for each device and for the host. All devices are in this process and use the
//! same pages, so the rights of the pages are the union of all these rights. An access therefore
//! faults only if neither the host nor any device has the right to perform it. If a device accesses
//! memory for which only another device or the host has the right, the access does not fault.
//!
//! Invariant: a mapping is inside one range, mappings never overlap, and every page of a range that is not mapped is
//! inaccessible. A mapping keeps its physical allocation alive.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reservation::Rights;
use super::shared::{Label, SharedKind, SharedMemory};
use super::space::{Backing, Record};
use super::usage::Charge;
use super::{AddressSpace, Allocation, MemoryError, MemoryKind};

/// The granularity of the virtual memory interface, in bytes. The sizes of reserved ranges and of physical allocations,
/// and the addresses and sizes of mappings, must be multiples of the granularity.
pub const GRANULARITY: u64 = 2 << 20;

/// Rights of a device or of the host for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Access {
    /// No access.
    #[default]
    None,
    /// Read access only.
    Read,
    /// Read and write access.
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
    /// Returns the size of the physical allocation in bytes.
    pub fn size(&self) -> u64 {
        self.memory.bytes()
    }

    /// Returns the ordinal of the allocation's device; -1 for the host.
    pub fn device(&self) -> i32 {
        self.memory.label().device
    }

    /// Returns the ID of the allocation, which is unique among all allocations of the address space, never 0 and never
    /// reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the allocation can be exported to other processes: it was created for export, or was imported.
    pub fn is_exportable(&self) -> bool {
        self.exportable
    }

    /// Returns the flags that the creator stored with the allocation; 0 for an imported allocation.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// Returns the memory file that contains the physical allocation.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

/// A range that the program reserved. `taken` is the argument for [`super::pages::Pages::unreserve`].
#[derive(Clone, Copy, Debug)]
struct Range {
    len: u64,
    taken: (u64, u64),
}

#[derive(Debug)]
struct Mapping {
    len: u64,
    physical: Arc<Physical>,
    /// Rights by device; the last element is the rights of the host.
    access: Vec<Access>,
}

/// All reserved ranges and all mappings of the virtual memory interface.
#[derive(Debug, Default)]
pub(super) struct Virtual {
    ranges: BTreeMap<u64, Range>,
    mappings: BTreeMap<u64, Mapping>,
}

impl Virtual {
    /// Returns the start and the length of the range that contains `len` bytes at `base`.
    fn range(&self, base: u64, len: u64) -> Option<(u64, u64)> {
        let (&start, range) = self.ranges.range(..=base).next_back()?;
        let offset = base - start;
        (offset < range.len && len <= range.len - offset).then_some((start, range.len))
    }

    /// Returns the starts of the mappings that together cover exactly `len` bytes at `base`.
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

    /// Returns whether any part of `len` bytes at `base` is mapped.
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
    /// Reserves `len` bytes of addresses at a multiple of `align` and of the granularity, and
    /// returns their start. Uses the addresses at `hint` if these addresses are free and `hint` is
    /// a multiple of `align` and of the granularity. `len` must be a multiple of the granularity.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] for an invalid length or alignment; [`MemoryError::OutOfMemory`] if no addresses
    /// are left.
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

    /// Releases addresses that [`AddressSpace::reserve`] returned.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if `base` and `len` are not the start and the length of a range, or if part of the
    /// range is mapped.
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

    /// Creates a physical allocation of a device, or of the host if `device` is -1.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] unless the size is a positive multiple of the granularity;
    /// [`MemoryError::OutOfMemory`] if the allocation would exceed the memory limit; [`MemoryError::System`] if a
    /// system call fails.
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

    /// Creates a physical allocation whose memory is a memory file of another process.
    ///
    /// # Errors
    /// [`MemoryError::NotShared`] if the file does not contain a physical allocation.
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

    /// Maps the first `len` bytes of a physical allocation at `base`. The mapping has no access rights at first.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] for an invalid length or address; [`MemoryError::NotAllocated`] if the addresses
    /// are not inside one range, or if part of them is mapped; [`MemoryError::OutOfMemory`] if the process has too many
    /// mappings; [`MemoryError::System`] if a system call fails.
    pub fn map(&self, base: u64, len: u64, physical: &Arc<Physical>) -> Result<(), MemoryError> {
        if len == 0 || !is_granular(len) || !is_granular(base) || len > physical.size() {
            return Err(MemoryError::InvalidSize(len));
        }
        let mut all = self.virtual_memory.lock();
        if all.range(base, len).is_none() || all.is_mapped(base, len) {
            return Err(MemoryError::NotAllocated(base));
        }
        {
            let mut books = self.books.lock();
            if !books.pages.allow_mapping() {
                return Err(MemoryError::OutOfMemory {
                    requested: len,
                    free: 0,
                });
            }
            let reservation = books.pages.reservation();
            reservation.map_shared(base, len, &physical.memory, 0)?;
            if let Err(error) = reservation.protect(base, len, Rights::None) {
                reservation.reset(base, len)?;
                return Err(error);
            }
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
        let mut record = Record::new(allocation, Backing::Foreign);
        record.calls.allocated = self.call();
        self.index.write().insert(base, record);
        Ok(())
    }

    /// Removes the mappings that together cover exactly `len` bytes at `base`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if no mappings cover exactly these addresses; [`MemoryError::System`] if a system
    /// call fails. In the latter case, the mapping for which the call failed and all later mappings remain.
    pub fn unmap(&self, base: u64, len: u64) -> Result<(), MemoryError> {
        let mut all = self.virtual_memory.lock();
        let starts = all.exactly(base, len);
        let starts = starts.ok_or(MemoryError::NotAllocated(base))?;
        for start in starts {
            let Some(mapping) = all.mappings.get(&start) else {
                continue;
            };
            let len = mapping.len;
            self.books.lock().pages.reservation().reset(start, len)?;
            self.index.write().remove(&start);
            all.mappings.remove(&start);
        }
        Ok(())
    }

    /// Changes the rights of a device, or of the host if `device` is -1. The change applies to the mappings that
    /// together cover exactly `len` bytes at `base`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if no mappings cover exactly these addresses; [`MemoryError::System`] if a system
    /// call fails. In the latter case, the mapping for which the call failed and all later mappings keep their rights.
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
            let mut changed = mapping.access.clone();
            if let Some(slot) = changed.get_mut(place) {
                *slot = access;
            }
            let rights = match changed.iter().max() {
                Some(Access::ReadWrite) => Rights::ReadWrite,
                Some(Access::Read) => Rights::Read,
                _ => Rights::None,
            };
            let books = self.books.lock();
            let reservation = books.pages.reservation();
            reservation.protect(start, mapping.len, rights)?;
            mapping.access = changed;
        }
        Ok(())
    }

    /// Returns the rights of a device, or of the host if `device` is -1, at an address; `None` if the address is not
    /// mapped.
    pub fn access(&self, address: u64, device: i32) -> Option<Access> {
        let all = self.virtual_memory.lock();
        let (_, mapping) = all.mapping(address)?;
        let place = usize::try_from(device).unwrap_or(mapping.access.len() - 1);
        mapping.access.get(place).copied()
    }

    /// Returns the physical allocation that is mapped at an address.
    pub fn physical_at(&self, address: u64) -> Option<Arc<Physical>> {
        let all = self.virtual_memory.lock();
        all.mapping(address).map(|(_, m)| Arc::clone(&m.physical))
    }

    /// Returns the start and the length of the range that contains an address.
    pub fn range_at(&self, address: u64) -> Option<(u64, u64)> {
        self.virtual_memory.lock().range(address, 1)
    }
}

#[cfg(test)]
#[path = "virtual_memory_tests.rs"]
mod tests;
