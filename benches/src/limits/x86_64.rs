//! Loops that reach the limits of a processor with x86-64 instructions.

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::*;

use super::{Gather, GatherUnit, Peak};

/// Number of accumulators. To keep all execution units busy, it must be at least the number of units (two) times
/// the latency in cycles (four or five).
pub(super) const SUMS: usize = 12;

pub(super) const PEAKS: &[Peak] = &[
    Peak {
        what: "multiply-adds in 128 bits",
        bits: 128,
        available: || is_x86_feature_detected!("fma"),
        // SAFETY: the feature is available.
        run: |turns| unsafe { fma_128(turns) },
    },
    Peak {
        what: "multiply-adds in 256 bits",
        bits: 256,
        available: || is_x86_feature_detected!("fma"),
        // SAFETY: the feature is available.
        run: |turns| unsafe { fma_256(turns) },
    },
    Peak {
        what: "multiply-adds in 512 bits",
        bits: 512,
        available: || is_x86_feature_detected!("avx512f"),
        // SAFETY: the feature is available.
        run: |turns| unsafe { fma_512(turns) },
    },
];

pub(super) const GATHERS: &[GatherUnit] = &[
    GatherUnit {
        bits: 256,
        available: || is_x86_feature_detected!("avx2"),
        // SAFETY: the feature is available.
        run: |gather| unsafe { gather_256(gather) },
    },
    GatherUnit {
        bits: 512,
        available: || is_x86_feature_detected!("avx512f"),
        // SAFETY: the feature is available.
        run: |gather| unsafe { gather_512(gather) },
    },
];

/// Defines a loop that gathers elements and adds them to four independent sums in vector registers of one type.
macro_rules! gather {
    ($name:ident, $features:literal, $width:literal, $zero:ident, $add:ident, $load:expr, $sum:expr) => {
        #[target_feature(enable = $features)]
        fn $name(gather: &Gather) -> f32 {
            let table = gather.table.as_ptr();
            let mut sums = [$zero(); 4];
            let (groups, rest) = gather.indices.as_chunks::<{ 4 * $width }>();
            for group in groups {
                for (sum, indices) in sums.iter_mut().zip(group.as_chunks::<$width>().0) {
                    // SAFETY: the indices are less than the table's length.
                    *sum = $add(*sum, unsafe { $load(table, indices) });
                }
            }
            let rest: f32 = rest.iter().map(|i| gather.table[*i as usize]).sum();
            sums.into_iter().map(|sum| $sum(sum)).sum::<f32>() + rest
        }
    };
}

gather!(
    gather_256,
    "avx2",
    8,
    _mm256_setzero_ps,
    _mm256_add_ps,
    |table, indices: &[i32; 8]| {
        let indices = _mm256_loadu_si256(indices.as_ptr().cast());
        _mm256_i32gather_ps::<4>(table, indices)
    },
    |sum: __m256| {
        let mut elements = [0.0f32; 8];
        // SAFETY: the array has room for eight floats.
        unsafe { _mm256_storeu_ps(elements.as_mut_ptr(), sum) };
        elements.iter().sum::<f32>()
    }
);
gather!(
    gather_512,
    "avx512f",
    16,
    _mm512_setzero_ps,
    _mm512_add_ps,
    |table, indices: &[i32; 16]| {
        let indices = _mm512_loadu_si512(indices.as_ptr().cast());
        _mm512_i32gather_ps::<4>(indices, table)
    },
    |sum: __m512| _mm512_reduce_add_ps(sum)
);

/// Defines a loop with twelve independent sums in vector registers of one type.
macro_rules! peak {
    ($name:ident, $features:literal, $set:ident, $fma:ident, $low:expr) => {
        #[target_feature(enable = $features)]
        fn $name(turns: usize) -> f32 {
            let (factor, term) = (
                $set(std::hint::black_box(0.999)),
                $set(std::hint::black_box(0.5)),
            );
            let mut sums: [_; SUMS] = std::array::from_fn(|i| $set(i as f32));
            for _ in 0..turns {
                for sum in &mut sums {
                    *sum = $fma(*sum, factor, term);
                }
            }
            sums.into_iter().map($low).sum()
        }
    };
}

peak!(
    fma_128,
    "fma",
    _mm_set1_ps,
    _mm_fmadd_ps,
    |v| _mm_cvtss_f32(v)
);
peak!(fma_256, "fma", _mm256_set1_ps, _mm256_fmadd_ps, |v| {
    _mm256_cvtss_f32(v)
});
peak!(fma_512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, |v| {
    _mm512_cvtss_f32(v)
});

/// Returns whether the processor supports the instructions that [`triad`] needs.
pub(super) fn streams() -> bool {
    is_x86_feature_detected!("fma")
}

/// Computes a = b + 3 c, with stores that bypass the caches.
pub(super) fn triad(b: &[f32], c: &[f32], a: &mut [f32]) {
    assert!(streams());
    // SAFETY: the feature is available.
    unsafe { triad_256(b, c, a) }
}

#[target_feature(enable = "fma")]
fn triad_256(b: &[f32], c: &[f32], a: &mut [f32]) {
    let three = _mm256_set1_ps(3.0);
    // SAFETY: any bytes are valid floats and vectors of floats.
    let (before, middle, after) = unsafe { a.align_to_mut::<__m256>() };
    let first = before.len();
    for (i, a) in before.iter_mut().enumerate() {
        *a = 3.0f32.mul_add(c[i], b[i]);
    }
    let pairs = b[first..].chunks_exact(8).zip(c[first..].chunks_exact(8));
    for (a, (b, c)) in middle.iter_mut().zip(pairs) {
        // SAFETY: both chunks have eight floats, and `a` is aligned.
        unsafe {
            let (b, c) = (_mm256_loadu_ps(b.as_ptr()), _mm256_loadu_ps(c.as_ptr()));
            _mm256_stream_ps(std::ptr::from_mut(a).cast(), _mm256_fmadd_ps(three, c, b));
        }
    }
    _mm_sfence();
    let rest = first + 8 * middle.len();
    for (i, a) in (rest..).zip(after) {
        *a = 3.0f32.mul_add(c[i], b[i]);
    }
}

/// Returns the sum of all values, computed with AVX and FMA instructions if the machine supports them.
pub(super) fn read(values: &[f32]) -> f32 {
    if is_x86_feature_detected!("fma") {
        // SAFETY: the feature is available.
        unsafe { read_256(values) }
    } else {
        values.iter().sum()
    }
}

#[target_feature(enable = "fma")]
fn read_256(values: &[f32]) -> f32 {
    let mut sums = [[0.0f32; 8]; 8];
    let (lines, rest) = values.as_chunks::<64>();
    for line in lines {
        for (sums, values) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            sums.iter_mut().zip(values).for_each(|(sum, v)| *sum += v);
        }
    }
    sums.as_flattened().iter().chain(rest).sum()
}
