//! A stream of random numbers that is the same on every machine.

/// SplitMix64, perhaps behind numbers that somebody chose.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// Two bytes a number, the next ones last.
    chosen: Vec<u8>,
}

impl Random {
    /// The stream that belongs to `seed`.
    pub fn new(seed: u64) -> Random {
        Random {
            state: seed,
            chosen: Vec::new(),
        }
    }

    /// A stream whose first choices are those of `bytes`, two bytes each, before that of `seed` begins: who changes a byte,
    /// such as a fuzzer, changes one choice.
    pub fn chosen(bytes: &[u8], seed: u64) -> Random {
        Random {
            state: seed,
            chosen: bytes.iter().rev().copied().collect(),
        }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        if let Some(low) = self.chosen.pop() {
            let high = self.chosen.pop().unwrap_or(0);
            return u64::from(u16::from_le_bytes([low, high])) << 32;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((self.bits() >> 32) % u64::from(bound.max(1))) as u32
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of several things.
    ///
    /// # Panics
    ///
    /// When there is nothing to choose from.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u32) as usize]
    }
}
