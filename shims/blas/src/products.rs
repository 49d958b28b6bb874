//! Matrix products of mixed types (`cublasGemmEx` and its like), single, batched and grouped.

use std::ffi::c_void;

use crate::{AnyScalar, DataType, Operation, Plan, Pointers, Triangle};

/// The type in which a product is computed: `cublasComputeType_t` without the variants that only allow less precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// Half precision. The sum is in `f32` and is rounded once. Scalars are R16F.
    F16,
    /// `f32`, also for the `FAST` variants. Scalars are R32F or C32F.
    F32,
    /// `f64`. Scalars are R64F or C64F.
    F64,
    /// `i32`, which wraps. Scalars are R32I, or R32F for a result in R8I.
    I32,
}

/// The types of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    /// The type of `A`.
    pub a: DataType,
    /// The type of `B`.
    pub b: DataType,
    /// The type of `C`.
    pub c: DataType,
    /// The type in which the product is computed.
    pub compute: Compute,
    /// The type of `alpha` and `beta`.
    pub scale: DataType,
}

/// Whether cuBLAS documents this combination for `cublasGemmEx`. The routines of this module compute all of these.
pub fn supports(types: Types) -> bool {
    unimplemented!()
}

/// Whether the routines of this module can compute the combination. Includes all that [`supports`], and all of cuBLASLt.
pub fn computes(types: Types) -> bool {
    unimplemented!()
}

/// A matrix of a batch, or one matrix.
#[derive(Clone, Copy, Debug)]
pub struct AnyMatrix {
    /// Where the matrices are; strides count elements of `kind`.
    pub data: Pointers<c_void>,
    /// The type of the elements.
    pub kind: DataType,
    /// Leading dimension.
    pub ld: usize,
}

/// `C = alpha op(A) op(B) + beta C` for each item of a batch.
#[derive(Clone, Copy, Debug)]
pub struct GemmEx {
    /// The operation on `A`.
    pub operation_a: Operation,
    /// The operation on `B`.
    pub operation_b: Operation,
    /// Rows of `C`.
    pub m: usize,
    /// Columns of `C`.
    pub n: usize,
    /// Columns of `op(A)`.
    pub k: usize,
    /// Factor of the product.
    pub alpha: AnyScalar,
    /// The left matrices.
    pub a: AnyMatrix,
    /// The right matrices.
    pub b: AnyMatrix,
    /// Factor of the old result.
    pub beta: AnyScalar,
    /// The results.
    pub c: AnyMatrix,
    /// Number of items.
    pub batch: usize,
    /// The type in which the product is computed.
    pub compute: Compute,
}

/// `None` if the types are not among those that [`computes`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm_ex(arguments: GemmEx) -> Option<Plan> {
    unimplemented!()
}

/// One plan for several products (`cublasGemmGroupedBatchedEx`): all tasks of all groups are in the same stages.
/// `None` if a group's types are not among those that [`computes`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm_grouped_ex(groups: &[GemmEx]) -> Option<Plan> {
    unimplemented!()
}

/// `cublasCsyrkEx`, `cublasCherkEx` and their `3m` forms: `C` in C32F, `A` in C32F or C8I.
#[derive(Clone, Copy, Debug)]
pub struct SyrkEx {
    /// The triangle of `C`.
    pub triangle: Triangle,
    /// The operation on `A`.
    pub operation: Operation,
    /// Rows and columns of `C`.
    pub n: usize,
    /// Columns of `op(A)`.
    pub k: usize,
    /// Factor of the product; real for `herk_ex`.
    pub alpha: AnyScalar,
    /// The matrix.
    pub a: *const c_void,
    /// Its type.
    pub a_type: DataType,
    /// Its leading dimension.
    pub lda: usize,
    /// Factor of the old result; real for `herk_ex`.
    pub beta: AnyScalar,
    /// The result.
    pub c: *mut c_void,
    /// Its type.
    pub c_type: DataType,
    /// Its leading dimension.
    pub ldc: usize,
}

/// `None` for other types than the documented ones.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn syrk_ex(arguments: SyrkEx) -> Option<Plan> {
    unimplemented!()
}

/// `None` for other types than the documented ones.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn herk_ex(arguments: SyrkEx) -> Option<Plan> {
    unimplemented!()
}

/// `cublasUint8gemmBias`: `C = ((op(A) + a_bias) (op(B) + b_bias) + c_bias) * c_multiplier >> c_shift`, clamped to 0..=255.
#[derive(Clone, Copy, Debug)]
pub struct Uint8GemmBias {
    /// The operations on `A` and `B`; on `C` too (`transc`).
    pub operations: [Operation; 3],
    /// Rows, columns, columns of `op(A)`.
    pub size: [usize; 3],
    /// `A`, its bias and leading dimension.
    pub a: (*const u8, i32, usize),
    /// `B`, its bias and leading dimension.
    pub b: (*const u8, i32, usize),
    /// `C`, its bias and leading dimension.
    pub c: (*mut u8, i32, usize),
    /// Factor of the result.
    pub c_multiplier: i32,
    /// Right shift of the result.
    pub c_shift: i32,
}

/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn uint8_gemm_bias(arguments: Uint8GemmBias) -> Plan {
    unimplemented!()
}
