//! Polynomials over GF(2) modulo the characteristic polynomial of MT19937.
//!
//! A sequence of bits that satisfies the recurrence of MT19937 belongs to a polynomial A: its bits are the coefficients of
//! A / φ in descending powers, where φ is the characteristic polynomial. Multiplication by x^n modulo φ skips n bits.

use std::sync::OnceLock;

/// The degree of φ.
const DEGREE: usize = 19_937;
/// The number of words of a polynomial.
pub(crate) const WORDS: usize = 312;
/// Remainders are computed of polynomials times x^31, because the degree of φ times x^31 is a multiple of 64.
const ALIGN: usize = WORDS * 64 - DEGREE;

/// A polynomial: coefficient k is bit k % 64 of word k / 64.
pub(crate) type Polynomial = Box<[u64; WORDS]>;
/// A product of two polynomials.
type Product = [u64; 2 * WORDS];

/// The powers of φ without the highest one.
fn terms() -> &'static [usize] {
    /// The constant of MT19937's recurrence, and its distances.
    const A: u32 = 0x9908_b0df;
    const N: usize = 624;
    const M: usize = 397;
    static TERMS: OnceLock<Vec<usize>> = OnceLock::new();
    TERMS.get_or_init(|| {
        let mut coefficients = vec![false; DEGREE + 1];
        // M. Matsumoto and T. Nishimura, "Mersenne Twister", 1998, appendix A: a sum of products with the factor
        // (t^N + t^M) and a power of (t^(N-1) + t^(M-1)). The binomial coefficient C(p, k) is odd if k has only bits of p.
        let mut add = |power: usize| {
            for k in (0..=power).filter(|k| k & !power == 0) {
                let exponent = (N - 1) * k + (M - 1) * (power - k);
                coefficients[exponent + N] ^= true;
                coefficients[exponent + M] ^= true;
            }
        };
        add(31);
        (0..31)
            .filter(|i| A >> i & 1 == 1)
            .for_each(|i| add(30 - i));
        coefficients[0] ^= A >> 31 == 1;
        (0..DEGREE).filter(|&k| coefficients[k]).collect()
    })
}

/// The words of the quotient that are computed together. The second power of φ is more than as many bits below the first.
const BLOCK: usize = 8;

/// Divides a polynomial by φ times x^31. The upper words become the quotient, the lower words the remainder.
fn divide(product: &mut Product) {
    let terms = terms();
    for block in (0..WORDS / BLOCK).rev() {
        let first = WORDS + block * BLOCK;
        let mut quotient = [0; BLOCK];
        quotient.copy_from_slice(&product[first..first + BLOCK]);
        let low = block * BLOCK * 64 + ALIGN;
        for term in terms {
            let at = low + term;
            let (word, shift) = (at / 64, at % 64);
            let mut carry = 0;
            for (target, quotient) in product[word..word + BLOCK].iter_mut().zip(quotient) {
                *target ^= quotient << shift | carry;
                // A shift by 64 bits in two steps.
                carry = quotient >> 1 >> (63 - shift);
            }
            product[word + BLOCK] ^= carry;
        }
    }
}

/// Returns the product of two polynomials modulo φ.
pub(crate) fn multiply(a: &Polynomial, b: &Polynomial) -> Polynomial {
    let mut product = [0; 2 * WORDS];
    crate::clmul::multiply(&a[..], &b[..], &mut product);
    remainder(product)
}

fn remainder(mut product: Product) -> Polynomial {
    for k in (1..2 * WORDS).rev() {
        product[k] = product[k] << ALIGN | product[k - 1] >> (64 - ALIGN);
    }
    product[0] <<= ALIGN;
    divide(&mut product);
    let mut result = Box::new([0; WORDS]);
    for k in 0..WORDS {
        let above = if k + 1 < WORDS { product[k + 1] } else { 0 };
        result[k] = product[k] >> ALIGN | above << (64 - ALIGN);
    }
    result
}

fn square(a: &Polynomial) -> Polynomial {
    let spread = |half: u32| {
        let mut x = u64::from(half);
        x = (x | x << 16) & 0x0000_ffff_0000_ffff;
        x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
        x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        x = (x | x << 2) & 0x3333_3333_3333_3333;
        (x | x << 1) & 0x5555_5555_5555_5555
    };
    let mut product = [0; 2 * WORDS];
    for (k, word) in a.iter().enumerate() {
        product[2 * k] = spread(*word as u32);
        product[2 * k + 1] = spread((word >> 32) as u32);
    }
    remainder(product)
}

/// Returns x to the power 2^`exponent` modulo φ.
#[cfg(test)]
pub(crate) fn power_of_two(exponent: usize) -> Polynomial {
    let mut x = Box::new([0; WORDS]);
    x[0] = 2;
    (0..exponent).fold(x, |x, _| square(&x))
}

/// Returns x to the power 2^(2048 + `index`) modulo φ.
pub(crate) fn jump(index: usize) -> &'static Polynomial {
    static JUMPS: OnceLock<Vec<Polynomial>> = OnceLock::new();
    &JUMPS.get_or_init(|| {
        let bytes = include_bytes!("../data/mt19937-jump.bin");
        let mut first = Box::new([0; WORDS]);
        for (word, bytes) in first.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let mut all = vec![first];
        for _ in 1..13 {
            all.push(square(&all[all.len() - 1]));
        }
        all
    })[index]
}

/// Returns the polynomial of a sequence, of which bit k is bit k % 64 of word k / 64.
pub(crate) fn of_sequence(bits: &[u64; WORDS]) -> Polynomial {
    let mut result = Box::new([0; WORDS]);
    let bit = |k: usize| bits[k / 64] >> (k % 64) & 1;
    for &term in terms().iter().chain([&DEGREE]) {
        for k in 0..term {
            result[k / 64] ^= bit(term - 1 - k) << (k % 64);
        }
    }
    result
}

/// Returns the first bits of the sequence of a polynomial.
pub(crate) fn sequence(a: &Polynomial) -> Polynomial {
    let mut product = [0; 2 * WORDS];
    for k in 0..WORDS {
        let below = if k > 0 { a[k - 1] >> (64 - ALIGN) } else { 0 };
        product[WORDS + k] = a[k] << ALIGN | below;
    }
    divide(&mut product);
    let mut bits = Box::new([0; WORDS]);
    for k in 0..WORDS {
        bits[k] = product[2 * WORDS - 1 - k].reverse_bits();
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_power_is_the_one_that_squares_lead_to() {
        let expected = power_of_two(2048);
        if let Some(file) = std::env::var_os("MARGAY_WRITE_JUMP") {
            let bytes: Vec<u8> = expected
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            std::fs::write(file, bytes).unwrap();
        }
        assert_eq!(jump(0), &expected);
        assert!(DEGREE - terms().last().unwrap() > 64 * BLOCK);
    }
}
