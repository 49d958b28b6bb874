//! Submits functions to streams as native kernels.

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::table::{Kernel, Native, Range};

/// `CUDA_ERROR_LAUNCH_FAILED`.
pub const LAUNCH_FAILED: u32 = 719;

/// The function of the tasks. It returns 0 or a `CUresult`.
type Run = Box<dyn Fn(u32) -> u32 + Send + Sync>;

/// Returns the range that a kernel reads, or that it writes.
pub fn range(address: usize, bytes: usize, writes: bool) -> Range {
    Range {
        address: address as *const c_void,
        bytes,
        writes: u32::from(writes),
        pad: 0,
    }
}

/// Submits a kernel of `tasks` tasks to a stream, and returns the driver's result. `run` gets the number of a task. If it
/// panics, the task's result is [`LAUNCH_FAILED`].
pub fn submit(
    native: &Native,
    stream: usize,
    name: &'static CStr,
    tasks: u32,
    ranges: &[Range],
    run: impl Fn(u32) -> u32 + Send + Sync + 'static,
) -> u32 {
    let context: Box<Run> = Box::new(Box::new(run));
    let kernel = Kernel {
        size: size_of::<Kernel>(),
        name: name.as_ptr(),
        context: Box::into_raw(context).cast(),
        tasks,
        pad: 0,
        run: run_task,
        drop: Some(free),
        ranges: ranges.as_ptr(),
        range_count: ranges.len(),
    };
    const LEGACY_DEFAULT: u32 = 0;
    // SAFETY: the kernel and its ranges are valid during the call, and the driver calls `free` once.
    unsafe { (native.launch)(stream, LEGACY_DEFAULT, &raw const kernel) }
}

/// Runs a task.
extern "C" fn run_task(context: *mut c_void, task: u32) -> u32 {
    // SAFETY: the driver passes the context of a kernel that it has not freed.
    let run = unsafe { &*context.cast::<Run>() };
    match catch_unwind(AssertUnwindSafe(|| run(task))) {
        Ok(code) => code,
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
    let context = unsafe { Box::from_raw(context.cast::<Run>()) };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(context))) {
        std::mem::forget(panic);
    }
}
