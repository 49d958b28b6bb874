//! Vectors of the kernels: one type for each element type and set of instructions.

/// A vector register of `f32` or `f64`. The functions are inlined into kernels that enable the instructions.
pub(super) trait Vector: Copy {
    /// The element type.
    type Lane: Copy;
    /// Number of elements.
    const LANES: usize;

    /// All elements zero.
    ///
    /// # Safety
    /// The CPU has the vector's instructions.
    unsafe fn zero() -> Self;
    /// Reads a vector, which need not be aligned.
    ///
    /// # Safety
    /// As for `zero`; the elements can be read.
    unsafe fn load(address: *const Self::Lane) -> Self;
    /// Writes a vector.
    ///
    /// # Safety
    /// As for `zero`; the elements can be written.
    unsafe fn store(self, address: *mut Self::Lane);
    /// All elements equal to the one at an address.
    ///
    /// # Safety
    /// As for `zero`; the element can be read.
    unsafe fn splat(address: *const Self::Lane) -> Self;
    /// Asks the CPU for the elements at an address.
    #[inline(always)]
    fn prefetch(address: *const Self::Lane) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing, whatever the address is.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast())
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
    /// Asks the CPU for the elements at an address, for the second level of the cache.
    #[inline(always)]
    fn prefetch_later(address: *const Self::Lane) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `prefetch`.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast())
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
    /// `self + other`.
    ///
    /// # Safety
    /// As for `zero`.
    unsafe fn add(self, other: Self) -> Self;
    /// `a * b + self`.
    ///
    /// # Safety
    /// As for `zero`.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// `self - a * b`.
    ///
    /// # Safety
    /// As for `zero`.
    unsafe fn sub_product(self, a: Self, b: Self) -> Self;
}

/// Four elements, for CPUs without wider vectors.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Four<T>([T; 4]);

/// `a * b + c`, fused where each CPU of the architecture has the instruction.
#[cfg(target_arch = "aarch64")]
macro_rules! fused {
    ($a:expr, $b:expr, $c:expr) => {
        ($a).mul_add($b, $c)
    };
}
#[cfg(not(target_arch = "aarch64"))]
macro_rules! fused {
    ($a:expr, $b:expr, $c:expr) => {
        ($a) * $b + $c
    };
}
macro_rules! four {
    ($t:ident) => {
        impl Vector for Four<$t> {
            type Lane = $t;
            const LANES: usize = 4;

            #[inline(always)]
            unsafe fn zero() -> Self {
                Four([0.0; 4])
            }
            #[inline(always)]
            unsafe fn load(address: *const $t) -> Self {
                // SAFETY: the caller passes the address of four elements.
                Four(unsafe { address.cast::<[$t; 4]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, address: *mut $t) {
                // SAFETY: as in `load`.
                unsafe { address.cast::<[$t; 4]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn splat(address: *const $t) -> Self {
                // SAFETY: the caller passes the address of an element.
                Four([unsafe { *address }; 4])
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Four(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                Four(std::array::from_fn(|i| fused!(a.0[i], b.0[i], self.0[i])))
            }
            #[inline(always)]
            unsafe fn sub_product(self, a: Self, b: Self) -> Self {
                Four(std::array::from_fn(|i| fused!(-a.0[i], b.0[i], self.0[i])))
            }
        }
    };
}

four!(f32);
four!(f64);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($v:ident, $t:ident, $lanes:literal, $zero:ident, $load:ident, $store:ident, $splat:ident, $add:ident, $fma:ident, $fnma:ident) => {
            impl Vector for $v {
                type Lane = $t;
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the caller ensures that the CPU has the instruction.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn load(address: *const $t) -> Self {
                    // SAFETY: as above; the elements can be read.
                    unsafe { $load(address) }
                }
                #[inline(always)]
                unsafe fn store(self, address: *mut $t) {
                    // SAFETY: as above; the elements can be written.
                    unsafe { $store(address, self) }
                }
                #[inline(always)]
                unsafe fn splat(address: *const $t) -> Self {
                    // SAFETY: as above; the element can be read.
                    unsafe { $splat(*address) }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: as for `zero`.
                    unsafe { $add(self, other) }
                }
                #[inline(always)]
                unsafe fn add_product(self, a: Self, b: Self) -> Self {
                    // SAFETY: as for `zero`.
                    unsafe { $fma(a, b, self) }
                }
                #[inline(always)]
                unsafe fn sub_product(self, a: Self, b: Self) -> Self {
                    // SAFETY: as for `zero`.
                    unsafe { $fnma(a, b, self) }
                }
            }
        };
    }

    vector!(
        __m512,
        f32,
        16,
        _mm512_setzero_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_add_ps,
        _mm512_fmadd_ps,
        _mm512_fnmadd_ps
    );
    vector!(
        __m512d,
        f64,
        8,
        _mm512_setzero_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_set1_pd,
        _mm512_add_pd,
        _mm512_fmadd_pd,
        _mm512_fnmadd_pd
    );
    vector!(
        __m256,
        f32,
        8,
        _mm256_setzero_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_add_ps,
        _mm256_fmadd_ps,
        _mm256_fnmadd_ps
    );
    vector!(
        __m256d,
        f64,
        4,
        _mm256_setzero_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_set1_pd,
        _mm256_add_pd,
        _mm256_fmadd_pd,
        _mm256_fnmadd_pd
    );
}

/// Exchanges rows and columns.
#[inline(always)]
pub(super) fn transpose_f32(square: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each x86-64 CPU has these instructions. The arrays are as large as the vectors.
    unsafe {
        use std::arch::x86_64::*;
        let [mut a, mut b, mut c, mut d]: [__m128; 4] = std::mem::transmute(square);
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        std::mem::transmute([a, b, c, d])
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|row| std::array::from_fn(|column| square[column][row]))
}

/// Exchanges rows and columns.
#[inline(always)]
pub(super) fn transpose_f64(square: [[f64; 4]; 4]) -> [[f64; 4]; 4] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `transpose_f32`.
    unsafe {
        use std::arch::x86_64::*;
        let [[a0, a1], [b0, b1], [c0, c1], [d0, d1]]: [[__m128d; 2]; 4] =
            std::mem::transmute(square);
        std::mem::transmute([
            [_mm_unpacklo_pd(a0, b0), _mm_unpacklo_pd(c0, d0)],
            [_mm_unpackhi_pd(a0, b0), _mm_unpackhi_pd(c0, d0)],
            [_mm_unpacklo_pd(a1, b1), _mm_unpacklo_pd(c1, d1)],
            [_mm_unpackhi_pd(a1, b1), _mm_unpackhi_pd(c1, d1)],
        ])
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|row| std::array::from_fn(|column| square[column][row]))
}
