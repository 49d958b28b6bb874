//! Products of matrices: of one type, of mixed types, in batches and in groups.

use std::ffi::c_void;

use margay_blas::batched::{self, GemmBatched};
use margay_blas::level3::{self, Gemm};
use margay_blas::products::{self, AnyMatrix, Compute, GemmEx, Types};
use margay_blas::{AnyScalar, DataType, Operation, Pointers};

use crate::call::{Call, dimension, leading};
use crate::host::{self, Plain};
use crate::level1ex::kind;
use crate::level2::any;
use crate::memory::{Access, Memory, Shape};
use crate::options::operation;
use crate::status::{Failure, Outcome, Status, need};
use crate::types::{Integers, Kind, Scalars, any_may_be_nonzero, f16, may_be_nonzero};

/// The operations and dimensions of a product.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    operation_a: Operation,
    operation_b: Operation,
    m: usize,
    n: usize,
    k: usize,
}

impl Size {
    /// Checks the first five parameters.
    fn new([transa, transb]: [i32; 2], [m, n, k]: [i64; 3]) -> Result<Size, Failure> {
        Ok(Size {
            operation_a: operation(transa, 1)?,
            operation_b: operation(transb, 2)?,
            m: dimension(m, 3)?,
            n: dimension(n, 4)?,
            k: dimension(k, 5)?,
        })
    }

    /// Rows and columns of `A` in memory.
    fn a(self) -> (usize, usize) {
        match self.operation_a {
            Operation::None | Operation::Conjugate => (self.m, self.k),
            _ => (self.k, self.m),
        }
    }

    /// Rows and columns of `B` in memory.
    fn b(self) -> (usize, usize) {
        match self.operation_b {
            Operation::None | Operation::Conjugate => (self.k, self.n),
            _ => (self.n, self.k),
        }
    }

    /// Checks the leading dimensions, whose parameters have these numbers.
    fn leading(self, ld: [i64; 3], numbers: [u32; 3]) -> Result<[usize; 3], Failure> {
        Ok([
            leading(ld[0], self.a().0, numbers[0])?,
            leading(ld[1], self.b().0, numbers[1])?,
            leading(ld[2], self.m, numbers[2])?,
        ])
    }

    fn is_empty(self) -> bool {
        self.m == 0 || self.n == 0
    }

    /// The shapes of `A`, `B` and `C`.
    fn shapes(self, [lda, ldb, ldc]: [usize; 3]) -> [Shape; 3] {
        let (a, b) = (self.a(), self.b());
        [
            Shape::matrix(a.0, a.1, lda),
            Shape::matrix(b.0, b.1, ldb),
            Shape::matrix(self.m, self.n, ldc),
        ]
    }
}

/// `C = alpha op(A) op(B) + beta C`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm<T: Scalars>(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    b: *const T,
    ldb: i64,
    beta: *const T,
    c: *mut T,
    ldc: i64,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld @ [lda, ldb, ldc] = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    if size.is_empty() {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 6, &mut memory)?;
    let beta = call.scalar(beta, 11, &mut memory)?;
    need(!c.is_null(), 12)?;
    let shapes = size.shapes(ld);
    if may_be_nonzero(&alpha) {
        memory.add(Access::Read, a, size_of::<T>(), shapes[0]);
        memory.add(Access::Read, b, size_of::<T>(), shapes[1]);
    }
    memory.output(c, size_of::<T>(), shapes[2], may_be_nonzero(&beta));
    let Size {
        operation_a,
        operation_b,
        m,
        n,
        k,
    } = size;
    let arguments = Gemm {
        operation_a,
        operation_b,
        m,
        n,
        k,
        alpha,
        a,
        lda,
        b,
        ldb,
        beta,
        c,
        ldc,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level3::gemm(arguments) })
}

/// The matrices of a batch, whose type is a number.
#[derive(Clone, Copy)]
struct Operand {
    data: Pointers<c_void>,
    kind: DataType,
}

impl Operand {
    /// One matrix.
    fn one(base: *const c_void, kind: DataType) -> Operand {
        Operand::strided(base, 0, kind)
    }

    fn strided(base: *const c_void, stride: i64, kind: DataType) -> Operand {
        let base = base.cast_mut();
        Operand {
            data: Pointers::Strided { base, stride },
            kind,
        }
    }

    fn array(array: *const *const c_void, kind: DataType) -> Operand {
        let data = Pointers::Array(array.cast());
        Operand { data, kind }
    }

    fn is_null(self) -> bool {
        match self.data {
            Pointers::Strided { base, .. } => base.is_null(),
            Pointers::Array(array) => array.is_null(),
        }
    }

    /// Adds the memory. Of addresses in memory only the array is known.
    fn add(self, memory: &mut Memory, access: Access, shape: Shape, batch: usize) {
        match self.data {
            Pointers::Strided { base, stride } => {
                memory.add(access, base, self.kind.size(), shape.batch(batch, stride));
            }
            Pointers::Array(array) => {
                memory.add(
                    Access::Read,
                    array,
                    size_of::<usize>(),
                    Shape::packed(batch),
                );
            }
        }
    }

    fn matrix(self, ld: usize) -> AnyMatrix {
        AnyMatrix {
            data: self.data,
            kind: self.kind,
            ld,
        }
    }
}

/// A product of mixed types.
struct Mixed {
    size: Size,
    ld: [usize; 3],
    alpha: AnyScalar,
    beta: AnyScalar,
    operands: [Operand; 3],
    batch: usize,
    compute: Compute,
    scale: DataType,
}

impl Mixed {
    fn launch(self, call: &Call, mut memory: Memory) -> Outcome {
        let [a, b, c] = self.operands;
        need(!c.is_null(), 0)?;
        let shapes = self.size.shapes(self.ld);
        if any_may_be_nonzero(&self.alpha) {
            a.add(&mut memory, Access::Read, shapes[0], self.batch);
            b.add(&mut memory, Access::Read, shapes[1], self.batch);
        }
        if any_may_be_nonzero(&self.beta) {
            c.add(&mut memory, Access::Read, shapes[2], self.batch);
        }
        c.add(&mut memory, Access::Write, shapes[2], self.batch);
        let arguments = GemmEx {
            operation_a: self.size.operation_a,
            operation_b: self.size.operation_b,
            m: self.size.m,
            n: self.size.n,
            k: self.size.k,
            alpha: self.alpha,
            a: a.matrix(self.ld[0]),
            b: b.matrix(self.ld[1]),
            beta: self.beta,
            c: c.matrix(self.ld[2]),
            batch: self.batch,
            compute: self.compute,
            scale: self.scale,
        };
        // SAFETY: the driver checks the memory before the plan runs.
        call.try_launch(memory, None, || unsafe { products::gemm_ex(arguments) })
    }
}

/// Returns the type in which a `cublasComputeType_t` computes.
pub(crate) fn compute(number: i32) -> Option<Compute> {
    Some(match number {
        64 | 65 => Compute::F16,
        68 | 69 | 74 | 75 | 77 | 78 => Compute::F32,
        70 | 71 | 79 => Compute::F64,
        72 | 73 => Compute::I32,
        _ => return None,
    })
}

/// Returns the type of the scalars of a product.
fn scale(compute: Compute, a: DataType) -> DataType {
    match (compute, a.is_complex()) {
        (Compute::F16, _) => DataType::R16F,
        (Compute::F32, false) => DataType::R32F,
        (Compute::F32, true) => DataType::C32F,
        (Compute::F64, false) => DataType::R64F,
        (Compute::F64, true) => DataType::C64F,
        (Compute::I32, _) => DataType::R32I,
    }
}

/// Returns the types of a product.
///
/// # Errors
/// `INVALID_VALUE` for an unknown type of `C`, `NOT_SUPPORTED` for a combination that cuBLAS does not have.
fn types([a, b, c]: [i32; 3], compute_type: i32) -> Result<Types, Failure> {
    let c = kind(c, Status::INVALID_VALUE)?;
    let a = kind(a, Status::NOT_SUPPORTED)?;
    let b = kind(b, Status::NOT_SUPPORTED)?;
    let compute = compute(compute_type).ok_or(Status::NOT_SUPPORTED)?;
    let scale = scale(compute, a);
    let types = Types {
        a,
        b,
        c,
        compute,
        scale,
    };
    match products::supports(types) {
        true => Ok(types),
        false => Err(Status::NOT_SUPPORTED.into()),
    }
}

/// Checks a `cublasGemmAlgo_t`. All algorithms are the same.
fn algorithm(number: i32, parameter: u32) -> Outcome {
    need(matches!(number, -1..=23 | 99..=115 | 999), parameter)
}

/// `cublasGemmEx`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_ex(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const c_void,
    a: *const c_void,
    a_type: i32,
    lda: i64,
    b: *const c_void,
    b_type: i32,
    ldb: i64,
    beta: *const c_void,
    c: *mut c_void,
    c_type: i32,
    ldc: i64,
    compute_type: i32,
    algo: i32,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [9, 12, 16])?;
    algorithm(algo, 18)?;
    let types = types([a_type, b_type, c_type], compute_type)?;
    if size.is_empty() {
        return Ok(());
    }
    let mut memory = Memory::default();
    Mixed {
        size,
        ld,
        alpha: call.any_scalar(alpha, types.scale, 6, &mut memory)?,
        beta: call.any_scalar(beta, types.scale, 13, &mut memory)?,
        operands: [
            Operand::one(a, types.a),
            Operand::one(b, types.b),
            Operand::one(c, types.c),
        ],
        batch: 1,
        compute: types.compute,
        scale: types.scale,
    }
    .launch(call, memory)
}

/// `cublasSgemmEx`, `cublasCgemmEx`, `cublasCgemm3mEx`: the scalars and the sums have the type `T`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_ex_typed<T: Kind>(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const T,
    a: *const c_void,
    a_type: i32,
    lda: i64,
    b: *const c_void,
    b_type: i32,
    ldb: i64,
    beta: *const T,
    c: *mut c_void,
    c_type: i32,
    ldc: i64,
) -> Outcome {
    const COMPUTE_32F: i32 = 68;
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    let types = types([a_type, b_type, c_type], COMPUTE_32F);
    let types = types.map_err(|_| Status::NOT_SUPPORTED)?;
    if types.scale != T::KIND {
        return Err(Status::NOT_SUPPORTED.into());
    }
    if size.is_empty() {
        return Ok(());
    }
    let mut memory = Memory::default();
    Mixed {
        size,
        ld,
        alpha: any(call.scalar(alpha, 6, &mut memory)?),
        beta: any(call.scalar(beta, 11, &mut memory)?),
        operands: [
            Operand::one(a, types.a),
            Operand::one(b, types.b),
            Operand::one(c, types.c),
        ],
        batch: 1,
        compute: types.compute,
        scale: types.scale,
    }
    .launch(call, memory)
}

/// A product of half-precision matrices whose sums are rounded once.
fn half_products(
    call: &Call,
    size: Size,
    ld: [usize; 3],
    alpha: *const f16,
    beta: *const f16,
    operands: [Operand; 3],
    batch: usize,
) -> Outcome {
    if size.is_empty() || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    Mixed {
        size,
        ld,
        alpha: any(call.scalar(alpha, 6, &mut memory)?),
        beta: any(call.scalar(beta, 11, &mut memory)?),
        operands,
        batch,
        compute: Compute::F16,
        scale: DataType::R16F,
    }
    .launch(call, memory)
}

/// `cublasHgemm`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn hgemm(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const f16,
    a: *const f16,
    lda: i64,
    b: *const f16,
    ldb: i64,
    beta: *const f16,
    c: *mut f16,
    ldc: i64,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    let operands = [a, b, c.cast_const()].map(|base| Operand::one(base.cast(), DataType::R16F));
    half_products(call, size, ld, alpha, beta, operands, 1)
}

/// `cublasHgemmBatched`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn hgemm_batched(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const f16,
    a: *const *const f16,
    lda: i64,
    b: *const *const f16,
    ldb: i64,
    beta: *const f16,
    c: *const *mut f16,
    ldc: i64,
    batch: i64,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    let batch = dimension(batch, 14)?;
    let operands = [a, b, c.cast()].map(|array| Operand::array(array.cast(), DataType::R16F));
    half_products(call, size, ld, alpha, beta, operands, batch)
}

/// `cublasHgemmStridedBatched`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn hgemm_strided(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const f16,
    a: *const f16,
    lda: i64,
    stride_a: i64,
    b: *const f16,
    ldb: i64,
    stride_b: i64,
    beta: *const f16,
    c: *mut f16,
    ldc: i64,
    stride_c: i64,
    batch: i64,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    let batch = dimension(batch, 14)?;
    let operands = [(a, stride_a), (b, stride_b), (c.cast_const(), stride_c)];
    let operands =
        operands.map(|(base, stride)| Operand::strided(base.cast(), stride, DataType::R16F));
    half_products(call, size, ld, alpha, beta, operands, batch)
}

fn typed_batch<T: Scalars>(
    call: &Call,
    size: Size,
    ld: [usize; 3],
    alpha: *const T,
    beta: *const T,
    operands: [Pointers<T>; 3],
    batch: i64,
) -> Outcome {
    let batch = dimension(batch, 14)?;
    if size.is_empty() || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 6, &mut memory)?;
    let beta = call.scalar(beta, 11, &mut memory)?;
    let [a, b, c] = operands;
    let shapes = size.shapes(ld);
    let mut add = |operand: Pointers<T>, access, shape: Shape| match operand {
        Pointers::Strided { base, stride } => {
            memory.add(access, base, size_of::<T>(), shape.batch(batch, stride));
        }
        Pointers::Array(array) => {
            memory.add(
                Access::Read,
                array,
                size_of::<usize>(),
                Shape::packed(batch),
            );
        }
    };
    if may_be_nonzero(&alpha) {
        add(a, Access::Read, shapes[0]);
        add(b, Access::Read, shapes[1]);
    }
    if may_be_nonzero(&beta) {
        add(c, Access::Read, shapes[2]);
    }
    add(c, Access::Write, shapes[2]);
    let arguments = GemmBatched {
        operation_a: size.operation_a,
        operation_b: size.operation_b,
        m: size.m,
        n: size.n,
        k: size.k,
        alpha,
        a,
        lda: ld[0],
        b,
        ldb: ld[1],
        beta,
        c,
        ldc: ld[2],
        batch,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { batched::gemm(arguments) })
}

/// [`gemm`] for each item of a batch.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_batched<T: Scalars>(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const T,
    a: *const *const T,
    lda: i64,
    b: *const *const T,
    ldb: i64,
    beta: *const T,
    c: *const *mut T,
    ldc: i64,
    batch: i64,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    let operands = [a.cast(), b.cast(), c].map(Pointers::Array);
    typed_batch(call, size, ld, alpha, beta, operands, batch)
}

/// [`gemm_batched`] with strides.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_strided<T: Scalars>(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    stride_a: i64,
    b: *const T,
    ldb: i64,
    stride_b: i64,
    beta: *const T,
    c: *mut T,
    ldc: i64,
    stride_c: i64,
    batch: i64,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [8, 10, 13])?;
    let operands = [
        (a.cast_mut(), stride_a),
        (b.cast_mut(), stride_b),
        (c, stride_c),
    ];
    let operands = operands.map(|(base, stride)| Pointers::Strided { base, stride });
    typed_batch(call, size, ld, alpha, beta, operands, batch)
}

/// `cublasGemmBatchedEx`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_batched_ex(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const c_void,
    a: *const *const c_void,
    a_type: i32,
    lda: i64,
    b: *const *const c_void,
    b_type: i32,
    ldb: i64,
    beta: *const c_void,
    c: *const *mut c_void,
    c_type: i32,
    ldc: i64,
    batch: i64,
    compute_type: i32,
    algo: i32,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [9, 12, 16])?;
    let batch = dimension(batch, 17)?;
    algorithm(algo, 19)?;
    let types = types([a_type, b_type, c_type], compute_type)?;
    if size.is_empty() || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    Mixed {
        size,
        ld,
        alpha: call.any_scalar(alpha, types.scale, 6, &mut memory)?,
        beta: call.any_scalar(beta, types.scale, 13, &mut memory)?,
        operands: [
            Operand::array(a, types.a),
            Operand::array(b, types.b),
            Operand::array(c.cast(), types.c),
        ],
        batch,
        compute: types.compute,
        scale: types.scale,
    }
    .launch(call, memory)
}

/// `cublasGemmStridedBatchedEx`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_strided_ex(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    k: i64,
    alpha: *const c_void,
    a: *const c_void,
    a_type: i32,
    lda: i64,
    stride_a: i64,
    b: *const c_void,
    b_type: i32,
    ldb: i64,
    stride_b: i64,
    beta: *const c_void,
    c: *mut c_void,
    c_type: i32,
    ldc: i64,
    stride_c: i64,
    batch: i64,
    compute_type: i32,
    algo: i32,
) -> Outcome {
    let size = Size::new([transa, transb], [m, n, k])?;
    let ld = size.leading([lda, ldb, ldc], [9, 13, 18])?;
    let batch = dimension(batch, 20)?;
    algorithm(algo, 22)?;
    let types = types([a_type, b_type, c_type], compute_type)?;
    if size.is_empty() || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    Mixed {
        size,
        ld,
        alpha: call.any_scalar(alpha, types.scale, 6, &mut memory)?,
        beta: call.any_scalar(beta, types.scale, 15, &mut memory)?,
        operands: [
            Operand::strided(a, stride_a, types.a),
            Operand::strided(b, stride_b, types.b),
            Operand::strided(c, stride_c, types.c),
        ],
        batch,
        compute: types.compute,
        scale: types.scale,
    }
    .launch(call, memory)
}

/// Returns the elements of an array of the host.
fn array<T: Plain>(place: *const T, count: usize, parameter: u32) -> Result<Vec<T>, Failure> {
    need(!place.is_null(), parameter)?;
    let values = host::read_all(place, count);
    need(values.is_some(), parameter)?;
    Ok(values.unwrap_or_default())
}

/// [`array()`] for integers.
fn integers(place: Integers, count: usize, parameter: u32) -> Result<Vec<i64>, Failure> {
    Ok(match place {
        Integers::Wide(place) => array(place, count, parameter)?,
        Integers::Narrow(place) => {
            let values = array(place, count, parameter)?;
            values.into_iter().map(i64::from).collect()
        }
    })
}

/// The arrays of the groups of a call, each with the number of its parameter.
struct Groups {
    sizes: Vec<Size>,
    ld: Vec<[usize; 3]>,
    batches: Vec<usize>,
    /// The number of matrices of all groups.
    total: usize,
}

/// The array parameters that describe groups.
struct GroupArrays {
    transposes: [*const i32; 2],
    dimensions: [Integers; 3],
    ld: [Integers; 3],
    ld_numbers: [u32; 3],
    count: i64,
    count_number: u32,
    sizes: Integers,
}

impl Groups {
    fn read(arrays: &GroupArrays) -> Result<Groups, Failure> {
        let number = arrays.count_number;
        let count = dimension(arrays.count, number)?;
        let mut groups = Groups {
            sizes: Vec::new(),
            ld: Vec::new(),
            batches: Vec::new(),
            total: 0,
        };
        if count == 0 {
            return Ok(groups);
        }
        let [transa, transb] = arrays.transposes;
        let (transa, transb) = (array(transa, count, 1)?, array(transb, count, 2)?);
        let [m, n, k] = arrays.dimensions;
        let (m, n) = (integers(m, count, 3)?, integers(n, count, 4)?);
        let k = integers(k, count, 5)?;
        let mut ld = Vec::new();
        for (place, number) in arrays.ld.iter().zip(arrays.ld_numbers) {
            ld.push(integers(*place, count, number)?);
        }
        let batches = integers(arrays.sizes, count, number + 1)?;
        for index in 0..count {
            let size = Size::new(
                [transa[index], transb[index]],
                [m[index], n[index], k[index]],
            )?;
            let values = [ld[0][index], ld[1][index], ld[2][index]];
            groups.ld.push(size.leading(values, arrays.ld_numbers)?);
            groups.sizes.push(size);
            let batch = dimension(batches[index], number + 1)?;
            groups.batches.push(batch);
            groups.total += batch;
            need(groups.total < 1 << 40, number + 1)?;
        }
        Ok(groups)
    }

    /// Adds the arrays of addresses.
    fn add(&self, memory: &mut Memory, arrays: [*const c_void; 3]) {
        for array in arrays {
            memory.add(
                Access::Read,
                array,
                size_of::<usize>(),
                Shape::packed(self.total),
            );
        }
    }
}

/// The scalars of groups are in the host's memory.
fn on_host_only(call: &Call) -> Outcome {
    match call.settings.device_pointers {
        true => Err(Status::NOT_SUPPORTED.into()),
        false => Ok(()),
    }
}

/// `cublas<t>gemmGroupedBatched`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_grouped<T: Scalars>(
    call: &Call,
    transa: *const i32,
    transb: *const i32,
    m: Integers,
    n: Integers,
    k: Integers,
    alpha: *const T,
    a: *const *const T,
    lda: Integers,
    b: *const *const T,
    ldb: Integers,
    beta: *const T,
    c: *const *mut T,
    ldc: Integers,
    group_count: i64,
    group_size: Integers,
) -> Outcome {
    on_host_only(call)?;
    let groups = Groups::read(&GroupArrays {
        transposes: [transa, transb],
        dimensions: [m, n, k],
        ld: [lda, ldb, ldc],
        ld_numbers: [8, 10, 13],
        count: group_count,
        count_number: 14,
        sizes: group_size,
    })?;
    if groups.total == 0 {
        return Ok(());
    }
    let count = groups.sizes.len();
    let (alpha, beta) = (array(alpha, count, 6)?, array(beta, count, 11)?);
    let mut memory = Memory::default();
    groups.add(&mut memory, [a.cast(), b.cast(), c.cast()]);
    let mut first = 0;
    let mut all = Vec::new();
    for index in 0..count {
        let (size, ld) = (groups.sizes[index], groups.ld[index]);
        all.push(GemmBatched {
            operation_a: size.operation_a,
            operation_b: size.operation_b,
            m: size.m,
            n: size.n,
            k: size.k,
            alpha: margay_blas::Scalar::Value(alpha[index]),
            a: Pointers::Array(a.cast::<*mut T>().wrapping_add(first)),
            lda: ld[0],
            b: Pointers::Array(b.cast::<*mut T>().wrapping_add(first)),
            ldb: ld[1],
            beta: margay_blas::Scalar::Value(beta[index]),
            c: Pointers::Array(c.wrapping_add(first)),
            ldc: ld[2],
            batch: groups.batches[index],
        });
        first += groups.batches[index];
    }
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { batched::gemm_grouped(&all) })
}

/// `cublasGemmGroupedBatchedEx`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemm_grouped_ex(
    call: &Call,
    transa: *const i32,
    transb: *const i32,
    m: Integers,
    n: Integers,
    k: Integers,
    alpha: *const c_void,
    a: *const *const c_void,
    a_type: i32,
    lda: Integers,
    b: *const *const c_void,
    b_type: i32,
    ldb: Integers,
    beta: *const c_void,
    c: *const *mut c_void,
    c_type: i32,
    ldc: Integers,
    group_count: i64,
    group_size: Integers,
    compute_type: i32,
) -> Outcome {
    on_host_only(call)?;
    let types = types([a_type, b_type, c_type], compute_type);
    let types = types.map_err(|_| Status::NOT_SUPPORTED)?;
    let groups = Groups::read(&GroupArrays {
        transposes: [transa, transb],
        dimensions: [m, n, k],
        ld: [lda, ldb, ldc],
        ld_numbers: [9, 12, 16],
        count: group_count,
        count_number: 17,
        sizes: group_size,
    })?;
    if groups.total == 0 {
        return Ok(());
    }
    need(!alpha.is_null(), 6)?;
    need(!beta.is_null(), 13)?;
    let mut memory = Memory::default();
    groups.add(&mut memory, [a.cast(), b.cast(), c.cast()]);
    let scalar_at = |place: *const c_void, index: usize, number: u32| {
        let place = place.wrapping_byte_add(index * types.scale.size());
        let value = crate::call::host_value(place, types.scale);
        need(value.is_some(), number)?;
        Ok::<_, Failure>(AnyScalar::Value(value.unwrap_or_default()))
    };
    let mut first = 0;
    let mut all = Vec::new();
    for index in 0..groups.sizes.len() {
        let (size, ld) = (groups.sizes[index], groups.ld[index]);
        let operand =
            |array: *const *const c_void, kind| Operand::array(array.wrapping_add(first), kind);
        all.push(GemmEx {
            operation_a: size.operation_a,
            operation_b: size.operation_b,
            m: size.m,
            n: size.n,
            k: size.k,
            alpha: scalar_at(alpha, index, 6)?,
            a: operand(a, types.a).matrix(ld[0]),
            b: operand(b, types.b).matrix(ld[1]),
            beta: scalar_at(beta, index, 13)?,
            c: operand(c.cast(), types.c).matrix(ld[2]),
            batch: groups.batches[index],
            compute: types.compute,
            scale: types.scale,
        });
        first += groups.batches[index];
    }
    // SAFETY: the driver checks the memory before the plan runs.
    call.try_launch(memory, None, || unsafe { products::gemm_grouped_ex(&all) })
}
