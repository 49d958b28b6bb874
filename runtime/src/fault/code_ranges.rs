//! The registry of generated code, which maps a program counter to the owner of the code, and the registry of the stacks
//! of workers. Signal handlers can read both registries.
//!
//! A registry is a linked list of arrays of slots (`Chunk`). The arrays are never freed; empty slots are reused. A
//! lookup takes no lock and allocates nothing, so it works in any signal handler. A lookup is a linear scan, which is
//! fast enough for one lookup per fault.
//!
//! Invariant: if the `version` of a slot is odd or changes during a read, the slot is being
//! written, and readers skip the slot. A reader never skips the slot of code that runs on its own
//! thread, because code is registered before any thread runs it, and stays registered as long as a
//! thread runs it. The same holds for the stack of the thread.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

const CHUNK_SLOTS: usize = 128;

/// One registered range of generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRange {
    /// Address of the first byte.
    pub start: u64,
    /// Address one past the last byte.
    pub end: u64,
    /// Owner ID that was passed at registration.
    pub owner: u64,
}

struct Slot {
    version: AtomicUsize,
    start: AtomicU64,
    end: AtomicU64,
    owner: AtomicU64,
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            version: AtomicUsize::new(0),
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            owner: AtomicU64::new(0),
        }
    }

    /// Returns a consistent copy of the slot's range; `None` if the slot is being written.
    fn read(&self) -> Option<CodeRange> {
        let before = self.version.load(Ordering::Acquire);
        let range = CodeRange {
            start: self.start.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
            owner: self.owner.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        let after = self.version.load(Ordering::Relaxed);
        (before == after && before & 1 == 0).then_some(range)
    }

    /// Replaces the range in the slot. The caller holds the write lock.
    fn write(&self, range: CodeRange) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.owner.store(range.owner, Ordering::Relaxed);
        self.version
            .store((version | 1).wrapping_add(1), Ordering::Release);
    }
}

struct Chunk {
    slots: [Slot; CHUNK_SLOTS],
    next: AtomicPtr<Chunk>,
}

impl Chunk {
    const fn new() -> Chunk {
        Chunk {
            slots: [const { Slot::new() }; CHUNK_SLOTS],
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Chunk> {
        let next = self.next.load(Ordering::Acquire);
        // SAFETY: `next` is null or was published by `grow`, which leaks the chunk.
        unsafe { next.as_ref() }
    }

    /// Appends a `Chunk` to `self`, which is the last element of the list, and returns the new `Chunk`. The caller
    /// holds the write lock.
    fn grow(&self) -> &'static Chunk {
        let chunk: &'static Chunk = Box::leak(Box::new(Chunk::new()));
        self.next
            .store(std::ptr::from_ref(chunk).cast_mut(), Ordering::Release);
        chunk
    }
}

/// A list of address ranges.
struct Registry {
    first: Chunk,
    write: Mutex<()>,
}

/// The ranges of generated code.
static CODE: Registry = Registry::new();
/// The stacks of workers, with their guards.
static STACKS: Registry = Registry::new();

const EMPTY: CodeRange = CodeRange {
    start: 0,
    end: 0,
    owner: 0,
};

impl Registry {
    const fn new() -> Registry {
        Registry {
            first: Chunk::new(),
            write: Mutex::new(()),
        }
    }

    fn register(&'static self, start: u64, len: usize, owner: u64) {
        if len == 0 {
            return;
        }
        let range = CodeRange {
            start,
            end: start.saturating_add(len as u64),
            owner,
        };
        let _writing = self.write.lock();
        self.find_slot(start)
            .or_else(|| self.find_slot(0))
            .unwrap_or_else(|| &self.last_chunk().grow().slots[0])
            .write(range);
    }

    fn unregister(&'static self, start: u64) -> bool {
        let _writing = self.write.lock();
        let slot = (start != 0).then(|| self.find_slot(start)).flatten();
        if let Some(slot) = slot {
            slot.write(EMPTY);
        }
        slot.is_some()
    }

    /// Returns the range that contains `address`. Takes no lock, and is safe in signal handlers.
    fn lookup(&'static self, address: u64) -> Option<CodeRange> {
        self.chunks()
            .flat_map(|chunk| chunk.slots.iter())
            .filter_map(Slot::read)
            .find(|range| range.start <= address && address < range.end)
    }

    fn chunks(&'static self) -> impl Iterator<Item = &'static Chunk> {
        std::iter::successors(Some(&self.first), |chunk| chunk.next())
    }

    fn last_chunk(&'static self) -> &'static Chunk {
        self.chunks().last().expect("the first chunk is static")
    }

    fn find_slot(&'static self, start: u64) -> Option<&'static Slot> {
        self.chunks()
            .flat_map(|chunk| chunk.slots.iter())
            .find(|slot| slot.start.load(Ordering::Relaxed) == start)
    }
}

/// Registers `len` bytes at `start` as generated code of `owner`, so that the signal handler recovers from faults in
/// this range.
///
/// The code must be registered before it is called for the first time. A second registration with
/// the same start replaces the first registration.
pub fn register_code(start: u64, len: usize, owner: u64) {
    CODE.register(start, len, owner);
}

/// Removes the range that begins at `start` from the registry. Returns whether such a range was registered.
///
/// The caller must ensure that no thread still runs code in this range.
pub fn unregister_code(start: u64) -> bool {
    CODE.unregister(start)
}

/// Returns the registered range that contains `pc`. Takes no lock, and is safe in signal handlers.
pub fn lookup_code(pc: u64) -> Option<CodeRange> {
    CODE.lookup(pc)
}

/// Registers the `len` bytes at `start` as the stack of a worker and the stack's guard.
pub(super) fn register_stack(start: u64, len: usize) {
    STACKS.register(start, len, 0);
}

/// Removes the stack that begins at `start` from the registry.
pub(super) fn unregister_stack(start: u64) {
    STACKS.unregister(start);
}

/// Returns whether `sp` is in the stack of a worker, or in the guard of such a stack. A thread with such a stack pointer
/// has accessed its thread-local state. Takes no lock, and is safe in signal handlers.
pub(super) fn is_on_stack(sp: u64) -> bool {
    STACKS.lookup(sp).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Code never has these addresses, so parallel tests do not collide with real ranges.
    const BASE: u64 = 0xffff_0000_0000_0000;

    #[test]
    fn finds_by_any_pc_inside_and_by_none_outside() {
        register_code(BASE + 0x1000, 0x100, 7);
        let range = lookup_code(BASE + 0x10ff).map(|r| (r.start, r.owner));
        assert_eq!(range, Some((BASE + 0x1000, 7)));
        assert_eq!(lookup_code(BASE + 0x1100), None);
        assert_eq!(lookup_code(BASE + 0x0fff), None);
        assert!(unregister_code(BASE + 0x1000));
        assert!(!unregister_code(BASE + 0x1000));
        assert_eq!(lookup_code(BASE + 0x1000), None);
    }

    #[test]
    fn grows_past_one_chunk_and_reuses_slots() {
        let at = |i: u64| BASE + 0x10_0000 + i * 0x1000;
        for i in 0..1000 {
            register_code(at(i), 0x800, i);
        }
        let chunks_before = CODE.chunks().count();
        assert!(chunks_before >= 1000 / CHUNK_SLOTS);
        for i in 0..1000 {
            assert_eq!(lookup_code(at(i) + 0x7ff).map(|r| r.owner), Some(i));
            assert!(unregister_code(at(i)));
        }
        for i in 0..1000 {
            register_code(at(i), 0x800, i);
        }
        assert!(CODE.chunks().count() <= chunks_before + 1);
        for i in 0..1000 {
            assert!(unregister_code(at(i)));
        }
    }

    #[test]
    fn empty_and_overlong_ranges_are_harmless() {
        register_code(BASE + 0x9000_0000, 0, 1);
        assert_eq!(lookup_code(BASE + 0x9000_0000), None);
        register_code(u64::MAX - 15, usize::MAX, 2);
        assert_eq!(lookup_code(u64::MAX - 1).map(|r| r.owner), Some(2));
        assert!(unregister_code(u64::MAX - 15));
    }
}
