//! The native code of the functions that a kernel calls.
//!
//! Generated code finds a function by its ID in the module. A module can have very many kernels and
//! functions, and each kernel has code of its own for the functions that it calls. The table of a
//! kernel therefore contains only entries for the IDs from the lowest to the highest ID of a
//! function that the kernel calls, and is empty if the kernel calls no function. If the kernel calls
//! functions through handles, the table begins with ID 0.

use margay_ir::entity::{Entity, FuncId};
use margay_jit::abi::FunctionEntry;

/// A function that a kernel calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    pub(super) id: FuncId,
    /// Native entry point.
    pub(super) code: *const u8,
    /// ID of the function's signature, which a call through a handle compares.
    pub(super) signature: u64,
}

/// The functions that a kernel calls. The entry of a function that the kernel does not call contains no code.
#[derive(Debug, Default)]
pub(super) struct FunctionTable {
    /// ID of the function that the first entry describes.
    first: usize,
    entries: Box<[FunctionEntry]>,
}

// SAFETY: the pointers are addresses of immutable code that the same kernel owns.
unsafe impl Send for FunctionTable {}
// SAFETY: the pointers are addresses of immutable code that the same kernel owns.
unsafe impl Sync for FunctionTable {}

impl FunctionTable {
    /// Creates the table of the functions `callees`. `by_handle` states whether the kernel can call
    /// functions through handles. If so, generated code reads the entries of all functions whose
    /// IDs are less than [`FunctionTable::count`], so the table begins with function 0.
    pub(super) fn new(callees: &[Callee], by_handle: bool) -> FunctionTable {
        let ids = || callees.iter().map(|callee| callee.id.index());
        let (Some(least), Some(last)) = (ids().min(), ids().max()) else {
            return FunctionTable::default();
        };
        let first = if by_handle { 0 } else { least };
        let entries = Box::<[FunctionEntry]>::new_zeroed_slice(last - first + 1);
        // Pages of the table to which nothing is written use no memory, because the operating system maps zero pages
        // lazily.
        // SAFETY: an entry of zeros has a null pointer and the signature 0.
        let mut entries = unsafe { entries.assume_init() };
        for callee in callees {
            entries[callee.id.index() - first] = FunctionEntry {
                code: callee.code,
                signature: callee.signature,
            };
        }
        FunctionTable { first, entries }
    }

    /// Returns the base pointer to which generated code adds the offset of an entry. If the table
    /// contains function 0, this pointer is the address of its entry. Otherwise, it is the address
    /// that the entry of function 0 would have if the table began with function 0.
    pub(super) fn origin(&self) -> *const FunctionEntry {
        self.entries.as_ptr().wrapping_sub(self.first)
    }

    /// Returns the highest ID of a function that the kernel calls, plus one; 0 if the kernel calls no function.
    pub(super) fn count(&self) -> u64 {
        (self.first + self.entries.len()) as u64
    }

    /// Returns the number of entries of the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_span_the_called_functions() {
        let callee = |id, signature| Callee {
            id: FuncId(id),
            code: std::ptr::dangling(),
            signature,
        };
        let none = FunctionTable::new(&[], true);
        assert_eq!((none.len(), none.count()), (0, 0));
        let direct = FunctionTable::new(&[callee(1_000_002, 3), callee(1_000_000, 4)], false);
        assert_eq!((direct.len(), direct.count()), (3, 1_000_003));
        let place = direct.origin().wrapping_add(1_000_000);
        assert_eq!(place, direct.entries.as_ptr());
        let [first, between, last] = &*direct.entries else {
            panic!("three entries");
        };
        assert_eq!((first.signature, last.signature), (4, 3));
        assert!(between.code.is_null() && !last.code.is_null());
        let by_handle = FunctionTable::new(&[callee(5, 1)], true);
        assert_eq!((by_handle.len(), by_handle.count()), (6, 6));
    }
}
