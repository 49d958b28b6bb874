//! Submits plans to streams: each stage of a plan becomes a native kernel.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use margay_blas::{Plan, Stage};

use crate::driver::{Driver, Kernel, Range, status_of};
use crate::status::Status;

/// `CUDA_ERROR_LAUNCH_FAILED`.
const LAUNCH_FAILED: u32 = 719;

/// Memory that the tasks of a plan read and that lives as long as the driver may run them.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// What the driver passes to the tasks of a kernel.
struct Context {
    stage: Stage,
    _kept: Option<Kept>,
}

/// Submits the stages of a plan. `ranges` are the ranges that the whole plan accesses.
pub(crate) fn submit(
    driver: &Driver,
    stream: usize,
    name: &'static CStr,
    plan: Plan,
    ranges: &[Range],
    kept: Option<&Kept>,
) -> Result<(), Status> {
    for (index, stage) in plan.stages.into_iter().enumerate() {
        let tasks = stage.tasks;
        let context = Box::new(Context {
            stage,
            _kept: kept.cloned(),
        });
        // One kernel is enough for the checks of the ranges.
        let ranges = if index == 0 { ranges } else { &[] };
        let kernel = Kernel {
            size: size_of::<Kernel>(),
            name: name.as_ptr(),
            context: Box::into_raw(context).cast(),
            tasks,
            pad: 0,
            run,
            drop: Some(free),
            ranges: ranges.as_ptr(),
            range_count: ranges.len(),
        };
        const LEGACY_DEFAULT: u32 = 0;
        // SAFETY: the kernel and its ranges are valid during the call, and the driver calls `free` once.
        status_of(unsafe { (driver.native.launch)(stream, LEGACY_DEFAULT, &raw const kernel) })?;
    }
    Ok(())
}

/// Runs a task.
extern "C" fn run(context: *mut c_void, task: u32) -> u32 {
    // SAFETY: the driver passes the context of a kernel that it has not freed.
    let context = unsafe { &*context.cast::<Context>() };
    match catch_unwind(AssertUnwindSafe(|| (context.stage.run)(task))) {
        Ok(()) => 0,
        Err(panic) => {
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            LAUNCH_FAILED
        }
    }
}

/// Frees the context of a kernel.
extern "C" fn free(context: *mut c_void) {
    // SAFETY: the context is a box of `submit`, and the driver calls this function once.
    let context = unsafe { Box::from_raw(context.cast::<Context>()) };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(context))) {
        std::mem::forget(panic);
    }
}
