//! The transform of layouts: `C = alpha op(A) + beta op(B)`.

use std::ffi::c_void;

use margay_blas::matmul::{self, Transform};
use margay_blas::{AnyScalar, Complex, DataType, Operation};

use crate::call::Call;
use crate::handle::{self, Settings};
use crate::lt::descriptor;
use crate::lt::layout;
use crate::lt::library::OWNERS;
use crate::lt::operands::{Operand, data_type, operation};
use crate::lt::transform_desc::TransformDesc;
use crate::memory::{Access, Memory};
use crate::status::{Failure, Outcome, need};
use crate::types::any_may_be_nonzero;

/// An operand with its factor, which is 0 for an operand that is missing.
fn operand(
    call: &Call,
    kind: DataType,
    factor: *const c_void,
    (data, layout): (*const c_void, usize),
    memory: &mut Memory,
) -> Result<(AnyScalar, Option<Operand>), Failure> {
    if data.is_null() {
        return Ok((AnyScalar::Value(Complex::default()), None));
    }
    let operand = Operand::new(data, &layout::load(layout)?)?;
    let factor = call.any_scalar(factor, kind, 0, memory)?;
    if any_may_be_nonzero(&factor) {
        operand.add(memory, Access::Read);
    }
    Ok((factor, Some(operand)))
}

/// `cublasLtMatrixTransform`.
///
/// # Safety
/// None: addresses may be wrong, as in the other modules with operations.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn transform(
    handle: usize,
    desc: usize,
    alpha: *const c_void,
    a: *const c_void,
    a_layout: usize,
    beta: *const c_void,
    b: *const c_void,
    b_layout: usize,
    c: *mut c_void,
    c_layout: usize,
    stream: usize,
) -> Outcome {
    const DEVICE: i32 = 1;
    let handle = handle::get(handle, OWNERS)?;
    let desc: TransformDesc = descriptor::load(desc)?;
    need(matches!(desc.pointer_mode, 0 | DEVICE), 0)?;
    let scale = data_type(desc.scale)?;
    let settings = Settings {
        stream,
        device_pointers: desc.pointer_mode == DEVICE,
        ..Settings::default()
    };
    let call = Call::new(c"cublasLtMatrixTransform", settings, handle.context)?;
    let mut memory = Memory::default();
    let (operation_a, operation_b) = (operation(desc.transa)?, operation(desc.transb)?);
    let (alpha, a) = operand(&call, scale, alpha, (a, a_layout), &mut memory)?;
    let (beta, b) = operand(&call, scale, beta, (b, b_layout), &mut memory)?;
    need(!c.is_null(), 0)?;
    let c = Operand::new(c, &layout::load(c_layout)?)?;
    c.add(&mut memory, Access::Write);
    let fits = |operand: &Option<Operand>, operation: Operation| {
        operand.is_none_or(|operand| {
            let size = (c.matrix.rows, c.matrix.columns);
            operand.size_after(operation) == size && operand.batch == c.batch
        })
    };
    need(fits(&a, operation_a) && fits(&b, operation_b), 0)?;
    let arguments = Transform {
        operation_a,
        operation_b,
        alpha,
        a: a.map(|operand| operand.matrix),
        beta,
        b: b.map(|operand| operand.matrix),
        c: c.matrix,
        batch: c.batch,
        scale,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.try_launch(memory, None, || unsafe { matmul::transform(arguments) })
}
