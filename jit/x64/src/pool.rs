//! The constants of a function, which follow its code.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::mach::Base;

/// The bytes of a constant. Its alignment is its size.
pub(crate) type Bytes = SmallVec<[u8; 64]>;

/// A set of constants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) constants: Vec<Bytes>,
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

    /// Returns the number of bits of the constant that is a base; 0 for other bases.
    pub(crate) fn bits(&self, base: Base) -> u32 {
        match base {
            Base::Pool(number) => self.constants[number as usize].len() as u32 * 8,
            _ => 0,
        }
    }
}
