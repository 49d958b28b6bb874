//! Products of integers.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{Layout, Vectors};
use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};

use super::factors;
use super::memory::{load, load_half, store};
use crate::products::Groups;

/// Computes a product of integers of eight or four bits.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run(
    plan: &Plan,
    vectors: &Vectors,
    from: &Operands<'_, u32>,
    ([left, right], out): (&mut [Groups<u32>; 2], &mut Registers<u32>),
) {
    factors::integers(&vectors.factors[0], &from.a, left);
    factors::integers(&vectors.factors[1], &from.b, right);
    let (flags, units) = ((vectors.inner, plan.saturates()), (&*left, &*right));
    let sums = (&from.c, out);
    match vectors.layout {
        Layout::Tile16 => blocks::<2, 1, 4, 8, 8>(flags, units, sums),
        Layout::Tile8 => blocks::<1, 1, 4, 8, 8>(flags, units, sums),
        Layout::Fragment16x16 => blocks::<2, 2, 2, 16, 4>(flags, units, sums),
        Layout::Fragment32x8 => blocks::<4, 1, 1, 32, 2>(flags, units, sums),
        Layout::Fragment8x32 => blocks::<1, 4, 4, 8, 8>(flags, units, sums),
    }
}

/// Computes all sums, in blocks of four vectors of `a` and two vectors of `b`. For each unit of a row, `a` has `M` groups of
/// units, and `b` has `N` groups. Each vector of sums has `COLUMNS` columns. A block uses `ROWS` units of `a` and `WIDTH`
/// units of `b`.
#[target_feature(enable = "avx2,fma,f16c")]
fn blocks<
    const M: usize,
    const N: usize,
    const COLUMNS: usize,
    const ROWS: usize,
    const WIDTH: usize,
>(
    (inner, saturates): (usize, bool),
    (left, right): (&Groups<u32>, &Groups<u32>),
    (addend, out): (&[&[u32; 32]; 8], &mut Registers<u32>),
) {
    const { assert!(ROWS * COLUMNS == 32 && WIDTH == 2 * COLUMNS) };
    let (left, _) = left.0.as_chunks::<M>();
    let (right, _) = right.0.as_chunks::<N>();
    for row in 0..M * 8 / ROWS {
        for column in 0..N * 8 / WIDTH {
            let register = (row + column) * 2;
            let mut sums = [[_mm256_setzero_si256(); 2]; 4];
            for (left, right) in left.iter().zip(right).take(inner) {
                let (rows, _) = left.as_flattened().as_chunks::<ROWS>();
                let (columns, _) = right.as_flattened().as_chunks::<WIDTH>();
                let (rows, columns) = (&rows[row], &columns[column]);
                let factors = [repeat::<COLUMNS>(columns, 0), repeat::<COLUMNS>(columns, 1)];
                for (a, sums) in sums.iter_mut().enumerate() {
                    let rows = repeat_rows::<COLUMNS>(rows, a);
                    for (sum, factor) in sums.iter_mut().zip(factors) {
                        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(rows, factor));
                    }
                }
            }
            for (a, sums) in sums.iter().enumerate() {
                for (b, &sum) in sums.iter().enumerate() {
                    let addend = load(&addend[register + b].as_chunks().0[a]);
                    let (words, _) = out[register + b].as_chunks_mut::<8>();
                    store(&mut words[a], add(saturates, addend, sum));
                }
            }
        }
    }
}

/// Returns vector `i` of the units of `b` in a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn repeat<const COLUMNS: usize>(units: &[u32], i: usize) -> __m256i {
    match COLUMNS {
        1 => _mm256_set1_epi32(units[i] as i32),
        2 => {
            let [low, high] = units.as_chunks::<2>().0[i].map(u64::from);
            _mm256_set1_epi64x((high << 32 | low) as i64)
        }
        _ => _mm256_broadcastsi128_si256(load_half(&units.as_chunks().0[i])),
    }
}

/// Returns vector `i` of the units of `a` in a block: each unit is repeated for `COLUMNS` columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn repeat_rows<const COLUMNS: usize>(units: &[u32], i: usize) -> __m256i {
    match COLUMNS {
        1 => load(&units.as_chunks().0[i]),
        2 => {
            let four = load_half(&units.as_chunks().0[i]);
            let order = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
            _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(four), order)
        }
        _ => {
            let [low, high] = units.as_chunks::<2>().0[i];
            let repeated = |unit| _mm_set1_epi32(unit as i32);
            _mm256_set_m128i(repeated(high), repeated(low))
        }
    }
}

/// Adds a sum of products to an addend.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add(saturates: bool, addend: __m256i, sum: __m256i) -> __m256i {
    let wrapped = _mm256_add_epi32(addend, sum);
    if !saturates {
        return wrapped;
    }
    let changed = |x| _mm256_xor_si256(x, wrapped);
    let overflows = _mm256_and_si256(changed(addend), changed(sum));
    let limit = _mm256_xor_si256(_mm256_srai_epi32::<31>(addend), _mm256_set1_epi32(i32::MAX));
    _mm256_castps_si256(_mm256_blendv_ps(
        _mm256_castsi256_ps(wrapped),
        _mm256_castsi256_ps(limit),
        _mm256_castsi256_ps(overflows),
    ))
}
