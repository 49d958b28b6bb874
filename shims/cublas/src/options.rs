//! The options of BLAS functions: numbers of NVIDIA's enumerations become those of `margay-blas`.

use margay_blas::{Diagonal, Operation, Side, Triangle};

use crate::status::{Failure, Status};

fn option<T>(found: Option<T>, parameter: u32) -> Result<T, Failure> {
    found.ok_or(Failure {
        status: Status::INVALID_VALUE,
        parameter,
    })
}

/// Returns the operation of a `cublasOperation_t`. `CUBLAS_OP_CONJG` is no operation of these functions.
pub(crate) fn operation(value: i32, parameter: u32) -> Result<Operation, Failure> {
    let found = match value {
        0 => Some(Operation::None),
        1 => Some(Operation::Transpose),
        2 => Some(Operation::Adjoint),
        _ => None,
    };
    option(found, parameter)
}

/// Returns the triangle of a `cublasFillMode_t`.
pub(crate) fn triangle(value: i32, parameter: u32) -> Result<Triangle, Failure> {
    let found = match value {
        0 => Some(Triangle::Lower),
        1 => Some(Triangle::Upper),
        _ => None,
    };
    option(found, parameter)
}

/// Returns the side of a `cublasSideMode_t`.
pub(crate) fn side(value: i32, parameter: u32) -> Result<Side, Failure> {
    let found = match value {
        0 => Some(Side::Left),
        1 => Some(Side::Right),
        _ => None,
    };
    option(found, parameter)
}

/// Returns the kind of diagonal of a `cublasDiagType_t`.
pub(crate) fn diagonal(value: i32, parameter: u32) -> Result<Diagonal, Failure> {
    let found = match value {
        0 => Some(Diagonal::Stored),
        1 => Some(Diagonal::Unit),
        _ => None,
    };
    option(found, parameter)
}
