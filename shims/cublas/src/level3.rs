//! Level 3 without general products: symmetric, Hermitian and triangular matrices, sums, diagonal products, packing.

use std::ffi::c_void;

use margay_blas::batched::{self, TrsmBatched};
use margay_blas::extra::{self, Dgmm, Geam};
use margay_blas::level3::{self, Symm, Syr2k, Syrk, Trmm, Trsm};
use margay_blas::products::{self, SyrkEx};
use margay_blas::{AnyScalar, Operation, Plan, Pointers, Side, Symmetry};

use crate::call::{Call, dimension, leading};
use crate::level1ex::kind;
use crate::level2::any;
use crate::memory::{Access, Memory, Shape};
use crate::options::{diagonal, operation, side, triangle};
use crate::status::{Failure, Outcome, Status, need};
use crate::types::{Kind, Scalars, any_may_be_nonzero, c32, may_be_nonzero};

/// Rows and columns in memory of an operand whose operation gives `rows` by `columns`.
fn stored(operation: Operation, rows: usize, columns: usize) -> (usize, usize) {
    match operation {
        Operation::None | Operation::Conjugate => (rows, columns),
        Operation::Transpose | Operation::Adjoint => (columns, rows),
    }
}

/// Returns the operation of an update. NVIDIA's library takes `T` of Hermitian updates as `C`, and `C` of symmetric updates
/// as `T`.
fn update_operation(trans: i32, hermitian: bool) -> Result<Operation, Failure> {
    Ok(match (operation(trans, 2)?, hermitian) {
        (Operation::None | Operation::Conjugate, _) => Operation::None,
        (_, true) => Operation::Adjoint,
        (_, false) => Operation::Transpose,
    })
}

macro_rules! rank_k {
    ($($name:ident $scalar:ty, $hermitian:literal;)*) => {$(
        /// An update of a symmetric or Hermitian matrix by one matrix.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            uplo: i32,
            trans: i32,
            n: i64,
            k: i64,
            alpha: *const $scalar,
            a: *const T,
            lda: i64,
            beta: *const $scalar,
            c: *mut T,
            ldc: i64,
        ) -> Outcome {
            let triangle = triangle(uplo, 1)?;
            let operation = update_operation(trans, $hermitian)?;
            let (n, k) = (dimension(n, 3)?, dimension(k, 4)?);
            let (rows, columns) = stored(operation, n, k);
            let (lda, ldc) = (leading(lda, rows, 7)?, leading(ldc, n, 10)?);
            if n == 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let alpha = call.scalar(alpha, 5, &mut memory)?;
            let beta = call.scalar(beta, 8, &mut memory)?;
            need(!c.is_null(), 9)?;
            if may_be_nonzero(&alpha) {
                memory.add(Access::Read, a, size_of::<T>(), Shape::matrix(rows, columns, lda));
            }
            memory.update(c, size_of::<T>(), Shape::matrix(n, n, ldc));
            let arguments = Syrk { triangle, operation, n, k, alpha, a, lda, beta, c, ldc };
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level3::$name(arguments) })
        }
    )*};
}

rank_k! {
    syrk T, false;
    herk T::Real, true;
}

macro_rules! rank_2k {
    ($($name:ident $scalar:ty, $hermitian:literal;)*) => {$(
        /// An update of a symmetric or Hermitian matrix by two matrices.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            uplo: i32,
            trans: i32,
            n: i64,
            k: i64,
            alpha: *const T,
            a: *const T,
            lda: i64,
            b: *const T,
            ldb: i64,
            beta: *const $scalar,
            c: *mut T,
            ldc: i64,
        ) -> Outcome {
            let triangle = triangle(uplo, 1)?;
            let operation = update_operation(trans, $hermitian)?;
            let (n, k) = (dimension(n, 3)?, dimension(k, 4)?);
            let (rows, columns) = stored(operation, n, k);
            let (lda, ldb) = (leading(lda, rows, 7)?, leading(ldb, rows, 9)?);
            let ldc = leading(ldc, n, 12)?;
            if n == 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let alpha = call.scalar(alpha, 5, &mut memory)?;
            let beta = call.scalar(beta, 10, &mut memory)?;
            need(!c.is_null(), 11)?;
            if may_be_nonzero(&alpha) {
                memory.add(Access::Read, a, size_of::<T>(), Shape::matrix(rows, columns, lda));
                memory.add(Access::Read, b, size_of::<T>(), Shape::matrix(rows, columns, ldb));
            }
            memory.update(c, size_of::<T>(), Shape::matrix(n, n, ldc));
            let arguments = Syr2k { triangle, operation, n, k, alpha, a, lda, b, ldb, beta, c, ldc };
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level3::$name(arguments) })
        }
    )*};
}

rank_2k! {
    syr2k T, false;
    her2k T::Real, true;
    syrkx T, false;
    herkx T::Real, true;
}

macro_rules! symmetric_products {
    ($($name:ident $symmetry:ident;)*) => {$(
        /// A product with a symmetric or Hermitian matrix.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            at: i32,
            uplo: i32,
            m: i64,
            n: i64,
            alpha: *const T,
            a: *const T,
            lda: i64,
            b: *const T,
            ldb: i64,
            beta: *const T,
            c: *mut T,
            ldc: i64,
        ) -> Outcome {
            let (side, triangle) = (side(at, 1)?, triangle(uplo, 2)?);
            let (m, n) = (dimension(m, 3)?, dimension(n, 4)?);
            let order = if side == Side::Left { m } else { n };
            let (lda, ldb) = (leading(lda, order, 7)?, leading(ldb, m, 9)?);
            let ldc = leading(ldc, m, 12)?;
            if m == 0 || n == 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let alpha = call.scalar(alpha, 5, &mut memory)?;
            let beta = call.scalar(beta, 10, &mut memory)?;
            need(!c.is_null(), 11)?;
            let size = size_of::<T>();
            if may_be_nonzero(&alpha) {
                memory.add(Access::Read, a, size, Shape::matrix(order, order, lda));
                memory.add(Access::Read, b, size, Shape::matrix(m, n, ldb));
            }
            memory.output(c, size, Shape::matrix(m, n, ldc), may_be_nonzero(&beta));
            let symmetry = Symmetry::$symmetry;
            let arguments = Symm { symmetry, side, triangle, m, n, alpha, a, lda, b, ldb, beta, c, ldc };
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level3::symm(arguments) })
        }
    )*};
}

symmetric_products! {
    symm Symmetric;
    hemm Hermitian;
}

/// A product with a packed symmetric matrix (cublasXt): the matrix is unpacked first.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn spmm<T: Scalars>(
    call: &Call,
    at: i32,
    uplo: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    ap: *const T,
    b: *const T,
    ldb: i64,
    beta: *const T,
    c: *mut T,
    ldc: i64,
) -> Outcome {
    let (side, triangle) = (side(at, 1)?, triangle(uplo, 2)?);
    let (m, n) = (dimension(m, 3)?, dimension(n, 4)?);
    let order = if side == Side::Left { m } else { n };
    let (ldb, ldc) = (leading(ldb, m, 8)?, leading(ldc, m, 11)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 5, &mut memory)?;
    let beta = call.scalar(beta, 9, &mut memory)?;
    need(!c.is_null(), 10)?;
    let size = size_of::<T>();
    memory.add(Access::Read, ap, size, Shape::packed_triangle(order));
    memory.add(Access::Read, b, size, Shape::matrix(m, n, ldb));
    memory.output(c, size, Shape::matrix(m, n, ldc), may_be_nonzero(&beta));
    let mut full: Vec<T> = Vec::new();
    let elements = order.checked_mul(order).ok_or(Status::ALLOC_FAILED)?;
    full.try_reserve_exact(elements)
        .map_err(|_| Status::ALLOC_FAILED)?;
    full.resize(elements, T::default());
    let a = full.as_mut_ptr();
    let arguments = Symm {
        symmetry: Symmetry::Symmetric,
        side,
        triangle,
        m,
        n,
        alpha,
        a,
        lda: order,
        b,
        ldb,
        beta,
        c,
        ldc,
    };
    call.launch_keeping(memory, Some(std::sync::Arc::new(full)), || {
        // SAFETY: the driver checks the memory before the plan runs; the full matrix lives as long as the plan.
        let mut plan = unsafe { extra::tpttr(triangle, order, ap, a, order) };
        // SAFETY: as above.
        plan.stages
            .extend(unsafe { level3::symm(arguments) }.stages);
        plan
    })
}

/// The options and dimensions of a function with a triangular matrix.
struct Triangular {
    side: Side,
    triangle: margay_blas::Triangle,
    operation: Operation,
    diagonal: margay_blas::Diagonal,
    m: usize,
    n: usize,
    /// The order of the triangular matrix.
    order: usize,
    lda: usize,
}

impl Triangular {
    fn new([at, uplo, trans, diag]: [i32; 4], m: i64, n: i64, lda: i64) -> Result<Self, Failure> {
        let (side, triangle) = (side(at, 1)?, triangle(uplo, 2)?);
        let (operation, diagonal) = (operation(trans, 3)?, diagonal(diag, 4)?);
        let (m, n) = (dimension(m, 5)?, dimension(n, 6)?);
        let order = if side == Side::Left { m } else { n };
        Ok(Triangular {
            side,
            triangle,
            operation,
            diagonal,
            m,
            n,
            order,
            lda: leading(lda, order, 9)?,
        })
    }
}

/// Solves `op(A) X = alpha B` or `X op(A) = alpha B`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn trsm<T: Scalars>(
    call: &Call,
    at: i32,
    uplo: i32,
    trans: i32,
    diag: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    b: *mut T,
    ldb: i64,
) -> Outcome {
    let options = Triangular::new([at, uplo, trans, diag], m, n, lda)?;
    let Triangular { m, n, lda, .. } = options;
    let ldb = leading(ldb, m, 11)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 7, &mut memory)?;
    let order = options.order;
    let nonzero = may_be_nonzero(&alpha);
    if nonzero {
        memory.add(
            Access::Read,
            a,
            size_of::<T>(),
            Shape::matrix(order, order, lda),
        );
    }
    memory.output(b, size_of::<T>(), Shape::matrix(m, n, ldb), nonzero);
    let arguments = Trsm {
        side: options.side,
        triangle: options.triangle,
        operation: options.operation,
        diagonal: options.diagonal,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level3::trsm(arguments) })
}

/// `C = alpha op(A) B` or `C = alpha B op(A)`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn trmm<T: Scalars>(
    call: &Call,
    at: i32,
    uplo: i32,
    trans: i32,
    diag: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    b: *const T,
    ldb: i64,
    c: *mut T,
    ldc: i64,
) -> Outcome {
    let options = Triangular::new([at, uplo, trans, diag], m, n, lda)?;
    let Triangular { m, n, lda, .. } = options;
    let ldb = leading(ldb, m, 11)?;
    let ldc = leading(ldc, m, 13)?;
    // In place, the matrices are the same.
    need(!std::ptr::eq(b, c) || ldb == ldc, 13)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 7, &mut memory)?;
    need(!c.is_null(), 12)?;
    let order = options.order;
    if may_be_nonzero(&alpha) {
        memory.add(
            Access::Read,
            a,
            size_of::<T>(),
            Shape::matrix(order, order, lda),
        );
        memory.add(Access::Read, b, size_of::<T>(), Shape::matrix(m, n, ldb));
    }
    memory.add(Access::Write, c, size_of::<T>(), Shape::matrix(m, n, ldc));
    let arguments = Trmm {
        side: options.side,
        triangle: options.triangle,
        operation: options.operation,
        diagonal: options.diagonal,
        m,
        n,
        alpha,
        a,
        lda,
        b,
        ldb,
        c,
        ldc,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level3::trmm(arguments) })
}

/// `trmm` of the legacy interface, which replaces `B`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn trmm_in_place<T: Scalars>(
    call: &Call,
    at: i32,
    uplo: i32,
    trans: i32,
    diag: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    b: *mut T,
    ldb: i64,
) -> Outcome {
    // SAFETY: all addresses are allowed.
    unsafe {
        trmm(
            call, at, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, b, ldb,
        )
    }
}

/// [`trsm`] for each item of a batch.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn trsm_batched<T: Scalars>(
    call: &Call,
    at: i32,
    uplo: i32,
    trans: i32,
    diag: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    a: *const *const T,
    lda: i64,
    b: *const *mut T,
    ldb: i64,
    batch: i64,
) -> Outcome {
    let options = Triangular::new([at, uplo, trans, diag], m, n, lda)?;
    let Triangular { m, n, lda, .. } = options;
    let ldb = leading(ldb, m, 11)?;
    let batch = dimension(batch, 12)?;
    if m == 0 || n == 0 || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 7, &mut memory)?;
    memory.add(Access::Read, a, size_of::<usize>(), Shape::packed(batch));
    memory.add(Access::Read, b, size_of::<usize>(), Shape::packed(batch));
    let arguments = TrsmBatched {
        side: options.side,
        triangle: options.triangle,
        operation: options.operation,
        diagonal: options.diagonal,
        m,
        n,
        alpha,
        a: Pointers::Array(a.cast()),
        lda,
        b: Pointers::Array(b),
        ldb,
        batch,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { batched::trsm(arguments) })
}

/// `C = alpha op(A) + beta op(B)`. NVIDIA's libraries pass null for a factor that is 0.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn geam<T: Scalars>(
    call: &Call,
    transa: i32,
    transb: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    beta: *const T,
    b: *const T,
    ldb: i64,
    c: *mut T,
    ldc: i64,
) -> Outcome {
    let (operation_a, operation_b) = (operation(transa, 1)?, operation(transb, 2)?);
    let (m, n) = (dimension(m, 3)?, dimension(n, 4)?);
    let (of_a, of_b) = (stored(operation_a, m, n), stored(operation_b, m, n));
    let (lda, ldb) = (leading(lda, of_a.0, 7)?, leading(ldb, of_b.0, 10)?);
    let ldc = leading(ldc, m, 12)?;
    // In place, the operand is not transposed and has the same leading dimension.
    let in_place = |operand: *const T, operation, ld| {
        !std::ptr::eq(operand, c) || c.is_null() || (operation == Operation::None && ld == ldc)
    };
    need(in_place(a, operation_a, lda), 6)?;
    need(in_place(b, operation_b, ldb), 9)?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    // cuSOLVER passes null for the factor of the operand that it does not want.
    let alpha = call.optional_scalar(alpha, 5, &mut memory)?;
    let beta = call.optional_scalar(beta, 8, &mut memory)?;
    let size = size_of::<T>();
    if may_be_nonzero(&alpha) {
        memory.add(Access::Read, a, size, Shape::matrix(of_a.0, of_a.1, lda));
    }
    if may_be_nonzero(&beta) {
        memory.add(Access::Read, b, size, Shape::matrix(of_b.0, of_b.1, ldb));
    }
    memory.add(Access::Write, c, size, Shape::matrix(m, n, ldc));
    let arguments = Geam {
        operation_a,
        operation_b,
        m,
        n,
        alpha,
        a,
        lda,
        beta,
        b,
        ldb,
        c,
        ldc,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { extra::geam(arguments) })
}

/// `C = diag(x) A` or `C = A diag(x)`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn dgmm<T: Scalars>(
    call: &Call,
    mode: i32,
    m: i64,
    n: i64,
    a: *const T,
    lda: i64,
    x: *const T,
    incx: i64,
    c: *mut T,
    ldc: i64,
) -> Outcome {
    let side = side(mode, 1)?;
    let (m, n) = (dimension(m, 2)?, dimension(n, 3)?);
    let (lda, ldc) = (leading(lda, m, 5)?, leading(ldc, m, 9)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let order = if side == Side::Left { m } else { n };
    let mut memory = Memory::default();
    memory.add(Access::Read, a, size_of::<T>(), Shape::matrix(m, n, lda));
    memory.add(Access::Read, x, size_of::<T>(), Shape::vector(order, incx));
    memory.add(Access::Write, c, size_of::<T>(), Shape::matrix(m, n, ldc));
    let arguments = Dgmm {
        side,
        m,
        n,
        a,
        lda,
        x,
        incx,
        c,
        ldc,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { extra::dgmm(arguments) })
}

/// Unpacks a triangle.
pub(crate) unsafe fn tpttr<T: Scalars>(
    call: &Call,
    uplo: i32,
    n: i64,
    ap: *const T,
    a: *mut T,
    lda: i64,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let n = dimension(n, 2)?;
    let lda = leading(lda, n, 5)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    memory.add(Access::Read, ap, size_of::<T>(), Shape::packed_triangle(n));
    memory.update(a, size_of::<T>(), Shape::matrix(n, n, lda));
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { extra::tpttr(triangle, n, ap, a, lda) })
}

/// Packs a triangle.
pub(crate) unsafe fn trttp<T: Scalars>(
    call: &Call,
    uplo: i32,
    n: i64,
    a: *const T,
    lda: i64,
    ap: *mut T,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let n = dimension(n, 2)?;
    let lda = leading(lda, n, 4)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    memory.add(Access::Read, a, size_of::<T>(), Shape::matrix(n, n, lda));
    memory.add(Access::Write, ap, size_of::<T>(), Shape::packed_triangle(n));
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { extra::trttp(triangle, n, a, lda, ap) })
}

fn update_ex<S: Kind>(
    call: &Call,
    hermitian: bool,
    [uplo, trans]: [i32; 2],
    [n, k]: [i64; 2],
    (alpha, beta): (*const S, *const S),
    (a, a_type, lda): (*const c_void, i32, i64),
    (c, c_type, ldc): (*mut c_void, i32, i64),
    plan: unsafe fn(SyrkEx) -> Option<Plan>,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let operation = update_operation(trans, hermitian)?;
    let (n, k) = (dimension(n, 3)?, dimension(k, 4)?);
    let (rows, columns) = stored(operation, n, k);
    let (lda, ldc) = (leading(lda, rows, 7)?, leading(ldc, n, 10)?);
    let a_type = kind(a_type, Status::INVALID_VALUE)?;
    let c_type = kind(c_type, Status::INVALID_VALUE)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha: AnyScalar = any(call.scalar(alpha, 5, &mut memory)?);
    let beta = any(call.scalar(beta, 8, &mut memory)?);
    if any_may_be_nonzero(&alpha) {
        memory.add(
            Access::Read,
            a,
            a_type.size(),
            Shape::matrix(rows, columns, lda),
        );
    }
    memory.update(c, c_type.size(), Shape::matrix(n, n, ldc));
    let arguments = SyrkEx {
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
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.try_launch(memory, None, || unsafe { plan(arguments) })
}

macro_rules! updates_ex {
    ($($name:ident $scalar:ty, $hermitian:literal;)*) => {$(
        /// An update of a matrix in single precision by a matrix that may be narrower.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $name(
            call: &Call,
            uplo: i32,
            trans: i32,
            n: i64,
            k: i64,
            alpha: *const $scalar,
            a: *const c_void,
            a_type: i32,
            lda: i64,
            beta: *const $scalar,
            c: *mut c_void,
            c_type: i32,
            ldc: i64,
        ) -> Outcome {
            let (a, c) = ((a, a_type, lda), (c, c_type, ldc));
            update_ex(call, $hermitian, [uplo, trans], [n, k], (alpha, beta), a, c, products::$name)
        }
    )*};
}

updates_ex! {
    syrk_ex c32, false;
    herk_ex f32, true;
}
