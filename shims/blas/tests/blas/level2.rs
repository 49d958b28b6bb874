//! Level 2.

use margay_blas::level2::{self, Gbmv, Gemv, Ger, Symv, Syr, Syr2, Trmv};
use margay_blas::{
    Complex, Conjugation, Diagonal, Element, Form, Operation, Scalar, Symmetry, Triangle,
};

use crate::exact::Exact;
use crate::matrix::Matrix;
use crate::run::{DIAGONALS, OPERATIONS, Random, TRIANGLES, bits, nan, results, scalar};

/// A vector in memory.
struct Vector<T> {
    memory: Vec<T>,
    n: usize,
    increment: i64,
}

impl<T: Element> Vector<T> {
    fn random(random: &mut Random, n: usize) -> Vector<T> {
        let increment: i64 = random.pick(&[1, 1, 3, -1, -2]);
        let step = increment.unsigned_abs() as usize;
        let memory = (0..n * step)
            .map(|index| {
                if index % step == 0 {
                    random.value()
                } else {
                    nan()
                }
            })
            .collect();
        Vector {
            memory,
            n,
            increment,
        }
    }

    /// The element of `memory` with an index.
    fn of(&self, memory: &[T], index: usize) -> T {
        let step = self.increment.unsigned_abs() as usize;
        memory[if self.increment < 0 {
            (self.n - 1 - index) * step
        } else {
            index * step
        }]
    }

    fn at(&self, index: usize) -> T {
        self.of(&self.memory, index)
    }

    /// The vector as a column.
    fn exact(&self) -> Matrix {
        Matrix::from(self.n, 1, |i, _| Exact::of(self.at(i)))
    }

    #[track_caller]
    fn check(&self, got: &[T], want: &Matrix, units: f64, what: &str) {
        for i in 0..self.n {
            want.at(i, 0)
                .check(self.of(got, i), units, format_args!("{what}: element {i}"));
        }
        let step = self.increment.unsigned_abs() as usize;
        assert!(
            got.iter()
                .enumerate()
                .all(|(index, value)| index % step == 0 || value.wide().re.is_nan()),
            "{what}: gaps"
        );
    }
}

fn gemv_case<T: Element>(random: &mut Random, m: usize, n: usize, band: Option<(usize, usize)>) {
    let operation = random.pick(&OPERATIONS);
    let (dense, lda) = random.matrix::<T>(m, n);
    let inside = |i: usize, j: usize| band.is_none_or(|(kl, ku)| i <= j + kl && j <= i + ku);
    let full = Matrix::from(m, n, |i, j| {
        if inside(i, j) {
            Exact::of(dense[i + j * lda])
        } else {
            Exact::default()
        }
    });
    let (a, lda) = match band {
        None => (dense, lda),
        Some((kl, ku)) => {
            let ld = kl + ku + 1 + random.below(3);
            let mut a = vec![nan::<T>(); ld * n];
            for j in 0..n {
                for i in 0..m {
                    if inside(i, j) {
                        a[ku + i - j + j * ld] = dense[i + j * lda];
                    }
                }
            }
            (a, ld)
        }
    };
    let full = full.op(operation);
    let (x, y) = (
        Vector::<T>::random(random, full.columns),
        Vector::<T>::random(random, full.rows),
    );
    let (alpha, beta) = (random.factor::<T>(), random.factor::<T>());
    let (alpha_at, beta_at) = (scalar(random, &alpha), scalar(random, &beta));
    let got = results(&y.memory, |y_memory| {
        let (a, x, incx, y, incy) = (
            a.as_ptr(),
            x.memory.as_ptr(),
            x.increment,
            y_memory,
            y.increment,
        );
        let gemv = Gemv {
            operation,
            m,
            n,
            alpha: alpha_at,
            a,
            lda,
            x,
            incx,
            beta: beta_at,
            y,
            incy,
        };
        // SAFETY: the operands live until the plan has run.
        unsafe {
            match band {
                None => level2::gemv(gemv),
                Some((kl, ku)) => level2::gbmv(Gbmv { gemv, kl, ku }),
            }
        }
    });
    let what = format!("{operation:?} {m} {n} {band:?}");
    if m == 0 || n == 0 {
        assert!(
            got.iter().zip(&y.memory).all(|(a, b)| bits(*a) == bits(*b)),
            "{what}"
        );
        return;
    }
    let want = full
        .times(&x.exact())
        .combine(Exact::of(alpha), Exact::of(beta), &y.exact());
    y.check(&got, &want, 8.0 + full.columns as f64 / 8.0, &what);
}

#[test]
fn gemv_and_gbmv() {
    let mut random = Random::new(20);
    for index in 0..60 {
        let (m, n) = (random.size(), random.size());
        let band = (index % 2 == 1).then(|| (random.below(m + 2), random.below(n + 2)));
        gemv_case::<f32>(&mut random, m, n, band);
        gemv_case::<f64>(&mut random, m, n, band);
        gemv_case::<Complex<f32>>(&mut random, m, n, band);
        gemv_case::<Complex<f64>>(&mut random, m, n, band);
    }
    // Several blocks, and sums of parts.
    for (m, n) in [
        (1100, 20),
        (20, 1100),
        (2, 150_000),
        (150_000, 2),
        (1030, 301),
        (301, 1030),
    ] {
        gemv_case::<f32>(&mut random, m, n, None);
        gemv_case::<Complex<f64>>(&mut random, m, n, None);
    }
    gemv_case::<f64>(&mut random, 1500, 1500, Some((3, 2)));
    gemv_case::<f64>(&mut random, 1500, 1500, Some((3, 2)));
}

#[test]
fn a_factor_of_zero_hides_nan() {
    let (a, x) = ([f64::NAN; 4], [1.0; 2]);
    let run = |alpha: f64, beta: f64, a: &[f64], y: [f64; 2]| {
        results(&y, |y| {
            let gemv = Gemv {
                operation: Operation::None,
                m: 2,
                n: 2,
                alpha: Scalar::Value(alpha),
                a: a.as_ptr(),
                lda: 2,
                x: x.as_ptr(),
                incx: 1,
                beta: Scalar::Value(beta),
                y,
                incy: 1,
            };
            // SAFETY: the operands live until the plan has run.
            unsafe { level2::gemv(gemv) }
        })
    };
    assert_eq!(run(0.0, 2.0, &a, [1.0, 3.0]), [2.0, 6.0]);
    assert_eq!(run(0.0, 0.0, &a, [1.0, f64::NAN]), [0.0, 0.0]);
    assert_eq!(run(1.0, 0.0, &[1.0; 4], [f64::NAN; 2]), [2.0, 2.0]);
    assert!(run(1.0, 0.0, &a, [0.0; 2])[0].is_nan());
}

/// A triangle in each form, from a full matrix of which only the triangle is used. NaN where nothing is stored.
struct Stored<T> {
    memory: Vec<T>,
    form: Form,
    /// For each element of the memory, its row and column.
    places: Vec<Option<(usize, usize)>>,
}

fn in_triangle(triangle: Triangle, i: usize, j: usize) -> bool {
    if triangle == Triangle::Lower {
        i >= j
    } else {
        i <= j
    }
}

fn store<T: Element>(
    random: &mut Random,
    n: usize,
    triangle: Triangle,
    form: Form,
    value: impl Fn(&mut Random, usize, usize) -> T,
) -> Stored<T> {
    let (length, place): (usize, Box<dyn Fn(usize, usize) -> usize>) = match form {
        Form::Full { ld } => (ld * n, Box::new(move |i, j| i + j * ld)),
        Form::Band { k, ld } if triangle == Triangle::Lower => (
            ld * n,
            Box::new(move |i, j| {
                if i - j <= k {
                    i - j + j * ld
                } else {
                    usize::MAX
                }
            }),
        ),
        Form::Band { k, ld } => (
            ld * n,
            Box::new(move |i, j| {
                if j - i <= k {
                    k + i - j + j * ld
                } else {
                    usize::MAX
                }
            }),
        ),
        Form::Packed if triangle == Triangle::Lower => (
            n * (n + 1) / 2,
            Box::new(move |i, j| (0..j).map(|j| n - j).sum::<usize>() + i - j),
        ),
        Form::Packed => (n * (n + 1) / 2, Box::new(|i, j| j * (j + 1) / 2 + i)),
    };
    let mut memory = vec![nan::<T>(); length];
    let mut places = vec![None; length];
    for j in 0..n {
        for i in 0..n {
            if in_triangle(triangle, i, j) && place(i, j) != usize::MAX {
                memory[place(i, j)] = value(random, i, j);
                places[place(i, j)] = Some((i, j));
            }
        }
    }
    Stored {
        memory,
        form,
        places,
    }
}

impl<T: Element> Stored<T> {
    /// The stored elements; 0 for the others.
    fn matrix(&self, memory: &[T], n: usize) -> Matrix {
        let mut matrix = Matrix::from(n, n, |_, _| Exact::default());
        for (value, place) in memory.iter().zip(&self.places) {
            if let Some((i, j)) = place {
                matrix.values[i + j * n] = Exact::of(*value);
            }
        }
        matrix
    }
}

fn form(random: &mut Random, n: usize) -> Form {
    match random.below(3) {
        0 => Form::Full {
            ld: n.max(1) + random.below(3),
        },
        1 => {
            let k = random.below(n + 2);
            Form::Band {
                k,
                ld: k + 1 + random.below(3),
            }
        }
        _ => Form::Packed,
    }
}

fn symv_case<T: Element>(random: &mut Random, n: usize, form: Form) {
    let (triangle, symmetry) = (
        random.pick(&TRIANGLES),
        random.pick(&[Symmetry::Symmetric, Symmetry::Hermitian]),
    );
    let hermitian = symmetry == Symmetry::Hermitian;
    let a = store(random, n, triangle, form, |random, i, j| {
        let value: T = random.value();
        if i == j && hermitian {
            T::from_parts(value.re(), nan::<T>().im())
        } else {
            value
        }
    });
    let stored = a.matrix(&a.memory, n);
    let full = Matrix::from(n, n, |i, j| {
        if i == j && hermitian {
            stored.at(i, i).real()
        } else if in_triangle(triangle, i, j) {
            stored.at(i, j)
        } else {
            stored.at(j, i).conj_if(hermitian)
        }
    });
    let (x, y) = (
        Vector::<T>::random(random, n),
        Vector::<T>::random(random, n),
    );
    let (alpha, beta) = (random.factor::<T>(), random.factor::<T>());
    let got = results(&y.memory, |y_memory| {
        let (alpha, beta) = (Scalar::Value(alpha), Scalar::Value(beta));
        let (a, x, incx, y, incy) = (
            a.memory.as_ptr(),
            x.memory.as_ptr(),
            x.increment,
            y_memory,
            y.increment,
        );
        // SAFETY: the operands live until the plan has run.
        unsafe {
            level2::symv(Symv {
                symmetry,
                form,
                triangle,
                n,
                alpha,
                a,
                x,
                incx,
                beta,
                y,
                incy,
            })
        }
    });
    let want = full
        .times(&x.exact())
        .combine(Exact::of(alpha), Exact::of(beta), &y.exact());
    y.check(
        &got,
        &want,
        8.0 + n as f64 / 8.0,
        &format!("{symmetry:?} {triangle:?} {form:?} {n}"),
    );
}

#[test]
fn symv_in_all_forms() {
    let mut random = Random::new(21);
    for _ in 0..40 {
        let n = random.size();
        let form = form(&mut random, n);
        symv_case::<f32>(&mut random, n, form);
        symv_case::<f64>(&mut random, n, form);
        symv_case::<Complex<f32>>(&mut random, n, form);
        symv_case::<Complex<f64>>(&mut random, n, form);
    }
    for form in [
        Form::Full { ld: 500 },
        Form::Packed,
        Form::Band { k: 3, ld: 4 },
    ] {
        symv_case::<f64>(&mut random, 500, form);
    }
    symv_case::<f64>(&mut random, 1300, Form::Band { k: 2, ld: 3 });
}

fn triangular_case<T: Element>(random: &mut Random, n: usize, form: Form) {
    let (triangle, operation, diagonal) = (
        random.pick(&TRIANGLES),
        random.pick(&OPERATIONS),
        random.pick(&DIAGONALS),
    );
    let unit = diagonal == Diagonal::Unit;
    let a = store(random, n, triangle, form, |random, i, j| {
        let value: T = random.value();
        match i == j {
            true if unit => nan(),
            true => value + T::ONE + T::ONE,
            false => T::from_wide(Complex::new(
                value.wide().re / n as f64,
                value.wide().im / n as f64,
            )),
        }
    });
    let mut full = a.matrix(&a.memory, n);
    if unit {
        (0..n).for_each(|i| full.values[i + i * n] = Exact::of(T::ONE));
    }
    let full = full.op(operation);
    let x = Vector::<T>::random(random, n);
    let what = format!("{triangle:?} {operation:?} {diagonal:?} {form:?} {n}");
    let arguments = |memory| Trmv {
        form,
        triangle,
        operation,
        diagonal,
        n,
        a: a.memory.as_ptr(),
        x: memory,
        incx: x.increment,
    };
    // SAFETY: the operands live until the plan has run.
    let got = results(&x.memory, |memory| unsafe {
        level2::trmv(arguments(memory))
    });
    x.check(&got, &full.times(&x.exact()), 8.0 + n as f64 / 8.0, &what);
    // The matrix times the solution is the right-hand side.
    // SAFETY: as above.
    let solution = results(&x.memory, |memory| unsafe {
        level2::trsv(arguments(memory))
    });
    let back = full.times(&Matrix::from(n, 1, |i, _| Exact::of(x.of(&solution, i))));
    for i in 0..n {
        (back.at(i, 0) - Exact::of(x.at(i))).check(
            T::ZERO,
            8.0 + n as f64,
            format_args!("{what}: element {i}"),
        );
    }
}

#[test]
fn trmv_and_trsv_in_all_forms() {
    let mut random = Random::new(22);
    for _ in 0..60 {
        let n = random.size();
        let form = form(&mut random, n);
        triangular_case::<f32>(&mut random, n, form);
        triangular_case::<f64>(&mut random, n, form);
        triangular_case::<Complex<f32>>(&mut random, n, form);
        triangular_case::<Complex<f64>>(&mut random, n, form);
    }
    for form in [
        Form::Full { ld: 300 },
        Form::Packed,
        Form::Band { k: 5, ld: 6 },
    ] {
        triangular_case::<f64>(&mut random, 300, form);
        triangular_case::<f64>(&mut random, 300, form);
    }
}

fn ger_case<T: Element>(random: &mut Random, m: usize, n: usize) {
    let (a, lda) = random.matrix::<T>(m, n);
    let (x, y) = (
        Vector::<T>::random(random, m),
        Vector::<T>::random(random, n),
    );
    let alpha = random.factor::<T>();
    let conjugation = random.pick(&[Conjugation::Plain, Conjugation::Conjugate]);
    let got = results(&a, |a| {
        let (x, incx, y, incy) = (
            x.memory.as_ptr(),
            x.increment,
            y.memory.as_ptr(),
            y.increment,
        );
        // SAFETY: the operands live until the plan has run.
        unsafe {
            level2::ger(Ger {
                conjugation,
                m,
                n,
                alpha: Scalar::Value(alpha),
                x,
                incx,
                y,
                incy,
                a,
                lda,
            })
        }
    });
    let operation = if conjugation == Conjugation::Plain {
        Operation::Transpose
    } else {
        Operation::Adjoint
    };
    let product = x.exact().times(&y.exact().op(operation));
    let want = product.combine(
        Exact::of(alpha),
        Exact::of(T::ONE),
        &Matrix::of(&a, lda, m, n),
    );
    want.check(&got, lda, 6.0, &format!("{conjugation:?} {m} {n}"));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RankOne {
    Syr,
    Her,
    Syr2,
    Her2,
}

fn rank_one_case<T: Element>(random: &mut Random, routine: RankOne, n: usize) {
    let triangle = random.pick(&TRIANGLES);
    let form = if random.below(2) == 0 {
        Form::Packed
    } else {
        Form::Full { ld: n.max(1) + 1 }
    };
    let hermitian = matches!(routine, RankOne::Her | RankOne::Her2) && T::KIND.is_complex();
    let a = store(random, n, triangle, form, |random, i, j| {
        let value: T = random.value();
        if i == j && hermitian {
            T::from_parts(value.re(), nan::<T>().im())
        } else {
            value
        }
    });
    let (x, y) = (
        Vector::<T>::random(random, n),
        Vector::<T>::random(random, n),
    );
    let alpha = random.factor::<T>();
    let got = results(&a.memory, |memory| {
        let (form, incx, incy) = (a.form, x.increment, y.increment);
        let (x, y) = (x.memory.as_ptr(), y.memory.as_ptr());
        let symmetry = if hermitian {
            Symmetry::Hermitian
        } else {
            Symmetry::Symmetric
        };
        // SAFETY: the operands live until the plan has run.
        unsafe {
            match routine {
                RankOne::Syr => level2::syr(Syr {
                    form,
                    triangle,
                    n,
                    alpha: Scalar::Value(alpha),
                    x,
                    incx,
                    a: memory,
                }),
                RankOne::Her => level2::her(Syr {
                    form,
                    triangle,
                    n,
                    alpha: Scalar::Value(alpha.re()),
                    x,
                    incx,
                    a: memory,
                }),
                _ => level2::syr2(Syr2 {
                    symmetry,
                    form,
                    triangle,
                    n,
                    alpha: Scalar::Value(alpha),
                    x,
                    incx,
                    y,
                    incy,
                    a: memory,
                }),
            }
        }
    });
    let transpose = if hermitian {
        Operation::Adjoint
    } else {
        Operation::Transpose
    };
    let factor = if routine == RankOne::Her {
        Exact::of(alpha.re())
    } else {
        Exact::of(alpha)
    };
    let (x, y) = (x.exact(), y.exact());
    let (first, second) = if matches!(routine, RankOne::Syr | RankOne::Her) {
        (x.times(&x.op(transpose)), None)
    } else {
        (x.times(&y.op(transpose)), Some(y.times(&x.op(transpose))))
    };
    for (index, place) in a.places.iter().enumerate() {
        let what = format!("{routine:?} {triangle:?} {form:?} {n}: {place:?}");
        let Some((i, j)) = *place else {
            assert!(got[index].wide().re.is_nan(), "{what} was written");
            continue;
        };
        let old = a.memory[index];
        if factor.is_zero() {
            assert_eq!(bits(got[index]), bits(old), "{what}");
            continue;
        }
        let real = i == j && hermitian;
        let mut want =
            factor * first.at(i, j) + Exact::of(if real { T::from_real(old.re()) } else { old });
        if let Some(second) = &second {
            want = want + factor.conj_if(hermitian) * second.at(i, j);
        }
        if real {
            want = want.real();
        }
        want.check(got[index], 8.0, what);
    }
}

#[test]
fn updates_by_vectors() {
    let mut random = Random::new(23);
    for _ in 0..25 {
        let (m, n) = (random.size(), random.size());
        ger_case::<f32>(&mut random, m, n);
        ger_case::<f64>(&mut random, m, n);
        ger_case::<Complex<f32>>(&mut random, m, n);
        ger_case::<Complex<f64>>(&mut random, m, n);
        for routine in [RankOne::Syr, RankOne::Her, RankOne::Syr2, RankOne::Her2] {
            rank_one_case::<f32>(&mut random, routine, n);
            rank_one_case::<f64>(&mut random, routine, n);
            rank_one_case::<Complex<f32>>(&mut random, routine, n);
            rank_one_case::<Complex<f64>>(&mut random, routine, n);
        }
    }
    ger_case::<f64>(&mut random, 300, 300);
    rank_one_case::<Complex<f32>>(&mut random, RankOne::Her2, 300);
}

/// `x` ends where its memory ends: a wide matrix has more columns than `x` has elements.
#[cfg(unix)]
#[test]
fn ger_reads_its_vectors_only() {
    const PAGE: usize = 1 << 16;
    // SAFETY: a new mapping; the second half becomes inaccessible.
    let end = unsafe {
        let (all, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let start = libc::mmap(std::ptr::null_mut(), 2 * PAGE, all, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let end = start.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(end.cast(), PAGE, libc::PROT_NONE), 0);
        end.cast::<f64>()
    };
    // SAFETY: the element before the inaccessible half.
    let x = unsafe { end.sub(1) };
    // SAFETY: as above.
    unsafe { x.write(3.0) };
    let y = [1.0, 10.0, 100.0];
    let mut a = [0.5f64; 3];
    let arguments = Ger {
        conjugation: Conjugation::Plain,
        m: 1,
        n: 3,
        alpha: Scalar::Value(2.0),
        x,
        incx: 1,
        y: y.as_ptr(),
        incy: 1,
        a: a.as_mut_ptr(),
        lda: 1,
    };
    // SAFETY: the operands live until the plan has run.
    unsafe { level2::ger(arguments) }.run();
    assert_eq!(a, [6.5, 60.5, 600.5]);
    // SAFETY: the mapping of this test, which nothing uses any more.
    unsafe { libc::munmap(end.cast::<u8>().sub(PAGE).cast(), 2 * PAGE) };
}
