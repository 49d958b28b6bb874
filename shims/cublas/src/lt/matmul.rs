//! The product of cuBLASLt: `D = epilogue(alpha op(A) op(B) + beta C)`.
//!
//! [`Problem`] contains the descriptors of a product. It becomes the arguments of `margay-blas` ([`Problem::arguments`]), for
//! the product itself and for the search for an algorithm, which has no addresses.

use std::ffi::c_void;

use margay_blas::matmul::{self, Factor, Groups, Matmul};
use margay_blas::{AnyScalar, Complex, DataType, Plan, Pointers};

use crate::call::Call;
use crate::entry::once;
use crate::gemm::compute;
use crate::handle::{self, Settings};
use crate::lt::algorithm::Algorithm;
use crate::lt::descriptor;
use crate::lt::layout::{self, Extended, Layout};
use crate::lt::library::OWNERS;
use crate::lt::matmul_desc::MatmulDesc;
use crate::lt::operands::{Operand, data_type, may_be_multiplied, operation};
use crate::lt::scales::{self, Inputs};
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Outcome, Status, need};
use crate::types::any_may_be_nonzero;

/// `cublasLtPointerMode_t`.
const HOST: i32 = 0;
const DEVICE: i32 = 1;
const DEVICE_VECTOR: i32 = 2;
const ALPHA_VECTOR_BETA_ZERO: i32 = 3;
const ALPHA_VECTOR_BETA_HOST: i32 = 4;

/// The descriptors of a product.
pub(crate) struct Problem {
    pub(crate) desc: MatmulDesc,
    pub(super) a: Layout,
    pub(super) b: Layout,
    pub(super) c: Layout,
    pub(super) d: Layout,
    /// The layouts, if the matrices are groups.
    groups: Option<[Extended; 4]>,
}

/// What a product computes.
pub(crate) enum Arguments {
    /// One matrix, or the items of a batch.
    Items(Matmul),
    /// Groups of matrices.
    Groups(Groups),
}

impl Arguments {
    /// Whether the product is implemented.
    pub(crate) fn are_supported(&self) -> bool {
        match self {
            Arguments::Items(arguments) => matmul::supports(arguments),
            Arguments::Groups(groups) => matmul::supports_groups(groups),
        }
    }

    /// Returns the plan of the product, or `None` if the product is not implemented.
    ///
    /// # Safety
    /// The pointers are valid whenever the plan runs.
    unsafe fn plan(self) -> Option<Plan> {
        // SAFETY: the caller's condition.
        unsafe {
            match self {
                Arguments::Items(arguments) => matmul::matmul(arguments),
                Arguments::Groups(groups) => matmul::grouped(groups),
            }
        }
    }
}

/// The addresses of a product. They are null in the search for an algorithm.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) alpha: *const c_void,
    pub(crate) a: *const c_void,
    pub(crate) b: *const c_void,
    pub(crate) beta: *const c_void,
    pub(crate) c: *const c_void,
    pub(crate) d: *mut c_void,
    /// Whether there are addresses.
    pub(crate) real: bool,
}

/// The addresses of a search.
pub(crate) const NO_ADDRESSES: Addresses = Addresses {
    alpha: std::ptr::null(),
    a: std::ptr::null(),
    b: std::ptr::null(),
    beta: std::ptr::null(),
    c: std::ptr::null(),
    d: std::ptr::null_mut(),
    real: false,
};

/// Refuses a feature that is not implemented, and names it once.
pub(crate) fn refuse(feature: &str, used: bool) -> Outcome {
    if used {
        once(feature, || {
            format!(
                "margay: cublasLtMatmul: {feature} is not implemented (CUBLAS_STATUS_NOT_SUPPORTED)"
            )
        });
        return Err(Status::NOT_SUPPORTED.into());
    }
    Ok(())
}

impl Problem {
    /// Loads the descriptors. A missing layout of `C` is that of `D`, and the other way round.
    pub(crate) fn load(desc: usize, [a, b, c, d]: [usize; 4]) -> Result<Problem, Failure> {
        let desc = descriptor::load(desc)?;
        let (present_c, present_d) = (if c == 0 { d } else { c }, if d == 0 { c } else { d });
        need(present_d != 0, 0)?;
        let groups = layout::load_groups([a, b, present_c, present_d])?;
        let (a, b) = (layout::load(a)?, layout::load(b)?);
        let (c, d) = (layout::load_optional(c)?, layout::load_optional(d)?);
        let d = d.or(c).ok_or(Status::INVALID_VALUE)?;
        let c = c.unwrap_or(d);
        Ok(Problem {
            desc,
            a,
            b,
            c,
            d,
            groups,
        })
    }

    /// Refuses what is not implemented.
    fn refuse(&self) -> Outcome {
        let desc = &self.desc;
        refuse(
            "a triangle of D (CUBLASLT_MATMUL_DESC_FILL_MODE)",
            desc.fill != 2,
        )?;
        refuse(
            "a transposed C (CUBLASLT_MATMUL_DESC_TRANSC)",
            desc.transc != 0,
        )?;
        let chunks = desc.sync_rows > 1 || desc.sync_columns > 1;
        refuse(
            "atomic synchronization (CUBLASLT_MATMUL_DESC_ATOMIC_SYNC)",
            chunks,
        )
    }

    /// Returns the arguments of the product, and adds its memory.
    pub(crate) fn arguments(
        &self,
        call: Option<&Call>,
        addresses: Addresses,
        memory: &mut Memory,
    ) -> Result<Arguments, Failure> {
        self.refuse()?;
        match &self.groups {
            Some(layouts) => {
                let groups = self.group_arguments(layouts, call, addresses, memory)?;
                Ok(Arguments::Groups(groups))
            }
            None => {
                let items = self.item_arguments(call, addresses, memory)?;
                Ok(Arguments::Items(items))
            }
        }
    }

    /// Returns the arguments of a product of one matrix or of a batch.
    fn item_arguments(
        &self,
        call: Option<&Call>,
        addresses: Addresses,
        memory: &mut Memory,
    ) -> Result<Matmul, Failure> {
        let desc = &self.desc;
        let compute = compute(desc.compute).ok_or(Status::NOT_SUPPORTED)?;
        let scale = data_type(desc.scale)?;
        let (operation_a, operation_b) = (operation(desc.transa)?, operation(desc.transb)?);
        let a = Operand::new(addresses.a, &self.a)?;
        let b = Operand::new(addresses.b, &self.b)?;
        let d = Operand::new(addresses.d, &self.d)?;
        if !may_be_multiplied(a.matrix.kind, b.matrix.kind) {
            return Err(Status::NOT_SUPPORTED.into());
        }
        let (m, k) = a.size_after(operation_a);
        let (k_of_b, n) = b.size_after(operation_b);
        need(k == k_of_b, 0)?;
        need(d.matrix.rows == m && d.matrix.columns == n, 0)?;
        let (alpha, beta) = self.factors(call, addresses, scale, (m, d.batch), memory)?;
        let uses_c = may_differ_from_zero(&beta);
        let c = match addresses.real && addresses.c.is_null() && !uses_c {
            // C is not read, so it may be any matrix of a type that can be read.
            true if d.matrix.kind == DataType::E2M1 => d.of_kind(data_type(self.c.kind)?),
            true => d,
            false => Operand::new(addresses.c, &self.c)?,
        };
        need(c.matrix.rows == m && c.matrix.columns == n, 0)?;
        need(
            [a.batch, b.batch, c.batch]
                .iter()
                .all(|batch| *batch == d.batch),
            0,
        )?;
        if addresses.real {
            need(!d.is_null() || m == 0 || n == 0, 0)?;
            need(!uses_c || !c.is_null() || m == 0 || n == 0, 0)?;
            if may_differ_from_zero(&alpha) {
                a.add(memory, Access::Read);
                b.add(memory, Access::Read);
            }
            if uses_c {
                c.add(memory, Access::Read);
            }
            d.add(memory, Access::Write);
        }
        let items = if d.batch > 1 { d.batch } else { 1 };
        let inputs = Inputs::new(desc, [a.matrix.kind, b.matrix.kind], addresses.real)?;
        let is_array = matches!(d.matrix.data, Pointers::Array(_));
        inputs.refuse_batch(d.batch, is_array)?;
        let output_scales =
            scales::output(desc, d.matrix.kind, &inputs, (m, n, addresses.real), memory)?;
        let scales = [
            inputs.scale(0, (m, k), memory)?,
            inputs.scale(1, (n, k), memory)?,
            scales::tensor(desc.c_scale, desc.c_scale_mode, memory)?,
            scales::tensor(desc.d_scale, desc.d_scale_mode, memory)?,
        ];
        let amax = desc.amax as *mut f32;
        if !amax.is_null() {
            memory.add(Access::Write, amax, size_of::<f32>(), Shape::packed(1));
        }
        let epilogue = self.epilogue(addresses.real, (m, n), items, compute, memory)?;
        Ok(Matmul {
            operation_a,
            operation_b,
            k,
            alpha,
            a: a.matrix,
            b: b.matrix,
            beta,
            c: c.matrix,
            d: d.matrix,
            batch: d.batch,
            compute,
            scale,
            scales,
            output_scales,
            amax,
            epilogue,
        })
    }

    /// Returns `alpha` and `beta`.
    fn factors(
        &self,
        call: Option<&Call>,
        addresses: Addresses,
        kind: DataType,
        (m, batch): (usize, usize),
        memory: &mut Memory,
    ) -> Result<(Factor, Factor), Failure> {
        let desc = &self.desc;
        let zero = Factor::Scalar(AnyScalar::Value(Complex::default()));
        let Some(call) = call else {
            // A search does not know the values.
            let one = Factor::Scalar(AnyScalar::Value(Complex { re: 1.0, im: 0.0 }));
            let beta = match desc.pointer_mode {
                ALPHA_VECTOR_BETA_ZERO => zero,
                HOST..=ALPHA_VECTOR_BETA_HOST => one,
                _ => return Err(Status::INVALID_VALUE.into()),
            };
            return Ok((one, beta));
        };
        let mut rows = |data: *const c_void, batch_stride: i64| {
            need(!data.is_null(), 0)?;
            let shape = Shape::packed(m).batch(batch, batch_stride);
            memory.add(Access::Read, data, kind.size(), shape);
            Ok::<_, Failure>(Factor::Rows {
                data,
                kind,
                batch_stride,
            })
        };
        match desc.pointer_mode {
            DEVICE_VECTOR => {
                let alpha = rows(addresses.alpha, desc.alpha_vector_stride)?;
                return Ok((alpha, rows(addresses.beta, 0)?));
            }
            ALPHA_VECTOR_BETA_ZERO => {
                need(desc.alpha_vector_stride == 0, 0)?;
                return Ok((rows(addresses.alpha, 0)?, zero));
            }
            ALPHA_VECTOR_BETA_HOST => {
                let alpha = rows(addresses.alpha, desc.alpha_vector_stride)?;
                let beta = call.any_scalar(addresses.beta, kind, 0, memory)?;
                return Ok((alpha, Factor::Scalar(beta)));
            }
            HOST | DEVICE => {}
            _ => return Err(Status::INVALID_VALUE.into()),
        }
        let mut factor = |data: *const c_void, batch_stride: i64| {
            if desc.pointer_mode == DEVICE && batch_stride != 0 && batch > 1 {
                need(!data.is_null(), 0)?;
                let shape = Shape::packed(1).batch(batch, batch_stride);
                memory.add(Access::Read, data, kind.size(), shape);
                return Ok::<_, Failure>(Factor::Items {
                    data,
                    kind,
                    batch_stride,
                });
            }
            Ok(Factor::Scalar(call.any_scalar(data, kind, 0, memory)?))
        };
        let alpha = factor(addresses.alpha, desc.alpha_stride)?;
        Ok((alpha, factor(addresses.beta, desc.beta_stride)?))
    }
}

fn may_differ_from_zero(factor: &Factor) -> bool {
    match factor {
        Factor::Scalar(scalar) => any_may_be_nonzero(scalar),
        _ => true,
    }
}

/// `cublasLtMatmul`.
///
/// # Safety
/// None: addresses may be wrong, as in the other modules with operations.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn matmul(
    handle: usize,
    desc: usize,
    alpha: *const c_void,
    a: *const c_void,
    a_layout: usize,
    b: *const c_void,
    b_layout: usize,
    beta: *const c_void,
    c: *const c_void,
    c_layout: usize,
    d: *mut c_void,
    d_layout: usize,
    algorithm: *const c_void,
    _workspace: *mut c_void,
    _workspace_size: usize,
    stream: usize,
) -> Outcome {
    let handle = handle::get(handle, OWNERS)?;
    let problem = Problem::load(desc, [a_layout, b_layout, c_layout, d_layout])?;
    if !algorithm.is_null() {
        Algorithm::load(algorithm)?;
    }
    let settings = Settings {
        stream,
        device_pointers: problem.desc.pointer_mode == DEVICE,
        ..Settings::default()
    };
    let call = Call::new(c"cublasLtMatmul", settings, handle.context)?;
    let addresses = Addresses {
        alpha,
        a,
        b,
        beta,
        c,
        d,
        real: true,
    };
    let mut memory = Memory::default();
    let arguments = problem.arguments(Some(&call), addresses, &mut memory)?;
    if !arguments.are_supported() {
        return Err(Status::NOT_SUPPORTED.into());
    }
    // SAFETY: the driver checks the memory before the plan runs.
    call.try_launch(memory, None, || unsafe { arguments.plan() })
}
