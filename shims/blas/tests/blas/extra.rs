//! Sums and transposes, diagonal products, packed triangles, batches.

use margay_blas::batched::{self, GemmBatched, GemvBatched, TrsmBatched};
use margay_blas::extra::{self, Dgmm, Geam};
use margay_blas::products::AnyMatrix;
use margay_blas::{
    AnyScalar, Complex, DataType, Diagonal, Element, Operation, Pointers, Scalar, Side, Triangle,
};

use half::{bf16, f16};

use crate::exact::Exact;
use crate::matrix::Matrix;
use crate::run::{OPERATIONS, Random, TRIANGLES, bits, check_gaps, nan, results};

fn geam_case<T: Element>(random: &mut Random, m: usize, n: usize) {
    let (operation_a, operation_b) = (random.pick(&OPERATIONS), random.pick(&OPERATIONS));
    let shape = |operation| {
        if matches!(operation, Operation::Transpose | Operation::Adjoint) {
            (n, m)
        } else {
            (m, n)
        }
    };
    let ((rows_a, columns_a), (rows_b, columns_b)) = (shape(operation_a), shape(operation_b));
    let (a, lda) = random.matrix::<T>(rows_a, columns_a);
    let (b, ldb) = random.matrix::<T>(rows_b, columns_b);
    let (c, ldc) = random.matrix::<T>(m, n);
    let (alpha, beta) = (random.factor::<T>(), random.factor::<T>());
    let got = results(&c, |c| {
        let (alpha, a, beta, b) = (
            Scalar::At(&alpha),
            a.as_ptr(),
            Scalar::Value(beta),
            b.as_ptr(),
        );
        // SAFETY: the matrices live until the plan has run.
        unsafe {
            extra::geam(Geam {
                operation_a,
                operation_b,
                m,
                n,
                alpha,
                a,
                lda,
                beta,
                b,
                ldb,
                c,
                ldc,
            })
        }
    });
    let left = Matrix::of(&a, lda, rows_a, columns_a).op(operation_a);
    let want = left.combine(
        Exact::of(alpha),
        Exact::of(beta),
        &Matrix::of(&b, ldb, rows_b, columns_b).op(operation_b),
    );
    want.check(
        &got,
        ldc,
        4.0,
        &format!("{operation_a:?} {operation_b:?} {m} {n}"),
    );

    let side = random.pick(&[Side::Left, Side::Right]);
    let increment: i64 = random.pick(&[1, 2, -1, -3]);
    let step = increment.unsigned_abs() as usize;
    let length = if side == Side::Left { m } else { n };
    let x: Vec<T> = random.values(length * step);
    let (a, lda) = random.matrix::<T>(m, n);
    let got = results(&a, |a| {
        // SAFETY: as above. In place.
        unsafe {
            extra::dgmm(Dgmm {
                side,
                m,
                n,
                a,
                lda,
                x: x.as_ptr(),
                incx: increment,
                c: a,
                ldc: lda,
            })
        }
    });
    let factor = |index: usize| {
        Exact::of(
            x[if increment < 0 {
                (length - 1 - index) * step
            } else {
                index * step
            }],
        )
    };
    let want = Matrix::from(m, n, |i, j| {
        Exact::of(a[i + j * lda]) * factor(if side == Side::Left { i } else { j })
    });
    want.check(
        &got,
        lda,
        2.0,
        &format!("dgmm {side:?} {increment} {m} {n}"),
    );
}

#[test]
fn geam_and_dgmm() {
    let mut random = Random::new(40);
    for _ in 0..25 {
        let (m, n) = (random.size(), random.size());
        geam_case::<f32>(&mut random, m, n);
        geam_case::<f64>(&mut random, m, n);
        geam_case::<Complex<f32>>(&mut random, m, n);
        geam_case::<Complex<f64>>(&mut random, m, n);
    }
    geam_case::<f64>(&mut random, 200, 150);
}

#[test]
fn geam_does_not_read_what_has_no_factor() {
    let (a, b) = ([f64::NAN; 4], [1.0, 2.0, 3.0, 4.0]);
    let run = |alpha: f64, a: &[f64], beta: f64, b: &[f64]| {
        results(&[0.0; 4], |c| {
            let geam = Geam {
                operation_a: Operation::None,
                operation_b: Operation::Transpose,
                m: 2,
                n: 2,
                alpha: Scalar::Value(alpha),
                a: a.as_ptr(),
                lda: 2,
                beta: Scalar::Value(beta),
                b: b.as_ptr(),
                ldb: 2,
                c,
                ldc: 2,
            };
            // SAFETY: the matrices live until the plan has run.
            unsafe { extra::geam(geam) }
        })
    };
    assert_eq!(run(0.0, &a, 2.0, &b), [2.0, 6.0, 4.0, 8.0]);
    assert_eq!(run(3.0, &b, 0.0, &a), [3.0, 6.0, 9.0, 12.0]);
    assert_eq!(run(0.0, &a, 0.0, &a), [0.0; 4]);
}

#[test]
fn triangles_are_packed_and_unpacked() {
    let mut random = Random::new(41);
    for n in [0, 1, 2, 5, 33] {
        for triangle in TRIANGLES {
            let packed: Vec<f64> = random.values(n * (n + 1) / 2);
            let ld = n + 2;
            let empty = vec![nan::<f64>(); ld * n];
            // SAFETY: the matrices live until the plan has run.
            let full = results(&empty, |a| unsafe {
                extra::tpttr(triangle, n, packed.as_ptr(), a, ld)
            });
            let mut next = packed.iter();
            for j in 0..n {
                for i in 0..n {
                    let stored = if triangle == Triangle::Lower {
                        i >= j
                    } else {
                        i <= j
                    };
                    let want = if stored {
                        *next.next().unwrap()
                    } else {
                        f64::NAN
                    };
                    assert_eq!(bits(full[i + j * ld]), bits(want));
                }
            }
            check_gaps(&full, n, ld);
            // SAFETY: as above.
            let again = results(&vec![0.0; packed.len()], |to| unsafe {
                extra::trttp(triangle, n, full.as_ptr(), ld, to)
            });
            assert_eq!(again, packed);
        }
    }
}

#[test]
fn batches_of_products() {
    let mut random = Random::new(42);
    for (m, n, k, batch) in [
        (3, 4, 5, 7),
        (1, 1, 1, 1000),
        (20, 17, 33, 3),
        (2, 2, 0, 2),
        (4, 4, 4, 0),
    ] {
        let a: Vec<f64> = random.values(m * k * batch);
        let b: Vec<f64> = random.values(k * n);
        let c: Vec<f64> = random.values(m * n * batch);
        let group = |c: *mut f64, a_pointers: Pointers<f64>| GemmBatched {
            operation_a: Operation::None,
            operation_b: Operation::Transpose,
            m,
            n,
            k,
            alpha: Scalar::Value(2.0),
            a: a_pointers,
            lda: m,
            // All items share B.
            b: Pointers::Strided {
                base: b.as_ptr().cast_mut(),
                stride: 0,
            },
            ldb: n,
            beta: Scalar::Value(-1.0),
            c: Pointers::Strided {
                base: c,
                stride: (m * n) as i64,
            },
            ldc: m,
            batch,
        };
        let strided = Pointers::Strided {
            base: a.as_ptr().cast_mut(),
            stride: (m * k) as i64,
        };
        // SAFETY: the matrices live until the plan has run.
        let got = results(&c, |c| unsafe { batched::gemm(group(c, strided)) });
        let array: Vec<*mut f64> = (0..batch)
            .map(|item| a.as_ptr().wrapping_add(item * m * k).cast_mut())
            .collect();
        // SAFETY: as above.
        let from_array = results(&c, |c| unsafe {
            batched::gemm(group(c, Pointers::Array(array.as_ptr())))
        });
        assert_eq!(got, from_array);
        for item in 0..batch {
            let left = Matrix::of(&a[item * m * k..], m, m, k);
            let right = Matrix::of(&b, n, n, k).op(Operation::Transpose);
            let old = Matrix::of(&c[item * m * n..], m, m, n);
            let want = left
                .times(&right)
                .combine(Exact::of(2.0), Exact::of(-1.0), &old);
            want.check(
                &got[item * m * n..(item + 1) * m * n],
                m,
                8.0,
                &format!("item {item}"),
            );
        }
        // The same items as two groups.
        let half = batch / 2;
        let grouped = results(&c, |c| {
            let first = GemmBatched {
                batch: half,
                ..group(c, strided)
            };
            let rest = Pointers::Strided {
                base: a.as_ptr().wrapping_add(half * m * k).cast_mut(),
                stride: (m * k) as i64,
            };
            let second = GemmBatched {
                batch: batch - half,
                ..group(c.wrapping_add(half * m * n), rest)
            };
            // SAFETY: as above.
            unsafe { batched::gemm_grouped(&[first, second]) }
        });
        assert_eq!(got, grouped);
    }
}

#[test]
fn batches_of_solutions() {
    // Items of different sizes of B: [2, 0; 1, 4] X = B.
    let a = [[2.0, 1.0, f64::NAN, 4.0]; 3];
    let b = [[2.0, 9.0], [4.0, 10.0], [-2.0, 3.0]];
    let flat: Vec<f64> = b.concat();
    let got = results(&flat, |b| {
        let arguments = TrsmBatched {
            side: Side::Left,
            triangle: Triangle::Lower,
            operation: Operation::None,
            diagonal: Diagonal::Stored,
            m: 2,
            n: 1,
            alpha: Scalar::Value(1.0),
            a: Pointers::Strided {
                base: a.as_ptr().cast_mut().cast(),
                stride: 4,
            },
            lda: 2,
            b: Pointers::Strided { base: b, stride: 2 },
            ldb: 2,
            batch: 3,
        };
        // SAFETY: the matrices live until the plan has run.
        unsafe { batched::trsm(arguments) }
    });
    assert_eq!(got, [1.0, 2.0, 2.0, 2.0, -1.0, 1.0]);
}

fn any<T>(values: *const T, kind: DataType, ld: usize, stride: usize) -> AnyMatrix {
    AnyMatrix {
        data: Pointers::Strided {
            base: values.cast_mut().cast(),
            stride: stride as i64,
        },
        kind,
        ld,
    }
}

#[test]
fn batches_of_matrix_vector_products_in_half_precision() {
    use DataType::{C32F, R16BF, R16F, R32F};
    let a: Vec<f16> = (1..=12).map(|value| f16::from_f32(value as f32)).collect();
    let x: Vec<f16> = [1.0, 0.5, -1.0, 2.0].map(f16::from_f32).to_vec();
    let mut y = [f32::NAN; 6];
    let mut arguments = GemvBatched {
        operation: Operation::None,
        m: 3,
        n: 2,
        alpha: AnyScalar::Value(Complex::new(2.0, 0.0)),
        a: any(a.as_ptr(), R16F, 3, 6),
        x: any(x.as_ptr(), R16F, 0, 2),
        incx: 1,
        beta: AnyScalar::Value(Complex::new(0.0, 0.0)),
        y: any(y.as_mut_ptr(), R32F, 0, 3),
        incy: 1,
        batch: 2,
    };
    // SAFETY: the operands live until the plans have run.
    unsafe {
        batched::gemv(arguments).unwrap().run();
        assert_eq!(y, [6.0, 9.0, 12.0, 26.0, 28.0, 30.0]);
        let mut half = [f16::ONE; 6];
        (arguments.y, arguments.beta) = (
            any(half.as_mut_ptr(), R16F, 0, 3),
            AnyScalar::Value(Complex::new(1.0, 0.0)),
        );
        batched::gemv(arguments).unwrap().run();
        assert_eq!(half.map(f16::to_f32), [7.0, 10.0, 13.0, 27.0, 29.0, 31.0]);
        let (a, x, mut y) = (
            a.iter()
                .map(|value| bf16::from_f32(value.to_f32()))
                .collect::<Vec<_>>(),
            [bf16::ONE; 6],
            [bf16::NAN; 4],
        );
        let arguments = GemvBatched {
            operation: Operation::Transpose,
            a: any(a.as_ptr(), R16BF, 3, 6),
            x: any(x.as_ptr(), R16BF, 0, 3),
            y: any(y.as_mut_ptr(), R16BF, 0, 2),
            beta: AnyScalar::Value(Complex::new(0.0, 0.0)),
            ..arguments
        };
        batched::gemv(arguments).unwrap().run();
        assert_eq!(y.map(bf16::to_f32), [12.0, 30.0, 48.0, 66.0]);
        assert!(
            batched::gemv(GemvBatched {
                y: any(y.as_mut_ptr(), C32F, 0, 2),
                ..arguments
            })
            .is_none()
        );
    }
}
