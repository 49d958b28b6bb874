//! A driver for tests: the memory of the process is device memory, and work is done when it is submitted.

use std::ffi::{c_int, c_void};

use parking_lot::Mutex;

use crate::driver::{Copy2d, Driver, Native};
use margay_native::table::Kernel;

extern "C" fn workers() -> u32 {
    2
}

unsafe extern "C" fn launch(_stream: usize, _per_thread: u32, kernel: *const Kernel) -> u32 {
    // SAFETY: the caller passes a kernel.
    let kernel = unsafe { &*kernel };
    // The order of tasks is free.
    for task in (0..kernel.tasks).rev() {
        assert_eq!((kernel.run)(kernel.context, task), 0);
    }
    if let Some(drop) = kernel.drop {
        drop(kernel.context);
    }
    0
}

/// Addresses below this one belong to no memory.
const FIRST: usize = 1 << 16;

/// The only memory that may be accessed; an empty range for all memory of the process.
static ONLY: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// Restricts accesses to a range.
pub(crate) fn restrict(start: usize, bytes: usize) {
    *ONLY.lock() = (start, start + bytes);
}

/// Whether a range may be accessed.
fn is_allowed(start: usize, bytes: usize) -> bool {
    let only = *ONLY.lock();
    only == (0, 0) || (start >= only.0 && start.checked_add(bytes).is_some_and(|end| end <= only.1))
}

unsafe extern "C" fn memory(address: *const c_void, bytes: usize) -> u32 {
    let first = address.cast::<u8>();
    let last = first.wrapping_add(bytes - 1);
    let readable = |place| crate::host::read::<u8>(place).is_some();
    u32::from(
        is_allowed(address.addr(), bytes)
            && address.addr() >= FIRST
            && bytes < 1 << 40
            && readable(first)
            && readable(last),
    )
}

static NATIVE: Native = Native {
    size: size_of::<Native>(),
    version: 1,
    launch,
    memory,
    workers,
};

/// The current context.
const CONTEXT: usize = 0xc0;

unsafe extern "C" fn one(_: u32) -> u32 {
    0
}

unsafe extern "C" fn count(place: *mut c_int) -> u32 {
    // SAFETY: the caller passes a variable.
    unsafe { place.write(1) };
    0
}

unsafe extern "C" fn device(place: *mut c_int) -> u32 {
    // SAFETY: the caller passes a variable.
    unsafe { place.write(0) };
    0
}

unsafe extern "C" fn attribute(place: *mut c_int, _: c_int, _: c_int) -> u32 {
    // SAFETY: the caller passes a variable.
    unsafe { place.write(64) };
    0
}

unsafe extern "C" fn context(place: *mut usize) -> u32 {
    // SAFETY: the caller passes a variable.
    unsafe { place.write(CONTEXT) };
    0
}

unsafe extern "C" fn retain(place: *mut usize, _: c_int) -> u32 {
    // SAFETY: the caller passes a variable.
    unsafe { place.write(CONTEXT) };
    0
}

unsafe extern "C" fn number(_: usize) -> u32 {
    0
}

unsafe extern "C" fn status(_: usize, place: *mut u32) -> u32 {
    // SAFETY: the caller passes a variable.
    unsafe { place.write(0) };
    0
}

unsafe extern "C" fn nothing() -> u32 {
    0
}

unsafe extern "C" fn copy(target: usize, source: usize, bytes: usize) -> u32 {
    if !is_allowed(target, bytes) || !is_allowed(source, bytes) {
        return 1;
    }
    let found = crate::host::read_all(source as *const u8, bytes);
    let written = found.and_then(|bytes| crate::host::write_bytes(target as *mut u8, &bytes));
    u32::from(written.is_none())
}

unsafe extern "C" fn copy_async(target: usize, source: usize, bytes: usize, _: usize) -> u32 {
    // SAFETY: as for `copy`.
    unsafe { copy(target, source, bytes) }
}

unsafe extern "C" fn copy_2d(arguments: *const Copy2d) -> u32 {
    // SAFETY: the caller passes a structure.
    let arguments = unsafe { &*arguments };
    let (target, source) = arguments.sides();
    for row in 0..arguments.height {
        let (to, from) = (target.0 + row * target.1, source.0 + row * source.1);
        // SAFETY: as for `copy`.
        if unsafe { copy(to, from, arguments.width) } != 0 {
            return 1;
        }
    }
    0
}

unsafe extern "C" fn copy_2d_async(arguments: *const Copy2d, _: usize) -> u32 {
    // SAFETY: as for `copy`.
    unsafe { copy_2d(arguments) }
}

unsafe extern "C" fn alloc(place: *mut usize, bytes: usize) -> u32 {
    let memory = vec![0_u8; bytes].into_boxed_slice();
    // SAFETY: the caller passes a variable.
    unsafe { place.write(Box::into_raw(memory).cast::<u8>().addr()) };
    0
}

unsafe extern "C" fn free(_: usize) -> u32 {
    0
}

/// Returns the driver for tests.
pub(crate) fn driver() -> Driver {
    Driver {
        init: one,
        device_count: count,
        attribute,
        device,
        context,
        set_context: number,
        retain_primary: retain,
        wait_context: nothing,
        wait_stream: number,
        capture_status: status,
        copy,
        copy_async,
        copy_2d,
        copy_2d_async,
        alloc,
        free,
        native: &NATIVE,
    }
}
