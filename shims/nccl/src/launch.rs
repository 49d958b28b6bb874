//! Submits native kernels to streams.

use std::ffi::CStr;

use margay_native::launch;
pub(crate) use margay_native::launch::{LAUNCH_FAILED, range};

use crate::driver::{Driver, Range, checked};
use crate::status::Outcome;

/// Submits a kernel of `tasks` tasks to a stream.
pub(crate) fn submit(
    driver: &Driver,
    stream: usize,
    name: &'static CStr,
    tasks: u32,
    ranges: &[Range],
    run: impl Fn(u32) -> u32 + Send + Sync + 'static,
) -> Outcome {
    let code = launch::submit(driver.native, stream, name, tasks, ranges, run);
    checked(code, &format!("launch of {}", name.to_string_lossy()))
}
