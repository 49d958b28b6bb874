//! Products whose sums are in double precision.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{Layout, Vectors};
use margay_ops::meaning::matrix::plan::{Operands, Registers};

use super::factors;
use super::memory::{load, load_doubles, load_half, repeat_pair, store, store_half};
use crate::products::{Groups, Memory};

/// The registers of the addend and of the result, with one element in each lane.
type Sums<'a> = (&'a [&'a [u32; 32]; 8], &'a mut Registers<u32>);

/// Computes a product of `f16`, `bf16`, `tf32` or 8-bit floating-point elements.
#[target_feature(enable = "avx2,fma,f16c")]
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
#[target_feature(enable = "avx2,fma,f16c")]
fn unpack(from: &[&[u32; 32]; 8], to: &mut Registers<u32>) {
    let (pairs, _) = to.as_chunks_mut::<2>();
    for (words, [low, high]) in from.iter().zip(pairs) {
        let (words, _) = words.as_chunks::<8>();
        let (low, _) = low.as_chunks_mut::<8>();
        let (high, _) = high.as_chunks_mut::<8>();
        for ((words, low), high) in words.iter().zip(low).zip(high) {
            let singles = factors::halves(load(words));
            store(low, _mm256_castps_si256(singles[0]));
            store(high, _mm256_castps_si256(singles[1]));
        }
    }
}

/// Converts pairs of registers with a number in single precision to registers with two numbers in half precision.
#[target_feature(enable = "avx2,fma,f16c")]
fn pack(from: &Registers<u32>, to: &mut Registers<u32>) {
    let (pairs, _) = from.as_chunks::<2>();
    for ([low, high], words) in pairs.iter().zip(to) {
        let (low, _) = low.as_chunks::<8>();
        let (high, _) = high.as_chunks::<8>();
        let (words, _) = words.as_chunks_mut::<8>();
        for ((low, high), words) in low.iter().zip(high).zip(words) {
            let half = |singles: &[u32; 8]| {
                let singles = _mm256_castsi256_ps(load(singles));
                _mm256_cvtepu16_epi32(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(singles))
            };
            let upper = _mm256_slli_epi32::<16>(half(high));
            store(words, _mm256_or_si256(half(low), upper));
        }
    }
}

/// Adds the products of units to the addend. If `ODD` is set, a result that is not exact in single precision gets an odd
/// significand, so that a later conversion to half precision rounds correctly.
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply<const ODD: bool>(
    vectors: &Vectors,
    units: (&Groups<f64>, &Groups<f64>),
    sums: Sums<'_>,
) {
    let k = vectors.inner;
    match vectors.layout {
        Layout::Tile16 => blocks::<2, 1, 4, 4, 8, ODD>(k, units, sums),
        Layout::Tile8 => blocks::<1, 1, 4, 4, 8, ODD>(k, units, sums),
        Layout::Fragment16x16 => blocks::<2, 2, 2, 8, 4, ODD>(k, units, sums),
        Layout::Fragment32x8 => blocks::<4, 1, 1, 16, 2, ODD>(k, units, sums),
        Layout::Fragment8x32 => blocks::<1, 4, 4, 4, 8, ODD>(k, units, sums),
    }
}

/// Computes all sums, in blocks of four vectors of `a` and two vectors of `b`. For each `k`, `a` has `M` groups of units, and
/// `b` has `N` groups. Each vector of sums has `COLUMNS` columns. A block uses `ROWS` units of `a` and `WIDTH` units of `b`.
#[target_feature(enable = "avx2,fma,f16c")]
fn blocks<
    const M: usize,
    const N: usize,
    const COLUMNS: usize,
    const ROWS: usize,
    const WIDTH: usize,
    const ODD: bool,
>(
    inner: usize,
    (left, right): (&Groups<f64>, &Groups<f64>),
    (addend, out): Sums<'_>,
) {
    const { assert!(ROWS * COLUMNS == 16 && WIDTH == 2 * COLUMNS) };
    let (left, _) = left.0.as_chunks::<M>();
    let (right, _) = right.0.as_chunks::<N>();
    for row in 0..M * 8 / ROWS {
        for column in 0..N * 8 / WIDTH {
            // Two blocks of rows fill the lanes of a register.
            let register = (row / 2 + column) * 2;
            let mut sums = [[_mm256_setzero_pd(); 2]; 4];
            for (a, sums) in sums.iter_mut().enumerate() {
                for (b, sum) in sums.iter_mut().enumerate() {
                    let (words, _) = addend[register + b].as_chunks::<4>();
                    let words = load_half(&words[row % 2 * 4 + a]);
                    *sum = _mm256_cvtps_pd(_mm_castsi128_ps(words));
                }
            }
            for (left, right) in left.iter().zip(right).take(inner) {
                let (rows, _) = left.as_flattened().as_chunks::<ROWS>();
                let (columns, _) = right.as_flattened().as_chunks::<WIDTH>();
                let (rows, columns) = (&rows[row], &columns[column]);
                let factors = [repeat::<COLUMNS>(columns, 0), repeat::<COLUMNS>(columns, 1)];
                for (a, sums) in sums.iter_mut().enumerate() {
                    let rows = repeat_rows::<COLUMNS>(rows, a);
                    for (sum, factor) in sums.iter_mut().zip(factors) {
                        *sum = _mm256_fmadd_pd(rows, factor, *sum);
                    }
                }
            }
            for (a, sums) in sums.iter().enumerate() {
                for (b, &sum) in sums.iter().enumerate() {
                    let (words, _) = out[register + b].as_chunks_mut::<4>();
                    store_half(&mut words[row % 2 * 4 + a], single::<ODD>(sum));
                }
            }
        }
    }
}

/// Returns vector `i` of the units of `b` in a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn repeat<const COLUMNS: usize>(units: &[f64], i: usize) -> __m256d {
    match COLUMNS {
        1 => _mm256_set1_pd(units[i]),
        2 => repeat_pair(&units.as_chunks().0[i]),
        _ => load_doubles(&units.as_chunks().0[i]),
    }
}

/// Returns vector `i` of the units of `a` in a block: each unit is repeated for `COLUMNS` columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn repeat_rows<const COLUMNS: usize>(units: &[f64], i: usize) -> __m256d {
    match COLUMNS {
        1 => load_doubles(&units.as_chunks().0[i]),
        2 => {
            let pair = repeat_pair(&units.as_chunks().0[i]);
            _mm256_permute_pd::<0b1100>(pair)
        }
        _ => _mm256_set1_pd(units[i]),
    }
}

/// Converts sums to single precision.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn single<const ODD: bool>(sum: __m256d) -> __m128i {
    let mut kept = sum;
    if ODD {
        // The least significant bit that single precision keeps is bit 29. Numbers with fewer bits in single precision
        // become zero in half precision.
        let bits = _mm256_castpd_si256(sum);
        let low = _mm256_and_si256(bits, _mm256_set1_epi64x((1 << 29) - 1));
        let exact = _mm256_cmpeq_epi64(low, _mm256_setzero_si256());
        let odd = _mm256_andnot_si256(exact, _mm256_set1_epi64x(1 << 29));
        let cut = _mm256_andnot_si256(_mm256_set1_epi64x((1 << 29) - 1), bits);
        kept = _mm256_castsi256_pd(_mm256_or_si256(cut, odd));
    }
    let value = _mm256_cvtpd_ps(kept);
    let nan = _mm_castsi128_ps(_mm_set1_epi32(0x7fff_ffff));
    _mm_castps_si128(_mm_blendv_ps(value, nan, _mm_cmpunord_ps(value, value)))
}
