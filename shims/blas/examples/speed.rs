//! Prints the speed of routines beside the limits of the machine.
//!
//! `cargo run --release -p margay-blas --example speed -- [THREADS] [FILTER]`. The limit of floating-point operations is
//! measured with a loop of fused multiply-adds in vector registers, the limit of memory with a loop that reads.
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use margay_blas::level3::{self, Gemm};
use margay_blas::{Complex, Element, Operation, Plan, Scalar};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    let filter = arguments.next().unwrap_or_default();
    let limit = [fma_limit::<f32>(threads), fma_limit::<f64>(threads)];
    println!(
        "FMA limit of {threads} threads: f32 {:.0} GFLOP/s, f64 {:.0} GFLOP/s",
        limit[0], limit[1]
    );
    for n in [64, 128, 256, 512, 1024, 2048] {
        gemm::<f32>("sgemm", n, threads, limit[0], &filter);
        gemm::<f64>("dgemm", n, threads, limit[1], &filter);
        gemm::<Complex<f32>>("cgemm", n, threads, limit[0], &filter);
        gemm::<Complex<f64>>("zgemm", n, threads, limit[1], &filter);
    }
}

/// Runs a plan with threads that take tasks from a counter.
fn run(plan: &Plan, threads: u32) {
    for stage in &plan.stages {
        if threads == 1 || stage.tasks == 1 {
            for task in 0..stage.tasks {
                (stage.run)(task);
            }
            continue;
        }
        let next = AtomicU32::new(0);
        let work = || {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= stage.tasks {
                    break;
                }
                (stage.run)(task);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
    }
}

/// The shortest time of several runs, in seconds.
fn best(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut shortest = f64::INFINITY;
    while start.elapsed().as_secs_f64() < 1.0 {
        let begin = Instant::now();
        run();
        shortest = shortest.min(begin.elapsed().as_secs_f64());
    }
    shortest
}

fn gemm<T: Element>(name: &str, n: usize, threads: u32, limit: f64, filter: &str) {
    for (form, operation_a, operation_b) in [
        ("nn", Operation::None, Operation::None),
        ("tn", Operation::Transpose, Operation::None),
        ("nt", Operation::None, Operation::Transpose),
    ] {
        let name = format!("{name} {form} {n}");
        if !name.contains(filter) || (form != "nn" && n != 1024 && n != 128) {
            continue;
        }
        let a: Vec<T> = numbers(n * n);
        let b: Vec<T> = numbers(n * n);
        let mut c: Vec<T> = numbers(n * n);
        let arguments = Gemm {
            operation_a,
            operation_b,
            m: n,
            n,
            k: n,
            alpha: Scalar::Value(T::ONE),
            a: a.as_ptr(),
            lda: n,
            b: b.as_ptr(),
            ldb: n,
            beta: Scalar::Value(T::ZERO),
            c: c.as_mut_ptr(),
            ldc: n,
        };
        // SAFETY: the matrices live until the plan has run.
        let plan = unsafe { level3::gemm(arguments) };
        let time = best(|| run(&plan, threads));
        let single = best(|| run(&plan, 1));
        let work = if T::KIND.is_complex() { 8.0 } else { 2.0 } * (n as f64).powi(3) / 1e9;
        println!(
            "{name:16} {:8.1} GFLOP/s = {:3.0} %, one thread {:8.1} = {:3.0} %, {} tasks",
            work / time,
            100.0 * work / time / limit,
            work / single,
            100.0 * work / single / limit * f64::from(threads),
            plan.stages[0].tasks
        );
    }
}

/// Numbers between -1 and 1.
fn numbers<T: Element>(count: usize) -> Vec<T> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    (0..count)
        .map(|_| T::from_wide(Complex::new(next(), next())))
        .collect()
}

/// Fused multiply-adds of all threads in vector registers, in GFLOP/s.
fn fma_limit<T: FmaLoop>(threads: u32) -> f64 {
    let mut most: f64 = 0.0;
    for _ in 0..20 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| std::hint::black_box(T::run(1_000_000)));
            }
        });
        most = most
            .max(f64::from(threads) * T::OPERATIONS * 1e6 / start.elapsed().as_secs_f64() / 1e9);
    }
    most
}

trait FmaLoop {
    /// Operations of a round.
    const OPERATIONS: f64;
    fn run(rounds: u32) -> f64;
}

macro_rules! fma_loop {
    ($t:ident, $lanes512:literal, $set512:ident, $fma512:ident, $sum512:ident, $set256:ident, $fma256:ident) => {
        impl FmaLoop for $t {
            const OPERATIONS: f64 = 24.0 * 2.0 * $lanes512 as f64;

            #[cfg(target_arch = "x86_64")]
            fn run(rounds: u32) -> f64 {
                use std::arch::x86_64::*;
                #[target_feature(enable = "avx512f")]
                fn wide(rounds: u32) -> f64 {
                    let (a, b) = (
                        $set512(std::hint::black_box(0.999)),
                        $set512(std::hint::black_box(0.001)),
                    );
                    let mut sums = [b; 24];
                    for _ in 0..rounds {
                        for sum in &mut sums {
                            *sum = $fma512(*sum, a, b);
                        }
                    }
                    sums.iter().map(|sum| f64::from($sum512(*sum))).sum()
                }
                #[target_feature(enable = "avx2,fma")]
                fn narrow(rounds: u32) -> f64 {
                    let (a, b) = (
                        $set256(std::hint::black_box(0.999)),
                        $set256(std::hint::black_box(0.001)),
                    );
                    let mut sums = [b; 12];
                    for _ in 0..4 * rounds {
                        for sum in &mut sums {
                            *sum = $fma256(*sum, a, b);
                        }
                    }
                    std::hint::black_box(&sums);
                    0.0
                }
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the CPU has the instructions.
                    unsafe { wide(rounds) }
                } else {
                    // SAFETY: as above; a CPU without them makes the program stop.
                    unsafe { narrow(rounds) }
                }
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn run(_rounds: u32) -> f64 {
                f64::NAN
            }
        }
    };
}

fma_loop!(
    f32,
    16,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_reduce_add_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps
);
fma_loop!(
    f64,
    8,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_reduce_add_pd,
    _mm256_set1_pd,
    _mm256_fmadd_pd
);
