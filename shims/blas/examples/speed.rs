//! Prints the speed of routines beside the limits of the machine.
//!
//! `cargo run --release -p margay-blas --example speed -- [THREADS] [FILTER]`. The limit of floating-point operations is
//! measured with a loop of fused multiply-adds in vector registers, that of memory with copies of long vectors. Each
//! row shows the speed by the clock, and by the time that the threads had on a CPU: on a machine that others use too, the
//! second one tells how good the code is.
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use margay_blas::factor::{self, Getrf};
use margay_blas::level1::{self, IndexAt, Input, Pair};
use margay_blas::level2::{self, Gemv};
use margay_blas::level3::{self, Gemm, Symm, Syrk, Trmm, Trsm};
use margay_blas::products::{self, AnyMatrix, Compute, GemmEx};
use margay_blas::{
    AnyScalar, Complex, Conjugation, DataType, Diagonal, Element, Operation, Plan, Pointers,
    Scalar, Side, Symmetry, Triangle,
};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads: u32 = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    let filter = arguments.next().unwrap_or_default();
    let limit = [fma_limit::<f32>(), fma_limit::<f64>()];
    for n in [64, 128, 256, 512, 1024, 2048] {
        gemm::<f32>("sgemm", n, threads, limit[0], &filter);
        gemm::<f64>("dgemm", n, threads, limit[1], &filter);
        gemm::<Complex<f32>>("cgemm", n, threads, limit[0], &filter);
        gemm::<Complex<f64>>("zgemm", n, threads, limit[1], &filter);
    }
    for n in [128, 1024] {
        use DataType::{E4M3, R8I, R16BF, R16F, R32I};
        gemm_ex(
            "f16",
            [R16F; 2],
            Compute::F32,
            n,
            threads,
            limit[0],
            &filter,
        );
        gemm_ex(
            "bf16",
            [R16BF; 2],
            Compute::F32,
            n,
            threads,
            limit[0],
            &filter,
        );
        gemm_ex(
            "e4m3",
            [E4M3, R16F],
            Compute::F32,
            n,
            threads,
            limit[0],
            &filter,
        );
        gemm_ex(
            "i8",
            [R8I, R32I],
            Compute::I32,
            n,
            threads,
            limit[0],
            &filter,
        );
        others::<f32>("s", n, threads, limit[0], &filter);
        others::<f64>("d", n, threads, limit[1], &filter);
    }
    let copies = Limit {
        run: copy_memory,
        work: (1u64 << 26) as f64 / 1e9,
    };
    for count in [1 << 16, 1 << 24] {
        memory::<f32>("s", count, threads, copies, &filter);
        memory::<f64>("d", count, threads, copies, &filter);
        memory::<Complex<f32>>("c", count, threads, copies, &filter);
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

/// The shortest times of several runs, in seconds.
#[derive(Clone, Copy)]
struct Time {
    /// By the clock.
    wall: f64,
    /// On CPUs, all threads together.
    cpu: f64,
}

/// Seconds that the process has spent on CPUs.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the function writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Time {
    const NEVER: Time = Time {
        wall: f64::INFINITY,
        cpu: f64::INFINITY,
    };

    /// Runs a function once, and keeps its times if they are shorter.
    fn update(&mut self, run: &mut dyn FnMut()) {
        let (begin, cpu) = (Instant::now(), cpu_seconds());
        run();
        self.wall = self.wall.min(begin.elapsed().as_secs_f64());
        self.cpu = self.cpu.min(cpu_seconds() - cpu);
    }
}

/// A limit of the machine: a function that runs it on some threads, and the work of a thread in it, in 10^9.
#[derive(Clone, Copy)]
struct Limit {
    run: fn(),
    work: f64,
}

/// Runs a function on several threads.
fn on_threads(threads: u32, run: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(&run);
        }
        run();
    });
}

/// Prints a row: `work` is in units of 10^9. The limit is measured in turn with the plan, because the speed of a machine
/// changes with what others do on it.
fn row(name: &str, unit: &str, work: f64, limit: Limit, threads: u32, plan: &Plan) {
    print!("{name:18}");
    for threads in [threads, 1] {
        let (mut of_plan, mut of_limit) = (Time::NEVER, Time::NEVER);
        run(plan, threads);
        let begin = Instant::now();
        run(plan, threads);
        // The limit is measured for as long as the plan runs, and at least long enough to start threads.
        let length = begin.elapsed().as_secs_f64().max(0.005);
        let begin = Instant::now();
        (limit.run)();
        let repeats = (length / begin.elapsed().as_secs_f64()).ceil() as u32;
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < SECONDS.max(12.0 * length) {
            of_limit
                .update(&mut || on_threads(threads, || (0..repeats).for_each(|_| (limit.run)())));
            let begin = Instant::now();
            while begin.elapsed().as_secs_f64() < length {
                of_plan.update(&mut || run(plan, threads));
            }
        }
        let limit = Limit {
            work: limit.work * f64::from(repeats),
            ..limit
        };
        let (speed, most) = (
            work / of_plan.wall,
            limit.work * f64::from(threads) / of_limit.wall,
        );
        let (cpu_speed, cpu_most) = (
            work / of_plan.cpu,
            limit.work * f64::from(threads) / of_limit.cpu,
        );
        print!(
            " {threads} threads {speed:6.1} of {most:6.1} {unit} = {:3.0} %, CPU {cpu_speed:6.1} of {cpu_most:6.1} = {:3.0} %;",
            100.0 * speed / most,
            100.0 * cpu_speed / cpu_most
        );
    }
    println!(
        " tasks {}",
        plan.stages
            .iter()
            .map(|stage| stage.tasks.to_string())
            .collect::<Vec<_>>()
            .join(" + ")
    );
}

/// How long a plan is measured.
const SECONDS: f64 = 1.0;

const FORMS: [(&str, Operation, Operation); 3] = [
    ("nn", Operation::None, Operation::None),
    ("tn", Operation::Transpose, Operation::None),
    ("nt", Operation::None, Operation::Transpose),
];

fn gemm<T: Element>(name: &str, n: usize, threads: u32, limit: Limit, filter: &str) {
    for (form, operation_a, operation_b) in FORMS {
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
        let work = if T::KIND.is_complex() { 8.0 } else { 2.0 } * (n as f64).powi(3) / 1e9;
        row(&name, "GFLOP/s", work, limit, threads, &plan);
    }
}

/// Products of mixed types; the limit is that of f32.
fn gemm_ex(
    name: &str,
    kinds: [DataType; 2],
    compute: Compute,
    n: usize,
    threads: u32,
    limit: Limit,
    filter: &str,
) {
    let name = format!("{name} {n}");
    if !name.contains(filter) {
        return;
    }
    let (a, b, mut c) = (
        vec![1u8; n * n * 4],
        vec![1u8; n * n * 4],
        vec![1u8; n * n * 4],
    );
    let matrix = |data: *const u8, kind| AnyMatrix {
        data: Pointers::Strided {
            base: data.cast_mut().cast(),
            stride: 0,
        },
        kind,
        ld: n,
    };
    let scale = if compute == Compute::I32 {
        DataType::R32I
    } else {
        DataType::R32F
    };
    let arguments = GemmEx {
        operation_a: Operation::Transpose,
        operation_b: Operation::None,
        m: n,
        n,
        k: n,
        alpha: AnyScalar::Value(Complex::new(1.0, 0.0)),
        a: matrix(a.as_ptr(), kinds[0]),
        b: matrix(b.as_ptr(), kinds[0]),
        beta: AnyScalar::Value(Complex::new(0.0, 0.0)),
        c: matrix(c.as_mut_ptr(), kinds[1]),
        batch: 1,
        compute,
        scale,
    };
    // SAFETY: the matrices live until the plan has run.
    if let Some(plan) = unsafe { products::gemm_ex(arguments) } {
        row(
            &name,
            "GFLOP/s",
            2.0 * (n as f64).powi(3) / 1e9,
            limit,
            threads,
            &plan,
        );
    }
}

/// Level 3 besides `gemm`, and factorisations.
fn others<T: Element>(letter: &str, n: usize, threads: u32, limit: Limit, filter: &str) {
    let mut a: Vec<T> = numbers(n * n);
    (0..n).for_each(|i| a[i * (n + 1)] = T::from_wide(Complex::new(n as f64, 0.0)));
    let (b, mut c): (Vec<T>, Vec<T>) = (numbers(n * n), numbers(n * n));
    let (alpha, beta) = (Scalar::Value(T::ONE), Scalar::Value(T::ZERO));
    let (side, triangle, operation, diagonal) = (
        Side::Left,
        Triangle::Lower,
        Operation::None,
        Diagonal::Stored,
    );
    let cube = (n as f64).powi(3) / 1e9 * if T::KIND.is_complex() { 4.0 } else { 1.0 };
    let single = |base: *mut T| Pointers::Strided { base, stride: 0 };
    let (mut pivots, mut info) = (vec![0i32; n], [0i32]);
    let (a, b, c_at) = (a.as_mut_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the matrices live until the plans have run.
    let rows: [(&str, f64, Plan); 6] = unsafe {
        [
            (
                "trsm left",
                cube,
                level3::trsm(Trsm {
                    side,
                    triangle,
                    operation,
                    diagonal,
                    m: n,
                    n,
                    alpha,
                    a,
                    lda: n,
                    b: c_at,
                    ldb: n,
                }),
            ),
            (
                "trsm right",
                cube,
                level3::trsm(Trsm {
                    side: Side::Right,
                    triangle,
                    operation,
                    diagonal,
                    m: n,
                    n,
                    alpha,
                    a,
                    lda: n,
                    b: c_at,
                    ldb: n,
                }),
            ),
            (
                "trmm left",
                cube,
                level3::trmm(Trmm {
                    side,
                    triangle,
                    operation,
                    diagonal,
                    m: n,
                    n,
                    alpha,
                    a,
                    lda: n,
                    b,
                    ldb: n,
                    c: c_at,
                    ldc: n,
                }),
            ),
            (
                "syrk",
                cube,
                level3::syrk(Syrk {
                    triangle,
                    operation,
                    n,
                    k: n,
                    alpha,
                    a,
                    lda: n,
                    beta,
                    c: c_at,
                    ldc: n,
                }),
            ),
            (
                "symm",
                2.0 * cube,
                level3::symm(Symm {
                    symmetry: Symmetry::Symmetric,
                    side,
                    triangle,
                    m: n,
                    n,
                    alpha,
                    a,
                    lda: n,
                    b,
                    ldb: n,
                    beta,
                    c: c_at,
                    ldc: n,
                }),
            ),
            (
                "getrf",
                2.0 / 3.0 * cube,
                factor::getrf(Getrf {
                    n,
                    a: single(a),
                    lda: n,
                    pivots: pivots.as_mut_ptr(),
                    info: info.as_mut_ptr(),
                    batch: 1,
                }),
            ),
        ]
    };
    for (name, work, plan) in rows {
        let name = format!("{letter}{name} {n}");
        if name.contains(filter) {
            row(&name, "GFLOP/s", work, limit, threads, &plan);
        }
    }
}

/// Routines that read or write memory only: the limit is that of copies.
fn memory<T: Element>(letter: &str, count: usize, threads: u32, limit: Limit, filter: &str) {
    let (x, y): (Vec<T>, Vec<T>) = (numbers(count), numbers(count));
    let mut result = T::ZERO;
    let mut real = T::Real::ZERO;
    let (x_at, y_at) = (x.as_ptr().cast_mut(), y.as_ptr().cast_mut());
    let pair = Pair {
        n: count,
        x: x_at,
        incx: 1,
        y: y_at,
        incy: 1,
    };
    let input = Input {
        n: count,
        x: x_at.cast_const(),
        incx: 1,
    };
    let side = (count as f64).sqrt() as usize;
    let gemv = |operation| Gemv {
        operation,
        m: side,
        n: side,
        alpha: Scalar::Value(T::ONE),
        a: x.as_ptr(),
        lda: side,
        x: y.as_ptr(),
        incx: 1,
        beta: Scalar::Value(T::ZERO),
        y: y_at.wrapping_add(side),
        incy: 1,
    };
    let bytes = (count * size_of::<T>()) as f64 / 1e9;
    let mut index = 0i64;
    // SAFETY: the vectors live until the plans have run.
    let rows: [(&str, f64, Plan); 7] = unsafe {
        [
            ("copy", 2.0 * bytes, level1::copy(pair)),
            (
                "dot",
                2.0 * bytes,
                level1::dot(pair, Conjugation::Plain, &mut result),
            ),
            (
                "axpy",
                3.0 * bytes,
                level1::axpy(Scalar::Value(T::ONE), pair),
            ),
            ("nrm2", bytes, level1::nrm2(input, &mut real)),
            (
                "iamax",
                bytes,
                level1::iamax(input, IndexAt::I64(&mut index)),
            ),
            ("gemv n", bytes, level2::gemv(gemv(Operation::None))),
            ("gemv t", bytes, level2::gemv(gemv(Operation::Transpose))),
        ]
    };
    for (name, work, plan) in rows {
        let name = format!("{letter}{name} {count}");
        if name.contains(filter) {
            row(&name, "GB/s", work, limit, threads, &plan);
        }
    }
}

/// Reads and writes long vectors.
fn copy_memory() {
    thread_local! {
        static VECTORS: std::cell::RefCell<(Vec<u64>, Vec<u64>)> = std::cell::RefCell::new((vec![1; 1 << 22], vec![0; 1 << 22]));
    }
    VECTORS.with_borrow_mut(|(from, to)| to.copy_from_slice(std::hint::black_box(from)));
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

/// Fused multiply-adds in vector registers.
fn fma_limit<T: FmaLoop>() -> Limit {
    fn run<T: FmaLoop>() {
        std::hint::black_box(T::run(ROUNDS));
    }
    const ROUNDS: u32 = 200_000;
    Limit {
        run: run::<T>,
        work: T::OPERATIONS * f64::from(ROUNDS) / 1e9,
    }
}

trait FmaLoop {
    /// Operations of a round.
    const OPERATIONS: f64;
    fn run(rounds: u32) -> f64;
}

macro_rules! fma_loop {
    ($t:ident, $lanes512:literal, $set512:ident, $fma512:ident, $set256:ident, $fma256:ident) => {
        impl FmaLoop for $t {
            const OPERATIONS: f64 = 10.0 * 2.0 * $lanes512 as f64;

            #[cfg(target_arch = "x86_64")]
            fn run(rounds: u32) -> f64 {
                use std::arch::x86_64::*;
                // Ten sums, each in a variable: an array might stay in memory.
                macro_rules! sums {
                    ($set:ident, $fma:ident, $rounds:expr) => {{
                        let (a, b) = (
                            $set(std::hint::black_box(0.999)),
                            $set(std::hint::black_box(0.001)),
                        );
                        let (mut s0, mut s1, mut s2, mut s3, mut s4) = (b, b, b, b, b);
                        let (mut s5, mut s6, mut s7, mut s8, mut s9) = (b, b, b, b, b);
                        for _ in 0..$rounds {
                            (s0, s1, s2, s3, s4) = (
                                $fma(s0, a, b),
                                $fma(s1, a, b),
                                $fma(s2, a, b),
                                $fma(s3, a, b),
                                $fma(s4, a, b),
                            );
                            (s5, s6, s7, s8, s9) = (
                                $fma(s5, a, b),
                                $fma(s6, a, b),
                                $fma(s7, a, b),
                                $fma(s8, a, b),
                                $fma(s9, a, b),
                            );
                        }
                        std::hint::black_box([s0, s1, s2, s3, s4, s5, s6, s7, s8, s9]);
                    }};
                }
                #[target_feature(enable = "avx512f")]
                fn wide(rounds: u32) {
                    sums!($set512, $fma512, rounds)
                }
                #[target_feature(enable = "avx2,fma")]
                fn narrow(rounds: u32) {
                    sums!($set256, $fma256, 2 * rounds)
                }
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the CPU has the instructions.
                    unsafe { wide(rounds) }
                } else {
                    // SAFETY: as above; a CPU without them makes the program stop.
                    unsafe { narrow(rounds) }
                }
                0.0
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
    _mm256_set1_ps,
    _mm256_fmadd_ps
);
fma_loop!(
    f64,
    8,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm256_set1_pd,
    _mm256_fmadd_pd
);
