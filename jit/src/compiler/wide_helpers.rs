//! The helpers of programs of the wide back end.

use crate::abi::{NativeContext, Verify};

/// The addresses of the helpers of a program, by their numbers.
pub(super) fn helpers() -> [u64; 2] {
    [verify as *const () as u64, verify_lanes as *const () as u64]
}

/// Asks the host whether it permits accesses at addresses with a constant distance; returns zero if it does.
///
/// # Safety
/// `context` must be the context of the running call, whose helpers are set.
unsafe extern "C" fn verify(
    context: *mut NativeContext,
    first: u64,
    stride: i64,
    what: Verify,
) -> i32 {
    // SAFETY: by the contract of this function.
    let (helpers, thread) = unsafe { ((*context).helpers, first_thread(context)) };
    // SAFETY: the helpers of a context stay valid as long as it is in use.
    unsafe { ((*helpers).verify)(context, first, stride, what, thread) }
}

/// Asks the host whether it permits accesses at addresses in an array; returns zero if it does.
///
/// # Safety
/// `context` must be the context of the running call, whose helpers are set. `addresses` must be an array with an element
/// for each lane.
unsafe extern "C" fn verify_lanes(
    context: *mut NativeContext,
    addresses: *const u64,
    what: Verify,
) -> i32 {
    // SAFETY: by the contract of this function.
    let (helpers, thread) = unsafe { ((*context).helpers, first_thread(context)) };
    // SAFETY: the helpers of a context stay valid as long as it is in use, and the array has an element for each lane.
    unsafe { ((*helpers).verify_lanes)(context, addresses, what, thread) }
}

/// Returns the thread of the first lane of the accesses.
///
/// # Safety
/// `context` must be valid.
unsafe fn first_thread(context: *const NativeContext) -> u32 {
    // SAFETY: by the contract of this function.
    let context = unsafe { &*context };
    context.locate(context.lane).1
}
