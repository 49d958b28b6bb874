//! Matrices of exact numbers.

use margay_blas::{Element, Operation};

use crate::exact::Exact;
use crate::run::check_gaps;

/// A matrix of exact numbers.
#[derive(Clone)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<Exact>,
}

impl Matrix {
    pub(crate) fn from(rows: usize, columns: usize, at: impl Fn(usize, usize) -> Exact) -> Matrix {
        let values = (0..rows * columns)
            .map(|index| at(index % rows, index / rows))
            .collect();
        Matrix {
            rows,
            columns,
            values,
        }
    }

    pub(crate) fn of<T: Element>(values: &[T], ld: usize, rows: usize, columns: usize) -> Matrix {
        Matrix::from(rows, columns, |i, j| Exact::of(values[i + j * ld]))
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> Exact {
        self.values[i + j * self.rows]
    }

    pub(crate) fn op(&self, operation: Operation) -> Matrix {
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

    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        Matrix::from(self.rows, other.columns, |i, j| {
            (0..self.columns)
                .map(|k| self.at(i, k) * other.at(k, j))
                .sum()
        })
    }

    /// `alpha self + beta c`, where 0 as a factor hides NaN.
    pub(crate) fn combine(&self, alpha: Exact, beta: Exact, c: &Matrix) -> Matrix {
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
    pub(crate) fn check<T: Element>(&self, got: &[T], ld: usize, units: f64, what: &str) {
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
