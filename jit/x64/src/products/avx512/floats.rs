//! Products whose sums are in double precision.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{GROUP, Layout, Vectors};
use margay_ops::meaning::matrix::plan::{Operands, Registers};

use super::factors;
use super::memory::{
    load_doubles, load_half, load_quarter, load_words, repeat_pair, store_quarter, store_words,
};
use crate::products::{Groups, Memory};

/// The registers of the addend and of the result, with one element in each lane.
type Sums<'a> = (&'a [&'a [u32; 32]; 8], &'a mut Registers<u32>);

/// Computes a product of `f16`, `bf16`, `tf32` or 8-bit floating-point elements.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run(
    vectors: &Vectors,
    from: &Operands<'_, u32>,
    (memory, out): (&mut Memory, &mut Registers<u32>),
) {
    let [left, right] = &mut memory.doubles;
    factors::floats(&vectors.factors[0], &from.a, left);
    factors::floats(&vectors.factors[1], &from.b, right);
    let [unpacked, packed] = &mut memory.singles;
    let addend = match vectors.packed[0] {
        true => {
            unpack(&from.c, &mut unpacked.0);
            unpacked.0.each_ref()
        }
        false => from.c,
    };
    if vectors.packed[1] {
        multiply::<true>(vectors, (left, right), (&addend, &mut packed.0));
        pack(&packed.0, out);
    } else {
        multiply::<false>(vectors, (left, right), (&addend, out));
    }
}

/// Converts registers with two numbers in half precision to registers with a number in single precision.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn unpack(from: &[&[u32; 32]; 8], to: &mut Registers<u32>) {
    let (pairs, _) = to.as_chunks_mut::<2>();
    for (words, [low, high]) in from.iter().zip(pairs) {
        let (words, _) = words.as_chunks::<16>();
        let (low, _) = low.as_chunks_mut::<16>();
        let (high, _) = high.as_chunks_mut::<16>();
        for ((words, low), high) in words.iter().zip(low).zip(high) {
            let singles = factors::halves(load_words(words));
            store_words(low, _mm512_castps_si512(singles[0]));
            store_words(high, _mm512_castps_si512(singles[1]));
        }
    }
}

/// Converts pairs of registers with a number in single precision to registers with two numbers in half precision.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn pack(from: &Registers<u32>, to: &mut Registers<u32>) {
    let (pairs, _) = from.as_chunks::<2>();
    for ([low, high], words) in pairs.iter().zip(to) {
        let (low, _) = low.as_chunks::<16>();
        let (high, _) = high.as_chunks::<16>();
        let (words, _) = words.as_chunks_mut::<16>();
        for ((low, high), words) in low.iter().zip(high).zip(words) {
            let half = |singles: &[u32; 16]| {
                let singles = _mm512_castsi512_ps(load_words(singles));
                _mm512_cvtepu16_epi32(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(singles))
            };
            let upper = _mm512_slli_epi32::<16>(half(high));
            store_words(words, _mm512_or_si512(half(low), upper));
        }
    }
}

/// Adds the products of units to the addend. If `ODD` is set, a result that is not exact in single precision gets an odd
/// significand, so that a later conversion to half precision rounds correctly.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn multiply<const ODD: bool>(
    vectors: &Vectors,
    units: (&Groups<f64>, &Groups<f64>),
    sums: Sums<'_>,
) {
    let k = vectors.inner;
    match vectors.layout {
        Layout::Tile16 => block::<2, 1, 4, 16, 1, 0, ODD>(k, units, sums),
        Layout::Tile8 => block::<1, 1, 4, 8, 1, 0, ODD>(k, units, sums),
        Layout::Fragment16x16 => {
            block::<2, 2, 2, 4, 4, 0, ODD>(k, units, (sums.0, sums.1));
            block::<2, 2, 2, 4, 4, 1, ODD>(k, units, sums);
        }
        Layout::Fragment32x8 => {
            block::<4, 1, 1, 4, 4, 0, ODD>(k, units, (sums.0, sums.1));
            block::<4, 1, 1, 4, 4, 1, ODD>(k, units, sums);
        }
        Layout::Fragment8x32 => {
            block::<1, 4, 4, 8, 2, 0, ODD>(k, units, (sums.0, sums.1));
            block::<1, 4, 4, 8, 2, 1, ODD>(k, units, sums);
        }
    }
}

/// Computes the sums of block `I`. The parameters are those of [`accumulate`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn block<
    const M: usize,
    const N: usize,
    const COLUMNS: usize,
    const A: usize,
    const B: usize,
    const I: usize,
    const ODD: bool,
>(
    inner: usize,
    units: (&Groups<f64>, &Groups<f64>),
    (addend, out): Sums<'_>,
) {
    let mut sums = [[_mm512_setzero_pd(); B]; A];
    for (a, sums) in sums.iter_mut().enumerate() {
        for (b, sum) in sums.iter_mut().enumerate() {
            let words = if COLUMNS == 4 {
                let (register, part) = parts(a, I * B + b);
                let part = |row: &[u32; 32]| load_quarter(&row.as_chunks().0[part]);
                let low = _mm256_castsi128_si256(part(addend[register]));
                _mm256_inserti128_si256::<1>(low, part(addend[register + 1]))
            } else {
                load_half(&addend[I * B + b].as_chunks().0[a])
            };
            *sum = _mm512_cvtps_pd(_mm256_castsi256_ps(words));
        }
    }
    accumulate::<M, N, COLUMNS, A, B, I>(inner, units, &mut sums);
    if COLUMNS == 4 {
        for (a, sums) in sums.iter().enumerate() {
            for (b, &sum) in sums.iter().enumerate() {
                let words = single::<ODD>(sum);
                let (register, part) = parts(a, I * B + b);
                let mut put = |register: usize, words| {
                    let (parts, _) = out[register].as_chunks_mut::<4>();
                    store_quarter(&mut parts[part], words);
                };
                put(register, _mm256_castsi256_si128(words));
                put(register + 1, _mm256_extracti128_si256::<1>(words));
            }
        }
        return;
    }
    // The caller loads whole vectors, which is faster if each was stored as a whole.
    const { assert!(COLUMNS == 4 || A == 4, "the sums of a register") }
    let (pairs, _) = sums.as_chunks::<2>();
    for (a, [low, high]) in pairs.iter().enumerate() {
        for (b, (&low, &high)) in low.iter().zip(high).enumerate() {
            let low = _mm512_castsi256_si512(single::<ODD>(low));
            let words = _mm512_inserti64x4::<1>(low, single::<ODD>(high));
            let (parts, _) = out[I * B + b].as_chunks_mut::<16>();
            store_words(&mut parts[a], words);
        }
    }
}

/// Returns where the sums of a row are in a layout whose registers contain four columns of each row: a vector of eight sums
/// consists of four lanes of a register, and of the same lanes of the next register. The first result is the index of the
/// first register, and the second result is the number of the first lane, divided by 4.
#[inline]
pub(super) fn parts(row: usize, group: usize) -> (usize, usize) {
    ((row / 8 + group) * 2, row % 8)
}

/// Converts sums to single precision.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn single<const ODD: bool>(sum: __m512d) -> __m256i {
    let value = if ODD {
        // The least significant bit that single precision keeps is bit 29. Numbers with fewer bits in single precision
        // become zero in half precision.
        let bits = _mm512_castpd_si512(sum);
        let inexact = _mm512_test_epi64_mask(bits, _mm512_set1_epi64((1 << 29) - 1));
        let odd = _mm512_mask_or_epi64(bits, inexact, bits, _mm512_set1_epi64(1 << 29));
        let odd = _mm512_castsi512_pd(odd);
        _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(odd)
    } else {
        _mm512_cvtpd_ps(sum)
    };
    // The table selects the canonical NaN for both kinds of NaN, and the value for other numbers.
    let nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
    let table = _mm256_set1_epi32(0x1111_1100);
    _mm256_castps_si256(_mm256_fixupimm_ps::<0>(nan, value, table))
}

/// Adds the products of units to the sums of block `I`, in the order of `k`. For each `k`, `a` has `M` groups of units, and
/// `b` has `N` groups. A block of sums uses all `A` vectors of `a`, and `B` vectors of `b`.
///
/// If `COLUMNS` is 4, each vector of sums consists of eight columns of one row ([`parts`]). Otherwise, it consists of eight
/// lanes of a register and has `COLUMNS` columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn accumulate<
    const M: usize,
    const N: usize,
    const COLUMNS: usize,
    const A: usize,
    const B: usize,
    const I: usize,
>(
    inner: usize,
    (left, right): (&Groups<f64>, &Groups<f64>),
    sums: &mut [[__m512d; B]; A],
) {
    let mut held = *sums;
    let (left, _) = left.0.as_chunks::<M>();
    let (right, _) = right.0.as_chunks::<N>();
    for (left, right) in left.iter().zip(right).take(inner) {
        let mut factors = [_mm512_setzero_pd(); B];
        for (b, factor) in factors.iter_mut().enumerate() {
            *factor = columns::<COLUMNS>(right, I * B + b);
        }
        for (a, sums) in held.iter_mut().enumerate() {
            let rows = rows::<COLUMNS>(left, a);
            for (sum, &factor) in sums.iter_mut().zip(&factors) {
                *sum = _mm512_fmadd_pd(rows, factor, *sum);
            }
        }
    }
    *sums = held;
}

/// Returns vector `i` of the units of `a` with the same `k`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn rows<const COLUMNS: usize>(units: &[[f64; GROUP]], i: usize) -> __m512d {
    match COLUMNS {
        1 => load_doubles(&units[i]),
        2 => {
            let first = _mm512_set1_epi64(i as i64 % 2 * 4);
            let order = _mm512_add_epi64(_mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0), first);
            _mm512_permutexvar_pd(order, load_doubles(&units[i / 2]))
        }
        _ => _mm512_set1_pd(units.as_flattened()[i]),
    }
}

/// Returns vector `i` of the units of `b` with the same `k`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn columns<const COLUMNS: usize>(units: &[[f64; GROUP]], i: usize) -> __m512d {
    match COLUMNS {
        1 => _mm512_set1_pd(units.as_flattened()[i]),
        2 => repeat_pair(&units.as_flattened().as_chunks().0[i]),
        _ => load_doubles(&units[i]),
    }
}
