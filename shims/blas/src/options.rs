//! The options of BLAS routines: which operation, side, triangle and storage form.

/// How a routine uses a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// As it is (`N`).
    None,
    /// Transposed (`T`).
    Transpose,
    /// Transposed and conjugated (`C`).
    Adjoint,
    /// Conjugated, not transposed (`CUBLAS_OP_CONJG`).
    Conjugate,
}

impl Operation {
    /// Whether the operation transposes.
    pub(crate) fn transposes(self) -> bool {
        matches!(self, Operation::Transpose | Operation::Adjoint)
    }

    /// Whether the operation conjugates.
    pub(crate) fn conjugates(self) -> bool {
        matches!(self, Operation::Adjoint | Operation::Conjugate)
    }
}

/// Whether a routine conjugates an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conjugation {
    /// The operand as it is (`u`).
    Plain,
    /// The conjugated operand (`c`).
    Conjugate,
}

/// The side of the product on which the special matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `op(A) B`.
    Left,
    /// `B op(A)`.
    Right,
}

/// The triangle of a matrix that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// Elements whose row is at least their column.
    Lower,
    /// Elements whose row is at most their column.
    Upper,
}

/// Whether the diagonal of a triangular matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagonal {
    /// It is stored.
    Stored,
    /// It is 1 and is not read.
    Unit,
}

/// Whether a matrix equals its transpose or its adjoint. For real types, both mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// Equal to its transpose.
    Symmetric,
    /// Equal to its adjoint. Imaginary parts of the diagonal are not read, and are written as 0.
    Hermitian,
}

/// How a triangle of an n by n matrix is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In a matrix with leading dimension `ld` (`sy`, `he`, `tr`).
    Full {
        /// Leading dimension.
        ld: usize,
    },
    /// As a band with `k` diagonals besides the main one (`sb`, `hb`, `tb`).
    Band {
        /// Number of superdiagonals or subdiagonals.
        k: usize,
        /// Leading dimension, at least `k + 1`.
        ld: usize,
    },
    /// Column by column without gaps (`sp`, `hp`, `tp`).
    Packed,
}
