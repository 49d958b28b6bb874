//! `HandleTable`: maps handles to objects.
//!
//! A handle is a word that contains slot index, kind and generation. The generation of a slot changes when its object
//! is removed, so a stale handle does not match a newer object. (Generations repeat only after about 2^31 removals from
//! the same slot.) Slots never move: each chunk of slots has twice the size of the previous chunk and is never freed. A
//! lookup therefore takes only the read lock of the handle's slot, which is usually uncontended.
//!
//! Invariant: a handle is never 0, 1 or 2 (the handles of the default streams), is divisible by 8, and its top bit is
//! 0.

use std::sync::OnceLock;

use margay::checks::CallStack;
use parking_lot::{Mutex, RwLock};

use crate::checking;

/// The number of slots in the first chunk; chunk `k` has `FIRST << k` slots.
const FIRST: usize = 64;
/// The number of chunks, enough for 2^24 slots.
const CHUNKS: usize = 19;
const INDEX_BITS: u32 = 24;
const KIND_SHIFT: u32 = 3;
const INDEX_SHIFT: u32 = 8;
const GENERATION_SHIFT: u32 = INDEX_SHIFT + INDEX_BITS;
const GENERATION_MASK: u32 = 0x7fff_ffff;

/// A table that maps handles of a particular kind to objects.
pub(crate) struct HandleTable<T> {
    kind: usize,
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: Mutex<Free>,
}

type Slot<T> = RwLock<Entry<T>>;

struct Entry<T> {
    generation: u32,
    object: Option<T>,
    /// In checking runs, the stack of the call that created the object. If the slot is empty, the stack of the call
    /// that destroyed the slot's last object.
    call: Option<CallStack>,
}

struct Free {
    slots: Vec<usize>,
    /// The index of the first slot that has never contained an object.
    fresh: usize,
}

impl<T: Clone> HandleTable<T> {
    /// Creates a table whose handles contain `kind` (1 to 31).
    pub(crate) const fn new(kind: usize) -> HandleTable<T> {
        HandleTable {
            kind,
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free {
                slots: Vec::new(),
                fresh: 0,
            }),
        }
    }

    /// Inserts an object and returns its handle. Returns `None` if the table is full.
    pub(crate) fn insert(&self, object: T) -> Option<usize> {
        let index = self.take_slot()?;
        let call = checking::creation();
        let mut entry = self.slot_or_make(index)?.write();
        entry.object = Some(object);
        entry.call = call;
        Some(self.pack(index, entry.generation))
    }

    /// Returns the object that a handle denotes; `None` if the handle is not valid.
    pub(crate) fn get(&self, handle: usize) -> Option<T> {
        let (index, generation) = self.unpack(handle)?;
        let entry = self.slot(index)?.read();
        if entry.generation != generation {
            self.note_stale(handle, generation, &entry);
            return None;
        }
        entry.object.clone()
    }

    /// Removes the object of a handle and returns the object. Afterwards the handle is invalid.
    pub(crate) fn remove(&self, handle: usize) -> Option<T> {
        let (index, generation) = self.unpack(handle)?;
        let object = {
            let call = checking::creation();
            let mut entry = self.slot(index)?.write();
            if entry.generation != generation {
                self.note_stale(handle, generation, &entry);
                return None;
            }
            let object = entry.object.take()?;
            entry.call = call;
            entry.generation = next_generation(generation);
            object
        };
        self.free.lock().slots.push(index);
        Some(object)
    }

    /// Removes every object that `wanted` accepts, and returns them.
    pub(crate) fn remove_where(&self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let used = self.free.lock().fresh;
        let mut removed = Vec::new();
        for index in 0..used {
            let Some(slot) = self.slot(index) else {
                continue;
            };
            let handle = {
                let entry = slot.read();
                match &entry.object {
                    Some(object) if wanted(object) => self.pack(index, entry.generation),
                    _ => continue,
                }
            };
            removed.extend(self.remove(handle));
        }
        removed
    }

    /// Returns all objects. This function visits every slot, so only entry points that programs rarely call may use it.
    pub(crate) fn all(&self) -> Vec<T> {
        let used = self.free.lock().fresh;
        let objects = (0..used).filter_map(|index| self.slot(index)?.read().object.clone());
        objects.collect()
    }

    /// Returns all objects, each with its handle and, in checking runs, the stack of the call that created it.
    pub(crate) fn entries(&self) -> Vec<(usize, T, Option<CallStack>)> {
        let used = self.free.lock().fresh;
        let entries = (0..used).filter_map(|index| {
            let entry = self.slot(index)?.read();
            let object = entry.object.clone()?;
            Some((
                self.pack(index, entry.generation),
                object,
                entry.call.clone(),
            ))
        });
        entries.collect()
    }

    /// In checking runs, notes that the current call uses a stale handle, so that a finding about the call can say
    /// this.
    #[cold]
    fn note_stale(&self, handle: usize, generation: u32, entry: &Entry<T>) {
        if generation < entry.generation {
            // `entry.call` is the destroying call only if the slot has not been used again.
            let is_last = entry.object.is_none() && next_generation(generation) == entry.generation;
            let call = entry.call.clone().filter(|_| is_last);
            checking::note_stale(name_of(self.kind), handle, call);
        }
    }

    /// Returns the handle of the first object that `wanted` accepts. This function visits every slot, so only entry
    /// points that programs rarely call may use it.
    pub(crate) fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let used = self.free.lock().fresh;
        (0..used).find_map(|index| {
            let entry = self.slot(index)?.read();
            let found = entry.object.as_ref().is_some_and(&wanted);
            found.then(|| self.pack(index, entry.generation))
        })
    }

    fn take_slot(&self) -> Option<usize> {
        let mut free = self.free.lock();
        if let Some(index) = free.slots.pop() {
            return Some(index);
        }
        let index = free.fresh;
        if index >> INDEX_BITS != 0 {
            return None;
        }
        free.fresh += 1;
        Some(index)
    }

    fn slot(&self, index: usize) -> Option<&Slot<T>> {
        let (chunk, offset) = place(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    fn slot_or_make(&self, index: usize) -> Option<&Slot<T>> {
        let (chunk, offset) = place(index);
        let slots = self.chunks.get(chunk)?.get_or_init(|| {
            let empty = || {
                RwLock::new(Entry {
                    generation: 1,
                    object: None,
                    call: None,
                })
            };
            (0..FIRST << chunk).map(|_| empty()).collect()
        });
        slots.get(offset)
    }

    fn pack(&self, index: usize, generation: u32) -> usize {
        (generation as usize) << GENERATION_SHIFT | index << INDEX_SHIFT | self.kind << KIND_SHIFT
    }

    fn unpack(&self, handle: usize) -> Option<(usize, u32)> {
        let low = handle & ((1 << INDEX_SHIFT) - 1);
        if low != self.kind << KIND_SHIFT {
            return None;
        }
        let index = handle >> INDEX_SHIFT & ((1 << INDEX_BITS) - 1);
        Some((index, (handle >> GENERATION_SHIFT) as u32))
    }
}

/// Returns the name that findings use for an object whose handle contains `kind`.
fn name_of(kind: usize) -> &'static str {
    match kind {
        1 => "context",
        2 => "stream",
        3 => "event",
        4 => "module",
        5 => "function",
        6 => "library",
        8 => "memory pool",
        20 => "array",
        21 => "mipmapped array",
        30 => "executable graph",
        _ => "object",
    }
}

fn next_generation(generation: u32) -> u32 {
    match (generation + 1) & GENERATION_MASK {
        0 => 1,
        next => next,
    }
}

/// Returns the index of the array in `chunks` that contains the slot `index`, and the slot's index in that array.
fn place(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2() as usize;
    (chunk, index - FIRST * ((1 << chunk) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fill_the_chunks_in_order() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(63), (0, 63));
        assert_eq!(place(64), (1, 0));
        assert_eq!(place(191), (1, 127));
        assert_eq!(place(192), (2, 0));
        let last = (1 << INDEX_BITS) - 1;
        let (chunk, offset) = place(last);
        assert!(chunk < CHUNKS && offset < FIRST << chunk);
    }

    #[test]
    fn stale_foreign_and_invented_handles_find_nothing() {
        let table = HandleTable::new(3);
        let other = HandleTable::new(4);
        let first = table.insert(10).expect("room");
        other.insert(0).expect("room");
        assert_eq!(table.get(first), Some(10));
        assert_eq!(other.get(first), None, "another kind");
        assert_eq!(table.remove(first), Some(10));
        assert_eq!(table.get(first), None, "stale");
        assert_eq!(table.remove(first), None, "twice");
        let second = table.insert(11).expect("room");
        assert_ne!(first, second, "the slot is used again under another handle");
        for handle in [0, 1, 2, 24, 0x18, usize::MAX, second + 1, second | 1 << 63] {
            assert_eq!(table.get(handle), None, "{handle:#x}");
        }
    }

    #[test]
    fn handles_keep_clear_of_the_special_streams() {
        let table = HandleTable::new(1);
        for value in 0..1000 {
            let handle = table.insert(value).expect("room");
            assert!(handle > 2 && handle % 8 == 0 && handle >> 63 == 0);
            assert_eq!(table.get(handle), Some(value));
        }
        assert_eq!(table.remove_where(|v| v % 2 == 0).len(), 500);
        assert_eq!(table.find(|&v| v == 4), None);
        assert!(table.find(|&v| v == 5).is_some());
    }
}
