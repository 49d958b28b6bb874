//! Submits plans to streams: each stage of a plan becomes a native kernel.

use std::any::Any;
use std::ffi::CStr;
use std::sync::Arc;

use margay_blas::Plan;
use margay_native::launch;

use crate::driver::{Driver, Range, status_of};
use crate::status::Status;

/// Memory that the tasks of a plan read and that lives as long as the driver may run them.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

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
        let kept = kept.cloned();
        // One kernel is enough for the checks of the ranges.
        let ranges = if index == 0 { ranges } else { &[] };
        let run = move |task| {
            // The memory lives as long as the kernel.
            let _kept = &kept;
            (stage.run)(task);
            0
        };
        status_of(launch::submit(
            driver.native,
            stream,
            name,
            tasks,
            ranges,
            run,
        ))?;
    }
    Ok(())
}
