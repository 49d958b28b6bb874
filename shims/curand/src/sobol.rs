//! Sobol's sequences with the direction numbers of S. Joe and F. Y. Kuo ("Constructing Sobol sequences with better
//! two-dimensional projections", 2008), for up to 20,000 dimensions.
//!
//! `data/joe-kuo.bin` contains the primitive polynomials and the initial numbers ([`vectors64`] describes the format).
//! Scrambled sequences need tables that NVIDIA's library contains ([`crate::original`]).

use std::sync::OnceLock;

/// The number of dimensions.
pub(crate) const DIMENSIONS: usize = 20_000;

/// The bits of a file, the lowest bit of a byte first.
struct Bits {
    bytes: &'static [u8],
    at: usize,
}

impl Bits {
    fn take(&mut self, count: usize) -> u64 {
        let mut value = 0;
        for k in 0..count {
            let byte = self.bytes.get(self.at / 8).copied().unwrap_or(0);
            value |= u64::from(byte >> (self.at % 8) & 1) << k;
            self.at += 1;
        }
        value
    }
}

/// Returns the direction vectors of 64 bits.
///
/// The file describes the dimensions from the second one on: a bit 1 for each degree by which the polynomial's degree s is
/// higher than that of the dimension before (first 0), and a bit 0; the s - 1 inner coefficients of the polynomial, that of
/// the lowest power first; the initial numbers m(1) to m(s), which are odd: m(k) / 2 in k - 1 bits.
pub(crate) fn vectors64() -> &'static [[u64; 64]] {
    static VECTORS: OnceLock<Vec<[u64; 64]>> = OnceLock::new();
    VECTORS.get_or_init(|| {
        let mut bits = Bits {
            bytes: include_bytes!("../data/joe-kuo.bin"),
            at: 0,
        };
        let mut all = Vec::with_capacity(DIMENSIONS);
        all.push(std::array::from_fn(|k| 1 << (63 - k)));
        let mut degree = 0;
        while all.len() < DIMENSIONS {
            while bits.take(1) == 1 {
                degree += 1;
            }
            let inner = bits.take(degree - 1);
            let mut vectors = [0; 64];
            for (k, vector) in vectors.iter_mut().enumerate().take(degree) {
                *vector = (bits.take(k) << 1 | 1) << (63 - k);
            }
            for k in degree..64 {
                let last: u64 = vectors[k - degree];
                vectors[k] = last ^ last >> degree;
                for power in (1..degree).filter(|power| inner >> (power - 1) & 1 == 1) {
                    vectors[k] ^= vectors[k - (degree - power)];
                }
            }
            all.push(vectors);
        }
        all
    })
}

/// Returns the direction vectors of 32 bits.
pub(crate) fn vectors32() -> &'static [[u32; 32]] {
    static VECTORS: OnceLock<Vec<[u32; 32]>> = OnceLock::new();
    VECTORS.get_or_init(|| {
        let halves = vectors64().iter();
        halves
            .map(|vectors| std::array::from_fn(|k| (vectors[k] >> 32) as u32))
            .collect()
    })
}

/// The points of one dimension, in ascending order.
pub(crate) struct Points<'a> {
    vectors: &'a [u64],
    index: u64,
    point: u64,
}

impl Points<'_> {
    /// Starts at a point. Points of 32 bits are the upper halves.
    pub(crate) fn new(vectors: &[u64], constant: u64, index: u64) -> Points<'_> {
        let gray = index ^ index >> 1;
        let chosen = vectors
            .iter()
            .enumerate()
            .filter(|(k, _)| gray >> k & 1 == 1);
        let point = chosen.fold(constant, |point, (_, vector)| point ^ vector);
        Points {
            vectors,
            index,
            point,
        }
    }

    /// Returns the point and goes to the next one.
    pub(crate) fn take(&mut self) -> u64 {
        let point = self.point;
        // After the last point, the sequence begins again.
        let changed = (self.index.trailing_ones() as usize).min(self.vectors.len() - 1);
        self.point ^= self.vectors[changed];
        self.index = self.index.wrapping_add(1);
        point
    }
}
