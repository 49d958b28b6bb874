//! Level 2: a matrix and vectors.

use margay_blas::level2::{self, Gbmv, Gemv, Ger, Symv, Syr, Syr2, Trmv};
use margay_blas::products::AnyMatrix;
use margay_blas::{AnyScalar, Conjugation, Form, Pointers, Scalar, Symmetry, batched};

use crate::call::{Call, dimension, leading};
use crate::memory::{Access, Memory, Shape};
use crate::options::{diagonal, operation, triangle};
use crate::status::{Failure, Outcome, need};
use crate::types::{Kind, Scalars, may_be_nonzero};

/// Checks an increment.
fn increment(value: i64, parameter: u32) -> Result<i64, Failure> {
    need(value != 0, parameter)?;
    Ok(value)
}

/// Returns the lengths of `x` and `y` of a product of an m by n matrix and a vector.
fn lengths(transposed: bool, m: usize, n: usize) -> (usize, usize) {
    if transposed { (m, n) } else { (n, m) }
}

/// `y = alpha op(A) x + beta y`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemv<T: Scalars>(
    call: &Call,
    trans: i32,
    m: i64,
    n: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    x: *const T,
    incx: i64,
    beta: *const T,
    y: *mut T,
    incy: i64,
) -> Outcome {
    let operation = operation(trans, 1)?;
    let (m, n) = (dimension(m, 2)?, dimension(n, 3)?);
    let lda = leading(lda, m, 6)?;
    let (incx, incy) = (increment(incx, 8)?, increment(incy, 11)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 4, &mut memory)?;
    let beta = call.scalar(beta, 9, &mut memory)?;
    let (of_x, of_y) = lengths(operation != margay_blas::Operation::None, m, n);
    let size = size_of::<T>();
    if may_be_nonzero(&alpha) {
        memory.add(Access::Read, a, size, Shape::matrix(m, n, lda));
        memory.add(Access::Read, x, size, Shape::vector(of_x, incx));
    }
    memory.output(y, size, Shape::vector(of_y, incy), may_be_nonzero(&beta));
    let arguments = Gemv {
        operation,
        m,
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level2::gemv(arguments) })
}

/// [`gemv`] for a band matrix.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gbmv<T: Scalars>(
    call: &Call,
    trans: i32,
    m: i64,
    n: i64,
    kl: i64,
    ku: i64,
    alpha: *const T,
    a: *const T,
    lda: i64,
    x: *const T,
    incx: i64,
    beta: *const T,
    y: *mut T,
    incy: i64,
) -> Outcome {
    let operation = operation(trans, 1)?;
    let (m, n) = (dimension(m, 2)?, dimension(n, 3)?);
    let (kl, ku) = (dimension(kl, 4)?, dimension(ku, 5)?);
    let lda = leading(lda, kl + ku + 1, 8)?;
    let (incx, incy) = (increment(incx, 10)?, increment(incy, 13)?);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 6, &mut memory)?;
    let beta = call.scalar(beta, 11, &mut memory)?;
    let (of_x, of_y) = lengths(operation != margay_blas::Operation::None, m, n);
    let size = size_of::<T>();
    if may_be_nonzero(&alpha) {
        let columns = n.min(m.saturating_add(ku));
        memory.add(
            Access::Read,
            a,
            size,
            Shape::matrix(kl + ku + 1, columns, lda),
        );
        memory.add(Access::Read, x, size, Shape::vector(of_x, incx));
    }
    memory.output(y, size, Shape::vector(of_y, incy), may_be_nonzero(&beta));
    let gemv = Gemv {
        operation,
        m,
        n,
        alpha,
        a,
        lda,
        x,
        incx,
        beta,
        y,
        incy,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level2::gbmv(Gbmv { gemv, kl, ku }) })
}

/// The stored part of an n by n matrix.
fn shape_of(form: Form, n: usize) -> Shape {
    match form {
        Form::Full { ld } => Shape::matrix(n, n, ld),
        Form::Band { k, ld } => Shape::matrix(k + 1, n, ld),
        Form::Packed => Shape::packed_triangle(n),
    }
}

/// Adds a triangular or symmetric matrix.
fn add_triangle<T>(memory: &mut Memory, form: Form, n: usize, a: *const T, writes: bool) {
    memory.add(Access::Read, a, size_of::<T>(), shape_of(form, n));
    if writes {
        memory.add(Access::Write, a, size_of::<T>(), shape_of(form, n));
    }
}

/// The numbers of the parameters of a function: the order, the scalars, and the increments.
#[derive(Clone, Copy)]
struct Numbers {
    alpha: u32,
    incx: u32,
    beta: u32,
    incy: u32,
}

/// The vectors of a product or an update.
#[derive(Clone, Copy)]
struct Vectors<T> {
    x: *const T,
    incx: i64,
    y: *mut T,
    incy: i64,
}

/// The matrix of a function: its triangle, its order and its form. The form is known after the order.
type FormOf<'a> = &'a dyn Fn(usize) -> Result<Form, Failure>;

#[expect(clippy::too_many_arguments, reason = "the parameters of C functions")]
fn symmetric_product<T: Scalars>(
    call: &Call,
    symmetry: Symmetry,
    uplo: i32,
    n: i64,
    form: FormOf<'_>,
    a: *const T,
    (alpha, beta): (*const T, *const T),
    vectors: Vectors<T>,
    numbers: Numbers,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let n = dimension(n, 2)?;
    let form = form(n)?;
    let Vectors { x, incx, y, incy } = vectors;
    increment(incx, numbers.incx)?;
    increment(incy, numbers.incy)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, numbers.alpha, &mut memory)?;
    let beta = call.scalar(beta, numbers.beta, &mut memory)?;
    if may_be_nonzero(&alpha) {
        add_triangle(&mut memory, form, n, a, false);
        memory.add(Access::Read, x, size_of::<T>(), Shape::vector(n, incx));
    }
    let shape = Shape::vector(n, incy);
    memory.output(y, size_of::<T>(), shape, may_be_nonzero(&beta));
    let arguments = Symv {
        symmetry,
        form,
        triangle,
        n,
        alpha,
        a,
        x,
        incx,
        beta,
        y,
        incy,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level2::symv(arguments) })
}

macro_rules! symmetric_products {
    ($($full:ident $band:ident $packed:ident $symmetry:ident;)*) => {$(
        /// `y = alpha A x + beta y` for a full matrix.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $full<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            alpha: *const T,
            a: *const T,
            lda: i64,
            x: *const T,
            incx: i64,
            beta: *const T,
            y: *mut T,
            incy: i64,
        ) -> Outcome {
            let form = |n| Ok(Form::Full { ld: leading(lda, n, 5)? });
            let numbers = Numbers { alpha: 3, incx: 7, beta: 8, incy: 10 };
            let vectors = Vectors { x, incx, y, incy };
            symmetric_product(call, Symmetry::$symmetry, uplo, n, &form, a, (alpha, beta), vectors, numbers)
        }

        /// `y = alpha A x + beta y` for a band matrix.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $band<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            k: i64,
            alpha: *const T,
            a: *const T,
            lda: i64,
            x: *const T,
            incx: i64,
            beta: *const T,
            y: *mut T,
            incy: i64,
        ) -> Outcome {
            let form = |_| band(k, 3, lda, 6);
            let numbers = Numbers { alpha: 4, incx: 8, beta: 9, incy: 11 };
            let vectors = Vectors { x, incx, y, incy };
            symmetric_product(call, Symmetry::$symmetry, uplo, n, &form, a, (alpha, beta), vectors, numbers)
        }

        /// `y = alpha A x + beta y` for a packed matrix.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $packed<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            alpha: *const T,
            a: *const T,
            x: *const T,
            incx: i64,
            beta: *const T,
            y: *mut T,
            incy: i64,
        ) -> Outcome {
            let form = |_| Ok(Form::Packed);
            let numbers = Numbers { alpha: 3, incx: 6, beta: 7, incy: 9 };
            let vectors = Vectors { x, incx, y, incy };
            symmetric_product(call, Symmetry::$symmetry, uplo, n, &form, a, (alpha, beta), vectors, numbers)
        }
    )*};
}

symmetric_products! {
    symv sbmv spmv Symmetric;
    hemv hbmv hpmv Hermitian;
}

/// Returns the form of a band matrix.
fn band(k: i64, of_k: u32, lda: i64, of_lda: u32) -> Result<Form, Failure> {
    let k = dimension(k, of_k)?;
    let ld = leading(lda, k + 1, of_lda)?;
    Ok(Form::Band { k, ld })
}

fn triangular<T: Scalars>(
    call: &Call,
    [uplo, trans, diag]: [i32; 3],
    n: i64,
    form: FormOf<'_>,
    a: *const T,
    (x, incx, of_incx): (*mut T, i64, u32),
    plan: unsafe fn(Trmv<T>) -> margay_blas::Plan,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let operation = operation(trans, 2)?;
    let diagonal = diagonal(diag, 3)?;
    let n = dimension(n, 4)?;
    let form = form(n)?;
    increment(incx, of_incx)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    memory.add(Access::Read, a, size_of::<T>(), shape_of(form, n));
    memory.update(x, size_of::<T>(), Shape::vector(n, incx));
    let arguments = Trmv {
        form,
        triangle,
        operation,
        diagonal,
        n,
        a,
        x,
        incx,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { plan(arguments) })
}

macro_rules! triangular_functions {
    ($($full:ident $band:ident $packed:ident $plan:ident;)*) => {$(
        /// A full triangular matrix and a vector.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $full<T: Scalars>(
            call: &Call,
            uplo: i32,
            trans: i32,
            diag: i32,
            n: i64,
            a: *const T,
            lda: i64,
            x: *mut T,
            incx: i64,
        ) -> Outcome {
            let form = |n| Ok(Form::Full { ld: leading(lda, n, 6)? });
            triangular(call, [uplo, trans, diag], n, &form, a, (x, incx, 8), level2::$plan)
        }

        /// A triangular band matrix and a vector.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $band<T: Scalars>(
            call: &Call,
            uplo: i32,
            trans: i32,
            diag: i32,
            n: i64,
            k: i64,
            a: *const T,
            lda: i64,
            x: *mut T,
            incx: i64,
        ) -> Outcome {
            let form = |_| band(k, 5, lda, 7);
            triangular(call, [uplo, trans, diag], n, &form, a, (x, incx, 9), level2::$plan)
        }

        /// A packed triangular matrix and a vector.
        pub(crate) unsafe fn $packed<T: Scalars>(
            call: &Call,
            uplo: i32,
            trans: i32,
            diag: i32,
            n: i64,
            a: *const T,
            x: *mut T,
            incx: i64,
        ) -> Outcome {
            let form = |_| Ok(Form::Packed);
            triangular(call, [uplo, trans, diag], n, &form, a, (x, incx, 7), level2::$plan)
        }
    )*};
}

triangular_functions! {
    trmv tbmv tpmv trmv;
    trsv tbsv tpsv trsv;
}

macro_rules! updates {
    ($($name:ident $conjugation:ident;)*) => {$(
        /// `A = alpha x y^T + A`.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            m: i64,
            n: i64,
            alpha: *const T,
            x: *const T,
            incx: i64,
            y: *const T,
            incy: i64,
            a: *mut T,
            lda: i64,
        ) -> Outcome {
            let (m, n) = (dimension(m, 1)?, dimension(n, 2)?);
            let (incx, incy) = (increment(incx, 5)?, increment(incy, 7)?);
            let lda = leading(lda, m, 9)?;
            if m == 0 || n == 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let alpha = call.scalar(alpha, 3, &mut memory)?;
            let size = size_of::<T>();
            if may_be_nonzero(&alpha) {
                memory.add(Access::Read, x, size, Shape::vector(m, incx));
                memory.add(Access::Read, y, size, Shape::vector(n, incy));
                memory.update(a, size, Shape::matrix(m, n, lda));
            }
            let conjugation = Conjugation::$conjugation;
            let arguments = Ger { conjugation, m, n, alpha, x, incx, y, incy, a, lda };
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level2::ger(arguments) })
        }
    )*};
}

updates! {
    ger Plain;
    gerc Conjugate;
}

fn rank_one<T: Scalars, S: Kind>(
    call: &Call,
    uplo: i32,
    n: i64,
    alpha: *const S,
    (x, incx): (*const T, i64),
    a: *mut T,
    form: FormOf<'_>,
    plan: unsafe fn(Syr<T, S>) -> margay_blas::Plan,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let n = dimension(n, 2)?;
    increment(incx, 5)?;
    let form = form(n)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 3, &mut memory)?;
    if may_be_nonzero(&alpha) {
        memory.add(Access::Read, x, size_of::<T>(), Shape::vector(n, incx));
        add_triangle(&mut memory, form, n, a.cast_const(), true);
    }
    let arguments = Syr {
        form,
        triangle,
        n,
        alpha,
        x,
        incx,
        a,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { plan(arguments) })
}

macro_rules! rank_one_updates {
    ($($full:ident $packed:ident $scalar:ty, $plan:ident;)*) => {$(
        /// An update of a full symmetric or Hermitian matrix by one vector.
        pub(crate) unsafe fn $full<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            alpha: *const $scalar,
            x: *const T,
            incx: i64,
            a: *mut T,
            lda: i64,
        ) -> Outcome {
            let form = |n| Ok(Form::Full { ld: leading(lda, n, 7)? });
            rank_one(call, uplo, n, alpha, (x, incx), a, &form, level2::$plan)
        }

        /// An update of a packed symmetric or Hermitian matrix by one vector.
        pub(crate) unsafe fn $packed<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            alpha: *const $scalar,
            x: *const T,
            incx: i64,
            a: *mut T,
        ) -> Outcome {
            rank_one(call, uplo, n, alpha, (x, incx), a, &|_| Ok(Form::Packed), level2::$plan)
        }
    )*};
}

rank_one_updates! {
    syr spr T, syr;
    her hpr T::Real, her;
}

#[expect(clippy::too_many_arguments, reason = "the parameters of C functions")]
fn rank_two<T: Scalars>(
    call: &Call,
    symmetry: Symmetry,
    uplo: i32,
    n: i64,
    alpha: *const T,
    (x, incx): (*const T, i64),
    (y, incy): (*const T, i64),
    a: *mut T,
    form: FormOf<'_>,
) -> Outcome {
    let triangle = triangle(uplo, 1)?;
    let n = dimension(n, 2)?;
    increment(incx, 5)?;
    increment(incy, 7)?;
    let form = form(n)?;
    if n == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 3, &mut memory)?;
    if may_be_nonzero(&alpha) {
        memory.add(Access::Read, x, size_of::<T>(), Shape::vector(n, incx));
        memory.add(Access::Read, y, size_of::<T>(), Shape::vector(n, incy));
        add_triangle(&mut memory, form, n, a.cast_const(), true);
    }
    let arguments = Syr2 {
        symmetry,
        form,
        triangle,
        n,
        alpha,
        x,
        incx,
        y,
        incy,
        a,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level2::syr2(arguments) })
}

macro_rules! rank_two_updates {
    ($($full:ident $packed:ident $symmetry:ident;)*) => {$(
        /// An update of a full symmetric or Hermitian matrix by two vectors.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $full<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            alpha: *const T,
            x: *const T,
            incx: i64,
            y: *const T,
            incy: i64,
            a: *mut T,
            lda: i64,
        ) -> Outcome {
            let form = |n| Ok(Form::Full { ld: leading(lda, n, 9)? });
            rank_two(call, Symmetry::$symmetry, uplo, n, alpha, (x, incx), (y, incy), a, &form)
        }

        /// An update of a packed symmetric or Hermitian matrix by two vectors.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $packed<T: Scalars>(
            call: &Call,
            uplo: i32,
            n: i64,
            alpha: *const T,
            x: *const T,
            incx: i64,
            y: *const T,
            incy: i64,
            a: *mut T,
        ) -> Outcome {
            let form = |_| Ok(Form::Packed);
            rank_two(call, Symmetry::$symmetry, uplo, n, alpha, (x, incx), (y, incy), a, &form)
        }
    )*};
}

rank_two_updates! {
    syr2 spr2 Symmetric;
    her2 hpr2 Hermitian;
}

/// Returns a scalar for a routine of mixed types.
pub(crate) fn any<S: Kind>(scalar: Scalar<S>) -> AnyScalar {
    match scalar {
        Scalar::Value(value) => AnyScalar::Value(value.widen()),
        Scalar::At(address) => AnyScalar::At {
            address: address.cast(),
            kind: S::KIND,
        },
    }
}

/// The matrices or vectors of a batch: addresses, or an address and the distance of items.
#[derive(Clone, Copy)]
enum Items<T> {
    Array(*const *const T),
    Strided(*const T, i64),
}

impl<T: Kind> Items<T> {
    /// Adds the memory of the operand. Of addresses in memory only the array is known.
    fn add(self, memory: &mut Memory, access: &[Access], shape: Shape, batch: usize) {
        match self {
            Items::Array(array) => {
                memory.add(
                    Access::Read,
                    array,
                    size_of::<*const T>(),
                    Shape::packed(batch),
                );
            }
            Items::Strided(base, stride) => {
                for access in access {
                    memory.add(*access, base, size_of::<T>(), shape.batch(batch, stride));
                }
            }
        }
    }

    fn matrix(self, ld: usize) -> AnyMatrix {
        let data = match self {
            Items::Array(array) => Pointers::Array(array.cast()),
            Items::Strided(base, stride) => Pointers::Strided {
                base: base.cast_mut().cast(),
                stride,
            },
        };
        AnyMatrix {
            data,
            kind: T::KIND,
            ld,
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the parameters of C functions")]
fn batch_of_products<T: Kind, U: Kind, S: Kind>(
    call: &Call,
    trans: i32,
    (m, n): (i64, i64),
    (alpha, beta): (*const S, *const S),
    (a, lda): (Items<T>, i64),
    (x, incx): (Items<T>, i64),
    (y, incy): (Items<U>, i64),
    batch: i64,
    strided: bool,
) -> Outcome {
    // The numbers of the parameters: with strides, there is one more after each operand.
    let shift = u32::from(strided);
    let operation = operation(trans, 1)?;
    let (m, n) = (dimension(m, 2)?, dimension(n, 3)?);
    let lda = leading(lda, m, 6)?;
    increment(incx, 8 + shift)?;
    increment(incy, 11 + 2 * shift)?;
    let batch = dimension(batch, 12 + 3 * shift)?;
    if m == 0 || n == 0 || batch == 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 4, &mut memory)?;
    let beta = call.scalar(beta, 9 + 2 * shift, &mut memory)?;
    let (of_x, of_y) = lengths(operation != margay_blas::Operation::None, m, n);
    if may_be_nonzero(&alpha) {
        a.add(
            &mut memory,
            &[Access::Read],
            Shape::matrix(m, n, lda),
            batch,
        );
        x.add(
            &mut memory,
            &[Access::Read],
            Shape::vector(of_x, incx),
            batch,
        );
    }
    let accesses: &[Access] = match may_be_nonzero(&beta) {
        true => &[Access::Read, Access::Write],
        false => &[Access::Write],
    };
    y.add(&mut memory, accesses, Shape::vector(of_y, incy), batch);
    let arguments = batched::GemvBatched {
        operation,
        m,
        n,
        alpha: any(alpha),
        a: a.matrix(lda),
        x: x.matrix(1),
        incx,
        beta: any(beta),
        y: y.matrix(1),
        incy,
        batch,
    };
    // SAFETY: the driver checks the memory before the plan runs.
    call.try_launch(memory, None, || unsafe { batched::gemv(arguments) })
}

/// [`gemv`] for each item of a batch.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemv_batched<T: Kind, U: Kind, S: Kind>(
    call: &Call,
    trans: i32,
    m: i64,
    n: i64,
    alpha: *const S,
    a: *const *const T,
    lda: i64,
    x: *const *const T,
    incx: i64,
    beta: *const S,
    y: *const *mut U,
    incy: i64,
    batch: i64,
) -> Outcome {
    let (a, x, y) = (
        Items::Array(a),
        Items::Array(x),
        Items::Array(y.cast::<*const U>()),
    );
    let scalars = (alpha, beta);
    batch_of_products(
        call,
        trans,
        (m, n),
        scalars,
        (a, lda),
        (x, incx),
        (y, incy),
        batch,
        false,
    )
}

/// [`gemv_batched`] with strides.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn gemv_strided<T: Kind, U: Kind, S: Kind>(
    call: &Call,
    trans: i32,
    m: i64,
    n: i64,
    alpha: *const S,
    a: *const T,
    lda: i64,
    stride_a: i64,
    x: *const T,
    incx: i64,
    stride_x: i64,
    beta: *const S,
    y: *mut U,
    incy: i64,
    stride_y: i64,
    batch: i64,
) -> Outcome {
    let (a, x) = (Items::Strided(a, stride_a), Items::Strided(x, stride_x));
    let y = Items::Strided(y.cast_const(), stride_y);
    let scalars = (alpha, beta);
    batch_of_products(
        call,
        trans,
        (m, n),
        scalars,
        (a, lda),
        (x, incx),
        (y, incy),
        batch,
        true,
    )
}
