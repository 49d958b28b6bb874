//! Kernels: the product of two panels, with the sums in registers.
//!
//! A panel of width w holds, step by step, the elements of w rows (or columns) of an operand. Layout of one step:
//!
//! - real types: w numbers;
//! - complex types: w real parts, then w imaginary parts;
//! - integers: w pairs of `i16`, the elements of two values of k ([`Accumulate::STEP`]).

#![allow(
    clippy::needless_range_loop,
    reason = "an index of a tile in registers is also part of an address, and the loops are unrolled"
)]

mod vectors;

use crate::Complex;
use crate::simd::{self, Level};

use vectors::{Four, Vector};

/// A type in which products are summed.
pub trait Accumulate: Copy + Send + Sync + 'static {
    /// What sources deliver: the type itself, or `i16` for `i32`.
    type Item: Copy + Send + Sync + 'static;
    /// What panels are made of: the type of a real or imaginary part.
    type Part: Copy + Send + Sync + 'static;
    /// Parts of an item.
    const PARTS: usize;
    /// Values of k in one step of a panel.
    const STEP: usize;
    /// A sum without terms.
    const NOTHING: Self;
    /// The item 1.
    const UNIT: Self::Item;

    /// The sum of two sums.
    fn plus(self, other: Self) -> Self;

    /// The kernel for this CPU.
    fn kernel() -> &'static Kernel<Self>;

    /// Writes an item of a panel: row `row` of `width`, value `k`.
    ///
    /// # Safety
    /// The panel has these rows and values of k.
    unsafe fn place(
        panel: *mut Self::Part,
        width: usize,
        row: usize,
        k: usize,
        item: Self::Item,
        conjugate: bool,
    );

    /// Writes items of some neighbouring rows, each of which has some neighbouring values of k.
    ///
    /// # Safety
    /// As for [`Accumulate::place`].
    #[inline(always)]
    unsafe fn place_square(
        panel: *mut Self::Part,
        width: usize,
        row: usize,
        k: usize,
        square: [[Self::Item; SQUARE]; SQUARE],
        conjugate: bool,
    ) {
        for (index, items) in square.into_iter().enumerate() {
            for (offset, item) in items.into_iter().enumerate() {
                // SAFETY: the caller's condition.
                unsafe { Self::place(panel, width, row + index, k + offset, item, conjugate) };
            }
        }
    }
}

/// Rows and values of k that are packed together if rows are not contiguous.
pub(crate) const SQUARE: usize = 4;

/// The operands of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels<P> {
    /// Number of steps.
    pub(crate) steps: usize,
    /// The panel of the left operand.
    pub(crate) left: *const P,
    /// The panel of the right operand.
    pub(crate) right: *const P,
    /// What a later call reads: [`NEXT`] of a panel of the right operand. It need not be a valid address.
    pub(crate) next: *const P,
    /// What the kernel asks for the second level of the cache: one number for each step. It need not be a valid address.
    pub(crate) later: *const P,
}

/// The share of a panel that a kernel prefetches for later calls: one of this number.
pub(crate) const NEXT: usize = 4;

/// Steps by which prefetches of the left panel are ahead.
const AHEAD: usize = 12;

/// A kernel and its sizes.
#[derive(Debug)]
pub struct Kernel<T: Accumulate> {
    /// Rows of a tile: the width of panels of the left operand.
    pub(crate) rows: usize,
    /// Columns of a tile: the width of panels of the right operand.
    pub(crate) columns: usize,
    /// Values of k after which a block of sums ends. A multiple of [`Accumulate::STEP`].
    pub(crate) depth: usize,
    /// `run(panels, sums, first)` multiplies two panels. It writes the sums to a tile, column by column, or adds them unless `first`.
    pub(crate) run: unsafe fn(Panels<T::Part>, *mut T, bool),
}

impl<T: Accumulate> Kernel<T> {
    /// Values of k in a part of `depth`: parts are about as large, and at most [`Kernel::depth`].
    pub(crate) fn step(&self, depth: usize) -> usize {
        let parts = depth.div_ceil(self.depth).max(1);
        depth.div_ceil(parts).next_multiple_of(T::STEP).max(T::STEP)
    }
}

/// The kernel of real types: `M` vectors of rows, `N` columns.
///
/// # Safety
/// The panels hold `steps` steps, the tile M * LANES by N sums; the CPU has the vector's instructions.
#[inline(always)]
unsafe fn real<V: Vector, const M: usize, const N: usize>(
    panels: Panels<V::Lane>,
    sums: *mut V::Lane,
    first: bool,
) {
    let Panels {
        steps,
        left: mut a,
        right: mut b,
        mut next,
        mut later,
    } = panels;
    // SAFETY: the caller's conditions hold for each step, whose elements the pointers name, and for each vector of the tile.
    unsafe {
        for tile in 0..M * N {
            V::prefetch(sums.add(tile * V::LANES));
        }
        let mut total = [[V::zero(); M]; N];
        for _ in 0..steps {
            let mut left = [V::zero(); M];
            for i in 0..M {
                left[i] = V::load(a.add(i * V::LANES));
            }
            for i in 0..M {
                V::prefetch(a.wrapping_add((AHEAD * M + i) * V::LANES));
            }
            V::prefetch(next);
            next = next.wrapping_add(N.div_ceil(NEXT));
            V::prefetch_later(later);
            later = later.wrapping_add(1);
            for j in 0..N {
                let right = V::splat(b.add(j));
                for i in 0..M {
                    total[j][i] = total[j][i].add_product(left[i], right);
                }
            }
            a = a.add(M * V::LANES);
            b = b.add(N);
        }
        for j in 0..N {
            for i in 0..M {
                let place = sums.add((j * M + i) * V::LANES);
                let sum = if first {
                    total[j][i]
                } else {
                    V::load(place).add(total[j][i])
                };
                sum.store(place);
            }
        }
    }
}

/// The kernel of complex types: one vector of rows, `N` columns.
///
/// # Safety
/// As for [`real`], with LANES by N sums.
#[inline(always)]
unsafe fn complex<V: Vector, const N: usize>(
    panels: Panels<V::Lane>,
    sums: *mut Complex<V::Lane>,
    first: bool,
) where
    V::Lane: std::ops::Add<Output = V::Lane> + Default,
{
    let Panels {
        steps,
        left: mut a,
        right: mut b,
        mut next,
        mut later,
    } = panels;
    // SAFETY: as in `real`.
    unsafe {
        let mut re = [V::zero(); N];
        let mut im = [V::zero(); N];
        for _ in 0..steps {
            let left_re = V::load(a);
            let left_im = V::load(a.add(V::LANES));
            V::prefetch(a.wrapping_add(2 * AHEAD * V::LANES));
            V::prefetch(a.wrapping_add((2 * AHEAD + 1) * V::LANES));
            V::prefetch(next);
            next = next.wrapping_add((2 * N).div_ceil(NEXT));
            V::prefetch_later(later);
            later = later.wrapping_add(1);
            for j in 0..N {
                let right_re = V::splat(b.add(j));
                re[j] = re[j].add_product(left_re, right_re);
                im[j] = im[j].add_product(left_im, right_re);
            }
            for j in 0..N {
                let right_im = V::splat(b.add(N + j));
                re[j] = re[j].sub_product(left_im, right_im);
                im[j] = im[j].add_product(left_re, right_im);
            }
            a = a.add(2 * V::LANES);
            b = b.add(2 * N);
        }
        let mut parts = [[V::Lane::default(); 16]; 2];
        for j in 0..N {
            re[j].store(parts[0].as_mut_ptr());
            im[j].store(parts[1].as_mut_ptr());
            for i in 0..V::LANES {
                let place = sums.add(j * V::LANES + i);
                let sum = Complex::new(parts[0][i], parts[1][i]);
                place.write(if first { sum } else { place.read() + sum });
            }
        }
    }
}

/// Defines functions that run a kernel with instructions enabled, and the table of their sizes.
macro_rules! kernels {
    ($($name:ident: $t:ty, $part:ty, $rows:expr, $columns:literal, $depth:literal, $features:literal, $body:expr;)*) => {$(
        static $name: Kernel<$t> = {
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn run(panels: Panels<$part>, sums: *mut $t, first: bool) {
                // SAFETY: the caller's conditions are those of the kernel.
                unsafe { $body(panels, sums, first) }
            }
            Kernel { rows: $rows, columns: $columns, depth: $depth, run }
        };
    )*};
}

kernels! {
    BASE_F32: f32, f32, 8, 4, 256, "sse2", real::<Four<f32>, 2, 4>;
    BASE_F64: f64, f64, 8, 4, 256, "sse2", real::<Four<f64>, 2, 4>;
    BASE_C32: Complex<f32>, f32, 4, 4, 256, "sse2", complex::<Four<f32>, 4>;
    BASE_C64: Complex<f64>, f64, 4, 2, 192, "sse2", complex::<Four<f64>, 2>;
}

#[cfg(target_arch = "x86_64")]
kernels! {
    AVX2_F32: f32, f32, 16, 6, 256, "avx2,fma", real::<std::arch::x86_64::__m256, 2, 6>;
    AVX2_F64: f64, f64, 8, 6, 256, "avx2,fma", real::<std::arch::x86_64::__m256d, 2, 6>;
    AVX2_C32: Complex<f32>, f32, 8, 5, 256, "avx2,fma", complex::<std::arch::x86_64::__m256, 5>;
    AVX2_C64: Complex<f64>, f64, 4, 5, 192, "avx2,fma", complex::<std::arch::x86_64::__m256d, 5>;
    AVX512_F32: f32, f32, 32, 12, 512, "avx512f,avx512vl,avx2,fma", real::<std::arch::x86_64::__m512, 2, 12>;
    AVX512_F64: f64, f64, 16, 12, 512, "avx512f,avx512vl,avx2,fma", real::<std::arch::x86_64::__m512d, 2, 12>;
    AVX512_C32: Complex<f32>, f32, 16, 12, 256, "avx512f,avx512vl,avx2,fma", complex::<std::arch::x86_64::__m512, 12>;
    AVX512_C64: Complex<f64>, f64, 8, 12, 192, "avx512f,avx512vl,avx2,fma", complex::<std::arch::x86_64::__m512d, 12>;
    AVX2_I32: i32, i16, 16, 6, 512, "avx2", integers::avx2;
    AVX512_I32: i32, i16, 32, 12, 512, "avx512f,avx512bw", integers::avx512;
    VNNI_I32: i32, i16, 32, 12, 512, "avx512f,avx512bw,avx512vnni", integers::vnni;
}

kernels! {
    BASE_I32: i32, i16, 8, 4, 512, "sse2", integers::base;
}

mod integers {
    //! Kernels of integers: pairs of 16-bit numbers, 32-bit sums, which wrap.

    use super::Panels;

    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::*;

    /// # Safety
    /// As for the other kernels: 8 rows, 4 columns.
    #[inline(always)]
    pub(super) unsafe fn base(panels: Panels<i16>, sums: *mut i32, first: bool) {
        let Panels {
            steps,
            left: mut a,
            right: mut b,
            ..
        } = panels;
        // SAFETY: the panels hold `steps` steps, the tile 8 by 4 sums.
        unsafe {
            let mut total = [[0i32; 8]; 4];
            for _ in 0..steps {
                let left = a.cast::<[[i16; 2]; 8]>().read();
                let right = b.cast::<[[i16; 2]; 4]>().read();
                for j in 0..4 {
                    for i in 0..8 {
                        let pair = i32::from(left[i][0]) * i32::from(right[j][0])
                            + i32::from(left[i][1]) * i32::from(right[j][1]);
                        total[j][i] = total[j][i].wrapping_add(pair);
                    }
                }
                a = a.add(16);
                b = b.add(8);
            }
            for j in 0..4 {
                for i in 0..8 {
                    let place = sums.add(j * 8 + i);
                    place.write(if first {
                        total[j][i]
                    } else {
                        place.read().wrapping_add(total[j][i])
                    });
                }
            }
        }
    }

    /// A kernel with two vectors of rows.
    #[cfg(target_arch = "x86_64")]
    macro_rules! integer_kernel {
        ($name:ident, $v:ident, $lanes:literal, $columns:literal, $zero:ident, $load:ident, $store:ident, $splat:ident, $add:ident, $step:expr) => {
            /// # Safety
            /// As for the other kernels.
            #[inline(always)]
            pub(super) unsafe fn $name(panels: Panels<i16>, sums: *mut i32, first: bool) {
                let Panels {
                    steps,
                    left: mut a,
                    right: mut b,
                    ..
                } = panels;
                // SAFETY: the panels hold `steps` steps, the tile two vectors of sums for each column. The CPU has the instructions.
                unsafe {
                    let mut total = [[$zero(); 2]; $columns];
                    for _ in 0..steps {
                        let left = [$load(a.cast()), $load(a.add(2 * $lanes).cast())];
                        for j in 0..$columns {
                            let right = $splat(b.add(2 * j).cast::<i32>().read_unaligned());
                            for i in 0..2 {
                                total[j][i] = $step(total[j][i], left[i], right);
                            }
                        }
                        a = a.add(4 * $lanes);
                        b = b.add(2 * $columns);
                    }
                    for j in 0..$columns {
                        for i in 0..2 {
                            let place = sums.add((j * 2 + i) * $lanes).cast();
                            $store(
                                place,
                                if first {
                                    total[j][i]
                                } else {
                                    $add($load(place), total[j][i])
                                },
                            );
                        }
                    }
                }
            }
        };
    }

    #[cfg(target_arch = "x86_64")]
    integer_kernel!(
        avx2,
        __m256i,
        8,
        6,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_set1_epi32,
        _mm256_add_epi32,
        |c, a, b| { _mm256_add_epi32(c, _mm256_madd_epi16(a, b)) }
    );
    #[cfg(target_arch = "x86_64")]
    integer_kernel!(
        avx512,
        __m512i,
        16,
        12,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_set1_epi32,
        _mm512_add_epi32,
        |c, a, b| { _mm512_add_epi32(c, _mm512_madd_epi16(a, b)) }
    );
    #[cfg(target_arch = "x86_64")]
    integer_kernel!(
        vnni,
        __m512i,
        16,
        12,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_set1_epi32,
        _mm512_add_epi32,
        |c, a, b| { _mm512_dpwssd_epi32(c, a, b) }
    );
}

/// Chooses among a type's kernels.
macro_rules! choose {
    ($base:ident, $avx2:ident, $avx512:ident, $vnni:ident) => {
        match simd::level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => &$vnni,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => &$avx512,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &$avx2,
            Level::Base => &$base,
        }
    };
}

macro_rules! accumulate_real {
    ($t:ident, $base:ident, $avx2:ident, $avx512:ident, $transpose:path) => {
        impl Accumulate for $t {
            type Item = $t;
            type Part = $t;
            const PARTS: usize = 1;
            const STEP: usize = 1;
            const NOTHING: $t = 0.0;
            const UNIT: $t = 1.0;

            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }

            fn kernel() -> &'static Kernel<$t> {
                choose!($base, $avx2, $avx512, $avx512)
            }

            #[inline(always)]
            unsafe fn place_square(
                panel: *mut $t,
                width: usize,
                row: usize,
                k: usize,
                square: [[$t; SQUARE]; SQUARE],
                _conjugate: bool,
            ) {
                for (offset, items) in $transpose(square).into_iter().enumerate() {
                    // SAFETY: the panel has these places, which are neighbours.
                    unsafe {
                        panel
                            .add((k + offset) * width + row)
                            .cast::<[$t; SQUARE]>()
                            .write(items)
                    };
                }
            }

            #[inline(always)]
            unsafe fn place(
                panel: *mut $t,
                width: usize,
                row: usize,
                k: usize,
                item: $t,
                _conjugate: bool,
            ) {
                // SAFETY: the panel has this place.
                unsafe { panel.add(k * width + row).write(item) };
            }
        }
    };
}

macro_rules! accumulate_complex {
    ($t:ident, $base:ident, $avx2:ident, $avx512:ident) => {
        impl Accumulate for Complex<$t> {
            type Item = Complex<$t>;
            type Part = $t;
            const PARTS: usize = 2;
            const STEP: usize = 1;
            const NOTHING: Complex<$t> = Complex::new(0.0, 0.0);
            const UNIT: Complex<$t> = Complex::new(1.0, 0.0);

            #[inline(always)]
            fn plus(self, other: Complex<$t>) -> Complex<$t> {
                self + other
            }

            fn kernel() -> &'static Kernel<Complex<$t>> {
                choose!($base, $avx2, $avx512, $avx512)
            }

            #[inline(always)]
            unsafe fn place(
                panel: *mut $t,
                width: usize,
                row: usize,
                k: usize,
                item: Complex<$t>,
                conjugate: bool,
            ) {
                let im = if conjugate { -item.im } else { item.im };
                // SAFETY: the panel has this place.
                unsafe {
                    panel.add(2 * k * width + row).write(item.re);
                    panel.add((2 * k + 1) * width + row).write(im);
                }
            }
        }
    };
}

accumulate_real!(f32, BASE_F32, AVX2_F32, AVX512_F32, vectors::transpose_f32);
accumulate_real!(f64, BASE_F64, AVX2_F64, AVX512_F64, vectors::transpose_f64);
accumulate_complex!(f32, BASE_C32, AVX2_C32, AVX512_C32);
accumulate_complex!(f64, BASE_C64, AVX2_C64, AVX512_C64);

impl Accumulate for i32 {
    type Item = i16;
    type Part = i16;
    const PARTS: usize = 1;
    const STEP: usize = 2;
    const NOTHING: i32 = 0;
    const UNIT: i16 = 1;

    #[inline(always)]
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }

    fn kernel() -> &'static Kernel<i32> {
        choose!(BASE_I32, AVX2_I32, AVX512_I32, VNNI_I32)
    }

    #[inline(always)]
    unsafe fn place(
        panel: *mut i16,
        width: usize,
        row: usize,
        k: usize,
        item: i16,
        _conjugate: bool,
    ) {
        // SAFETY: the panel has this place.
        unsafe { panel.add((k / 2 * width + row) * 2 + k % 2).write(item) };
    }
}
