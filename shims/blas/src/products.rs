//! Matrix products of mixed types (`cublasGemmEx` and its like), single, batched and grouped.

use std::ffi::c_void;

use crate::core::Grid;
use crate::kernels::Accumulate;
use crate::operands::{Batch, IntegerResults, Matrices, Operand, Outcome, Results};
use crate::storage::{with_complex, with_narrow};
use crate::{
    AnyScalar, Complex, DataType, Element, Operation, Plan, Pointers, Stage, Symmetry, Triangle,
};

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
    use DataType::*;
    let Types {
        a,
        b,
        c,
        compute,
        scale,
    } = types;
    match (compute, scale) {
        (Compute::F16, R16F) => [a, b, c] == [R16F; 3],
        (Compute::I32, R32I) => [a, b, c] == [R8I, R8I, R32I],
        (Compute::F32, R32F) => {
            a == b
                && matches!(
                    (a, c),
                    (R16BF, R16BF | R32F) | (R16F, R16F | R32F) | (R8I, R32F) | (R32F, R32F)
                )
        }
        (Compute::F32, C32F) => a == b && matches!((a, c), (C8I | C32F, C32F)),
        (Compute::F64, R64F | C64F) => [a, b, c] == [scale; 3],
        _ => false,
    }
}

/// Whether [`gemm_ex`] or a product of cuBLASLt computes the combination. Includes all that [`supports`].
pub fn computes(types: Types) -> bool {
    Sum::of(types).is_some()
}

/// The types in which products are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// Complex `f32`.
    C32,
    /// Complex `f64`.
    C64,
    /// `i32`, scaled in `i32`.
    I32,
    /// `i32`, scaled in `f32` and rounded to `i8`.
    I32To8,
}

impl Sum {
    /// The type for this combination, if there is one.
    pub(crate) fn of(types: Types) -> Option<Sum> {
        use DataType::*;
        let Types {
            a,
            b,
            c,
            compute,
            scale,
        } = types;
        let narrow = |kind| matches!(kind, R32F | R16F | R16BF | E4M3 | E5M2 | E2M1 | R8I);
        let complex = |kind| matches!(kind, C32F | C16F | C16BF | C8I);
        match (compute, scale) {
            (Compute::F16 | Compute::F32, R32F | R16F)
                if narrow(a) && narrow(b) && narrow(c) && c != R8I =>
            {
                Some(Sum::F32)
            }
            (Compute::F16 | Compute::F32, C32F | C16F)
                if complex(a) && complex(b) && complex(c) && c != C8I =>
            {
                Some(Sum::C32)
            }
            (Compute::F64, R64F) if [a, b, c] == [R64F; 3] => Some(Sum::F64),
            (Compute::F64, C64F) if [a, b, c] == [C64F; 3] => Some(Sum::C64),
            (Compute::I32, R32I) if [a, b, c] == [R8I, R8I, R32I] => Some(Sum::I32),
            (Compute::I32, R32F) if [a, b, c] == [R8I; 3] => Some(Sum::I32To8),
            _ => None,
        }
    }
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
    /// The type of `alpha` and `beta`.
    pub scale: DataType,
}

fn gemm_stages(arguments: GemmEx) -> Option<Vec<Stage>> {
    let GemmEx {
        a,
        b,
        c,
        compute,
        scale,
        ..
    } = arguments;
    match Sum::of(Types {
        a: a.kind,
        b: b.kind,
        c: c.kind,
        compute,
        scale,
    })? {
        Sum::F32 => stages_of(&arguments, narrow_operand, narrow_outcome),
        Sum::C32 => stages_of(&arguments, complex_operand, complex_outcome),
        Sum::F64 => stages_of::<f64>(&arguments, same_operand, same_outcome),
        Sum::C64 => stages_of::<Complex<f64>>(&arguments, same_operand, same_outcome),
        Sum::I32 | Sum::I32To8 => stages_of(&arguments, integer_operand, integer_outcome),
    }
}

/// Makes an operand of a type that is known when the program runs.
type MakeOperand<T> = fn(DataType, Matrices<c_void>) -> Option<Box<dyn Operand<T>>>;

/// Makes a result of a type that is known when the program runs.
type MakeOutcome<T> = fn(AnyMatrix, AnyScalar, AnyScalar) -> Option<Box<dyn Outcome<T>>>;

fn stages_of<T: Accumulate>(
    arguments: &GemmEx,
    operand: MakeOperand<T>,
    outcome: MakeOutcome<T>,
) -> Option<Vec<Stage>> {
    let GemmEx {
        operation_a,
        operation_b,
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        c,
        batch,
        ..
    } = *arguments;
    let items = Batch::<T> {
        a: operand(a.kind, Matrices::left(a.data, a.ld, operation_a))?,
        b: operand(b.kind, Matrices::right(b.data, b.ld, operation_b))?,
        c: outcome(c, alpha, beta)?,
        empty: k == 0,
    };
    Some(Grid::new::<T>(m, n, k, batch).stages(items))
}

/// An operand of real numbers that are summed in `f32`.
pub(crate) fn narrow_operand(
    kind: DataType,
    matrices: Matrices<c_void>,
) -> Option<Box<dyn Operand<f32>>> {
    with_narrow!(kind, S => Some(Box::new(matrices.cast::<S>())), else None)
}

fn narrow_outcome(
    c: AnyMatrix,
    alpha: AnyScalar,
    beta: AnyScalar,
) -> Option<Box<dyn Outcome<f32>>> {
    with_narrow!(c.kind, S => Some(Box::new(Results::<f32, S>::new(c.data.cast(), c.ld, alpha, beta))), else None)
}

/// An operand of complex numbers that are summed in `f32`.
pub(crate) fn complex_operand(
    kind: DataType,
    matrices: Matrices<c_void>,
) -> Option<Box<dyn Operand<Complex<f32>>>> {
    with_complex!(kind, S => Some(Box::new(matrices.cast::<S>())), else None)
}

fn complex_outcome(
    c: AnyMatrix,
    alpha: AnyScalar,
    beta: AnyScalar,
) -> Option<Box<dyn Outcome<Complex<f32>>>> {
    with_complex!(c.kind, S => Some(Box::new(Results::<Complex<f32>, S>::new(c.data.cast(), c.ld, alpha, beta))), else None)
}

/// An operand of the type of the sums.
pub(crate) fn same_operand<T: Element>(
    kind: DataType,
    matrices: Matrices<c_void>,
) -> Option<Box<dyn Operand<T>>> {
    (kind == T::KIND).then(|| Box::new(matrices.cast::<T>()) as Box<dyn Operand<T>>)
}

fn same_outcome<T: Element>(
    c: AnyMatrix,
    alpha: AnyScalar,
    beta: AnyScalar,
) -> Option<Box<dyn Outcome<T>>> {
    (c.kind == T::KIND).then(|| {
        Box::new(Results::<T, T>::new(c.data.cast(), c.ld, alpha, beta)) as Box<dyn Outcome<T>>
    })
}

/// An operand of 8-bit integers.
pub(crate) fn integer_operand(
    kind: DataType,
    matrices: Matrices<c_void>,
) -> Option<Box<dyn Operand<i32>>> {
    (kind == DataType::R8I).then(|| Box::new(matrices.cast::<i8>()) as Box<dyn Operand<i32>>)
}

fn integer_outcome(
    c: AnyMatrix,
    alpha: AnyScalar,
    beta: AnyScalar,
) -> Option<Box<dyn Outcome<i32>>> {
    match c.kind {
        DataType::R32I => Some(Box::new(IntegerResults::<i32> {
            data: c.data.cast(),
            ld: c.ld,
            alpha,
            beta,
        })),
        DataType::R8I => Some(Box::new(IntegerResults::<i8> {
            data: c.data.cast(),
            ld: c.ld,
            alpha,
            beta,
        })),
        _ => None,
    }
}

/// `None` if the types are not among those that [`computes`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm_ex(arguments: GemmEx) -> Option<Plan> {
    gemm_stages(arguments).map(|stages| Plan { stages })
}

/// One plan for several products (`cublasGemmGroupedBatchedEx`): all tasks of all groups are in the same stages.
/// `None` if a group's types are not among those that [`computes`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn gemm_grouped_ex(groups: &[GemmEx]) -> Option<Plan> {
    let stages = groups
        .iter()
        .map(|group| gemm_stages(*group))
        .collect::<Option<Vec<_>>>()?;
    Some(Plan::joined(stages))
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
    rank_k(arguments, Symmetry::Symmetric)
}

/// `None` for other types than the documented ones.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn herk_ex(arguments: SyrkEx) -> Option<Plan> {
    rank_k(arguments, Symmetry::Hermitian)
}

fn rank_k(arguments: SyrkEx, symmetry: Symmetry) -> Option<Plan> {
    let SyrkEx {
        triangle,
        operation,
        n,
        k,
        alpha,
        a,
        a_type,
        lda,
        beta,
        c,
        c_type,
        ldc,
    } = arguments;
    if c_type != DataType::C32F || !matches!(a_type, DataType::C32F | DataType::C8I) {
        return None;
    }
    let hermitian = symmetry == Symmetry::Hermitian;
    let operand = || Matrices::left(Pointers::single(a), lda, operation);
    let mut right = operand();
    right.conjugate ^= hermitian;
    let mut result =
        Results::<Complex<f32>, Complex<f32>>::new(Pointers::single(c.cast()), ldc, alpha, beta);
    result.triangle = Some((triangle, hermitian));
    let batch = Batch {
        a: complex_operand(a_type, operand())?,
        b: complex_operand(a_type, right)?,
        c: Box::new(result),
        empty: k == 0,
    };
    Some(Plan {
        stages: Grid::new::<Complex<f32>>(n, n, k, 1).stages(batch),
    })
}
