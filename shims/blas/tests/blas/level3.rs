//! Level 3.

use margay_blas::level3::{self, Gemm, Symm, Syr2k, Syrk, Trmm, Trsm};
use margay_blas::{Complex, Diagonal, Element, Operation, Plan, Scalar, Side, Symmetry, Triangle};

use crate::exact::Exact;
use crate::matrix::Matrix;
use crate::run::{
    DIAGONALS, OPERATIONS, Random, SIDES, TRIANGLES, bits, check_gaps, nan, results, scalar,
};

fn gemm_case<T: Element>(random: &mut Random, [m, n, k]: [usize; 3]) {
    let (operation_a, operation_b) = (random.pick(&OPERATIONS), random.pick(&OPERATIONS));
    let transposes = |operation| matches!(operation, Operation::Transpose | Operation::Adjoint);
    let (rows_a, columns_a) = if transposes(operation_a) {
        (k, m)
    } else {
        (m, k)
    };
    let (rows_b, columns_b) = if transposes(operation_b) {
        (n, k)
    } else {
        (k, n)
    };
    let (a, lda) = random.matrix::<T>(rows_a, columns_a);
    let (b, ldb) = random.matrix::<T>(rows_b, columns_b);
    let (mut c, ldc) = random.matrix::<T>(m, n);
    let (alpha, beta) = (random.factor::<T>(), random.factor::<T>());
    if beta == T::ZERO {
        c.fill(nan());
    }
    let (alpha_at, beta_at) = (scalar(random, &alpha), scalar(random, &beta));
    let got = results(&c, |c| {
        let arguments = Gemm {
            operation_a,
            operation_b,
            m,
            n,
            k,
            alpha: alpha_at,
            a: a.as_ptr(),
            lda,
            b: b.as_ptr(),
            ldb,
            beta: beta_at,
            c,
            ldc,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe { level3::gemm(arguments) }
    });
    let left = Matrix::of(&a, lda, rows_a, columns_a).op(operation_a);
    let right = Matrix::of(&b, ldb, rows_b, columns_b).op(operation_b);
    let want = left.times(&right).combine(
        Exact::of(alpha),
        Exact::of(beta),
        &Matrix::of(&c, ldc, m, n),
    );
    want.check(
        &got,
        ldc,
        6.0 + k as f64 / 8.0,
        &format!(
            "{} {operation_a:?} {operation_b:?} {m} {n} {k}",
            std::any::type_name::<T>()
        ),
    );
}

#[test]
fn gemm_equals_exact_products() {
    let mut random = Random::new(1);
    for _ in 0..60 {
        let size = [random.size(), random.size(), random.size()];
        gemm_case::<f32>(&mut random, size);
        gemm_case::<f64>(&mut random, size);
        gemm_case::<Complex<f32>>(&mut random, size);
        gemm_case::<Complex<f64>>(&mut random, size);
    }
}

/// Sizes that need several blocks of k, several tasks, or sums of parts of k.
#[test]
fn gemm_equals_exact_products_in_blocks() {
    let mut random = Random::new(2);
    for size in [
        [5, 3, 3000],
        [40, 30, 1100],
        [150, 170, 40],
        [1, 1, 20_000],
        [3, 600, 9],
        [700, 2, 5],
    ] {
        gemm_case::<f32>(&mut random, size);
        gemm_case::<f64>(&mut random, size);
        gemm_case::<Complex<f32>>(&mut random, size);
        gemm_case::<Complex<f64>>(&mut random, size);
    }
}

/// A product with sums that are exact: its operands are packed once, and each task reads them.
fn large_case<T: Element>(random: &mut Random, [m, n, k]: [usize; 3]) {
    let (operation_a, operation_b) = (random.pick(&OPERATIONS), random.pick(&OPERATIONS));
    let order = |operation, rows, columns| match operation {
        Operation::Transpose | Operation::Adjoint => (columns, rows),
        Operation::None | Operation::Conjugate => (rows, columns),
    };
    let mut integers = |(rows, columns): (usize, usize)| -> Vec<T> {
        (0..rows * columns)
            .map(|_| {
                let part = |size: usize| (size % 5) as f64 - 2.0;
                T::from_wide(Complex::new(part(random.size()), part(random.size())))
            })
            .collect()
    };
    let (size_a, size_b) = (order(operation_a, m, k), order(operation_b, k, n));
    let (a, b, c) = (integers(size_a), integers(size_b), integers((m, n)));
    let got = results(&c, |c| {
        let arguments = Gemm {
            operation_a,
            operation_b,
            m,
            n,
            k,
            alpha: Scalar::Value(T::ONE),
            a: a.as_ptr(),
            lda: size_a.0,
            b: b.as_ptr(),
            ldb: size_b.0,
            beta: Scalar::Value(T::ONE),
            c,
            ldc: m,
        };
        // SAFETY: the matrices live until the plan has run.
        let plan = unsafe { level3::gemm(arguments) };
        assert_eq!(plan.stages.len(), 2, "a stage packs");
        plan
    });
    let element = |matrix: &[T], ld: usize, operation, i: usize, j: usize| match operation {
        Operation::None => matrix[i + j * ld],
        Operation::Conjugate => matrix[i + j * ld].conj_if(true),
        Operation::Transpose => matrix[j + i * ld],
        Operation::Adjoint => matrix[j + i * ld].conj_if(true),
    };
    // All elements of some columns: the first and the last ones, and others.
    for j in (0..n).step_by(17).chain(n - 3..n) {
        for i in 0..m {
            let mut want = c[i + j * m];
            for term in 0..k {
                want = want
                    + element(&a, size_a.0, operation_a, i, term)
                        * element(&b, size_b.0, operation_b, term, j);
            }
            assert!(
                got[i + j * m] == want,
                "{i} {j}: {operation_a:?} {operation_b:?}"
            );
        }
    }
}

#[test]
fn large_products_are_exact() {
    let mut random = Random::new(3);
    for size in [[331, 290, 700], [150, 1100, 163]] {
        large_case::<f32>(&mut random, size);
        large_case::<f64>(&mut random, size);
        large_case::<Complex<f32>>(&mut random, size);
        large_case::<Complex<f64>>(&mut random, size);
    }
}

fn symm_case<T: Element>(random: &mut Random, m: usize, n: usize) {
    let (side, triangle) = (random.pick(&SIDES), random.pick(&TRIANGLES));
    let symmetry = random.pick(&[Symmetry::Symmetric, Symmetry::Hermitian]);
    let order = if side == Side::Left { m } else { n };
    let (mut a, lda) = random.matrix::<T>(order, order);
    let stored = |i: usize, j: usize| {
        if triangle == Triangle::Lower {
            i >= j
        } else {
            i <= j
        }
    };
    for j in 0..order {
        for i in 0..order {
            if !stored(i, j) {
                a[i + j * lda] = nan();
            } else if i == j && symmetry == Symmetry::Hermitian {
                a[i + j * lda] = T::from_parts(a[i + j * lda].re(), nan::<T>().im());
            }
        }
    }
    let full = Matrix::from(order, order, |i, j| {
        let hermitian = symmetry == Symmetry::Hermitian;
        if i == j && hermitian {
            Exact::of(T::from_real(a[i + j * lda].re()))
        } else if stored(i, j) {
            Exact::of(a[i + j * lda])
        } else {
            Exact::of(a[j + i * lda]).conj_if(hermitian)
        }
    });
    let (b, ldb) = random.matrix::<T>(m, n);
    let (c, ldc) = random.matrix::<T>(m, n);
    let (alpha, beta) = (random.factor::<T>(), random.factor::<T>());
    let got = results(&c, |c| {
        let (alpha, beta) = (Scalar::Value(alpha), Scalar::Value(beta));
        let arguments = Symm {
            symmetry,
            side,
            triangle,
            m,
            n,
            alpha,
            a: a.as_ptr(),
            lda,
            b: b.as_ptr(),
            ldb,
            beta,
            c,
            ldc,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe { level3::symm(arguments) }
    });
    let b = Matrix::of(&b, ldb, m, n);
    let product = if side == Side::Left {
        full.times(&b)
    } else {
        b.times(&full)
    };
    let want = product.combine(
        Exact::of(alpha),
        Exact::of(beta),
        &Matrix::of(&c, ldc, m, n),
    );
    want.check(
        &got,
        ldc,
        8.0 + order as f64 / 8.0,
        &format!("{symmetry:?} {side:?} {triangle:?} {m} {n}"),
    );
}

#[test]
fn symm_and_hemm() {
    let mut random = Random::new(3);
    for _ in 0..25 {
        let (m, n) = (random.size(), random.size());
        symm_case::<f32>(&mut random, m, n);
        symm_case::<f64>(&mut random, m, n);
        symm_case::<Complex<f32>>(&mut random, m, n);
        symm_case::<Complex<f64>>(&mut random, m, n);
    }
    symm_case::<f64>(&mut random, 300, 20);
    symm_case::<Complex<f32>>(&mut random, 20, 300);
}

/// The routines that write one triangle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RankK {
    Syrk,
    Herk,
    Syr2k,
    Her2k,
    Syrkx,
    Herkx,
}

fn rank_k_case<T: Element>(random: &mut Random, routine: RankK, n: usize, k: usize) {
    let hermitian = matches!(routine, RankK::Herk | RankK::Her2k | RankK::Herkx);
    let triangle = random.pick(&TRIANGLES);
    let operation = random.pick(&[
        Operation::None,
        if hermitian {
            Operation::Adjoint
        } else {
            Operation::Transpose
        },
    ]);
    let (rows, columns) = if operation == Operation::None {
        (n, k)
    } else {
        (k, n)
    };
    let (a, lda) = random.matrix::<T>(rows, columns);
    let (b, ldb) = random.matrix::<T>(rows, columns);
    let (mut c, ldc) = random.matrix::<T>(n, n);
    let stored = |i: usize, j: usize| {
        if triangle == Triangle::Lower {
            i >= j
        } else {
            i <= j
        }
    };
    for j in 0..n {
        for i in 0..n {
            if !stored(i, j) {
                c[i + j * ldc] = nan();
            } else if i == j && hermitian {
                c[i + j * ldc] = T::from_parts(c[i + j * ldc].re(), nan::<T>().im());
            }
        }
    }
    let (alpha, beta) = (random.factor::<T>(), random.factor::<T>());
    let real_alpha = alpha.re();
    let real_beta = beta.re();
    let got = results(&c, |c| {
        let syrk = Syrk {
            triangle,
            operation,
            n,
            k,
            alpha: Scalar::Value(alpha),
            a: a.as_ptr(),
            lda,
            beta: Scalar::Value(beta),
            c,
            ldc,
        };
        let herk = Syrk {
            triangle,
            operation,
            n,
            k,
            alpha: Scalar::Value(real_alpha),
            a: a.as_ptr(),
            lda,
            beta: Scalar::Value(real_beta),
            c,
            ldc,
        };
        let syr2k = Syr2k {
            triangle,
            operation,
            n,
            k,
            alpha: Scalar::Value(alpha),
            a: a.as_ptr(),
            lda,
            b: b.as_ptr(),
            ldb,
            beta: Scalar::Value(beta),
            c,
            ldc,
        };
        let her2k = Syr2k {
            triangle,
            operation,
            n,
            k,
            alpha: Scalar::Value(alpha),
            a: a.as_ptr(),
            lda,
            b: b.as_ptr(),
            ldb,
            beta: Scalar::Value(real_beta),
            c,
            ldc,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe {
            match routine {
                RankK::Syrk => level3::syrk(syrk),
                RankK::Herk => level3::herk(herk),
                RankK::Syr2k => level3::syr2k(syr2k),
                RankK::Her2k => level3::her2k(her2k),
                RankK::Syrkx => level3::syrkx(syr2k),
                RankK::Herkx => level3::herkx(her2k),
            }
        }
    });
    let transpose = if hermitian {
        Operation::Adjoint
    } else {
        Operation::Transpose
    };
    let left = Matrix::of(&a, lda, rows, columns).op(operation);
    let right = if matches!(routine, RankK::Syrk | RankK::Herk) {
        left.clone()
    } else {
        Matrix::of(&b, ldb, rows, columns).op(operation)
    };
    let (exact_alpha, exact_beta) = match routine {
        RankK::Herk => (Exact::of(real_alpha), Exact::of(real_beta)),
        RankK::Her2k | RankK::Herkx => (Exact::of(alpha), Exact::of(real_beta)),
        _ => (Exact::of(alpha), Exact::of(beta)),
    };
    // Without a product and with a factor of 1, the result stays as it is.
    let untouched =
        exact_beta.wide() == Complex::new(1.0, 0.0) && (exact_alpha.is_zero() || k == 0);
    let old = Matrix::from(n, n, |i, j| {
        let value = c[i + j * ldc];
        Exact::of(if i == j && hermitian && !untouched {
            T::from_real(value.re())
        } else {
            value
        })
    });
    let mut want = left
        .times(&right.op(transpose))
        .combine(exact_alpha, exact_beta, &old);
    if matches!(routine, RankK::Syr2k | RankK::Her2k) {
        let second = right.times(&left.op(transpose));
        want = second.combine(exact_alpha.conj_if(hermitian), Exact::of(T::ONE), &want);
    }
    for j in 0..n {
        for i in 0..n {
            let what =
                format!("{routine:?} {triangle:?} {operation:?} {n} {k}: element ({i}, {j})");
            let value = got[i + j * ldc];
            if !stored(i, j) {
                assert!(value.wide().re.is_nan(), "{what} was written");
            } else if untouched {
                assert_eq!(bits(value), bits(c[i + j * ldc]), "{what}");
            } else if i == j && hermitian {
                want.at(i, j)
                    .real()
                    .check(value, 10.0 + k as f64 / 4.0, what);
            } else {
                want.at(i, j).check(value, 10.0 + k as f64 / 4.0, what);
            }
        }
    }
    check_gaps(&got, n, ldc);
}

#[test]
fn rank_k_updates() {
    let mut random = Random::new(4);
    for routine in [
        RankK::Syrk,
        RankK::Herk,
        RankK::Syr2k,
        RankK::Her2k,
        RankK::Syrkx,
        RankK::Herkx,
    ] {
        for _ in 0..12 {
            let (n, k) = (random.size(), random.size());
            // Hermitian routines of real types are the symmetric ones.
            if !format!("{routine:?}").starts_with('H') {
                rank_k_case::<f32>(&mut random, routine, n, k);
                rank_k_case::<f64>(&mut random, routine, n, k);
            }
            rank_k_case::<Complex<f32>>(&mut random, routine, n, k);
            rank_k_case::<Complex<f64>>(&mut random, routine, n, k);
        }
        rank_k_case::<Complex<f64>>(&mut random, routine, 200, 30);
        rank_k_case::<Complex<f32>>(&mut random, routine, 6, 2000);
    }
}

/// A triangular matrix with NaN where a routine must not read. `strong`: with a diagonal that makes solutions stable.
fn triangular<T: Element>(
    random: &mut Random,
    n: usize,
    triangle: Triangle,
    diagonal: Diagonal,
) -> (Vec<T>, usize, Matrix) {
    let (mut a, lda) = random.matrix::<T>(n, n);
    let stored = |i: usize, j: usize| match (triangle, diagonal) {
        (Triangle::Lower, Diagonal::Stored) => i >= j,
        (Triangle::Lower, Diagonal::Unit) => i > j,
        (Triangle::Upper, Diagonal::Stored) => i <= j,
        (Triangle::Upper, Diagonal::Unit) => i < j,
    };
    for j in 0..n {
        for i in 0..n {
            let place = &mut a[i + j * lda];
            if !stored(i, j) {
                *place = nan();
            } else if i == j {
                *place = *place + T::ONE + T::ONE;
            } else {
                *place = T::from_wide(Complex::new(
                    place.wide().re / n as f64,
                    place.wide().im / n as f64,
                ));
            }
        }
    }
    let full = Matrix::from(n, n, |i, j| {
        if stored(i, j) {
            Exact::of(a[i + j * lda])
        } else if i == j {
            Exact::of(T::ONE)
        } else {
            Exact::default()
        }
    });
    (a, lda, full)
}

fn triangular_case<T: Element>(random: &mut Random, m: usize, n: usize) {
    let (side, triangle, operation, diagonal) = (
        random.pick(&SIDES),
        random.pick(&TRIANGLES),
        random.pick(&OPERATIONS),
        random.pick(&DIAGONALS),
    );
    let order = if side == Side::Left { m } else { n };
    let (a, lda, full) = triangular::<T>(random, order, triangle, diagonal);
    let full = full.op(operation);
    let (b, ldb) = random.matrix::<T>(m, n);
    let alpha = random.factor::<T>();
    let exact = Matrix::of(&b, ldb, m, n);
    let zero = Matrix::from(m, n, |_, _| Exact::default());
    let what = format!(
        "{} {side:?} {triangle:?} {operation:?} {diagonal:?} {m} {n}",
        std::any::type_name::<T>()
    );
    let alpha_at = scalar(random, &alpha);
    let units = 12.0 + order as f64;

    // In place.
    let got = results(&b, |b| {
        let arguments = Trmm {
            side,
            triangle,
            operation,
            diagonal,
            m,
            n,
            alpha: alpha_at,
            a: a.as_ptr(),
            lda,
            b,
            ldb,
            c: b,
            ldc: ldb,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe { level3::trmm(arguments) }
    });
    let product = if side == Side::Left {
        full.times(&exact)
    } else {
        exact.times(&full)
    };
    let want = product.combine(Exact::of(alpha), Exact::default(), &zero);
    want.check(&got, ldb, units, &what);

    // Out of place.
    let (c, ldc) = random.matrix::<T>(m, n);
    let got = results(&c, |c| {
        let arguments = Trmm {
            side,
            triangle,
            operation,
            diagonal,
            m,
            n,
            alpha: alpha_at,
            a: a.as_ptr(),
            lda,
            b: b.as_ptr(),
            ldb,
            c,
            ldc,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe { level3::trmm(arguments) }
    });
    want.check(&got, ldc, units, &what);

    // The solution, multiplied by the matrix, is alpha B.
    let got = results(&b, |b| {
        let arguments = Trsm {
            side,
            triangle,
            operation,
            diagonal,
            m,
            n,
            alpha: alpha_at,
            a: a.as_ptr(),
            lda,
            b,
            ldb,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe { level3::trsm(arguments) }
    });
    let x = Matrix::of(&got, ldb, m, n);
    let back = if side == Side::Left {
        full.times(&x)
    } else {
        x.times(&full)
    };
    let want = exact.combine(Exact::of(alpha), Exact::default(), &zero);
    for (back, want) in back.values.iter().zip(&want.values) {
        let difference = *back - *want;
        difference.check(T::ZERO, units, &what);
    }
    check_gaps(&got, m, ldb);
}

#[test]
fn triangular_products_and_solutions() {
    let mut random = Random::new(5);
    for _ in 0..40 {
        let (m, n) = (random.size(), random.size());
        triangular_case::<f32>(&mut random, m, n);
        triangular_case::<f64>(&mut random, m, n);
        triangular_case::<Complex<f32>>(&mut random, m, n);
        triangular_case::<Complex<f64>>(&mut random, m, n);
    }
    triangular_case::<f64>(&mut random, 150, 140);
    triangular_case::<Complex<f32>>(&mut random, 110, 120);
}

/// NaN in a factor reaches the result; NaN in the operands does not if their factor is 0.
#[test]
fn nan_follows_the_rules_of_factors() {
    let nans = vec![f64::NAN; 4];
    let ones = vec![1.0; 4];
    let run = |a: &[f64], alpha: f64, beta: f64, k: usize, c: &[f64]| {
        results(c, |c| {
            let arguments = Gemm {
                operation_a: Operation::None,
                operation_b: Operation::None,
                m: 2,
                n: 2,
                k,
                alpha: Scalar::Value(alpha),
                a: a.as_ptr(),
                lda: 2,
                b: ones.as_ptr(),
                ldb: 2,
                beta: Scalar::Value(beta),
                c,
                ldc: 2,
            };
            // SAFETY: the matrices live until the plan has run.
            unsafe { level3::gemm(arguments) }
        })
    };
    assert_eq!(run(&nans, 0.0, 3.0, 2, &ones), [3.0; 4]);
    assert_eq!(run(&nans, 1.0, 3.0, 0, &ones), [3.0; 4]);
    assert_eq!(run(&nans, f64::NAN, 3.0, 0, &ones), [3.0; 4]);
    assert_eq!(run(&ones, 2.0, 0.0, 2, &nans), [4.0; 4]);
    assert_eq!(run(&ones, 0.0, 0.0, 2, &nans), [0.0; 4]);
    assert!(
        run(&ones, f64::NAN, 0.0, 2, &ones)
            .iter()
            .all(|value| value.is_nan())
    );
    assert!(
        run(&ones, 1.0, f64::NAN, 2, &ones)
            .iter()
            .all(|value| value.is_nan())
    );
    assert!(
        run(&ones, 0.0, 1.0, 2, &nans)
            .iter()
            .all(|value| value.is_nan())
    );
    // The sign of zero survives a scaling.
    assert!(
        run(&ones, 0.0, 2.0, 2, &[-0.0; 4])
            .iter()
            .all(|value| value.is_sign_negative())
    );
}

/// A unit triangle multiplies no zeros: an infinity beside the triangle stays out of other rows.
#[test]
fn triangles_multiply_no_zeros() {
    let a = [2.0, 3.0, f64::NAN, 5.0];
    let b = [1.0, f64::INFINITY];
    let got = results(&b, |b| {
        let arguments = Trmm {
            side: Side::Left,
            triangle: Triangle::Lower,
            operation: Operation::None,
            diagonal: Diagonal::Stored,
            m: 2,
            n: 1,
            alpha: Scalar::Value(1.0),
            a: a.as_ptr(),
            lda: 2,
            b,
            ldb: 2,
            c: b,
            ldc: 2,
        };
        // SAFETY: the matrices live until the plan has run.
        let plan: Plan = unsafe { level3::trmm(arguments) };
        plan
    });
    assert_eq!(got, [2.0, f64::INFINITY]);
}
