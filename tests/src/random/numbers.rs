//! A stream of random numbers, which is the same on every machine.

/// A SplitMix64 generator, whose first numbers the caller can choose.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// The bytes of the numbers that the caller has chosen, in reverse order. Each number has two
    /// bytes.
    chosen: Vec<u8>,
}

impl Random {
    /// Returns the stream of random numbers that `seed` determines.
    pub fn new(seed: u64) -> Random {
        Random {
            state: seed,
            chosen: Vec::new(),
        }
    }

    /// Returns a stream that begins with the numbers in `bytes` and continues with the stream of
    /// `seed`. Each number has two bytes. A fuzzer that changes one byte therefore changes one
    /// choice.
    pub fn chosen(bytes: &[u8], seed: u64) -> Random {
        Random {
            state: seed,
            chosen: bytes.iter().rev().copied().collect(),
        }
    }

    /// Returns 64 random bits.
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

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((self.bits() >> 32) % u64::from(bound.max(1))) as u32
    }

    /// Returns true with a probability of `percent` percent.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// Returns a random element of `choices`.
    ///
    /// # Panics
    ///
    /// Panics if `choices` is empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u32) as usize]
    }
}
