//! Products of polynomials over GF(2), with the processor's instruction for products of 64 bits if it has one.

/// The number of words below which a product is computed directly.
const DIRECT: usize = 40;

/// Computes the product of two polynomials with the same number of words.
pub(crate) fn multiply(a: &[u64], b: &[u64], product: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("pclmulqdq") && std::is_x86_feature_detected!("sse4.1") {
        return karatsuba(a, b, product, &|a, b, product| {
            // SAFETY: the processor has the instructions.
            unsafe { x86::direct(a, b, product) }
        });
    }
    karatsuba(a, b, product, &portable);
}

/// Splits the factors into halves until they are short: three products instead of four.
fn karatsuba(
    a: &[u64],
    b: &[u64],
    product: &mut [u64],
    direct: &impl Fn(&[u64], &[u64], &mut [u64]),
) {
    let n = a.len();
    if n < DIRECT || n % 2 == 1 {
        return direct(a, b, product);
    }
    let half = n / 2;
    let ((a0, a1), (b0, b1)) = (a.split_at(half), b.split_at(half));
    let (low, high) = product.split_at_mut(n);
    karatsuba(a0, b0, low, direct);
    karatsuba(a1, b1, high, direct);
    let sum = |x: &[u64], y: &[u64]| -> Vec<u64> { x.iter().zip(y).map(|(x, y)| x ^ y).collect() };
    let mut middle = vec![0; n];
    karatsuba(&sum(a0, a1), &sum(b0, b1), &mut middle, direct);
    for k in 0..n {
        middle[k] ^= low[k] ^ high[k];
    }
    for (k, word) in middle.iter().enumerate() {
        product[half + k] ^= word;
    }
}

/// The direct product with ordinary instructions: four bits of one factor at a time.
fn portable(a: &[u64], b: &[u64], product: &mut [u64]) {
    product.fill(0);
    for (i, x) in a.iter().enumerate() {
        let x = u128::from(*x);
        let mut table = [0_u128; 16];
        for k in 1..16 {
            table[k] = table[k / 2] << 1 ^ if k % 2 == 1 { x } else { 0 };
        }
        for (j, y) in b.iter().enumerate() {
            let mut sum = 0_u128;
            for shift in (0..64).step_by(4).rev() {
                sum = sum << 4 ^ table[(y >> shift & 15) as usize];
            }
            product[i + j] ^= sum as u64;
            product[i + j + 1] ^= (sum >> 64) as u64;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_set_epi64x,
        _mm_setzero_si128, _mm_xor_si128,
    };

    /// The direct product, one word of the result at a time.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    pub(super) fn direct(a: &[u64], b: &[u64], product: &mut [u64]) {
        let n = a.len();
        let mut carry = 0;
        for column in 0..2 * n - 1 {
            let first = column.saturating_sub(n - 1);
            let last = column.min(n - 1);
            let mut sum = _mm_setzero_si128();
            let reversed = b[column - last..=column - first].iter().rev();
            for (x, y) in a[first..=last].iter().zip(reversed) {
                let pair = _mm_set_epi64x(*y as i64, *x as i64);
                sum = _mm_xor_si128(sum, _mm_clmulepi64_si128::<0x10>(pair, pair));
            }
            product[column] = carry ^ _mm_cvtsi128_si64(sum) as u64;
            carry = _mm_extract_epi64::<1>(sum) as u64;
        }
        product[2 * n - 1] = carry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_bits() {
        let word = |k: u64| k.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ k << 40;
        for n in [1, 3, 40, 78] {
            let a: Vec<u64> = (0..n).map(|k| word(k + 1)).collect();
            let b: Vec<u64> = (0..n).map(|k| word(k + 1000)).collect();
            let mut expected = vec![0; 2 * n as usize];
            for i in 0..64 * n as usize {
                for j in (0..64 * n as usize).filter(|_| a[i / 64] >> (i % 64) & 1 == 1) {
                    let bit = b[j / 64] >> (j % 64) & 1;
                    expected[(i + j) / 64] ^= bit << ((i + j) % 64);
                }
            }
            let mut product = vec![1; 2 * n as usize];
            multiply(&a, &b, &mut product);
            assert_eq!(product, expected, "{n}");
            karatsuba(&a, &b, &mut product, &portable);
            assert_eq!(product, expected, "{n}");
        }
    }
}
