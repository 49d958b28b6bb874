//! Products whose sums are in double precision.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{GROUP, Layout, Vectors};
use margay_ops::meaning::matrix::plan::{Operands, Registers};

use super::factors;
use super::memory::{load_half, load_words, repeat_singles, store_half, store_words};
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
    let [left, right] = &mut memory.units;
    factors::write(&vectors.factors[0], &from.a, left);
    factors::write(&vectors.factors[1], &from.b, right);
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
            store_words(low, singles[0]);
            store_words(high, singles[1]);
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
    units: (&Groups<u32>, &Groups<u32>),
    sums: Sums<'_>,
) {
    let k = vectors.inner;
    match vectors.layout {
        Layout::Tile16 => block::<2, 1, 4, 8, 2, 0, ODD>(k, units, sums),
        Layout::Tile8 => block::<1, 1, 4, 4, 2, 0, ODD>(k, units, sums),
        Layout::Fragment16x16 => {
            block::<2, 2, 2, 4, 4, 0, ODD>(k, units, (sums.0, sums.1));
            block::<2, 2, 2, 4, 4, 1, ODD>(k, units, sums);
        }
        Layout::Fragment32x8 => {
            block::<4, 1, 1, 4, 4, 0, ODD>(k, units, (sums.0, sums.1));
            block::<4, 1, 1, 4, 4, 1, ODD>(k, units, sums);
        }
        Layout::Fragment8x32 => {
            block::<1, 4, 4, 4, 4, 0, ODD>(k, units, (sums.0, sums.1));
            block::<1, 4, 4, 4, 4, 1, ODD>(k, units, sums);
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
    units: (&Groups<u32>, &Groups<u32>),
    (addend, out): Sums<'_>,
) {
    let mut sums = [[_mm512_setzero_pd(); B]; A];
    for (a, sums) in sums.iter_mut().enumerate() {
        for (b, sum) in sums.iter_mut().enumerate() {
            let (words, _) = addend[(a / 4 + I) * B + b].as_chunks::<8>();
            let words = load_half(&words[a % 4]);
            *sum = _mm512_cvtps_pd(_mm256_castsi256_ps(words));
        }
    }
    accumulate::<u32, M, N, COLUMNS, A, B, I>(
        inner,
        units,
        &mut sums,
        |units| _mm512_cvtps_pd(_mm256_castsi256_ps(load_half(units))),
        |units| repeat_singles::<COLUMNS>(units),
    );
    for (a, sums) in sums.iter().enumerate() {
        for (b, &sum) in sums.iter().enumerate() {
            let (words, _) = out[(a / 4 + I) * B + b].as_chunks_mut::<8>();
            store_half(&mut words[a % 4], single::<ODD>(sum));
        }
    }
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
/// `b` has `N` groups. Each vector of sums has `COLUMNS` columns. A block of sums uses all `A` vectors of `a`, and `B`
/// vectors of `b`. `load` loads a group of units, and `repeat` returns a vector that repeats the first units of a slice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn accumulate<
    T,
    const M: usize,
    const N: usize,
    const COLUMNS: usize,
    const A: usize,
    const B: usize,
    const I: usize,
>(
    inner: usize,
    (left, right): (&Groups<T>, &Groups<T>),
    sums: &mut [[__m512d; B]; A],
    load: impl Fn(&[T; GROUP]) -> __m512d,
    repeat: impl Fn(&[T]) -> __m512d,
) {
    const { assert!(A == M * COLUMNS && (I + 1) * B * COLUMNS <= N * 8) };
    let mut held = *sums;
    let mut repeats = [_mm512_setzero_si512(); COLUMNS];
    for (i, repeat) in repeats.iter_mut().enumerate() {
        let numbers = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
        let shift = _mm_cvtsi32_si128(COLUMNS.ilog2() as i32);
        let first = _mm512_set1_epi64((i * (8 / COLUMNS)) as i64);
        *repeat = _mm512_add_epi64(_mm512_srl_epi64(numbers, shift), first);
    }
    let (left, _) = left.0.as_chunks::<M>();
    let (right, _) = right.0.as_chunks::<N>();
    for (left, right) in left.iter().zip(right).take(inner) {
        let right = right.as_flattened();
        let mut factors = [_mm512_setzero_pd(); B];
        for (b, factor) in factors.iter_mut().enumerate() {
            *factor = repeat(&right[(I * B + b) * COLUMNS..]);
        }
        for (a, sums) in held.iter_mut().enumerate() {
            let rows = load(&left[a / COLUMNS]);
            let rows = match COLUMNS {
                1 => rows,
                _ => _mm512_permutexvar_pd(repeats[a % COLUMNS], rows),
            };
            for (sum, &factor) in sums.iter_mut().zip(&factors) {
                *sum = _mm512_fmadd_pd(rows, factor, *sum);
            }
        }
    }
    *sums = held;
}
