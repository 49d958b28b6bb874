//! Level 1 for vectors of mixed types (`cublasDotEx` and its like).
//!
//! Each routine has a function that says whether it supports a combination of types: those that cuBLAS documents. A routine that is called with
//! another combination returns `None`.

use std::ffi::c_void;

use crate::level1::IndexAt;
use crate::{AnyScalar, Conjugation, DataType, Plan};

/// A vector whose type is a value.
#[derive(Clone, Copy, Debug)]
pub struct AnyVector {
    /// The vector.
    pub data: *mut c_void,
    /// The type of its elements.
    pub kind: DataType,
    /// Increment.
    pub increment: i64,
}

/// A result or a parameter whose type is a value.
#[derive(Clone, Copy, Debug)]
pub struct AnyPlace {
    /// The address.
    pub data: *mut c_void,
    /// The type.
    pub kind: DataType,
}

/// `cublasNrm2Ex`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn nrm2(n: usize, x: AnyVector, result: AnyPlace, execution: DataType) -> Option<Plan> {
    unimplemented!()
}

/// `cublasAsumEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn asum(n: usize, x: AnyVector, result: AnyPlace, execution: DataType) -> Option<Plan> {
    unimplemented!()
}

/// `cublasDotEx` and `cublasDotcEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn dot(
    n: usize,
    x: AnyVector,
    y: AnyVector,
    conjugation: Conjugation,
    result: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}

/// `cublasAxpyEx`. `alpha_type` is checked; the value is in `alpha`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn axpy(
    n: usize,
    alpha: AnyScalar,
    alpha_type: DataType,
    x: AnyVector,
    y: AnyVector,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}

/// `cublasScalEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn scal(
    n: usize,
    alpha: AnyScalar,
    alpha_type: DataType,
    x: AnyVector,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}

/// `cublasCopyEx`: both vectors have the same type.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn copy(n: usize, x: AnyVector, y: AnyVector) -> Option<Plan> {
    unimplemented!()
}

/// `cublasSwapEx`: both vectors have the same type.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn swap(n: usize, x: AnyVector, y: AnyVector) -> Option<Plan> {
    unimplemented!()
}

/// `cublasIamaxEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamax(n: usize, x: AnyVector, result: IndexAt) -> Option<Plan> {
    unimplemented!()
}

/// `cublasIaminEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn iamin(n: usize, x: AnyVector, result: IndexAt) -> Option<Plan> {
    unimplemented!()
}

/// `cublasRotEx`: `cs_type` is the type of `c` and `s`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rot(
    n: usize,
    x: AnyVector,
    y: AnyVector,
    c: AnyScalar,
    s: AnyScalar,
    cs_type: DataType,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}

/// `cublasRotgEx`: `a` and `b` have one type, `c` and `s` another.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotg(
    a: AnyPlace,
    b: AnyPlace,
    c: AnyPlace,
    s: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}

/// `cublasRotmEx`.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotm(
    n: usize,
    x: AnyVector,
    y: AnyVector,
    param: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}

/// `cublasRotmgEx`: the five operands in the order of cuBLAS.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn rotmg(
    d1: AnyPlace,
    d2: AnyPlace,
    x1: AnyPlace,
    y1: AnyPlace,
    param: AnyPlace,
    execution: DataType,
) -> Option<Plan> {
    unimplemented!()
}
