//! Products of groups of matrices (`CUBLASLT_BATCH_MODE_GROUPED`), whose dimensions are in device memory.
//!
//! Arrays of device memory hold the dimensions and addresses of all groups. The tasks read them, so the driver checks only the
//! arrays. A task that finds dimensions that do not fit together ends the launch with an error.

use std::ffi::c_void;

use margay_blas::matmul::{
    GroupBias, GroupFactor, GroupMatrices, GroupScale, Groups, Integers, Scale,
};
use margay_blas::{AnyScalar, Complex, DataType, Pointers};

use crate::call::Call;
use crate::gemm::compute;
use crate::lt::epilogue::default_bias_kind;
use crate::lt::layout::{self, Extended};
use crate::lt::matmul::{Addresses, Problem, refuse};
use crate::lt::operands::{data_type, may_be_multiplied, operation};
use crate::lt::scales::{self, Inputs, Mode};
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Status, need};
use crate::types::any_may_be_nonzero;

/// `cublasLtPointerMode_t`.
const DEVICE: i32 = 1;
/// `cublasLtEpilogue_t`.
const DEFAULT: u32 = 1;
const BIAS: u32 = 4;

/// Adds an array of `count` elements.
fn add_array<T>(memory: &mut Memory, array: *const T, count: usize) {
    memory.add(Access::Read, array, size_of::<T>(), Shape::packed(count));
}

/// Returns an array of integers of the width with this number (`cublasLtIntegerWidth_t`).
fn integers(
    address: u64,
    width: i32,
    count: usize,
    memory: &mut Memory,
) -> Result<Integers, Failure> {
    need(address != 0, 0)?;
    Ok(match width {
        0 => {
            add_array(memory, address as *const i32, count);
            Integers::Narrow(address as *const i32)
        }
        1 => {
            add_array(memory, address as *const i64, count);
            Integers::Wide(address as *const i64)
        }
        _ => return Err(Status::INVALID_VALUE.into()),
    })
}

/// Returns the matrices of a layout. `array` contains their addresses.
fn matrices(
    layout: &Extended,
    array: *const c_void,
    count: usize,
    memory: &mut Memory,
) -> Result<GroupMatrices, Failure> {
    refuse(
        "groups of matrices that are not in columns",
        layout.order != 0,
    )?;
    need(
        layout::count(layout.batch_count)? == count && layout.plane == 0,
        0,
    )?;
    let data = array.cast::<*mut c_void>();
    if !data.is_null() {
        add_array(memory, data, count);
    }
    Ok(GroupMatrices {
        data,
        kind: data_type(layout.kind)?,
        rows: integers(layout.rows_array, layout.width, count, memory)?,
        columns: integers(layout.columns_array, layout.width, count, memory)?,
        ld: integers(layout.ld_array, layout.ld_width, count, memory)?,
    })
}

/// Returns `alpha` or `beta`. With a stride of 1, there is an array of addresses.
fn factor(
    call: Option<&Call>,
    mode: i32,
    (data, kind): (*const c_void, DataType),
    (stride, count): (i64, usize),
    memory: &mut Memory,
) -> Result<GroupFactor, Failure> {
    let Some(call) = call else {
        let one = AnyScalar::Value(Complex { re: 1.0, im: 0.0 });
        return Ok(GroupFactor::Shared(one));
    };
    match stride {
        0 => Ok(GroupFactor::Shared(call.any_scalar(data, kind, 0, memory)?)),
        1 if mode == DEVICE => {
            need(!data.is_null(), 0)?;
            let array = data.cast::<*const c_void>();
            add_array(memory, array, count);
            Ok(GroupFactor::Each(array))
        }
        _ => Err(Status::NOT_SUPPORTED.into()),
    }
}

/// Returns the factors of `A` or `B`.
fn scale(
    inputs: &Inputs,
    index: usize,
    count: usize,
    memory: &mut Memory,
) -> Result<GroupScale, Failure> {
    let address = inputs.addresses[index];
    match inputs.modes[index] {
        Mode::Blocks(format) => {
            add_array(memory, address as *const *const c_void, count);
            Ok(GroupScale::Blocks(address as *const *const c_void, format))
        }
        _ if address == 0 => Ok(GroupScale::None),
        Mode::Scalar => {
            add_array(memory, address as *const f32, 1);
            Ok(GroupScale::Shared(address as *const f32))
        }
        Mode::PerGroup => {
            add_array(memory, address as *const *const f32, count);
            Ok(GroupScale::Each(address as *const *const f32))
        }
        Mode::Outer => Err(Status::NOT_SUPPORTED.into()),
    }
}

/// Returns the factor of `C` or `D`.
fn tensor(address: u64, mode: i32, memory: &mut Memory) -> Result<GroupScale, Failure> {
    Ok(match scales::tensor(address, mode, memory)? {
        Scale::Tensor(data) => GroupScale::Shared(data),
        _ => GroupScale::None,
    })
}

impl Problem {
    /// Returns the arguments of a product of groups, and adds its memory.
    pub(crate) fn group_arguments(
        &self,
        layouts: &[Extended; 4],
        call: Option<&Call>,
        addresses: Addresses,
        memory: &mut Memory,
    ) -> Result<Groups, Failure> {
        let desc = &self.desc;
        let count = layout::count(layouts[3].batch_count)?;
        need((0..=4).contains(&desc.pointer_mode), 0)?;
        let special = desc.amax != 0 || desc.d_out_scale != 0 || desc.pointer_mode > DEVICE;
        refuse(
            "vectors of factors, the largest value or factors of the result with groups of matrices",
            special,
        )?;
        refuse(
            "an epilogue other than the bias with groups of matrices",
            desc.epilogue != DEFAULT && desc.epilogue != BIAS,
        )?;
        let compute = compute(desc.compute).ok_or(Status::NOT_SUPPORTED)?;
        let kind = data_type(desc.scale)?;
        let arrays = [
            addresses.a,
            addresses.b,
            addresses.c,
            addresses.d.cast_const(),
        ];
        let mut all = [None; 4];
        for (index, layout) in layouts.iter().enumerate() {
            all[index] = Some(matrices(layout, arrays[index], count, memory)?);
        }
        let [Some(a), Some(b), Some(c), Some(d)] = all else {
            return Err(Status::INVALID_VALUE.into());
        };
        if !may_be_multiplied(a.kind, b.kind) {
            return Err(Status::NOT_SUPPORTED.into());
        }
        let (mode, factors) = (desc.pointer_mode, [desc.alpha_stride, desc.beta_stride]);
        let alpha = (addresses.alpha, kind);
        let alpha = factor(call, mode, alpha, (factors[0], count), memory)?;
        let beta = (addresses.beta, kind);
        let beta = factor(call, mode, beta, (factors[1], count), memory)?;
        if addresses.real {
            let uses_c = match &beta {
                GroupFactor::Shared(value) => any_may_be_nonzero(value),
                GroupFactor::Each(_) => true,
            };
            need(
                !a.data.is_null() && !b.data.is_null() && !d.data.is_null(),
                0,
            )?;
            need(!uses_c || !c.data.is_null(), 0)?;
        }
        let inputs = Inputs::new(desc, [a.kind, b.kind], addresses.real)?;
        Ok(Groups {
            count,
            operation_a: operation(desc.transa)?,
            operation_b: operation(desc.transb)?,
            alpha,
            beta,
            matrices: [a, b, c, d],
            compute,
            scale: kind,
            scales: [
                scale(&inputs, 0, count, memory)?,
                scale(&inputs, 1, count, memory)?,
                tensor(desc.c_scale, desc.c_scale_mode, memory)?,
                tensor(desc.d_scale, desc.d_scale_mode, memory)?,
            ],
            bias: self.group_bias([a.kind, c.kind, d.kind], addresses.real, count, memory)?,
        })
    }

    /// Returns the bias vectors. With a stride of 1, there is an array of addresses.
    fn group_bias(
        &self,
        [a, c, d]: [DataType; 3],
        real: bool,
        count: usize,
        memory: &mut Memory,
    ) -> Result<Option<GroupBias>, Failure> {
        let desc = &self.desc;
        if desc.epilogue != BIAS {
            return Ok(None);
        }
        need(!real || desc.bias != 0, 0)?;
        let kind = match desc.bias_kind {
            -1 => default_bias_kind([a, c, d]),
            number => data_type(number)?,
        };
        let data = match desc.bias_stride {
            0 => Pointers::Strided {
                base: desc.bias as *mut c_void,
                stride: 0,
            },
            1 => {
                let array = desc.bias as *const *mut c_void;
                if real {
                    add_array(memory, array, count);
                }
                Pointers::Array(array)
            }
            _ => return Err(Status::NOT_SUPPORTED.into()),
        };
        Ok(Some(GroupBias { data, kind }))
    }
}
