//! Level 3.

use margay_blas::level3::{self, Gemm, Symm, Syr2k, Syrk, Trmm, Trsm};
use margay_blas::{Complex, Diagonal, Element, Operation, Plan, Scalar, Side, Symmetry, Triangle};

use crate::exact::Exact;
use crate::run::{Random, check_gaps, nan, results};

const OPERATIONS: [Operation; 4] = [
    Operation::None,
    Operation::Transpose,
    Operation::Adjoint,
    Operation::Conjugate,
];
const TRIANGLES: [Triangle; 2] = [Triangle::Lower, Triangle::Upper];
const SIDES: [Side; 2] = [Side::Left, Side::Right];
const DIAGONALS: [Diagonal; 2] = [Diagonal::Stored, Diagonal::Unit];

/// A matrix of exact numbers.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<Exact>,
}

impl Matrix {
    fn from(rows: usize, columns: usize, at: impl Fn(usize, usize) -> Exact) -> Matrix {
        let values = (0..rows * columns)
            .map(|index| at(index % rows, index / rows))
            .collect();
        Matrix {
            rows,
            columns,
            values,
        }
    }

    fn of<T: Element>(values: &[T], ld: usize, rows: usize, columns: usize) -> Matrix {
        Matrix::from(rows, columns, |i, j| Exact::of(values[i + j * ld]))
    }

    fn at(&self, i: usize, j: usize) -> Exact {
        self.values[i + j * self.rows]
    }

    fn op(&self, operation: Operation) -> Matrix {
        let (transposes, conjugates) = match operation {
            Operation::None => (false, false),
            Operation::Transpose => (true, false),
            Operation::Adjoint => (true, true),
            Operation::Conjugate => (false, true),
        };
        let (rows, columns) = if transposes {
            (self.columns, self.rows)
        } else {
            (self.rows, self.columns)
        };
        Matrix::from(rows, columns, |i, j| {
            if transposes {
                self.at(j, i)
            } else {
                self.at(i, j)
            }
            .conj_if(conjugates)
        })
    }

    fn times(&self, other: &Matrix) -> Matrix {
        Matrix::from(self.rows, other.columns, |i, j| {
            (0..self.columns)
                .map(|k| self.at(i, k) * other.at(k, j))
                .sum()
        })
    }

    /// `alpha self + beta c`, where 0 as a factor hides NaN.
    fn combine(&self, alpha: Exact, beta: Exact, c: &Matrix) -> Matrix {
        let term = |factor: Exact, value: Exact| {
            if factor.is_zero() {
                Exact::default()
            } else {
                factor * value
            }
        };
        Matrix::from(self.rows, self.columns, |i, j| {
            term(alpha, self.at(i, j)) + term(beta, c.at(i, j))
        })
    }

    #[track_caller]
    fn check<T: Element>(&self, got: &[T], ld: usize, units: f64, what: &str) {
        for j in 0..self.columns {
            for i in 0..self.rows {
                self.at(i, j).check(
                    got[i + j * ld],
                    units,
                    format_args!("{what}: element ({i}, {j})"),
                );
            }
        }
        check_gaps(got, self.rows, ld);
    }
}

/// A scalar, by value or by address.
fn scalar<T>(random: &mut Random, value: &T) -> Scalar<T>
where
    T: Copy,
{
    if random.below(2) == 0 {
        Scalar::Value(*value)
    } else {
        Scalar::At(value)
    }
}

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
