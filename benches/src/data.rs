//! Generates pseudorandom input data, which is the same on every machine and in every run.

/// A generator of random numbers (xorshift, 64 bits).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    /// Returns a random number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.next() % bound
    }

    /// Returns a random number that is at least 0 and below 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 24) as f32
    }

    /// Calls `value` `count` times and returns the results.
    pub(crate) fn fill<T>(
        &mut self,
        count: usize,
        mut value: impl FnMut(&mut Random) -> T,
    ) -> Vec<T> {
        (0..count).map(|_| value(self)).collect()
    }
}
