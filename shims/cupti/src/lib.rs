//! The functions of `libcupti`: the activity and callback interface of CUPTI.
//!
//! The crates `margay-cupti-12` and `margay-cupti-13` are libraries with these functions and the records of one
//! toolkit. The driver library of Margay (`libcuda.so.1`) produces the records; [`driver`] finds it and its table of
//! functions ([`margay_activity::interface`]). [`buffers`] passes records to the client in its buffers, [`activity`],
//! [`callbacks`], [`objects`] and [`general`] are the functions, and [`refused`] are those of features that do not exist.
//!
//! Invariants: no panic propagates out of a function. Pointers of the client are checked for null. No lock is held while
//! the client's functions are called. Without Margay's driver library, functions return `CUPTI_ERROR_NOT_INITIALIZED`.

pub mod activity;
mod buffers;
pub mod callbacks;
mod client;
mod driver;
mod enabled;
pub mod general;
pub mod nvtx;
pub mod objects;
mod period;
pub mod refused;
mod results;
mod subscriber;
mod toolkit;

pub use toolkit::select;

use std::panic::{AssertUnwindSafe, catch_unwind};

use margay_activity::interface::Outcome;

/// Runs the body of a function of the library.
fn guarded(body: impl FnOnce() -> Result<(), Outcome>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Outcome::SUCCESS,
        Ok(Err(outcome)) => outcome,
        Err(panic) => {
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            Outcome::UNKNOWN
        }
    }
}

/// Returns success, or the outcome as an error.
fn check(outcome: Outcome) -> Result<(), Outcome> {
    match outcome {
        Outcome::SUCCESS => Ok(()),
        failed => Err(failed),
    }
}

/// Writes a result of a function. Returns an error for a null pointer.
///
/// # Safety
/// `place` is null or points to a variable that may be written.
unsafe fn store<T>(place: *mut T, value: T) -> Result<(), Outcome> {
    match place.is_null() {
        true => Err(Outcome::INVALID_PARAMETER),
        false => {
            // SAFETY: the caller guarantees a variable.
            unsafe { place.write(value) };
            Ok(())
        }
    }
}
