//! A call of a function with a handle: its settings, its scalars, its results, and the submission of its work.

use std::ffi::CStr;
use std::sync::Arc;

use margay_blas::{AnyScalar, Complex, DataType, Plan, Scalar};
use margay_native::host::is_readable;

use crate::driver::{Driver, Range, driver};
use crate::handle::{Handle, Owner, Settings};
use crate::host;
use crate::launch::{Kept, submit};
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Outcome, Status, need};
use crate::types::{Kind, c32, c64, f16};

/// A call of a function.
pub(crate) struct Call {
    /// The C function's name, which is also the kernel's.
    pub(crate) name: &'static CStr,
    pub(crate) driver: &'static Driver,
    /// The settings when the call began.
    pub(crate) settings: Settings,
    /// The handle; `None` in the legacy interface.
    pub(crate) handle: Option<Arc<Handle>>,
    /// Whether operands may be in the host's memory, and the call waits for its work (cublasXt).
    pub(crate) on_host: bool,
}

/// The largest dimension. No machine has memory for a vector of this length, and a loop over more elements (with an
/// increment of 0) would not end.
const LARGEST: i64 = 1 << 40;

/// Returns a dimension.
///
/// # Errors
/// `INVALID_VALUE` for negative numbers and for those that no machine can hold.
pub(crate) fn dimension(value: i64, parameter: u32) -> Result<usize, Failure> {
    need((0..=LARGEST).contains(&value), parameter)?;
    Ok(value as usize)
}

/// Returns a leading dimension.
///
/// # Errors
/// `INVALID_VALUE` if it is less than the number of rows or than 1.
pub(crate) fn leading(value: i64, rows: usize, parameter: u32) -> Result<usize, Failure> {
    need(value >= 1 && value as usize >= rows, parameter)?;
    Ok(value as usize)
}

impl Call {
    /// Starts a call with a handle.
    pub(crate) fn with_handle(name: &'static CStr, handle: Arc<Handle>) -> Result<Call, Status> {
        let settings = *handle.settings.lock();
        let mut call = Call::new(name, settings, handle.context)?;
        call.on_host = handle.owner == Owner::Xt;
        call.handle = Some(handle);
        Ok(call)
    }

    /// Starts a call with settings. If no context is current, `context` becomes current.
    pub(crate) fn new(
        name: &'static CStr,
        settings: Settings,
        context: usize,
    ) -> Result<Call, Status> {
        let driver = driver()?;
        driver.enter(context)?;
        Ok(Call {
            name,
            driver,
            settings,
            handle: None,
            on_host: false,
        })
    }

    /// Changes the handle's settings.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Settings)) -> Outcome {
        if let Some(handle) = &self.handle {
            change(&mut handle.settings.lock());
        }
        Ok(())
    }

    /// Returns a scalar argument: its value in host pointer mode, else its address.
    pub(crate) fn scalar<T: Kind>(
        &self,
        place: *const T,
        parameter: u32,
        memory: &mut Memory,
    ) -> Result<Scalar<T>, Failure> {
        need(!place.is_null(), parameter)?;
        if self.settings.device_pointers {
            memory.add(Access::Read, place, size_of::<T>(), Shape::packed(1));
            return Ok(Scalar::At(place));
        }
        let value = host::read(place);
        need(value.is_some(), parameter)?;
        Ok(Scalar::Value(value.unwrap_or_default()))
    }

    /// [`Call::scalar`] for a scalar that may be missing; then it is 0.
    pub(crate) fn optional_scalar<T: Kind>(
        &self,
        place: *const T,
        parameter: u32,
        memory: &mut Memory,
    ) -> Result<Scalar<T>, Failure> {
        match place.is_null() {
            true => Ok(Scalar::Value(T::default())),
            false => self.scalar(place, parameter, memory),
        }
    }

    /// Returns a scalar argument of a type that is a number.
    pub(crate) fn any_scalar(
        &self,
        place: *const std::ffi::c_void,
        kind: DataType,
        parameter: u32,
        memory: &mut Memory,
    ) -> Result<AnyScalar, Failure> {
        need(!place.is_null(), parameter)?;
        if self.settings.device_pointers {
            memory.add(Access::Read, place, kind.size(), Shape::packed(1));
            return Ok(AnyScalar::At {
                address: place,
                kind,
            });
        }
        match host_value(place, kind) {
            Some(value) => Ok(AnyScalar::Value(value)),
            None => Err(Failure {
                status: Status::INVALID_VALUE,
                parameter,
            }),
        }
    }

    /// Submits a plan. The plan is made after the ranges are checked, because its size depends on them.
    pub(crate) fn launch(&self, memory: Memory, plan: impl FnOnce() -> Plan) -> Outcome {
        self.launch_keeping(memory, None, plan)
    }

    /// [`Call::launch`] of a plan that reads memory of this crate.
    pub(crate) fn launch_keeping(
        &self,
        memory: Memory,
        kept: Option<Kept>,
        plan: impl FnOnce() -> Plan,
    ) -> Outcome {
        self.try_launch(memory, kept, || Some(plan()))
    }

    /// [`Call::launch_keeping`] of a plan that exists only for some combinations of types.
    pub(crate) fn try_launch(
        &self,
        mut memory: Memory,
        kept: Option<Kept>,
        plan: impl FnOnce() -> Option<Plan>,
    ) -> Outcome {
        if self.on_host {
            // The driver knows no memory of the host.
            let is_accessible = |range: &Range| {
                self.driver.is_accessible(range.address, range.bytes)
                    || is_readable(range.address as usize, range.bytes)
            };
            if !memory.ranges()?.iter().all(is_accessible) {
                return Err(Status::EXECUTION_FAILED.into());
            }
            memory.forget();
        }
        let ranges = memory.ranges()?;
        let is_accessible = |range: &Range| self.driver.is_accessible(range.address, range.bytes);
        // Memory that a captured graph will allocate is not yet there; the driver checks it when the graph runs.
        if !ranges.iter().all(is_accessible) && !self.driver.is_capturing(self.settings.stream) {
            return Err(Status::EXECUTION_FAILED.into());
        }
        let plan = plan().ok_or(Status::NOT_SUPPORTED)?;
        let stream = self.settings.stream;
        submit(self.driver, stream, self.name, plan, ranges, kept.as_ref())?;
        if self.on_host {
            self.driver.wait(stream)?;
        }
        Ok(())
    }

    /// Submits a plan that writes a result of `T`. In host pointer mode, waits for the result and stores it.
    pub(crate) fn launch_result<T: Kind>(
        &self,
        memory: Memory,
        result: *mut T,
        parameter: u32,
        plan: impl FnOnce(*mut T) -> Plan,
    ) -> Outcome {
        self.try_launch_result(memory, result, parameter, |place| Some(plan(place)))
    }

    /// [`Call::launch_result`] of a plan that exists only for some combinations of types.
    pub(crate) fn try_launch_result<T: host::Plain + Default + Send>(
        &self,
        mut memory: Memory,
        result: *mut T,
        parameter: u32,
        plan: impl FnOnce(*mut T) -> Option<Plan>,
    ) -> Outcome {
        need(!result.is_null(), parameter)?;
        if self.settings.device_pointers {
            memory.add(Access::Write, result, size_of::<T>(), Shape::packed(1));
            return self.try_launch(memory, None, || plan(result));
        }
        let place = Place::new(T::default());
        let kept: Kept = place.clone();
        self.try_launch(memory, Some(kept), || plan(place.address()))?;
        self.driver.wait(self.settings.stream)?;
        need(host::write(result, place.get()).is_some(), parameter)
    }
}

/// A value that tasks write and that this crate reads after they have ended.
pub(crate) struct Place<T>(std::cell::UnsafeCell<T>);

// SAFETY: tasks write the value, and it is read only after the work of the stream has ended.
unsafe impl<T: Send> Sync for Place<T> {}

impl<T: Copy> Place<T> {
    /// Creates a place.
    pub(crate) fn new(value: T) -> Arc<Place<T>> {
        Arc::new(Place(value.into()))
    }

    /// Returns the address for the tasks.
    pub(crate) fn address(&self) -> *mut T {
        self.0.get()
    }

    /// Returns the value. The caller has waited for the tasks.
    pub(crate) fn get(&self) -> T {
        // SAFETY: the address is valid, and no task runs.
        unsafe { self.0.get().read() }
    }
}

/// Returns a scalar of the host's memory in the widest type; `None` if it is not readable.
pub(crate) fn host_value(place: *const std::ffi::c_void, kind: DataType) -> Option<Complex<f64>> {
    Some(match kind {
        DataType::R32F => host::read(place.cast::<f32>())?.widen(),
        DataType::R64F => host::read(place.cast::<f64>())?.widen(),
        DataType::R16F => host::read(place.cast::<f16>())?.widen(),
        DataType::R16BF => host::read(place.cast::<half::bf16>())?.widen(),
        DataType::R32I => host::read(place.cast::<i32>())?.widen(),
        DataType::C32F => host::read(place.cast::<c32>())?.widen(),
        DataType::C64F => host::read(place.cast::<c64>())?.widen(),
        _ => return None,
    })
}
