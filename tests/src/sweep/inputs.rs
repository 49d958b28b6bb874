//! Generates difficult operands (limits of ranges, rounding boundaries, near ties) and random operands.

use super::format::Format;

/// A random generator (SplitMix64), so that failures are reproducible.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next random number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }
}

/// Returns encodings of `f32` numbers with both signs: for every exponent, the lowest, the highest
/// and middle fractions; and numbers near multiples of pi/2, near multiples of 1/2 and near powers
/// of two.
pub fn limits() -> Vec<u32> {
    let fractions = [
        0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff,
    ];
    let exponents = (0..256u32).flat_map(|e| fractions.map(|fraction| e << 23 | fraction));
    let angles = (1..=200u32).map(|n| (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32);
    let whole = (0..300u32).map(|n| n as f32 / 2.0);
    let ends = (7..=64).map(|n| 2f32.powi(n));
    let near = angles.chain(whole).chain(ends).flat_map(neighbours);
    exponents.chain(near).flat_map(signs).collect()
}

fn neighbours(x: f32) -> [u32; 3] {
    let bits = x.to_bits();
    [bits.saturating_sub(1), bits, bits + 1]
}

fn signs(bits: u32) -> [u32; 2] {
    [bits, bits | 1 << 31]
}

/// Returns the numbers of a format of at most 16 bits, and the midpoints between neighbouring
/// numbers. The result also contains the `f32` neighbours of each of these values.
pub fn boundaries(format: Format) -> Vec<u32> {
    let value = |at: u64| format.value(at);
    (0..format.end())
        .flat_map(|at| [value(at), (value(at) + value(at + 1)) / 2.0])
        .flat_map(|x| neighbours(x as f32))
        .flat_map(signs)
        .collect()
}

/// Returns pairs of operands for quotients, products and sums of `f32`: limits of ranges, operands
/// whose quotients are near ties, and random bits.
pub fn pairs(random: &mut Random, count: usize) -> Vec<[u64; 2]> {
    let limits = limits();
    (0..count)
        .map(|at| {
            let any = random.word();
            let pick = |n: u64| u64::from(limits[n as usize % limits.len()]);
            match at % 4 {
                0 => [any & 0xffff_ffff, any >> 32],
                1 => [pick(any), pick(any >> 32)],
                2 => near_tie(random).map(u64::from),
                _ => {
                    // The exponents are nearly equal, so that sums cancel and quotients are near 1.
                    let exponent = 0x3000_0000 + (any >> 40 & 0x1fff_ffff) as u32;
                    let other = exponent ^ (random.word() & 0x81ff_ffff) as u32;
                    [exponent.into(), other.into()]
                }
            }
        })
        .collect()
}

/// Returns two operands whose quotient is very near to the midpoint between two neighbouring `f32`
/// numbers.
///
/// The operands satisfy the equation `middle * b = a * 2^25 + rest` for a small odd `rest`. An odd
/// `b` has an inverse modulo 2^25. Therefore, `b` and `rest` determine the midpoint `middle`, which
/// is an odd number of 25 bits.
fn near_tie(random: &mut Random) -> [u32; 2] {
    const MODULUS: u64 = 1 << 25;
    let word = random.word();
    let b = word & 0xff_ffff | 0x80_0001;
    // Each Newton step doubles the number of correct bits; an odd number begins with three.
    let inverse = (0..4).fold(b, |x, _| {
        x.wrapping_mul(2u64.wrapping_sub(b.wrapping_mul(x)))
    });
    let rests = (0..64).map(|step| 2 * (step + (word >> 60)) + 1);
    let middles = rests.map(|rest| (rest, rest.wrapping_mul(inverse) % MODULUS));
    let found = middles
        .into_iter()
        .find(|(_, middle)| middle * 2 >= MODULUS);
    let (rest, middle) = found.unwrap_or((1, MODULUS - 1));
    let a = (middle * b - rest) / MODULUS;
    let scale = |bits: u64| 2f64.powi((bits % 200) as i32 - 124);
    let number = |digits: u64, bits: u64| (digits as f64 * scale(bits)) as f32;
    let sign = (word >> 32) as u32 & 1 << 31;
    [
        number(a, word >> 24).to_bits() | sign,
        number(b, word >> 40).to_bits(),
    ]
}

/// Returns triples for fused multiply-add: the third number nearly cancels the product of the first two, or is random.
pub fn triples(random: &mut Random, count: usize) -> Vec<[u64; 3]> {
    let number = |bits: u64| f32::from_bits(bits as u32);
    pairs(random, count)
        .into_iter()
        .enumerate()
        .map(|(at, [a, b])| {
            let third = if at.is_multiple_of(8) {
                random.word() & 0xffff_ffff
            } else {
                let product = -number(a) * number(b);
                let moved = product.to_bits() ^ (random.below(1 << (at % 25)) as u32);
                moved.into()
            };
            [a, b, third]
        })
        .collect()
}

/// Returns triples of `f64` numbers, whose third number nearly cancels the product of the first two in most cases.
pub fn doubles(random: &mut Random, count: usize) -> Vec<[u64; 3]> {
    const FRACTION: u64 = (1 << 52) - 1;
    let ends = [0, 1, FRACTION, FRACTION - 1, 1 << 51, (1 << 51) + 1];
    (0..count)
        .map(|at| {
            let mut number = || {
                let word = random.word();
                match at % 3 {
                    0 => word,
                    1 => word & !FRACTION | ends[(word % 6) as usize],
                    _ => 0x3f00_0000_0000_0000 + (word & 0x01ff_ffff_ffff_ffff),
                }
            };
            let [a, b] = [number(), number()];
            let third = if at.is_multiple_of(4) {
                number()
            } else {
                let product = -f64::from_bits(a) * f64::from_bits(b);
                product.to_bits() ^ random.below(1 << (at % 50))
            };
            [a, b, third]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_surround_each_point() {
        let found = boundaries(Format::E2M1);
        for x in [0.0f32, 0.25, 0.5, 5.0, 6.0, 7.0] {
            assert!(
                found.contains(&x.to_bits()) && found.contains(&(-x).to_bits()),
                "{x}"
            );
            assert!(found.contains(&(x.to_bits() + 1)), "{x}");
        }
    }

    #[test]
    fn ties_are_near() {
        let mut random = Random(1);
        let distance = |[a, b]: [u32; 2]| {
            let quotient = f64::from(f32::from_bits(a)) / f64::from(f32::from_bits(b));
            let rest = quotient.to_bits() & 0x1fff_ffff;
            rest.abs_diff(0x1000_0000)
        };
        let near = (0..1000)
            .filter(|_| distance(near_tie(&mut random)) < 1 << 20)
            .count();
        let chance = (0..1000)
            .filter(|_| {
                let word = random.word();
                distance([word as u32, (word >> 32) as u32]) < 1 << 20
            })
            .count();
        assert!(near > 20 * (chance + 1), "{near} and {chance}");
    }

    #[test]
    fn limits_hold_the_special_classes() {
        let limits = limits();
        for x in [
            0.0,
            f32::INFINITY,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
        ] {
            assert!(
                limits.contains(&x.to_bits()) && limits.contains(&(-x).to_bits()),
                "{x}"
            );
        }
        assert!(limits.iter().any(|&bits| f32::from_bits(bits).is_nan()));
    }
}
