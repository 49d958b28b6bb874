//! The tables from which the kernels of a module load the addresses of symbols (variables).
//!
//! A module can have very many symbols and kernels, so its kernels use one common table where
//! possible. The offset of a shared variable can differ between kernels. A kernel for which the
//! offsets in the common table are wrong has its own table, which contains only the symbols that
//! the kernel uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use margay_ir::entity::{Entity, SymbolId};

/// A table of the addresses of symbols: host addresses, or offsets in the window of shared memory.
/// A clone of a table refers to the same memory as the table.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    /// The ID of the symbol to which the first entry belongs.
    first: usize,
    addresses: Arc<Vec<AtomicU64>>,
}

impl SymbolTable {
    /// Creates a table from the addresses of all symbols of a module, in the order of the symbols'
    /// IDs.
    pub fn whole(addresses: Vec<u64>) -> SymbolTable {
        SymbolTable::from(0, addresses)
    }

    fn from(first: usize, addresses: Vec<u64>) -> SymbolTable {
        let addresses = addresses.into_iter().map(AtomicU64::new).collect();
        SymbolTable {
            first,
            addresses: Arc::new(addresses),
        }
    }

    /// Creates a table of some symbols from pairs of a symbol's ID and its address. The entries of
    /// all other symbols between the lowest and the highest of these IDs are 0.
    pub fn some(entries: &[(usize, u64)]) -> SymbolTable {
        let ids = || entries.iter().map(|&(id, _)| id);
        let (Some(first), Some(last)) = (ids().min(), ids().max()) else {
            return SymbolTable::default();
        };
        let mut addresses = vec![0; last - first + 1];
        for &(id, address) in entries {
            addresses[id - first] = address;
        }
        SymbolTable::from(first, addresses)
    }

    /// Replaces the address of a symbol in this table and in all its clones. Does nothing if the table does not contain
    /// the symbol. While this function runs, no kernel that uses the symbol may be running.
    pub fn set(&self, symbol: usize, address: u64) {
        let entry = symbol.checked_sub(self.first);
        if let Some(entry) = entry.and_then(|entry| self.addresses.get(entry)) {
            entry.store(address, Ordering::Relaxed);
        }
    }

    /// Returns a copy of the table in which the addresses of `symbols` are replaced by the results
    /// of `change`. Symbols that the table does not contain are skipped.
    pub fn changed(
        &self,
        symbols: impl Iterator<Item = usize>,
        change: impl Fn(u64) -> u64,
    ) -> SymbolTable {
        let all = self.addresses.iter();
        let all = all.map(|address| address.load(Ordering::Relaxed)).collect();
        let copy = SymbolTable::from(self.first, all);
        for id in symbols {
            if let Some(address) = copy.get(SymbolId::new(id)) {
                copy.set(id, change(address));
            }
        }
        copy
    }

    /// Returns the address of a symbol; `None` if the table does not contain the symbol.
    pub fn get(&self, symbol: SymbolId) -> Option<u64> {
        let entry = symbol.index().checked_sub(self.first)?;
        let address = self.addresses.get(entry)?;
        Some(address.load(Ordering::Relaxed))
    }

    /// Returns the pointer that generated code indexes with the ID of a symbol to load the symbol's
    /// address. This is the address that the entry of symbol 0 has or would have. If the table does
    /// not contain symbol 0, the pointer is outside the table.
    pub fn origin(&self) -> *const u64 {
        self.addresses.as_ptr().wrapping_sub(self.first).cast()
    }

    /// Returns the number of entries in the table.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_some_symbols_have_entries_for_these_symbols_only() {
        let table = SymbolTable::some(&[(1_000_002, 7), (1_000_000, 5)]);
        let get = |table: &SymbolTable, id| table.get(SymbolId(id));
        assert_eq!(table.len(), 3);
        let ids = [999_999, 1_000_000, 1_000_001, 1_000_002, 1_000_003];
        let found = ids.map(|id| get(&table, id));
        assert_eq!(found, [None, Some(5), Some(0), Some(7), None]);
        let place = table.origin().wrapping_add(1_000_002);
        assert_eq!(place, (&raw const table.addresses[2]).cast());
        let moved = table.changed([1_000_002, 3].into_iter(), |address| address + 100);
        assert_eq!(get(&moved, 1_000_000), Some(5));
        assert_eq!(get(&moved, 1_000_002), Some(107));
        assert!(SymbolTable::some(&[]).is_empty());
        let whole = SymbolTable::whole(vec![3, 4]);
        let clone = whole.clone();
        whole.set(1, 9);
        whole.set(2, 9);
        assert_eq!((get(&clone, 1), get(&clone, 2)), (Some(9), None));
    }
}
