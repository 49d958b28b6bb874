//! Level 1: vectors of one type.
//!
//! A count that is not positive is no error: nothing is done, or the result is 0. The same holds for an increment that is
//! not positive in functions of one vector.
//!
//! Safety: the functions of this module, and of the other modules with operations, may get any address. The driver checks
//! the memory of operands, and scalars and results are read and written by [`crate::host`].

use margay_blas::level1::{self, IndexAt, Input, Pair, Rotg, Rotmg};
use margay_blas::{Conjugation, Plan};

use crate::call::{Call, Place, dimension};
use crate::host;
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Outcome, Status, need};
use crate::types::{Index, RealScalar, Scalars};

/// Returns the count of a vector; counts that are not positive are 0.
fn count(n: i64) -> Result<usize, Failure> {
    dimension(n.max(0), 1)
}

/// A vector that is read, with its memory.
fn input<T: Scalars>(
    n: i64,
    x: *const T,
    incx: i64,
    memory: &mut Memory,
) -> Result<Input<T>, Failure> {
    let n = if incx > 0 { count(n)? } else { 0 };
    memory.add(Access::Read, x, size_of::<T>(), Shape::vector(n, incx));
    Ok(Input { n, x, incx })
}

/// What a function does with the vectors of a pair.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    /// Both are read.
    Read,
    /// The second is written.
    Write,
    /// The second is read and written.
    Update,
    /// Both are read and written.
    Both,
}

/// Two vectors, with their memory.
fn pair<T: Scalars>(
    n: i64,
    (x, incx): (*const T, i64),
    (y, incy): (*mut T, i64),
    used: Use,
    memory: &mut Memory,
) -> Result<Pair<T>, Failure> {
    let n = count(n)?;
    let size = size_of::<T>();
    let (first, second) = (Shape::vector(n, incx), Shape::vector(n, incy));
    memory.add(Access::Read, x, size, first);
    if used == Use::Both {
        memory.add(Access::Write, x, size, first);
    }
    if used != Use::Write {
        memory.add(Access::Read, y, size, second);
    }
    if used != Use::Read {
        memory.add(Access::Write, y, size, second);
    }
    Ok(Pair {
        n,
        x: x.cast_mut(),
        incx,
        y,
        incy,
    })
}

/// Submits the search for an index.
pub(crate) fn launch_index(
    call: &Call,
    memory: Memory,
    result: Index,
    plan: impl FnOnce(IndexAt) -> Option<Plan>,
) -> Outcome {
    match result {
        Index::Narrow(place) => {
            call.try_launch_result(memory, place, 0, |place| plan(IndexAt::I32(place)))
        }
        Index::Wide(place) => {
            call.try_launch_result(memory, place, 0, |place| plan(IndexAt::I64(place)))
        }
    }
}

macro_rules! reductions {
    ($($name:ident;)*) => {$(
        /// A real number that depends on all elements.
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            n: i64,
            x: *const T,
            incx: i64,
            result: *mut T::Real,
        ) -> Outcome {
            let mut memory = Memory::default();
            let x = input(n, x, incx, &mut memory)?;
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch_result(memory, result, 0, |place| unsafe { level1::$name(x, place) })
        }
    )*};
}

reductions! {
    nrm2;
    asum;
}

macro_rules! searches {
    ($($name:ident;)*) => {$(
        /// The index of an extreme element.
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            n: i64,
            x: *const T,
            incx: i64,
            result: Index,
        ) -> Outcome {
            let mut memory = Memory::default();
            let x = input(n, x, incx, &mut memory)?;
            // SAFETY: the driver checks the memory before the plan runs.
            launch_index(call, memory, result, |place| Some(unsafe { level1::$name(x, place) }))
        }
    )*};
}

searches! {
    iamax;
    iamin;
}

macro_rules! dots {
    ($($name:ident $conjugation:ident;)*) => {$(
        /// The product of two vectors.
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            n: i64,
            x: *const T,
            incx: i64,
            y: *const T,
            incy: i64,
            result: *mut T,
        ) -> Outcome {
            let mut memory = Memory::default();
            let vectors = pair(n, (x, incx), (y.cast_mut(), incy), Use::Read, &mut memory)?;
            call.launch_result(memory, result, 0, |place| {
                // SAFETY: the driver checks the memory before the plan runs.
                unsafe { level1::dot(vectors, Conjugation::$conjugation, place) }
            })
        }
    )*};
}

dots! {
    dot Plain;
    dotc Conjugate;
}

macro_rules! scalings {
    ($($name:ident $scalar:ty;)*) => {$(
        /// Scales a vector.
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            n: i64,
            alpha: *const $scalar,
            x: *mut T,
            incx: i64,
        ) -> Outcome {
            if n <= 0 || incx <= 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let n = count(n)?;
            let alpha = call.scalar(alpha, 0, &mut memory)?;
            memory.update(x, size_of::<T>(), Shape::vector(n, incx));
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level1::$name(alpha, n, x, incx) })
        }
    )*};
}

scalings! {
    scal T;
    scal_real T::Real;
}

/// `y = alpha x + y`.
pub(crate) unsafe fn axpy<T: Scalars>(
    call: &Call,
    n: i64,
    alpha: *const T,
    x: *const T,
    incx: i64,
    y: *mut T,
    incy: i64,
) -> Outcome {
    if n <= 0 {
        return Ok(());
    }
    let mut memory = Memory::default();
    let alpha = call.scalar(alpha, 0, &mut memory)?;
    let vectors = pair(n, (x, incx), (y, incy), Use::Update, &mut memory)?;
    // SAFETY: the driver checks the memory before the plan runs.
    call.launch(memory, || unsafe { level1::axpy(alpha, vectors) })
}

macro_rules! moves {
    ($($name:ident $x:ty, $used:ident;)*) => {$(
        /// Copies or exchanges vectors.
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            n: i64,
            x: $x,
            incx: i64,
            y: *mut T,
            incy: i64,
        ) -> Outcome {
            if n <= 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let vectors = pair(n, (x, incx), (y, incy), Use::$used, &mut memory)?;
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level1::$name(vectors) })
        }
    )*};
}

moves! {
    copy *const T, Write;
    swap *mut T, Both;
}

macro_rules! rotations {
    ($($name:ident $sine:ty;)*) => {$(
        /// Applies a rotation.
        pub(crate) unsafe fn $name<T: Scalars>(
            call: &Call,
            n: i64,
            x: *mut T,
            incx: i64,
            y: *mut T,
            incy: i64,
            c: *const T::Real,
            s: *const $sine,
        ) -> Outcome {
            if n <= 0 {
                return Ok(());
            }
            let mut memory = Memory::default();
            let c = call.scalar(c, 0, &mut memory)?;
            let s = call.scalar(s, 0, &mut memory)?;
            let vectors = pair(n, (x, incx), (y, incy), Use::Both, &mut memory)?;
            // SAFETY: the driver checks the memory before the plan runs.
            call.launch(memory, || unsafe { level1::$name(vectors, c, s) })
        }
    )*};
}

rotations! {
    rot T;
    rot_real T::Real;
}

/// A variable of the program in host pointer mode, with its value in a place for a plan.
pub(crate) struct Variable<T> {
    to: *mut T,
    place: std::sync::Arc<Place<T>>,
}

impl<T: host::Plain + Send> Variable<T> {
    /// Reads a variable.
    pub(crate) fn read(to: *mut T) -> Result<Variable<T>, Failure> {
        let value = host::read(to.cast_const()).ok_or(Status::INVALID_VALUE)?;
        let place = Place::new(value);
        Ok(Variable { to, place })
    }

    /// The address for the plan.
    pub(crate) fn address(&self) -> *mut T {
        self.place.address()
    }

    /// Stores the place's value in the variable.
    pub(crate) fn write(&self) -> Outcome {
        need(host::write(self.to, self.place.get()).is_some(), 0)
    }
}

/// Constructs a rotation. In host pointer mode it is computed at once.
pub(crate) unsafe fn rotg<T: Scalars>(
    call: &Call,
    a: *mut T,
    b: *mut T,
    c: *mut T::Real,
    s: *mut T,
) -> Outcome {
    need(
        !a.is_null() && !b.is_null() && !c.is_null() && !s.is_null(),
        0,
    )?;
    if call.settings.device_pointers {
        let mut memory = Memory::default();
        let one = Shape::packed(1);
        memory.update(a, size_of::<T>(), one);
        memory.update(b, size_of::<T>(), one);
        memory.add(Access::Write, c, size_of::<T::Real>(), one);
        memory.add(Access::Write, s, size_of::<T>(), one);
        // SAFETY: the driver checks the memory before the plan runs.
        return call.launch(memory, || unsafe { level1::rotg(Rotg { a, b, c, s }) });
    }
    let (a, b) = (Variable::read(a)?, Variable::read(b)?);
    let (c, s) = (Variable::read(c)?, Variable::read(s)?);
    let arguments = Rotg {
        a: a.address(),
        b: b.address(),
        c: c.address(),
        s: s.address(),
    };
    // SAFETY: the places live until the plan has run.
    unsafe { level1::rotg(arguments) }.run();
    a.write()?;
    b.write()?;
    c.write()?;
    s.write()
}

/// `rotg` of the legacy interface for complex numbers, where `b` is a value.
pub(crate) unsafe fn rotg_by_value<T: Scalars>(
    call: &Call,
    a: *mut T,
    b: *const T,
    c: *mut T::Real,
    s: *mut T,
) -> Outcome {
    let mut b = host::read(b).ok_or(Status::INVALID_VALUE)?;
    // SAFETY: all addresses are allowed.
    unsafe { rotg(call, a, &raw mut b, c, s) }
}

/// Applies a modified rotation.
pub(crate) unsafe fn rotm<T: RealScalar>(
    call: &Call,
    n: i64,
    x: *mut T,
    incx: i64,
    y: *mut T,
    incy: i64,
    param: *const T,
) -> Outcome
where
    [T; 5]: host::Plain,
{
    if n <= 0 {
        return Ok(());
    }
    need(!param.is_null(), 0)?;
    let mut memory = Memory::default();
    let vectors = pair(n, (x, incx), (y, incy), Use::Both, &mut memory)?;
    if call.settings.device_pointers {
        memory.add(Access::Read, param, size_of::<T>(), Shape::packed(5));
        // SAFETY: the driver checks the memory before the plan runs.
        return call.launch(memory, || unsafe { level1::rotm(vectors, param) });
    }
    let values: [T; 5] = host::read(param.cast()).ok_or(Status::INVALID_VALUE)?;
    let place = Place::new(values);
    let param = place.address().cast_const().cast();
    call.launch_keeping(memory, Some(place), || {
        // SAFETY: the driver checks the memory of the vectors; the place lives as long as the plan.
        unsafe { level1::rotm(vectors, param) }
    })
}

/// Constructs a modified rotation. In host pointer mode it is computed at once.
pub(crate) unsafe fn rotmg<T: RealScalar>(
    call: &Call,
    d1: *mut T,
    d2: *mut T,
    x1: *mut T,
    y1: *const T,
    param: *mut T,
) -> Outcome
where
    [T; 5]: host::Plain,
{
    let all = [d1, d2, x1, y1.cast_mut(), param];
    need(all.iter().all(|place| !place.is_null()), 0)?;
    if call.settings.device_pointers {
        let mut memory = Memory::default();
        for place in [d1, d2, x1] {
            memory.update(place, size_of::<T>(), Shape::packed(1));
        }
        memory.add(Access::Read, y1, size_of::<T>(), Shape::packed(1));
        memory.add(Access::Write, param, size_of::<T>(), Shape::packed(5));
        return call.launch(memory, || {
            // SAFETY: the driver checks the memory before the plan runs.
            unsafe {
                level1::rotmg(Rotmg {
                    d1,
                    d2,
                    x1,
                    y1,
                    param,
                })
            }
        });
    }
    let (d1, d2) = (Variable::read(d1)?, Variable::read(d2)?);
    let (x1, y1) = (Variable::read(x1)?, Variable::read(y1.cast_mut())?);
    let param = Variable::<[T; 5]>::read(param.cast())?;
    let arguments = Rotmg {
        d1: d1.address(),
        d2: d2.address(),
        x1: x1.address(),
        y1: y1.address().cast_const(),
        param: param.address().cast(),
    };
    // SAFETY: the places live until the plan has run.
    unsafe { level1::rotmg(arguments) }.run();
    d1.write()?;
    d2.write()?;
    x1.write()?;
    param.write()
}
