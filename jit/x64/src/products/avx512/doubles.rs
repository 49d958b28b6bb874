//! Products whose elements are in double precision.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{Factor, GROUP, GROUPS, Layout, Vectors};
use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};

use super::floats::{accumulate, parts};
use super::memory::{load_half_longs, load_longs, load_words, store_doubles, store_half_longs};
use crate::products::Groups;

/// Returns whether [`run`] computes the product.
pub(in super::super) fn is_supported(plan: &Plan) -> bool {
    let is_tile = |vectors: &Vectors| matches!(vectors.layout, Layout::Tile16 | Layout::Tile8);
    plan.is_wide() && plan.vectors().is_some_and(is_tile)
}

/// Computes a product, writes the result to `out`, and returns true. If an element of the result is NaN, or if the product
/// is not supported, does not change `out` and returns false.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(in super::super) fn run(
    plan: &Plan,
    from: &Operands<'_, u64>,
    ([left, right], out): (&mut [Groups<f64>; 2], &mut Registers<u64>),
) -> bool {
    let Some(vectors) = plan.vectors() else {
        return false;
    };
    arrange(&vectors.factors[0], &from.a, left);
    arrange(&vectors.factors[1], &from.b, right);
    let (units, sums) = ((&*left, &*right), (&from.c, out));
    match vectors.layout {
        Layout::Tile16 => tile::<2, 16>(vectors.inner, units, sums),
        Layout::Tile8 => tile::<1, 8>(vectors.inner, units, sums),
        _ => false,
    }
}

/// Writes the elements of a factor to memory.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn arrange(factor: &Factor, rows: &[&[u64; 32]; 8], to: &mut Groups<f64>) {
    let (lanes, _) = factor.lanes.as_chunks::<GROUP>();
    for (row, offset) in rows.iter().zip(factor.offsets).take(factor.registers) {
        let (parts, _) = row.as_chunks::<8>();
        let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| load_longs(&parts[i]));
        for (lanes, &group) in lanes.iter().zip(&factor.groups).take(factor.count) {
            let mut wide = [0; 16];
            wide[..GROUP].copy_from_slice(lanes);
            let lanes = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(load_words(&wide)));
            let low = _mm512_permutex2var_epi64(a, lanes, b);
            let high = _mm512_permutex2var_epi64(c, lanes, d);
            let is_high = _mm512_test_epi64_mask(lanes, _mm512_set1_epi64(16));
            let values = _mm512_mask_mov_epi64(low, is_high, high);
            let at = usize::from(group) + usize::from(offset);
            store_doubles(&mut to.0[at % GROUPS], _mm512_castsi512_pd(values));
        }
    }
}

/// Computes a product of `A` rows, which are `M` groups of rows, and of eight columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn tile<const M: usize, const A: usize>(
    inner: usize,
    units: (&Groups<f64>, &Groups<f64>),
    (addend, out): (&[&[u64; 32]; 8], &mut Registers<u64>),
) -> bool {
    let mut sums = [[_mm512_setzero_pd()]; A];
    for (a, [sum]) in sums.iter_mut().enumerate() {
        let (register, part) = parts(a, 0);
        let part = |row: &[u64; 32]| load_half_longs(&row.as_chunks().0[part]);
        let low = _mm512_castsi256_si512(part(addend[register]));
        let both = _mm512_inserti64x4::<1>(low, part(addend[register + 1]));
        *sum = _mm512_castsi512_pd(both);
    }
    accumulate::<M, 1, 4, A, 1, 0>(inner, units, &mut sums);
    let mut nans = 0;
    for [sum] in sums {
        nans |= _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(sum, sum);
    }
    if nans != 0 {
        return false;
    }
    for (a, [sum]) in sums.into_iter().enumerate() {
        let (register, part) = parts(a, 0);
        let sum = _mm512_castpd_si512(sum);
        let mut put = |register: usize, longs| {
            let (parts, _) = out[register].as_chunks_mut::<4>();
            store_half_longs(&mut parts[part], longs);
        };
        put(register, _mm512_castsi512_si256(sum));
        put(register + 1, _mm512_extracti64x4_epi64::<1>(sum));
    }
    true
}
