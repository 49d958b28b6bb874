//! MT19937 (M. Matsumoto and T. Nishimura, "Mersenne Twister", 1998) with 8192 lanes that are 2^2048 numbers apart.
//!
//! A unit is eight numbers. A lane hands out a block of 624 numbers in the order of NVIDIA's library ([`order`]).

use crate::convert;
use crate::engine::{Kind, Lane};
use crate::field::{self, Polynomial, WORDS};
use crate::poisson::Poisson;

/// The number of lanes.
pub(crate) const LANES: usize = 8192;

const N: usize = 624;
const M: usize = 397;
const A: u32 = 0x9908_b0df;
const UPPER: u32 = 0x8000_0000;
/// The units of a block.
const UNITS: usize = N / 8;

/// A lane.
#[derive(Clone)]
pub(crate) struct Mt19937 {
    words: Box<[u32; N]>,
    /// The next unit of the block.
    unit: usize,
}

/// The first state of a seed.
fn seeded(seed: u64) -> [u32; N] {
    let mut words = [0; N];
    words[0] = seed as u32;
    for k in 1..N {
        let last: u32 = words[k - 1];
        words[k] = (last ^ last >> 30)
            .wrapping_mul(1_812_433_253)
            .wrapping_add(k as u32);
    }
    words
}

fn twist(upper: u32, lower: u32, far: u32) -> u32 {
    let y = (upper & UPPER) | (lower & !UPPER);
    far ^ y >> 1 ^ if y & 1 == 1 { A } else { 0 }
}

/// Replaces a state by the following 624 numbers.
fn advance(words: &mut [u32; N]) {
    for k in 0..N - M {
        words[k] = twist(words[k], words[k + 1], words[k + M]);
    }
    for k in N - M..N - 1 {
        words[k] = twist(words[k], words[k + 1], words[k + M - N]);
    }
    words[N - 1] = twist(words[N - 1], words[0], words[M - 1]);
}

fn temper(mut y: u32) -> u32 {
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c_5680;
    y ^= y << 15 & 0xefc6_0000;
    y ^ y >> 18
}

/// Returns the polynomial of lane 0.
pub(crate) fn polynomial(seed: u64) -> Polynomial {
    field::of_sequence(&upper_bits(seeded(seed)))
}

/// The lanes from a first one. `polynomial` is that of lane 0.
pub(crate) fn lanes(polynomial: &Polynomial, first: usize, count: usize) -> Vec<Mt19937> {
    let mut polynomial = polynomial.clone();
    for bit in (0..13).filter(|bit| first >> bit & 1 == 1) {
        polynomial = field::multiply(&polynomial, field::jump(bit));
    }
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        if index > 0 {
            polynomial = field::multiply(&polynomial, field::jump(0));
        }
        let words = Box::new(state(&field::sequence(&polynomial)));
        all.push(Mt19937 { words, unit: 0 });
    }
    all
}

/// Returns the highest bits of the numbers from a state on.
fn upper_bits(mut words: [u32; N]) -> [u64; WORDS] {
    let mut bits = [0; WORDS];
    for block in 0..32 {
        for (k, word) in words.iter().enumerate() {
            let at = block * N + k;
            bits[at / 64] |= u64::from(word >> 31) << (at % 64);
        }
        advance(&mut words);
    }
    bits
}

/// Returns the state whose numbers have the given highest bits.
///
/// With bit k of number i written b(k, i), the recurrence is, solved for the bits of number i > 0:
/// b(0, i) = b(31, i + 623) + b(31, i + 396), and b(k + 1, i) = b(k, i + 623) + b(k, i + 396) + A(k) b(0, i).
fn state(upper: &Polynomial) -> [u32; N] {
    let mut planes = [[0_u64; N.div_ceil(64)]; 32];
    let (low, high) = planes.split_at_mut(31);
    high[0].copy_from_slice(&upper[..N.div_ceil(64)]);
    let mut last = upper.clone();
    let mut lowest: Option<Polynomial> = None;
    for (plane, bits) in low.iter_mut().enumerate() {
        // Each plane is known for 624 numbers fewer than the one before.
        let count = ((31 - plane) * N).div_ceil(64);
        let mut next = Box::new([0; WORDS]);
        for (k, word) in next[..count].iter_mut().enumerate() {
            *word = from(&last, 64 * k + N - 1) ^ from(&last, 64 * k + M - 1);
        }
        if let Some(lowest) = lowest.as_ref().filter(|_| A >> (plane - 1) & 1 == 1) {
            (0..count).for_each(|k| next[k] ^= lowest[k]);
        }
        bits.copy_from_slice(&next[..N.div_ceil(64)]);
        lowest.get_or_insert_with(|| next.clone());
        last = next;
    }
    let mut words = [0; N];
    for (k, word) in words.iter_mut().enumerate() {
        for (plane, bits) in planes.iter().enumerate() {
            *word |= ((bits[k / 64] >> (k % 64) & 1) as u32) << plane;
        }
    }
    // The other bits of the first number are not part of the state.
    words[0] &= UPPER;
    words
}

/// Returns 64 bits from a position; bits behind the end are 0.
fn from(bits: &Polynomial, at: usize) -> u64 {
    let word = |k: usize| bits.get(k).copied().unwrap_or(0);
    let (k, shift) = (at / 64, at % 64);
    word(k) >> shift | word(k + 1) << 1 << (63 - shift)
}

/// The position in the block of number `place` of a unit.
///
/// Unit 0 consists of eight numbers that are spread over the block. The other numbers form 11 groups of 56; the 7 units of
/// a group take every seventh number.
fn order(unit: usize, place: usize) -> usize {
    /// The groups that precede the numbers of unit 0.
    const BEFORE: [usize; 8] = [0, 2, 3, 5, 6, 7, 9, 10];
    match unit.checked_sub(1) {
        None => place + 56 * BEFORE[place],
        Some(unit) => {
            let group = unit / 7;
            let skipped = BEFORE.iter().filter(|&&before| before <= group).count();
            skipped + 56 * group + 7 * place + unit % 7
        }
    }
}

impl Mt19937 {
    fn each(&mut self, mut put: impl FnMut(usize, u32)) {
        if self.unit == 0 {
            advance(&mut self.words);
        }
        for place in 0..8 {
            put(place, temper(self.words[order(self.unit, place)]));
        }
        self.unit = (self.unit + 1) % UNITS;
    }
}

impl Lane for Mt19937 {
    fn unit(_: &Kind) -> usize {
        8
    }

    fn bits(&mut self, out: &mut [u32]) {
        self.each(|place, word| out[place] = word);
    }

    fn uniform(&mut self, out: &mut [f32]) {
        self.each(|place, word| out[place] = convert::uniform_centre_single(word));
    }

    fn uniform_double(&mut self, out: &mut [f64]) {
        self.each(|place, word| out[place] = convert::uniform_centre(word));
    }

    fn normal(&mut self, out: &mut [f32]) {
        self.each(|place, word| out[place] = convert::inverse(word));
    }

    fn normal_double(&mut self, out: &mut [f64]) {
        self.each(|place, word| out[place] = convert::inverse_double(word));
    }

    fn poisson(&mut self, poisson: &Poisson, out: &mut [u32]) {
        self.each(|place, word| out[place] = poisson.of_bits(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_skip_numbers() {
        let mut words = seeded(5489);
        let polynomial = field::of_sequence(&upper_bits(words));
        // All numbers from the first state on.
        let mut numbers = Vec::new();
        for _ in 0..8 {
            numbers.extend(words);
            advance(&mut words);
        }
        for exponent in [0, 5, 11] {
            let skipped = field::multiply(&polynomial, &field::power_of_two(exponent));
            let found = state(&field::sequence(&skipped));
            let expected = &numbers[1 << exponent..][..N];
            assert_eq!(found[1..], expected[1..], "2^{exponent}");
            assert_eq!(found[0], expected[0] & UPPER);
        }
    }
}
