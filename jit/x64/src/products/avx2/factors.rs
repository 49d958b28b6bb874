//! Writes the units of factors to memory.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{Factor, GROUP, GROUPS};
use margay_ops::types::OpType;

use super::memory::{load, store, store_doubles};
use crate::products::Groups;

/// The registers that contain a matrix.
type Rows<'a> = [&'a [u32; 32]; 8];

/// Writes the elements of a factor with floating-point elements, in double precision.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn floats(factor: &Factor, rows: &Rows<'_>, to: &mut Groups<f64>) {
    let mut put = |at: usize, singles: __m256| {
        let (parts, _) = to.0[at % GROUPS].as_chunks_mut::<4>();
        let (low, high) = (
            _mm256_castps256_ps128(singles),
            _mm256_extractf128_ps::<1>(singles),
        );
        store_doubles(&mut parts[0], _mm256_cvtps_pd(low));
        store_doubles(&mut parts[1], _mm256_cvtps_pd(high));
    };
    match factor.ty {
        OpType::F16 => each(factor, rows, &mut put, |words| halves(words)),
        OpType::BF16 => each(factor, rows, &mut put, |words| {
            let high = _mm256_and_si256(words, _mm256_set1_epi32(!0xffff));
            let low = _mm256_slli_epi32::<16>(words);
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }),
        OpType::TF32 => each(factor, rows, &mut put, |words| {
            let kept = _mm256_and_si256(words, _mm256_set1_epi32(!0x1fff));
            [_mm256_castsi256_ps(kept)]
        }),
        OpType::E5M2 => each(factor, rows, &mut put, |words| {
            let [a, c] = halves(_mm256_slli_epi16::<8>(words));
            let [b, d] = halves(_mm256_and_si256(words, _mm256_set1_epi16(!0xff)));
            [a, b, c, d]
        }),
        _ => each(factor, rows, &mut put, |words| {
            let [a, c] = e4m3(words);
            let [b, d] = e4m3(_mm256_srli_epi16::<8>(words));
            [a, b, c, d]
        }),
    }
}

/// Converts the numbers in half precision in the low and in the high half of each word to single precision.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn halves(words: __m256i) -> [__m256; 2] {
    let low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    let high = _mm256_srli_epi32::<16>(words);
    // The packed halves of each 128 bits are adjacent.
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
    [
        _mm256_cvtph_ps(_mm256_castsi256_si128(packed)),
        _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(packed)),
    ]
}

/// Converts the `e4m3` numbers in the low byte of each half of a word to single precision. If its bits are moved to those of
/// a number in half precision, a number other than NaN has 1 / 256 of its value.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn e4m3(words: __m256i) -> [__m256; 2] {
    let most = _mm256_set1_epi16(0x7f);
    let magnitude = _mm256_and_si256(words, most);
    let sign = _mm256_and_si256(_mm256_slli_epi16::<8>(words), _mm256_set1_epi16(i16::MIN));
    let half = _mm256_or_si256(_mm256_slli_epi16::<7>(magnitude), sign);
    // With all bits set, the half is NaN.
    let is_nan = _mm256_cmpeq_epi16(magnitude, most);
    let [low, high] = halves(_mm256_or_si256(half, is_nan));
    let scale = _mm256_set1_ps(256.0);
    [_mm256_mul_ps(low, scale), _mm256_mul_ps(high, scale)]
}

/// Writes the units of a factor with integer elements, which are pairs of numbers of 16 bits.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn integers(factor: &Factor, rows: &Rows<'_>, to: &mut Groups<u32>) {
    let mut put = |at: usize, units: __m256i| store(&mut to.0[at % GROUPS], units);
    match factor.ty {
        OpType::S8 => each(factor, rows, &mut put, |words| {
            let low = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(words));
            [low, _mm256_srai_epi16::<8>(words)]
        }),
        OpType::U8 => each(factor, rows, &mut put, |words| {
            let low = _mm256_and_si256(words, _mm256_set1_epi16(0xff));
            [low, _mm256_srli_epi16::<8>(words)]
        }),
        OpType::S4 => each(factor, rows, &mut put, |words| {
            [
                _mm256_srai_epi16::<12>(_mm256_slli_epi16::<12>(words)),
                _mm256_srai_epi16::<12>(_mm256_slli_epi16::<8>(words)),
                _mm256_srai_epi16::<12>(_mm256_slli_epi16::<4>(words)),
                _mm256_srai_epi16::<12>(words),
            ]
        }),
        _ => each(factor, rows, &mut put, |words| {
            let nibble = _mm256_set1_epi16(0xf);
            [
                _mm256_and_si256(words, nibble),
                _mm256_and_si256(_mm256_srli_epi16::<4>(words), nibble),
                _mm256_and_si256(_mm256_srli_epi16::<8>(words), nibble),
                _mm256_srli_epi16::<12>(words),
            ]
        }),
    }
}

/// Calls `put` for each group of a factor's units, with the index of the group. `units` converts words to `UNITS` units
/// each.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn each<V, const UNITS: usize>(
    factor: &Factor,
    rows: &Rows<'_>,
    put: &mut impl FnMut(usize, V),
    units: impl Fn(__m256i) -> [V; UNITS],
) {
    let (lanes, _) = factor.lanes.as_chunks::<GROUP>();
    for (row, offset) in rows.iter().zip(factor.offsets).take(factor.registers) {
        let (parts, _) = row.as_chunks::<8>();
        let parts = [
            load(&parts[0]),
            load(&parts[1]),
            load(&parts[2]),
            load(&parts[3]),
        ];
        for (lanes, &group) in lanes.iter().zip(&factor.groups).take(factor.count) {
            let mut at = usize::from(offset) + usize::from(group);
            for units in units(select(&parts, load(lanes))) {
                put(at, units);
                at += usize::from(factor.step);
            }
        }
    }
}

/// Returns the words of a register in these lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn select(parts: &[__m256i; 4], lanes: __m256i) -> __m256i {
    let from = |i: usize| _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(parts[i], lanes));
    // The blends select by the sign bits: those of bit 3 and of bit 4 of the lanes.
    let bit3 = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(lanes));
    let bit4 = _mm256_castsi256_ps(_mm256_slli_epi32::<27>(lanes));
    let low = _mm256_blendv_ps(from(0), from(1), bit3);
    let high = _mm256_blendv_ps(from(2), from(3), bit3);
    _mm256_castps_si256(_mm256_blendv_ps(low, high, bit4))
}
