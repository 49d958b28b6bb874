//! Level 1 with types that are numbers (`cublasDotEx` and its like).
//!
//! NVIDIA's library refuses a combination of types with `CUBLAS_STATUS_INVALID_VALUE` in some of these functions and with
//! `CUBLAS_STATUS_NOT_SUPPORTED` in the others; [`unsupported`] is the former.

use std::ffi::c_void;

use margay_blas::level1_ex::{self, AnyPlace, AnyVector};
use margay_blas::{Conjugation, DataType, Plan};

use crate::call::{Call, Place, dimension};
use crate::host;
use crate::level1::launch_index;
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Outcome, Status, need};
use crate::types::Index;

/// Returns the type for a number of `cudaDataType_t`.
pub(crate) fn kind(number: i32, unknown: Status) -> Result<DataType, Failure> {
    let known = u32::try_from(number).ok().and_then(DataType::from_cuda);
    known.ok_or(unknown.into())
}

/// The answer of some functions to a combination of types that they do not have.
fn unsupported(outcome: Outcome) -> Outcome {
    match outcome {
        Err(failure) if failure.status == Status::NOT_SUPPORTED => {
            Err(Status::INVALID_VALUE.into())
        }
        outcome => outcome,
    }
}

const INVALID: Status = Status::INVALID_VALUE;
const REFUSED: Status = Status::NOT_SUPPORTED;

/// A vector with its memory.
fn vector(
    memory: &mut Memory,
    access: &[Access],
    n: usize,
    data: *const c_void,
    kind: DataType,
    increment: i64,
) -> AnyVector {
    for access in access {
        memory.add(*access, data, kind.size(), Shape::vector(n, increment));
    }
    AnyVector {
        data: data.cast_mut(),
        kind,
        increment,
    }
}

const READ: &[Access] = &[Access::Read];
const WRITE: &[Access] = &[Access::Write];
const UPDATE: &[Access] = &[Access::Read, Access::Write];

/// The largest size of a result in bytes.
type Widest = [u64; 2];

/// Submits a plan with a result. In host pointer mode, waits for the result and stores it.
fn launch_result(
    call: &Call,
    mut memory: Memory,
    result: *mut c_void,
    kind: DataType,
    plan: impl FnOnce(AnyPlace) -> Option<Plan>,
) -> Outcome {
    need(!result.is_null(), 0)?;
    if call.settings.device_pointers {
        memory.add(Access::Write, result, kind.size(), Shape::packed(1));
        return call.try_launch(memory, None, || plan(AnyPlace { data: result, kind }));
    }
    let place = Place::<Widest>::new([0; 2]);
    let data = place.address().cast();
    call.try_launch(memory, Some(place.clone()), || {
        plan(AnyPlace { data, kind })
    })?;
    call.driver.wait(call.settings.stream)?;
    let bytes: Vec<u8> = place
        .get()
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    need(
        host::write_bytes(result.cast(), &bytes[..kind.size()]).is_some(),
        0,
    )
}

fn count(n: i64) -> Result<usize, Failure> {
    dimension(n.max(0), 1)
}

macro_rules! reductions {
    ($($name:ident $refusal:ident;)*) => {$(
        /// A real number that depends on all elements.
        pub(crate) unsafe fn $name(
            call: &Call,
            n: i64,
            x: *const c_void,
            x_type: i32,
            incx: i64,
            result: *mut c_void,
            result_type: i32,
            execution: i32,
        ) -> Outcome {
            let kinds = [kind(x_type, $refusal)?, kind(result_type, $refusal)?, kind(execution, $refusal)?];
            let n = if incx > 0 { count(n)? } else { 0 };
            let mut memory = Memory::default();
            let x = vector(&mut memory, READ, n, x, kinds[0], incx);
            let launched = launch_result(call, memory, result, kinds[1], |place| {
                // SAFETY: the driver checks the memory before the plan runs.
                unsafe { level1_ex::$name(n, x, place, kinds[2]) }
            });
            if $refusal == INVALID { unsupported(launched) } else { launched }
        }
    )*};
}

reductions! {
    nrm2 INVALID;
    asum REFUSED;
}

macro_rules! dots {
    ($($name:ident $conjugation:ident;)*) => {$(
        /// The product of two vectors.
        #[expect(clippy::too_many_arguments, reason = "the parameters of the C function")]
        pub(crate) unsafe fn $name(
            call: &Call,
            n: i64,
            x: *const c_void,
            x_type: i32,
            incx: i64,
            y: *const c_void,
            y_type: i32,
            incy: i64,
            result: *mut c_void,
            result_type: i32,
            execution: i32,
        ) -> Outcome {
            let kinds = [kind(x_type, INVALID)?, kind(y_type, INVALID)?];
            let [result_type, execution] = [kind(result_type, INVALID)?, kind(execution, INVALID)?];
            let n = count(n)?;
            let mut memory = Memory::default();
            let x = vector(&mut memory, READ, n, x, kinds[0], incx);
            let y = vector(&mut memory, READ, n, y, kinds[1], incy);
            unsupported(launch_result(call, memory, result, result_type, |place| {
                // SAFETY: the driver checks the memory before the plan runs.
                unsafe { level1_ex::dot(n, x, y, Conjugation::$conjugation, place, execution) }
            }))
        }
    )*};
}

dots! {
    dot Plain;
    dotc Conjugate;
}

/// Scales a vector.
pub(crate) unsafe fn scal(
    call: &Call,
    n: i64,
    alpha: *const c_void,
    alpha_type: i32,
    x: *mut c_void,
    x_type: i32,
    incx: i64,
    execution: i32,
) -> Outcome {
    let [alpha_type, x_type, execution] = [
        kind(alpha_type, INVALID)?,
        kind(x_type, INVALID)?,
        kind(execution, INVALID)?,
    ];
    if n <= 0 || incx <= 0 {
        return Ok(());
    }
    let n = count(n)?;
    let mut memory = Memory::default();
    let alpha = call.any_scalar(alpha, alpha_type, 0, &mut memory)?;
    let x = vector(&mut memory, UPDATE, n, x, x_type, incx);
    unsupported(call.try_launch(memory, None, || {
        // SAFETY: the driver checks the memory before the plan runs.
        unsafe { level1_ex::scal(n, alpha, alpha_type, x, execution) }
    }))
}

/// `y = alpha x + y`.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn axpy(
    call: &Call,
    n: i64,
    alpha: *const c_void,
    alpha_type: i32,
    x: *const c_void,
    x_type: i32,
    incx: i64,
    y: *mut c_void,
    y_type: i32,
    incy: i64,
    execution: i32,
) -> Outcome {
    let [alpha_type, x_type] = [kind(alpha_type, INVALID)?, kind(x_type, INVALID)?];
    let [y_type, execution] = [kind(y_type, INVALID)?, kind(execution, INVALID)?];
    if n <= 0 {
        return Ok(());
    }
    let n = count(n)?;
    let mut memory = Memory::default();
    let alpha = call.any_scalar(alpha, alpha_type, 0, &mut memory)?;
    let x = vector(&mut memory, READ, n, x, x_type, incx);
    let y = vector(&mut memory, UPDATE, n, y, y_type, incy);
    unsupported(call.try_launch(memory, None, || {
        // SAFETY: the driver checks the memory before the plan runs.
        unsafe { level1_ex::axpy(n, alpha, alpha_type, x, y, execution) }
    }))
}

macro_rules! moves {
    ($($name:ident $x:ty, $first:ident $second:ident;)*) => {$(
        /// Copies or exchanges vectors.
        pub(crate) unsafe fn $name(
            call: &Call,
            n: i64,
            x: $x,
            x_type: i32,
            incx: i64,
            y: *mut c_void,
            y_type: i32,
            incy: i64,
        ) -> Outcome {
            let [x_type, y_type] = [kind(x_type, REFUSED)?, kind(y_type, REFUSED)?];
            if n <= 0 {
                return Ok(());
            }
            let n = count(n)?;
            let mut memory = Memory::default();
            let x = vector(&mut memory, $first, n, x, x_type, incx);
            let y = vector(&mut memory, $second, n, y, y_type, incy);
            // SAFETY: the driver checks the memory before the plan runs.
            call.try_launch(memory, None, || unsafe { level1_ex::$name(n, x, y) })
        }
    )*};
}

moves! {
    copy *const c_void, READ WRITE;
    swap *mut c_void, UPDATE UPDATE;
}

macro_rules! searches {
    ($($name:ident;)*) => {$(
        /// The index of an extreme element.
        pub(crate) unsafe fn $name(
            call: &Call,
            n: i64,
            x: *const c_void,
            x_type: i32,
            incx: i64,
            result: Index,
        ) -> Outcome {
            let x_type = kind(x_type, REFUSED)?;
            let n = if incx > 0 { count(n)? } else { 0 };
            let mut memory = Memory::default();
            let x = vector(&mut memory, READ, n, x, x_type, incx);
            // SAFETY: the driver checks the memory before the plan runs.
            launch_index(call, memory, result, |place| unsafe { level1_ex::$name(n, x, place) })
        }
    )*};
}

searches! {
    iamax;
    iamin;
}

/// Applies a rotation.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn rot(
    call: &Call,
    n: i64,
    x: *mut c_void,
    x_type: i32,
    incx: i64,
    y: *mut c_void,
    y_type: i32,
    incy: i64,
    c: *const c_void,
    s: *const c_void,
    cs_type: i32,
    execution: i32,
) -> Outcome {
    let [x_type, y_type] = [kind(x_type, REFUSED)?, kind(y_type, REFUSED)?];
    let [cs_type, execution] = [kind(cs_type, REFUSED)?, kind(execution, REFUSED)?];
    if n <= 0 {
        return Ok(());
    }
    let n = count(n)?;
    let mut memory = Memory::default();
    let c = call.any_scalar(c, cs_type, 0, &mut memory)?;
    let s = call.any_scalar(s, cs_type, 0, &mut memory)?;
    let x = vector(&mut memory, UPDATE, n, x, x_type, incx);
    let y = vector(&mut memory, UPDATE, n, y, y_type, incy);
    call.try_launch(memory, None, || {
        // SAFETY: the driver checks the memory before the plan runs.
        unsafe { level1_ex::rot(n, x, y, c, s, cs_type, execution) }
    })
}

/// A parameter that is read and written: its address, its type and its number of elements.
type Operand = (*mut c_void, DataType, usize);

/// Runs a plan on variables. In host pointer mode it runs at once on copies of the variables, which are stored back.
fn on_variables<const N: usize>(
    call: &Call,
    operands: [Operand; N],
    plan: impl FnOnce([AnyPlace; N]) -> Option<Plan>,
) -> Outcome {
    need(operands.iter().all(|(place, ..)| !place.is_null()), 0)?;
    if call.settings.device_pointers {
        let mut memory = Memory::default();
        for (place, kind, count) in operands {
            memory.add(Access::Read, place, kind.size(), Shape::packed(count));
            memory.add(Access::Write, place, kind.size(), Shape::packed(count));
        }
        let places = operands.map(|(data, kind, _)| AnyPlace { data, kind });
        return call.try_launch(memory, None, || plan(places));
    }
    let mut copies = Vec::new();
    for (place, kind, count) in operands {
        let bytes = host::read_all(place.cast::<u8>(), kind.size() * count);
        let bytes = bytes.ok_or(Status::INVALID_VALUE)?;
        // Words are aligned for every type.
        let mut words = vec![0_u128; bytes.len().div_ceil(size_of::<u128>())];
        // SAFETY: the words have at least as many bytes.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from(bytes.as_ptr(), bytes.len())
        };
        copies.push((words, bytes));
    }
    let mut index = 0;
    let places = operands.map(|(_, kind, _)| {
        let data = copies[index].0.as_mut_ptr().cast();
        index += 1;
        AnyPlace { data, kind }
    });
    plan(places).ok_or(Status::NOT_SUPPORTED)?.run();
    for ((place, ..), (words, before)) in operands.into_iter().zip(&copies) {
        // SAFETY: the words have at least as many bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), before.len()) };
        // A variable that is only read may be constant.
        if bytes != before {
            need(host::write_bytes(place.cast(), bytes).is_some(), 0)?;
        }
    }
    Ok(())
}

/// Constructs a rotation.
pub(crate) unsafe fn rotg(
    call: &Call,
    a: *mut c_void,
    b: *mut c_void,
    ab_type: i32,
    c: *mut c_void,
    s: *mut c_void,
    cs_type: i32,
    execution: i32,
) -> Outcome {
    let [ab, cs, execution] = [
        kind(ab_type, REFUSED)?,
        kind(cs_type, REFUSED)?,
        kind(execution, REFUSED)?,
    ];
    // The cosine of complex numbers has the type of `cs_type`, too.
    let operands = [(a, ab, 1), (b, ab, 1), (c, cs, 1), (s, cs, 1)];
    on_variables(call, operands, |[a, b, c, s]| {
        // SAFETY: the driver checks the memory before the plan runs, or the places are those of this call.
        unsafe { level1_ex::rotg(a, b, c, s, execution) }
    })
}

/// Applies a modified rotation.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn rotm(
    call: &Call,
    n: i64,
    x: *mut c_void,
    x_type: i32,
    incx: i64,
    y: *mut c_void,
    y_type: i32,
    incy: i64,
    param: *const c_void,
    param_type: i32,
    execution: i32,
) -> Outcome {
    let [x_type, y_type] = [kind(x_type, REFUSED)?, kind(y_type, REFUSED)?];
    let [param_type, execution] = [kind(param_type, REFUSED)?, kind(execution, REFUSED)?];
    if n <= 0 {
        return Ok(());
    }
    need(!param.is_null(), 0)?;
    let n = count(n)?;
    let mut memory = Memory::default();
    let x = vector(&mut memory, UPDATE, n, x, x_type, incx);
    let y = vector(&mut memory, UPDATE, n, y, y_type, incy);
    let (data, kept) = if call.settings.device_pointers {
        memory.add(Access::Read, param, param_type.size(), Shape::packed(5));
        (param.cast_mut(), None)
    } else {
        // Five elements of the widest type.
        let bytes = host::read_all(param.cast::<u8>(), 5 * param_type.size());
        let bytes = bytes.ok_or(Status::INVALID_VALUE)?;
        let mut words = [0_u64; 10];
        // SAFETY: an element has at most 16 bytes.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from(bytes.as_ptr(), bytes.len())
        };
        let place = Place::new(words);
        (place.address().cast(), Some(place))
    };
    let param = AnyPlace {
        data,
        kind: param_type,
    };
    let kept = kept.map(|place| place as crate::launch::Kept);
    call.try_launch(memory, kept, || {
        // SAFETY: the driver checks the memory before the plan runs; the place lives as long as the plan.
        unsafe { level1_ex::rotm(n, x, y, param, execution) }
    })
}

/// Constructs a modified rotation.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of the C function"
)]
pub(crate) unsafe fn rotmg(
    call: &Call,
    d1: *mut c_void,
    d1_type: i32,
    d2: *mut c_void,
    d2_type: i32,
    x1: *mut c_void,
    x1_type: i32,
    y1: *const c_void,
    y1_type: i32,
    param: *mut c_void,
    param_type: i32,
    execution: i32,
) -> Outcome {
    let execution = kind(execution, REFUSED)?;
    let operands = [
        (d1, kind(d1_type, REFUSED)?, 1),
        (d2, kind(d2_type, REFUSED)?, 1),
        (x1, kind(x1_type, REFUSED)?, 1),
        (y1.cast_mut(), kind(y1_type, REFUSED)?, 1),
        (param, kind(param_type, REFUSED)?, 5),
    ];
    on_variables(call, operands, |[d1, d2, x1, y1, param]| {
        // SAFETY: the driver checks the memory before the plan runs, or the places are those of this call.
        unsafe { level1_ex::rotmg(d1, d2, x1, y1, param, execution) }
    })
}
