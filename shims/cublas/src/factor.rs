//! Batches of factorisations.
//!
//! The argument `info` is an array of device memory in `getrf`, `getri` and `matinv`. In the other functions it is a variable
//! of the host that receives 0, or the negative number of a wrong parameter.

use margay_blas::factor::{self, Gels, Geqrf, Getrf, Getri, Getrs};
use margay_blas::{Operation, Pointers};

use crate::call::{Call, dimension, leading};
use crate::host;
use crate::memory::{Access, Memory, Shape};
use crate::options::operation;
use crate::status::{Failure, Outcome, Status, need};
use crate::types::Scalars;

/// Adds an array of addresses.
fn add_addresses<T>(memory: &mut Memory, array: *const T, batch: usize) {
    memory.add(
        Access::Read,
        array,
        size_of::<usize>(),
        Shape::packed(batch),
    );
}

/// Adds an array of 32-bit integers unless it is null.
fn add_integers(memory: &mut Memory, access: Access, array: *const i32, count: usize) {
    if !array.is_null() {
        memory.add(access, array, size_of::<i32>(), Shape::packed(count));
    }
}

/// Runs the body of a function and stores the number of a wrong parameter in a variable of the host.
fn with_info(info: *mut i32, body: impl FnOnce() -> Outcome) -> Outcome {
    need(host::write(info, 0).is_some(), 0)?;
    body().map_err(|failure| {
        if failure.parameter > 0 {
            // The variable was writable above.
            let _ = host::write(info, -failure.parameter.cast_signed());
        }
        Failure::from(failure.status)
    })
}

/// LU factorisations.
pub(crate) unsafe fn getrf<T: Scalars>(
    call: &Call,
    n: i64,
    a: *const *mut T,
    lda: i64,
    pivots: *mut i32,
    info: *mut i32,
    batch: i64,
) -> Outcome {
    let n = dimension(n, 1)?;
    let lda = leading(lda, n, 3)?;
    let batch = dimension(batch, 6)?;
    if n == 0 || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    add_addresses(&mut memory, a, batch);
    add_integers(&mut memory, Access::Write, pivots, n.saturating_mul(batch));
    memory.add(Access::Write, info, size_of::<i32>(), Shape::packed(batch));
    let arguments = Getrf {
        n,
        a: Pointers::Array(a),
        lda,
        pivots,
        info,
        batch,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { factor::getrf(arguments) })
}

/// Inverses from LU factorisations.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn getri<T: Scalars>(
    call: &Call,
    n: i64,
    a: *const *const T,
    lda: i64,
    pivots: *const i32,
    c: *const *mut T,
    ldc: i64,
    info: *mut i32,
    batch: i64,
) -> Outcome {
    let n = dimension(n, 1)?;
    let (lda, ldc) = (leading(lda, n, 3)?, leading(ldc, n, 6)?);
    let batch = dimension(batch, 8)?;
    if n == 0 || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    add_addresses(&mut memory, a, batch);
    add_addresses(&mut memory, c, batch);
    add_integers(&mut memory, Access::Read, pivots, n.saturating_mul(batch));
    memory.add(Access::Write, info, size_of::<i32>(), Shape::packed(batch));
    let arguments = Getri {
        n,
        a: Pointers::Array(a.cast()),
        lda,
        pivots,
        c: Pointers::Array(c),
        ldc,
        info,
        batch,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { factor::getri(arguments) })
}

/// Inverses of small matrices.
pub(crate) unsafe fn matinv<T: Scalars>(
    call: &Call,
    n: i64,
    a: *const *const T,
    lda: i64,
    inverse: *const *mut T,
    ld_inverse: i64,
    info: *mut i32,
    batch: i64,
) -> Outcome {
    /// The largest order that NVIDIA's library accepts.
    const LARGEST: usize = 32;
    let n = dimension(n, 1)?;
    let ldc = leading(ld_inverse, n, 5)?;
    let lda = leading(lda, n, 3)?;
    let batch = dimension(batch, 7)?;
    need(n <= LARGEST, 1)?;
    if n == 0 || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    add_addresses(&mut memory, a, batch);
    add_addresses(&mut memory, inverse, batch);
    memory.add(Access::Write, info, size_of::<i32>(), Shape::packed(batch));
    let arguments = Getri {
        n,
        a: Pointers::Array(a.cast()),
        lda,
        pivots: std::ptr::null(),
        c: Pointers::Array(inverse),
        ldc,
        info,
        batch,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { factor::matinv(arguments) })
}

/// Solutions from LU factorisations.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn getrs<T: Scalars>(
    call: &Call,
    trans: i32,
    n: i64,
    nrhs: i64,
    a: *const *const T,
    lda: i64,
    pivots: *const i32,
    b: *const *mut T,
    ldb: i64,
    info: *mut i32,
    batch: i64,
) -> Outcome {
    with_info(info, || {
        let operation = operation(trans, 1)?;
        let (n, nrhs) = (dimension(n, 2)?, dimension(nrhs, 3)?);
        let (lda, ldb) = (leading(lda, n, 5)?, leading(ldb, n, 8)?);
        let batch = dimension(batch, 10)?;
        if n == 0 || nrhs == 0 || batch == 0 {
            return Ok(());
        }
        let mut memory = Memory::default();
        add_addresses(&mut memory, a, batch);
        add_addresses(&mut memory, b, batch);
        add_integers(&mut memory, Access::Read, pivots, n.saturating_mul(batch));
        let arguments = Getrs {
            operation,
            n,
            nrhs,
            a: Pointers::Array(a.cast()),
            lda,
            pivots,
            b: Pointers::Array(b),
            ldb,
            batch,
        };
        // SAFETY: the driver checks the memory before the plan runs.
        call.launch(memory, || unsafe { factor::getrs(arguments) })
    })
}

/// QR factorisations.
pub(crate) unsafe fn geqrf<T: Scalars>(
    call: &Call,
    m: i64,
    n: i64,
    a: *const *mut T,
    lda: i64,
    tau: *const *mut T,
    info: *mut i32,
    batch: i64,
) -> Outcome {
    with_info(info, || {
        let (m, n) = (dimension(m, 1)?, dimension(n, 2)?);
        let lda = leading(lda, m, 4)?;
        let batch = dimension(batch, 7)?;
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        let mut memory = Memory::default();
        add_addresses(&mut memory, a, batch);
        add_addresses(&mut memory, tau, batch);
        let arguments = Geqrf {
            m,
            n,
            a: Pointers::Array(a),
            lda,
            tau: Pointers::Array(tau),
            batch,
        };
        // SAFETY: the driver checks the memory before the plan runs.
        call.launch(memory, || unsafe { factor::geqrf(arguments) })
    })
}

/// Least squares. Transposed and underdetermined systems are not supported, as in NVIDIA's library.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gels<T: Scalars>(
    call: &Call,
    trans: i32,
    m: i64,
    n: i64,
    nrhs: i64,
    a: *const *mut T,
    lda: i64,
    c: *const *mut T,
    ldc: i64,
    info: *mut i32,
    device_info: *mut i32,
    batch: i64,
) -> Outcome {
    with_info(info, || {
        let transposed = !matches!(operation(trans, 1), Ok(Operation::None));
        if transposed {
            return Err(Status::NOT_SUPPORTED.into());
        }
        let (m, n, nrhs) = (dimension(m, 2)?, dimension(n, 3)?, dimension(nrhs, 4)?);
        let (lda, ldc) = (leading(lda, m, 6)?, leading(ldc, m.max(n), 8)?);
        let batch = dimension(batch, 11)?;
        if m == 0 || n == 0 || batch == 0 {
            return Ok(());
        }
        if m < n {
            return Err(Status::NOT_SUPPORTED.into());
        }
        let mut memory = Memory::default();
        add_addresses(&mut memory, a, batch);
        add_addresses(&mut memory, c, batch);
        add_integers(&mut memory, Access::Write, device_info, batch);
        let arguments = Gels {
            m,
            n,
            nrhs,
            a: Pointers::Array(a),
            lda,
            c: Pointers::Array(c),
            ldc,
            info: device_info,
            batch,
        };
        // SAFETY: the driver checks the memory before the plan runs.
        call.launch(memory, || unsafe { factor::gels(arguments) })
    })
}
