//! Loads and stores of vectors, and vectors that repeat elements.

use std::arch::x86_64::*;

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store(to: &mut [u32; 8], words: __m256i) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load_half(words: &[u32; 4]) -> __m128i {
    // SAFETY: the array has 16 bytes.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store_half(to: &mut [u32; 4], words: __m128i) {
    // SAFETY: the array has 16 bytes.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), words) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load_doubles(doubles: &[f64; 4]) -> __m256d {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_pd(doubles.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn store_doubles(to: &mut [f64; 4], doubles: __m256d) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_pd(to.as_mut_ptr(), doubles) }
}

/// Returns a vector in which the first two elements of `from` are repeated.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn repeat_pair(from: &[f64; 2]) -> __m256d {
    // SAFETY: the array has 16 bytes.
    let pair = unsafe { _mm_loadu_pd(from.as_ptr()) };
    _mm256_set_m128d(pair, pair)
}
