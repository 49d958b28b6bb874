//! The function that Margay's own tools call inside the process of a CUDA program. One such tool is the plugin for
//! pytest.
//!
//! The function is not part of the driver API, so it is not in the table of entry points, and checking runs do not
//! examine calls of it.

use std::ffi::{c_int, c_uint};
use std::panic::catch_unwind;
use std::time::Duration;

use margay::Runtime;
use margay::cancellation::Disabled;

use crate::{checking, guard};

/// The result of [`margay_settle`] if all submitted work is complete and all findings are in the
/// log.
const SETTLED: c_int = 0;
/// The result of [`margay_settle`] if some submitted work is not complete.
const RUNNING: c_int = 1;
/// The result of [`margay_settle`] if the process does not belong to a checking run.
const UNCHECKED: c_int = 2;
/// The result of [`margay_settle`] if the process does not use the driver.
const UNUSED: c_int = 3;

/// Waits until all work that the process has submitted is complete, for at most `milliseconds`, and writes to the log
/// how often each finding has occurred. Returns 0; 1 if some work is not complete; 2 if the process
/// does not belong to a checking run; 3 if the process does not use the driver.
#[unsafe(no_mangle)]
pub extern "C" fn margay_settle(milliseconds: c_uint) -> c_int {
    if !guard::is_ready() {
        return UNUSED;
    }
    if !checking::any() {
        return UNCHECKED;
    }
    let _uncancelled = Disabled::begin();
    let limit = Duration::from_millis(milliseconds.into());
    let settled = catch_unwind(|| Runtime::global().is_ok_and(|runtime| runtime.settle(limit)));
    match settled {
        Ok(true) => SETTLED,
        _ => RUNNING,
    }
}
