//! Writes the units of factors to memory.

use std::arch::x86_64::*;

use margay_ops::meaning::matrix::plan::vectors::{Factor, GROUPS};
use margay_ops::types::OpType;

use super::memory::{load_words, store_doubles, store_half};
use crate::products::Groups;

/// The registers that contain a matrix.
type Rows<'a> = [&'a [u32; 32]; 8];

/// Writes the elements of a factor with floating-point elements, in double precision.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn floats(factor: &Factor, rows: &Rows<'_>, to: &mut Groups<f64>) {
    let mut put = |at: usize, value: __m512, both: Option<usize>| {
        let low = _mm512_castps512_ps256(value);
        store_doubles(&mut to.0[at % GROUPS], _mm512_cvtps_pd(low));
        if let Some(at) = both {
            let high = _mm512_extractf32x8_ps::<1>(value);
            store_doubles(&mut to.0[at % GROUPS], _mm512_cvtps_pd(high));
        }
    };
    match factor.ty {
        OpType::F16 => each(factor, rows, &mut put, |words| {
            let low = _mm512_cvtepi32_epi16(words);
            let high = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(words));
            [_mm512_cvtph_ps(low), _mm512_cvtph_ps(high)]
        }),
        OpType::BF16 => each(factor, rows, &mut put, |words| {
            let low = _mm512_slli_epi32::<16>(words);
            let high = _mm512_and_si512(words, _mm512_set1_epi32(!0xffff));
            [_mm512_castsi512_ps(low), _mm512_castsi512_ps(high)]
        }),
        OpType::TF32 => each(factor, rows, &mut put, |words| {
            let kept = _mm512_and_si512(words, _mm512_set1_epi32(!0x1fff));
            [_mm512_castsi512_ps(kept)]
        }),
        OpType::E5M2 => each(factor, rows, &mut put, |words| {
            let [a, b, c, d] = bytes(words);
            [a, b, c, d]
                .map(|bytes| _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_slli_epi32::<8>(bytes))))
        }),
        _ => each(factor, rows, &mut put, |words| {
            let [a, b, c, d] = bytes(words);
            [e4m3(a), e4m3(b), e4m3(c), e4m3(d)]
        }),
    }
}

/// Returns the four bytes of each word, without the upper bits of the words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn bytes(words: __m512i) -> [__m512i; 4] {
    let byte = _mm512_set1_epi32(0xff);
    [
        _mm512_and_si512(words, byte),
        _mm512_and_si512(_mm512_srli_epi32::<8>(words), byte),
        _mm512_and_si512(_mm512_srli_epi32::<16>(words), byte),
        _mm512_srli_epi32::<24>(words),
    ]
}

/// Converts `e4m3` numbers. With its bits moved to those of a half, a number other than NaN has 1 / 256 of its value.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn e4m3(bytes: __m512i) -> __m512 {
    let magnitude = _mm512_and_si512(bytes, _mm512_set1_epi32(0x7f));
    let sign = _mm512_and_si512(bytes, _mm512_set1_epi32(0x80));
    let half = _mm512_or_si512(
        _mm512_slli_epi32::<7>(magnitude),
        _mm512_slli_epi32::<8>(sign),
    );
    let small = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(half));
    let is_nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
    let value = _mm512_mul_ps(small, _mm512_set1_ps(256.0));
    _mm512_mask_mov_ps(value, is_nan, _mm512_set1_ps(f32::NAN))
}

/// Writes the units of a factor with elements that are integers or single bits. The unit of integers is a pair of numbers of
/// 16 bits.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn wholes(factor: &Factor, rows: &Rows<'_>, to: &mut Groups<u32>) {
    let mut put = |at: usize, units: __m512i, both: Option<usize>| {
        store_half(&mut to.0[at % GROUPS], _mm512_castsi512_si256(units));
        if let Some(at) = both {
            let high = _mm512_extracti32x8_epi32::<1>(units);
            store_half(&mut to.0[at % GROUPS], high);
        }
    };
    match factor.ty {
        OpType::S8 => each(factor, rows, &mut put, |words| {
            let low = _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(words));
            [low, _mm512_srai_epi16::<8>(words)]
        }),
        OpType::U8 => each(factor, rows, &mut put, |words| {
            let low = _mm512_and_si512(words, _mm512_set1_epi16(0xff));
            [low, _mm512_srli_epi16::<8>(words)]
        }),
        OpType::S4 => each(factor, rows, &mut put, |words| {
            [
                _mm512_srai_epi16::<12>(_mm512_slli_epi16::<12>(words)),
                _mm512_srai_epi16::<12>(_mm512_slli_epi16::<8>(words)),
                _mm512_srai_epi16::<12>(_mm512_slli_epi16::<4>(words)),
                _mm512_srai_epi16::<12>(words),
            ]
        }),
        OpType::U4 => each(factor, rows, &mut put, |words| {
            let nibble = _mm512_set1_epi16(0xf);
            [
                _mm512_and_si512(words, nibble),
                _mm512_and_si512(_mm512_srli_epi16::<4>(words), nibble),
                _mm512_and_si512(_mm512_srli_epi16::<8>(words), nibble),
                _mm512_srli_epi16::<12>(words),
            ]
        }),
        _ => each(factor, rows, &mut put, |words| [words]),
    }
}

/// Calls `put` for each pair of groups of a factor's units, with the index of the first group, the units, and the index of
/// the second group. If the second group is absent, half of the units have no meaning. `units` converts words to `UNITS`
/// units each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn each<V: Copy, const UNITS: usize>(
    factor: &Factor,
    rows: &Rows<'_>,
    put: &mut impl FnMut(usize, V, Option<usize>),
    units: impl Fn(__m512i) -> [V; UNITS],
) {
    let step = usize::from(factor.step);
    let (lanes, _) = factor.lanes.as_chunks::<16>();
    let groups = factor.groups[..factor.count.min(4)].chunks(2);
    for (row, offset) in rows.iter().zip(factor.offsets).take(factor.registers) {
        let (halves, _) = row.as_chunks::<16>();
        let (low, high) = (load_words(&halves[0]), load_words(&halves[1]));
        for (lanes, groups) in lanes.iter().zip(groups.clone()) {
            let words = _mm512_permutex2var_epi32(low, load_words(lanes), high);
            let at = |group: &u8| usize::from(*group) + usize::from(offset);
            let (first, second) = (groups.first().map_or(0, at), groups.get(1).map(at));
            for (i, value) in units(words).into_iter().enumerate() {
                put(first + i * step, value, second.map(|at| at + i * step));
            }
        }
    }
}
