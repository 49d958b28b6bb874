//! Factorisations: the products of the factors are the matrices.

use margay_blas::factor::{self, Gels, Geqrf, Getrf, Getri, Getrs};
use margay_blas::{Complex, Element, Operation, Pointers, Real};

use crate::exact::Exact;
use crate::matrix::Matrix;
use crate::run::{OPERATIONS, Random, check_gaps, results};

/// A batch of matrices, one after another.
struct Batch<T> {
    memory: Vec<T>,
    ld: usize,
    rows: usize,
    columns: usize,
}

impl<T: Element> Batch<T> {
    fn random(random: &mut Random, rows: usize, columns: usize, count: usize) -> Batch<T> {
        let ld = rows + random.below(3);
        let gap = T::from_wide(Complex::new(f64::NAN, f64::NAN));
        let value = |random: &mut Random, index: usize| {
            if index % ld < rows {
                random.value()
            } else {
                gap
            }
        };
        Batch {
            memory: (0..ld * columns * count)
                .map(|index| value(random, index))
                .collect(),
            ld,
            rows,
            columns,
        }
    }

    fn stride(&self) -> usize {
        self.ld * self.columns
    }

    fn pointers(&self, memory: *const T) -> Pointers<T> {
        Pointers::Strided {
            base: memory.cast_mut(),
            stride: self.stride() as i64,
        }
    }

    /// An item of `memory`.
    fn item(&self, memory: &[T], item: usize) -> Matrix {
        Matrix::of(
            &memory[item * self.stride()..],
            self.ld,
            self.rows,
            self.columns,
        )
    }
}

/// A matrix of the factors in a factored matrix: those elements for which `inside` holds, and `diagonal` on the diagonal if given.
fn part(
    factors: &Matrix,
    rows: usize,
    columns: usize,
    inside: impl Fn(usize, usize) -> bool,
    diagonal: Option<Exact>,
) -> Matrix {
    Matrix::from(rows, columns, |i, j| match diagonal {
        Some(value) if i == j => value,
        _ if inside(i, j) => factors.at(i, j),
        _ => Exact::default(),
    })
}

/// Checks that a matrix is another one, with an error of some roundings of the terms of both.
#[track_caller]
fn check_equal<T: Element>(got: &Matrix, want: &Matrix, units: f64, what: &str) {
    for j in 0..want.columns {
        for i in 0..want.rows {
            (got.at(i, j) - want.at(i, j)).check(
                T::ZERO,
                units,
                format_args!("{what}: element ({i}, {j})"),
            );
        }
    }
}

fn swapped(matrix: &Matrix, pivots: &[i32]) -> Matrix {
    let mut result = matrix.clone();
    for (row, pivot) in pivots.iter().enumerate() {
        for j in 0..result.columns {
            result
                .values
                .swap(row + j * result.rows, *pivot as usize - 1 + j * result.rows);
        }
    }
    result
}

fn lu_case<T: Element>(random: &mut Random, n: usize, batch: usize, pivoting: bool) {
    let a = Batch::<T>::random(random, n, n, batch);
    let mut a_memory = a.memory.clone();
    if !pivoting {
        // A strong diagonal, so that factors stay small.
        for item in 0..batch {
            (0..n).for_each(|i| {
                a_memory[item * a.stride() + i * (a.ld + 1)] =
                    T::from_real(T::Real::from_f64(n as f64 + 2.0))
            });
        }
    }
    let mut pivots = vec![-1i32; n * batch];
    let mut info = vec![-1i32; batch];
    let pivots_at = if pivoting {
        pivots.as_mut_ptr()
    } else {
        std::ptr::null_mut()
    };
    let got = results(&a_memory, |memory| {
        let arguments = Getrf {
            n,
            a: a.pointers(memory),
            lda: a.ld,
            pivots: pivots_at,
            info: info.as_ptr().cast_mut(),
            batch,
        };
        // SAFETY: the operands live until the plan has run.
        unsafe { factor::getrf(arguments) }
    });
    info.iter_mut()
        .for_each(|value| assert_eq!(std::mem::replace(value, -1), 0));
    let what = format!("{} {n} {pivoting}", std::any::type_name::<T>());
    let units = 6.0 + n as f64 / 2.0;
    let nrhs = 1 + random.below(5);
    let operation = random.pick(&OPERATIONS[..3]);
    let b = Batch::<T>::random(random, n, nrhs, batch);
    let solution = results(&b.memory, |memory| {
        let arguments = Getrs {
            operation,
            n,
            nrhs,
            a: a.pointers(got.as_ptr()),
            lda: a.ld,
            pivots: pivots_at,
            b: b.pointers(memory),
            ldb: b.ld,
            batch,
        };
        // SAFETY: as above.
        unsafe { factor::getrs(arguments) }
    });
    let c = Batch::<T>::random(random, n, n, batch);
    let getri = |memory: *mut T, a: Pointers<T>, lda: usize| Getri {
        n,
        a,
        lda,
        pivots: pivots_at,
        c: c.pointers(memory),
        ldc: c.ld,
        info: info.as_ptr().cast_mut(),
        batch,
    };
    // SAFETY: as above.
    let inverse = results(&c.memory, |memory| unsafe {
        factor::getri(getri(memory, a.pointers(got.as_ptr()), a.ld))
    });
    // SAFETY: as above.
    let direct = results(&c.memory, |memory| unsafe {
        factor::matinv(getri(memory, a.pointers(a_memory.as_ptr()), a.ld))
    });
    for item in 0..batch {
        let matrix = a.item(&a_memory, item);
        let factors = a.item(&got, item);
        let lower = part(&factors, n, n, |i, j| i > j, Some(Exact::of(T::ONE)));
        let upper = part(&factors, n, n, |i, j| i <= j, None);
        let permuted = if pivoting {
            swapped(&matrix, &pivots[item * n..(item + 1) * n])
        } else {
            matrix.clone()
        };
        check_equal::<T>(&lower.times(&upper), &permuted, units, &what);
        if pivoting {
            let small =
                |value: &Exact| value.wide().re.abs() <= 1.5 && value.wide().im.abs() <= 1.5;
            assert!(lower.values.iter().all(small), "{what}: large factors");
        }
        // The terms of the residual: those of the product of the factors, which may be larger than the matrix.
        let scale = lower
            .times(&upper)
            .values
            .iter()
            .fold(1.0, |size: f64, value| size.max(value.size));
        let residual = |product: &Matrix, want: &Matrix, x: &Matrix| {
            let size: f64 = x.values.iter().map(|value| value.size).fold(1.0, f64::max);
            for (got, want) in product.values.iter().zip(&want.values) {
                let difference = (*got - *want).wide();
                let limit = 4.0 * units * n as f64 * scale * size * T::Real::EPSILON.to_f64();
                assert!(
                    difference.re.hypot(difference.im) <= limit,
                    "{what}: {difference:?}, allowed {limit:e}"
                );
            }
        };
        let x = b.item(&solution, item);
        residual(
            &matrix.op(operation).times(&x),
            &b.item(&b.memory, item),
            &x,
        );
        let unit = Matrix::from(n, n, |i, j| {
            if i == j {
                Exact::of(T::ONE)
            } else {
                Exact::default()
            }
        });
        for inverse in [&inverse, &direct] {
            let inverse = c.item(inverse, item);
            residual(&matrix.times(&inverse), &unit, &inverse);
        }
    }
    assert!(info.iter().all(|value| *value == 0));
    check_gaps(&got, n, a.ld);
    check_gaps(&inverse, n, c.ld);
}

#[test]
fn lu_factors_solutions_and_inverses() {
    let mut random = Random::new(30);
    for n in [1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 50] {
        for pivoting in [true, false] {
            lu_case::<f32>(&mut random, n, 2, pivoting);
            lu_case::<f64>(&mut random, n, 2, pivoting);
            lu_case::<Complex<f32>>(&mut random, n, 2, pivoting);
            lu_case::<Complex<f64>>(&mut random, n, 1, pivoting);
        }
    }
    lu_case::<f64>(&mut random, 130, 1, true);
}

#[test]
fn lu_of_small_matrices() {
    // Columns (1, 4, 7), (2, 5, 8), (3, 6, 10); exact with pivot rows 3, 3, 3.
    let mut a = [1.0, 4.0, 7.0, 2.0, 5.0, 8.0, 3.0, 6.0, 10.0f64];
    // A singular matrix: its second pivot is 0.
    let mut singular = [4.0, 2.0, 1.0, 8.0, 4.0, 2.0, 1.0, 1.0, 5.0f64];
    let mut zero = [0.0f64; 9];
    let matrices = [a.as_mut_ptr(), singular.as_mut_ptr(), zero.as_mut_ptr()];
    let (mut pivots, mut info) = ([0i32; 9], [9i32; 3]);
    let (a_pointers, mut inverse) = (Pointers::Array(matrices.as_ptr()), [[7.0f64; 9]; 3]);
    let getrf = Getrf {
        n: 3,
        a: a_pointers,
        lda: 3,
        pivots: pivots.as_mut_ptr(),
        info: info.as_mut_ptr(),
        batch: 3,
    };
    // SAFETY: the operands live until the plans have run.
    unsafe { factor::getrf(getrf) }.run();
    assert_eq!(info, [0, 2, 1]);
    assert_eq!(pivots[..3], [3, 3, 3]);
    assert_eq!([a[0], a[3], a[6]], [7.0, 8.0, 10.0]);
    assert!((a[8] + 0.5).abs() < 1e-14, "{}", a[8]);
    let c = Pointers::Strided {
        base: inverse.as_mut_ptr().cast(),
        stride: 9,
    };
    let getri = Getri {
        n: 3,
        a: a_pointers,
        lda: 3,
        pivots: pivots.as_ptr(),
        c,
        ldc: 3,
        info: info.as_mut_ptr(),
        batch: 3,
    };
    // SAFETY: as above.
    unsafe { factor::getri(getri) }.run();
    assert_eq!(info, [0, 2, 1]);
    let want = [-2.0, -2.0, 3.0, -4.0, 11.0, -6.0, 3.0, -6.0, 3.0].map(|value: f64| value / 3.0);
    assert!(
        inverse[0]
            .iter()
            .zip(want)
            .all(|(got, want)| (got - want).abs() < 1e-13),
        "{:?}",
        inverse[0]
    );
    assert_eq!(inverse[1..], [[7.0; 9]; 2]);
    // Row numbers outside the matrix do no harm.
    let mut b = [1.0f64; 3];
    let pivots = [i32::MIN, 77, i32::MAX];
    let getrs = Getrs {
        operation: Operation::None,
        n: 3,
        nrhs: 1,
        a: a_pointers,
        lda: 3,
        pivots: pivots.as_ptr(),
        b: Pointers::Strided {
            base: b.as_mut_ptr(),
            stride: 0,
        },
        ldb: 3,
        batch: 1,
    };
    // SAFETY: as above.
    unsafe { factor::getrs(getrs) }.run();
    assert!(b.iter().all(|value| value.is_finite()));
}

/// `H_0 ... H_(k-1) c` for the reflectors of factors.
fn apply_reflectors(factors: &Matrix, tau: &[Exact], c: &Matrix) -> Matrix {
    let mut result = c.clone();
    for (index, factor) in tau.iter().enumerate().rev() {
        let v = |i: usize| match i.cmp(&index) {
            std::cmp::Ordering::Less => Exact::default(),
            std::cmp::Ordering::Equal => Exact::of(1.0f64),
            std::cmp::Ordering::Greater => factors.at(i, index),
        };
        for j in 0..c.columns {
            let product: Exact = (0..c.rows).map(|i| v(i).conj() * result.at(i, j)).sum();
            for i in 0..c.rows {
                result.values[i + j * c.rows] = result.at(i, j) - *factor * v(i) * product;
            }
        }
    }
    result
}

fn qr_case<T: Element>(random: &mut Random, m: usize, n: usize) {
    let batch = 2;
    let a = Batch::<T>::random(random, m, n, batch);
    let count = m.min(n);
    let mut tau = vec![T::ZERO; count * batch];
    let tau_at = Pointers::Strided {
        base: tau.as_mut_ptr(),
        stride: count as i64,
    };
    let got = results(&a.memory, |memory| {
        // SAFETY: the operands live until the plan has run.
        unsafe {
            factor::geqrf(Geqrf {
                m,
                n,
                a: a.pointers(memory),
                lda: a.ld,
                tau: tau_at,
                batch,
            })
        }
    });
    let what = format!("{} {m} {n}", std::any::type_name::<T>());
    for item in 0..batch {
        let factors = a.item(&got, item);
        let upper = part(&factors, m, n, |i, j| i <= j, None);
        let tau: Vec<Exact> = tau[item * count..(item + 1) * count]
            .iter()
            .map(|value| Exact::of(*value))
            .collect();
        let product = apply_reflectors(&factors, &tau, &upper);
        for (index, (got, want)) in product
            .values
            .iter()
            .zip(&a.item(&a.memory, item).values)
            .enumerate()
        {
            let difference = (*got - *want).wide();
            let limit = 4.0 * (m as f64).sqrt() * (6.0 + n as f64) * T::Real::EPSILON.to_f64();
            assert!(
                difference.re.hypot(difference.im) <= limit,
                "{what}: element {index} differs by {difference:?}, allowed {limit:e}"
            );
        }
        // Each reflector is unitary: tau + conj(tau) = |tau|^2 v^H v.
        for (index, factor) in tau.iter().enumerate() {
            let length: Exact = (index + 1..m)
                .map(|i| factors.at(i, index) * factors.at(i, index).conj())
                .sum::<Exact>()
                + Exact::of(1.0f64);
            let difference = (*factor + factor.conj()) - *factor * factor.conj() * length;
            difference.check(T::ZERO, 8.0 + m as f64, &what);
            // R has a real diagonal, except the last element of a square matrix, which has no reflector in real types.
            assert!(factors.at(index, index).wide().im == 0.0, "{what}");
        }
    }
    check_gaps(&got, m, a.ld);

    if m >= n && n > 0 {
        let nrhs = 1 + random.below(3);
        let b = Batch::<T>::random(random, m, nrhs, batch);
        let mut info = vec![9i32; batch];
        let info_at = info.as_mut_ptr();
        let copies = std::cell::RefCell::new(Vec::new());
        let x = results(&b.memory, |memory| {
            let mut copy = a.memory.clone();
            let a_at = a.pointers(copy.as_mut_ptr());
            copies.borrow_mut().push(copy);
            let gels = Gels {
                m,
                n,
                nrhs,
                a: a_at,
                lda: a.ld,
                c: b.pointers(memory),
                ldc: b.ld,
                info: info_at,
                batch,
            };
            // SAFETY: the operands live until the plan has run.
            let plan = unsafe { factor::gels(gels) };
            // The plan replaces its matrices, so it can run once: each run gets a fresh copy.
            let fresh = a.memory.clone();
            let a_address = match a_at {
                Pointers::Strided { base, .. } => base as usize,
                Pointers::Array(_) => 0,
            };
            let refill = move |_| {
                // SAFETY: the copy lives until the plan has run.
                unsafe {
                    (a_address as *mut T).copy_from_nonoverlapping(fresh.as_ptr(), fresh.len())
                };
            };
            let mut plan = plan;
            plan.stages.insert(
                0,
                margay_blas::Stage {
                    tasks: 1,
                    run: Box::new(refill),
                },
            );
            plan
        });
        assert!(info.iter().all(|value| *value == 0));
        for item in 0..batch {
            let matrix = a.item(&a.memory, item);
            let full = b.item(&x, item);
            let solution = Matrix::from(n, nrhs, |i, j| full.at(i, j));
            let residual = matrix.times(&solution);
            let residual = Matrix::from(m, nrhs, |i, j| {
                residual.at(i, j) - b.item(&b.memory, item).at(i, j)
            });
            let normal = matrix.op(Operation::Adjoint).times(&residual);
            for value in &normal.values {
                value.check(T::ZERO, 20.0 * (n as f64 + 4.0), &what);
            }
        }
    }
}

#[test]
fn qr_factors_and_least_squares() {
    let mut random = Random::new(31);
    for (m, n) in [
        (1, 1),
        (2, 1),
        (1, 3),
        (3, 2),
        (5, 5),
        (9, 4),
        (17, 16),
        (20, 33),
        (40, 35),
        (70, 20),
    ] {
        qr_case::<f32>(&mut random, m, n);
        qr_case::<f64>(&mut random, m, n);
        qr_case::<Complex<f32>>(&mut random, m, n);
        qr_case::<Complex<f64>>(&mut random, m, n);
    }
}

#[test]
fn qr_of_extreme_columns() {
    let of = |mut a: Vec<f64>, rows: usize| {
        let columns = a.len() / rows;
        let mut tau = vec![9.0; rows.min(columns)];
        let single = |base: *mut f64| Pointers::Strided { base, stride: 0 };
        let geqrf = Geqrf {
            m: rows,
            n: columns,
            a: single(a.as_mut_ptr()),
            lda: rows,
            tau: single(tau.as_mut_ptr()),
            batch: 1,
        };
        // SAFETY: the operands live until the plan has run.
        unsafe { factor::geqrf(geqrf) }.run();
        (a, tau)
    };
    assert_eq!(of(vec![3.0, 4.0], 2), (vec![-5.0, 0.5], vec![1.6]));
    assert_eq!(of(vec![3.0, 0.0], 2), (vec![3.0, 0.0], vec![0.0]));
    assert_eq!(of(vec![7.0], 1), (vec![7.0], vec![0.0]));
    let (a, _) = of(vec![3e200, 4e200], 2);
    assert!((a[0] / -5e200 - 1.0).abs() < 1e-15);
    let (a, tau) = of(vec![3e-310, 4e-310], 2);
    assert!(
        (a[0] / -5e-310 - 1.0).abs() < 1e-12 && (tau[0] - 1.6).abs() < 1e-12,
        "{a:?} {tau:?}"
    );
}

#[test]
fn least_squares_reports_a_missing_rank() {
    let mut a = [1.0f64, 1.0, 1.0, 0.0, 0.0, 0.0];
    let (mut c, mut info) = ([1.0f64, 2.0, 3.0], 9i32);
    let single = |base: *mut f64| Pointers::Strided { base, stride: 0 };
    let gels = Gels {
        m: 3,
        n: 2,
        nrhs: 1,
        a: single(a.as_mut_ptr()),
        lda: 3,
        c: single(c.as_mut_ptr()),
        ldc: 3,
        info: &mut info,
        batch: 1,
    };
    // SAFETY: the operands live until the plan has run.
    unsafe { factor::gels(gels) }.run();
    assert_eq!(info, 2);
}
