//! What surrounds each C function: the guard against panics, the handle, the log, and messages about wrong parameters.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use crate::call::Call;
use crate::handle::{self, Owner};
use crate::library::complain;
use crate::status::{Failure, Outcome, Status};
use crate::{log, lt_log};

/// An entry point: what its list says, and its function.
pub(crate) struct Entry {
    /// The C function's name.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests call the functions"))]
    pub(crate) name: &'static str,
    /// The toolkits that have the function.
    pub(crate) toolkits: &'static [u32],
    /// The function's form.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests call the functions"))]
    pub(crate) form: &'static str,
    /// The kinds of its parameters.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests call the functions"))]
    pub(crate) kinds: &'static str,
    /// Whether there is no implementation.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests write the support table"))]
    pub(crate) missing: bool,
    /// The function.
    pub(crate) address: Address,
}

/// The address of a function.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(crate) *const ());

// SAFETY: the address of a function does not change.
unsafe impl Sync for Address {}

/// Runs the body of a function with a handle of cuBLAS.
pub(crate) fn blas(
    name: &'static CStr,
    handle: usize,
    log: &dyn Fn(&mut log::Entry),
    body: &dyn Fn(&Call) -> Outcome,
) -> Status {
    guarded(name, log, &|| {
        body(&Call::with_handle(
            name,
            handle::get(handle, &[Owner::Cublas])?,
        )?)
    })
}

/// Runs the body of a function of cublasXt.
pub(crate) fn xt(
    name: &'static CStr,
    handle: usize,
    log: &dyn Fn(&mut log::Entry),
    body: &dyn Fn(&Call) -> Outcome,
) -> Status {
    guarded(name, log, &|| {
        body(&Call::with_handle(
            name,
            handle::get(handle, &[Owner::Xt])?,
        )?)
    })
}

/// Runs the body of a function without a handle.
pub(crate) fn free(
    name: &'static CStr,
    log: &dyn Fn(&mut log::Entry),
    body: &dyn Fn() -> Outcome,
) -> Status {
    guarded(name, log, body)
}

/// Runs the body of a function of the legacy interface. The program asks for its status later.
pub(crate) fn legacy(
    name: &'static CStr,
    log: &dyn Fn(&mut log::Entry),
    body: &dyn Fn(&Call) -> Outcome,
) {
    let status = guarded(name, log, &|| {
        let settings = crate::legacy::settings()?;
        body(&Call::new(name, settings, 0)?)
    });
    crate::legacy::record(status);
}

/// Answers a call of a function without an implementation.
pub(crate) fn missing(name: &'static CStr) -> Status {
    let name_text = name.to_string_lossy();
    once(&name_text, || {
        format!(
            "margay: {name_text} is not implemented (CUBLAS_STATUS_NOT_SUPPORTED); MARGAY_CUBLAS=nvidia keeps NVIDIA's library"
        )
    });
    guarded(name, &|_| {}, &|| Err(Status::NOT_SUPPORTED.into()))
}

/// Prints a line the first time that a feature is used.
pub(crate) fn once(feature: &str, line: impl FnOnce() -> String) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if TOLD.lock().insert(feature.to_owned()) {
        complain(&line());
    }
}

/// Runs a body, catches its panics, logs the call, and names a wrong parameter.
fn guarded(
    name: &'static CStr,
    log: &dyn Fn(&mut log::Entry),
    body: &dyn Fn() -> Outcome,
) -> Status {
    let run = || {
        let status = match body() {
            Ok(()) => Status::SUCCESS,
            Err(failure) => {
                told(name, failure);
                failure.status
            }
        };
        logged(name, log, status);
        status
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(status) => status,
        Err(panic) => {
            // Dropping the payload could panic again.
            std::mem::forget(panic);
            Status::INTERNAL_ERROR
        }
    }
}

/// Adds a call to the log of its library.
fn logged(name: &CStr, log: &dyn Fn(&mut log::Entry), status: Status) {
    let filled = || {
        let mut entry = log::Entry::new();
        log(&mut entry);
        entry
    };
    if !name.to_bytes().starts_with(b"cublasLt") {
        if log::is_on() {
            filled().finish(name, status);
        }
        return;
    }
    let function = name.to_string_lossy();
    if lt_log::is_on(lt_log::API) {
        lt_log::emit(lt_log::API, &function, &filled().line());
    }
    if status != Status::SUCCESS && lt_log::is_on(lt_log::ERROR) {
        let status = status.name().to_string_lossy();
        lt_log::emit(lt_log::ERROR, &function, &status);
    }
}

#[cfg(test)]
thread_local! {
    /// The number of the wrong parameter of the last call that failed.
    pub(crate) static WRONG: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Prints which parameter is wrong, as NVIDIA's library does.
fn told(name: &CStr, failure: Failure) {
    #[cfg(test)]
    WRONG.set(failure.parameter);
    if failure.parameter == 0 {
        return;
    }
    let name = name.to_string_lossy();
    let name = name.strip_prefix("cublas").unwrap_or(&name);
    let name = name.trim_end_matches("_64").trim_end_matches("_v2");
    let number = failure.parameter;
    complain(&format!(
        " ** On entry to {} parameter number {number} had an illegal value",
        name.to_uppercase()
    ));
}
