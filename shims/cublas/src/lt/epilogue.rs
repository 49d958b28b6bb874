//! Epilogues of products: the function, the bias or its gradient, and the auxiliary matrix.

use std::ffi::c_void;

use margay_blas::DataType;
use margay_blas::matmul::{Activation, Auxiliary, Bias, BiasGradient, Epilogue};
use margay_blas::products::Compute;

use crate::lt::matmul::Problem;
use crate::lt::operands::data_type;
use crate::lt::scales;
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Status, need};

impl Problem {
    /// Returns the epilogue of a product with `m` rows and `n` columns, and adds its memory.
    pub(super) fn epilogue(
        &self,
        real: bool,
        (m, n): (usize, usize),
        items: usize,
        compute: Compute,
        memory: &mut Memory,
    ) -> Result<Epilogue, Failure> {
        let desc = &self.desc;
        let Parts {
            activation,
            bias,
            gradient,
            auxiliary,
        } = parts(desc.epilogue).ok_or(Status::INVALID_VALUE)?;
        let bias = bias || gradient != BiasGradient::None;
        let bias = match bias {
            false => None,
            true => {
                let data = desc.bias as *mut c_void;
                need(!real || !data.is_null(), 0)?;
                let kind = match (desc.bias_kind, gradient) {
                    (-1, BiasGradient::None) => {
                        let kinds = [self.a.kind, self.c.kind, self.d.kind];
                        let [a, c, d] = kinds.map(data_type);
                        match (a?, c?, d?) {
                            (.., DataType::R8I) if compute == Compute::I32 => DataType::R32F,
                            (a, c, d) => default_bias_kind([a, c, d]),
                        }
                    }
                    (-1, _) => data_type(self.d.kind)?,
                    (number, _) => data_type(number)?,
                };
                let length = if gradient == BiasGradient::B { n } else { m };
                let access = match gradient {
                    BiasGradient::None => Access::Read,
                    _ => Access::Write,
                };
                if real {
                    let shape = Shape::packed(length).batch(items, desc.bias_stride);
                    memory.add(access, data, kind.size(), shape);
                }
                Some(Bias {
                    data,
                    kind,
                    batch_stride: desc.bias_stride,
                })
            }
        };
        let auxiliary = match auxiliary {
            false => None,
            true => Some(self.auxiliary(real, activation, (m, n), items, memory)?),
        };
        Ok(Epilogue {
            activation,
            bias,
            gradient,
            auxiliary,
        })
    }

    /// Returns the auxiliary matrix, and adds its memory.
    fn auxiliary(
        &self,
        real: bool,
        activation: Activation,
        (m, n): (usize, usize),
        items: usize,
        memory: &mut Memory,
    ) -> Result<Auxiliary, Failure> {
        let desc = &self.desc;
        let bits = matches!(activation, Activation::Relu | Activation::ReluGradient);
        let multiple = if bits { 128 } else { 8 };
        let data = desc.aux as *mut c_void;
        need(!real || !data.is_null(), 0)?;
        let kind = match desc.aux_kind {
            -1 => data_type(self.d.kind)?,
            _ if bits => data_type(self.d.kind)?,
            number => data_type(number)?,
        };
        let ld = crate::call::dimension(desc.aux_ld, 0)?;
        // The matrix has the order of D.
        let (rows, columns) = if self.d.order == 1 { (n, m) } else { (m, n) };
        need(ld >= rows && ld % multiple == 0, 0)?;
        let writes = matches!(activation, Activation::Relu | Activation::Gelu);
        let access = if writes { Access::Write } else { Access::Read };
        if real {
            let (shape, size) = match bits {
                true => {
                    let shape = Shape::matrix(rows.div_ceil(8), columns, ld / 8);
                    (shape.batch(items, desc.aux_stride / 8), 1)
                }
                false => {
                    let shape = Shape::matrix(rows, columns, ld);
                    (shape.batch(items, desc.aux_stride), kind.size())
                }
            };
            memory.add(access, data, size, shape);
        }
        let scale = scales::tensor(desc.aux_scale, desc.aux_scale_mode, memory)?;
        let amax = desc.aux_amax as *mut f32;
        if !amax.is_null() {
            memory.add(Access::Write, amax, size_of::<f32>(), Shape::packed(1));
        }
        Ok(Auxiliary {
            data,
            kind,
            ld,
            batch_stride: desc.aux_stride,
            scale,
            amax,
        })
    }
}

/// Returns the type of the bias if the descriptor does not name it, by the types of `A`, `C` and `D`.
pub(crate) fn default_bias_kind([a, c, d]: [DataType; 3]) -> DataType {
    let narrow = |kind| matches!(kind, DataType::E4M3 | DataType::E5M2 | DataType::E2M1);
    match d {
        DataType::R32F if narrow(a) => DataType::R16BF,
        d if narrow(d) => c,
        d => d,
    }
}

/// The parts of an epilogue.
struct Parts {
    activation: Activation,
    bias: bool,
    gradient: BiasGradient,
    auxiliary: bool,
}

/// Returns the parts of a `cublasLtEpilogue_t`.
fn parts(epilogue: u32) -> Option<Parts> {
    const RELU: u32 = 2;
    const BIAS: u32 = 4;
    const DRELU: u32 = 8;
    const BIAS_GRADIENT: u32 = 16;
    const GELU: u32 = 32;
    const DGELU: u32 = 64;
    const AUX: u32 = 128;
    const BGRADA: u32 = 256;
    const BGRADB: u32 = 512;
    let (activation, bias, gradient, auxiliary) = match epilogue {
        1 => (Activation::Identity, false, BiasGradient::None, false),
        BIAS => (Activation::Identity, true, BiasGradient::None, false),
        BGRADA => (Activation::Identity, false, BiasGradient::A, false),
        BGRADB => (Activation::Identity, false, BiasGradient::B, false),
        _ => {
            let bias = epilogue & BIAS != 0;
            let gradient = match epilogue & BIAS_GRADIENT != 0 {
                true => BiasGradient::Result,
                false => BiasGradient::None,
            };
            let auxiliary = epilogue & AUX != 0;
            let activation = match epilogue & !(BIAS | BIAS_GRADIENT | AUX) {
                RELU => Activation::Relu,
                GELU => Activation::Gelu,
                DRELU => Activation::ReluGradient,
                DGELU => Activation::GeluGradient,
                _ => return None,
            };
            // Gradients read the auxiliary matrix and add no bias; functions have no gradient of the bias.
            let is_gradient = matches!(epilogue & !(BIAS | BIAS_GRADIENT | AUX), DRELU | DGELU);
            let allowed = match is_gradient {
                true => auxiliary && !bias,
                false => gradient == BiasGradient::None,
            };
            if !allowed {
                return None;
            }
            (activation, bias, gradient, auxiliary)
        }
    };
    Some(Parts {
        activation,
        bias,
        gradient,
        auxiliary,
    })
}
