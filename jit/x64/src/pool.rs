//! The constants of a function, which follow its code.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The bytes of a constant. Its alignment is its size.
pub(crate) type Bytes = SmallVec<[u8; 64]>;

/// A set of constants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    constants: Vec<Bytes>,
    numbers: FxHashMap<Bytes, u32>,
}

impl Pool {
    /// Returns the number of a constant, whose size must be a power of two.
    pub(crate) fn number(&mut self, bytes: &[u8]) -> u32 {
        let bytes = Bytes::from_slice(bytes);
        if let Some(&number) = self.numbers.get(&bytes) {
            return number;
        }
        let number = self.constants.len() as u32;
        self.constants.push(bytes.clone());
        self.numbers.insert(bytes, number);
        number
    }

    /// Appends the constants to code, the largest first, and returns the offset of each.
    pub(crate) fn write(&self, code: &mut Vec<u8>) -> Vec<u32> {
        let mut order: Vec<usize> = (0..self.constants.len()).collect();
        order.sort_by_key(|&number| std::cmp::Reverse(self.constants[number].len()));
        let mut offsets = vec![0; order.len()];
        for number in order {
            let bytes = &self.constants[number];
            code.resize(code.len().next_multiple_of(bytes.len()), 0);
            offsets[number] = code.len() as u32;
            code.extend_from_slice(bytes);
        }
        offsets
    }
}
