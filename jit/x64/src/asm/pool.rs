//! What lies behind the code: constants, slots of symbols, and jump tables.

use rustc_hash::FxHashMap;

use super::error::Error;
use super::operand::{Constant, Label, Symbol};

/// The number of bytes of a symbol's slot.
const SLOT: u32 = 8;
/// The number of bytes of an entry of a jump table.
const ENTRY: u32 = 4;

/// The constants, symbols and jump tables that the code refers to.
#[derive(Default)]
pub(super) struct Pool {
    /// The bytes of each constant; their number is also the alignment.
    constants: Vec<Box<[u8]>>,
    numbers: FxHashMap<Box<[u8]>, u32>,
    symbols: Vec<Symbol>,
    slots: FxHashMap<Symbol, u32>,
    tables: Vec<(Label, Vec<Label>)>,
}

/// The positions of the contents of a pool behind the code.
pub(super) struct Layout {
    /// The position of each constant.
    pub(super) constants: Vec<u32>,
    /// The position of the first slot.
    slots: u32,
    /// The position of each jump table.
    tables: Vec<u32>,
    /// The position behind the pool.
    end: u32,
    /// The alignment of the pool.
    pub(super) alignment: u32,
}

impl Pool {
    pub(super) fn constant(&mut self, bytes: &[u8]) -> Result<Constant, Error> {
        if !bytes.len().is_power_of_two() || bytes.len() > 64 {
            return Err(Error::ConstantLength(bytes.len()));
        }
        if let Some(&number) = self.numbers.get(bytes) {
            return Ok(Constant(number));
        }
        let number = self.constants.len() as u32;
        self.constants.push(bytes.into());
        self.numbers.insert(bytes.into(), number);
        Ok(Constant(number))
    }

    pub(super) fn contains(&self, constant: Constant) -> bool {
        (constant.0 as usize) < self.constants.len()
    }

    /// The number of a symbol's slot.
    pub(super) fn slot(&mut self, symbol: Symbol) -> u32 {
        let symbols = &mut self.symbols;
        *self.slots.entry(symbol).or_insert_with(|| {
            symbols.push(symbol);
            symbols.len() as u32 - 1
        })
    }

    pub(super) fn table(&mut self, label: Label, targets: &[Label]) {
        self.tables.push((label, targets.to_vec()));
    }

    /// The jump tables: their labels and targets.
    pub(super) fn tables(&self) -> &[(Label, Vec<Label>)] {
        &self.tables
    }

    /// Lays the pool out behind `code` bytes. Larger constants come first, so that nothing needs padding but the end of
    /// the code.
    pub(super) fn layout(&self, code: u32) -> Layout {
        let largest = self.constants.iter().map(|x| x.len() as u32).max();
        let slots = if self.symbols.is_empty() { 1 } else { SLOT };
        let tables = if self.tables.is_empty() { 1 } else { ENTRY };
        let alignment = largest.unwrap_or(1).max(slots).max(tables);
        let mut at = code.next_multiple_of(alignment);
        let mut constants = vec![0; self.constants.len()];
        let mut place = |at: &mut u32, sizes: std::ops::RangeInclusive<u32>| {
            for size in [64, 32, 16, 8, 4, 2, 1] {
                let same = self.constants.iter().enumerate();
                let same = same.filter(|(_, x)| x.len() == size as usize && sizes.contains(&size));
                for (n, _) in same {
                    constants[n] = *at;
                    *at += size;
                }
            }
        };
        place(&mut at, SLOT..=64);
        let slots = at;
        at += SLOT * self.symbols.len() as u32;
        let mut tables = Vec::new();
        for (_, targets) in &self.tables {
            tables.push(at);
            at += ENTRY * targets.len() as u32;
        }
        place(&mut at, 1..=SLOT / 2);
        Layout {
            constants,
            slots,
            tables,
            end: at,
            alignment,
        }
    }

    /// The positions of the slots and their symbols.
    pub(super) fn slots(&self, layout: &Layout) -> Vec<(u32, Symbol)> {
        let symbols = self.symbols.iter().enumerate();
        symbols
            .map(|(n, &symbol)| (layout.slot(n as u32), symbol))
            .collect()
    }

    /// Appends the pool to the code. Slots and tables are zero.
    pub(super) fn write(&self, layout: &Layout, to: &mut Vec<u8>) {
        to.resize(layout.end as usize, 0);
        for (bytes, &at) in self.constants.iter().zip(&layout.constants) {
            to[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
}

impl Layout {
    /// The position of the slot with this number.
    pub(super) fn slot(&self, number: u32) -> u32 {
        self.slots + SLOT * number
    }

    /// The position of the jump table with this number.
    pub(super) fn table(&self, number: usize) -> u32 {
        self.tables[number]
    }
}
