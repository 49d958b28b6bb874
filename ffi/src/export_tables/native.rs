//! The table of functions with which replacements of NVIDIA's libraries run native kernels
//! ([`margay::native_kernel`]). Its identifier is the text `MargayNativeKern`.
//!
//! | word | contents |
//! |---|---|
//! | 0 | size of the table in bytes |
//! | 1 | version of the interface, 1 |
//! | 2 | `launch(stream, per_thread, kernel)`: launches a native kernel, or adds it to the graph that `stream` captures; returns a `CUresult` |
//! | 3 | `memory(address, bytes)`: returns the kind of a range of memory ([`memory`]) |
//! | 4 | `workers()`: returns the number of workers |
//!
//! A launch copies [`NativeKernelSpec`], and calls `run(context, task)` on workers for each task. A graph calls it again
//! at each launch. `run` returns 0 or a `CUresult`, which becomes the sticky error of the context. `run` and `drop` must
//! not unwind (throw exceptions or panic) and must not end their thread, and should not call the driver.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use margay::native_kernel::{MemoryRange, NativeKernel, RangeKind, TaskError};
use margay::{FaultKind, Runtime, Stream};

use super::{Table, read_array};
use crate::convert::FromAbi;
use crate::guard::{self, Call, DefaultStream};
use crate::result::CuResult;
use crate::types::CUstream;

/// The identifier of the table.
pub(super) const ID: [u8; 16] = *b"MargayNativeKern";

const VERSION: usize = 1;

pub(super) static NATIVE_KERNELS: Table<5> = Table::sized::<10>()
    .slot(1, std::ptr::without_provenance(VERSION))
    .slot(2, launch as *const c_void)
    .slot(3, memory as *const c_void)
    .slot(4, workers as *const c_void);

/// A function that runs a task of a native kernel.
type RunTask = unsafe extern "C" fn(*mut c_void, u32) -> u32;
/// A function that frees the context of a native kernel.
type DropContext = unsafe extern "C" fn(*mut c_void);

/// A native kernel, as other libraries pass it.
#[repr(C)]
#[derive(Clone, Copy)]
struct NativeKernelSpec {
    /// Size of this structure in bytes. A later version of the interface can append fields.
    size: usize,
    /// The name as a C string of at most [`NativeKernel::LONGEST_NAME`] bytes.
    name: *const c_char,
    /// The first argument of `run` and `drop`.
    context: *mut c_void,
    tasks: u32,
    padding: u32,
    run: Option<RunTask>,
    /// Called once, when no launch and no graph refers to `context` any more, on any thread. Also called if the launch
    /// fails, unless `size` is too small. May be null.
    drop: Option<DropContext>,
    ranges: *const Range,
    range_count: usize,
}

/// A range of memory that a native kernel accesses.
#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    address: *const c_void,
    bytes: usize,
    /// 0 if the tasks read the range, 1 if they write it. A range that they read and write is listed twice.
    writes: u32,
    padding: u32,
}

/// Owns the context of a native kernel.
struct Context {
    pointer: *mut c_void,
    drop: Option<DropContext>,
}

// SAFETY: the interface permits calls of `run` and `drop` with the pointer on every thread.
unsafe impl Send for Context {}
// SAFETY: as above; several threads may call `run` at the same time.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the library that passed the function guarantees that it takes the context; this value is its only
            // owner.
            unsafe { drop(self.pointer) };
        }
    }
}

/// Launches the native kernel that `kernel` describes. If `per_thread` is not 0, the stream 0 is the calling thread's
/// stream instead of the legacy stream.
///
/// # Safety
/// `kernel` must be null or valid, with all pointers in it.
unsafe extern "C" fn launch(
    stream: CUstream,
    per_thread: u32,
    kernel: *const NativeKernelSpec,
) -> CuResult {
    static LEGACY: Call = Call::new("NATIVE_KERNELS[2]", DefaultStream::Legacy);
    static PER_THREAD: Call = Call::new("NATIVE_KERNELS[2]", DefaultStream::PerThread);
    let call = match per_thread {
        0 => &LEGACY,
        _ => &PER_THREAD,
    };
    // SAFETY: the caller guarantees that the structure is valid.
    let spec = unsafe { read(kernel) };
    // If the call fails before it uses this value, the value still calls `drop`.
    let owner = spec.map(|spec| {
        let (pointer, drop) = (spec.context, spec.drop);
        (spec, Context { pointer, drop })
    });
    let (tasks, kernel) = (spec.map_or(0, |spec| spec.tasks), kernel.cast::<c_void>());
    guard::enter(
        call,
        &[("stream", &stream), ("kernel", &kernel), ("tasks", &tasks)],
        move || {
            let (spec, context) = owner.ok_or(CuResult::INVALID_VALUE)?;
            // SAFETY: the caller guarantees that the structure is valid.
            let kernel = unsafe { native_kernel(&spec, context) }?;
            // SAFETY: the handle is looked up and never dereferenced.
            let stream: Stream = unsafe { FromAbi::from_abi(stream, call) }?;
            Ok(stream.launch_native(&kernel)?)
        },
    )
}

/// Returns the structure at `kernel`; `None` if there is none or if it is too small.
///
/// # Safety
/// `kernel` must be null or valid.
unsafe fn read(kernel: *const NativeKernelSpec) -> Option<NativeKernelSpec> {
    if kernel.is_null() {
        return None;
    }
    // SAFETY: the structure begins with its size.
    let size = unsafe { kernel.cast::<usize>().read_unaligned() };
    if size < size_of::<NativeKernelSpec>() {
        return None;
    }
    // SAFETY: the caller guarantees as many bytes as the structure states.
    Some(unsafe { kernel.read_unaligned() })
}

/// Returns the native kernel that a structure describes.
///
/// # Errors
/// Returns `INVALID_VALUE` if `run` or the name is null, if the name is too long, and for a null list of ranges.
///
/// # Safety
/// All pointers in `spec` must be null or valid.
unsafe fn native_kernel(
    spec: &NativeKernelSpec,
    context: Context,
) -> Result<NativeKernel, CuResult> {
    let run = spec.run.ok_or(CuResult::INVALID_VALUE)?;
    // SAFETY: the caller guarantees that the name is null or a C string.
    let name = unsafe { name_of(spec.name) }?;
    // SAFETY: the caller guarantees that the ranges are null or an array.
    let ranges = unsafe { read_array(spec.ranges, spec.range_count) }?;
    let context = Arc::new(context);
    let kernel = NativeKernel::new(name, spec.tasks, move |task| {
        // SAFETY: the library that passed the function guarantees that it takes the context and every task.
        task_result(unsafe { run(context.pointer, task) })
    });
    Ok(ranges.iter().fold(kernel, |kernel, range| {
        let accessed = MemoryRange::of(range.address as u64, range.bytes as u64);
        match range.writes {
            0 => kernel.reads(accessed),
            _ => kernel.writes(accessed),
        }
    }))
}

/// # Safety
/// `name` must be null or a C string.
unsafe fn name_of(name: *const c_char) -> Result<Arc<str>, CuResult> {
    if name.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees a C string.
    let length = unsafe { libc::strnlen(name, NativeKernel::LONGEST_NAME + 1) };
    if length > NativeKernel::LONGEST_NAME {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: a NUL follows the `length` bytes.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(name.to_string_lossy().into())
}

/// Returns the result of a task that has returned `code`.
fn task_result(code: u32) -> Result<(), TaskError> {
    let kind = match CuResult(code) {
        CuResult::SUCCESS => return Ok(()),
        CuResult::ILLEGAL_ADDRESS => FaultKind::IllegalAddress,
        CuResult::LAUNCH_OUT_OF_RESOURCES => FaultKind::OutOfResources,
        CuResult::LAUNCH_TIMEOUT => FaultKind::Timeout,
        CuResult::ASSERT => FaultKind::Assert,
        CuResult::HARDWARE_STACK_ERROR => FaultKind::Stack,
        CuResult::ILLEGAL_INSTRUCTION => FaultKind::IllegalInstruction,
        CuResult::MISALIGNED_ADDRESS => FaultKind::MisalignedAddress,
        CuResult::INVALID_ADDRESS_SPACE => FaultKind::InvalidAddressSpace,
        CuResult::INVALID_PC => FaultKind::InvalidPc,
        _ => FaultKind::LaunchFailed,
    };
    let code = CuResult(code);
    Err(TaskError::new(kind, format!("the task returned {code:?}")))
}

/// Returns the kind of the `bytes` bytes at `address`: 0 for host memory that the driver does not know, 1 for device and
/// managed memory, 2 for registered host memory and memory that the driver allocated on the host, 3 if only a part of the
/// range, or memory that was freed, is in memory of the driver. Returns 0 before the driver is initialised.
extern "C" fn memory(address: *const c_void, bytes: usize) -> u32 {
    let range = MemoryRange::of(address as u64, bytes as u64);
    let kind = std::panic::catch_unwind(|| {
        let runtime = Runtime::global().ok().filter(|_| guard::is_ready())?;
        Some(runtime.range_kind(range))
    });
    match kind.ok().flatten().unwrap_or(RangeKind::Unknown) {
        RangeKind::Unknown => 0,
        RangeKind::Device => 1,
        RangeKind::Host => 2,
        RangeKind::Partial => 3,
    }
}

/// Returns the number of workers, or the number of processors before the driver is initialised.
extern "C" fn workers() -> u32 {
    let workers = std::panic::catch_unwind(|| {
        let runtime = Runtime::global().ok().filter(|_| guard::is_ready())?;
        u32::try_from(runtime.workers()).ok()
    });
    let processors = || std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    workers.ok().flatten().unwrap_or_else(processors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_tasks_become_faults_of_the_same_code() {
        assert_eq!(task_result(0), Ok(()));
        for code in [700, 701, 702, 710, 714, 715, 716, 717, 718, 719] {
            let error = task_result(code).expect_err("an error");
            assert_eq!(CuResult::of_fault(error.kind), CuResult(code));
        }
        let error = task_result(2).expect_err("an error");
        assert_eq!(CuResult::of_fault(error.kind), CuResult(719));
        assert!(error.detail.contains("OUT_OF_MEMORY"), "{}", error.detail);
    }
}
