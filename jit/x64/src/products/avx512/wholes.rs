//! Products of integers and of single bits.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{Layout, Vectors};
use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};

use super::factors;
use super::memory::{load_half, load_words, repeat_words, store_words};
use crate::products::Groups;

/// Defines a function that computes a product of units for a set of extensions. `$step` adds the product of two vectors of
/// units to a vector of sums.
macro_rules! product {
    ($(#[$doc:meta])* $name:ident, $features:literal, $step:expr) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        pub(super) fn $name(
            plan: &Plan,
            vectors: &Vectors,
            from: &Operands<'_, u32>,
            ([left, right], out): (&mut [Groups<u32>; 2], &mut Registers<u32>),
        ) {
            /// Computes all sums. For each unit of a row, `a` has `M` groups of units, and `b` has `N` groups. Each vector of
            /// sums has `COLUMNS` columns. There are `A` vectors of `a` and `B` vectors of `b`.
            #[target_feature(enable = $features)]
            fn multiply<
                const M: usize,
                const N: usize,
                const COLUMNS: usize,
                const A: usize,
                const B: usize,
            >(
                (inner, saturates, exclusive): (usize, bool, bool),
                (left, right): (&Groups<u32>, &Groups<u32>),
                (addend, out): (&[&[u32; 32]; 8], &mut Registers<u32>),
            ) {
                const { assert!(2 * A == M * COLUMNS && B * COLUMNS == N * 8) };
                let mut sums = [[_mm512_setzero_si512(); B]; A];
                let (left, _) = left.0.as_chunks::<M>();
                let (right, _) = right.0.as_chunks::<N>();
                for (left, right) in left.iter().zip(right).take(inner) {
                    let right = right.as_flattened();
                    let mut factors = [_mm512_setzero_si512(); B];
                    for (b, factor) in factors.iter_mut().enumerate() {
                        *factor = repeat_words::<COLUMNS>(&right[b * COLUMNS..]);
                    }
                    for (a, sums) in sums.iter_mut().enumerate() {
                        let rows = repeat_rows::<COLUMNS>(left.as_flattened(), a);
                        for (sum, &factor) in sums.iter_mut().zip(&factors) {
                            *sum = $step(exclusive, rows, factor, *sum);
                        }
                    }
                }
                for (a, sums) in sums.iter().enumerate() {
                    for (b, &sum) in sums.iter().enumerate() {
                        let j = a / 2 * B + b;
                        let (words, _) = addend[j].as_chunks::<16>();
                        let addend = load_words(&words[a % 2]);
                        let (words, _) = out[j].as_chunks_mut::<16>();
                        store_words(&mut words[a % 2], add(saturates, addend, sum));
                    }
                }
            }
            factors::wholes(&vectors.factors[0], &from.a, left);
            factors::wholes(&vectors.factors[1], &from.b, right);
            let flags = (vectors.inner, plan.saturates(), plan.is_exclusive());
            let (units, sums) = ((&*left, &*right), (&from.c, out));
            match vectors.layout {
                Layout::Tile16 => multiply::<2, 1, 4, 4, 2>(flags, units, sums),
                Layout::Tile8 => multiply::<1, 1, 4, 2, 2>(flags, units, sums),
                Layout::Fragment16x16 => multiply::<2, 2, 2, 2, 8>(flags, units, sums),
                Layout::Fragment32x8 => multiply::<4, 1, 1, 2, 8>(flags, units, sums),
                Layout::Fragment8x32 => multiply::<1, 4, 4, 2, 8>(flags, units, sums),
            }
        }
    };
}

product!(
    /// Computes a product of integers of eight or four bits.
    integers,
    "avx512f,avx512bw,avx512dq,avx512vl",
    |_, a, b, sum| _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
);

product!(
    /// Computes a product of single bits.
    bits,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq",
    |exclusive: bool, a, b, sum| {
        let bits = match exclusive {
            true => _mm512_xor_si512(a, b),
            false => _mm512_and_si512(a, b),
        };
        _mm512_add_epi32(sum, _mm512_popcnt_epi32(bits))
    }
);

/// Returns vector `a` of the units of `a` with the same `k`: each unit is repeated for `COLUMNS` columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn repeat_rows<const COLUMNS: usize>(units: &[u32], a: usize) -> __m512i {
    let first = a * 16 / COLUMNS;
    if COLUMNS == 1 {
        let (chunks, _) = units.as_chunks::<16>();
        return load_words(&chunks[a]);
    }
    let (groups, _) = units.as_chunks::<8>();
    let group = _mm512_castsi256_si512(load_half(&groups[first / 8]));
    let numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let shift = _mm_cvtsi32_si128(COLUMNS.ilog2() as i32);
    let first = _mm512_set1_epi32((first % 8) as i32);
    let rows = _mm512_add_epi32(_mm512_srl_epi32(numbers, shift), first);
    _mm512_permutexvar_epi32(rows, group)
}

/// Adds a sum of products to an addend.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn add(saturates: bool, addend: __m512i, sum: __m512i) -> __m512i {
    let wrapped = _mm512_add_epi32(addend, sum);
    if !saturates {
        return wrapped;
    }
    let changed = |x| _mm512_xor_si512(x, wrapped);
    let overflows = _mm512_movepi32_mask(_mm512_and_si512(changed(addend), changed(sum)));
    let limit = _mm512_xor_si512(_mm512_srai_epi32::<31>(addend), _mm512_set1_epi32(i32::MAX));
    _mm512_mask_mov_epi32(wrapped, overflows, limit)
}
