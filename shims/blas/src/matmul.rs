//! The product of cuBLASLt, `D = epilogue(alpha op(A) op(B) + beta C)`, with layouts, scales and epilogues, and its matrix transform.

use std::ffi::c_void;

mod access;
mod activation;
mod finish;
mod grouped;
mod integer;
mod quantize;
mod scaled;
mod scales;
mod transform;
mod work;

use self::access::{Value, integer_reader};
pub use self::grouped::{
    GroupBias, GroupFactor, GroupMatrices, GroupScale, Groups, Integers, grouped, supports_groups,
};
pub use self::quantize::OutputScales;
use self::scaled::scaled_operand;
pub use self::scales::{BlockFormat, BlockScales};
use self::work::Work;
use crate::products::{
    Compute, Sum, Types, complex_operand, integer_operand, narrow_operand, same_operand,
};
use crate::{AnyScalar, Complex, DataType, Operation, Plan, Pointers};

/// The order of elements in memory (`cublasLtOrder_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Column-major.
    Column,
    /// Row-major.
    Row,
    /// Groups of 32 columns; within a group, row by row (`CUBLASLT_ORDER_COL32`).
    Column32,
    /// Groups of 32 columns in tiles of 8 rows, with parts of 4 columns by 4 even or odd rows (`CUBLASLT_ORDER_COL4_4R2_8C`).
    Column4_4R2_8C,
    /// Groups of 32 columns in tiles of 32 rows, whose order is permuted (`CUBLASLT_ORDER_COL32_2R_4R4`).
    Column32_2R4R4,
}

/// A matrix in memory (`cublasLtMatrixLayout_t` with its address).
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Where the matrices of the batch are; strides count elements of `kind`.
    pub data: Pointers<c_void>,
    /// The type of the elements.
    pub kind: DataType,
    /// The order of the elements.
    pub order: Order,
    /// Rows in memory (before an operation).
    pub rows: usize,
    /// Columns in memory.
    pub columns: usize,
    /// Leading dimension.
    pub ld: usize,
    /// Planar complex: distance in bytes of the imaginary parts. 0: interleaved. With planar complex, a batch stride counts real elements.
    pub plane: i64,
}

/// `alpha` or `beta`.
#[derive(Clone, Copy, Debug)]
pub enum Factor {
    /// One value.
    Scalar(AnyScalar),
    /// One value for each row of `D`, in an array that is read when the tasks run.
    Rows {
        /// The array.
        data: *const c_void,
        /// Its type.
        kind: DataType,
        /// Distance of the arrays of two items in elements.
        batch_stride: i64,
    },
    /// One value for each item, in an array that is read when the tasks run.
    Items {
        /// The array.
        data: *const c_void,
        /// Its type.
        kind: DataType,
        /// Distance of two values in elements.
        batch_stride: i64,
    },
}

/// A factor of `f32` that converts a matrix of a narrow type.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    /// 1.
    None,
    /// One value (`SCALAR_32F`).
    Tensor(*const f32),
    /// One value for each row of `op(A)` or column of `op(B)` (`OUTER_VEC_32F`).
    Outer(*const f32),
    /// One value for each block of elements of `op(A)` or `op(B)`.
    Blocks(BlockScales),
}

/// The function that the epilogue applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// None.
    Identity,
    /// `max(x, 0)`. With `aux`: writes a mask of bits.
    Relu,
    /// GELU in its tanh form. With `aux`: writes its input.
    Gelu,
    /// The gradient of ReLU; reads the mask in `aux`.
    ReluGradient,
    /// The gradient of GELU; reads its input in `aux`.
    GeluGradient,
}

/// The bias vector, or the gradient of the bias.
#[derive(Clone, Copy, Debug)]
pub struct Bias {
    /// The vector.
    pub data: *mut c_void,
    /// Its type.
    pub kind: DataType,
    /// Distance of the vectors of two items in elements.
    pub batch_stride: i64,
}

/// The auxiliary matrix of an epilogue, column-major unless `D` is row-major.
#[derive(Clone, Copy, Debug)]
pub struct Auxiliary {
    /// The matrix.
    pub data: *mut c_void,
    /// Its type. Not used for ReLU, whose elements are bits.
    pub kind: DataType,
    /// Leading dimension in elements (bits for ReLU).
    pub ld: usize,
    /// Distance of the matrices of two items in elements (bits for ReLU).
    pub batch_stride: i64,
    /// Factor of stored (or read) values.
    pub scale: Scale,
    /// Receives the largest absolute value before the conversion to `kind`. May be null.
    pub amax: *mut f32,
}

/// Which gradient of the bias an epilogue writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BiasGradient {
    /// None: `bias` is added.
    None,
    /// Sums of the rows of the result (`DRELU_BGRAD`, `DGELU_BGRAD`).
    Result,
    /// Sums of the rows of `op(A)` over k (`BGRADA`).
    A,
    /// Sums of the columns of `op(B)` over k (`BGRADB`).
    B,
}

/// What happens to the product before it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue {
    /// The function.
    pub activation: Activation,
    /// The bias that is added before the function, or where its gradient is written.
    pub bias: Option<Bias>,
    /// Which gradient is written to `bias`.
    pub gradient: BiasGradient,
    /// The auxiliary matrix.
    pub auxiliary: Option<Auxiliary>,
}

/// A product of cuBLASLt.
#[derive(Clone, Copy, Debug)]
pub struct Matmul {
    /// The operation on `A`.
    pub operation_a: Operation,
    /// The operation on `B`.
    pub operation_b: Operation,
    /// Columns of `op(A)`; rows and columns of the result are those of `d`.
    pub k: usize,
    /// Factor of the product.
    pub alpha: Factor,
    /// The left matrices.
    pub a: Layout,
    /// The right matrices.
    pub b: Layout,
    /// Factor of `C`.
    pub beta: Factor,
    /// The added matrices; may be the same memory as `d`.
    pub c: Layout,
    /// The results.
    pub d: Layout,
    /// Number of items.
    pub batch: usize,
    /// The type in which the product is computed.
    pub compute: Compute,
    /// The type of `alpha` and `beta`.
    pub scale: DataType,
    /// Factors of `A`, `B`, `C` and `D`.
    pub scales: [Scale; 4],
    /// Receives the factors of blocks of `D`, by which the results are divided. Then there is one item.
    pub output_scales: Option<OutputScales>,
    /// Receives the largest absolute value of the result before the conversion to `D`'s type and `D`'s factor. May be null.
    pub amax: *mut f32,
    /// What happens to the product before it is stored.
    pub epilogue: Epilogue,
}

/// What makes the plan of a product, if the product is supported.
fn plan_of(arguments: &Matmul) -> Option<Box<dyn FnOnce() -> Plan>> {
    let Matmul {
        a,
        b,
        d,
        compute,
        scale,
        ..
    } = *arguments;
    let types = Types {
        a: a.kind,
        b: b.kind,
        c: d.kind,
        compute,
        scale,
    };
    macro_rules! work {
        ($t:ty, $v:ty, $dense:expr, $reader:expr) => {{
            let readers = [$reader(a.kind, a.plane != 0), $reader(b.kind, b.plane != 0)];
            let work = Work::<$t, $v>::new(*arguments, ($dense, |_, _, _, _| None), readers)?;
            Some(Box::new(|| work.plan()))
        }};
    }
    match Sum::of(types)? {
        Sum::F32 => {
            let work = real_work(*arguments)?;
            let is_quantized = arguments.output_scales.is_some();
            Some(Box::new(move || match is_quantized {
                true => work.quantized_plan(),
                false => work.plan(),
            }))
        }
        Sum::F64 => work!(f64, f64, same_operand, f64::reader),
        Sum::C32 => work!(
            Complex<f32>,
            Complex<f32>,
            complex_operand,
            Complex::<f32>::reader
        ),
        Sum::C64 => work!(
            Complex<f64>,
            Complex<f64>,
            same_operand,
            Complex::<f64>::reader
        ),
        Sum::I32To8 => work!(i32, f32, integer_operand, |kind, _| integer_reader(kind)),
        Sum::I32 => {
            let work = integer::Work::new(arguments)?;
            Some(Box::new(|| work.plan()))
        }
    }
}

/// A product of real numbers that are summed in `f32`.
fn real_work(arguments: Matmul) -> Option<Work<f32, f32>> {
    let readers =
        [&arguments.a, &arguments.b].map(|matrix| f32::reader(matrix.kind, matrix.plane != 0));
    Work::new(arguments, (narrow_operand, scaled_operand), readers)
}

/// Whether [`matmul`] computes this combination of types, layouts, scales and epilogue.
pub fn supports(arguments: &Matmul) -> bool {
    plan_of(arguments).is_some()
}

/// `None` if the combination is not among those that it [`supports`].
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn matmul(arguments: Matmul) -> Option<Plan> {
    plan_of(&arguments).map(|plan| plan())
}

/// `C = alpha op(A) + beta op(B)` with any orders and types (`cublasLtMatrixTransform`).
#[derive(Clone, Copy, Debug)]
pub struct Transform {
    /// The operation on `A`.
    pub operation_a: Operation,
    /// The operation on `B`.
    pub operation_b: Operation,
    /// Factor of `A`.
    pub alpha: AnyScalar,
    /// The first matrix. `None`: not used.
    pub a: Option<Layout>,
    /// Factor of `B`.
    pub beta: AnyScalar,
    /// The second matrix. `None`: not used.
    pub b: Option<Layout>,
    /// The result.
    pub c: Layout,
    /// Number of items.
    pub batch: usize,
    /// The type of `alpha` and `beta`, in which the sum is computed.
    pub scale: DataType,
}

/// `None` if the types do not fit together.
///
/// # Safety
/// The pointers are valid whenever the plan runs.
pub unsafe fn transform(arguments: Transform) -> Option<Plan> {
    match arguments.scale {
        DataType::R32F => transform::plan::<f32>(arguments),
        DataType::R64F | DataType::R32I => transform::plan::<f64>(arguments),
        DataType::C32F => transform::plan::<Complex<f32>>(arguments),
        DataType::C64F => transform::plan::<Complex<f64>>(arguments),
        _ => None,
    }
}
