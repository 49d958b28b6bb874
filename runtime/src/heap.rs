//! The heap of device-side malloc and free.
//!
//! Each context has one region of device memory for its heap. The first allocation creates the region, with the size
//! that `Limit::MallocHeapSize` has at that time. The bookkeeping is outside the region, so device code cannot corrupt
//! it. Invariant: free blocks are never adjacent, because adjacent blocks are joined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::machine::Machine;
use crate::mem::Request;
use crate::pointer::{HostFlags, PointerKind};

/// Alignment of allocations in bytes.
const ALIGN: u64 = 16;
/// Size in bytes of the smallest heap.
const LEAST: u64 = 4 << 10;

/// The heap of a context.
pub struct DeviceHeap {
    machine: Weak<Machine>,
    device: i32,
    context: u64,
    state: Mutex<HeapState>,
}

#[derive(Default)]
struct HeapState {
    base: u64,
    /// Size of each free block, by start address. `by_size` contains the size and the start address of each free block.
    free: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    used: FxHashMap<u64, u64>,
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

    /// Creates a heap that is always full.
    #[cfg(test)]
    pub(crate) fn detached() -> Arc<DeviceHeap> {
        Arc::new(DeviceHeap {
            machine: Weak::new(),
            device: 0,
            context: 0,
            state: Mutex::default(),
        })
    }

    /// Allocates `bytes` bytes, aligned to 16. Returns 0 when no free block is large enough. The first call creates the
    /// region, with `limit` bytes.
    pub fn allocate(&self, bytes: u64, limit: u64) -> u64 {
        let mut state = self.state.lock();
        if state.base == 0 {
            match self.region(limit) {
                Some((base, bytes)) => state.start(base, bytes),
                None => return 0,
            }
        }
        state.allocate(bytes)
    }

    /// Frees a block; returns false when no allocated block starts at `address`.
    pub fn free(&self, address: u64) -> bool {
        self.state.lock().release(address)
    }

    /// Returns address and size of each allocated block, in ascending order of addresses.
    pub(crate) fn unfreed(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let mut blocks: Vec<_> = state.used.iter().map(|(&at, &size)| (at, size)).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Removes all blocks. The memory of the region is freed together with the context's memory.
    pub(crate) fn clear(&self) {
        *self.state.lock() = HeapState::default();
    }

    /// Allocates the region of the heap: `limit` bytes, or fewer if the device does not have that much memory. Returns
    /// its address and size.
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

    /// Allocates at the start of the smallest free block that is large enough. Returns 0 if no block is large enough.
    fn allocate(&mut self, bytes: u64) -> u64 {
        let Some(size) = bytes.max(1).checked_next_multiple_of(ALIGN) else {
            return 0;
        };
        let Some(&(found, start)) = self.by_size.range((size, 0)..).next() else {
            return 0;
        };
        self.remove_free(start, found);
        self.add_free(start + size, found - size);
        self.used.insert(start, size);
        start
    }

    fn release(&mut self, address: u64) -> bool {
        let Some(mut size) = self.used.remove(&address) else {
            return false;
        };
        let mut start = address;
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
        true
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
