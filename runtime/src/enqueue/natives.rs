//! Submits native kernels to streams.

use crate::checks::CallStack;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::native_engine::Refused;
use crate::native_kernel::NativeKernel;
use crate::stream::Stream;

impl Stream {
    /// Launches a native kernel like a kernel: its tasks run on the workers after all earlier work of the stream. Does not
    /// wait for them, except in checking runs with blocking launches. In a capturing stream, adds a kernel node, and each
    /// launch of the graph runs all tasks again.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the native kernel has too many tasks or a name that is too long, and if one of its
    /// ranges exceeds the address space or is not inside memory that kernels may access in this way. (In a capturing
    /// stream, such a range is an error when the graph runs.) Also returns the errors of [`Stream::launch_packed`].
    pub fn launch_native(&self, kernel: &NativeKernel) -> Result<()> {
        self.check_launch()?;
        let (bound, config, params) = Kernel::of_native(self.context(), kernel)?;
        if kernel.tasks() == 0 {
            return Ok(());
        }
        if !self.is_watched() {
            check_ranges(self.context(), kernel)?;
        }
        self.launch_packed(&bound, config, params)
    }
}

/// Returns an error if a native kernel accesses memory that kernels may not access.
fn check_ranges(context: &Context, kernel: &NativeKernel) -> Result<()> {
    let machine = context.machine();
    let Some(visible) = machine.visible()? else {
        return Ok(());
    };
    let Some(refused) = Refused::first(&visible, kernel.name(), kernel.ranges()) else {
        return Ok(());
    };
    if let Some(findings) = &machine.findings {
        refused.report(findings, Some(&CallStack::capture()));
    }
    Err(Error::invalid(refused.fault.to_string()))
}
