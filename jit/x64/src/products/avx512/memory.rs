//! Loads and stores of vectors, and vectors that repeat elements.

use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load_words(words: &[u32; 16]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load_half(words: &[u32; 8]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn store_words(to: &mut [u32; 16], words: __m512i) {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn store_half(to: &mut [u32; 8], words: __m256i) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load_doubles(doubles: &[f64; 8]) -> __m512d {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_pd(doubles.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn store_doubles(to: &mut [f64; 8], doubles: __m512d) {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_pd(to.as_mut_ptr(), doubles) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load_longs(longs: &[u64; 8]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(longs.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load_half_longs(longs: &[u64; 4]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(longs.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn store_half_longs(to: &mut [u64; 4], longs: __m256i) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), longs) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load_quarter(words: &[u32; 4]) -> __m128i {
    // SAFETY: the array has 16 bytes.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn store_quarter(to: &mut [u32; 4], words: __m128i) {
    // SAFETY: the array has 16 bytes.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), words) }
}

/// Returns a vector in which the elements of `from` are repeated.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn repeat_pair(from: &[f64; 2]) -> __m512d {
    // SAFETY: the array has 16 bytes.
    _mm512_broadcast_f64x2(unsafe { _mm_loadu_pd(from.as_ptr()) })
}

/// Returns a vector in which the first `N` elements of `from` are repeated. `N` is 1, 2 or 4, and `from` has at least `N`
/// elements.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn repeat_words<const N: usize>(from: &[u32]) -> __m512i {
    match N {
        1 => _mm512_set1_epi32(from[0] as i32),
        2 => _mm512_set1_epi64((u64::from(from[1]) << 32 | u64::from(from[0])) as i64),
        _ => {
            let four = from.first_chunk::<4>().unwrap_or(&[0; 4]);
            // SAFETY: the array has 16 bytes.
            _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(four.as_ptr().cast()) })
        }
    }
}
