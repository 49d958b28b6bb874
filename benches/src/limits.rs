//! Measures the limits of the machine: the memory bandwidth, and the rate of multiply-adds for each
//! width of vector registers.
//!
//! The limits are measured on one thread, because the performance goals of kernels apply to one thread. The buffers are
//! larger than every cache. Sums and multiply-adds use several accumulators, so that no operation waits for the
//! previous one and only the execution units limit the rate.

use serde::Serialize;

use crate::measure::{self, Time};

/// A measured limit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limit {
    pub(crate) what: &'static str,
    /// The unit of [`Limit::each`].
    pub(crate) unit: &'static str,
    /// Number of bytes or operations in one run, whose time is [`Limit::time`].
    pub(crate) each: f64,
    pub(crate) time: Time,
    /// For a limit of multiply-adds: the width of the vector registers in bits. For other limits:
    /// `None`.
    pub(crate) bits: Option<u32>,
}

impl Limit {
    /// Returns the limit as a number of bytes or operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.each / self.time.median
    }
}

/// Number of floats in a buffer of 256 MiB.
const FLOATS: usize = 1 << 26;
const SMALL: usize = 1 << 16;

/// Measures the limits of this processor. If `check` is true, uses little data.
pub(crate) fn measure(check: bool) -> Vec<Limit> {
    margay::files::tell(format_args!("limits"));
    let mut limits = memory(if check { SMALL } else { FLOATS });
    limits.extend(multiply_adds());
    limits
}

fn memory(floats: usize) -> Vec<Limit> {
    let from = vec![1.0f32; floats];
    let other = vec![2.0f32; floats];
    let mut to = vec![0.0f32; floats];
    let bytes = (4 * floats) as f64;
    let row = |what, times: f64, time| Limit {
        what,
        unit: "bytes",
        each: times * bytes,
        time,
        bits: None,
    };
    let read = measure::alone(|| {
        std::hint::black_box(wide::read(&from));
    });
    let copy = measure::alone(|| to.copy_from_slice(std::hint::black_box(&from)));
    let mut rows = vec![
        row("reading", 1.0, read),
        row("copying, read and written bytes", 2.0, copy),
    ];
    if wide::streams() {
        let triad = measure::alone(|| wide::triad(&from, &other, &mut to));
        assert_eq!((to[0], to[floats - 1]), (7.0, 7.0));
        rows.push(row(
            "a = b + 3 c with non-temporal stores, read and written bytes",
            3.0,
            triad,
        ));
    }
    rows
}

fn multiply_adds() -> Vec<Limit> {
    wide::PEAKS
        .iter()
        .filter(|peak| (peak.available)())
        .map(|peak| Limit {
            what: peak.what,
            unit: "floating-point operations",
            each: (peak.bits / 32) as f64 * 2.0 * (wide::SUMS * TURNS) as f64,
            time: measure::alone(|| {
                std::hint::black_box((peak.run)(TURNS));
            }),
            bits: Some(peak.bits),
        })
        .collect()
}

const TURNS: usize = 1 << 16;

/// A loop of multiply-adds in vector registers of a particular width.
struct Peak {
    what: &'static str,
    bits: u32,
    available: fn() -> bool,
    /// Performs [`wide::SUMS`] multiply-adds as many times as the argument states. Returns the sum of the first
    /// elements of the accumulators, so that the optimiser removes no operation.
    run: fn(usize) -> f32,
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    use super::Peak;

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
}

#[cfg(not(target_arch = "x86_64"))]
mod wide {
    use super::Peak;

    pub(super) const SUMS: usize = 1;
    pub(super) const PEAKS: &[Peak] = &[];

    pub(super) fn streams() -> bool {
        false
    }

    pub(super) fn triad(_: &[f32], _: &[f32], _: &mut [f32]) {
        unreachable!("streams are not available")
    }

    pub(super) fn read(values: &[f32]) -> f32 {
        values.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_they_say() {
        assert_eq!(wide::read(&[1.0; 1000]), 1000.0);
        if wide::streams() {
            let (b, c, mut a) = ([1.0; 100], [2.0; 100], [0.0; 103]);
            wide::triad(&b, &c, &mut a[3..]);
            assert_eq!(a[3..], [7.0; 100]);
        }
        // One iteration computes 0.999 i + 0.5 in accumulator i, for i from 0 to 11.
        for peak in wide::PEAKS.iter().filter(|peak| (peak.available)()) {
            assert!(((peak.run)(1) - (0.999 * 66.0 + 6.0)).abs() < 1e-3);
        }
    }
}
