//! The heap from which `malloc` in device code allocates memory.
//!
//! Each context has one region of device memory for its heap. The first allocation creates the region, with the size
//! that `Limit::MallocHeapSize` has at that time. The list of blocks is outside the region, so
//! device code cannot corrupt this list. Invariant: free blocks are never adjacent, because
//! adjacent blocks are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::machine::Machine;
use crate::mem::Request;
use crate::pointer::{HostFlags, PointerKind};

/// Alignment of allocations in bytes.
const ALIGN: u64 = 16;
/// Size in bytes of the smallest heap.
const LEAST: u64 = 4 << 10;
/// Number of unused bytes after each block in runs that examine accesses.
const RED_ZONE: u64 = 32;

/// A heap of a context. A context has one heap for `malloc` and one for the parameters of child launches.
pub struct DeviceHeap {
    machine: Weak<Machine>,
    device: i32,
    context: u64,
    state: Mutex<HeapState>,
}

#[derive(Default)]
struct HeapState {
    base: u64,
    /// Size of the region in bytes.
    bytes: u64,
    /// The size of each free block, by start address. The next field contains the same blocks,
    /// ordered by size.
    free: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    /// The blocks that device code has allocated, by start address.
    used: BTreeMap<u64, Used>,
    /// Size in bytes of the red zone: the unused bytes after each block. If the size is not 0,
    /// freed blocks are reused only when the heap is full.
    red_zone: u64,
    /// Size of each freed block that is not available for reuse yet, by start address.
    resting: BTreeMap<u64, u64>,
}

/// An allocated block.
#[derive(Clone, Copy)]
struct Used {
    /// Number of bytes that the block occupies.
    size: u64,
    /// Number of bytes that device code has requested.
    requested: u64,
}

impl DeviceHeap {
    pub(crate) fn new(machine: &Arc<Machine>, device: i32, context: u64) -> Arc<DeviceHeap> {
        Arc::new(DeviceHeap {
            machine: Arc::downgrade(machine),
            device,
            context,
            state: Mutex::default(),
        })
    }

    /// Creates a heap without memory, in which every allocation fails.
    #[cfg(test)]
    pub(crate) fn detached() -> Arc<DeviceHeap> {
        Arc::new(DeviceHeap {
            machine: Weak::new(),
            device: 0,
            context: 0,
            state: Mutex::default(),
        })
    }

    /// Allocates `bytes` bytes, aligned to 16. Returns 0 when no free block is large enough or the region cannot be
    /// created. The first call creates the region, with at most `limit` bytes.
    pub fn allocate(&self, bytes: u64, limit: u64) -> u64 {
        let mut state = self.state.lock();
        if state.base == 0 {
            match self.region(limit) {
                Some((base, bytes)) => state.start(base, bytes),
                None => return 0,
            }
            if self.is_examined() {
                state.red_zone = RED_ZONE;
            }
        }
        let found = state.allocate(bytes);
        if found == 0 && !state.resting.is_empty() {
            state.wake();
            return state.allocate(bytes);
        }
        found
    }

    /// Returns whether this is a checking run that examines the accesses of kernels.
    fn is_examined(&self) -> bool {
        let machine = self.machine.upgrade();
        let findings = machine.and_then(|machine| machine.findings.clone());
        findings.is_some_and(|findings| findings.tools().examine_accesses())
    }

    /// Returns the address range of the region; empty if device code has not allocated memory.
    pub(crate) fn region_range(&self) -> Range<u64> {
        let state = self.state.lock();
        state.base..state.base + state.bytes
    }

    /// Returns the address range of the allocated block that contains an address. The range
    /// contains only the bytes that device code has requested.
    pub(crate) fn block(&self, address: u64) -> Option<Range<u64>> {
        let state = self.state.lock();
        let (&start, used) = state.used.range(..=address).next_back()?;
        let block = start..start + used.requested;
        block.contains(&address).then_some(block)
    }

    /// Returns whether an address is in a freed block that is not available for reuse yet.
    pub(crate) fn was_freed(&self, address: u64) -> bool {
        let state = self.state.lock();
        let found = state.resting.range(..=address).next_back();
        found.is_some_and(|(&start, &size)| address - start < size)
    }

    /// Frees a block; returns false when no allocated block starts at `address`.
    pub fn free(&self, address: u64) -> bool {
        self.state.lock().release(address)
    }

    /// Returns the address and the size of each allocated block, in ascending order of addresses.
    pub(crate) fn unfreed(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let blocks = state.used.iter();
        blocks
            .map(|(&start, used)| (start, used.requested))
            .collect()
    }

    /// Removes all blocks. The memory of the region is freed together with the context's memory.
    pub(crate) fn clear(&self) {
        *self.state.lock() = HeapState::default();
    }

    /// Allocates the region of the heap: `limit` bytes, or fewer if the device does not have that much memory. Returns
    /// the address and the size of the region.
    fn region(&self, limit: u64) -> Option<(u64, u64)> {
        let machine = self.machine.upgrade()?;
        let mut bytes = limit;
        while bytes >= LEAST {
            let request = Request {
                size: bytes,
                kind: PointerKind::Device,
                context: self.context,
                device: self.device,
                flags: HostFlags::default(),
                pooled: false,
                internal: true,
                constant: false,
            };
            match machine.memory.allocate(request) {
                Ok(allocation) => return Some((allocation.base, bytes)),
                Err(_) => bytes /= 2,
            }
        }
        None
    }
}

impl HeapState {
    fn start(&mut self, base: u64, size: u64) {
        self.base = base;
        self.bytes = size;
        self.add_free(base, size / ALIGN * ALIGN);
    }

    fn add_free(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.free.insert(start, size);
            self.by_size.insert((size, start));
        }
    }

    fn remove_free(&mut self, start: u64, size: u64) {
        self.free.remove(&start);
        self.by_size.remove(&(size, start));
    }

    /// Allocates `bytes` bytes, followed by the red zone, at the start of the smallest free block
    /// that is large enough. Returns 0 if no block is large enough.
    fn allocate(&mut self, bytes: u64) -> u64 {
        let padded = bytes.max(1).checked_add(self.red_zone);
        let Some(size) = padded.and_then(|size| size.checked_next_multiple_of(ALIGN)) else {
            return 0;
        };
        let Some(&(found, start)) = self.by_size.range((size, 0)..).next() else {
            return 0;
        };
        self.remove_free(start, found);
        self.add_free(start + size, found - size);
        let used = Used {
            size,
            requested: bytes,
        };
        self.used.insert(start, used);
        start
    }

    fn release(&mut self, address: u64) -> bool {
        let Some(used) = self.used.remove(&address) else {
            return false;
        };
        match self.red_zone {
            0 => self.give(address, used.size),
            _ => {
                self.resting.insert(address, used.size);
            }
        }
        true
    }

    /// Makes the freed blocks in `resting` available for reuse.
    fn wake(&mut self) {
        for (start, size) in std::mem::take(&mut self.resting) {
            self.give(start, size);
        }
    }

    /// Adds a block to the free blocks, and joins it with adjacent free blocks.
    fn give(&mut self, address: u64, bytes: u64) {
        let (mut start, mut size) = (address, bytes);
        if let Some(&after) = self.free.get(&(start + size)) {
            self.remove_free(start + size, after);
            size += after;
        }
        let before = self.free.range(..start).next_back();
        if let Some((&other, &length)) = before
            && other + length == start
        {
            self.remove_free(other, length);
            start = other;
            size += length;
        }
        self.add_free(start, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_joined_again() {
        let mut state = HeapState::default();
        state.start(0x1000, 256);
        let blocks: Vec<u64> = (0..4).map(|_| state.allocate(50)).collect();
        assert_eq!(blocks, [0x1000, 0x1040, 0x1080, 0x10c0]);
        assert_eq!(state.allocate(1), 0, "full");
        for at in [1, 3, 0, 2] {
            assert!(state.release(blocks[at]));
        }
        assert!(!state.release(blocks[0]), "freed twice");
        assert_eq!(state.free, BTreeMap::from([(0x1000, 256)]));
        assert_eq!(state.by_size.len(), 1);
        assert_eq!(state.allocate(256), 0x1000);
    }

    #[test]
    fn the_smallest_fitting_block_is_taken() {
        let mut state = HeapState::default();
        state.start(0x1000, 160);
        let a = state.allocate(32);
        let _b = state.allocate(16);
        let c = state.allocate(16);
        let _d = state.allocate(16);
        state.release(a);
        state.release(c);
        assert_eq!(state.allocate(16), c);
        assert_eq!(state.allocate(u64::MAX), 0);
    }
}
